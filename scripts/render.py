"""Render what is derived: the table of rules, `rules.md`, `docs/cli.md`, the picture, what stands beside the example.

`python scripts/render.py` writes them; with `--check` it writes nothing and fails where one is stale.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import click
from example import example
from picture import picture

from ptlint import registry
from ptlint.rule import Rule
from ptlint.rules import FAMILIES

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "ptlint" / "rules" / "index.py"
FIXABLE = {"no": "none", "safe": "safe", "unsafe": "unsafe", "both": "safe or unsafe"}

INDEX_HEAD = '''\
"""The rules as a table, so that a run that needs none of them imports none of them.

Rendered by `python scripts/render.py` from the rule classes: change those, not this.
"""

# fmt: off

from __future__ import annotations

from ptlint.findings import Impact
from ptlint.rules import Entry

RULES: tuple[Entry, ...] = (
'''

RULES_HEAD = """\
<!-- Rendered by `python scripts/render.py` from the rules' docstrings: change those, not this. -->

# Rules

What ptlint finds, when it stays silent, and what it rewrites. `ptlint rule CODE` prints the same.

*Impact* is what a fault usually costs. *Preview* rules need `--preview`. A *safe* fix is made by `--fix`: training
computes the same bits, only faster. An *unsafe* one may change numerics, random streams, process layout or how the
program fails, and needs `--unsafe-fixes` as well.

"""

CLI_HEAD = """\
<!-- Rendered by `python scripts/render.py` from the commands' own help: change that, not this. -->

# Command line

`ptlint PATH…` is short for `ptlint check PATH…`; with no path, the current folder is linted.

Exit status: 0, nothing found (or no Python file: a warning); 1, findings (files that cannot be parsed included), or
`--diff` is not empty; 2, wrong use, a broken config, a missing path, or a failure of ptlint's own (PTL000).
`--exit-zero` turns 1 into 0, never 2.
"""


def rendered() -> dict[Path, str]:
    """What each derived file should hold."""
    rules = sorted(registry.discover(), key=lambda rule: rule.code)
    return {
        INDEX: index(rules),
        ROOT / "rules.md": rules_page(rules),
        ROOT / "docs" / "cli.md": cli_page(),
        ROOT / "docs" / "ptlint.svg": picture(ROOT),
        **example(ROOT),
    }


def index(rules: Iterable[type[Rule]]) -> str:
    lines = [INDEX_HEAD]
    for rule in rules:
        lines.append(
            f"    Entry(\n"
            f"        code={_literal(rule.code)},\n"
            f"        name={_literal(rule.name)},\n"
            f"        message={_literal(rule.message)},\n"
            f"        impact=Impact.{rule.impact.name},\n"
            f"        preview={rule.preview},\n"
            f"        fixable={_literal(rule.fixable)},\n"
            f"        torch={_literal(rule.torch)},\n"
            f"        options={_literal(rule.options)},\n"
            f"        roots={_literal(rule.roots)},\n"
            f"        module={_literal(rule.__module__)},\n"
            f"    ),\n"
        )
    return "".join(lines) + ")\n"


def rules_page(rules: list[type[Rule]]) -> str:
    parts = [RULES_HEAD]
    for prefix, title in FAMILIES.items():
        family = [rule for rule in rules if rule.code.startswith(prefix)]
        if not family:
            continue
        parts.append(f"## {prefix} {title}\n\n| code | name | | impact | fix |\n|---|---|---|---|---|\n")
        for rule in family:
            state = "preview" if rule.preview else "on"
            link = f"[{rule.code}](#{rule.code.lower()})"
            parts.append(f"| {link} | {rule.name} | {state} | {rule.impact.label} | {FIXABLE[rule.fixable]} |\n")
        parts.append("\n")
        parts.extend(_rule_section(rule) for rule in family)
    return "".join(parts).rstrip() + "\n"


def _rule_section(rule: type[Rule]) -> str:
    doc = re.sub(r"^## ", "#### ", inspect.cleandoc(rule.__doc__ or ""), flags=re.MULTILINE)
    doc = re.sub(r"^(#### .+)\n(?=\S)", r"\1\n\n", doc, flags=re.MULTILINE)
    since = f" PyTorch {rule.torch}." if rule.torch else ""
    head = f'<a id="{rule.code.lower()}"></a>\n\n### {rule.code} {rule.name}\n\n*{_sentence(rule.message)}*{since}\n\n'
    return head + doc + "\n\n"


def cli_page() -> str:
    from ptlint.cli import commands

    return CLI_HEAD + "".join(_command_section(name, command) for name, command in commands().items())


def _command_section(name: str, command: click.Command) -> str:
    """Not click's own help text, whose shape differs from version to version."""
    arguments = " ".join(
        param.metavar or f"[{(param.name or '').upper()}]"
        for param in command.params
        if isinstance(param, click.Argument)
    )
    lines = [f"\n## ptlint {name}\n\n`ptlint {name} [OPTIONS] {arguments}`\n"]
    lines += [inspect.cleandoc(command.help or ""), "", "| option | |", "|---|---|"]
    for param in command.params:
        if isinstance(param, click.Option):
            names = " / ".join(f"`{option}`" for option in (*param.opts, *param.secondary_opts))
            choices = ", ".join(map(str, param.type.choices)) if isinstance(param.type, click.Choice) else ""
            text = f"{param.help or ''}{f' One of: {choices}.' if choices else ''}"
            lines.append(f"| {names} | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def _literal(value: object) -> str:
    """A literal as ruff would quote it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        inner = ", ".join(_literal(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def _sentence(message: str) -> str:
    text = message if message.startswith("`") else message[:1].upper() + message[1:]
    return text if text.endswith(".") else text + "."


def main() -> int:
    stale = []
    for path, text in rendered().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if "--check" not in sys.argv[1:]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"{name} is stale: run `python scripts/render.py`")
        return 1 if stale else 0
    for name in stale:
        print(f"rendered {name}")
    if INDEX.relative_to(ROOT) in stale:
        # What was rendered from the old table must be rendered from the new one.
        os.execv(sys.executable, [sys.executable, *sys.argv])
    return 0


if __name__ == "__main__":
    sys.exit(main())

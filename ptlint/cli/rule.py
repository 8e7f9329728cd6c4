"""`ptlint rule`: what a rule finds, why that is slow, and when it stays silent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ptlint.cli.messages import NearChoice

if TYPE_CHECKING:
    from ptlint.rules import Entry


@click.command(short_help="Explain a rule, or all of them.")
@click.argument("code", required=False)
@click.option("--all", "every", is_flag=True, help="Explain every rule.")
@click.option("--output-format", type=NearChoice(["text", "json"]), default="text", help="How to print it.")
def rule(code: str | None, every: bool, output_format: str) -> int:
    """Explain a rule, given by its code or name, or all of them."""
    from ptlint import registry

    if (code is None) is not every:
        raise click.UsageError("give one rule's code or name, or --all")
    if code is None:
        entries = tuple(registry.BY_CODE.values())
    else:
        entry = registry.find(code)
        if entry is None:
            raise click.UsageError(registry.unknown(code))
        entries = (entry,)
    if output_format == "json":
        rows = [_row(entry) for entry in entries]
        click.echo(json.dumps(rows if every else rows[0], indent=2, ensure_ascii=False))
    else:
        click.echo("\n\n".join(_text(entry) for entry in entries))
    return 0


def _row(entry: Entry) -> dict[str, Any]:
    from ptlint import registry
    from ptlint.report.urls import rule_url

    return {
        "code": entry.code,
        "name": entry.name,
        "message": entry.message,
        "impact": entry.impact.label,
        "preview": entry.preview,
        "fixable": entry.fixable,
        "torch": entry.torch,
        "url": rule_url(entry.code),
        "explanation": registry.documentation(entry),
    }


def _text(entry: Entry) -> str:
    from ptlint import registry

    state = "preview" if entry.preview else "on by default"
    fix = {"no": "no fix", "both": "safe and unsafe fixes"}.get(entry.fixable, f"{entry.fixable} fix")
    needs = f", PyTorch {entry.torch}" if entry.torch else ""
    head = click.style(f"{entry.code} {entry.name}", bold=True)
    facts = click.style(f"{entry.impact.label} impact, {state}, {fix}{needs}", dim=True)
    lines = [
        click.style(line[3:], bold=True) if line.startswith("## ") else line
        for line in registry.documentation(entry).splitlines()
    ]
    return "\n".join([head, facts, "", *lines])

"""Made-up rules and a scratch project, so that the engine is tested without the real ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ptlint import engine, registry
from ptlint.config import Config
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.outline.project import Program, Project
from ptlint.paths import shown
from ptlint.rules import Entry


@dataclass(frozen=True)
class FakeRule:
    """Finds every call of one name, in every file of the program."""

    code: str
    name: str
    calls: str
    crashes: bool = False
    preview: bool = False
    safety: Safety | None = None

    def check(self, facts: Any) -> Iterator[Finding]:
        for path in facts.program.files:
            source = facts.project.file(path).source
            for node in ast.walk(ast.parse(source.text)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == self.calls:
                    start = source.offset(node.lineno, node.col_offset + 1)
                    end = source.offset(node.end_lineno or 1, (node.end_col_offset or 0) + 1)
                    fix = None
                    if self.safety is not None:
                        fix = Fix("Call it fast", self.safety, (Edit(start, start + len(self.calls), "fast"),))
                    yield Finding(
                        self.code,
                        self.name,
                        f"`{self.calls}` is slow",
                        shown(path),
                        source.position(start),
                        source.position(end),
                        start,
                        end,
                        preview=self.preview,
                        fix=fix,
                    )
        if self.crashes:
            raise KeyError("a fault of ours")


SLOW = FakeRule("PTL901", "slow-call", "slow", safety=Safety.SAFE)
OTHER = FakeRule("PTL902", "other-call", "other")
BROKEN = FakeRule("PTL903", "broken-rule", "slow", crashes=True)


class Bench:
    """A scratch project and the rules of a test."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.analysed: list[Path] = []
        self._monkeypatch = monkeypatch
        self.rules(SLOW, OTHER)
        monkeypatch.setattr("ptlint.facts.program.analyse", self.analyse)
        monkeypatch.setattr("ptlint.facts.reasons.Reasons.chain", lambda *_: [])

    def analyse(self, project: Project, program: Program, *_: object) -> Any:
        """Stands for the facts' front door."""
        self.analysed.append(program.entry)
        return SimpleNamespace(project=project, program=program)

    def rules(self, *rules: FakeRule) -> None:
        about = [entry for entry in registry.BY_CODE.values() if entry.code.startswith("PTL0")]
        entries = [
            Entry(rule.code, rule.name, "m", Impact.MEDIUM, rule.preview, "both", None, (), (rule.calls,), "")
            for rule in rules
        ]
        by_code = {rule.code: rule for rule in rules}
        self._monkeypatch.setattr(registry, "RULES", (*about, *entries))
        self._monkeypatch.setattr(registry, "BY_CODE", {entry.code: entry for entry in (*about, *entries)})
        self._monkeypatch.setattr(registry, "BY_NAME", {entry.name: entry for entry in (*about, *entries)})
        self._monkeypatch.setattr(registry, "load", lambda entry: by_code[entry.code])

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def findings(self, *names: str, **settings: Any) -> tuple[Finding, ...]:
        config = replace(Config(root=self.root), **settings)
        project = Project(self.root, tests=config.test_globs)
        files = [self.root / name for name in names] or project.files
        return engine.lint(project, files, config).findings

    def lint(self, *names: str, **settings: Any) -> list[tuple[str, int, str]]:
        return [(f.filename, f.location.row, f.code) for f in self.findings(*names, **settings)]

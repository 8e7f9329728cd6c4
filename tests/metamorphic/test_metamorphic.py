"""Other names, other imports, other files and counted loops change nothing in what ptlint finds in a fixture."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from fixture_files import Fixture, fixtures, stripped

from metamorphic.laws import CHANGES, Change
from metamorphic.names import Program

Found = Counter[tuple[str, str, int]]


def _cases() -> Iterator[object]:
    for fixture in fixtures():
        program = _program(fixture)
        if program is not None:
            for change in CHANGES:
                if change.applies(program):
                    yield pytest.param(fixture, change, id=f"{fixture.name}-{change.name}")


@cache
def _program(fixture: Fixture) -> Program | None:
    """The fixture's texts without markers; None where they are not to be read as Python."""
    program = {name: stripped(source.text) for name, source in fixture.files().items()}
    try:
        for text in program.values():
            ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    return program


@cache
def _findings_before(fixture: Fixture, scratch: Path) -> Found:
    return _findings(fixture, fixture.copy(scratch / fixture.name))


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("before")


@pytest.mark.parametrize(("fixture", "change"), list(_cases()))
def test_findings_stay(fixture: Fixture, change: Change, tmp_path: Path, scratch: Path) -> None:
    program = _program(fixture)
    assert program is not None
    changed = change.make(program)
    folder = fixture.copy(tmp_path / "code")
    for name, text in changed.items():
        ast.parse(text)
        source = fixture.files().get(name)
        (folder / name).write_bytes(text.encode() if source is None else source.encode(text))
    before, after = _findings_before(fixture, scratch), _findings(fixture, folder)
    if len(changed) > len(program):
        before, after = (_in_one_file(found, program) for found in (before, after))
    lost, new = before - after, after - before
    assert not lost and not new, "\n".join(_told("lost", lost, changed) + _told("new", new, changed))


def _findings(fixture: Fixture, folder: Path) -> Found:
    """Codes with files and rows; all rows of code are kept by every change."""
    findings = fixture.lint(folder, every_rule=True).report.findings
    return Counter(
        (finding.code, Path(finding.filename).absolute().relative_to(folder).as_posix(), finding.location.row)
        for finding in findings
    )


def _in_one_file(found: Found, program: Program) -> Found:
    """Findings of a script and of what was moved out of it as if all stood in it; imports may stand in both."""
    ((name, text),) = program.items()
    imports = {
        row
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for row in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    joined: Found = Counter()
    for (code, _, row), number in found.items():
        joined[code, name, row] += number
    return Counter({key: 1 if key[2] in imports else number for key, number in joined.items()})


def _told(what: str, found: Found, program: Program) -> list[str]:
    return [
        f"{what}: {code} {name}:{row} {program[name].splitlines()[row - 1].strip()}"
        for code, name, row in sorted(found)
    ]

"""What `ptlint FILE` finds in FILE is what `ptlint PROJECT` finds there, word for word."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from agreement import disagreements
from fixture_files import Fixture, fixtures
from generated_projects import generated

from ptlint.runner import Request, run

FOLDERS = [fixture for fixture in fixtures() if fixture.path.is_dir()]
SEEDS = range(10)


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("fixture", FOLDERS, ids=lambda fixture: fixture.name)
def test_on_fixtures(fixture: Fixture, tmp_path: Path) -> None:
    folder = fixture.copy(tmp_path / "code")
    assert _disagreements(folder) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_on_generated_projects(seed: int, tmp_path: Path) -> None:
    folder = _written(seed, tmp_path / "code")
    assert _disagreements(folder) == []


def test_the_generated_projects_are_worth_linting(tmp_path: Path) -> None:
    codes = set()
    shared = 0
    for seed in SEEDS:
        folder = _written(seed, tmp_path / str(seed))
        findings = run(Request((folder,), isolated=True, root=folder)).report.findings
        codes |= {finding.code for finding in findings}
        shared += len({Path(finding.filename).name for finding in findings} & {"data.py", "loops.py", "model.py"})
        for path in folder.rglob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"))
    assert len(codes) >= 4
    assert shared >= len(SEEDS)


def _disagreements(folder: Path) -> list[str]:
    return [line for found in disagreements(folder, root=folder) for line in found.lines()]


def _written(seed: int, folder: Path) -> Path:
    for name, text in generated(seed).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder

"""Every rule against its fixtures, by laws that hold for all of them."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fixture_files import FOLDER, Fixture, expected_of, fixtures, python_files

from ptlint import registry
from ptlint.config import DEFAULT_TESTS, Config
from ptlint.rule import USE_INSTEAD, Rule, sections
from ptlint.runner import Request, run
from ptlint.source.patterns import is_test_file

PRELUDE = (FOLDER / "example_prelude.py").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)

ALL = fixtures()
BAD = [fixture for fixture in ALL if fixture.bad]
RULES = [rule for rule in registry.discover() if rule.roots]

each = pytest.mark.parametrize("fixture", ALL, ids=lambda fixture: fixture.name)
each_bad = pytest.mark.parametrize("fixture", BAD, ids=lambda fixture: fixture.name)
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@each
def test_findings_are_what_the_markers_say(fixture: Fixture, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-fixtures"):
        fixture.update(tmp_path / "update")
    folder = fixture.copy(tmp_path / "code")
    found = expected_of(fixture.lint(folder).report.findings, folder)
    assert found == fixture.expected()
    assert bool(found) is fixture.bad, "a bad fixture has findings, a good one has none"


@each_bad
def test_fixing_gives_the_fixed_text_and_rests_there(fixture: Fixture, tmp_path: Path) -> None:
    fixable = any(item.safety for item in fixture.expected())
    assert fixable is fixture.fixed.exists(), f"{fixture.fixed.name} stands beside a fixture with fixes, only there"
    folder = fixture.copy(tmp_path / "code")
    before = {name: source.text for name, source in python_files(folder).items()}
    fixture.lint(folder, fix=True)
    once = {name: source.text for name, source in python_files(folder).items()}
    wanted = before
    if fixable:
        written = python_files(fixture.fixed).items()
        wanted = {name if fixture.path.is_dir() else fixture.path.name: source.text for name, source in written}
    assert once == wanted
    fixture.lint(folder, fix=True)
    assert {name: source.text for name, source in python_files(folder).items()} == once
    if fixable:
        for text in once.values():
            ast.parse(text)


@each
def test_no_rule_fails_on_it(fixture: Fixture, tmp_path: Path) -> None:
    folder = fixture.copy(tmp_path / "code")
    found = fixture.lint(folder, every_rule=True).report.findings
    assert [finding.message for finding in found if finding.code == registry.INTERNAL_ERROR] == []


@each
def test_its_files_are_not_taken_for_tests(fixture: Fixture) -> None:
    taken = [name for name in fixture.files() if is_test_file(FOLDER / name, FOLDER, DEFAULT_TESTS)]
    assert not taken or fixture.settings.exists(), "ptlint says nothing about tests"


@each_bad
def test_a_rule_with_fixes_says_so(fixture: Fixture) -> None:
    for item in fixture.expected():
        allowed = {"no": (), "safe": ("safe",), "unsafe": ("unsafe",), "both": ("safe", "unsafe")}
        if item.safety:
            assert item.safety in allowed[registry.BY_CODE[item.code].fixable], item


@each_rule
def test_every_rule_has_fixtures(rule: type[Rule]) -> None:
    assert (FOLDER / rule.code).is_dir(), f"tests/fixtures/{rule.code}/ is missing"
    assert any(fixture.bad for fixture in ALL if fixture.code == rule.code)
    assert any(not fixture.bad for fixture in ALL if fixture.code == rule.code)


@each_rule
def test_code_name_class_and_file_agree(rule: type[Rule]) -> None:
    assert rule.__module__.rpartition(".")[2] == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"
    assert rule.__name__.lower() == rule.name.replace("-", "")


@each_rule
def test_the_docstring_examples_are_true(rule: type[Rule], tmp_path: Path) -> None:
    example = sections(rule.__doc__ or "")["Example"]
    slow, separator, better = example.partition(USE_INSTEAD)
    assert separator
    assert _examples_findings(rule, slow, tmp_path / "slow"), "the example is not found"
    assert not _examples_findings(rule, better, tmp_path / "better"), "what to use instead is found too"


def _examples_findings(rule: type[Rule], text: str, folder: Path) -> list[str]:
    blocks = BLOCK.findall(text)
    assert len(blocks) == 1, "one Python block before and one after `Use instead:`"
    folder.mkdir()
    (folder / "example.py").write_text(f"{PRELUDE}\n\n{blocks[0]}", encoding="utf-8")
    rows = PRELUDE.count("\n") + 2
    asked = Request((folder,), isolated=True, root=folder, override=lambda config: _with_rule(config, rule))
    outcome = run(asked)
    findings = outcome.report.findings
    assert [finding.message for finding in findings if finding.code == registry.INTERNAL_ERROR] == []
    return [finding.message for finding in findings if finding.location.row > rows]


def _with_rule(config: Config, rule: type[Rule]) -> Config:
    return replace(config, select=(rule.code,), preview=rule.preview)

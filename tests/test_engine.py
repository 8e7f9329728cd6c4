"""The engine over made-up rules: screening, isolation, suppression, programs, tests, what a run shows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from made_up_rules import BROKEN, OTHER, SLOW, Bench

from ptlint import engine, registry
from ptlint.config import Config
from ptlint.findings import Impact, Safety
from ptlint.outline.project import Program, Project


def test_nothing_is_analysed_where_no_root_is(bench: Bench) -> None:
    bench.write("a.py", "x = 1\n")
    bench.write("b.py", "slow()\n")
    assert bench.lint() == [("b.py", 1, "PTL901")]
    assert bench.analysed == [bench.root / "b.py"]


@pytest.mark.parametrize(
    ("root", "text", "holds"),
    [
        pytest.param("backward", "loss.backward()\n", True, id="attribute"),
        pytest.param("torch.cuda.empty_cache", "torch.cuda.empty_cache()\n", True, id="dotted"),
        pytest.param("While", "while x:\n    f()\n", True, id="node"),
        pytest.param(("For|While", "backward"), "for a in b:\n    a.backward()\n", True, id="all of a tuple"),
        pytest.param(("For|While", "backward"), "for a in b:\n    pass\na.backward()\n", False, id="in one statement"),
        pytest.param("backward", "forward()\n", False, id="absent"),
    ],
)
def test_roots(bench: Bench, root: str | tuple[str, ...], text: str, holds: bool) -> None:
    entry = registry.BY_CODE[SLOW.code]._replace(roots=(root,))
    bench._monkeypatch.setattr(registry, "RULES", (entry,))
    bench.write("a.py", text)
    bench.lint()
    assert bool(bench.analysed) is holds


def test_a_rule_that_crashes_is_one_finding_and_the_others_go_on(bench: Bench) -> None:
    bench.rules(BROKEN, OTHER)
    bench.write("a.py", "slow()\nother()\n")
    findings = bench.findings()
    assert [finding.code for finding in findings] == ["PTL000", "PTL903", "PTL902"]
    assert "rule PTL903 failed: KeyError: 'a fault of ours' (made_up_rules.py:" in findings[0].message
    bench.rules(BROKEN, replace(BROKEN, code="PTL904", name="another-one"))
    assert [finding.code for finding in bench.findings()] == ["PTL000", "PTL000", "PTL903", "PTL904"]
    bench.rules(BROKEN, OTHER)
    assert [f.code for f in bench.findings(select=("PTL902",))] == ["PTL902"]
    assert [f.code for f in bench.findings(select=("PTL903",), min_impact=Impact.HIGH)] == ["PTL000"]


def test_no_comment_is_called_unused_where_a_rule_failed(bench: Bench) -> None:
    bench.rules(BROKEN, OTHER)
    bench.write("a.py", "slow()  # ptlint: ignore[PTL903]\nx = 1  # ptlint: ignore\n")
    assert bench.lint() == [("a.py", 1, "PTL000")]


def test_an_analysis_that_crashes_costs_its_program_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def analyse(project: Project, program: Program, *_: object) -> Any:
        if program.entry.name == "a.py":
            raise RecursionError("too deep")
        return SimpleNamespace(project=project, program=program)

    monkeypatch.setattr("ptlint.facts.program.analyse", analyse)
    bench.write("a.py", "slow()\n")
    bench.write("b.py", "slow()\n")
    assert bench.lint() == [("a.py", 1, "PTL000"), ("b.py", 1, "PTL901")]


def test_a_file_and_its_project_agree(bench: Bench) -> None:
    bench.write("main.py", "import helper\nother()\n")
    bench.write("helper.py", "slow()\n")
    assert bench.lint() == [("helper.py", 1, "PTL901"), ("main.py", 2, "PTL902")]
    assert bench.lint("helper.py") == [("helper.py", 1, "PTL901")]
    assert bench.lint("main.py") == [("main.py", 2, "PTL902")]


def test_a_shared_file_has_each_finding_once(bench: Bench) -> None:
    bench.write("one.py", "import helper\n")
    bench.write("two.py", "import helper\n")
    bench.write("helper.py", "slow()\n")
    assert bench.lint() == [("helper.py", 1, "PTL901")]


def test_a_fix_counts_only_where_every_program_allows_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    by_entry = {
        "one.py": replace(SLOW, safety=Safety.SAFE),
        "two.py": replace(SLOW, safety=Safety.UNSAFE),
        "three.py": replace(SLOW, safety=None),
    }
    rule = SimpleNamespace(check=lambda facts: by_entry[facts.program.entry.name].check(facts))
    monkeypatch.setattr(registry, "load", lambda entry: rule)
    bench.write("helper.py", "slow()\n")
    bench.write("one.py", "import helper\n")
    bench.write("two.py", "import helper\n")
    (finding,) = bench.findings()
    assert finding.fix is not None
    assert finding.fix.safety is Safety.UNSAFE
    bench.write("three.py", "import helper\n")
    (finding,) = bench.findings()
    assert finding.fix is None


def test_tests_get_only_ptl0(bench: Bench) -> None:
    bench.write("tests/test_a.py", "slow()\nx = 1  # ptlint: ignore[PTL999]\ny = 1  # ptlint: ignore[PTL901]\n")
    assert bench.lint() == [("tests/test_a.py", 2, "PTL003")]
    assert bench.lint(tests=()) == [
        ("tests/test_a.py", 1, "PTL901"),
        ("tests/test_a.py", 2, "PTL003"),
        ("tests/test_a.py", 3, "PTL001"),
    ]


def test_preview_rules_need_preview(bench: Bench) -> None:
    bench.rules(replace(SLOW, preview=True))
    bench.write("a.py", "slow()\nx = 1  # ptlint: ignore[PTL901]\n")
    assert bench.lint() == []
    assert bench.lint(select=("PTL901",)) == []
    assert bench.lint(preview=True) == [("a.py", 1, "PTL901"), ("a.py", 2, "PTL001")]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param("slow()  # ptlint: ignore[PTL901]\n", [], id="by code"),
        pytest.param("slow()  # ptlint: ignore[slow-call]\n", [], id="by name"),
        pytest.param("slow()  # ptlint: ignore\n", [], id="bare"),
        pytest.param("slow()  # noqa: PTL901\n", [], id="noqa"),
        pytest.param("slow()  # noqa: E501, PTL901\n", [], id="noqa among others"),
        pytest.param("slow()  # noqa\n", [], id="bare noqa"),
        pytest.param("slow()  # noqa: E501\n", [1], id="noqa of another tool"),
        pytest.param("slow()  # ptlint: ignore[PTL902]\n", [1], id="another code"),
        pytest.param("# ptlint: ignore[PTL901]\nslow()\nslow()\n", [3], id="own line above, the next statement only"),
        pytest.param("# ptlint: ignore[PTL901]\n# why\n\nslow()\n", [], id="own line with more comments between"),
        pytest.param("x = (\n    slow(),\n    2,  # ptlint: ignore[PTL901]\n)\n", [], id="any line of a statement"),
        pytest.param("for a in slow():  # ptlint: ignore[PTL901]\n    slow()\n", [2], id="header, not body"),
        pytest.param("for a in slow(\n    1,  # ptlint: ignore[PTL901]\n):\n    slow()\n", [4], id="long header"),
        pytest.param("@slow()\n@deco  # ptlint: ignore[PTL901]\ndef f():\n    slow()\n", [4], id="decorators"),
        pytest.param("slow()\nslow()\n# ptlint: ignore-file[PTL901]\n", [], id="file"),
        pytest.param("slow()\n# ptlint: ignore-file\n", [], id="file, bare"),
        pytest.param("slow(); x = '# ptlint: ignore[PTL901]'\n", [1], id="not in a string"),
        pytest.param("if a:\n    # ptlint: ignore[PTL901]\n    slow()\nelse:\n    slow()\n", [5], id="in a block"),
    ],
)
def test_suppression(bench: Bench, text: str, rows: list[int]) -> None:
    bench.write("a.py", text)
    assert [row for _, row, code in bench.lint() if code == "PTL901"] == rows


@pytest.mark.parametrize(
    ("text", "settings", "fixed"),
    [
        pytest.param("x = 1  # ptlint: ignore[PTL901]\n", {}, "x = 1\n", id="the comment goes"),
        pytest.param("# ptlint: ignore[PTL901]\nx = 1\n", {}, "x = 1\n", id="the row goes"),
        pytest.param("x = 1  # ptlint: ignore\n", {}, "x = 1\n", id="bare"),
        pytest.param("x = 1  # noqa: PTL901\n", {}, "x = 1\n", id="noqa"),
        pytest.param("x = 1  # noqa: E501, PTL901\n", {}, "x = 1  # noqa: E501\n", id="others stay"),
        pytest.param("slow()  # noqa: PTL902,PTL901\n", {}, "slow()  # noqa: PTL901\n", id="used ones stay"),
        pytest.param("x = 1  # ptlint: ignore[PTL901] why\n", {}, "x = 1  # why\n", id="text behind stays"),
        pytest.param("x = 1  # noqa: PTL901  # why\n", {}, "x = 1  # why\n", id="a comment behind stays"),
        pytest.param("# ptlint: ignore-file[PTL901, PTL902]\nslow()\n", {}, "# ptlint: ignore-file[PTL901]\nslow()\n"),
        pytest.param("x = 1  # noqa\n", {}, None, id="bare noqa is never judged"),
        pytest.param("x = 1  # noqa: E501\n", {}, None, id="another tool's"),
        pytest.param("x = 1  # ptlint: ignore[PTL901]\n", {"select": ("PTL902", "PTL001")}, None, id="did not run"),
        pytest.param("x = 1  # ptlint: ignore\n", {"select": ("PTL902", "PTL001")}, None, id="not all ran"),
        pytest.param("x = 1  # ptlint: ignore[PTL901]\n", {"ignore": ("PTL001",)}, None, id="not asked for"),
        pytest.param("slow()  # ptlint: ignore[PTL901]\n", {"min_impact": Impact.HIGH}, None, id="hidden is used"),
        pytest.param("x = 1  # ptlint: ignore[PTL901, PTL001]\n", {}, None, id="silenced itself"),
    ],
)
def test_unused_suppressions(bench: Bench, text: str, settings: dict[str, Any], fixed: str | None) -> None:
    bench.write("a.py", text)
    findings = [finding for finding in bench.findings(**settings) if finding.code == "PTL001"]
    if fixed is None:
        assert findings == []
        return
    (finding,) = findings
    assert finding.fix is not None
    assert finding.fix.safety is Safety.SAFE
    (edit,) = finding.fix.edits
    assert text[: edit.start] + edit.text + text[edit.end :] == fixed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slow()  # noqa PTL901\n", "lacks its colon"),
        ("slow()  # ptlint: ignore[]\n", "no rule is named"),
        ("slow()  # ptlint: ignore[PTL999]\n", "unknown rule `PTL999`"),
        ("slow()  # ptlint: ignore[slow-cal]\n", "did you mean `slow-call`?"),
        ("slow()  # noqa: PTL90\n", "unknown rule `PTL90`; one rule has to be named: `PTL901`"),
    ],
)
def test_malformed_suppressions_silence_nothing(bench: Bench, text: str, said: str) -> None:
    bench.write("a.py", text)
    findings = bench.findings()
    assert [finding.code for finding in findings] == ["PTL901", "PTL003"]
    assert said in findings[1].message


def test_per_rule_impact(bench: Bench) -> None:
    bench.write("a.py", "slow()\n")
    (finding,) = bench.findings(rules={"slow-call": {"impact": "high"}}, min_impact=Impact.HIGH)
    assert finding.impact is Impact.HIGH


def test_every_file_is_counted_when_read_and_when_judged(bench: Bench) -> None:
    for name in ("a.py", "b.py", "tests/test_c.py"):
        bench.write(name, "slow()\n")
    ticks: list[None] = []
    project = Project(bench.root)
    engine.lint(project, project.files, Config(root=bench.root), lambda: ticks.append(None))
    assert len(ticks) == 6

"""Fixing, adding suppressions, and grouping files by project and config, over made-up rules."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up_rules import OTHER, SLOW, Bench

from ptlint.config import Config
from ptlint.findings import Safety
from ptlint.runner import Outcome, Request, run
from ptlint.source.discover import discover


def go(*paths: str, stdin: bytes | None = None, stdin_filename: str | None = None, **settings: Any) -> Outcome:
    """A run with these settings; `diff`, `add_ignores` and `root` are the request's own."""
    own = {key: settings.pop(key) for key in ("diff", "add_ignores", "root", "config_file") if key in settings}

    def override(config: Config) -> Config:
        return replace(config, **settings)

    named = Path(stdin_filename) if stdin_filename else None
    given = tuple(map(Path, paths)) or (Path("-" if stdin is not None else "."),)
    return run(Request(given, stdin=stdin, stdin_filename=named, override=override, **own))


def codes(outcome: Outcome) -> list[tuple[str, int, str]]:
    return [(f.filename, f.location.row, f.code) for f in outcome.report.findings]


def test_safe_and_unsafe_fixes(bench: Bench) -> None:
    bench.rules(SLOW, replace(OTHER, safety=Safety.UNSAFE))
    bench.write("a.py", "slow()\nother()\nslow()  # ptlint: ignore[PTL901]\n")
    outcome = go(fix=True)
    assert bench.read("a.py") == "fast()\nother()\nslow()  # ptlint: ignore[PTL901]\n"
    assert codes(outcome) == [("a.py", 2, "PTL902")]
    assert outcome.report.fixed == {"a.py": 1}
    assert outcome.status == 1
    outcome = go(fix=True, unsafe_fixes=True)
    assert bench.read("a.py") == "fast()\nfast()\nslow()  # ptlint: ignore[PTL901]\n"
    assert (outcome.status, outcome.report.fixed) == (0, {"a.py": 1})


def test_only_named_files_are_fixed(bench: Bench) -> None:
    bench.write("main.py", "import helper\nslow()\n")
    bench.write("helper.py", "slow()\n")
    assert go("main.py", fix=True).status == 0
    assert bench.read("main.py") == "import helper\nfast()\n"
    assert bench.read("helper.py") == "slow()\n"


def test_diff_of_several_files(bench: Bench) -> None:
    bench.write("a.py", "slow()\n")
    bench.write("b/c.py", "slow()")
    outcome = go(diff=True)
    assert outcome.status == 1
    assert outcome.diff == (
        "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-slow()\n+fast()\n"
        "--- b/c.py\n+++ b/c.py\n@@ -1 +1 @@\n-slow()\n\\ No newline at end of file\n"
        "+fast()\n\\ No newline at end of file\n"
    )
    assert bench.read("a.py") == "slow()\n"


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everything")
def test_a_read_only_file_is_an_error(bench: Bench) -> None:
    bench.write("a.py", "slow()\n")
    (bench.root / "a.py").chmod(0o444)
    outcome = go(fix=True)
    assert outcome.status == 2
    assert outcome.errors == ("a.py: the fixes are not written: the file is read-only",)


def test_a_file_that_changes_during_the_run_is_left_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("a.py", "slow()\n")

    def analyse(*given: Any) -> Any:
        bench.write("a.py", "slow()  # saved by an editor\n")
        return bench.analyse(*given)

    monkeypatch.setattr("ptlint.facts.program.analyse", analyse)
    outcome = go(fix=True)
    assert outcome.status == 2
    assert "changed by someone else" in outcome.errors[0]
    assert bench.read("a.py") == "slow()  # saved by an editor\n"


def test_a_file_that_vanishes_is_one_finding(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("a.py", "slow()\n")
    bench.write("b.py", "slow()\n")

    def discover_and_delete(*given: Any, **named: Any) -> Any:
        found = discover(*given, **named)
        (bench.root / "a.py").unlink()
        return found

    monkeypatch.setattr("ptlint.plan.discover", discover_and_delete)
    assert codes(go()) == [("a.py", 1, "PTL002"), ("b.py", 1, "PTL901")]


@pytest.mark.parametrize(
    ("text", "added"),
    [
        pytest.param("slow()\n", "slow()  # ptlint: ignore[PTL901]\n", id="plain"),
        pytest.param("slow()", "slow()  # ptlint: ignore[PTL901]", id="no line end"),
        pytest.param("slow()\r\nx\r\n", "slow()  # ptlint: ignore[PTL901]\r\nx\r\n", id="CRLF"),
        pytest.param("slow()  # why\n", "slow()  # why  # ptlint: ignore[PTL901]\n", id="behind a comment"),
        pytest.param("slow(other())\n", "slow(other())  # ptlint: ignore[PTL901, PTL902]\n", id="two in a row"),
        pytest.param(
            "slow(other())  # ptlint: ignore[PTL902]\n",
            "slow(other())  # ptlint: ignore[PTL902, PTL901]\n",
            id="into the brackets",
        ),
        pytest.param(
            "slow(\n    1,\n)\n", "slow(  # ptlint: ignore[PTL901]\n    1,\n)\n", id="first row of a statement"
        ),
        pytest.param(
            'x = slow("""a\nb""")\n', 'x = slow("""a\nb""")  # ptlint: ignore[PTL901]\n', id="behind a long string"
        ),
        pytest.param(
            "x = slow() + \\\n    1\n", "x = slow() + \\\n    1  # ptlint: ignore[PTL901]\n", id="behind a backslash"
        ),
        pytest.param(
            "if slow():\n    slow()\n",
            "if slow():  # ptlint: ignore[PTL901]\n    slow()  # ptlint: ignore[PTL901]\n",
            id="header and body",
        ),
    ],
)
def test_added_ignores_silence_and_nothing_else_changes(bench: Bench, text: str, added: str) -> None:
    (bench.root / "a.py").write_bytes(text.encode())
    outcome = go(add_ignores=True)
    assert (bench.root / "a.py").read_bytes().decode() == added
    assert outcome.status == 0
    assert codes(go()) == []


def test_stdin_stands_for_its_file(bench: Bench) -> None:
    bench.write("main.py", "import helper\n")
    bench.write("helper.py", "x = 1\n")
    outcome = go(stdin=b"slow()\n", stdin_filename="helper.py")
    assert codes(outcome) == [("helper.py", 1, "PTL901")]
    assert bench.analysed == [bench.root / "main.py"]
    outcome = go(stdin=b"slow()\n", stdin_filename="helper.py", fix=True)
    assert outcome.stdin_result == b"fast()\n"
    assert bench.read("helper.py") == "x = 1\n"


def test_stdin_without_a_name_is_a_program_of_its_own(bench: Bench) -> None:
    bench.write("helper.py", "slow()\n")
    outcome = go(stdin=b"import helper\nslow()\n")
    assert codes(outcome) == [("-", 2, "PTL901")]
    assert outcome.report.notes == ()


def test_stdin_keeps_its_bytes(bench: Bench) -> None:
    data = "# -*- coding: latin-1 -*-\r\nslow()  # ä\r\n".encode("latin-1")
    assert go(stdin=data, fix=True).stdin_result == data.replace(b"slow", b"fast")
    assert go(stdin=b"\xff", fix=True).stdin_result == b"\xff"


def test_each_file_has_the_config_of_its_own_folder(bench: Bench) -> None:
    bench.write("ptlint.toml", "ignore = ['PTL902']\n")
    bench.write("a.py", "slow()\nother()\n")
    bench.write("inner/ptlint.toml", "ignore = ['PTL901']\nextend-exclude = ['skipped.py']\n")
    bench.write("inner/b.py", "slow()\nother()\n")
    bench.write("inner/skipped.py", "other()\n")
    assert codes(go()) == [("a.py", 1, "PTL901"), ("inner/b.py", 2, "PTL902")]
    assert codes(go("inner/skipped.py")) == [("inner/skipped.py", 1, "PTL902")]


def test_a_config_given_by_name_counts_for_all(bench: Bench) -> None:
    bench.write("other.toml", "ignore = ['PTL902']\n[per-file-ignores]\n'inner/*' = ['PTL901']\n")
    bench.write("inner/ptlint.toml", "ignore = ['PTL901']\n")
    bench.write("inner/b.py", "slow()\nother()\n")
    bench.write("a.py", "slow()\n")
    found = go(config_file=Path("other.toml"), root=bench.root)
    assert codes(found) == [("a.py", 1, "PTL901")]


def test_two_projects_in_one_run(bench: Bench) -> None:
    for name in ("one", "two"):
        bench.write(f"{name}/setup.py", "")
        bench.write(f"{name}/a.py", "import helper\n")
        bench.write(f"{name}/helper.py", "slow()\n")
    assert codes(go("one", "two")) == [("one/helper.py", 1, "PTL901"), ("two/helper.py", 1, "PTL901")]
    assert bench.analysed == [bench.root / "one" / "a.py", bench.root / "two" / "a.py"]

"""The articles' script: its docstring's table is what ptlint finds in it, each code once."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "slow_train.py"
ROW = re.compile(r"^ *(\d+) +(PTL\d{3}) +\S.*$", re.MULTILINE)


def table() -> list[tuple[int, str]]:
    """The rows of the table in the docstring: line and code."""
    docstring = ast.get_docstring(ast.parse(EXAMPLE.read_text("utf-8"))) or ""
    return [(int(line), code) for line, code in ROW.findall(docstring)]


def found(capsys: pytest.CaptureFixture[str]) -> list[tuple[int, str]]:
    """What `ptlint examples/slow_train.py` finds: line and code."""
    from ptlint.cli import main

    status = main(["check", "--isolated", "--no-cache", "--output-format", "json", str(EXAMPLE)])
    shown = capsys.readouterr()
    assert status == 1, shown.out + shown.err
    return sorted((entry["location"]["row"], entry["code"]) for entry in json.loads(shown.out))


def test_the_table_names_each_code_once() -> None:
    rows = table()
    assert rows == sorted(rows)
    assert set(Counter(code for _, code in rows).values()) == {1}
    asked = {"PTL101", "PTL102", "PTL201", "PTL202", "PTL301", "PTL401", "PTL501", "PTL601", "PTL901"}
    assert asked <= {code for _, code in rows}


def test_the_table_is_what_ptlint_finds(capsys: pytest.CaptureFixture[str]) -> None:
    assert found(capsys) == table()

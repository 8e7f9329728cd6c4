"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_rules import Bench


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-fixtures",
        action="store_true",
        help="rewrite the markers and the fixed texts of the rule fixtures to what ptlint says now; read the diff",
    )


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A scratch project, which is the working folder, under made-up rules."""
    monkeypatch.chdir(tmp_path)
    return Bench(tmp_path, monkeypatch)

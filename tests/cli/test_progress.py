"""Progress and colour: on a terminal only, and only when it takes long."""

from __future__ import annotations

import io

import pytest

from ptlint.cli import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("ptlint.cli.progress.time.monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    return now


def test_nothing_in_the_first_second(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.progress() as tick:
        clock[0] = 0.9
        tick(1, 4)
    assert terminal.getvalue() == ""


def test_then_a_line_that_is_wiped_at_the_end(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.progress() as tick:
        clock[0] = 1.5
        tick(1, 4)
        tick(2, 4)
    assert terminal.getvalue() == "\r\x1b[Kptlint: 25 %\r\x1b[K"


def test_nothing_where_there_is_no_terminal(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with progress.progress() as tick:
        clock[0] = 5.0
        tick(1, 4)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("environment", "terminal", "colour"),
    [
        pytest.param({}, True, True, id="terminal"),
        pytest.param({}, False, False, id="pipe"),
        pytest.param({"NO_COLOR": "1"}, True, False, id="NO_COLOR"),
        pytest.param({"FORCE_COLOR": "1"}, False, True, id="FORCE_COLOR"),
        pytest.param({"TERM": "dumb"}, True, False, id="dumb terminal"),
    ],
)
def test_colour(environment: dict[str, str], terminal: bool, colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert progress.wants_colour(Terminal() if terminal else io.StringIO()) is colour

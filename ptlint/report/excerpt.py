"""The source line of a finding with carets below what is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptlint.report.style import columns, printable

if TYPE_CHECKING:
    from ptlint.findings import Finding
    from ptlint.report.style import Style
    from ptlint.source.text import SourceFile

TAB = "    "
CUT = "…"
LEAST = 20
MOST = 240  # where there is no terminal to say


def excerpt(finding: Finding, source: SourceFile, style: Style) -> list[str]:
    """The finding's first line, cut to the terminal's width around the place, and a line of carets."""
    row = finding.location.row
    line = source.line(row)
    if not line.strip():
        return []
    start = min(finding.location.column - 1, len(line))
    end = finding.end_location.column - 1 if finding.end_location.row == row else len(line.rstrip())
    before, marked, after = (_plain(part) for part in (line[:start], line[start:end], line[end:].rstrip()))
    gutter = f"{row} | "
    room = max((MOST if style.width is None else style.width) - len(gutter) - 2, LEAST)
    before, marked, after = _cut(before, marked, after, room)
    margin = " " * (len(str(row)) + 1)
    carets = style.impact(finding.impact, "^" * max(columns(marked), 1))
    bar = style.paint("|", "dim")
    return [
        f"  {style.paint(str(row), 'dim')} {bar} {before}{marked}{after}",
        f"  {margin}{bar} {' ' * columns(before)}{carets}",
    ]


def _plain(text: str) -> str:
    return printable(text.replace("\t", TAB))


def _cut(before: str, marked: str, after: str, room: int) -> tuple[str, str, str]:
    """Shorten to `room` columns: first what follows, then what stands before, then the end of what is meant."""
    if columns(before + marked + after) <= room:
        return before, marked, after
    indent = before[: len(before) - len(before.lstrip())]
    if columns(before + marked) > room and before.strip():
        keep = max(room - columns(marked) - len(indent) - 1, 0)
        before = indent + CUT + _last(before[len(indent) :], min(keep, 16))
    if columns(before + marked) > room:
        return before, _first(marked, room - columns(before) - 1) + CUT, ""
    left = room - columns(before + marked)
    return before, marked, after if columns(after) <= left else _first(after, left - 1) + CUT * (left > 0)


def _first(text: str, width: int) -> str:
    taken = 0
    for index, character in enumerate(text):
        taken += columns(character)
        if taken > width:
            return text[:index]
    return text


def _last(text: str, width: int) -> str:
    return _first(text[::-1], width)[::-1]

"""What ptlint prints on a terminal of 80 columns, as an SVG: `docs/ptlint.svg`, rendered by `scripts/render.py`."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html import escape
from pathlib import Path

from ptlint import report
from ptlint.config import Config
from ptlint.report.style import Style
from ptlint.runner import Request, run

SHOWN = ("PTL101", "PTL102")
SCRIPT = "examples/slow_train.py"
COMMAND = f"ptlint --select {','.join(SHOWN)} {SCRIPT}"

WIDTH = 80
COLUMN = 8.43
ROW = 19
MARGIN = 20

_SGR = re.compile(r"\x1b\[([\d;]*)m")
_FILLS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "36": "#76e3ea"}


def picture(root: Path) -> str:
    """The SVG of a real run on the example."""
    lines = [f"\x1b[2m$\x1b[0m {COMMAND}", "", *_output(root).splitlines()]
    height = len(lines) * ROW + 2 * MARGIN
    width = round(WIDTH * COLUMN) + 2 * MARGIN
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + ROW * number + 14}">{_spans(line)}</text>'
        for number, line in enumerate(lines)
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="14" '
        'fill="#e6edf3" xml:space="preserve">\n'
        f"<title>{escape(COMMAND)}</title>\n"
        f'<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>\n{rows}\n</svg>\n'
    )


def _output(root: Path) -> str:
    before = Path.cwd()
    os.chdir(root)  # file names are shown as from here
    try:
        outcome = run(Request((Path(SCRIPT),), isolated=True, override=_selected))
    finally:
        os.chdir(before)
    return report.render("full", outcome.report, Style(colour=True, width=WIDTH))


def _selected(config: Config) -> Config:
    return replace(config, select=SHOWN)


def _spans(line: str) -> str:
    """A line's runs of one style; each knows its width, so that columns stand below one another in any font."""
    parts = []
    style: set[str] = set()
    column = 0
    for index, piece in enumerate(_SGR.split(line)):
        if index % 2:
            style = set() if piece in ("", "0") else style | set(piece.split(";"))
        elif piece:
            length = f'x="{MARGIN + column * COLUMN:.1f}" textLength="{len(piece) * COLUMN:.1f}"'
            parts.append(f"<tspan {length}{_attributes(style)}>{escape(piece, quote=False)}</tspan>")
            column += len(piece)
    return "".join(parts)


def _attributes(style: set[str]) -> str:
    found = [f' fill="{fill}"' for code, fill in _FILLS.items() if code in style]
    if "1" in style:
        found.append(' font-weight="bold"')
    if "2" in style:
        found.append(' opacity="0.55"')
    return "".join(found)

"""How text is shown: colours, width, and what a terminal must never be sent."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from dataclasses import dataclass

from ptlint.findings import Finding, Impact, Safety

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_IMPACT_COLOURS = {Impact.HIGH: "red", Impact.MEDIUM: "yellow", Impact.LOW: "blue"}
_CODE = re.compile(r"`[^`]+`")
_KEEP = "\ue000"  # stands for a space at which no line may be broken
# Control characters can move the cursor or change the terminal's state; bidirectional ones can hide code.
_UNPRINTABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@dataclass(frozen=True)
class Style:
    """What the reader's side asks for."""

    colour: bool = False
    width: int | None = None
    """Columns of the terminal; None where there is none, so that nothing is wrapped or cut."""
    explain: bool = False
    """Show the whole chain of reasons instead of its first line."""
    unsafe_fixes: bool = False
    """Whether unsafe fixes count as applicable."""

    def paint(self, text: str, *styles: str) -> str:
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    def impact(self, impact: Impact, text: str) -> str:
        return self.paint(text, "bold", _IMPACT_COLOURS[impact])

    def ticks(self, text: str) -> str:
        """Code between backticks in bold."""
        if not self.colour or text.count("`") % 2:  # a code broken over two lines stays plain
            return text
        return _CODE.sub(lambda match: self.paint(match[0], "bold"), text)

    def wrap(self, text: str, indent: str, first: int) -> list[str]:
        """`text` in lines that fit; `first` columns are taken on the first line, `indent` begins the others."""
        if self.width is None:
            return [text]
        width = max(self.width, 40)
        whole = _CODE.sub(lambda match: match[0].replace(" ", _KEEP) if len(match[0]) < width // 2 else match[0], text)
        lines = textwrap.wrap(
            "x" * first + whole,
            width=width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [line.replace(_KEEP, " ") for line in [lines[0][first:], *lines[1:]]] if lines else [""]

    def applicable(self, finding: Finding) -> bool:
        """Whether the fixes that this run asks for include the finding's."""
        return finding.fix is not None and (self.unsafe_fixes or finding.fix.safety is Safety.SAFE)

    def mark(self, finding: Finding) -> str:
        return f"{self.paint('[*]', 'cyan')} " if self.applicable(finding) else ""


def printable(text: str) -> str:
    """`text` without what a terminal would obey."""
    return _UNPRINTABLE.sub("\ufffd", text)


def columns(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

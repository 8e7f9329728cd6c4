"""Rows, indentation and line ends around a place in a file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from ptlint.source.text import SourceFile
    from ptlint.syntax.tree import Tree

_INDENT_UNIT = " " * 4
_NEWLINE = re.compile(r"\r\n?|\n")
_LEADING = re.compile(r"[ \t\f]*")


class CannotEdit(Exception):  # noqa: N818  says what happened
    """The edit cannot be made right; `reason` completes "no fix: ..."."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def row_start(source: SourceFile, offset: int) -> int:
    """Where the row of `offset` begins."""
    starts = source.line_starts
    return starts[bisect_right(starts, offset) - 1]


def next_row(source: SourceFile, offset: int) -> int:
    """Where the row after that of `offset` begins, or the end of the text."""
    starts = source.line_starts
    row = bisect_right(starts, offset)
    return starts[row] if row < len(starts) else len(source.text)


def row_end(source: SourceFile, offset: int) -> int:
    """Where the row of `offset` ends, its line end not included."""
    end = next_row(source, offset)
    start = row_start(source, offset)
    return start + len(source.text[start:end].rstrip("\r\n"))


def newline_at(source: SourceFile, offset: int) -> str:
    """The line end of the row of `offset`; the file's where that row has none."""
    return source.text[row_end(source, offset) : next_row(source, offset)] or source.newline


def leading(source: SourceFile, offset: int) -> str:
    """The indentation of the row of `offset`: what counts of the white space in front of its first character."""
    match = _LEADING.match(source.text, row_start(source, offset))
    return match.group().rpartition("\f")[2] if match else ""


def starts_row(source: SourceFile, offset: int) -> bool:
    """Whether only white space stands in front of `offset` on its row."""
    return not source.text[row_start(source, offset) : offset].strip(" \t\f")


def width(indentation: str) -> int:
    """How deep an indentation is, as Python counts tabs."""
    return len(indentation.expandtabs(8))


def unit_below(tree: Tree, node: cst.CSTNode) -> str:
    """One step of indentation, as the block that holds `node` has it."""
    block = next((above for above in tree.ancestors(node) if isinstance(above, cst.IndentedBlock)), None)
    return (block.indent if block else None) or tree.module.default_indent


def with_newlines(text: str, newline: str) -> str:
    """`text` with the line ends of a file."""
    return _NEWLINE.sub(newline, text)


def laid_out(lines: Sequence[str], newline: str, indentation: str, unit: str) -> str:
    """Logical lines, each written from the left margin with steps of four spaces, in a file's line ends and
    indentation; the first is left without the indentation.

    What follows a line end inside of a line (a string, an argument taken over from the source) stays as it is.
    """
    rows: list[str] = []
    for line in lines:
        bare = line.lstrip(" ")
        steps, rest = divmod(len(line) - len(bare), len(_INDENT_UNIT))
        own = unit * steps + " " * rest + with_newlines(bare, newline)
        rows.append(indentation + own if rows and bare else own)
    return newline.join(rows)

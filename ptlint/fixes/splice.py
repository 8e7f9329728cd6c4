"""Edits into a text, and whether the result can still be read."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Sequence

from ptlint.findings import Edit


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text after the edits, which must not overlap; insertions at one place go in as they come."""
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if not done <= edit.start <= edit.end <= len(text):
            raise ValueError(f"the edit {edit} overlaps another or lies outside of the text")
        pieces += (text[done : edit.start], edit.text)
        done = edit.end
    pieces.append(text[done:])
    return "".join(pieces)


def collide(first: Edit, second: Edit) -> bool:
    """Whether both touch the same characters; an insertion also collides with what it touches."""
    if first.start == first.end or second.start == second.end:
        return first.start <= second.end and second.start <= first.end
    return first.start < second.end and second.start < first.end


def are_sound(edits: Sequence[Edit], text: str) -> bool:
    """Whether the edits of one fix can be applied together."""
    try:
        apply_edits(text, edits)
    except ValueError:
        return False
    return bool(edits)


def can_read(text: str, before: str) -> bool:
    """Whether `text` parses, by `ast` where it read the text `before` the change, else by libcst."""
    if _ast_reads(text):
        return True
    return not _ast_reads(before) and _libcst_reads(text)


def _ast_reads(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _libcst_reads(text: str) -> bool:
    import libcst

    try:
        libcst.parse_module(text)
    except (libcst.ParserSyntaxError, RecursionError):
        return False
    return True

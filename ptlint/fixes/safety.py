"""When a fix is less safe than its rule takes it for: it would lose a comment, or it reaches into an f-string."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ptlint.findings import Edit, Finding, Safety

_NEWLINE = re.compile(r"\r\n?|\n")
_FORMATTED = re.compile(r"(?<!\w)(?:[ft]r?|r[ft])(?=(\"\"\"|'''|\"|'))", re.IGNORECASE)
_OPENING = tuple(getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name))
_CLOSING = tuple(getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name))
_SPANS_ROWS = sys.version_info >= (3, 12)

_Spans = tuple[tuple[int, int], ...]


def demote(finding: Finding, text: str) -> Finding:
    """The finding, its fix marked unsafe where it replaces a comment that the new text lacks, or lies inside of an
    f-string; `text` is the file's."""
    fix = finding.fix
    # Fixes about the lint's own comments remove comments on purpose.
    if fix is None or fix.safety is Safety.UNSAFE or finding.code.startswith("PTL0"):
        return finding
    new = "\n".join(edit.text for edit in fix.edits)
    if any(_loses_comment(edit, new, text) or _is_inside_string(edit, text) for edit in fix.edits):
        return replace(finding, fix=fix.made_unsafe())
    return finding


def _loses_comment(edit: Edit, new: str, text: str) -> bool:
    if "#" not in text[edit.start : edit.end]:
        return False
    lexed = _lexed(text)
    if lexed is None:
        return True
    comments, _ = lexed
    return any(
        edit.start <= start < edit.end and text[start:end].rstrip() not in new
        for start, end in comments
        if text[start:end].strip("# \t")
    )


def _is_inside_string(edit: Edit, text: str) -> bool:
    if not _may_be_inside_string(edit, text):
        return False
    lexed = _lexed(text)
    return lexed is None or any(start < edit.start and edit.end < end for start, end in lexed[1])


def _may_be_inside_string(edit: Edit, text: str) -> bool:
    """A cheap test, since lexing is slow: an f-string that opens on the same row, or one of many rows above it."""
    row = max(text.rfind("\n", 0, edit.start), text.rfind("\r", 0, edit.start)) + 1
    return any(
        _SPANS_ROWS or match.start() >= row or len(match.group(1)) == 3
        for match in _FORMATTED.finditer(text, 0, edit.start)
    )


@lru_cache(maxsize=4)
def _lexed(text: str) -> tuple[_Spans, _Spans] | None:
    """The spans of the comments and those of the f-strings; None where Python's tokenizer gives up."""
    try:
        found = list(_marked(text))
    except (tokenize.TokenError, SyntaxError):
        return None
    return (
        tuple((start, end) for kind, start, end in found if kind == "comment"),
        tuple((start, end) for kind, start, end in found if kind == "formatted"),
    )


def _marked(text: str) -> Iterator[tuple[str, int, int]]:
    starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
    # The tokenizer of Python 3.11 knows no CR as a line end.
    readable = re.sub(r"\r(?!\n)", "\n", text)
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(readable, newline="").readline):
        start = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        if token.type == tokenize.COMMENT:
            yield "comment", start, end
        elif token.type == tokenize.STRING and _FORMATTED.match(token.string):
            yield "formatted", start, end
        elif token.type in _OPENING:
            opened.append(start)
        elif token.type in _CLOSING:
            yield "formatted", opened.pop(), end

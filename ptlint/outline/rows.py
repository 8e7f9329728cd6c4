"""Which rows belong together: those of a simple statement, or of a compound one's header."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from ptlint.outline.parse import ParseError, parse
from ptlint.source.text import line_starts

_BODIES = ("body", "orelse", "handlers", "finalbody", "cases")
_UP_TO_COLON = re.compile(r"(?:[^:#]|#[^\r\n]*)*")


def row_groups(text: str) -> dict[int, range]:
    """For each row that holds code of a statement, all rows of that statement's own: innermost statements win."""
    try:
        module = parse(text)
    except ParseError:
        return {}
    starts = line_starts(text)
    found: dict[int, range] = {}
    pending: list[Any] = [module]
    while pending:
        node = pending.pop()
        for name in _BODIES:
            body = getattr(node, name, ())
            for rows in _groups(body, text, starts):
                found.update(dict.fromkeys(rows, rows))
            pending += [child for child in body if _is_compound(child)]
    return found


def grouped_by_row(body: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """The statements, those that `;` joins on a row together."""
    group: list[ast.stmt] = []
    last = 0
    for node in body:
        if group and node.lineno > last:
            yield group
            group = []
        group.append(node)
        last = node.end_lineno or node.lineno
    if group:
        yield group


def _groups(body: Sequence[Any], text: str, starts: Sequence[int]) -> Iterator[range]:
    simple = [node for node in body if not _is_compound(node)]
    for group in grouped_by_row(simple):
        yield range(group[0].lineno, (group[-1].end_lineno or group[-1].lineno) + 1)
    for node in body:
        if _is_compound(node):
            yield range(_first_row(node), _header_end(node, text, starts) + 1)


def _is_compound(node: ast.AST) -> bool:
    return hasattr(node, "body") or isinstance(node, ast.Match)


def _first_row(node: Any) -> int:
    decorators = getattr(node, "decorator_list", None)
    row: int = (decorators[0] if decorators else getattr(node, "pattern", node)).lineno
    return row


def _header_end(node: Any, text: str, starts: Sequence[int]) -> int:
    """The row of the colon that ends a header."""
    row, column = (node.lineno, node.col_offset) if hasattr(node, "lineno") else (0, 0)
    pending = [
        child
        for name, value in ast.iter_fields(node)
        if name not in _BODIES and name != "decorator_list"
        for child in (value if isinstance(value, list) else [value])
    ]
    while pending:
        child = pending.pop()
        if hasattr(child, "end_lineno"):
            row, column = max((row, column), (child.end_lineno, child.end_col_offset))
        elif isinstance(child, ast.AST):
            pending += ast.iter_child_nodes(child)
    body = node.cases if isinstance(node, ast.Match) else node.body
    if _first_row(body[0]) <= row + 1:
        return row
    line = text[starts[row - 1] : starts[row] if row < len(starts) else len(text)]
    begin = starts[row - 1] + len(line.encode()[:column].decode(errors="replace"))
    match = _UP_TO_COLON.match(text, begin)
    return bisect_right(starts, match.end() if match else begin)

"""Inserting, wrapping, replacing and deleting statements."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.layout import (
    CannotEdit,
    laid_out,
    leading,
    newline_at,
    next_row,
    row_end,
    row_start,
    unit_below,
    width,
)
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.source.text import SourceFile
    from ptlint.syntax.tree import Tree

# Template strings came with a later libcst than the first that ptlint runs with.
_STRINGS: tuple[type[cst.CSTNode], ...] = tuple(
    getattr(cst, name) for name in ("SimpleString", "FormattedString", "TemplatedString") if hasattr(cst, name)
)
_Standing = cst.SimpleStatementLine | cst.BaseCompoundStatement
_Block = cst.Module | cst.IndentedBlock


def insert_before(tree: Tree, statement: cst.CSTNode, lines: Sequence[str]) -> tuple[Edit, ...]:
    """Put rows of code in front of the statement that holds this node, above the comments that belong to it.

    Each line is a logical one, written as at the left margin, with steps of four spaces; what follows a line end
    inside of one stays as it is.
    """
    standing = _standing(tree, statement)
    if not _is_first_on_line(tree, statement, standing):
        raise CannotEdit("another statement stands in front of it on the same row")
    if _must_stay_first(tree, standing):
        raise CannotEdit("nothing may stand in front of a docstring or a `__future__` import")
    source = tree.source
    start = _first_offset(tree, standing)
    place = _above_comments(tree, standing, row_start(source, start))
    indentation = leading(source, start)
    return (Edit(place, place, _rows(tree, standing, lines, indentation, newline_at(source, start))),)


def insert_after(tree: Tree, statement: cst.CSTNode, lines: Sequence[str]) -> tuple[Edit, ...]:
    """Put rows of code behind the statement that holds this node; the lines are written as for `insert_before`."""
    standing = _standing(tree, statement)
    if not _is_last_on_line(tree, statement, standing):
        raise CannotEdit("another statement stands behind it on the same row")
    source = tree.source
    newline = newline_at(source, tree.span(standing)[0])
    indentation = leading(source, _first_offset(tree, standing))
    place = _end_of_rows(tree, standing)
    rows = _rows(tree, standing, lines, indentation, newline)
    if place == len(source.text) and row_start(source, place) < place:
        rows = newline + rows.removesuffix(newline)
    return (Edit(place, place, rows),)


def wrap_with(tree: Tree, first: cst.CSTNode, last: cst.CSTNode, header: str) -> tuple[Edit, ...]:
    """Put the statements from `first` to `last`, which stand in one block, under a new header (`with ...:`).

    One edit of all their rows, so that no other fix changes them in the same round.
    """
    source = tree.source
    top, bottom = _run(tree, first, last)
    start = row_start(source, _first_offset(tree, top))
    end = _end_of_rows(tree, bottom)
    indentation = leading(source, _first_offset(tree, top))
    unit = unit_below(tree, top)
    inside = _rows_inside_strings(tree, start, end)
    pieces = [indentation, header, newline_at(source, start)]
    row = start
    while row < end:
        following = next_row(source, row)
        text = source.text[row:following]
        if row not in inside and text.strip():
            at = _indent_place(text, indentation)
            text = text[:at] + unit + text[at:]
        pieces.append(text)
        row = following
    return (Edit(start, end, "".join(pieces)),)


def unwrap(tree: Tree, statement: cst.With) -> tuple[Edit, ...]:
    """Put what stands under a `with` in the place of the whole statement; a comment of the header gets its own row."""
    source = tree.source
    standing = _standing(tree, statement)
    start = tree.span(statement)[0]
    block = statement.body
    if not isinstance(block, cst.IndentedBlock):
        return (Edit(start, tree.span(block)[0], ""),)
    indentation = leading(source, start)
    unit = block.indent or tree.module.default_indent
    body = next_row(source, tree.span(block.header)[0])
    end = _end_of_rows(tree, standing)
    inside = _rows_inside_strings(tree, body, end)
    pieces = []
    if block.header.comment is not None:
        pieces = [indentation, tree.code(block.header.comment), newline_at(source, start)]
    row = body
    while row < end:
        following = next_row(source, row)
        text = source.text[row:following]
        if row not in inside and text.strip():
            at = _indent_place(text, indentation)
            text = text[:at] + text[at:].removeprefix(unit)
        pieces.append(text)
        row = following
    return (Edit(row_start(source, start), end, "".join(pieces)),)


def replace_statements(tree: Tree, first: cst.CSTNode, last: cst.CSTNode, lines: Sequence[str]) -> tuple[Edit, ...]:
    """Put rows of code, written as for `insert_before`, in the place of the statements from `first` to `last`."""
    source = tree.source
    top, bottom = _run(tree, first, last)
    start = _first_offset(tree, top)
    newline = newline_at(source, start)
    new = laid_out(lines, newline, leading(source, start), unit_below(tree, top))
    return (Edit(start, _end_of_code(tree, bottom), new),)


def delete_statement(tree: Tree, statement: cst.CSTNode) -> tuple[Edit, ...]:
    """Take the statement away with its row; `pass` takes its place where its block would be empty.

    A comment on the row stays.
    """
    source = tree.source
    small = tree.statement(statement)
    line = tree.parent(small) if small is not None else None
    if isinstance(small, cst.BaseSmallStatement) and isinstance(
        line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    ):
        if len(line.body) > 1:
            return (_delete_from_line(tree, line, small),)
        if isinstance(line, cst.SimpleStatementSuite):
            return (Edit(*tree.span(small), "pass"),)
    standing = _standing(tree, statement)
    block = tree.parent(standing)
    start, end = _first_offset(tree, standing), _end_of_code(tree, standing)
    if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
        return (Edit(start, end, "pass"),)
    rest = source.text[end : row_end(source, end)]
    if isinstance(standing, cst.SimpleStatementLine) and rest.strip():
        return (Edit(start, end + len(rest) - len(rest.lstrip()), ""),)
    return (Edit(row_start(source, start), _end_of_rows(tree, standing), ""),)


def add_decorator(tree: Tree, definition: cst.FunctionDef | cst.ClassDef, text: str) -> tuple[Edit, ...]:
    """Decorate the function or class, innermost: `@staticmethod` and its like stay outside."""
    source = tree.source
    start = tree.span(definition)[0]
    place = row_start(source, start)
    decorator = text if text.startswith("@") else f"@{text}"
    return (Edit(place, place, f"{leading(source, start)}{decorator}{newline_at(source, start)}"),)


def _standing(tree: Tree, node: cst.CSTNode) -> _Standing:
    """The statement that holds `node`, as it stands in a block of its own rows."""
    standing = tree.body_statement(node)
    if standing is None:
        raise CannotEdit("the place is no statement")
    if isinstance(standing, cst.SimpleStatementSuite):
        raise CannotEdit("the statement shares its row with the header of its block")
    if not isinstance(tree.parent(standing), _Block):
        raise CannotEdit("the statement is an `elif` branch")
    return standing


def _run(tree: Tree, first: cst.CSTNode, last: cst.CSTNode) -> tuple[_Standing, _Standing]:
    top, bottom = _standing(tree, first), _standing(tree, last)
    if tree.parent(top) is not tree.parent(bottom) or tree.span(top) > tree.span(bottom):
        raise CannotEdit("the statements do not follow one another in one block")
    if not _is_first_on_line(tree, first, top) or not _is_last_on_line(tree, last, bottom):
        raise CannotEdit("other statements stand on the same row")
    return top, bottom


def _is_first_on_line(tree: Tree, node: cst.CSTNode, standing: _Standing) -> bool:
    if node is standing or not isinstance(standing, cst.SimpleStatementLine):
        return True
    return tree.statement(node) is standing.body[0]


def _is_last_on_line(tree: Tree, node: cst.CSTNode, standing: _Standing) -> bool:
    if node is standing or not isinstance(standing, cst.SimpleStatementLine):
        return True
    return tree.statement(node) is standing.body[-1]


def _first_offset(tree: Tree, standing: _Standing) -> int:
    """Where the statement begins, decorators included."""
    decorators: Sequence[cst.Decorator] = getattr(standing, "decorators", ())
    return tree.span(decorators[0] if decorators else standing)[0]


def _end_of_code(tree: Tree, standing: cst.CSTNode) -> int:
    """Where the statement's code ends, with its last semicolon, without a comment behind it."""
    node = standing
    while not isinstance(node, cst.BaseSmallStatement):
        # The last meaningful child of a compound statement is its last block.
        *_, node = tree.children(node)
    return _end_of_small(tree, node)


def _end_of_small(tree: Tree, small: cst.BaseSmallStatement) -> int:
    end = tree.span(small)[1]
    return tree.source.text.index(";", end) + 1 if isinstance(small.semicolon, cst.Semicolon) else end


def _end_of_rows(tree: Tree, standing: _Standing) -> int:
    """Where the row after the statement begins; comments that are indented deeper belong to the statement."""
    source = tree.source
    place = next_row(source, _end_of_code(tree, standing))
    depth = width(leading(source, _first_offset(tree, standing)))
    look = place
    while look < len(source.text):
        row = source.text[look : row_end(source, look)].strip()
        if row and not (row.startswith("#") and width(leading(source, look)) > depth):
            break
        look = next_row(source, look)
        if row:
            place = look
    return place


def _above_comments(tree: Tree, standing: _Standing, start: int) -> int:
    """The start of the run of comment rows right above, in the statement's own indentation; but comments that begin
    the file belong to the file."""
    source = tree.source
    depth = width(leading(source, start))
    if isinstance(tree.parent(standing), cst.Module) and standing is tree.body[0]:
        lowest = _end_of_statement_above(source, start)
    else:
        lowest = _end_of_what_stands_above(tree, standing)
    place = start
    while place > lowest:
        above = row_start(source, place - 1)
        row = source.text[above:place].strip()
        if above < lowest or not row.startswith("#") or width(leading(source, above)) != depth:
            break
        place = above
    return start if place == 0 else place


def _end_of_what_stands_above(tree: Tree, standing: _Standing) -> int:
    """Where the row begins that follows the sibling above, or the header of the block."""
    block = tree.parent(standing)
    assert isinstance(block, _Block)
    index = list(block.body).index(standing)
    if index:
        return next_row(tree.source, _end_of_code(tree, block.body[index - 1]))
    assert isinstance(block, cst.IndentedBlock)
    return next_row(tree.source, tree.span(block.header)[0])


@lru_cache(maxsize=4)
def _statement_ends(text: str) -> tuple[int, ...]:
    """The last rows of the top-level statements."""
    try:
        return tuple(node.end_lineno or node.lineno for node in ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _end_of_statement_above(source: SourceFile, start: int) -> int:
    ends = _statement_ends(source.text)
    row = source.position(start).row
    above = bisect_left(ends, row)
    if not ends:
        return start
    return source.line_starts[ends[above - 1]] if above else 0


def _must_stay_first(tree: Tree, standing: _Standing) -> bool:
    if not isinstance(standing, cst.SimpleStatementLine):
        return False
    first = standing.body[0]
    if isinstance(first, cst.ImportFrom) and isinstance(first.module, cst.Name) and first.module.value == "__future__":
        return True
    if not (isinstance(first, cst.Expr) and isinstance(first.value, (cst.SimpleString, cst.ConcatenatedString))):
        return False
    block = tree.parent(standing)
    if isinstance(block, cst.Module):
        return standing is tree.body[0] and _end_of_statement_above(tree.source, tree.span(standing)[0]) == 0
    return (
        isinstance(block, cst.IndentedBlock)
        and standing is block.body[0]
        and isinstance(tree.parent(block), (cst.FunctionDef, cst.ClassDef))
    )


def _rows(tree: Tree, standing: _Standing, lines: Sequence[str], indentation: str, newline: str) -> str:
    text = laid_out(lines, newline, indentation, unit_below(tree, standing))
    return f"{indentation}{text}{newline}"


def _rows_inside_strings(tree: Tree, start: int, end: int) -> frozenset[int]:
    """The rows that begin inside a string."""
    starts = tree.source.line_starts
    found: set[int] = set()
    for kind in _STRINGS:
        for node in tree.nodes(kind):
            first, last = tree.span(node)
            if first < end and last > start:
                found.update(starts[bisect_left(starts, first + 1) : bisect_left(starts, last)])
    return frozenset(found)


def _indent_place(row: str, indentation: str) -> int:
    """Where another step of indentation goes: behind that of the block."""
    white = row[: len(row) - len(row.lstrip(" \t\f"))]
    counted = white.rpartition("\f")[2]
    at = len(white) - len(counted)
    return at + len(indentation) if counted.startswith(indentation) else at


def _delete_from_line(
    tree: Tree, line: cst.SimpleStatementLine | cst.SimpleStatementSuite, small: cst.BaseSmallStatement
) -> Edit:
    index = list(line.body).index(small)
    if index < len(line.body) - 1:
        return Edit(tree.span(small)[0], tree.span(line.body[index + 1])[0], "")
    return Edit(tree.span(line.body[index - 1])[1], _end_of_small(tree, small), "")

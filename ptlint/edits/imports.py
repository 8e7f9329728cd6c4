"""Adding an import where the file's own order has it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptlint.edits.layout import CannotEdit, newline_at, next_row, row_start
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.outline.statements import Import, Outline, Statement
    from ptlint.source.text import SourceFile


@dataclass(frozen=True)
class _Wanted:
    text: str
    module: str
    name: str | None
    asname: str | None

    def is_given_by(self, item: Import) -> bool:
        if not self.means_the_same(item):
            return False
        # `import a` does not load `a.b`.
        return not self._is_dotted or item.module == self.module or item.module.startswith(f"{self.module}.")

    def means_the_same(self, item: Import) -> bool:
        """Whether `item` binds the same name to the same thing."""
        return not item.level and _meaning(item.module, item.name, item.asname) == self.meaning

    @property
    def meaning(self) -> tuple[str, str]:
        return _meaning(self.module, self.name, self.asname)

    @property
    def _is_dotted(self) -> bool:
        return self.name is None and self.asname is None and "." in self.module


def _meaning(module: str, name: str | None, asname: str | None) -> tuple[str, str]:
    """The name that an import binds, and what to."""
    if name is not None:
        return asname or name, f"{module}.{name}"
    if asname is not None:
        return asname, module
    root = module.partition(".")[0]
    return root, root


@dataclass(frozen=True)
class _Place:
    """Where a row goes, and whether it wants an empty row in front or behind."""

    offset: int
    before: bool = False
    after: bool = False


def import_edit(source: SourceFile, outline: Outline, wanted: str) -> tuple[Edit, ...]:
    """Add the statement `wanted` (`import os`, `from a import b`); nothing where the file has it."""
    return import_edits(source, outline, (wanted,))


def import_edits(source: SourceFile, outline: Outline, wanted: Iterable[str]) -> tuple[Edit, ...]:
    """As `import_edit`, for several: those that go to the same place make one edit."""
    placed: dict[int, list[tuple[_Wanted, _Place]]] = {}
    for text in sorted(set(wanted)):
        item = _parsed(text)
        if not _is_there(outline, item):
            place = _place(source, outline, item)
            placed.setdefault(place.offset, []).append((item, place))
    return tuple(_edit(source, offset, items) for offset, items in sorted(placed.items()))


def _edit(source: SourceFile, offset: int, items: Sequence[tuple[_Wanted, _Place]]) -> Edit:
    newline = newline_at(source, max(0, offset - 1))
    ordered = sorted((_section(item.module), item.name is not None, item.text) for item, _ in items)
    text = newline.join(statement for *_, statement in ordered) + newline
    if any(place.before for _, place in items):
        text = newline + text
    if any(place.after for _, place in items):
        text += newline
    if offset == len(source.text) and row_start(source, offset) < offset:
        text = newline + text.removesuffix(newline)
    return Edit(offset, offset, text)


def _parsed(text: str) -> _Wanted:
    try:
        (node,) = ast.parse(text).body
        assert isinstance(node, (ast.Import, ast.ImportFrom))
        (alias,) = node.names
    except (SyntaxError, ValueError, AssertionError):
        raise CannotEdit(f"`{text}` is not one import") from None
    if isinstance(node, ast.Import):
        return _Wanted(text, alias.name, None, alias.asname)
    return _Wanted(text, node.module or "", alias.name, alias.asname)


def _is_there(outline: Outline, wanted: _Wanted) -> bool:
    """Whether a statement at the margin imports it; `CannotEdit` where the name means something else there."""
    there = False
    name, _ = wanted.meaning
    for statement in outline.statements:
        if name not in statement.binds:
            continue
        own = [item for item in outline.imports if statement.first_row <= item.row <= statement.last_row]
        if not any(wanted.means_the_same(item) for item in own):
            raise CannotEdit(f"`{name}` means something else in this file")
        # What an `if` or a `try` imports is not there on every path.
        there |= statement.kind in ("import", "simple") and any(wanted.is_given_by(item) for item in own)
    return there


def _place(source: SourceFile, outline: Outline, wanted: _Wanted) -> _Place:
    block = _import_block(outline)
    imports = [(statement, _first_import(outline, statement)) for statement in block]
    section = _section(wanted.module)
    own = [pair for pair in imports if _section_of(pair[1]) == section]
    if own:
        return _among(source, own, wanted)
    if not imports:
        return _at_the_top(source, outline)
    lower = [statement for statement, item in imports if _section_of(item) < section]
    if lower:
        offset = _behind(source, lower[-1])
        # A section of its own between two: an empty row on both sides, one of which may be there.
        return _Place(offset, before=True, after=not _empty_row_at(source, offset))
    return _Place(_above_comments(source, outline, imports[0][0]), after=True)


def _above_comments(source: SourceFile, outline: Outline, statement: Statement) -> int:
    """Where the comments right above the statement begin; those that begin the file belong to the file."""
    index = outline.statements.index(statement)
    lowest = outline.statements[index - 1].last_row if index else 0
    row = statement.first_row
    while row - 1 > lowest and source.line(row - 1).startswith("#"):
        row -= 1
    return source.line_starts[(row if row > 1 else statement.first_row) - 1]


def _among(source: SourceFile, own: Sequence[tuple[Statement, Import]], wanted: _Wanted) -> _Place:
    """In a section: `import` above `from`, each by module, where the section has that order."""
    key = (wanted.name is not None, wanted.module.lower())
    smaller = [statement for statement, item in own if (item.name is not None, item.module.lower()) <= key]
    if smaller:
        return _Place(_behind(source, smaller[-1]))
    return _Place(source.line_starts[own[0][0].first_row - 1])


def _import_block(outline: Outline) -> list[Statement]:
    """The first run of import statements, `__future__` aside."""
    block: list[Statement] = []
    for statement in outline.statements:
        if statement.kind == "import":
            if _first_import(outline, statement).module != "__future__":
                block.append(statement)
        elif block:
            break
    return block


def _first_import(outline: Outline, statement: Statement) -> Import:
    return next(item for item in outline.imports if statement.first_row <= item.row <= statement.last_row)


def _section_of(item: Import) -> int:
    return 3 if item.level else _section(item.module)


def _section(module: str) -> int:
    """The order of the sections: the standard library, what is installed (and the project's own), relative ones."""
    return 1 if module.partition(".")[0] in sys.stdlib_module_names else 2


def _at_the_top(source: SourceFile, outline: Outline) -> _Place:
    """In a file without imports: behind docstring and `__future__`, else in front of the first statement."""
    head: Statement | None = None
    rest = list(outline.statements)
    if rest and _is_docstring(source, rest[0]):
        head = rest.pop(0)
    while rest and rest[0].kind == "import" and _first_import(outline, rest[0]).module == "__future__":
        head = rest.pop(0)
    if head is not None:
        offset = _behind(source, head)
        return _Place(offset, before=True, after=bool(rest) and not _empty_row_at(source, offset))
    if rest:
        return _Place(source.line_starts[rest[0].first_row - 1], after=True)
    return _Place(len(source.text))


def _is_docstring(source: SourceFile, statement: Statement) -> bool:
    if statement.kind != "simple":
        return False
    try:
        first = ast.parse(source.lines(statement.first_row, statement.last_row)).body[0]
    except SyntaxError:
        return False
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _behind(source: SourceFile, statement: Statement) -> int:
    return next_row(source, source.line_starts[statement.last_row - 1])


def _empty_row_at(source: SourceFile, offset: int) -> bool:
    return not source.text[offset : next_row(source, offset)].strip()

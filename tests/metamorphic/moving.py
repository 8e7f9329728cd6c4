"""Functions and classes of a script in a file of their own."""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterator
from pathlib import PurePosixPath

from metamorphic.names import Program

HELPERS = "helpers_moved"

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def moved(program: Program) -> Program:
    """Every function and class that needs nothing of the script but imports, below `helpers_moved.py`.

    All rows stay where they are in the file where they are.
    """
    return _moved(program, leaves=False)


def leaves_moved(program: Program) -> Program:
    """Those of them that need none of the others."""
    return _moved(program, leaves=True)


def can_move(program: Program, *, leaves: bool) -> bool:
    """Whether there is something to move; leaves are another program only where not all are."""
    if len(program) != 1:
        return False
    script = _Script(next(iter(program.values())))
    return bool(script.leaves) and len(script.leaves) < len(script.movable) if leaves else bool(script.movable)


def _moved(program: Program, *, leaves: bool) -> Program:
    ((name, text),) = program.items()
    script = _Script(text)
    left, helpers = script.split(script.leaves if leaves else script.movable)
    return {name: left, str(PurePosixPath(name).with_name(f"{HELPERS}.py")): helpers}


class _Script:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._tree = ast.parse(text)
        self._imports = [node for node in self._tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        self._uses: dict[Definition, set[str]] = {}
        tables = symtable.symtable(text, "script", "exec").get_children()
        for node in self._tree.body:
            if isinstance(node, Definition):
                uses = set(_read_outside(node))
                for table in tables:
                    if table.get_name() == node.name and table.get_lineno() in (node.lineno, _first_row(node)):
                        uses |= set(_globals_of(table))
                self._uses[node] = uses
        self.movable = self._movable()
        names = {node.name for node in self.movable}
        self.leaves = [node for node in self.movable if not (self._uses[node] & names) - {node.name}]

    def split(self, taken: list[Definition]) -> tuple[str, str]:
        """What is left of the script, and the file with what is taken."""
        rows = {row for node in taken for row in self._rows(node)}
        wanted = set[str]().union(*(self._uses[node] for node in taken))
        kept = {
            each.id
            for node in self._tree.body
            if node not in taken
            for each in ast.walk(node)
            if isinstance(each, ast.Name)
        }
        left = [_blank(line) if row in rows else line for row, line in enumerate(self._lines, 1)]
        helpers = [line if row in rows else _blank(line) for row, line in enumerate(self._lines, 1)]
        for statement in self._imports:
            self._drop(left, statement, wanted - kept)
            self._copy(helpers, statement, wanted)
        first = min(rows) - 1
        names = ", ".join(node.name for node in taken)
        left[first] = f"from {HELPERS} import {names}{left[first]}"
        return "".join(left), "".join(helpers)

    def _movable(self) -> list[Definition]:
        imported = {_bound(alias) for node in self._imports for alias in node.names}
        if "*" in imported:
            return []
        bound = list(self._bound_names())
        found = [node for node in self._uses if bound.count(node.name) == 1 and not self._shares_a_row(node)]
        known = imported - set(bound)
        ties = _OF_A_FILE | set(bound)
        while True:
            names = known | {node.name for node in found}
            good = [node for node in found if not (self._uses[node] & ties) - names]
            if len(good) == len(found):
                return good
            found = good

    def _bound_names(self) -> Iterator[str]:
        """What the script binds at its top level otherwise than by plain imports, each as often as it does."""
        for node in self._tree.body:
            if isinstance(node, Definition):
                yield node.name
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                yield from _bound_in(node)
        for inner in ast.walk(self._tree):
            if isinstance(inner, ast.Global):
                yield from inner.names

    def _shares_a_row(self, node: Definition) -> bool:
        rows = range(_first_row(node), (node.end_lineno or 0) + 1)
        others = [other for other in self._tree.body if other is not node]
        return any(_first_row(other) <= rows[-1] and rows[0] <= (other.end_lineno or 0) for other in others)

    def _rows(self, node: Definition) -> range:
        """The rows of a definition with those of the comments right above it."""
        first = _first_row(node)
        while first > 1 and self._lines[first - 2].startswith("#"):
            first -= 1
        return range(first, (node.end_lineno or 0) + 1)

    def _drop(self, lines: list[str], node: ast.Import | ast.ImportFrom, gone: set[str]) -> None:
        if not _is_future(node) and any(_bound(alias) in gone for alias in node.names):
            self._write(lines, node, [alias for alias in node.names if _bound(alias) not in gone])

    def _copy(self, lines: list[str], node: ast.Import | ast.ImportFrom, wanted: set[str]) -> None:
        used = [alias for alias in node.names if _bound(alias) in wanted]
        if _is_future(node) or len(used) == len(node.names):
            rows = range(node.lineno - 1, node.end_lineno or 0)
            lines[rows.start : rows.stop] = self._lines[rows.start : rows.stop]
        elif used:
            self._write(lines, node, used)

    def _write(self, lines: list[str], node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> None:
        for row in range(node.lineno - 1, node.end_lineno or 0):
            lines[row] = _blank(self._lines[row])
        if names:
            again = (
                ast.Import(names) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, names, node.level)
            )
            lines[node.lineno - 1] = ast.unparse(again) + lines[node.lineno - 1]


_OF_A_FILE = {"__name__", "__file__", "__doc__", "__package__", "__spec__"}


def _blank(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _first_row(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(each.lineno for each in decorators)])


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _bound_in(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, Definition):
            yield node.name
        elif isinstance(node, ast.alias):
            yield _bound(node)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def _read_outside(node: Definition) -> Iterator[str]:
    """The names that a definition reads where it stands: in decorators, bases, defaults and annotations."""
    outside: list[ast.AST] = list(node.decorator_list)
    if isinstance(node, ast.ClassDef):
        outside += [*node.bases, *node.keywords]
    for each in ast.walk(node):
        if isinstance(each, ast.arguments):
            outside += [*each.defaults, *(default for default in each.kw_defaults if default)]
        elif isinstance(each, ast.arg | ast.AnnAssign) and each.annotation:
            outside.append(each.annotation)
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.returns:
            outside.append(each.returns)
    for part in outside:
        for each in ast.walk(part):
            if isinstance(each, ast.Name):
                yield each.id
            elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield from re.findall(r"\w+", each.value)


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_global():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals_of(child)


def _is_future(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"

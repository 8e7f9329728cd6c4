"""The outline of a file: what each of its top-level statements binds and holds, and what the file imports.

One `ast.parse` and one pass over its nodes, a level of the tree at a time: no recursion, and the number of levels is
the depth of nesting, which the layers above need bounded.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from sys import intern
from typing import Any

from ptlint.outline.aliases import with_full_names
from ptlint.outline.binds import names_bound
from ptlint.outline.collector import collection_paused
from ptlint.outline.loaded import modules_loaded
from ptlint.outline.parse import ParseError, parse
from ptlint.outline.rows import grouped_by_row
from ptlint.outline.shape import Import, Loaded, Method, Outline, OutlineError, Statement
from ptlint.outline.unparsed import unparsed
from ptlint.source.text import line_starts

__all__ = ["MAX_DEPTH", "MAX_WORD", "Import", "Outline", "OutlineError", "Statement", "outline"]

MAX_WORD = 40
# Deeper than any code that people write; libcst and whatever walks its trees recurse once or twice a level.
MAX_DEPTH = 300

_KINDS: dict[type, str] = {
    ast.FunctionDef: "def",
    ast.AsyncFunctionDef: "def",
    ast.ClassDef: "class",
    ast.Import: "import",
    ast.ImportFrom: "import",
}
_NOT_CHILDREN = frozenset({"ctx", "op", "ops", "type_comment", "kind", "conversion", "is_async", "simple", "level"})

_Getter = Callable[[Any], tuple[Any, ...]]
_getters: dict[type, _Getter] = {}
_named: dict[frozenset[type], frozenset[str]] = {}


class _TooDeepError(Exception):
    pass


def outline(text: str) -> Outline:
    """The outline of a module's text. Never raises: what cannot be outlined has an `error`."""
    with collection_paused():
        return replace(_outline(text), utf8=text.encode("utf-8", "surrogatepass"))


def _outline(text: str) -> Outline:
    try:
        module = parse(text)
    except ParseError as failure:
        error = OutlineError(failure.message, failure.row, failure.column)
        return Outline(error=error) if failure.nested else unparsed(text, error)
    return _Reader(text).read(module)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: tuple[int, ...] | None = None
        self._statements: list[Statement] = []
        self._imports: list[Import] = []
        self._error: OutlineError | None = None

    def read(self, module: ast.Module) -> Outline:
        for group in grouped_by_row(module.body):
            self._read_group(group)
        self._imports.sort(key=lambda found: found.row)
        return Outline(
            with_full_names(self._statements, self._imports),
            tuple(self._imports),
            self._error,
            any(isinstance(node, ast.If) and _is_main_guard(node.test) for node in module.body),
            tuple(self._loads(module.body)),
        )

    def _loads(self, body: list[ast.stmt]) -> Iterator[Loaded]:
        """What `import_module` loads, under whatever name the file calls it."""
        if any("import_module" in statement.words for statement in self._statements):
            names = {item.asname or item.name for item in self._imports if item.name == "import_module"}
            for node in body:
                yield from modules_loaded(node, names)

    def _read_group(self, group: list[ast.stmt]) -> None:
        binds: set[str] = set()
        words: set[str] = set()
        dotted: set[str] = set()
        kinds: set[type] = set()
        first = group[0]
        try:
            for node in group:
                here: set[type] = set()
                self._gather(node, words, dotted, here)
                binds |= names_bound(node, here)
                kinds |= here
        except _TooDeepError:
            self._error = self._error or OutlineError("the code nests too deeply to be read", first.lineno, 1)
            return
        self._statements.append(
            Statement(
                len(self._statements),
                _kind(first) if len(group) == 1 else "simple",
                getattr(first, "name", "") if len(group) == 1 else "",
                self._first_row(first),
                group[-1].end_lineno or group[-1].lineno,
                frozenset(binds),
                frozenset(words),
                frozenset(dotted),
                _names_of(kinds),
                tuple(self._methods(first)) if isinstance(first, ast.ClassDef) and len(group) == 1 else (),
            )
        )

    def _methods(self, node: ast.ClassDef) -> Iterator[Method]:
        for member in node.body:
            if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = member.body[0]
                row = self._first_row(body)
                before = self._text[self._row_start(row) :][: body.col_offset]
                own_row = row > member.lineno and not before.strip()
                yield Method(self._first_row(member), row, member.end_lineno or row, not own_row)

    def _row_start(self, row: int) -> int:
        if self._starts is None:
            self._starts = line_starts(self._text)
        return self._starts[row - 1]

    def _gather(self, statement: ast.stmt, words: set[str], dotted: set[str], kinds: set[type]) -> None:
        """Fill the sets with what the statement's tree holds. This is the hot loop of the whole outline."""
        add = words.add
        add_kind = kinds.add
        level: list[Any] = [statement]
        depth = 0
        while level:
            depth += 1
            if depth > MAX_DEPTH:
                raise _TooDeepError
            below: list[Any] = []
            push = below.append
            for node in level:
                kind = node.__class__
                if kind is ast.Name:
                    add(node.id)
                elif kind is ast.Attribute:
                    parts = [node.attr]
                    node = node.value
                    while node.__class__ is ast.Attribute:
                        parts.append(node.attr)
                        node = node.value
                    if len(parts) > MAX_DEPTH:
                        raise _TooDeepError
                    if node.__class__ is ast.Name:
                        parts.append(node.id)
                        words.update(parts)
                        parts.reverse()
                        dotted.add(intern(".".join(parts)))
                    else:
                        words.update(parts)
                        push(node)
                elif kind is ast.Constant:
                    value = node.value
                    if value.__class__ is str and len(value) <= MAX_WORD:
                        add(intern(value))
                elif kind is ast.Call:
                    push(node.func)
                    below += node.args
                    below += node.keywords
                elif kind is str:
                    add(node)
                elif node is not None:
                    add_kind(kind)
                    if kind is ast.alias:
                        _add_module(node.name, words, dotted)
                        if node.asname:
                            add(node.asname)
                        continue
                    if kind is ast.ImportFrom or kind is ast.Import:
                        self._add_imports(node, top=node is statement)
                        if kind is ast.ImportFrom and node.module:
                            _add_module(node.module, words, dotted)
                            below += node.names
                            continue
                    elif kind is ast.BoolOp and len(node.values) > MAX_DEPTH:
                        # Flat here, but nested in libcst.
                        raise _TooDeepError
                    for value in (_getters.get(kind) or _getter(kind))(node):
                        if value.__class__ is list:
                            below += value
                        else:
                            push(value)
            level = below

    def _add_imports(self, node: ast.Import | ast.ImportFrom, *, top: bool) -> None:
        if isinstance(node, ast.Import):
            found = (Import(intern(alias.name), None, alias.asname, 0, node.lineno, top) for alias in node.names)
        else:
            module = intern(node.module or "")
            found = (Import(module, alias.name, alias.asname, node.level, node.lineno, top) for alias in node.names)
        self._imports.extend(found)

    def _first_row(self, node: ast.stmt) -> int:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        if not decorators:
            return node.lineno
        row = decorators[0].lineno
        # A decorator in parentheses may begin on a row below its `@`.
        while row > 1 and not self._text.startswith("@", self._row_start(row) + node.col_offset):
            row -= 1
        return row


def _kind(node: ast.stmt) -> str:
    return _KINDS.get(node.__class__) or ("compound" if hasattr(node, "body") or hasattr(node, "cases") else "simple")


def _getter(kind: type) -> _Getter:
    """A function that gives the values of a node type's fields that lead to children, names included."""
    fields = [field for field in getattr(kind, "_fields", ()) if field not in _NOT_CHILDREN]
    if kind is ast.MatchSingleton or not fields:
        found: _Getter = _nothing
    elif len(fields) == 1:
        only = attrgetter(fields[0])

        def found(node: Any) -> tuple[Any, ...]:
            return (only(node),)

    else:
        found = attrgetter(*fields)
    _getters[kind] = found
    return found


def _nothing(node: Any) -> tuple[Any, ...]:
    return ()


def _add_module(name: str, words: set[str], dotted: set[str]) -> None:
    if "." in name:
        words.update(map(intern, name.split(".")))
        dotted.add(intern(name))
    else:
        words.add(name)


def _names_of(kinds: set[type]) -> frozenset[str]:
    key = frozenset(kinds)
    names = _named.get(key)
    if names is None:
        names = _named[key] = frozenset(kind.__name__ for kind in key)
    return names


def _is_main_guard(test: ast.expr) -> bool:
    held = {
        node.id if isinstance(node, ast.Name) else node.value
        for node in ast.walk(test)
        if isinstance(node, (ast.Name, ast.Constant))
    }
    return "__name__" in held and "__main__" in held

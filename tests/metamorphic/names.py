"""Which names of a file are the same variable, and where they stand: what every change of names builds upon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    ByteSpanPositionProvider,
    CodeSpan,
    ExpressionContext,
    ExpressionContextProvider,
    GlobalScope,
    ImportAssignment,
    MetadataWrapper,
    ScopeProvider,
)
from libcst.metadata import Scope as CstScope

Program = Mapping[str, str]
"""The texts of a program's files by path, with `/`."""


@dataclass(eq=False)
class Unit:
    """A name of one scope: all places that bind and read it."""

    name: str
    scope: CstScope
    nodes: list[cst.Name] = field(default_factory=list)
    """Where it is written, import statements left out."""
    imports: list[ImportAssignment] = field(default_factory=list)
    params: list[cst.Param] = field(default_factory=list)
    definitions: list[cst.FunctionDef | cst.ClassDef] = field(default_factory=list)
    is_plain: bool = False
    """Something else binds it: an assignment, a loop, a `with`."""
    is_fixed: bool = False
    """It cannot be renamed with certainty."""

    @property
    def is_global(self) -> bool:
        return isinstance(self.scope, GlobalScope)

    @property
    def is_import(self) -> bool:
        return bool(self.imports) and not (self.params or self.definitions or self.is_plain)


class File:
    """A parsed text with its units in the order of their first place."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        self.module = wrapper.module
        self._spans: Mapping[cst.CSTNode, CodeSpan] = wrapper.resolve(ByteSpanPositionProvider)
        self.scopes: Mapping[cst.CSTNode, CstScope | None] = wrapper.resolve(ScopeProvider)
        self.nodes = list(_walk(self.module))
        contexts: Mapping[cst.CSTNode, ExpressionContext] = wrapper.resolve(ExpressionContextProvider)
        self.stored = {node for node, context in contexts.items() if context is ExpressionContext.STORE}
        self.unit_of: dict[cst.CSTNode, Unit] = {}
        self.unresolved: set[str] = set()
        units = [unit for scope in dict.fromkeys(filter(None, self.scopes.values())) for unit in self._units(scope)]
        self._add_declarations()
        for unit in units:
            unit.nodes = sorted(dict.fromkeys(unit.nodes), key=self.start)
            unit.is_fixed |= unit.name in self.unresolved or is_dunder(unit.name)
        self.units = sorted(units, key=self._first)

    @cached_property
    def strings(self) -> frozenset[str]:
        """What the string constants of the file say."""
        found = (node.evaluated_value for node in self.nodes if isinstance(node, cst.SimpleString))
        return frozenset(text for text in found if isinstance(text, str))

    def start(self, node: cst.CSTNode) -> int:
        return self._spans[node].start

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """The bytes of a node in the text's UTF-8."""
        span = self._spans[node]
        return span.start, span.start + span.length

    def edited(self, edits: Iterable[tuple[int, int, str]]) -> str:
        """The text with spans of bytes replaced."""
        data = self.text.encode()
        for start, end, new in sorted(set(edits), reverse=True):
            data = data[:start] + new.encode() + data[end:]
        return data.decode()

    def renamed(self, nodes: Iterable[cst.CSTNode], new: str) -> Iterator[tuple[int, int, str]]:
        for node in nodes:
            yield (*self.span(node), new)

    def _units(self, scope: CstScope) -> Iterator[Unit]:
        units: dict[str, Unit] = {}
        for assignment in _sorted(scope.assignments, self._first_of):
            # `import a.b` is recorded as both `a` and `a.b`; what it binds is `a`.
            name = assignment.name.partition(".")[0]
            if assignment.scope is not scope:
                continue
            unit = units.setdefault(name, Unit(name, scope))
            self._bind(unit, assignment)
            for access in assignment.references:
                node = leftmost(access.node)
                if isinstance(node, cst.Name):
                    self._place(unit, node)
                else:
                    unit.is_fixed = True  # it is read from a string that is an annotation
        for access in scope.accesses:
            if not access.referents:
                node = leftmost(access.node)
                self.unresolved.add(node.value if isinstance(node, cst.Name) else "")
        yield from units.values()

    def _bind(self, unit: Unit, assignment: BaseAssignment) -> None:
        if isinstance(assignment, ImportAssignment):
            unit.imports.append(assignment)
            return
        assert isinstance(assignment, Assignment)
        node = assignment.node
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            unit.definitions.append(node)
            node = node.name
        elif isinstance(node, cst.Param):
            unit.params.append(node)
            node = node.name
        else:
            unit.is_plain = True
        assert isinstance(node, cst.Name)
        self._place(unit, node)

    def _place(self, unit: Unit, node: cst.Name) -> None:
        other = self.unit_of.setdefault(node, unit)
        if other is not unit:
            # The body of a class can read either its own variable or the one outside.
            other.is_fixed = unit.is_fixed = True
        unit.nodes.append(node)

    def _add_declarations(self) -> None:
        for node in self.nodes:
            if isinstance(node, cst.Global | cst.Nonlocal):
                scope = self.scopes[node]
                assert scope is not None
                for item in node.names:
                    name = cst.ensure_type(item.name, cst.Name)
                    for assignment in scope[name.value]:
                        bound = _bound_name(assignment)
                        unit = self.unit_of.get(bound) if bound else None
                        if unit is None:
                            self.unresolved.add(name.value)
                        else:
                            self._place(unit, name)

    def _first_of(self, assignment: BaseAssignment) -> int:
        if isinstance(assignment, ImportAssignment):
            return self.start(assignment.node)
        assert isinstance(assignment, Assignment)
        return self.start(assignment.node)

    def _first(self, unit: Unit) -> int:
        return min([self.start(node) for node in unit.nodes] + [self._first_of(each) for each in unit.imports])


def leftmost(node: cst.CSTNode) -> cst.CSTNode:
    """`a` of `a.b.c`."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node


def dotted(node: cst.CSTNode | None) -> str:
    """`a.b.c` as text, empty for what is no such chain."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return ""
    return ".".join([node.value, *reversed(parts)])


def _bound_name(assignment: BaseAssignment) -> cst.CSTNode | None:
    node = assignment.node if isinstance(assignment, Assignment) else None
    return node.name if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Param) else node


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _sorted(assignments: Iterable[BaseAssignment], key: Callable[[BaseAssignment], int]) -> list[BaseAssignment]:
    found = [each for each in assignments if isinstance(each, Assignment | ImportAssignment)]
    return sorted(found, key=key)


def _walk(module: cst.Module) -> Iterator[cst.CSTNode]:
    stack: list[cst.CSTNode] = [module]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))

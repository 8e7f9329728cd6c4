"""Files of a program while it is executed: their globals, made when someone asks for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Ctx, Place
from ptlint.facts.scopes import Scope, bound_names, counters
from ptlint.facts.values import Const, Function, ProjectClass, Value
from ptlint.syntax.tree import SyntaxUnreadable, Tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ptlint.outline.project import ProjectFile
    from ptlint.outline.statements import Statement


class Trees:
    """The trees of statements, parsed when first asked for and shared by the programs of a run."""

    def __init__(self) -> None:
        self._trees: dict[tuple[Path, int, bool], Tree | None] = {}
        self._scopes: dict[int, tuple[cst.CSTNode, Scope]] = {}
        self._bound: dict[int, tuple[cst.CSTNode, set[str]]] = {}
        self._counters: dict[int, tuple[cst.CSTNode, set[str]]] = {}
        self._constants: dict[int, tuple[cst.CSTNode, Const]] = {}
        self.elsewhere: dict[tuple[Path, ...], frozenset[str]] = {}
        self.work = 0  # done by the runs that used them

    def forget(self) -> None:
        """Let go of all trees, and of what hangs on them."""
        for held in (self._trees, self._scopes, self._bound, self._counters, self._constants):
            held.clear()

    def tree(self, file: ProjectFile, statement: Statement) -> Tree | None:
        """The tree of a statement, or None where libcst cannot read it; of a class without the bodies of its methods
        (`Function.node` has them)."""
        return self._parsed(file, statement, Tree.parse_class if statement.kind == "class" else Tree.parse)

    def whole(self, file: ProjectFile, statement: Statement) -> Tree | None:
        """The tree of a statement with all that it holds."""
        return self._parsed(file, statement, Tree.parse)

    def _parsed(self, file: ProjectFile, statement: Statement, parse: Callable[..., Tree]) -> Tree | None:
        key = (file.path, statement.index, statement.kind == "class" and parse == Tree.parse)
        if key not in self._trees:
            try:
                assert file.source is not None
                self._trees[key] = parse(file.source, statement)
            except SyntaxUnreadable:
                self._trees[key] = None
        return self._trees[key]

    @property
    def lines(self) -> int:
        """How many lines were parsed."""
        return sum(tree.lines for tree in self._trees.values() if tree is not None)

    def scope(self, node: cst.CSTNode) -> Scope:
        """The scope of a node, worked out once."""
        found = self._scopes.get(id(node))
        if found is None:
            found = self._scopes[id(node)] = (node, Scope(node))
        return found[1]

    def constant(self, node: cst.Integer | cst.Float | cst.SimpleString) -> Const:
        """A literal's value, worked out once: libcst evaluates the text anew each time."""
        found = self._constants.get(id(node))
        if found is None:
            found = self._constants[id(node)] = (node, Const(node.evaluated_value))
        return found[1]

    def bound(self, body: cst.CSTNode) -> set[str]:
        """The names that a block binds, worked out once."""
        found = self._bound.get(id(body))
        if found is None:
            found = self._bound[id(body)] = (body, bound_names(body))
        return found[1]

    def counters(self, body: cst.CSTNode) -> set[str]:
        """The names that a block only counts up, worked out once."""
        found = self._counters.get(id(body))
        if found is None:
            found = self._counters[id(body)] = (body, counters(body))
        return found[1]


class Home:
    """One file of a program in execution."""

    def __init__(self, file: ProjectFile, ctx: Ctx) -> None:
        self.file = file
        self.ctx = ctx
        self.globals: dict[str, Value] = {}
        self.done: set[int] = set()
        self.imported = False
        self.binders: dict[str, list[Statement]] = {}
        self.stars: list[Statement] = []
        self.imports: dict[str, tuple[str, int, str]] = {}  # names from `from … import`, not looked up yet
        self.star_homes: list[Home] = []
        self.star_modules: list[str] = []
        for statement in file.outline.statements:
            for name in statement.binds:
                if name == "*":
                    self.stars.append(statement)
                else:
                    self.binders.setdefault(name, []).append(statement)


@dataclass(slots=True)
class LoopState:
    """Local states that leave a loop body early."""

    breaks: list[dict[str, Value]] = field(default_factory=list)
    continues: list[dict[str, Value]] = field(default_factory=list)


class Frame:
    """A running function (or file): local names, the context it runs in, and what it has returned so far."""

    __slots__ = (
        "bound", "cls", "ctx", "dead", "function", "globals_declared", "home", "locals", "loops", "outer", "returned",
        "root", "scope", "tree", "yield_modes", "yielded",
    )  # fmt: skip

    def __init__(self, home: Home, tree: Tree, ctx: Ctx, scope: Scope, outer: Frame | None = None) -> None:
        self.home = home
        self.tree = tree
        self.ctx = ctx
        self.root = ctx
        self.scope = scope
        self.outer = outer
        self.function: Function | None = None
        self.cls: ProjectClass | None = None
        self.locals: dict[str, Value] = {}
        self.bound: dict[str, Ctx] = {}
        self.globals_declared: set[str] = set()
        self.dead = False
        self.returned: list[Value] = []
        self.yielded: list[Value] = []
        self.yield_modes: list[Ctx] = []
        self.loops: list[LoopState] = []

    @property
    def at_top(self) -> bool:
        """Whether this frame runs a file's top level, where local names are the file's globals."""
        return self.function is None and self.cls is None

    def place(self, node: cst.CSTNode) -> Place:
        return Place(self.home.file, self.tree, node)

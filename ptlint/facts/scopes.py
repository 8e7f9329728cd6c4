"""What a function's text says before it is executed: names it binds, and how each name is used.

Use is a source of knowledge (DESIGN.md, Values): a parameter that nothing binds but on which `.zero_grad()` and
`.step()` are called is an optimizer, whatever it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from ptlint.syntax.fields import children


@dataclass(slots=True)
class Use:
    """How a name is used in a scope."""

    methods: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    called: bool = False
    wrapped: bool = False  # given to a class that only wraps modules


class Scope:
    """The names of one function, lambda, class body or top-level statement; read when first asked for."""

    __slots__ = ("_binds", "_globals", "_node", "_uses", "_yields")

    def __init__(self, node: cst.CSTNode) -> None:
        self._node: cst.CSTNode | None = node
        self._binds: set[str] = set()
        self._uses: dict[str, Use] = {}
        self._globals: set[str] = set()
        self._yields = False

    @property
    def binds(self) -> set[str]:
        """The names that it binds itself."""
        self._fill()
        return self._binds

    @property
    def uses(self) -> dict[str, Use]:
        """How names, and chains of attributes of names, are used in it and in what it holds."""
        self._fill()
        return self._uses

    @property
    def global_names(self) -> set[str]:
        """Its `global` and `nonlocal` names."""
        self._fill()
        return self._globals

    @property
    def has_yield(self) -> bool:
        """Whether it is a generator."""
        self._fill()
        return self._yields

    def _fill(self) -> None:
        if self._node is None:
            return
        node, self._node = self._node, None
        stack: list[tuple[Any, bool]] = [(node, True)]
        while stack:
            current, own = stack.pop()
            kind = type(current)
            note = _USES.get(kind)
            if note is not None:
                note(self._uses, current)
            if own:
                self._binds.update(_bound_by(current))
                if kind is cst.Yield:
                    self._yields = True
                elif kind is cst.Global or kind is cst.Nonlocal:
                    self._globals.update(item.name.value for item in current.names)
                own = current is node or kind not in _SCOPES
            stack += [(child, own) for child in children(current)]


_SCOPES = frozenset({cst.FunctionDef, cst.ClassDef, cst.Lambda})


# Exact types are looked up throughout this module: libcst's classes are ABCs, whose isinstance() is slow, and these
# walks touch every node of what is executed.


def walk(node: cst.CSTNode, *, into_scopes: bool = False) -> Iterator[cst.CSTNode]:
    """The nodes under `node` in source order, without those of nested functions and classes."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if not into_scopes and current is not node and type(current) in _SCOPES:
            continue
        below = children(current)
        below.reverse()
        stack += below


def target_names(target: cst.CSTNode) -> Iterator[str]:
    """The names that an assignment target binds."""
    stack: list[cst.CSTNode] = [target]
    while stack:
        current = stack.pop()
        if isinstance(current, cst.Name):
            yield current.value
        elif isinstance(current, (cst.Tuple, cst.List)):
            stack.extend(element.value for element in reversed(current.elements))
        elif isinstance(current, cst.StarredElement):
            stack.append(current.value)


def _bound_by(node: Any) -> Iterator[str]:
    """The names that one node binds."""
    kind = type(node)
    if kind is cst.Assign:
        for assign_target in node.targets:
            yield from target_names(assign_target.target)
    elif kind in _TARGETED:
        yield from target_names(node.target)
    elif kind is cst.AsName:
        yield from target_names(node.name)
    elif kind is cst.FunctionDef or kind is cst.ClassDef:
        yield node.name.value
    elif kind is cst.ImportAlias and node.asname is None:
        name = node.name
        while isinstance(name, cst.Attribute):
            name = name.value
        if isinstance(name, cst.Name):
            yield name.value


_TARGETED = frozenset({cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr})


def bound_names(body: cst.CSTNode) -> set[str]:
    """The names that statements under `body` bind in their own scope."""
    return {name for node in walk(body) for name in _bound_by(node)}


_WRAPPERS = frozenset({"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"})


def _note_call(uses: dict[str, Use], node: cst.Call) -> None:
    func = node.func
    if node.args and dotted(func).rpartition(".")[2] in _WRAPPERS:
        text = dotted(node.args[0].value)
        if text:
            uses.setdefault(text, Use()).wrapped = True
    if isinstance(func, cst.Name):
        uses.setdefault(func.value, Use()).called = True
    elif isinstance(func, cst.Attribute):
        text = dotted(func.value)
        if text:
            uses.setdefault(text, Use()).methods.add(func.attr.value)


def _note_attribute(uses: dict[str, Use], node: cst.Attribute) -> None:
    text = dotted(node.value)
    if text:
        uses.setdefault(text, Use()).attributes.add(node.attr.value)


_USES: dict[type, Callable[[dict[str, Use], Any], None]] = {
    cst.Call: _note_call,
    cst.Attribute: _note_attribute,
}


def dotted(node: cst.BaseExpression) -> str:
    """A name or a chain of attributes of a name as text (`self.optimizer`); empty for anything else."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return ""
    parts.append(node.value)
    return ".".join(reversed(parts))


def is_terminal(block: cst.BaseSuite) -> bool:
    """Whether a block always leaves (its last statement is continue, break, return or raise)."""
    if not block.body:
        return False
    last = block.body[-1]
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, (cst.Continue, cst.Break, cst.Return, cst.Raise))


def skips_rest(block: cst.BaseSuite, *, in_loop: bool) -> bool:
    """Whether a block always skips what follows it without ending a loop: by `continue`, or by leaving a function."""
    if not is_terminal(block):
        return False
    last = block.body[-1]
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, cst.Continue) or (not in_loop and not isinstance(last, cst.Break))


def counters(body: cst.CSTNode) -> set[str]:
    """The names that a block only ever counts up: `step += 1`, and nothing else."""
    steps: dict[str, int] = {}
    bindings: dict[str, int] = {}
    for node in walk(body):
        for name in _bound_by(node):
            bindings[name] = bindings.get(name, 0) + 1
        if type(node) is cst.AugAssign and isinstance(node.target, cst.Name):
            if isinstance(node.operator, cst.AddAssign) and isinstance(node.value, cst.Integer):
                steps[node.target.value] = steps.get(node.target.value, 0) + 1
    return {name for name, count in steps.items() if bindings[name] == count}


def leaves_loop(block: cst.CSTNode) -> bool:
    """Whether something in a block decides how a loop goes on: break, continue, return or raise."""
    return any(type(node) in _LEAVING or _is_exit(node) for node in walk(block))


_LEAVING = frozenset({cst.Break, cst.Continue, cst.Return, cst.Raise})


def _is_exit(node: cst.CSTNode) -> bool:
    """`exit()`, `quit()`, `sys.exit()`, `os._exit()`."""
    if not isinstance(node, cst.Call):
        return False
    func = node.func
    name = func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else ""
    return name in ("exit", "quit", "_exit")

"""What a function's text says before it is executed: names it binds, and how each name is used.

Use is a source of knowledge (DESIGN.md, Values): a parameter that nothing binds but on which `.zero_grad()` and
`.step()` are called is an optimizer, whatever it is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ptlint.syntax.fields import children


@dataclass(slots=True)
class Use:
    """How a name is used in a scope."""

    methods: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    called: bool = False
    iterated: bool = False
    item_moved: bool = False  # something derived from its items by unpacking is moved or fed on


@dataclass(slots=True)
class Scope:
    """The names of one function, lambda, class body or file."""

    binds: set[str] = field(default_factory=set)
    uses: dict[str, Use] = field(default_factory=dict)
    global_names: set[str] = field(default_factory=set)
    has_yield: bool = False


_SCOPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda)


def walk(node: cst.CSTNode, *, into_scopes: bool = False) -> Iterator[cst.CSTNode]:
    """The nodes under `node` in source order, without those of nested functions and classes."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if not into_scopes and current is not node and isinstance(current, _SCOPES):
            continue
        stack.extend(reversed(list(children(current))))


def target_names(target: cst.BaseExpression) -> Iterator[str]:
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


def bound_names(body: cst.CSTNode) -> set[str]:
    """The names that statements under `body` bind in their own scope."""
    found: set[str] = set()
    for node in walk(body):
        if isinstance(node, cst.Assign):
            for assign_target in node.targets:
                found.update(target_names(assign_target.target))
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)):
            found.update(target_names(node.target))
        elif isinstance(node, cst.AsName):
            found.update(target_names(node.name))
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            found.add(node.name.value)
        elif isinstance(node, cst.ImportAlias) and node.asname is None:
            name: cst.BaseExpression = node.name
            while isinstance(name, cst.Attribute):
                name = name.value
            if isinstance(name, cst.Name):
                found.add(name.value)
    return found


def scope_of(node: cst.CSTNode) -> Scope:
    """The scope of a function, lambda, class body or top-level statement."""
    scope = Scope(bound_names(node))
    for inner in walk(node, into_scopes=True):
        _note_use(scope, inner)
    for inner in walk(node):
        if isinstance(inner, cst.Yield):
            scope.has_yield = True
        elif isinstance(inner, (cst.Global, cst.Nonlocal)):
            scope.global_names.update(item.name.value for item in inner.names)
    return scope


def _note_use(scope: Scope, node: cst.CSTNode) -> None:
    if isinstance(node, cst.Call):
        func = node.func
        if isinstance(func, cst.Name):
            scope.uses.setdefault(func.value, Use()).called = True
        elif isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name):
            scope.uses.setdefault(func.value.value, Use()).methods.add(func.attr.value)
    elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
        scope.uses.setdefault(node.value.value, Use()).attributes.add(node.attr.value)
    elif isinstance(node, (cst.For, cst.CompFor)):
        name = _iterated_name(node.iter)
        if name is not None:
            scope.uses.setdefault(name, Use()).iterated = True


def _iterated_name(node: cst.BaseExpression) -> str | None:
    """The name that a loop goes over, through calls such as enumerate and tqdm."""
    while isinstance(node, cst.Call) and node.args:
        node = node.args[0].value
    return node.value if isinstance(node, cst.Name) else None


def is_terminal(block: cst.BaseSuite) -> bool:
    """Whether a block always leaves (its last statement is continue, break, return or raise)."""
    if not block.body:
        return False
    last = block.body[-1]
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, (cst.Continue, cst.Break, cst.Return, cst.Raise))


def leaves_loop(block: cst.CSTNode) -> bool:
    """Whether something in a block decides how a loop goes on: break, continue, return or raise."""
    return any(isinstance(node, (cst.Break, cst.Continue, cst.Return, cst.Raise)) for node in walk(block))

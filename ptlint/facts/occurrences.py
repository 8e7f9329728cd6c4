"""Where a function's text reads and binds a name, in the order in which it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.scopes import walk

if TYPE_CHECKING:
    from ptlint.syntax.tree import Tree

READ, BIND, UPDATE = "read", "bind", "update"


@dataclass(frozen=True)
class Occurrence:
    """A place of a name: `READ`, `BIND`, or `UPDATE` for the target of `+=` and its like.

    `value`: what a `BIND` or `UPDATE` by a plain assignment evaluates.
    """

    node: cst.Name
    kind: str
    value: cst.BaseExpression | None = None


def occurrences(tree: Tree, function: cst.FunctionDef | cst.Module, name: str) -> list[Occurrence]:
    """All places of a name in a function (or a top-level statement), those in nested functions too.

    In the order in which they run: statements read before they bind.
    """
    found: list[tuple[int, bool, int, Occurrence]] = []
    for node in walk(function, into_scopes=True):
        if not isinstance(node, cst.Name) or node.value != name or _is_label(tree, node):
            continue
        made = _occurrence(tree, node)
        statement = tree.statement(node)
        start = tree.span(statement if statement is not None else node)[0]
        found.append((start, made.kind != READ, tree.span(node)[0], made))
    found.sort(key=lambda item: item[:3])
    return [made for *_, made in found]


def _occurrence(tree: Tree, node: cst.Name) -> Occurrence:
    parent = tree.parent(node)
    inside = False
    while isinstance(parent, (cst.Element, cst.StarredElement, cst.Tuple, cst.List)):
        inside = True
        parent = tree.parent(parent)
    if isinstance(parent, cst.AssignTarget):
        statement = tree.parent(parent)
        assert isinstance(statement, cst.Assign)
        return Occurrence(node, BIND, None if inside else statement.value)
    if isinstance(parent, cst.AugAssign) and parent.target is node:
        return Occurrence(node, UPDATE, parent.value)
    if isinstance(parent, (cst.AnnAssign, cst.NamedExpr)) and parent.target is node:
        return Occurrence(node, BIND, parent.value)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return Occurrence(node, BIND if _holds(tree, parent.target, node) else READ)
    return Occurrence(node, BIND if isinstance(parent, (cst.Param, cst.AsName)) else READ)


def _holds(tree: Tree, outer: cst.CSTNode, node: cst.CSTNode) -> bool:
    start, end = tree.span(outer)
    return start <= tree.span(node)[0] < end


def _is_label(tree: Tree, node: cst.Name) -> bool:
    """Whether it is the name of a keyword argument or of an attribute."""
    parent = tree.parent(node)
    if isinstance(parent, cst.Arg):
        return parent.keyword is node
    return isinstance(parent, cst.Attribute) and parent.attr is node

"""Taking an assignment out of a loop that repeats it with the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.layout import CannotEdit
from ptlint.edits.statements import delete_statement, insert_before
from ptlint.facts.scopes import bound_names, target_names, walk
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.syntax.tree import Tree


def hoist(tree: Tree, value: cst.BaseExpression, loop: cst.CSTNode) -> tuple[Edit, ...]:
    """Edits that put `name = value` in front of the loop in whose own block it stands.

    Raises `CannotEdit` where the loop binds something that the value needs, or the name more than once.
    """
    statement = tree.statement(value)
    line = tree.parent(statement) if statement is not None else None
    if not isinstance(loop, (cst.For, cst.While)):
        raise CannotEdit("no loop of this function repeats it")
    if not isinstance(statement, cst.Assign) or statement.value is not value or len(statement.targets) != 1:
        raise CannotEdit("it is part of a longer expression, and needs a name first")
    target = statement.targets[0].target
    if not isinstance(target, cst.Name):
        raise CannotEdit("what it is assigned to is no plain name")
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 or tree.parent(line) is not loop.body:
        raise CannotEdit("it does not stand in the loop's own block")
    needed = {node.value for node in walk(value, into_scopes=True) if isinstance(node, cst.Name)}
    changed = set(bound_names(loop.body)) | (set(target_names(loop.target)) if isinstance(loop, cst.For) else set())
    if needed & changed:
        raise CannotEdit("the loop binds a name that it needs")
    holder = next((n for n in tree.ancestors(loop) if isinstance(n, cst.FunctionDef)), tree.module)
    names = [
        node for node in walk(holder, into_scopes=True) if isinstance(node, cst.Name) and node.value == target.value
    ]
    inside = {id(node) for node in walk(loop, into_scopes=True)}
    if any(id(node) not in inside for node in names) or _bindings(loop, target.value) != 1:
        raise CannotEdit(f"`{target.value}` is also used outside of the loop or bound twice")
    if names and names[0] is not target:
        raise CannotEdit(f"`{target.value}` is used before it is assigned")
    return (*insert_before(tree, loop, [tree.code(statement)]), *delete_statement(tree, statement))


def _bindings(loop: cst.CSTNode, name: str) -> int:
    return sum(
        isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr))
        and name in set(target_names(node.target))
        for node in walk(loop, into_scopes=True)
    )

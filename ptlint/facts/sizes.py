"""Passes over a loader that only learn a size: how many batches or samples there are, or how large a batch is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import roles
from ptlint.facts.batch_moves import SELDOM
from ptlint.facts.events import Ctx, Iterate, Place
from ptlint.facts.occurrences import BIND, READ, occurrences
from ptlint.facts.scopes import target_names, walk
from ptlint.facts.values import Loader

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.syntax.tree import Tree

BATCHES, SAMPLES, SHAPE = "batches", "samples", "shape"

_COLLECTIONS = ("list", "tuple")
_SIZE_ATTRIBUTES = frozenset({"shape", "ndim", "dtype"})
_SIZE_METHODS = frozenset({"size", "dim", "numel", "nelement", "ndimension"})


@dataclass(frozen=True)
class SizeRead:
    """`place`: the whole expression that asks; `what`: the number of batches or samples, or the shape of a batch;
    `loop`: the loop of an epoch (or step) in which that happens, None outside of any."""

    event: Iterate
    place: Place
    what: str
    loop: Ctx | None


def size_reads(facts: ProgramFacts) -> Iterator[SizeRead]:
    """Every pass over a loader whose batches nothing uses."""
    for event in facts.events(Iterate):
        if not isinstance(event.value, Loader) or any(up.rarity in SELDOM for up in event.ctx.up() if not up.step):
            continue
        found = _counted(facts, event) or _peeked(event)
        if found is not None:
            node, what = found
            loop = facts.roles.innermost(event.ctx, roles.EPOCH, roles.TRAINING, roles.EVALUATION)
            yield SizeRead(event, event.place.at(node), what, loop)


def _counted(facts: ProgramFacts, event: Iterate) -> tuple[cst.CSTNode, str] | None:
    """`len(list(loader))`, `sum(1 for _ in loader)`, a loop that only counts."""
    node, tree = event.place.node, event.place.tree
    parent = tree.parent(node)
    if isinstance(node, cst.Call) and _is_call(node, *_COLLECTIONS):
        outer = _argument_of(tree, node, "len")
        return (outer, BATCHES) if outer is not None and _is_library(facts, outer, "len") else None
    if isinstance(parent, cst.CompFor) and parent.inner_for_in is None and not parent.ifs:
        return _counted_by_comprehension(facts, tree, parent)
    if isinstance(parent, cst.For) and parent.iter is node:
        block = [line for line in parent.body.body if not isinstance(line, cst.EmptyLine)]
        only = block[0].body[0] if len(block) == 1 and isinstance(block[0], cst.SimpleStatementLine) else None
        counts = isinstance(only, cst.AugAssign) and isinstance(only.value, cst.Integer)
        return (parent.iter, BATCHES) if counts else None
    return None


def _counted_by_comprehension(facts: ProgramFacts, tree: Tree, clause: cst.CompFor) -> tuple[cst.CSTNode, str] | None:
    made = tree.parent(clause)
    if isinstance(made, cst.ListComp) and isinstance(made.elt, (cst.Name, cst.Integer)):
        outer = _argument_of(tree, made, "len")
        if outer is not None and _is_library(facts, outer, "len"):
            return outer, BATCHES
    if isinstance(made, (cst.ListComp, cst.GeneratorExp)):
        outer = _argument_of(tree, made, "sum")
        if outer is None or not _is_library(facts, outer, "sum"):
            return None
        if isinstance(made.elt, cst.Integer):
            return outer, BATCHES
        names = set(target_names(clause.target))
        asked = [node for node in walk(made.elt) if isinstance(node, cst.Name) and node.value in names]
        if asked and all(_size_of(tree, node) is made.elt for node in asked):
            return outer, SAMPLES
    return None


def _peeked(event: Iterate) -> tuple[cst.CSTNode, str] | None:
    """`next(iter(loader))` of which only a size is asked."""
    node, tree = event.place.node, event.place.tree
    if not (isinstance(node, cst.Call) and _is_call(node, "next")):
        return None
    inner = node.args[0].value if len(node.args) == 1 else None
    if not (isinstance(inner, cst.Call) and _is_call(inner, "iter")):
        return None
    if _size_of(tree, node) is not None:
        return node, SHAPE
    whole = _item_of(tree, node)
    statement = tree.parent(whole)
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1 and statement.value is whole:
        holder = next((n for n in tree.ancestors(node) if isinstance(n, cst.FunctionDef)), tree.module)
        names = set(target_names(statement.targets[0].target))
        plain = _only_names(statement.targets[0].target)
        asked = [_only_sizes(tree, holder, statement, name) for name in names]
        if plain and None not in asked and any(asked):
            return node, SHAPE
    return None


def _only_names(target: cst.BaseExpression) -> bool:
    """Whether a target is a name, or names only."""
    return not any(isinstance(node, (cst.Attribute, cst.Subscript, cst.StarredElement)) for node in walk(target))


def _only_sizes(tree: Tree, holder: cst.FunctionDef | cst.Module, statement: cst.Assign, name: str) -> bool | None:
    """Whether sizes of what a name holds are asked (and nothing else); None where something else is done with it.

    What reads the name before the statement, or after it was bound anew, has other values.
    """
    start = tree.span(statement)[0]
    asked = False
    for found in occurrences(tree, holder, name):
        position = tree.span(found.node)[0]
        if position < start:
            continue
        if found.kind == BIND and tree.statement(found.node) is not statement:
            break
        if found.kind == READ and _size_of(tree, found.node) is None:
            return None
        asked = asked or found.kind == READ
    return asked


def _item_of(tree: Tree, node: cst.CSTNode) -> cst.CSTNode:
    """What is taken out of a batch: `batch[0]`, `batch["x"]`."""
    parent = tree.parent(node)
    while isinstance(parent, cst.Subscript) and parent.value is node:
        node, parent = parent, tree.parent(parent)
    return node


def _size_of(tree: Tree, node: cst.CSTNode) -> cst.CSTNode | None:
    """The expression that asks for the size of a batch or an item of it: `len(x[0])`, `x.shape`, `x.size(0)`."""
    node = _item_of(tree, node)
    outer = _argument_of(tree, node, "len")
    if outer is not None:
        return outer
    parent = tree.parent(node)
    if not (isinstance(parent, cst.Attribute) and parent.value is node):
        return None
    if parent.attr.value in _SIZE_ATTRIBUTES:
        return _item_of(tree, parent)
    call = tree.parent(parent)
    if parent.attr.value in _SIZE_METHODS and isinstance(call, cst.Call) and call.func is parent:
        return _item_of(tree, call)
    return None


def _argument_of(tree: Tree, node: cst.CSTNode, name: str) -> cst.Call | None:
    """The call of a builtin whose only argument an expression is."""
    arg = tree.parent(node)
    call = tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if isinstance(call, cst.Call) and len(call.args) == 1 and _is_call(call, name):
        return call
    return None


def _is_call(call: cst.Call, *names: str) -> bool:
    return isinstance(call.func, cst.Name) and call.func.value in names


def _is_library(facts: ProgramFacts, call: cst.Call, name: str) -> bool:
    """Whether a call was one of the builtin, not of a function of the project that has its name."""
    return any(event.name == name for event in facts.calls_at(call))

"""Copies of batches to an accelerator: which are made again and again, and which copy memory that a loader pinned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards
from ptlint.facts.events import Ctx, Move
from ptlint.facts.scopes import target_names, walk
from ptlint.facts.values import DEVICE, Const, Device, Items, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

SELDOM = (guards.RARE, guards.EXCEPT, guards.OFF_PATH)
"""Branches that are taken now and then, or not at all on an accelerator."""

_VIEWS = frozenset(
    {"view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "t", "flatten", "expand", "contiguous"}
    | {"detach", "requires_grad_", "narrow", "select", "chunk", "movedim", "get", "pop", "items", "values"}
    | {"float", "double", "half", "bfloat16", "long", "int", "bool", "type", "to"}
)
"""Methods whose result is the tensor itself, a view of it, or the tensor in another type."""
_KEEPS = ("torch.autograd.Variable", "torch.squeeze", "torch.unsqueeze", "torch.flatten", "torch.transpose")
MAX_NAMES = 4


def is_repeated(move: Move) -> bool:
    """Whether something on the host is copied to an accelerator in nearly every iteration of a loop."""
    to_accelerator = any(isinstance(option, Device) and option.where == DEVICE for option in options(move.target))
    there = all(getattr(option, "where", None) == DEVICE for option in options(move.value))
    return to_accelerator and not there and _in_loop(move.ctx)


def _in_loop(ctx: Ctx) -> bool:
    """Whether a context is in nearly every iteration of a loop (comprehensions do not count)."""
    for up in ctx.up():
        if up.kind == "guard" and up.rarity in SELDOM and not up.step:
            return False
        if up.kind == "loop" and up.place is not None and isinstance(up.place.node, (cst.For, cst.While)):
            return not up.once
    return False


def ask_for_cuda(moves: Sequence[Move]) -> bool:
    """Whether copies go to CUDA whatever flags and the machine say."""
    targets = [option for move in moves for option in options(move.target)]
    if not targets or not all(isinstance(t, Device) and t.type == "cuda" and not t.soft for t in targets):
        return False
    return not any(up.kind == "guard" and _soft(up) for move in moves for up in move.ctx.up())


def _soft(ctx: Ctx) -> bool:
    """Whether a branch hangs on a flag or the machine."""
    return ctx.test is not None and any(isinstance(o, Const) and o.soft for o in options(ctx.test))


def blocks(move: Move) -> bool:
    """Whether a copy is not asked to be asynchronous."""
    state = move.args.state("non_blocking")
    if state != "set":
        return state == "absent"
    given = move.args.get("non_blocking")
    return isinstance(given, Const) and not given.value and not given.soft


def is_given(facts: ProgramFacts, move: Move) -> bool:
    """Whether what is moved is what the loader gave, or a view or cast of it: what is computed is not pinned."""
    node = _receiver(move)
    loop = next((up for up in move.ctx.up() if up.kind in ("loop", "frame") and up.place is not None), None)
    body = loop.place.node if loop is not None and loop.kind == "loop" and loop.place is not None else None
    return node is not None and _is_given(facts, move, node, body, 0)


def _is_given(facts: ProgramFacts, move: Move, node: cst.BaseExpression, body: cst.CSTNode | None, depth: int) -> bool:
    if isinstance(node, cst.Name):
        before = _assigned(move, node.value, body) if body is not None and depth < MAX_NAMES else None
        return before is None or _is_given(facts, move, before, body, depth + 1)
    if isinstance(node, (cst.Tuple, cst.List)):
        return all(_is_given(facts, move, element.value, body, depth) for element in node.elements)
    if isinstance(node, (cst.Subscript, cst.Attribute)):
        return _is_given(facts, move, node.value, body, depth)
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
        return _is_given(facts, move, node.func.value, body, depth)
    if any(call.name in _KEEPS for call in facts.calls_at(node)) or _is_next(node):
        return bool(node.args) and _is_given(facts, move, node.args[0].value, body, depth)
    return False


def _is_next(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Name) and node.func.value in ("next", "iter", "list", "tuple")


def _assigned(move: Move, name: str, body: cst.CSTNode) -> cst.BaseExpression | None:
    """What the loop last assigned to a name in rows above a copy, on a path that leads to it."""
    tree = move.place.tree
    span = tree.span
    start = move.place.start
    around = {id(node) for node in tree.ancestors(move.place.node)}
    found: cst.BaseExpression | None = None
    for node in walk(body):
        if isinstance(node, cst.Assign) and span(node)[1] <= start:
            if any(name in target_names(target.target) for target in node.targets):
                if not _in_other_arm(list(tree.ancestors(node)), around):
                    found = node.value
    return found


def _in_other_arm(ancestors: Sequence[cst.CSTNode], around: set[int]) -> bool:
    """Whether a node with some ancestors stands in the other arm of an `if` around a copy."""
    own = {id(node) for node in ancestors}
    return any(
        isinstance(node, cst.If) and id(node) in around and (id(node.body) in own) != (id(node.body) in around)
        for node in ancestors
    )


def is_whole_batch(move: Move) -> bool:
    """Whether what is moved is all that a loader gives at once, by the name that the loop gives it."""
    moved = _receiver(move)
    if not isinstance(moved, cst.Name):
        return False
    loop = next((up for up in move.ctx.up() if up.kind == "loop" and up.place is not None), None)
    if loop is None or loop.place is None or not isinstance(loop.place.node, cst.For):
        return True
    target: cst.BaseExpression = loop.place.node.target
    if isinstance(target, cst.Tuple) and isinstance(loop.items, Items) and loop.items.kind == "enumerate":
        target = target.elements[-1].value
    return isinstance(target, cst.Name) and moved.value == target.value


def _receiver(move: Move) -> cst.BaseExpression | None:
    node = move.place.node
    return node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None

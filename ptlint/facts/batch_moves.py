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
    | {"float", "long", "type", "to"}
)
"""Methods whose result is the tensor itself, a view of it, or the tensor in another type."""
_OTHER_TYPES = frozenset({"double", "half", "bfloat16", "int", "bool", "float64", "float16", "int32"})
_OTHER_TENSORS = frozenset({"DoubleTensor", "HalfTensor", "BFloat16Tensor", "IntTensor", "BoolTensor"})
"""Types that batches seldom have: a cast to one makes another tensor, which is not pinned. Images are float32 and
labels int64 as a rule, so that `.float()` and `.long()` give the tensor itself."""
_TURNS = frozenset({"permute", "transpose", "t", "movedim"})
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
    return node is not None and _is_given(facts, move, node, loop_of(move), 0)


def loop_of(move: Move) -> cst.CSTNode | None:
    """The loop of the function in which something is moved."""
    loop = next((up for up in move.ctx.up() if up.kind in ("loop", "frame") and up.place is not None), None)
    return loop.place.node if loop is not None and loop.kind == "loop" and loop.place is not None else None


def _is_given(facts: ProgramFacts, move: Move, node: cst.BaseExpression, body: cst.CSTNode | None, depth: int) -> bool:
    if isinstance(node, cst.Name):
        before = assigned(move, node.value, body) if body is not None and depth < MAX_NAMES else None
        return before is None or _is_given(facts, move, before, body, depth + 1)
    if isinstance(node, (cst.Tuple, cst.List)):
        return all(_is_given(facts, move, element.value, body, depth) for element in node.elements)
    if isinstance(node, cst.Subscript) and (facts.calls_at(node) or _is_masked(node)):
        return False  # picked by a tensor of indices or a mask: a copy
    if isinstance(node, (cst.Subscript, cst.Attribute)):
        return _is_given(facts, move, node.value, body, depth)
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
        if _makes_another(node, node.func):
            return False
        return _is_given(facts, move, node.func.value, body, depth)
    if any(call.name in _KEEPS for call in facts.calls_at(node)) or _is_next(node):
        return bool(node.args) and _is_given(facts, move, node.args[0].value, body, depth)
    return False


def _makes_another(call: cst.Call, func: cst.Attribute) -> bool:
    """Whether a cast, or an orderly copy of a turned tensor, makes another tensor."""
    if func.attr.value == "contiguous":
        before = func.value.func if isinstance(func.value, cst.Call) else None
        return isinstance(before, cst.Attribute) and before.attr.value in _TURNS
    if func.attr.value not in ("type", "to"):
        return False
    types = {arg.value.attr.value for arg in call.args if isinstance(arg.value, cst.Attribute)}
    return bool(types & (_OTHER_TYPES | _OTHER_TENSORS))


def _is_masked(node: cst.Subscript) -> bool:
    """Whether a subscript is a comparison: `x[y > 0]`."""
    return any(
        isinstance(part.slice, cst.Index) and isinstance(part.slice.value, cst.Comparison) for part in node.slice
    )


def _is_next(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Name) and node.func.value in ("next", "iter", "list", "tuple")


def assigned(move: Move, name: str, body: cst.CSTNode) -> cst.BaseExpression | None:
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

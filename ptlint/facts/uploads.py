"""What goes from the host to the device although it holds no data: tensors that could be made there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Call, Ctx, Move, Place
from ptlint.facts.freshness import is_legacy_constructor, origin_of
from ptlint.facts.roles import in_forward
from ptlint.facts.scopes import walk
from ptlint.facts.values import DEVICE, HOST, Array, Device, Tensor, Value, options, pick

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_OTHER_DEFAULTS = frozenset({"set_default_device", "set_default_tensor_type"})
_OWN_PLACE = ("pin_memory", "generator", "out", "device")
"""Arguments of a factory that say why its tensor is made on the host (or that it is not)."""


@dataclass(frozen=True)
class Upload:
    """A copy, at `place`, of what the call at `made` made from no data; `move` is None for `Tensor(array)`."""

    place: Place
    ctx: Ctx
    made: Place
    factory: str
    move: Move | None
    value: Value


def uploads(program: ProgramFacts) -> Iterator[Upload]:
    """The copies to the device of tensors and arrays that hold no data."""
    if not program.accelerated or program.words & _OTHER_DEFAULTS:
        return
    for move in program.events(Move):
        if all(option.where == HOST for option in pick(move.value, Tensor)) and to_accelerator(move):
            yield from _upload(program, move.place, move.ctx, move.value, move)
    for call in program.events(Call):
        if call.name.startswith("torch.cuda.") and is_legacy_constructor(call.name):
            for value in (*call.args.bound.values(), *call.args.extra):
                if pick(value, Array):
                    yield from _upload(program, call.place, call.ctx, value, None)


def _upload(program: ProgramFacts, place: Place, ctx: Ctx, value: Value, move: Move | None) -> Iterator[Upload]:
    made = origin_of(program.run, value)
    if made is None or program.off_path(ctx):
        return
    calls = program.calls_at(made.node)
    if calls and not any(call.args.state(name) == "set" for call in calls for name in _OWN_PLACE):
        yield Upload(place, ctx, made, calls[0].name, move, value)


def to_accelerator(move: Move) -> bool:
    """Whether a move goes to an accelerator: to one that is known, or to where something of unknown place is."""
    targets = options(move.target)
    if any(isinstance(target, Device) and target.where == DEVICE for target in targets):
        return True
    if any(isinstance(target, Device) and target.type != "unknown" for target in targets):
        return False
    node = device_argument(move)
    return isinstance(node, cst.Attribute) and node.attr.value == "device" and runs_in_forward(move.ctx)


def device_argument(move: Move) -> cst.BaseExpression | None:
    """The argument of `.to(…)` or `.cuda(…)` that says where to."""
    node = move.place.node
    if not isinstance(node, cst.Call):
        return None
    for index, arg in enumerate(node.args):
        if arg.star:
            return None
        if (arg.keyword is None and index == 0) or (arg.keyword is not None and arg.keyword.value == "device"):
            return arg.value
    return None


def runs_in_forward(ctx: Ctx) -> bool:
    """Whether the `forward` of a module leads here."""
    return any(up.function is not None and in_forward(up.function) for up in ctx.up() if up.kind == "frame")


def is_cached(place: Place) -> bool:
    """Whether what is made at a place is kept until the test around it says that it no longer fits."""
    child: cst.CSTNode = place.node
    for node in place.tree.ancestors(place.node):
        if isinstance(node, cst.FunctionDef):
            break
        if isinstance(node, cst.If) and child is node.body:
            tested = {place.tree.code(part) for part in walk(node.test) if isinstance(part, (cst.Name, cst.Attribute))}
            if tested & {place.tree.code(target) for target in _targets(node.body)}:
                return True
        child = node
    return False


def _targets(body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    for node in walk(body):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                inner = target.target
                yield inner.value if isinstance(inner, cst.Subscript) else inner
        elif isinstance(node, cst.AnnAssign):
            yield node.target


__all__ = ["Upload", "device_argument", "is_cached", "runs_in_forward", "to_accelerator", "uploads"]

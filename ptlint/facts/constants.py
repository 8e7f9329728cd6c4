"""What a loop sends to the device in every iteration although it is always the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards
from ptlint.facts.events import Call, Ctx, Event, Move, Place, Placed
from ptlint.facts.freshness import is_constant
from ptlint.facts.invariance import Invariance
from ptlint.facts.roles import in_forward
from ptlint.facts.scopes import walk
from ptlint.facts.uploads import Upload, is_cached, to_accelerator
from ptlint.facts.values import (
    DEVICE,
    HOST,
    UNSURE,
    Device,
    Module,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    options,
    pick,
)

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

LITERAL, BOUND, MODULE = "literal", "bound", "module"

_FROM_LISTS = frozenset({"torch.tensor", "torch.as_tensor", "torch.Tensor.new_tensor"})


@dataclass(frozen=True)
class Resent:
    """The same thing sent again: `what` is a list of constants, a tensor bound outside (at `made`), or a module.

    `within`: the loop, or the frame of the `forward`, of which nothing changes it.
    """

    place: Place
    what: str
    within: Ctx
    made: Place | None = None


def resent(program: ProgramFacts) -> Iterator[Resent]:
    """What hot code and `forward` methods send to the device again and again."""
    if not program.accelerated:
        return
    calls = [event for event in program.events(Call) if event.name in _FROM_LISTS]
    for event in (*calls, *program.events(Move), *program.events(Placed)):
        within = repeats(program, event)
        if within is None or program.off_path(event.ctx) or is_cached(event.place):
            continue
        if isinstance(event, Call):
            lists = _is_list(event) or _is_repeated(program, event, within)
            if lists and _on_device(event) and not _is_changed(event.place):
                yield Resent(event.place, LITERAL, within)
        elif isinstance(event, Move):
            made = _bound_outside(program, event, within)
            if made is not None:
                yield Resent(event.place, BOUND, within, made)
        elif isinstance(event, Placed) and _is_placed_again(program, event, within):
            yield Resent(event.place, MODULE, within)


def repeats(program: ProgramFacts, event: Event | Upload) -> Ctx | None:
    """The training or evaluation loop in which an event is hot, or the `forward` in every call of which it happens."""
    loop = program.roles.hot_loop(event.ctx)
    if loop is not None:
        return loop
    for up in event.ctx.up():
        if up.kind == "guard" and up.rarity in (guards.RARE, guards.EXCEPT, guards.OFF_PATH):
            return None
        if up.kind == "frame" and up.function is not None and in_forward(up.function):
            return up
    return None


def made_outside(program: ProgramFacts, made: Place, within: Ctx) -> bool:
    """Whether what a call made is there before a loop (or a `forward`) begins."""
    calls = program.calls_at(made.node)
    return bool(calls) and not any(call.ctx.inside(within) for call in calls)


def _is_list(call: Call) -> bool:
    data = call.args.get("data")
    return isinstance(data, (Tuple, Sequence)) and is_constant(data)


def _is_repeated(program: ProgramFacts, call: Call, within: Ctx) -> bool:
    """`[1000] * n`, where `n` is the same each time."""
    data, given = call.args.get("data"), call.args.nodes.get("data")
    if not isinstance(data, Sequence) or data.items is not None or data.item is None or given is None:
        return False
    return is_constant(data.item) and Invariance(program, within).holds(given.value, call.place, call.ctx)


def _on_device(call: Call) -> bool:
    if call.name == "torch.Tensor.new_tensor":
        return any(
            isinstance(option, Tensor) and option.where == DEVICE for option in options(call.receiver or call.result)
        )
    if any(isinstance(option, Tensor) and option.where == DEVICE for option in options(call.result)):
        return True
    given = call.args.nodes.get("device")
    unsure = all(getattr(option, "where", "") == UNSURE for option in options(call.result))
    return unsure and given is not None and _names_device(given.value, call.args.get("device"))


def _names_device(node: cst.BaseExpression, value: Value) -> bool:
    """`x.device`, where it is not known what `x` is."""
    unknown = all(isinstance(o, Unknown) or (isinstance(o, Device) and o.type == "unknown") for o in options(value))
    return unknown and isinstance(node, cst.Attribute) and node.attr.value == "device"


def _bound_outside(program: ProgramFacts, move: Move, within: Ctx) -> Place | None:
    """Where a tensor was made that stays on the host while a loop copies it in each iteration."""
    call = move.place.node
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or not to_accelerator(move):
        return None
    receiver = call.func.value
    tensors: list[Tensor] = pick(move.value, Tensor)
    if not isinstance(receiver, (cst.Name, cst.Attribute)) or len(tensors) != 1 or len(options(move.value)) != 1:
        return None
    made = tensors[0].made
    if tensors[0].where != HOST or tensors[0].batch is not None or made is None or id(made.node) in program.run.filled:
        return None
    if not made_outside(program, made, within) or _is_stored_back(move, receiver, within):
        return None
    return made


def _is_stored_back(move: Move, receiver: cst.BaseExpression, within: Ctx) -> bool:
    """`x = x.to(device)`, which the next iteration finds there; the local name of a function that is called anew is not
    there for the next call.
    """
    place = move.place
    statement = place.tree.statement(place.node)
    if not isinstance(statement, cst.Assign) or (isinstance(receiver, cst.Name) and move.ctx.frame().inside(within)):
        return False
    return any(place.tree.code(target.target) == place.tree.code(receiver) for target in statement.targets)


def _is_changed(place: Place) -> bool:
    """Whether the name that a new tensor gets is changed in place: then it is no constant."""
    statement = place.tree.statement(place.node)
    if not isinstance(statement, (cst.Assign, cst.AnnAssign)):
        return False
    given = [target.target for target in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
    names = {place.tree.code(target) for target in given}
    scope = next((node for node in place.tree.ancestors(place.node) if isinstance(node, cst.FunctionDef)), None)
    return any(
        names & set(_changed_by(node, place)) for node in walk(scope if scope is not None else place.tree.module)
    )


def _changed_by(node: cst.CSTNode, place: Place) -> Iterator[str]:
    code = place.tree.code
    if isinstance(node, cst.AugAssign):
        target = node.target
        yield code(target.value if isinstance(target, cst.Subscript) else target)
    elif isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Subscript):
        yield code(node.target.value)
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value.endswith("_"):
        yield code(node.func.value)


def _is_placed_again(program: ProgramFacts, event: Placed, within: Ctx) -> bool:
    """Whether a module that was made before a loop is put on the device in it, and is never anywhere else in it."""
    if not any(isinstance(target, Device) and target.where == DEVICE for target in options(event.target)):
        return False
    modules = pick(event.module, Module)
    if not modules or len(modules) < len(options(event.module)):
        return False
    for module in modules:
        if module.core.ctx is None or module.core.ctx.inside(within) or module.core.open:
            return False
        for other in program.events(Placed):
            same = any(option.core is module.core for option in pick(other.module, Module))
            if same and other.ctx.inside(within) and other.place.node is not event.place.node:
                return False
    return True


__all__ = ["BOUND", "LITERAL", "MODULE", "Resent", "made_outside", "repeats", "resent"]

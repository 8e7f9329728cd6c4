"""Passes over a loader: which of them are made once an epoch, and what changes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from ptlint.facts import roles
from ptlint.facts.batch_moves import SELDOM
from ptlint.facts.events import Assign, Call, Ctx, Iterate, Place
from ptlint.facts.iteration import passes
from ptlint.facts.scopes import walk
from ptlint.facts.values import Loader, Obj, Value, options, pick

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_CHANGES = ("set_", "shuffle", "resample", "reset", "update", "next_epoch", "on_epoch")
"""How names of methods begin that change a dataset of which only the name is known."""


def epoch_of(event: Iterate, made: Ctx) -> Ctx | None:
    """The loop each iteration of which begins a pass over a loader that was made outside of it: one around trainings,
    one that trains and takes a batch from a new pass, or that of a generator without end."""
    if _calls(event.place.node, "next"):
        return None
    driven = event.loop is not None and event.loop.pump
    for up in event.ctx.up():
        if up.kind == "guard" and up.rarity in SELDOM and not up.step and not _ends_pass(up):
            return None
        if up.kind != "loop" or up is event.loop:
            continue
        if up.once or up.waits or up.role == roles.OUTER or passes(up.items) == 1:
            return None
        if driven and not up.pump:  # what takes the generator's items goes on with the same pass
            driven = False
            continue
        if up.role in (roles.EPOCH, roles.TRAINING) or (up.pump and event.loop is not None):
            return None if made.inside(up) else up
    return None


def takes_one_batch(event: Iterate) -> bool:
    """Whether `next(iter(loader))` takes a first batch, outside of any loop."""
    once = event.loop is None and not any(True for _ in event.ctx.loops())
    return once and _calls(event.place.node, "iter", "next")


def _calls(node: cst.CSTNode, *names: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in names


def _ends_pass(ctx: Ctx) -> bool:
    """Whether a branch is `except StopIteration:`, where a new pass over a loader begins."""
    handler = ctx.place.node if ctx.place is not None else None
    kind = handler.type if isinstance(handler, cst.ExceptHandler) else None
    return isinstance(kind, cst.Name) and kind.value == "StopIteration"


def changes(facts: ProgramFacts) -> list[tuple[Value, Ctx]]:
    """Objects that are changed: an attribute is set, or a method called whose result nobody takes."""
    found = [(event.holder, event.ctx) for event in facts.events(Assign) if event.holder is not None]
    seen: set[int] = set()
    for event in facts.run.trace:
        for up in event.ctx.up():
            if id(up) in seen:
                break
            seen.add(id(up))
            receiver = up.function.self_value if up.kind == "frame" and up.function is not None else None
            if receiver is not None and up.place is not None and _is_statement(up.place):
                found.append((receiver, up))
        if (
            isinstance(event, Call)
            and event.receiver is not None
            and event.name.rpartition(".")[2].startswith(_CHANGES)
            and _is_statement(event.place)
        ):
            found += [(option, event.ctx) for option in options(event.receiver)]
    return found


def _is_statement(place: Place) -> bool:
    return isinstance(place.tree.parent(place.node), cst.Expr)


def dataset_parts(loader: Loader) -> list[Obj]:
    """The dataset, and those that it wraps."""
    found: list[Obj] = pick(loader.dataset(), Obj)
    for option in list(found):
        if option.call is not None:
            found += [part for value in option.call.bound.values() for part in pick(value, Obj)]
    return found


def changes_by_name(loop: Ctx, text: str) -> bool:
    """Whether a loop's own body assigns to something of what `text` names, or calls a method of it for its effect."""
    place = loop.place
    if place is None:
        return False
    code = place.tree.code
    for node in walk(place.node):
        if isinstance(node, cst.Assign):
            targets: list[Any] = [target.target for target in node.targets]
        elif isinstance(node, cst.AugAssign):
            targets = [node.target]
        elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            targets = [node.value.func]
        else:
            continue
        parts = [code(target) for target in targets if isinstance(target, (cst.Attribute, cst.Subscript))]
        if any(part.startswith((f"{text}.", f"{text}[")) for part in parts):
            return True
    return False

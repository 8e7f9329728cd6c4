"""How batches and arrays get to the device: from pinned memory, from pageable memory, pinned by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.batch_moves import assigned, is_given, loop_of
from ptlint.facts.events import Backward, Ctx, Event, Forward, Move
from ptlint.facts.loading import LoaderUse
from ptlint.facts.uploads import to_accelerator
from ptlint.facts.values import HOST, Const, Tensor, options, pick

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_PAGEABLE = frozenset({"torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.frombuffer"})
JOINS = frozenset(f"torch.{name}" for name in "cat concat concatenate stack vstack hstack dstack where".split())
"""What they make of pinned tensors is not pinned."""
_KEEPS_MEMORY = frozenset(
    "float double half bfloat16 long int short bool to type view reshape squeeze unsqueeze permute transpose t flatten "
    "contiguous detach".split()
)
_CONCURRENT = frozenset({"Stream", "Thread", "ThreadPoolExecutor", "wait_stream"})


def is_asynchronous(move: Move) -> bool:
    """Whether a copy is asked to be asynchronous, whatever flags say."""
    given = options(move.args.get("non_blocking", Const(False)))
    return all(isinstance(option, Const) and option.value is True for option in given)


def from_unpinned_loaders(program: ProgramFacts) -> Iterator[tuple[LoaderUse, Move]]:
    """The first copy in each loop that is meant to be asynchronous, of batches of loaders that are known not to pin.

    Not where nobody chose that: the loader is at fault then (PTL102).
    """
    seen: set[tuple[int, int]] = set()
    for use in program.loading:
        if not _never_pins(use) or use.would_pin or use.managed or use.waits or use.on_device:
            continue
        for move in sorted(use.moves, key=lambda move: move.order):
            loop = next(move.ctx.loops(), None)
            if (id(use), id(loop)) in seen:
                continue
            if is_asynchronous(move) and is_given(program, move) and not program.off_path(move.ctx):
                seen.add((id(use), id(loop)))
                yield use, move


def _never_pins(use: LoaderUse) -> bool:
    """Whether a loader does not pin, and no flag makes it."""
    given = options(use.args.get("pin_memory", Const(False)))
    return use.pins is False and not any(isinstance(option, Const) and option.soft for option in given)


def from_pageable(program: ProgramFacts) -> Iterator[tuple[str, Move]]:
    """The copies that are meant to be asynchronous of tensors that were just made over pageable memory."""
    for move in program.events(Move):
        if not is_asynchronous(move) or not to_accelerator(move) or program.off_path(move.ctx):
            continue
        tensors = pick(move.value, Tensor)
        if not tensors or len(tensors) < len(options(move.value)):
            continue
        if any(tensor.where != HOST or tensor.fresh for tensor in tensors):
            continue
        name = _maker(program, move)
        if name is not None:
            yield name, move


def _maker(program: ProgramFacts, move: Move) -> str | None:
    """The function that made what is moved, right there or under a name."""
    node = move.place.node
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        receiver = node.func.value
        if isinstance(receiver, cst.Call):
            found = _pageable(program, receiver)
            if found is not None:
                return found
            if not isinstance(receiver.func, cst.Attribute) or receiver.func.attr.value not in _KEEPS_MEMORY:
                return None
        elif node is not move.place.node:
            return None
        node = receiver
    if not isinstance(node, cst.Name):
        return None
    made = {id(tensor.made.node): tensor.made for tensor in pick(move.value, Tensor) if tensor.made is not None}
    if len(made) == 1:
        return _pageable(program, next(iter(made.values())).node)
    body = loop_of(move)
    last = assigned(move, node.value, body) if not made and body is not None else None
    return _pageable(program, last) if last is not None else None


def _pageable(program: ProgramFacts, node: cst.CSTNode) -> str | None:
    """The function of a call that makes a tensor over new memory on the host, or over an array's."""
    calls = program.calls_at(node)
    names = {call.name for call in calls}
    if len(names) != 1 or any(call.args.state("pin_memory") != "absent" for call in calls):
        return None
    if names <= JOINS:
        on_host = all(isinstance(call.result, Tensor) and call.result.where == HOST for call in calls)
        return names.pop() if on_host and all(call.args.state("out") == "absent" for call in calls) else None
    return names.pop() if names <= _PAGEABLE else None


def pinned_by_hand(program: ProgramFacts) -> Iterator[tuple[Move, Ctx, cst.Call]]:
    """`t.pin_memory().to(device)` in hot code where nothing overlaps with it, with the loop and the call that pins."""
    if not program.accelerated or program.words & _CONCURRENT:
        return
    found: list[tuple[Move, Ctx, cst.Call]] = []
    prefetched: set[int] = set()
    for move in program.events(Move):
        call = move.place.node
        loop = program.hot(move)
        if loop is None or not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        pinning = call.func.value
        if not isinstance(pinning, cst.Call) or not isinstance(pinning.func, cst.Attribute) or pinning.args:
            continue
        if pinning.func.attr.value != "pin_memory" or not to_accelerator(move) or program.off_path(move.ctx):
            continue
        if _is_prefetch(program, move, loop):
            prefetched.add(id(call))
        else:
            found.append((move, loop, pinning))
    # What fetches ahead in one loop is written for that, whoever else calls it.
    yield from (item for item in found if id(item[0].place.node) not in prefetched)


def _is_prefetch(program: ProgramFacts, event: Event, loop: Ctx) -> bool:
    """Whether the device is busy meanwhile: a forward was handed over before, and its backward comes after."""
    under = program.roles.under(loop)
    begun = any(isinstance(other, Forward) and other.outer and other.order < event.order for other in under)
    return begun and any(isinstance(other, Backward) and other.order > event.order for other in under)


__all__ = ["JOINS", "from_pageable", "from_unpinned_loaders", "is_asynchronous", "pinned_by_hand"]

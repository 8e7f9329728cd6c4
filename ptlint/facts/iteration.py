"""Going over things: what an item of an iterable is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from ptlint.facts.events import Ctx, Iterate, Place
from ptlint.facts.homes import Frame
from ptlint.facts.run import Run
from ptlint.facts.values import (
    UNKNOWN,
    Array,
    Batches,
    Const,
    Dataset,
    Instance,
    Items,
    Loader,
    Mapping,
    Module,
    Num,
    Params,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join_all,
    options,
)

WRAPPERS = frozenset({"enumerate", "tqdm", "islice", "cycle", "iter", "reversed", "prefetch"})
"""Kinds of `Items` whose items are those of their source."""


def sources(value: Value) -> Iterator[Value]:
    """What an iterable goes over in the end, through enumerate, tqdm, zip, islice, iter."""
    stack: list[Value] = [value]
    while stack:
        current = stack.pop()
        for option in options(current):
            if isinstance(option, Items) and option.source is not None and option.kind != "generator":
                stack.append(option.source)
            elif isinstance(option, Items) and isinstance(option.item, Tuple):
                yield option
            elif isinstance(option, Tuple):
                stack.extend(option.items)
            elif isinstance(option, Unknown) and option.wraps:
                stack.extend(option.wraps)
            else:
                yield option


def passes(value: Value) -> int | None:
    """How many items an iterable has at most, through enumerate, tqdm, zip; None where that is not known."""
    found = [_passes(option) for option in options(value)]
    return None if None in found else max((each for each in found if each is not None), default=None)


def _passes(value: Value) -> int | None:
    if isinstance(value, Items):
        if value.length is not None or value.source is None:
            return value.length
        if value.kind == "zip" and isinstance(value.source, Tuple):
            return min((each for source in value.source.items if (each := passes(source)) is not None), default=None)
        return passes(value.source) if value.kind in WRAPPERS - {"cycle"} else None
    if isinstance(value, Tuple) or (isinstance(value, Sequence) and value.items is not None):
        return len(value.items or ())
    return None


def plain(loop: cst.For, items: Value) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """The target and the iterable of a loop that goes over `items`, without a count or progress bar around them."""
    target: cst.BaseExpression = loop.target
    node = loop.iter
    while isinstance(items, Items) and items.kind in ("enumerate", "tqdm") and items.source is not None:
        if not isinstance(node, cst.Call) or not node.args or node.args[0].star:
            break
        if items.kind == "enumerate":
            if not isinstance(target, (cst.Tuple, cst.List)) or len(target.elements) != 2:
                break
            target = target.elements[1].value
        node = node.args[0].value
        items = items.source
    return target, node


def note(run: Run, value: Value, place: Place, ctx: Ctx, loop: Ctx | None) -> None:
    """Write down that something goes over a source of batches."""
    for number, source in enumerate(sources(value)):
        if isinstance(source, (Loader, Batches, Instance, Dataset)):
            run.emit(Iterate(place, ctx, source, loop), str(number))


def item_of(run: Run, value: Value, place: Place, frame: Frame) -> Value | None:
    """The value of one item of an iterable; None when it is known to have none."""
    found = [item for option in options(value) if (item := _item(run, option, place, frame)) is not None]
    return join_all(found) if found else None


def _item(run: Run, value: Value, place: Place, frame: Frame) -> Value | None:
    if isinstance(value, Loader):
        return run.batch_of(value, frame)
    if isinstance(value, Batches):
        return Unknown(batch=value)
    if isinstance(value, Items):
        return _item_of_items(run, value, place, frame)
    if isinstance(value, Sequence):
        return value.element()
    if isinstance(value, Tuple):
        return join_all(value.items) if value.items else None
    if isinstance(value, Mapping):
        return join_all([Const(key) for key in value.entries]) if 0 < len(value.entries) <= 4 else Num("str")
    if isinstance(value, Params):
        return Tuple((Num("str"), single(value))) if value.named else single(value)
    if isinstance(value, Module):
        return join_all(value.children[:8]) if value.children else UNKNOWN
    if isinstance(value, Tensor):
        return replace(value, fresh=False, moved=False, made=None)
    if isinstance(value, Array):
        return Num("any") if value.source == "numpy" else Array(value.dtype, value.source)
    if isinstance(value, Instance):
        return run.iterate_instance(value, place, frame)
    if isinstance(value, Const):
        return Num("str") if isinstance(value.value, (str, bytes)) else None if value.value is None else UNKNOWN
    if isinstance(value, Unknown):
        held = [item_of(run, inner, place, frame) for inner in value.wraps if isinstance(inner, Items)]
        if held:  # a progress bar around `enumerate(loader)` gives what that gives
            return join_all([item for item in held if item is not None])
        batch = value.batch or next((s for s in sources(value) if isinstance(s, Loader)), None)
        batch = batch if batch is not None else run.make(Batches, place, run.root, tag="loop")
        return Unknown(value.where, value.graph, batch, came=value.came, reads=value.reads)
    return UNKNOWN


def _item_of_items(run: Run, value: Items, place: Place, frame: Frame) -> Value | None:
    if value.kind == "enumerate" and value.source is not None:
        item = item_of(run, value.source, place, frame)
        return None if item is None else Tuple((Num("int", counter=True), item))
    if value.kind == "zip" and isinstance(value.source, Tuple):
        return Tuple(tuple(item_of(run, source, place, frame) or UNKNOWN for source in value.source.items))
    if value.kind in WRAPPERS and value.source is not None:
        return item_of(run, value.source, place, frame)
    if value.kind == "generator" and value.source is not None:
        return run.run_generator(value, place, frame)
    return value.item


def single(params: Params) -> Params:
    """One of some parameters."""
    return Params(params.modules, single=True)


def next_of(run: Run, value: Value, place: Place, frame: Frame) -> Value:
    """`next(it)`: one item, in whatever loop this runs."""
    note(run, value, place, frame.ctx, None)
    return item_of(run, value, place, frame) or UNKNOWN

"""Displays, comprehensions and subscripts: values that hold values."""

from __future__ import annotations

import libcst as cst

from ptlint.facts import arrays, guards, iteration
from ptlint.facts.arguments import Arguments
from ptlint.facts.events import Call, Test
from ptlint.facts.homes import Frame
from ptlint.facts.operations import tensor_of
from ptlint.facts.run import Run
from ptlint.facts.store import assign
from ptlint.facts.values import (
    DETACHED,
    DEVICE,
    UNKNOWN,
    UNSURE,
    Array,
    CallArgs,
    Const,
    Function,
    Items,
    Lib,
    Mapping,
    Module,
    Num,
    Obj,
    Options,
    Params,
    Sequence,
    StateDict,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
    join_all,
    options,
)


def tuple_display(run: Run, node: cst.Tuple, frame: Frame) -> Value:
    if any(isinstance(element, cst.StarredElement) for element in node.elements):
        return Items(join_all([_element(run, element, frame) for element in node.elements]), "tuple")
    return Tuple(tuple(run.evaluate(element.value, frame) for element in node.elements))


def _element(run: Run, element: cst.BaseElement, frame: Frame) -> Value:
    value = run.evaluate(element.value, frame)
    if isinstance(element, cst.StarredElement):
        return iteration.item_of(run, value, frame.place(element), frame) or UNKNOWN
    return value


def list_display(run: Run, node: cst.List | cst.Set, frame: Frame) -> Value:
    made = run.make(Sequence, frame.place(node), frame.ctx)
    values = [_element(run, element, frame) for element in node.elements]
    if any(isinstance(element, cst.StarredElement) for element in node.elements):
        made.items, made.item = None, join_all(values)
    else:
        made.items, made.item = values, None
    return made


def dict_display(run: Run, node: cst.Dict, frame: Frame) -> Value:
    made = run.make(Mapping, frame.place(node), frame.ctx)
    made.entries.clear()
    made.rest = None
    for element in node.elements:
        value = run.evaluate(element.value, frame)
        if isinstance(element, cst.DictElement):
            key = run.evaluate(element.key, frame)
            if isinstance(key, Const):
                made.entries[key.value] = value
                made.origins[key.value] = frame.place(element)
            else:
                made.rest = value if made.rest is None else join(made.rest, value)
        elif isinstance(value, Mapping):
            made.entries.update(value.entries)
            made.origins.update(value.origins)
            made.rest = value.rest if made.rest is None else made.rest
        else:
            made.rest = UNKNOWN
    return made


def subscript(run: Run, node: cst.Subscript, frame: Frame) -> Value:
    base = run.evaluate(node.value, frame)
    index = index_of(run, node, frame)
    return join_all([_item(run, option, index, node, frame) for option in options(base)])


def index_of(run: Run, node: cst.Subscript, frame: Frame) -> Value:
    """The value of a subscript; slices are Num("slice")."""
    values: list[Value] = []
    for element in node.slice:
        part = element.slice
        if isinstance(part, cst.Index):
            values.append(run.evaluate(part.value, frame))
        elif isinstance(part, cst.Slice):
            for bound in (part.lower, part.upper, part.step):
                if bound is not None:
                    run.evaluate(bound, frame)
            values.append(Num("slice"))
    return values[0] if len(values) == 1 else Tuple(tuple(values))


def _item(run: Run, base: Value, index: Value, node: cst.Subscript, frame: Frame) -> Value:
    if isinstance(base, Mapping):
        if isinstance(index, Const) and index.value in base.entries:
            return base.entries[index.value]
        return (
            join_all([*base.entries.values(), *([base.rest] if base.rest is not None else [])])
            if not isinstance(index, Const)
            else (base.rest or UNKNOWN)
        )
    if isinstance(base, (Tuple, Sequence)):
        return _sequence_item(run, base, index, node, frame)
    if isinstance(base, Tensor):
        if (base.where == DEVICE and _gathers(index)) or (base.batch is not None and _picks(index)):
            _note_gather(run, base, index, node, frame)
        return tensor_of(run, (base,), frame, dtype=base.dtype)
    if isinstance(base, Array):
        return arrays.item(base, index)
    if isinstance(base, Obj) and base.lib_base in ("h5py.File", "h5py.Group"):
        return Array(None, "h5py", solid=True)
    if isinstance(base, Num) and base.type == "any":  # a shape
        return Num("any", reads=base.reads)
    if isinstance(base, Options) and isinstance(index, Const):
        return base.attrs.get(str(index.value), UNKNOWN)
    if isinstance(base, Module):
        if (
            isinstance(index, Const)
            and isinstance(index.value, int)
            and -len(base.children) <= index.value < len(base.children)
        ):
            return base.children[index.value]
        return join_all(base.children[:8]) if base.children else UNKNOWN
    if isinstance(base, StateDict):
        return Tensor(UNSURE, DETACHED)
    if isinstance(base, Items) and base.kind in ("tensors", "list"):
        return base if _is_slice(index) else base.item
    if isinstance(base, Params) and not base.single:
        return base if isinstance(index, Num) and index.type == "slice" else iteration.single(base)
    if isinstance(base, Lib):
        return run.lib_item(base, index)
    if isinstance(base, Unknown):
        if base.batch is not None and _picks(index):
            _note_gather(run, base, index, node, frame)
        return Unknown(base.where, base.graph, base.batch, came=base.came, reads=base.reads)
    method = run.member(base, "__getitem__")
    if method is not None:
        return run.call(method, Arguments().add(index), frame.place(node), frame)
    return UNKNOWN


def _note_gather(run: Run, base: Value, index: Value, node: cst.Subscript, frame: Frame) -> None:
    args = CallArgs(extra=[index])
    run.emit(Call(frame.place(node), frame.ctx, "torch.Tensor.__getitem__", args, UNKNOWN, base))


def _picks(index: Value) -> bool:
    """Whether an index holds a tensor (of indices, or a mask): what it picks is a copy."""
    return any(
        any(_picks(item) for item in option.items) if isinstance(option, Tuple) else isinstance(option, Tensor)
        for option in options(index)
    )


def _gathers(index: Value) -> bool:
    """Whether an index holds a list, a range or a boolean mask, for which more than a view is made."""
    return any(
        _gathers_all(option.items)
        if isinstance(option, Tuple)
        else isinstance(option, (Sequence, Items)) or (isinstance(option, Tensor) and option.dtype == "bool")
        for option in options(index)
    )


def _gathers_all(parts: tuple[Value, ...]) -> bool:
    return any(not isinstance(part, Tuple) and _gathers(part) for part in parts)


def _sequence_item(run: Run, base: Tuple | Sequence, index: Value, node: cst.Subscript, frame: Frame) -> Value:
    items = base.items
    if items is None:
        return base.element() if isinstance(base, Sequence) and not _is_slice(index) else base
    if isinstance(index, Const) and isinstance(index.value, int):
        return items[index.value] if -len(items) <= index.value < len(items) else UNKNOWN
    if _is_slice(index):
        return Items(join_all(items), "list", base)
    return join_all(items) if items else UNKNOWN


def _is_slice(index: Value) -> bool:
    return isinstance(index, Num) and index.type == "slice"


def comprehension(run: Run, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp, frame: Frame) -> Value:
    inner = Frame(frame.home, frame.tree, frame.ctx, frame.scope, frame)
    inner.function = frame.function if frame.function is not None else _HERE
    inner.yielded = frame.yielded
    found: list[Value] = []
    _comp_for(run, node.for_in, node, inner, found)
    if isinstance(node, cst.DictComp):
        mapping = run.make(Mapping, frame.place(node), frame.ctx)
        mapping.rest = join_all(found) if found else UNKNOWN
        return mapping
    if isinstance(node, cst.GeneratorExp):
        return Items(join_all(found), "generator-expression")
    made = run.make(Sequence, frame.place(node), frame.ctx)
    made.items, made.item = None, join_all(found)
    return made


_HERE = Function(cst.Lambda(cst.Parameters(), cst.Name("None")), None, None, None)


def _comp_for(
    run: Run,
    part: cst.CompFor,
    node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp,
    frame: Frame,
    found: list[Value],
) -> None:
    iterable = run.evaluate(part.iter, frame)
    outside = frame.ctx
    loop = frame.ctx.child("loop", id(part), frame.place(part))
    loop.items = iterable
    iteration.note(run, iterable, frame.place(part.iter), frame.ctx, loop)
    frame.ctx = loop
    item = iteration.item_of(run, iterable, frame.place(part.iter), frame)
    if item is not None:
        assign(run, part.target, item, frame, None)
        for number, condition in enumerate(part.ifs):
            test = run.evaluate(condition.test, frame)
            run.emit(Test(frame.place(condition.test), frame.ctx, test, "if"))
            guard = frame.ctx.child("guard", (id(condition), number), frame.place(condition))
            guard.rarity = guards.arms(test)[0]
            frame.ctx = guard
        if part.inner_for_in is not None:
            _comp_for(run, part.inner_for_in, node, frame, found)
        elif isinstance(node, cst.DictComp):
            run.evaluate(node.key, frame)
            found.append(run.evaluate(node.value, frame))
        else:
            found.append(run.evaluate(node.elt, frame))
    frame.ctx = outside

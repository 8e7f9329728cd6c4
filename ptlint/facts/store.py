"""Assignment: to names, attributes, items; and what is kept beyond an iteration."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from ptlint.facts import guards
from ptlint.facts.events import Assign, Store
from ptlint.facts.freshness import note_write
from ptlint.facts.homes import Frame
from ptlint.facts.infer import by_use
from ptlint.facts.iteration import item_of
from ptlint.facts.run import Run
from ptlint.facts.values import (
    ATTACHED,
    UNKNOWN,
    Const,
    Dataset,
    FileRef,
    Instance,
    Lib,
    Loader,
    Mapping,
    Module,
    Obj,
    Params,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
    options,
    reads_of,
    through,
    widen,
)


def assign(
    run: Run,
    target: cst.BaseExpression,
    value: Value,
    frame: Frame,
    node: cst.BaseExpression | None,
    *,
    augmented: bool = False,
) -> None:
    """Assign a value to a target; `node` is the value's expression when there is one."""
    if isinstance(target, cst.Name):
        if frame.at_top and isinstance(value, Const) and isinstance(value.value, bool):
            value = Const(value.value, True)  # a module-level switch is there to be changed
        value = by_use(run, value, target.value, frame, frame.place(target))
        run.assign_name(frame, target.value, value)
        if not augmented:
            frame.bound[target.value] = frame.ctx
    elif isinstance(target, (cst.Tuple, cst.List)):
        _unpack(run, target, value, frame)
    elif isinstance(target, cst.StarredElement):
        assign(run, target.value, value, frame, None)
    elif isinstance(target, cst.Attribute):
        holder = run.evaluate(target.value, frame)
        if not augmented:
            value = keep(run, frame, target, value, "attribute", target, holder)
        for option in options(holder):
            set_attribute(run, option, target.attr.value, value, frame, target)
    elif isinstance(target, cst.Subscript):
        holder = run.evaluate(target.value, frame)
        index = run.evaluate_index(target, frame)
        if not augmented:
            value = keep(run, frame, target, value, "key", target.value, holder)
        note_write(run, holder, (index, value))
        for option in options(holder):
            set_item(run, option, index, value, frame, target)
            written = reads_of(value)
            if isinstance(option, Tensor) and written and not written <= option.reads:
                rebind(target.value, replace(option, reads=option.reads | written), frame)


def rebind(node: cst.BaseExpression, value: Value, frame: Frame) -> None:
    """What a name stands for was changed in place."""
    if isinstance(node, cst.Name) and node.value in frame.locals:
        frame.locals[node.value] = value


def _unpack(run: Run, target: cst.Tuple | cst.List, value: Value, frame: Frame) -> None:
    elements = [element.value for element in target.elements]
    starred = [isinstance(element, cst.StarredElement) for element in target.elements]
    count = len(elements)
    for position, element in enumerate(elements):
        assign(run, element, part_of(run, value, position, count, any(starred), frame, target), frame, None)


def part_of(run: Run, value: Value, position: int, count: int, starred: bool, frame: Frame, node: cst.CSTNode) -> Value:
    """The `position`-th of `count` values that something unpacks into."""
    parts: list[Value] = []
    for option in options(value):
        if isinstance(option, Tuple) and len(option.items) == count and not starred:
            parts.append(option.items[position])
        elif isinstance(option, Sequence) and option.items is not None and len(option.items) == count and not starred:
            parts.append(option.items[position])
        else:
            parts.append(item_of(run, option, frame.place(node), frame) or UNKNOWN)
    result = parts[0]
    for part in parts[1:]:
        result = join(result, part)
    return result


def set_attribute(run: Run, holder: Value, name: str, value: Value, frame: Frame, target: cst.Attribute) -> None:
    place = frame.place(target)
    if isinstance(holder, Lib):
        run.emit(Assign(place, frame.ctx, f"{holder.name}.{name}", value))
    elif isinstance(holder, Params):
        if name == "requires_grad" and isinstance(value, Const) and not value.soft:
            for module in holder.modules:
                run.freeze(module, not value.value, frame.ctx)
    elif isinstance(holder, Obj):
        if isinstance(holder, (Instance, Dataset, Loader)):
            run.emit(Assign(place, frame.ctx, f".{name}", value, holder), str(id(holder)))
        old = holder.attrs.get(name)
        again = old is not None and (name in holder.attr_ctx and frame.ctx is not holder.attr_ctx[name])
        new = value
        if old is not None and again:
            new = join(old, value) if _is_text(value) else widen(old, value)
        elif old is not None and _in_branch(frame, holder):
            new = join(old, value)
        run.note_change(holder, name, new, first=old is None)
        holder.attrs[name] = new
        holder.attr_ctx.setdefault(name, frame.ctx)
        if isinstance(holder, Module) and name == "requires_grad" and isinstance(value, Const):
            run.freeze(holder, not value.value, frame.ctx)
    elif isinstance(holder, FileRef):
        holder.home.globals[name] = value


def _is_text(value: Value) -> bool:
    """Whether a value is a text: those that a program gives an attribute are few, and tests and devices want them."""
    return isinstance(value, Const) and isinstance(value.value, str)


def _in_branch(frame: Frame, holder: Obj) -> bool:
    """Whether the frame is in a branch that may not be taken, of an object that was made outside of it."""
    for up in frame.ctx.up():
        if up is frame.root or up is holder.ctx:
            return False
        if up.kind == "guard" and up.rarity in (guards.RARE, guards.MAYBE, guards.EXCEPT):
            return holder.ctx is None or not holder.ctx.inside(up)
    return False


def set_item(run: Run, holder: Value, index: Value, value: Value, frame: Frame, target: cst.Subscript) -> None:
    if isinstance(holder, Mapping):
        if isinstance(index, Const):
            old = holder.entries.get(index.value)
            holder.entries[index.value] = value if old is None else join(old, value)
            holder.origins[index.value] = frame.place(target)
        else:
            holder.rest = value if holder.rest is None else join(holder.rest, value)
    elif isinstance(holder, Sequence):
        if isinstance(index, Const) and isinstance(index.value, int) and holder.items is not None:
            if -len(holder.items) <= index.value < len(holder.items):
                holder.items[index.value] = value
                return
        holder.blur(value)
    elif isinstance(holder, Lib):
        key = index.value if isinstance(index, Const) else "?"
        run.emit(Assign(frame.place(target), frame.ctx, f"{holder.name}[{key}]", value))
    elif isinstance(holder, Module) and isinstance(value, Module):
        holder.children.append(value)


def carries_graph(value: Value) -> bool:
    """Whether a value is known to be, or to hold, a tensor with its graph."""
    for option in options(value):
        if isinstance(option, Tensor) and option.graph == ATTACHED:
            return True
        if isinstance(option, Tuple) and any(carries_graph(item) for item in option.items):
            return True
    return False


def keep(
    run: Run, frame: Frame, node: cst.CSTNode, value: Value, how: str, target: cst.CSTNode, holder: Value
) -> Value:
    """Note a tensor that is stored in something made outside (a sum, a list, an attribute); the value, so marked."""
    if not any(isinstance(option, (Tensor, Tuple, Unknown)) for option in options(value)):
        return value
    outer = None
    if isinstance(target, cst.Name):
        outer = frame.bound.get(target.value)
        if outer is None:
            outer = frame.root
    elif isinstance(target, cst.Attribute):
        owner = run.evaluate(target.value, frame)
        for option in options(owner):
            if isinstance(option, Obj):
                outer = option.attr_ctx.get(target.attr.value, frame.ctx)
    for option in options(holder):
        if how in ("append", "key") and isinstance(option, Obj):
            outer = option.ctx
    text = frame.tree.code(target)
    event = Store(frame.place(node), frame.ctx, value, how, text, holder, outer)
    run.emit(event)
    return through(value, event.token)

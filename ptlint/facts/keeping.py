"""Tensors that are kept beyond their iteration together with their graph (CATALOGUE.md, PTL302)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import roles
from ptlint.facts.events import Ctx, Forward, Place, Store
from ptlint.facts.roles import in_forward
from ptlint.facts.scopes import target_names, walk
from ptlint.facts.values import (
    ATTACHED,
    Batches,
    Function,
    Instance,
    Loader,
    Module,
    Obj,
    Tensor,
    Value,
    came_of,
    held_by,
    options,
)
from ptlint.syntax.fields import children

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_REPEATED = (roles.TRAINING, roles.EVALUATION, roles.EPOCH)
_ENDS = frozenset("detach item data tolist cpu numpy shape size".split())


@dataclass(frozen=True)
class Kept:
    """A statement that keeps a graph alive.

    `kept` is the expression of the tensor there; `value` what it stands for; `name` what keeps it, as source text;
    `loop` the loop whose iterations it outlives; `freed`: a backward has gone through the graph before, so that only
    its nodes are left.
    """

    place: Place
    kept: cst.BaseExpression | None
    value: Value
    name: str
    loop: Ctx
    freed: bool


def kept_graphs(program: ProgramFacts) -> Iterator[Kept]:
    """Every store of a graph that no backward can reach any more, in the order of execution."""
    pointless = {id(found.loop) for found in program.evaluations if found.loop is not None}
    forwards = {event.token: event for event in program.events(Forward)}
    for event in program.events(Store):
        if (
            not event.grad
            or not _is_tracked_tensor(event.value)
            or _is_leaf(event.value)
            or program.gradients.reach(event)
        ):
            continue
        loop = _outlived(program, event)
        if loop is None or id(loop) in pointless or program.hooked(event.ctx):
            continue
        calls = [forwards[token] for token in came_of(event.value) if token in forwards]
        # Without a module call in sight it is the name's own `.backward()` that shows the graph.
        freed = not calls or any(program.gradients.reach(call) for call in calls)
        found = _described(event, loop, freed)
        if found is not None and not _may_be_differentiated(program, event, found.name):
            yield found


def _is_tracked_tensor(value: Value, depth: int = 3) -> bool:
    """Whether a value is, or holds, what is known to be a tensor with its graph, and nothing of another kind."""
    if any(isinstance(option, (Instance, Function, Module)) for option in options(value)):
        return False
    return any(
        option.graph == ATTACHED
        if isinstance(option, Tensor)
        else depth > 0 and any(_is_tracked_tensor(item, depth - 1) for item in held_by(option))
        for option in options(value)
    )


def _is_leaf(value: Value) -> bool:
    return any(isinstance(option, Tensor) and option.fresh for option in options(value))


def _outlived(program: ProgramFacts, event: Store) -> Ctx | None:
    """The innermost loop of steps whose iterations the store outlives; None when it is made anew in each."""
    if event.outer is None or not (event.how == "add" or isinstance(event.holder, (Obj, Tensor))):
        return None
    for up in event.ctx.up():
        if up.kind == "frame" and up.function is not None and in_forward(up.function):
            return None
        if up.kind == "loop" and not up.pump:
            if event.outer.inside(up):
                return None
            if up.role in _REPEATED and not _goes_over_parts(program, up):
                return up
    return None


def _goes_over_parts(program: ProgramFacts, loop: Ctx) -> bool:
    """Whether a method of a module loops over something other than batches: its layers, the scales of an image."""
    function = loop.frame().function
    if function is None or not isinstance(function.self_value, Module):
        return False
    return not any(isinstance(source, (Loader, Batches, Instance)) for source in program.gone_over(loop))


def _described(event: Store, loop: Ctx, freed: bool) -> Kept | None:
    place = event.place
    node, kept, name = place.node, _kept_expression(place), event.target
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        name = place.tree.code(node.func.value)
    outside = _given_by_caller(event, loop, kept)
    if outside is not None:
        call, argument = outside
        return Kept(call, argument, event.value, name, loop, freed)
    statement = place.tree.statement(node)
    return Kept(place.at(statement or node), kept, event.value, name, loop, freed)


def _kept_expression(place: Place) -> cst.BaseExpression | None:
    """The expression of the tensor that a store keeps; None where there is none of its own (`a.x, b = f()`)."""
    node = place.node
    if isinstance(node, cst.AugAssign):
        return node.value
    if isinstance(node, cst.Call):
        return node.args[-1].value if node.args and not node.args[-1].star else None
    statement = place.tree.statement(node)
    if isinstance(statement, cst.Assign) and any(target.target is node for target in statement.targets):
        return statement.value
    return None


def _given_by_caller(
    event: Store, loop: Ctx, kept: cst.BaseExpression | None
) -> tuple[Place, cst.BaseExpression | None] | None:
    """The call in the loop's own function through whose argument the tensor came (`meter.update(loss)`)."""
    names = _loaded(kept) if kept is not None else []
    frame = event.ctx.frame()
    found: tuple[Place, cst.BaseExpression | None] | None = None
    while frame.kind == "frame" and frame.inside(loop) and frame.function is not None and frame.place is not None:
        call = frame.place.node
        params = frame.function.node.params
        order = [param.name.value for param in (*params.posonly_params, *params.params)]
        if frame.function.self_value is not None and "static" not in frame.function.flags:
            order = order[1:]
        given = _argument(call, order, names) if isinstance(call, cst.Call) else None
        if given is None:
            break
        found = (frame.place.at(frame.place.tree.statement(call) or call), given)
        names = _loaded(given)
        if frame.parent is None:
            break
        frame = frame.parent.frame()
    return found


def _loaded(node: cst.CSTNode) -> list[str]:
    """The variables that an expression reads, in order."""
    found: list[str] = []
    stack: list[cst.CSTNode] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, cst.Name):
            found.append(current.value)
        elif isinstance(current, cst.Attribute):
            stack.append(current.value)
        elif isinstance(current, cst.Arg):
            stack.append(current.value)
        else:
            stack.extend(reversed(list(children(current))))
    return found


def _argument(call: cst.Call, order: list[str], names: list[str]) -> cst.BaseExpression | None:
    """The argument for the parameter of which an expression speaks first, where it speaks of parameters only."""
    given: dict[str, cst.BaseExpression] = {}
    for position, arg in enumerate(call.args):
        if arg.star:
            return None
        if arg.keyword is not None:
            given[arg.keyword.value] = arg.value
        elif position < len(order):
            given[order[position]] = arg.value
    if not names or not all(name in order for name in names):
        return None
    return next((given[name] for name in names if name in given), None)


def _may_be_differentiated(program: ProgramFacts, event: Store, name: str) -> bool:
    """Whether the text speaks of a backward through what is kept, where the values do not show it."""
    if event.how == "attribute" and _attribute_is_read(program, name):
        return True
    attribute = name.rpartition(".")[2] if "." in name else ""
    frame: Ctx | None = event.ctx.frame()
    names = {attribute or name.partition("[")[0]}
    while frame is not None and frame.kind == "frame":
        node = frame.function.node if frame.function is not None else None
        if not isinstance(node, cst.FunctionDef):
            return False
        tainted = _tainted(node, names, attributes=bool(attribute))
        if _reaches_backward(node, tainted):
            return True
        if program.alone(frame) and _returns(node, tainted):
            return True
        frame = frame.parent.frame() if attribute and frame.parent is not None else None
    if frame is not None and frame.kind == "module":
        top = event.place.tree.module
        return _reaches_backward(top, _tainted(top, names, attributes=bool(attribute)))
    return False


def _mentions(node: cst.CSTNode, names: set[str], *, attributes: bool) -> bool:
    if any(name in names for name in _loaded(node)):
        return True
    return attributes and any(
        isinstance(inner, cst.Attribute) and inner.attr.value in names for inner in walk(node, into_scopes=True)
    )


def _tainted(node: cst.CSTNode, seeds: set[str], *, attributes: bool) -> set[str]:
    """The names that are computed from some names, whatever the order."""
    names = set(seeds)
    while True:
        before = len(names)
        for inner in walk(node, into_scopes=True):
            if isinstance(inner, cst.Assign) and _mentions(inner.value, names, attributes=attributes):
                for target in inner.targets:
                    names.update(target_names(target.target))
            elif isinstance(inner, (cst.For, cst.CompFor)) and _mentions(inner.iter, names, attributes=attributes):
                names.update(target_names(inner.target))
            elif isinstance(inner, cst.AugAssign) and _mentions(inner.value, names, attributes=attributes):
                names.update(target_names(inner.target))
            elif isinstance(inner, cst.Call) and _puts_in(inner, names, attributes=attributes):
                names.update(name.value for name in walk(inner.func) if isinstance(name, cst.Name))
        if len(names) == before:
            return names


def _puts_in(call: cst.Call, names: set[str], *, attributes: bool) -> bool:
    func = call.func
    return (
        isinstance(func, cst.Attribute)
        and isinstance(func.value, cst.Name)
        and func.attr.value in ("append", "extend", "add")
        and any(_mentions(arg.value, names, attributes=attributes) for arg in call.args)
    )


def _reaches_backward(node: cst.CSTNode, names: set[str]) -> bool:
    for inner in walk(node, into_scopes=True):
        if not isinstance(inner, cst.Call) or not isinstance(inner.func, cst.Attribute):
            continue
        if inner.func.attr.value in ("backward", "grad") and _mentions(inner, names, attributes=True):
            return True
    return False


def _returns(node: cst.FunctionDef, names: set[str]) -> bool:
    return any(
        isinstance(inner, (cst.Return, cst.Yield)) and _mentions(inner, names, attributes=False) for inner in walk(node)
    )


def _attribute_is_read(program: ProgramFacts, name: str) -> bool:
    """Whether an attribute is read anywhere other than to take a number or the data from it."""
    attribute = name.rpartition(".")[2]
    reading = re.compile(rf"\.{re.escape(attribute)}\b(?!\s*=[^=])(?:\.(\w+))?")
    for path in program.program.files:
        source = program.project.file(path).source
        if source is not None and any(match[1] not in _ENDS for match in reading.finditer(source.text)):
            return True
    return False

"""Loops over the samples of a batch that only compare, count or sum: metrics worked out one sample at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Added, Compared, Ctx, Event, Forward, Place, Read, Store
from ptlint.facts.iteration import plain
from ptlint.facts.roles import EVALUATION, TRAINING
from ptlint.facts.scopes import bound_names, target_names, walk
from ptlint.facts.values import ATTACHED, DEVICE, Items, Tensor, Tuple, Unknown, Value, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


_TEXTS = (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString, cst.List, cst.Tuple)


@dataclass(frozen=True)
class SampleLoop:
    """A loop over samples. `on_device`: each pass waits for the device; `compared`: what it compares, if one thing."""

    place: Place
    ctx: Ctx
    on_device: bool
    compared: Compared | None

    @property
    def node(self) -> cst.For:
        assert isinstance(self.place.node, cst.For)
        return self.place.node


def sample_loops(program: ProgramFacts) -> Iterator[SampleLoop]:
    """The metric loops inside of batch loops, each in every context that runs it."""
    events: dict[int, list[Event]] = {}
    for kind in (Compared, Read, Added, Store, Forward):
        for event in program.events(kind):
            for loop in event.ctx.loops():
                events.setdefault(id(loop), []).append(event)
    metrics: dict[int, bool] = {}
    for ctx in program.run.root.down():
        inside = events.get(id(ctx), [])
        if ctx.kind != "loop" or ctx.pump or ctx.place is None or ctx.parent is None:
            continue
        node = ctx.place.node
        if not isinstance(node, cst.For):
            continue
        if id(node) not in metrics:
            metrics[id(node)] = _is_metric(node)
        if not metrics[id(node)] or not _over_samples(program, ctx, node):
            continue
        outside = program.roles.hot_loop(ctx.parent)
        if outside is None or outside.role not in (TRAINING, EVALUATION):
            continue
        tensors = [value for event in inside for value in _tensors(event)] + _rows(ctx.items)
        if not tensors or any(isinstance(event, Forward) or _keeps_graph(event) for event in inside):
            continue
        compared = [event for event in inside if isinstance(event, Compared)]
        on_device = any(tensor.where == DEVICE for tensor in tensors)
        yield SampleLoop(ctx.place, ctx, on_device, compared[0] if len(compared) == 1 else None)


def _tensors(event: Event) -> list[Tensor]:
    values: tuple[Value, ...] = ()
    if isinstance(event, Compared):
        values = (event.left, event.right)
    elif isinstance(event, (Read, Store)):
        values = (event.value,)
    return [option for value in values for option in options(value) if isinstance(option, Tensor)]


def _keeps_graph(event: Event) -> bool:
    """Whether what is summed carries a graph: a loss for each sample, which a backward may need."""
    return isinstance(event, Store) and any(
        isinstance(option, Tensor) and option.graph == ATTACHED for option in options(event.value)
    )


def _is_metric(loop: cst.For) -> bool:
    """Whether a body does nothing but compare, count and sum, into something made outside of it."""
    if loop.orelse is not None or loop.asynchronous is not None:
        return False
    own = bound_names(loop.body) | set(target_names(loop.target))
    sums = 0
    stack: list[cst.CSTNode] = list(loop.body.body)
    while stack:
        statement = stack.pop()
        if isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            stack.extend(statement.body)
        elif isinstance(statement, cst.If):
            stack.extend(statement.body.body)
            if isinstance(statement.orelse, cst.Else):
                stack.extend(statement.orelse.body.body)
            elif statement.orelse is not None:
                stack.append(statement.orelse)
        elif isinstance(statement, cst.AugAssign) and isinstance(statement.operator, cst.AddAssign):
            if isinstance(statement.value, _TEXTS):
                return False
            sums += not (isinstance(statement.target, cst.Name) and _only_local(loop, statement.target.value, own))
        elif isinstance(statement, cst.Assign):
            if not all(isinstance(target.target, (cst.Name, cst.Tuple)) for target in statement.targets):
                return False
        elif not isinstance(statement, (cst.Pass, cst.Continue)):
            return False
    return sums > 0


def _only_local(loop: cst.For, name: str, own: set[str]) -> bool:
    """Whether a name that is added to is set anew in each pass."""
    if name not in own:
        return False
    if name in target_names(loop.target):
        return True
    stack: list[cst.CSTNode] = list(loop.body.body)
    while stack:
        statement = stack.pop()
        if isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            stack.extend(statement.body)
        elif isinstance(statement, cst.Assign) and any(name in target_names(t.target) for t in statement.targets):
            return True
    return False


def _over_samples(program: ProgramFacts, ctx: Ctx, loop: cst.For) -> bool:
    """Whether a loop goes over the rows of tensors, or over their numbers."""
    target, call = plain(loop, ctx.items)
    if isinstance(target, cst.Name) and isinstance(call, cst.Call) and len(call.args) == 1:
        if isinstance(call.func, cst.Name) and call.func.value == "range":
            end = call.args[0].value
            return not _counts_tensors(program, ctx, end) and _over_numbers(loop, target.value, end)
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
        return False  # `y.unique()`, `x.chunk(4)`: not the rows of a batch
    return any(_has_rows(option) for option in options(ctx.items))


def _counts_tensors(program: ProgramFacts, ctx: Ctx, end: cst.BaseExpression) -> bool:
    """Whether `len(x)` is the number of several tensors: a model's outputs, chunks of one."""
    return any(
        isinstance(option, Tuple) or (isinstance(option, Items) and option.kind == "tensors")
        for event in program.calls_at(end)
        if event.name == "len" and event.ctx is ctx.parent
        for value in (*event.args.bound.values(), *event.args.extra)
        for option in options(value)
    )


def _over_numbers(loop: cst.For, index: str, end: cst.BaseExpression) -> bool:
    """Whether `for index in range(end)` takes sample after sample, and not class after class."""
    rows = [node for node in walk(loop.body) if isinstance(node, cst.Subscript) and _is_row(node, index)]
    if not rows:
        return False
    whole = _length_of(end)
    if whole is not None and any(row.value.deep_equals(whole) for row in rows):
        return True
    for node in walk(loop.body):
        if isinstance(node, cst.Comparison) and isinstance(node.comparisons[0].operator, cst.Equal):
            sides = (node.left, node.comparisons[0].comparator)
            if all(any(inner is row for inner in walk(side) for row in rows) for side in sides):
                return True
    return whole is not None or _counts_by_label(loop, rows)


def _is_row(node: cst.Subscript, index: str) -> bool:
    part = node.slice[0].slice
    return isinstance(part, cst.Index) and isinstance(part.value, cst.Name) and part.value.value == index


def _length_of(end: cst.BaseExpression) -> cst.BaseExpression | None:
    """`y` of `len(y)`, `y.size(0)`, `y.shape[0]`."""
    if isinstance(end, cst.Call) and isinstance(end.func, cst.Name) and end.func.value == "len" and len(end.args) == 1:
        return end.args[0].value
    inner = end.func if isinstance(end, cst.Call) else end.value if isinstance(end, cst.Subscript) else None
    if isinstance(inner, cst.Attribute) and inner.attr.value in ("size", "shape"):
        return inner.value
    return None


def _counts_by_label(loop: cst.For, rows: list[cst.Subscript]) -> bool:
    """`label = labels[i]; right[label] += c[i].item()`."""
    labels = {
        name
        for node in walk(loop.body)
        if isinstance(node, cst.Assign) and any(node.value is row for row in rows)
        for target in node.targets
        for name in target_names(target.target)
    }
    return any(
        isinstance(node, cst.AugAssign)
        and isinstance(node.target, cst.Subscript)
        and any(_is_row(node.target, label) for label in labels)
        for node in walk(loop.body)
    )


def _rows(value: Value, depth: int = 3) -> list[Tensor]:
    """The tensors whose rows a loop goes over."""
    found: list[Tensor] = []
    for option in options(value):
        if isinstance(option, Tensor):
            found.append(option)
        elif isinstance(option, Items) and option.kind in ("enumerate", "zip", "tqdm") and depth:
            source = option.source
            held = source.items if isinstance(source, Tuple) else (source,) if source is not None else ()
            found += [row for part in held for row in _rows(part, depth - 1)]
    return found


def _has_rows(value: Value, depth: int = 3) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, Unknown):
        return value.batch is not None and depth < 3
    if isinstance(value, Items) and value.kind in ("enumerate", "zip", "tqdm") and depth:
        source = value.source
        held = source.items if isinstance(source, Tuple) else (source,) if source is not None else ()
        return any(_has_rows(option, depth - 1) for part in held for option in options(part))
    return False

"""Python loops over the rows of a device tensor that work on each row by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Call, Ctx, Event, Forward, Place, Read
from ptlint.facts.occurrences import BIND, READ, occurrences
from ptlint.facts.roles import in_forward
from ptlint.facts.scopes import bound_names, target_names, walk
from ptlint.facts.values import DEVICE, Items, Tensor, Tuple, Value, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_BRANCHES = (cst.If, cst.Continue, cst.Break, cst.Return, cst.Try, cst.Yield)
"""Rows that are not all treated alike: what becomes of them may differ in length."""
_FILTERS = frozenset("nonzero nms batched_nms masked_select argwhere unique where shape size pad".split())
"""What shows that rows, or what becomes of them, differ in length."""
_NUMBERS = frozenset("item tolist int float bool index".split())
_METRICS = frozenset("argmax max topk eq item cpu numpy tolist size dim detach equal".split())
"""What per-sample metrics do, which is another fault (PTL601)."""
_FEW_WORKS = 2


@dataclass(frozen=True)
class RowLoop:
    """A loop over rows. `waits`: it waits for the device in each pass; `hot`: the loop that runs it, if one does."""

    place: Place
    waits: bool
    hot: Ctx | None


def row_loops(program: ProgramFacts) -> Iterator[RowLoop]:
    """The loops over rows that could be one operation over all of them, each once."""
    if not program.accelerated:
        return
    seen: set[int] = set()
    for ctx in program.run.root.down():
        node = ctx.place.node if ctx.place is not None else None
        if ctx.kind != "loop" or ctx.pump or not isinstance(node, cst.For) or id(node) in seen or ctx.parent is None:
            continue
        if not any(_has_rows(option) for option in options(ctx.items)) or program.off_path(ctx):
            continue
        if not _treats_alike(node) or _is_carried(ctx, node):
            continue
        found = _judged(program, ctx, ctx.parent)
        if found is not None:
            seen.add(id(node))
            yield found


def _judged(program: ProgramFacts, ctx: Ctx, outside: Ctx) -> RowLoop | None:
    assert ctx.place is not None
    events: list[Event] = [*program.events(Call), *program.events(Forward), *program.events(Read)]
    inside = [event for event in events if event.ctx.inside(ctx)]
    waits = any(isinstance(event, Read) and event.how.rpartition(".")[2] in _NUMBERS for event in inside)
    works = {id(event.place.node) for event in inside if _is_work(event)}
    makes = any(isinstance(event, Call) and event.name.startswith("torch.") for event in inside)
    hot = program.roles.hot_loop(outside)
    forward = any(up.kind == "frame" and up.function is not None and in_forward(up.function) for up in outside.up())
    if (hot is not None or forward) and len(works) >= _FEW_WORKS:
        return RowLoop(ctx.place, waits, hot)
    if hot is None and waits and makes and not program.alone(ctx):
        return RowLoop(ctx.place, True, None)
    return None


def _has_rows(value: Value, depth: int = 3) -> bool:
    """Whether a loop over it takes the rows of a tensor on the device."""
    if isinstance(value, Tensor):
        return value.where == DEVICE
    if isinstance(value, Items) and value.kind in ("enumerate", "zip", "tqdm", "reversed") and depth:
        source = value.source
        held = source.items if isinstance(source, Tuple) else (source,) if source is not None else ()
        return any(_has_rows(option, depth - 1) for part in held for option in options(part))
    return False


def _is_work(event: Event) -> bool:
    """Whether a call computes something from a tensor on the device."""
    if isinstance(event, Forward):
        return any(_on_device(value) for value in event.args)
    if not isinstance(event, Call) or not event.name.startswith("torch."):
        return False
    if event.name.rpartition(".")[2] in _METRICS:
        return False
    given = [*event.args.bound.values(), *event.args.extra, *([event.receiver] if event.receiver is not None else [])]
    return any(_on_device(value) for value in given)


def _on_device(value: Value) -> bool:
    return any(isinstance(option, Tensor) and option.where == DEVICE for option in options(value))


def _treats_alike(loop: cst.For) -> bool:
    """Whether each row is worked on in the same way, and the rows are those of a batch: not the values that occur."""
    for node in (*walk(loop.iter), *walk(loop.body)):
        if isinstance(node, _BRANCHES):
            return False
        if isinstance(node, cst.Attribute) and node.attr.value in _FILTERS:
            return False
        if isinstance(node, cst.Subscript) and any(
            isinstance(part.slice, cst.Index) and isinstance(part.slice.value, cst.Comparison) for part in node.slice
        ):
            return False
    return True


def _is_carried(ctx: Ctx, loop: cst.For) -> bool:
    """Whether a pass needs what the one before it has bound: a recurrence."""
    assert ctx.place is not None
    tree = ctx.place.tree
    start, end = tree.span(loop.body)
    function = next((above for above in tree.ancestors(loop) if isinstance(above, cst.FunctionDef)), tree.module)
    for name in bound_names(loop.body) - set(target_names(loop.target)):
        inside = [o for o in occurrences(tree, function, name) if start <= tree.span(o.node)[0] < end]
        if inside and inside[0].kind == READ and any(o.kind == BIND for o in inside):
            return True
    return False

"""What is done for each item of a dataset, and whether it is the same for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import datasets
from ptlint.facts.batch_moves import SELDOM
from ptlint.facts.events import Call, Ctx, Event
from ptlint.facts.invariance import Invariance
from ptlint.facts.scopes import walk
from ptlint.facts.values import Function, Obj, ProjectClass, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_DATASETS = ("torch.utils.data.", "torchvision.datasets.")


def item_frame(facts: ProgramFacts, ctx: Ctx) -> Ctx | None:
    """The frame of the `__getitem__` of a dataset in which something happens."""
    for up in ctx.up():
        function = up.function if up.kind == "frame" else None
        if function is None or function.owner is None or not isinstance(function.node, cst.FunctionDef):
            continue
        if function.node.name.value in ("__getitem__", "__getitems__") and _is_dataset(facts, function.owner):
            return up
    return None


def _is_dataset(facts: ProgramFacts, cls: ProjectClass) -> bool:
    if any(base.startswith(_DATASETS) for base in cls.lib_bases):
        return True
    given = [option for use in facts.loading for option in options(use.loader.dataset())]
    return any(isinstance(option, Obj) and option.cls is cls for option in given)


def repeated(facts: ProgramFacts, call: Call) -> Ctx | None:
    """The frame of the `__getitem__` for each item of which a call does the same again; None where it may differ.

    Also None for what happens under a test, or is kept: a read of which the first result is held.
    """
    frame = item_frame(facts, call.ctx)
    node = call.place.node
    if frame is None or not isinstance(node, cst.Call) or _is_kept(call, frame):
        return None
    same = Invariance(facts, frame)
    if isinstance(node.func, cst.Attribute) and not call.name.count(".") > call.name.startswith("."):
        return None if not same.holds(node.func.value, call.place, call.ctx) else _all_same(same, call, node, frame)
    return _all_same(same, call, node, frame)


def picked(facts: ProgramFacts, call: Call) -> bool:
    """Whether something is looked up for each item of a dataset, under no test and for no cache."""
    frame = item_frame(facts, call.ctx)
    return frame is not None and not _is_kept(call, frame)


def _all_same(same: Invariance, call: Call, node: cst.Call, frame: Ctx) -> Ctx | None:
    values = [arg.value for arg in node.args]
    return frame if all(same.holds(value, call.place, call.ctx) for value in values) else None


def _is_kept(event: Event, frame: Ctx) -> bool:
    """Whether a test or a cache stands between an item and what happens, or the result outlives the item."""
    for up in event.ctx.up():
        if up.kind == "guard":
            return True
        function = up.function if up.kind == "frame" else None
        if function is not None and isinstance(function.node, cst.FunctionDef):
            if any("cache" in _words(decorator) or "memo" in _words(decorator) for decorator in
                   function.node.decorators):  # fmt: skip
                return True
        if up is frame:
            break
    statement = event.place.tree.statement(event.place.node)
    targets = [target.target for target in statement.targets] if isinstance(statement, cst.Assign) else []
    return any(isinstance(target, (cst.Attribute, cst.Subscript)) for target in targets)


def _words(node: cst.CSTNode) -> str:
    return " ".join(part.value.lower() for part in walk(node) if isinstance(part, cst.Name))


def device_work(facts: ProgramFacts) -> Iterator[tuple[Event, str]]:
    """What puts something on an accelerator while a dataset or a `collate_fn` makes items, and where that is."""
    work: dict[int, Function] = {
        id(function.node): function for use in facts.loading for function in datasets.work_functions(use.loader)
    }
    for event in facts.device_work:
        if any(up.kind == "guard" and up.rarity in SELDOM for up in event.ctx.up()):
            continue
        frame = item_frame(facts, event.ctx)
        if frame is None:
            frame = next((up for up in event.ctx.up() if up.function and id(up.function.node) in work), None)
        node = frame.function.node if frame is not None and frame.function is not None else None
        if node is not None:
            yield event, node.name.value if isinstance(node, cst.FunctionDef) else "collate_fn"

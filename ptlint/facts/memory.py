"""Calls that give memory back: when a program has a reason for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards
from ptlint.facts.events import Call, Ctx, Place
from ptlint.facts.roles import EPOCH
from ptlint.facts.scopes import dotted, target_names, walk

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.syntax.tree import Tree

EMPTYING = (
    "torch.cuda.empty_cache",
    "torch.cuda.memory.empty_cache",
    "torch.accelerator.empty_cache",
    "torch.accelerator.memory.empty_cache",
    "torch.cuda.ipc_collect",
    "gc.collect",
)

_BETWEEN = 3
"""A `del` this many statements above still belongs to the call."""
_FRAMES = (cst.FunctionDef, cst.Lambda)


@dataclass(frozen=True)
class Emptied:
    """Calls in one list of statements that give memory back in every iteration of a loop, or once an epoch."""

    calls: tuple[Call, ...]
    loop: Ctx
    hot: bool

    @property
    def first(self) -> Call:
        return self.calls[0]


def emptied(program: ProgramFacts) -> Iterator[Emptied]:
    """Calls that give memory back without a reason, those of one list of statements together."""
    if program.calls("gc.disable", "gc.freeze"):  # somebody runs the collector by hand, to a plan
        calls = [call for call in program.calls(*EMPTYING) if call.name != "gc.collect"]
    else:
        calls = program.calls(*EMPTYING)
    groups: dict[tuple[int, int], list[Call]] = {}
    for call in sorted(calls, key=lambda call: call.order):
        groups.setdefault((id(call.ctx), id(_block(call.place))), []).append(call)
    for found in groups.values():
        first = found[0]
        loop = program.hot(first)
        hot = loop is not None
        if loop is None:
            loop = program.roles.innermost(first.ctx, EPOCH)
        if loop is None or _has_reason(first, hot=hot):
            continue
        yield Emptied(tuple(found), loop, hot)


def _block(place: Place) -> cst.CSTNode | None:
    line = place.tree.body_statement(place.node)
    return place.tree.parent(line) if line is not None else None


def _has_reason(call: Call, *, hot: bool) -> bool:
    """Memory ran out, is measured, or a large object has just been dropped."""
    for ctx in call.ctx.up():
        if ctx.kind == "guard" and ctx.rarity in (guards.EXCEPT, guards.NEVER, guards.OFF_PATH):
            return True
        if ctx.kind == "guard" and ctx.place is not None and isinstance(ctx.place.node, cst.If):
            if _asks_for_memory(ctx.place.tree, ctx.place.node):
                return True
    if _counts_memory(call.place) or _retries(call.place):
        return True
    return not hot and _follows_del(call.place)


def _counts_memory(place: Place) -> bool:
    """Whether the same function also measures how much memory is used."""
    scope = next((up for up in place.tree.ancestors(place.node) if isinstance(up, _FRAMES)), None)
    return scope is not None and _measures(scope)


def _retries(place: Place) -> bool:
    """Whether an error for want of memory is caught around it: it is tried again, with less."""
    for up in place.tree.ancestors(place.node):
        if isinstance(up, _FRAMES):
            return False
        if isinstance(up, cst.Try):
            caught = [handler.type for handler in up.handlers if handler.type is not None]
            text = " ".join(place.tree.code(kind) for kind in caught)
            if "RuntimeError" in text or "OutOfMemory" in text:
                return True
    return False


def _asks_for_memory(tree: Tree, node: cst.If) -> bool:
    """Whether a test looks at how much memory is used, or at a flag that an error handler sets."""
    scope = next((up for up in tree.ancestors(node) if isinstance(up, _FRAMES)), tree.module)
    names = {inner.value for inner in walk(node.test) if isinstance(inner, cst.Name)}
    if _measures(node.test):
        return True
    for inner in walk(scope):
        if isinstance(inner, cst.Assign) and names & {n for t in inner.targets for n in target_names(t.target)}:
            if _measures(inner.value) or any(isinstance(up, cst.ExceptHandler) for up in tree.ancestors(inner)):
                return True
    return False


def _measures(node: cst.CSTNode) -> bool:
    """Whether an expression asks for the memory of the device or the machine."""
    for inner in walk(node):
        if isinstance(inner, cst.Call):
            last = dotted(inner.func).rpartition(".")[2]
            if "memory" in last or last in ("mem_get_info", "nvmlDeviceGetMemoryInfo"):
                return True
    return False


def _follows_del(place: Place) -> bool:
    """Whether something was deleted right above, in the same list of statements."""
    line = place.tree.body_statement(place.node)
    block = place.tree.parent(line) if line is not None else None
    while isinstance(block, cst.IndentedBlock) and block.body[0] is line:
        test = place.tree.parent(block)  # `if cuda: empty_cache()` below a `del`
        if not isinstance(test, cst.If):
            break
        line = place.tree.body_statement(test)
        block = place.tree.parent(line) if line is not None else None
    if not isinstance(block, (cst.IndentedBlock, cst.Module)) or line is None:
        return False
    at = list(block.body).index(line)  # type: ignore[arg-type]
    above = block.body[max(0, at - _BETWEEN) : at]
    return any(isinstance(inner, cst.Del) for statement in above for inner in walk(statement))

"""Python loops over a model's parameters that do what has a grouped form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import roles
from ptlint.facts.events import Ctx, Place
from ptlint.facts.iteration import sources
from ptlint.facts.scopes import target_names, walk
from ptlint.facts.values import Params, Sequence, StateDict, Value, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

NORM, CLAMP, AVERAGE, UPDATE, COPY = "norm", "clamp", "average", "update", "copy"

_BY_METHOD = {
    "norm": NORM,
    "clamp_": CLAMP, "clip_": CLAMP,
    "lerp_": AVERAGE, "mul_": AVERAGE,
    "add_": UPDATE, "sub_": UPDATE, "addcmul_": UPDATE, "addcdiv_": UPDATE,
    "copy_": COPY,
}  # fmt: skip
_EXCHANGES = frozenset({"all_reduce", "broadcast", "reduce", "all_gather", "send", "recv"})
"""Parameters exchanged between processes are another matter: DistributedDataParallel."""
_RANKS = (NORM, CLAMP, AVERAGE, COPY, UPDATE)
"""Of several things that a loop does, the first says what it is for."""


@dataclass(frozen=True)
class ParameterLoop:
    """A loop over parameters in every iteration of a training loop. `kind`: what it does to each."""

    place: Place
    kind: str
    training: Ctx


def parameter_loops(program: ProgramFacts) -> Iterator[ParameterLoop]:
    """The hot loops over parameters, each once."""
    if not program.accelerated:
        return
    seen: set[int] = set()
    for ctx in program.run.root.down():
        node = ctx.place.node if ctx.place is not None else None
        if ctx.kind != "loop" or not isinstance(node, cst.For) or id(node) in seen or ctx.parent is None:
            continue
        if not any(_are_parameters(source) for source in sources(ctx.items)):
            continue
        hot = program.roles.hot_loop(ctx.parent)
        kind = _kind(node)
        if hot is None or hot.role != roles.TRAINING or kind is None or program.off_path(ctx) or program.hooked(ctx):
            continue
        seen.add(id(node))
        assert ctx.place is not None
        yield ParameterLoop(ctx.place, kind, hot)


def _are_parameters(value: Value) -> bool:
    if isinstance(value, (Params, StateDict)):
        return not (isinstance(value, Params) and value.single)
    if isinstance(value, Sequence):
        held = options(value.element())
        return value.items is None and all(isinstance(option, Params) and option.single for option in held)
    return False


def _kind(loop: cst.For) -> str | None:
    """What a loop does to its parameters, where all that it does has a grouped form."""
    targets = set(target_names(loop.target))
    found: set[str] = set()
    for node in walk(loop.body):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value in _EXCHANGES:
                return None
            kind = _BY_METHOD.get(node.func.attr.value)
            if kind == NORM and _is_torch(node.func.value):
                kind = NORM if node.args and _is_one_of(node.args[0].value, targets) else None
            elif kind is not None and not _is_one_of(node.func.value, targets):
                kind = None
            if kind is not None:
                found.add(kind)
        elif isinstance(node, cst.AugAssign) and _is_one_of(node.target, targets):
            found.add(AVERAGE if isinstance(node.operator, (cst.MultiplyAssign, cst.DivideAssign)) else UPDATE)
        elif isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Attribute):
            target = node.targets[0].target
            if target.attr.value == "data" and _root(target) in targets and isinstance(node.value, cst.BinaryOperation):
                found.add(AVERAGE if _reads(node.value) & (targets - {_root(target)}) else UPDATE)
        elif isinstance(node, (cst.For, cst.While)) and node is not loop:
            return None
    if not _adds_up(loop, targets):
        found.discard(NORM)
    return next((kind for kind in _RANKS if kind in found), None)


def _adds_up(loop: cst.For, targets: set[str]) -> bool:
    """Whether a loop makes one thing of all: norms that are wanted one by one have no grouped form."""
    for node in walk(loop.body):
        if isinstance(node, cst.AugAssign) and _root(node.target) not in targets:
            return True
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "append":
            return True
    return False


def _is_torch(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value in ("torch", "LA", "linalg")


def _root(node: cst.BaseExpression) -> str:
    """The name that a chain of attributes, subscripts and calls begins with."""
    while True:
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        elif isinstance(node, cst.Call):
            node = node.func
        else:
            return node.value if isinstance(node, cst.Name) else ""


def _is_one_of(node: cst.BaseExpression, targets: set[str]) -> bool:
    """Whether a chain begins with what a loop goes over, or with an entry under its name (`averages[name].mul_(…)`)."""
    while True:
        if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index):
            index = node.slice[0].slice.value
            if isinstance(index, cst.Name) and index.value in targets:
                return True
            node = node.value
        elif isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        elif isinstance(node, cst.Call):
            node = node.func
        else:
            return isinstance(node, cst.Name) and node.value in targets


def _reads(node: cst.CSTNode) -> set[str]:
    return {part.value for part in walk(node) if isinstance(part, cst.Name)}


__all__ = ["AVERAGE", "CLAMP", "COPY", "NORM", "UPDATE", "ParameterLoop", "parameter_loops"]

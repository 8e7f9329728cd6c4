"""Module calls of a training loop that give the same in every iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import roles
from ptlint.facts.events import Assign, Call, Construct, Ctx, Forward, Place, Store
from ptlint.facts.gradients import tracked
from ptlint.facts.invariance import Invariance
from ptlint.facts.iteration import passes
from ptlint.facts.models import MODEL
from ptlint.facts.scopes import dotted, walk
from ptlint.facts.values import Module, Optimizer, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_FEW_STEPS = 3
_RANDOM = frozenset(
    "torch.rand torch.randn torch.randint torch.randperm torch.rand_like torch.randn_like torch.randint_like "
    "torch.normal torch.bernoulli torch.multinomial torch.poisson torch.nn.functional.dropout "
    "torch.nn.functional.gumbel_softmax".split()
)


@dataclass(frozen=True)
class Repeated:
    """A call of a module that is not trained, on what no iteration of a training loop changes."""

    place: Place
    loop: Ctx


def repeated_forwards(program: ProgramFacts) -> Iterator[Repeated]:
    """The calls that one call before the loop could replace, each once."""
    seen: set[tuple[str, int]] = set()
    changing: set[str] | None = None
    known: dict[int, Invariance] = {}
    for event in program.events(Forward):
        node = event.place.node
        loop = program.hot(event) if event.outer and isinstance(node, cst.Call) else None
        if loop is None or loop.role != roles.TRAINING or program.off_path(event.ctx) or event.place.key in seen:
            continue
        if not isinstance(node, cst.Call) or (passes(loop.items) or _FEW_STEPS + 1) <= _FEW_STEPS:
            continue
        if not _repeats_itself(program, event) or not program.untrained.stays(event.module, loop):
            continue
        same = known.setdefault(id(loop), Invariance(program, loop))
        func = node.func.value if event.method and isinstance(node.func, cst.Attribute) else node.func
        parts = [func, *(arg.value for arg in node.args)]
        if not node.args or any(arg.star for arg in node.args) or any(tracked(value) for value in event.args):
            continue
        if changing is None:
            changing = set(_trained_names(program))
        if not all(same.holds(part, event.place, event.ctx) for part in parts):
            continue
        if not any(_reads(arg.value) & changing for arg in node.args):
            seen.add(event.place.key)
            yield Repeated(event.place, loop)


def _repeats_itself(program: ProgramFacts, event: Forward) -> bool:
    """Whether the same input gives the same output, and nothing else comes of the call."""
    for option in options(event.module):
        if not isinstance(option, Module):
            return False
        makeup = program.makeup(option)
        if makeup.weightless or program.precision.is_loss(option):
            return False
        drops = any(layer.kind in ("dropout", MODEL) for layer in makeup.layers) or not makeup.in_sight
        if drops and option.core.training is not False:
            return False
    frames = [child for child in event.ctx.children.values() if child.place and child.place.node is event.place.node]
    kinds = (Assign, Store, Call)
    return not any(
        any(happened.ctx.inside(frame) for frame in frames)
        and (not isinstance(happened, Call) or happened.name in _RANDOM)
        and not (isinstance(happened, Store) and happened.outer is not None and happened.outer.inside(event.ctx))
        for kind in kinds
        for happened in program.events(kind)
    )


def _trained_names(program: ProgramFacts) -> Iterator[str]:
    """The names that optimizers were given, and those that are made to require gradients."""
    for made in program.events(Construct):
        if isinstance(made.value, Optimizer):
            yield from _reads(made.place.node)
    for call in program.calls("torch.Tensor.requires_grad_", ".requires_grad_"):
        func = call.place.node.func if isinstance(call.place.node, cst.Call) else None
        if isinstance(func, cst.Attribute) and dotted(func.value):  # not that of a copy
            yield from _reads(func.value)
    for assign in program.events(Assign):
        if assign.target == ".requires_grad":
            yield from _reads(assign.place.node)


def _reads(node: cst.CSTNode) -> set[str]:
    return {part.value for part in walk(node) if isinstance(part, cst.Name)} - {"self"}


__all__ = ["Repeated", "repeated_forwards"]

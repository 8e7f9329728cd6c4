"""Where a program saves or copies its weights, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards, roles
from ptlint.facts.events import Call, Ctx
from ptlint.facts.precision import FEW_STEPS, steps
from ptlint.facts.scopes import walk
from ptlint.facts.values import Module, Optimizer, StateDict, Value, held_by, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

SAVE, DEEPCOPY, PRETRAINED = "torch.save", "copy.deepcopy", "save_pretrained"


@dataclass(frozen=True)
class Checkpoint:
    """A call that saves or copies a model's state in every iteration of a training loop."""

    call: Call
    loop: Ctx

    @property
    def copies(self) -> bool:
        """Whether it copies in memory, and writes no file."""
        return self.call.name == DEEPCOPY


def frequent_checkpoints(program: ProgramFacts) -> Iterator[Checkpoint]:
    """The checkpoints of every step."""
    for call in program.events(Call):
        if not _saves(call):
            continue
        loop = program.hot(call)
        if loop is None or loop.role != roles.TRAINING or program.off_path(call.ctx) or program.alone(call.ctx):
            continue
        if steps(loop) > FEW_STEPS and not _conditional(call.ctx, loop):
            yield Checkpoint(call, loop)


def _saves(call: Call) -> bool:
    if call.name.rpartition(".")[2] == PRETRAINED:
        return True
    if call.name not in (SAVE, DEEPCOPY):
        return False
    values = [*call.args.bound.values(), *call.args.extra]
    node = call.place.node
    if any(_state(value) for value in values[:1]):
        return call.name == SAVE or not any(isinstance(option, Module) for option in options(values[0]))
    first = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    return first is not None and any(
        isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) and part.func.attr.value == "state_dict"
        for part in walk(first)
    )


def _state(value: Value, depth: int = 2) -> bool:
    """Whether a value is, or holds, the state of a model."""
    for option in options(value):
        if isinstance(option, (StateDict, Module, Optimizer)):
            return True
        if depth and any(_state(held, depth - 1) for held in held_by(option)):
            return True
    return False


def _conditional(ctx: Ctx, loop: Ctx) -> bool:
    """Whether it happens in some iterations only: when a result has become better, when a file is not there yet."""
    for up in ctx.up():
        if up is loop:
            return False
        if up.kind == "guard" and up.rarity != guards.ALWAYS:
            return True
    return False

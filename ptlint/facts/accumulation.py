"""Gradient accumulation: several backwards for each step of the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Backward, Call, Ctx, Forward, Step
from ptlint.facts.scopes import walk
from ptlint.facts.values import Module, Tensor, options, pick, reads_of

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

SYNC_WORDS = frozenset({"require_backward_grad_sync", "set_requires_gradient_sync", "require_forward_param_sync"})
"""Names of what switches DDP's exchange of gradients on and off."""


def accumulates(facts: ProgramFacts, loop: Ctx, backward: Backward) -> bool:
    """Whether gradients of a backward in a training loop add up over iterations, or over those of a loop inside.

    The step, and what clears the gradients, then stand under tests that the backward does not stand under.
    """
    steps = [event for event in facts.roles.under(loop) if isinstance(event, Step)]
    clears = [
        event for event in facts.events(Call) if event.name.rpartition(".")[2] == "zero_grad" and event.ctx.inside(loop)
    ]
    if not steps or not clears:
        return False
    inner = next(iter(backward.ctx.loops()), None)
    if inner is not None and inner is not loop and inner.inside(loop):
        forwards = any(
            isinstance(event, Forward) and event.outer and event.grad and event.ctx.inside(inner)
            for event in facts.roles.under(loop)
        )
        return forwards and not any(event.ctx.inside(inner) for event in (*steps, *clears))
    return all(_now_and_then(event.ctx, backward.ctx, loop) for event in (*steps, *clears))


def _now_and_then(ctx: Ctx, backward: Ctx, loop: Ctx) -> bool:
    """Whether a test between a loop and a context, not around the backward, lets it run in some iterations only."""
    for up in ctx.up():
        if up is loop:
            return False
        if up.kind == "guard" and not backward.inside(up) and up.test is not None and up.rarity in ("maybe", "rare"):
            looks_at_data = reads_of(up.test) or any(isinstance(option, Tensor) for option in options(up.test))
            if not looks_at_data:
                return True
    return False


def in_no_sync(event: Backward | Forward) -> bool:
    """Whether a `with` around an event, in its own function, speaks of `no_sync`."""
    return any(
        isinstance(node, cst.With)
        and any(
            isinstance(part, cst.Attribute) and part.attr.value == "no_sync"
            for item in node.items
            for part in walk(item)
        )
        for node in event.place.tree.ancestors(event.place.node)
    )


def calls_of(facts: ProgramFacts, loop: Ctx, wrapper: str) -> list[Forward]:
    """The calls in a loop of modules that are, somewhere in the program, wrapped in some way."""
    wrapped = {
        id(made.value.core)
        for made in facts.made(Module)
        if isinstance(made.value, Module) and made.value.wrapper == wrapper
    }
    return [
        event
        for event in facts.forwards(loop)
        if any(id(module.core) in wrapped for module in pick(event.module, Module))
    ]

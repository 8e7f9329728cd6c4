"""Pictures, histograms and figures that are made in every step of a training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptlint.facts import guards, roles
from ptlint.facts.events import Call, Ctx
from ptlint.facts.precision import FEW_STEPS, steps

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_WRITES = frozenset("add_histogram add_image add_images add_figure add_video add_embedding add_pr_curve".split())
_MEDIA = frozenset(f"wandb.{kind}" for kind in ("Image", "Histogram", "Video", "Table"))
_DRAWS = "matplotlib.pyplot."


@dataclass(frozen=True)
class HeavyLog:
    """A call that logs more than numbers, in every iteration of a training loop."""

    call: Call
    loop: Ctx


def heavy_logs(program: ProgramFacts) -> Iterator[HeavyLog]:
    """What is logged in every step, the first call of each kind in each function."""
    seen: set[tuple[int, str]] = set()
    for call in program.events(Call):
        kind = _kind(call)
        loop = program.hot(call) if kind else None
        if loop is None or loop.role != roles.TRAINING or program.off_path(call.ctx) or steps(loop) <= FEW_STEPS:
            continue
        if _conditional(call.ctx, loop) or (id(call.ctx.frame()), kind) in seen:
            continue
        seen.add((id(call.ctx.frame()), kind))
        yield HeavyLog(call, loop)


def _kind(call: Call) -> str:
    if call.name.startswith(_DRAWS):
        return _DRAWS
    if call.name in _MEDIA:
        return call.name
    method = call.name.rpartition(".")[2]
    return method if method in _WRITES else ""


def _conditional(ctx: Ctx, loop: Ctx) -> bool:
    """Whether it happens in some iterations only."""
    for up in ctx.up():
        if up is loop:
            return False
        if up.kind == "guard" and up.rarity != guards.ALWAYS:
            return True
    return False

"""What a program does with its GradScalers, and where it departs from their protocol.

In each step: `scaler.scale(loss).backward()`; before anything reads the gradients `scaler.unscale_(optimizer)`; then
`scaler.step(optimizer)`; and once for all optimizers `scaler.update()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ptlint.facts import guards
from ptlint.facts.events import Backward, Call, Ctx, Event, ScalerCall, Step
from ptlint.facts.paths import as_often, exclusive, guards_of, shared_loop
from ptlint.facts.values import Const, Optimizer, Scaler, Unknown, Value, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

UNSCALES = frozenset({"unscale_", "unscale_grads", "_unscale_grads_", "get_scale", "__call__"})
"""What a program calls that takes the scale out of gradients, or asks for it to do so itself."""

UNSCALED, NO_UPDATE, SKIPPED, AGAIN = "unscaled", "no update", "update skipped", "unscaled again"


@dataclass(frozen=True)
class EarlyClip:
    """Gradients are clipped while they are still scaled: after `backward`, before `step`."""

    clip: Call
    backward: Backward
    step: Step
    loop: Ctx


@dataclass(frozen=True)
class Incomplete:
    """A step that departs from the protocol. `kind`: UNSCALED, NO_UPDATE, SKIPPED, AGAIN; `other`: its counterpart."""

    kind: str
    step: Step
    loop: Ctx
    other: Event | None = None


class Scaling:
    """The GradScalers of a program."""

    def __init__(self, program: ProgramFacts) -> None:
        self._program = program

    @cached_property
    def _calls(self) -> dict[str, list[ScalerCall]]:
        found: dict[str, list[ScalerCall]] = {}
        for event in self._program.events(ScalerCall):
            if not is_disabled(event.scaler):
                found.setdefault(event.method, []).append(event)
        return found

    def calls(self, method: str) -> list[ScalerCall]:
        """The calls of a method of scalers that are not off for good."""
        return self._calls.get(method, [])

    @cached_property
    def _scaled(self) -> list[Backward]:
        """Backward passes of a loss that a GradScaler scaled and that is the program's own to step on."""
        if not self._calls.get("scale"):
            return []
        return [e for e in self._program.events(Backward) if e.scaled and not self._program.managed(e.ctx)]

    @cached_property
    def early_clips(self) -> list[EarlyClip]:
        """Clips of gradients that are still scaled."""
        return [found for clip in self.clips if (found := self._early(clip)) is not None]

    @property
    def clips(self) -> list[Call]:
        """Where the program clips gradients by a function of the library."""
        return [event for event in self._program.events(Call) if is_clip(event.name)]

    def _early(self, clip: Call) -> EarlyClip | None:
        for backward in self._scaled:
            for step in self._program.events(Step):
                if step.scaler is None or is_disabled(step.scaler):
                    continue
                if not backward.order < clip.order < step.order or exclusive(backward, clip) or exclusive(step, clip):
                    continue
                loop = shared_loop(clip, backward, step)
                if loop is None or any(
                    call.order < clip.order and call.ctx.inside(loop) and not exclusive(call, clip)
                    for call in self._unscaling()
                ):
                    continue
                return EarlyClip(clip, backward, step, loop)
        return None

    def _unscaling(self) -> Iterator[ScalerCall]:
        for method in UNSCALES:
            yield from self._calls.get(method, ())

    @cached_property
    def incomplete(self) -> list[Incomplete]:
        """Steps that depart from the protocol, one for each cause."""
        found = list(self._unscaled_steps())
        without: dict[int, Incomplete] = {}
        for step in self._program.events(Step):
            if step.scaler is None or is_disabled(step.scaler) or self._program.managed(step.ctx):
                continue
            if any(call.place.key == step.place.key for call in self._calls.get("__call__", ())):
                continue
            fault = self._update_of(step)
            if fault is not None and fault.kind == NO_UPDATE:
                without[id(fault.loop)] = fault  # one update serves all optimizers: the last step is the place
            elif fault is not None:
                found.append(fault)
        return [*found, *without.values()]

    def _unscaled_steps(self) -> Iterator[Incomplete]:
        program = self._program
        for step in program.events(Step):
            if step.scaler is not None or step.by_hand or program.managed(step.ctx):
                continue
            for backward in self._scaled:
                loop = shared_loop(step, backward)
                if loop is None or backward.order > step.order or exclusive(backward, step):
                    continue
                if not self._is_right_otherwise(step, backward, loop):
                    yield Incomplete(UNSCALED, step, loop, backward)
                    break

    def _is_right_otherwise(self, step: Step, backward: Backward, loop: Ctx) -> bool:
        """Whether an optimizer's own step may be right beside a scaled loss."""
        if any(call.ctx.inside(loop) and not exclusive(call, step) for call in self._unscaling()):
            return True  # the program takes the scale out itself
        for other in self._program.events(Backward):
            if not other.scaled and other.ctx.inside(loop) and not exclusive(other, step):
                return True  # gradients of a loss that was not scaled
        return any(
            other.scaler is not None
            and other.ctx.inside(loop)
            and not exclusive(other, step)
            and _may_be_same(other.optimizer, step.optimizer)
            for other in self._program.events(Step)
        )

    def _update_of(self, step: Step) -> Incomplete | None:
        """What is wrong with the update that should follow a step, if anything."""
        updates = [call for call in self._calls.get("update", ()) if _may_be_same(call.scaler, step.scaler)]
        loop = self._pass_of(step)
        if not updates:
            return None if self._mentions_update(step) else Incomplete(NO_UPDATE, step, loop or _loop_of(step))
        if loop is None:
            return None
        beside = [call for call in updates if call.ctx.inside(loop) and not exclusive(call, step)]
        if not beside:
            outside = [call for call in updates if call.ctx.frame() is step.ctx.frame() and not exclusive(call, step)]
            return Incomplete(SKIPPED, step, loop, outside[0]) if outside and loop.kind == "loop" else None
        if not any(as_often(call, step, loop) for call in beside) and not _complementary(beside):
            rarer = [call for call in beside if call.order > step.order and _rarely(call, loop)]
            return Incomplete(SKIPPED, step, loop, rarer[0]) if rarer else None
        return self._unscaled_again(step, beside, loop)

    def _pass_of(self, step: Step) -> Ctx | None:
        """The loop of whose passes a step ends one: that which holds the backward pass too."""
        found: Ctx | None = None
        for backward in self._scaled:
            if backward.order < step.order and not exclusive(backward, step):
                loop = shared_loop(step, backward)
                if loop is not None and (found is None or loop.depth > found.depth):
                    found = loop
        return found

    def _mentions_update(self, step: Step) -> bool:
        """Whether the text calls `update` on something by the scaler's name, where it was not seen to happen."""
        text = _receiver(step)
        return not text or any(name == f"{text}.update" for name in self._program.dotted)

    def _unscaled_again(self, step: Step, updates: list[ScalerCall], loop: Ctx) -> Incomplete | None:
        """An `unscale_` in every backward pass of several that one step ends."""
        for call in self._calls.get("unscale_", ()):
            if call.order > step.order or exclusive(call, step) or not call.ctx.inside(loop):
                continue
            if call.args and not _may_be_same(call.args[0], step.optimizer):
                continue
            inner = [ctx for ctx in guards_of(call, loop) if ctx.kind == "loop"]
            if any(backward.ctx.inside(ctx) for backward in self._scaled for ctx in inner):
                return Incomplete(AGAIN, step, loop, call)
            if inner or as_often(step, call, loop) or any(as_often(update, call, loop) for update in updates):
                continue
            if _rarely(step, loop):
                return Incomplete(AGAIN, step, loop, call)
        return None


def is_clip(name: str) -> bool:
    """Whether a library function clips gradients."""
    return name.rpartition(".")[2] in ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")


def is_disabled(scaler: Value) -> bool:
    """Whether a scaler is switched off for good, so that all its methods pass things through."""
    for option in options(scaler):
        enabled = option.call.get("enabled") if isinstance(option, Scaler) and option.call is not None else None
        if not (isinstance(enabled, Const) and not enabled.soft and not enabled.value):
            return False
    return True


def _loop_of(event: Event) -> Ctx:
    return shared_loop(event) or event.ctx.frame()


def _may_be_same(a: Value | None, b: Value | None) -> bool:
    if a is None or b is None:
        return False
    return any(x.key() == y.key() or _is_vague(x) or _is_vague(y) for x in options(a) for y in options(b))


def _is_vague(value: Value) -> bool:
    """Whether an optimizer or scaler is known by its use only, so that it may be any."""
    return isinstance(value, Unknown) or (isinstance(value, (Optimizer, Scaler)) and value.cls is None)


def _rarely(event: Event, loop: Ctx) -> bool:
    """Whether a guard, or a loop of its own, keeps an event from some passes of a loop."""
    return any(ctx.kind == "loop" or ctx.rarity in (guards.RARE, guards.MAYBE) for ctx in guards_of(event, loop))


def _complementary(calls: list[ScalerCall]) -> bool:
    """Whether calls stand in both arms of a test, so that one of them happens."""
    return any(exclusive(a, b) for a in calls for b in calls if a is not b)


def _receiver(step: Step) -> str:
    """The text of the scaler that takes a step (`self.scaler`)."""
    from ptlint.facts.scopes import dotted

    func = getattr(step.place.node, "func", None)
    value = getattr(func, "value", None)
    return dotted(value) if value is not None else ""

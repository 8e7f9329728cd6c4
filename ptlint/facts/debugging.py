"""Debug modes that a program switches on for good: not by a flag, and not for a part of its run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards
from ptlint.facts.events import Assign, Backward, Ctx, Enter, Event, Place
from ptlint.facts.iteration import passes
from ptlint.facts.roles import TRAINING
from ptlint.facts.scopes import walk
from ptlint.facts.values import Const, Value

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

ANOMALY, BLOCKING, PROFILER, DETERMINISTIC = "anomaly", "blocking", "profiler", "deterministic"

SHORT_RUN = 200
"""A profiled loop of so many steps at most is no whole training."""
_PROFILERS = ("torch.profiler.profile", "torch.autograd.profiler.profile", "torch.autograd.profiler.emit_nvtx")


@dataclass(frozen=True)
class DebugMode:
    """A debug mode, where it is switched on."""

    kind: str
    place: Place


def debug_modes(program: ProgramFacts) -> Iterator[DebugMode]:
    """The debug modes that a program leaves on."""
    if program.events(Backward):
        yield from _anomaly(program)
        yield from _profilers(program)
    for setting in program.settings:
        value = setting.value or ""
        if setting.variable.name == "CUDA_LAUNCH_BLOCKING" and setting.variable.harm(value) is not None:
            if not is_chosen(setting.event) and program.accelerated:
                yield DebugMode(BLOCKING, setting.event.place)
    if not sets_seed(program):
        yield from _deterministic(program)


def _anomaly(program: ProgramFacts) -> Iterator[DebugMode]:
    switches = program.calls("torch.autograd.set_detect_anomaly")
    if any(_is(call.args.get("mode"), False) for call in switches):
        return  # switched off again: only a part of the run is looked at
    for call in switches:
        if _is(call.args.get("mode"), True) and not is_chosen(call):
            yield DebugMode(ANOMALY, call.place)
    for call in program.calls("torch.autograd.detect_anomaly"):
        if not is_chosen(call):
            yield DebugMode(ANOMALY, call.place)


def _profilers(program: ProgramFacts) -> Iterator[DebugMode]:
    calls = {id(call.place.node): call for call in program.calls(*_PROFILERS)}
    for enter in program.events(Enter):
        call = calls.get(id(enter.place.node))
        if call is None or is_chosen(enter) or call.args.state("schedule") != "absent":
            continue
        if not _is(call.args.get("enabled", Const(True)), True):
            continue
        trainings = [loop for loop in program.roles.loops(TRAINING) if loop.inside(enter.body)]
        if trainings and not any(_is_short(loop) for loop in trainings):
            yield DebugMode(PROFILER, enter.place)


def _is_short(loop: Ctx) -> bool:
    """Whether a loop ends after a known, small number of steps, or by a `break`."""
    length = passes(loop.items)
    if length is not None and length <= SHORT_RUN:
        return True
    node = loop.place.node if loop.place is not None else None
    return isinstance(node, (cst.For, cst.While)) and any(isinstance(inner, cst.Break) for inner in walk(node.body))


def _deterministic(program: ProgramFacts) -> Iterator[DebugMode]:
    for event in program.events(Assign):
        if event.target == "torch.backends.cudnn.deterministic" and _is(event.value, True) and not is_chosen(event):
            if program.accelerated and not program.alone(event.ctx):
                yield DebugMode(DETERMINISTIC, event.place)
    for call in program.calls("torch.use_deterministic_algorithms", "torch.set_deterministic"):
        mode = call.args.get("mode", call.args.extra[0] if call.args.extra else Const(None))
        if _is(mode, True) and not is_chosen(call) and not program.alone(call.ctx):
            yield DebugMode(DETERMINISTIC, call.place)


def _is(value: Value, wanted: bool) -> bool:
    """Whether a value is this constant for good, and not by a default."""
    return isinstance(value, Const) and value.value is wanted and not value.soft


def is_chosen(event: Event) -> bool:
    """Whether a flag decides that something happens: a test other than those for a device and for `__main__`."""
    for ctx in event.ctx.up():
        if ctx.kind != "guard" or ctx.place is None:
            continue
        if ctx.rarity != guards.ALWAYS:
            return True
        node = ctx.place.node
        if isinstance(node, cst.If) and not _asks_for_device(ctx.place, node.test):
            return True
    return False


def _asks_for_device(place: Place, test: cst.BaseExpression) -> bool:
    text = place.tree.code(test)
    return "__name__" in text or "is_available(" in text or "device_count(" in text


_SEEDED = ("random.seed", "np.random.seed", "numpy.random.seed")


def sets_seed(program: ProgramFacts) -> bool:
    """Whether a program sets the seed of a random generator, by PyTorch's functions or a helper of any name.

    An option that is called `seed` sets none.
    """
    if any(name in _SEEDED or name.endswith(".random.seed") for name in program.dotted):
        return True
    return any(word.isidentifier() and "seed" in word.lower() and word.lower() != "seed" for word in program.words)


__all__ = ["ANOMALY", "BLOCKING", "DETERMINISTIC", "PROFILER", "DebugMode", "debug_modes", "sets_seed"]

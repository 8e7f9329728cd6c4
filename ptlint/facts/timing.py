"""Where a program measures time, and where its host waits for the device.

Kernels run behind the host's back: a clock read after a launch says when the work was handed over. So what is measured
depends on what made the host wait before the clock was read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ptlint.facts import guards, torch_api
from ptlint.facts.events import (
    Backward,
    Call,
    Clock,
    Ctx,
    Elapsed,
    Event,
    Forward,
    Move,
    Place,
    Read,
    ScalerCall,
    Step,
    Test,
    Trace,
)
from ptlint.facts.roles import TRAINING
from ptlint.facts.scopes import bound_names, target_names
from ptlint.facts.values import (
    DEVICE,
    HOST,
    Const,
    Module,
    Optimizer,
    Tensor,
    Tuple,
    Unknown,
    Value,
    options,
)

_READING = frozenset({"cpu", "item", "numpy", "tolist"})
SYNCHRONIZE = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize"})
_OBJECTS_THAT_WAIT = frozenset({"event.synchronize", "event.elapsed_time", "stream.synchronize"})
_WAITING_CALLS = frozenset(
    {"torch.save", "torch.distributed.barrier", "torchvision.utils.save_image", "torch.cuda.Stream.synchronize"}
)


@dataclass(frozen=True)
class Span:
    """The time between two readings of a clock, worked out at `place`.

    `since_then`: it began before the loop in which it ends, and that loop never sets it back: the time so far.
    `lap`: it goes from iteration to iteration (or is the first of these): a meter of whole iterations.
    """

    start: Clock
    end: Clock
    place: Place
    since_then: bool = False
    lap: bool = False

    @property
    def wraps(self) -> bool:
        """Whether it was started in the iteration before the one in which it ends."""
        return self.start.order > self.end.order

    @cached_property
    def loop(self) -> Ctx | None:
        """The innermost loop around both readings."""
        return next((ctx for ctx in self.end.ctx.loops() if self.start.ctx.inside(ctx)), None)

    def covers(self, event: Event) -> bool:
        """Whether something happens between the two readings."""
        if not _same_run(self.end, event):
            return False
        if not self.wraps:
            return self.start.order < event.order < self.end.order
        if self.loop is None or not event.ctx.inside(self.loop):
            return False
        return event.order > self.start.order or event.order < self.end.order


class Timing:
    """The measurements of a program."""

    def __init__(self, trace: Trace) -> None:
        self.work: list[Event] = []
        """What keeps the device busy, in the order in which it is handed over."""
        self.waits: list[Event] = []
        """What makes the host wait until the device is through."""
        self.spans: list[Span] = []
        self._synchronized: list[Call] = []
        self._recorded: list[Call] = []
        self._launched: list[Event] = []  # single operations as well
        self._heavy: list[Event] = []
        for event in trace:
            self._sort(event)
            if is_device_work(event) or _is_operation(event):
                self._launched.append(event)
            if isinstance(event, Call) and _is_heavy(event):
                self._heavy.append(event)
        self._launches = [event.order for event in self._launched]

    def _sort(self, event: Event) -> None:
        if isinstance(event, Elapsed):
            self.spans.extend(
                Span(start, end, event.place, not _is_set_back(event, end), _is_lap(event, end))
                for end in event.ends
                for start in event.starts
                if start is not end and _same_run(start, end)
            )
        elif isinstance(event, Call) and event.name in SYNCHRONIZE:
            self._synchronized.append(event)
            self.waits.append(event)
        elif isinstance(event, Call) and event.name == "event.record":
            self._recorded.append(event)
        elif is_device_work(event):
            self.work.append(event)
        elif _waits(event):
            self.waits.append(event)

    # Questions

    def measured(self, event: Event) -> bool:
        """Whether an event belongs to a measurement: there the host has to wait."""
        if any(mode.kind == "profiler" and mode.name.endswith(".profile") for mode in event.ctx.modes()):
            return True
        if self._is_timed(event) or self._after_synchronize(event):
            return True
        return any(self.is_benchmark(loop) for loop in event.ctx.loops())

    def _is_timed(self, event: Event) -> bool:
        """Whether an event stands in a span that holds the device's work. A meter that shows how long the steps of a
        training take is no reason to wait in each of them."""
        trains = any(loop.role == TRAINING for loop in event.ctx.loops())
        return any(
            span.covers(event)
            and not (span.lap and trains)
            and not _goes_round(span, event)
            and self.synchronized(span)
            for span in self.spans
        )

    def _after_synchronize(self, event: Event) -> bool:
        """Whether the device was already idle: nothing was launched since a measurement's `synchronize()`."""
        at = bisect_left(self._launches, event.order)
        last = self._launches[at - 1] if at else -1
        return any(
            last < call.order < event.order and _same_run(call, event) and self._is_for_a_clock(call)
            for call in self._synchronized
        )

    def _is_for_a_clock(self, call: Call) -> bool:
        """Whether a `synchronize()` belongs to a measurement, by a clock or by events."""
        frame = call.ctx.frame()
        return self._is_timed(call) or any(record.ctx.frame() is frame for record in self._recorded)

    def synchronized(self, span: Span) -> bool:
        """Whether somebody took care that a span holds the device's work: `synchronize()` right before its end.

        One in each iteration of a loop that is over by then was not meant for it.
        """
        return any(
            span.covers(event) and _ends_in_loop_of(span, event) and not self._launched_between(event, span.end)
            for event in self._synchronized
        )

    def _launched_between(self, event: Event, end: Event) -> bool:
        low, high = bisect_right(self._launches, event.order), bisect_left(self._launches, end.order)
        return low < high

    def is_benchmark(self, loop: Ctx) -> bool:
        """Whether a loop runs a module again and again on the same input between readings of a clock or an event."""
        inside = [event for event in self.work if event.ctx.inside(loop)]
        forwards = [event for event in inside if isinstance(event, Forward)]
        if not forwards or len(forwards) < len(inside) or not all(_same_input(event, loop) for event in forwards):
            return False
        clocked = any(_beside(span.start, loop) and _beside(span.end, loop) for span in self.spans)
        return clocked or any(_beside(record, loop) for record in self._recorded)

    def unfinished(self, span: Span) -> Event | None:
        """The device work that a span times without its being done: the figure is that of the launch."""
        last = self._last_work(span)
        if last is None or span.end.decides or span.since_then:
            return None
        if isinstance(last, Forward) and last.method not in ("", "forward"):
            return None  # `model.generate(x)`: code that cannot be read, and may well look at what it makes
        # A loop that waits in each iteration goes at the pace of the device, and so does what times all of it; what
        # times a part of an iteration, and waits elsewhere in it, does not.
        if self._is_part(span, last):
            return last
        loops = {id(loop): loop for event in (last, span.end) for loop in list(event.ctx.loops())[:1]}
        return None if any(self._waits_each_iteration(loop) for loop in loops.values()) else last

    def _is_part(self, span: Span, last: Event) -> bool:
        """Whether a span is a part of one iteration in which the host reads nothing back."""
        own = span.loop
        if own is None or span.wraps or next(iter(span.end.ctx.loops())) is not own:
            return False
        if any(loop.role and loop.inside(own) for loop in last.ctx.loops() if loop is not own):
            return False
        return not any(span.covers(event) for event in self.waits if not isinstance(event, Move))

    def _last_work(self, span: Span) -> Event | None:
        """The last device work in a span that nothing in it waits for."""
        work = [event for event in (*self.work, *self._heavy) if span.covers(event)]
        if not work:
            return None
        last = max(work, key=lambda event: _position(span, event))
        waits = (event for event in self.waits if span.covers(event))
        return None if any(_position(span, event) > _position(span, last) for event in waits) else last

    def _waits_each_iteration(self, loop: Ctx) -> bool:
        """Whether the host waits for the device in every iteration, or nearly, of a loop; copies to it aside."""
        return any(
            event.ctx.inside(loop) and not isinstance(event, Move) and not _seldom(event.ctx, loop)
            for event in self.waits
        )


def _is_set_back(event: Elapsed, end: Clock) -> bool:
    """Whether a time that ends in a loop begins in that loop too, or a turn before: not only before it."""
    loop = next(iter(end.ctx.loops()), None)
    return loop is None or any(start.ctx.inside(loop) for start in event.starts)


def _is_lap(event: Elapsed, end: Clock) -> bool:
    """Whether what is worked out began in the iteration before, from the second iteration on."""
    loop = next(iter(end.ctx.loops()), None)
    return loop is not None and any(start.order > end.order and start.ctx.inside(loop) for start in event.starts)


def _ends_in_loop_of(span: Span, event: Event) -> bool:
    loop = next(iter(event.ctx.loops()), None)
    return loop is None or span.end.ctx.inside(loop)


def _goes_round(span: Span, event: Event) -> bool:
    """Whether a span ends only now and then in a loop in every iteration of which something happens: what counts steps
    a second times a hundred of them, and none of these has to wait for that."""
    loop = next((loop for loop in event.ctx.loops() if loop.role), None)
    return (
        loop is not None and span.end.ctx.inside(loop) and _seldom(span.end.ctx, loop) and not _seldom(event.ctx, loop)
    )


def _position(span: Span, event: Event) -> tuple[bool, int]:
    """Where an event stands in a span that may begin in the iteration before."""
    return (span.wraps and event.order < span.end.order, event.order)


def _same_run(a: Event, b: Event) -> bool:
    """Whether two events belong to one run of the program, not to functions that were tried on their own."""
    return _root(a.ctx) is _root(b.ctx)


def _root(ctx: Ctx) -> Ctx:
    found = ctx
    for up in ctx.up():
        if up.parent is not None:
            found = up
    return found


def _seldom(ctx: Ctx, loop: Ctx) -> bool:
    for up in ctx.up():
        if up is loop:
            return False
        if up.kind == "guard" and up.rarity in (guards.RARE, guards.EXCEPT, guards.OFF_PATH) and not up.step:
            return True
    return False


def is_device_work(event: Event) -> bool:
    """Whether an event hands work to the device: a forward, a backward, an optimizer's step."""
    if isinstance(event, Forward):
        return event.outer and (_on_device(event.result) or any(_placed(option) for option in options(event.module)))
    if isinstance(event, Backward):
        return _on_device(event.value)
    if isinstance(event, Step):
        return any(
            isinstance(option, Optimizer) and any(module.core.where == DEVICE for module in option.modules)
            for option in options(event.optimizer)
        )
    return False


_HEAVY = frozenset(
    ["matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "linear", "scaled_dot_product_attention", "cdist", "svd"]
)
_VIEWS = frozenset({"detach", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "size", "dim"})


def _is_operation(event: Event) -> bool:
    """Whether an event is a single operation on tensors of the device."""
    if not isinstance(event, Call) or not event.name.startswith("torch.") or event.name.rpartition(".")[2] in _VIEWS:
        return False
    api = torch_api.lookup(event.name)
    if api is None or api.makes or api.kind == "class":
        return False
    return _on_device(event.result) or (event.receiver is not None and _on_device(event.receiver))


def _is_heavy(event: Call) -> bool:
    """Whether an operation is one that people time."""
    last = event.name.rpartition(".")[2]
    return (last in _HEAVY or ".linalg." in event.name or last.startswith("conv")) and _is_operation(event)


def _placed(module: Value) -> bool:
    return isinstance(module, Module) and DEVICE in (module.where, module.core.where)


def _on_device(value: Value) -> bool:
    for option in options(value):
        if isinstance(option, (Tensor, Unknown)) and option.where == DEVICE:
            return True
        if isinstance(option, Tuple) and any(_on_device(item) for item in option.items):
            return True
    return False


def _waits(event: Event) -> bool:
    if isinstance(event, (Read, ScalerCall)):
        return not isinstance(event, ScalerCall) or event.method == "step"
    if isinstance(event, Test):
        return any(isinstance(option, Tensor) and option.where == DEVICE for option in options(event.value))
    if isinstance(event, Call):
        return event.name in _WAITING_CALLS or event.name in _OBJECTS_THAT_WAIT or _may_read(event)
    if isinstance(event, Move):  # a copy from pageable memory is made before the host goes on
        return any(getattr(option, "where", "") == HOST for option in options(event.value)) and not _is_true(
            event.args.get("non_blocking", Const(False))
        )
    return False


def _may_read(call: Call) -> bool:
    """Whether a call reads what may lie on the device, or hands it to code that cannot be read."""
    if call.name.startswith((".", "torch.Tensor.")) and call.name.rpartition(".")[2] in _READING:
        return True
    if call.name.startswith(("torch.", "builtins.", "progress.", "writer.")) or call.name in (".append", ".extend"):
        return False
    return any(_on_device(value) for value in (*call.args.bound.values(), *call.args.extra))


def _is_true(value: Value) -> bool:
    return any(not isinstance(option, Const) or bool(option.value) for option in options(value))


def _beside(event: Event, loop: Ctx) -> bool:
    """Whether something happens in a loop or right around it: in the same function, and in no further loop."""
    if event.ctx.inside(loop):
        return True
    outer = next((ctx for ctx in loop.loops() if ctx is not loop), None)
    own = next(iter(event.ctx.loops()), None)
    return event.ctx.frame() is loop.frame() and own is outer


def _same_input(forward: Forward, loop: Ctx) -> bool:
    """Whether a module gets the same thing in every iteration: fresh tensors, or names that the loop does not bind."""
    if any(isinstance(option, Tensor) and option.fresh for value in forward.args for option in options(value)):
        return True
    call, node = forward.place.node, loop.place.node if loop.place is not None else None
    if not isinstance(call, cst.Call) or not isinstance(node, (cst.For, cst.While)):
        return False
    if loop.place is None or forward.place.tree is not loop.place.tree or not call.args:
        return False
    changed = bound_names(node.body) | (set(target_names(node.target)) if isinstance(node, cst.For) else set())
    return all(isinstance(arg.value, cst.Name) and arg.value.value not in changed for arg in call.args)


__all__ = ["SYNCHRONIZE", "Span", "Timing", "is_device_work"]

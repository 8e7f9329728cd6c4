"""What each loop is for (training, evaluation, epoch), and so what is hot (CATALOGUE.md, Words)."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from ptlint.facts import guards
from ptlint.facts.events import Backward, Call, Ctx, Event, Forward, Move, Step, Trace
from ptlint.facts.iteration import sources
from ptlint.facts.values import (
    Batches,
    Const,
    Function,
    Instance,
    Items,
    Loader,
    Module,
    Params,
    Sequence,
    Tuple,
    Unknown,
    Value,
    options,
    pick,
    sources_of,
)

TRAINING, EVALUATION, EPOCH, OUTER = "training", "evaluation", "epoch", "outer"

WAITS = frozenset({"input", "cv2.waitKey", "matplotlib.pyplot.show", "breakpoint"})


class Roles:
    """The roles of a program's loops, from what happened in them."""

    def __init__(self, trace: Trace) -> None:
        self._events = list(trace)
        self._under: dict[int, set[Event]] = {}
        self._loops: dict[int, Ctx] = {}
        self._noted: set[int] = set()  # contexts whose loops are known
        self.fed: set[int] = set()
        self._fed_from: set[int] = set()  # what is gone over, as written, where its items are fed to something
        self._collect()
        self._assign_training()
        self._assign_evaluation()
        self._assign_epochs()

    def loops(self, role: str | None = None) -> list[Ctx]:
        """The loops with a role (all with any when none is given), in no particular order."""
        return [loop for loop in self._loops.values() if (loop.role == role if role else loop.role)]

    def every_loop(self) -> Iterable[Ctx]:
        """The loops in which something happened, in no particular order."""
        return self._loops.values()

    def under(self, loop: Ctx) -> set[Event]:
        """Forward, backward and step events that happen in every iteration, or nearly, of a loop."""
        return self._under.get(id(loop), set())

    def _collect(self) -> None:
        for event in self._events:
            if isinstance(event, Step):
                self._note_step(event)
        for event in self._events:
            if isinstance(event, (Move, Forward)):
                for value in (event.value,) if isinstance(event, Move) else event.args:
                    self._feed(value)
            if isinstance(event, Call) and waits_for_a_person(event):
                self._note_wait(event)
            self._note(event)

    def _feed(self, value: Value) -> None:
        for option in options(value):
            for source in sources_of(getattr(option, "batch", None)):
                self.fed.add(id(source))
                if isinstance(source, Batches) and source.place is not None:
                    self._fed_from.add(id(source.place.node))
            if isinstance(option, Tuple):
                for item in option.items:
                    self._feed(item)

    def _note_wait(self, event: Call) -> None:
        for ctx in event.ctx.up():
            if ctx.kind == "guard" and ctx.rarity in (guards.RARE, guards.EXCEPT, guards.OFF_PATH):
                return
            if ctx.kind == "loop" and not ctx.pump:
                ctx.waits = True

    def _note_step(self, event: Step) -> None:
        """A step makes the guards that it stands under accumulation guards, also for what comes before it there."""
        for ctx in event.ctx.up():
            if ctx.kind == "guard":
                ctx.step = True

    def _note(self, event: Event) -> None:
        """Count an event for the loops around it."""
        relevant = isinstance(event, (Forward, Backward, Step))
        rare = False
        for ctx in event.ctx.up():
            if not relevant and id(ctx) in self._noted:
                return
            self._noted.add(id(ctx))
            if ctx.kind == "guard" and ctx.rarity in (guards.RARE, guards.EXCEPT, guards.OFF_PATH) and not ctx.step:
                rare = True
            elif ctx.kind == "loop" and not ctx.pump:
                self._loops[id(ctx)] = ctx
                if relevant and not rare:
                    self._under.setdefault(id(ctx), set()).add(event)

    def _deepest_first(self) -> Iterable[Ctx]:
        return sorted(self._loops.values(), key=lambda ctx: -ctx.depth)

    def _assign_training(self) -> None:
        taken: set[Event] = set()
        for loop in self._deepest_first():
            own = self.under(loop) - taken
            backward = [event for event in own if isinstance(event, Backward)]
            steps = [event for event in own if isinstance(event, Step)]
            if backward and steps and not loop.once:
                loop.role = TRAINING
                taken |= self.under(loop)

    def _assign_evaluation(self) -> None:
        taken: set[Event] = set()
        sweeps: set[Ctx] = set()  # loops around loops over data: one iteration is a whole evaluation or training
        for loop in self._deepest_first():
            if loop.role == TRAINING:
                sweeps.update(ctx for ctx in loop.loops() if ctx is not loop)
            inside = self.under(loop)
            if loop.role or loop.once or loop.waits:
                continue
            forwards = {event for event in inside if isinstance(event, Forward) and event.outer} - taken
            forwards = {event for event in forwards if not _made_inside(event, loop)}
            if not forwards or any(isinstance(event, Backward) for event in inside):
                continue
            over_data = self._goes_over_data(loop)
            if loop in sweeps and not over_data:
                continue
            if self._is_batch_loop(loop) and not self._serves_training(loop, forwards):
                loop.role = EVALUATION
                taken |= forwards
                if over_data:
                    sweeps.update(ctx for ctx in loop.loops() if ctx is not loop)
        self._assign_around_evaluation(sweeps)

    def _assign_around_evaluation(self, sweeps: set[Ctx]) -> None:
        """A loop over batches that runs a loop over steps or parts of each batch evaluates as well."""
        for loop in self.loops(EVALUATION):
            for around in loop.loops():
                if around is loop:
                    continue
                if around.role or around.once or around.waits or around in sweeps or not self._gives_batches(around):
                    break
                if any(isinstance(event, Backward) for event in self.under(around)):
                    break
                around.role = EVALUATION

    def _gives_batches(self, loop: Ctx) -> bool:
        return any(
            isinstance(source, Loader) or (isinstance(source, Batches) and id(source) in self.fed)
            for source in sources(loop.items)
        )

    def _goes_over_data(self, loop: Ctx) -> bool:
        return any(
            isinstance(source, (Loader, Instance)) or (isinstance(source, Batches) and id(source) in self.fed)
            for source in sources(loop.items)
        )

    def _is_batch_loop(self, loop: Ctx) -> bool:
        """A loop over batches, steps or batch sizes; not one over layers, nor one in a module's own forward."""
        node = loop.place.node if loop.place is not None else None
        for ctx in loop.up():
            if ctx.kind == "frame" and ctx.function is not None and in_forward(ctx.function):
                return False
        if isinstance(node, cst.While) or (isinstance(node, cst.For) and id(node.iter) in self._fed_from):
            return True
        for source in sources(loop.items):
            if isinstance(source, (Module, Params)):
                return False
            if isinstance(source, Items) and source.kind == "modules":
                return False
            if isinstance(source, Sequence) and pick(source.element(), Module):
                return False
            if isinstance(source, Tuple) and any(isinstance(item, Module) for item in source.items):
                return False
        for source in sources(loop.items):
            if isinstance(source, Loader):
                return True
            if isinstance(source, Batches) and id(source) in self.fed:
                return True
            if isinstance(source, Instance):  # a project iterator, or a dataset gone over item by item
                return True
            if isinstance(source, Items) and source.kind in ("range", "generator", "items"):
                return source.length is None or source.length > 3
            if isinstance(source, Unknown) and any(id(batch) in self.fed for batch in sources_of(source.batch)):
                return True
        return (
            isinstance(node, cst.For)
            and not any(
                isinstance(source, Sequence)
                and source.items is not None
                and all(isinstance(item, Const) for item in source.items)
                for source in sources(loop.items)
            )
            and any(isinstance(source, (Sequence, Items)) for source in sources(loop.items))
        )

    def _serves_training(self, loop: Ctx, forwards: set[Forward]) -> bool:
        """A loop in every iteration of a training loop whose outputs keep their graph feeds its backward."""
        for ctx in loop.up():
            if ctx is loop:
                continue
            if ctx.kind == "guard" and ctx.rarity in (guards.RARE, guards.EXCEPT) and not ctx.step:
                return False
            if ctx.kind == "loop" and ctx.role == TRAINING:
                return any(event.grad for event in forwards)
            if ctx.kind == "loop" and any(isinstance(event, Backward) for event in self.under(ctx)):
                loop_backward = self.under(ctx)
                last = max(event.order for event in forwards)
                outside = [e for e in loop_backward if isinstance(e, Backward) and e.order > last]
                return bool(outside) and any(event.grad for event in forwards)
        return False

    def _assign_epochs(self) -> None:
        for loop in list(self._loops.values()):
            if loop.role != TRAINING:
                continue
            around = [ctx for ctx in loop.loops() if ctx is not loop]
            inner = True
            for ctx in around:
                if ctx.role == TRAINING:
                    continue
                if inner:
                    ctx.role = EPOCH
                    # A loop over batches around one over the parts of each is no epoch loop in itself.
                    inner = self._gives_batches(ctx)
                elif ctx.role != EPOCH:
                    ctx.role = OUTER

    def hot_loop(self, ctx: Ctx) -> Ctx | None:
        """The training or evaluation loop in nearly every iteration of which this context runs; None when not hot."""
        for up in ctx.up():
            if up.kind == "guard" and up.rarity in (guards.RARE, guards.EXCEPT, guards.OFF_PATH) and not up.step:
                return None
            if up.kind == "loop" and not up.pump:
                if up.once or up.waits:
                    return None
                if up.role in (TRAINING, EVALUATION):
                    return up
                if up.role in (EPOCH, OUTER):
                    return None
        return None

    def innermost(self, ctx: Ctx, *roles: str) -> Ctx | None:
        """The innermost loop around with one of some roles."""
        return next((loop for loop in ctx.loops() if loop.role in roles), None)


def _made_inside(forward: Forward, loop: Ctx) -> bool:
    """Whether each iteration makes the module that it calls: the loop goes over models then, not over batches."""
    modules = [option for option in options(forward.module) if isinstance(option, Module)]
    return bool(modules) and all(m.core.ctx is not None and m.core.ctx.inside(loop) for m in modules)


def waits_for_a_person(event: Call) -> bool:
    """`input()`, `plt.show()`, `cv2.waitKey(0)`; a key waited for during some milliseconds is only polled."""
    if event.name not in WAITS:
        return False
    delay = event.args.get("delay", Const(0))
    return not (isinstance(delay, Const) and isinstance(delay.value, int) and delay.value > 0)


def in_forward(function: Function) -> bool:
    """Whether a function is the `forward` of a module."""
    node = function.node
    named = isinstance(node, cst.FunctionDef) and node.name.value == "forward"
    return named and isinstance(function.self_value, Module)

"""PTL207 synchronize-in-hot-loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit, delete_statement
from ptlint.facts.events import Call, Clock, Ctx
from ptlint.facts.program import ProgramFacts
from ptlint.facts.timing import SYNCHRONIZE
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

_STREAMS = frozenset({"Stream", "ExternalStream", "CUDAGraph", "make_graphed_callables", "wait_stream", "wait_event"})
_CAPTURES = frozenset({"torch.cuda.graph", "torch.cuda.graphs.graph", "torch.cuda.stream"})


class SynchronizeInHotLoop(Rule):
    """
    ## What it finds
    `torch.cuda.synchronize()` or `torch.accelerator.synchronize()` in every iteration, or nearly, of a training or
    evaluation loop.

    ## Why it is slow
    The host waits until the device has nothing left to do, and only then begins to queue the next kernels: the device
    idles meanwhile. Results need no such wait: what reads them waits for them, and kernels run in the order of their
    stream.

    ## When it stays silent
    - The code measures: a clock or an event is read in the same function or loop, or a profiler is on. The clock of a
      generator that only shows progress (`for batch in logger.log_every(loader):`) does not count.
    - The program uses streams of its own or captures graphs, where a wait may be needed for correctness.
    - The call comes only now and then: under a counter's modulo, a flag, in `except`.

    ## Example
    ```python
    for x, y in train_loader:
        loss = criterion(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
    ```

    Use instead:
    ```python
    for x, y in train_loader:
        loss = criterion(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: results stay the same, but errors of the device show up later, memory is freed later, and code in other
    languages may have relied on the wait.

    ## How it is measured
    A training step with and without the call at its end.

    ## References
    - https://pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    code = "PTL207"
    name = "synchronize-in-hot-loop"
    message = "the host waits in every iteration until the device is idle"
    impact = Impact.HIGH
    roots = ("synchronize",)
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if program.words & _STREAMS or program.dotted & _CAPTURES:
            return
        for call in program.calls(*SYNCHRONIZE):
            loop = program.hot(call)
            if loop is None or program.timing.measured(call) or _is_clocked(program, call, loop):
                continue
            fix, withheld = self._fix(call)
            yield self.finding(
                call.place,
                advice="leave it out: what reads a result waits for it",
                fix=fix,
                withheld=withheld,
                because=[f"it runs in every iteration of the loop in {loop.line(call.place.path)}"],
            )

    @staticmethod
    def _fix(call: Call) -> tuple[Fix | None, str]:
        if not isinstance(call.place.tree.parent(call.place.node), cst.Expr):
            return None, "it is part of a longer expression"
        try:
            edits = delete_statement(call.place.tree, call.place.node)
        except CannotEdit as error:
            return None, error.reason
        return Fix("Do not wait", Safety.UNSAFE, edits), ""


def _is_clocked(program: ProgramFacts, call: Call, loop: Ctx) -> bool:
    """Whether a clock or an event is read in the same function or the loop; a progress meter's does not count."""
    frame = call.ctx.frame()
    readings = (*program.events(Clock), *program.calls("event.record", "event.elapsed_time", "event.query"))
    return any(
        reading.ctx.frame() is frame or (reading.ctx.inside(loop) and not _in_generator(program, reading.ctx))
        for reading in readings
    )


def _in_generator(program: ProgramFacts, ctx: Ctx) -> bool:
    return any(up.function is not None and program.run.scope(up.function.node).has_yield for up in ctx.up())

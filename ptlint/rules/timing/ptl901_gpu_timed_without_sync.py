"""PTL901 gpu-timed-without-sync."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptlint.facts.events import Event
from ptlint.facts.timing import Span
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class GpuTimedWithoutSync(Rule):
    """
    ## What it finds
    A time taken with the host's clock around work of the device, where nothing waits for the device before the clock
    is read again: the figure is the time of the launch, not of the work.

    ## Why it is slow
    It is not slow but wrong: kernels are queued, and a call that launches them returns at once. What is measured is
    how long Python took to queue them, and the work shows up in whatever waits next. Decisions that rest on such
    figures make programs slow.

    ## When it stays silent
    - Something between the last work and the clock waits: `synchronize()`, `.item()`, a copy to the host, a blocking
      copy to the device, `torch.save`. Helpers that do so are followed.
    - The loop reads a value back in each iteration: its pace is that of the device. Not where only a part of an
      iteration is timed, and the read comes behind it.
    - The time so far is told in a loop that never sets the clock back: it is that of many iterations.
    - The time decides how the program goes on (a time-out), or there is no device work between the readings.
    - CUDA events measure.

    ## Example
    ```python
    model.eval()
    with torch.no_grad():
        x = torch.randn(64, 784, device=device)
        begin = time.perf_counter()
        for _ in range(100):
            y = model(x)
        took = time.perf_counter() - begin
    print(f"{took / 100:.6f} s")
    ```

    Use instead:
    ```python
    model.eval()
    with torch.no_grad():
        x = torch.randn(64, 784, device=device)
        begin = time.perf_counter()
        for _ in range(100):
            y = model(x)
        torch.cuda.synchronize()
        took = time.perf_counter() - begin
    print(f"{took / 100:.6f} s")
    ```

    ## Fix safety
    There is no fix: a `synchronize()` that is left in a training loop slows it (PTL207), and it raises where there is
    no GPU. `torch.cuda.Event(enable_timing=True)` and `torch.utils.benchmark.Timer` measure right.

    ## How it is measured
    Not at all: it makes measurements right, not programs fast.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    - https://docs.pytorch.org/tutorials/recipes/recipes/benchmark.html
    """

    code = "PTL901"
    name = "gpu-timed-without-sync"
    message = "the clock is read before the device is through: this measures the launch, not the work"
    impact = Impact.MEDIUM
    roots = (("time|perf_counter|monotonic|default_timer|time_ns|perf_counter_ns|process_time|now",),)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated:
            return
        for span in program.timing.spans:
            work = program.timing.unfinished(span)
            if work is not None:
                yield self.finding(
                    span.end.place,
                    advice="`torch.cuda.synchronize()` before both readings, or `torch.cuda.Event(enable_timing=True)`",
                    because=_because(span, work),
                )


def _because(span: Span, work: Event) -> list[str]:
    path = span.end.place.path
    return [
        f"the time began in {span.start.place.line(path)}",
        f"`{work.place.brief}` in {work.place.line(path)} hands work to the device, which nothing waits for",
    ]

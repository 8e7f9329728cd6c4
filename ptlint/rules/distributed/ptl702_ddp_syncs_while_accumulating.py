"""PTL702 ddp-syncs-while-accumulating."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts import accumulation, sharding
from ptlint.facts.events import Backward
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class DdpSyncsWhileAccumulating(Rule):
    """
    ## What it finds
    A model in `DistributedDataParallel` whose gradients add up over several backwards before the optimizer steps, with
    no `no_sync()`, or with `no_sync()` around the backward alone.

    ## Why it is slow
    DDP averages the gradients over all processes in each backward. Until the step only the sum is needed, so that all
    exchanges but the last are for nothing. Whether a backward exchanges is settled in the forward: `no_sync()` around
    the backward alone does nothing.

    ## When it stays silent
    - The optimizer steps after every backward, or skips a step because of the data (a loss that is not finite).
    - Something in the program speaks of `no_sync` or `require_backward_grad_sync` in another way.
    - Accelerate, Lightning, DeepSpeed or another framework owns the loop.

    ## Example
    ```python
    parallel = nn.parallel.DistributedDataParallel(model)
    for step, (x, y) in enumerate(DataLoader(dataset, batch_size=64)):
        (criterion(parallel(x.to(device)), y.to(device)) / 4).backward()
        if (step + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    Use instead:
    ```python
    parallel = nn.parallel.DistributedDataParallel(model)
    for step, (x, y) in enumerate(DataLoader(dataset, batch_size=64)):
        last = (step + 1) % 4 == 0
        with contextlib.nullcontext() if last else parallel.no_sync():
            (criterion(parallel(x.to(device)), y.to(device)) / 4).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Fix safety
    No fix: gradients are then summed in another order, and which backward is the last before a step, also at the end of
    an epoch, is for a person to say.

    ## How it is measured
    Calls of a communication hook for each step of the optimizer, and the time of a step in two processes.

    ## References
    - https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    code = "PTL702"
    name = "ddp-syncs-while-accumulating"
    message = "all processes exchange their gradients in every backward, though the optimizer steps only now and then"
    impact = Impact.MEDIUM
    roots = ("backward",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if sharding.by_framework(program) or program.words & accumulation.SYNC_WORDS:
            return
        for loop in program.training_loops:
            calls = accumulation.calls_of(program, loop, "ddp")
            if not calls or any(accumulation.in_no_sync(call) for call in calls):
                continue
            for event in sorted(program.roles.under(loop), key=lambda event: event.order):
                if not isinstance(event, Backward) or not accumulation.accumulates(program, loop, event):
                    continue
                alone = accumulation.in_no_sync(event)
                if "no_sync" in program.words and not alone:
                    continue
                yield self.finding(
                    event.place,
                    message=_AROUND_BACKWARD if alone else None,
                    advice="`with model.no_sync():` around forward and backward of all but the last before a step",
                )


_AROUND_BACKWARD = "`no_sync()` around the backward alone does nothing: the forward must stand in it too"

"""PTL209 data-dependent-shape."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.gathers import data_dependent
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class DataDependentShape(Rule):
    """
    ## What it finds
    In every iteration, or nearly, of a training or evaluation loop, on device tensors: `t[mask]` with a boolean mask,
    `nonzero()`, `argwhere`, `masked_select`, `unique()`, `torch.where(condition)` with nothing to choose from, and
    `repeat_interleave` by a tensor with no `output_size`.

    ## Why it is slow
    How large the result is, only the values tell: the host waits for the device before it can allocate it. Under
    `torch.compile` the graph breaks there, or is compiled again.

    ## When it stays silent
    - A number is written where a mask holds (`t[mask] = 0`), which keeps the shape.
    - `torch.where(mask, a, b)`, `masked_fill` and sums weighted by a mask.
    - The index is one of whole numbers, or it is not known what it is.
    - The tensor is on the host.

    ## Example
    ```python
    for x, y in train_loader:
        logits = model(x.to(device, non_blocking=True))
        target = y.to(device, non_blocking=True)
        known = target != -100
        loss = criterion(logits[known], target.masked_fill(target == -100, 0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    Use instead:
    ```python
    for x, y in train_loader:
        logits = model(x.to(device, non_blocking=True))
        target = y.to(device, non_blocking=True)
        known = target != -100
        loss = criterion(torch.where(known, logits, 0.0), target.masked_fill(target == -100, 0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    There is no fix: what keeps the shape depends on what comes after it. `(loss * mask).sum() / mask.sum()` rounds
    otherwise than `loss[mask].mean()`, and a loss often has its own way (`ignore_index`, `weight`, `reduction`).

    ## How it is measured
    A training step with a loss over masked rows, and one with a loss that is weighted by the mask.

    ## References
    - https://pytorch.org/docs/stable/generated/torch.nonzero.html
    - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    code = "PTL209"
    name = "data-dependent-shape"
    message = "the host waits for the device to learn how large the result is"
    impact = Impact.MEDIUM
    preview = True
    roots = ("For", "While")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated:
            return
        for call, loop, what in data_dependent(program):
            yield self.finding(
                call.place,
                message=f"{what} makes the host wait for the device to learn how large the result is",
                advice="keep the shape: weight by the mask, `torch.where(mask, a, b)`, `masked_fill`",
                because=[f"it runs in every iteration of the loop in {loop.line(call.place.path)}"],
            )

"""PTL602 per-sample-tensor-loop."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.program import ProgramFacts
from ptlint.facts.row_loops import row_loops
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class PerSampleTensorLoop(Rule):
    """
    ## What it finds
    A loop over the rows of a tensor on the GPU that computes something from each, in a training or evaluation loop or
    in `forward`; elsewhere, where it also waits for the device at each row.

    ## Why it is slow
    Every row costs the launches of its own small kernels, each of which leaves the device idle for longer than it
    works; the same operations over all rows at once are as many launches as for one. Where a value is read, the host
    waits at every row.

    ## When it stays silent
    - A pass needs the result of the one before: a recurrence.
    - Rows are treated differently, or filtered to different lengths: detections in an image.
    - The loop is over layers, heads, scales or a list of results, or over rows on the host.
    - Samples are only compared and counted: that is PTL601.

    ## Example
    ```python
    def other_labels(labels):
        others = labels.clone()
        for row, label in enumerate(labels):
            others[row] = (label.item() + torch.randint(1, 10, ()).item()) % 10
        return others

    labels = torch.randint(10, (50_000,), device=device)
    wrong = other_labels(labels)
    ```

    Use instead:
    ```python
    def other_labels(labels):
        return (labels + torch.randint(1, 10, labels.shape, device=labels.device)) % 10

    labels = torch.randint(10, (50_000,), device=device)
    wrong = other_labels(labels)
    ```

    ## Fix safety
    There is no fix: what the operation over all rows is called depends on what is done to each. Batch norm and dropout
    behave differently over a batch, and sums round differently.

    ## How it is measured
    A small network over 128 rows, one by one and at once.

    ## References
    - https://pytorch.org/docs/stable/generated/torch.func.vmap.html
    """

    code = "PTL602"
    name = "per-sample-tensor-loop"
    message = "the rows of a tensor on the GPU are worked on one by one, with kernels of their own for each"
    impact = Impact.HIGH
    roots = ("For",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in row_loops(program):
            yield self.finding(
                found.place,
                message="the host waits for the GPU at every row of a tensor" if found.waits else None,
                advice="the operation over all rows at once, by indexing, broadcasting or `torch.func.vmap`",
            )

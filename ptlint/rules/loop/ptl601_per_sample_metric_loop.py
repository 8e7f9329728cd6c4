"""PTL601 per-sample-metric-loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptlint.edits import CannotEdit
from ptlint.edits.samples import count_at_once
from ptlint.facts.samples import SampleLoop
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class PerSampleMetricLoop(Rule):
    """
    ## What it finds
    A Python loop over the samples of a batch, inside of a training or evaluation loop, that only compares, counts or
    sums: correct predictions, hits of each class, a confusion matrix.

    ## Why it is slow
    Each pass launches kernels for one sample, and each `if` on a device tensor waits for the device: as many waits as
    samples, where one comparison of whole tensors does with a single one. On the CPU it is a hundred times the work of
    `(prediction == y).sum()` as well.

    ## When it stays silent
    - The loop does something else too: it keeps results, prints, calls modules.
    - It goes over classes, thresholds, layers or the outputs of a model, or sums losses that a backward pass needs.
    - It goes over host data (lists, NumPy arrays), or stands outside of a batch loop.

    ## Example
    ```python
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in DataLoader(dataset, batch_size=64):
            y = y.to(device)
            prediction = model(x.to(device))
            for j in range(len(y)):
                if prediction[j].argmax() == y[j]:
                    correct += 1
    ```

    Use instead:
    ```python
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in DataLoader(dataset, batch_size=64):
            y = y.to(device)
            prediction = model(x.to(device))
            correct += (prediction.argmax(dim=1) == y).sum().item()
    ```

    ## Fix safety
    Safe for loops that count where rows of two tensors, or their largest entries, agree, when both are known to lie
    on one device: the counts are whole numbers. The one read that is left is PTL201's. Unsafe where the devices are
    not known: single numbers of different devices can be compared, whole tensors cannot. Other loops have no fix;
    `torch.bincount` and `torch.scatter_add` count by class.

    ## How it is measured
    The accuracy of a batch of 256 predictions, by the loop and at once.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.bincount.html
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code = "PTL601"
    name = "per-sample-metric-loop"
    message = "samples are compared and counted one by one"
    impact = Impact.HIGH
    fixable = "both"
    roots = ("torch", "accelerate", "transformers")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in program.sample_loops:
            fix, text, withheld = _fix(found)
            waits = ": the host waits for the device at each" if found.on_device else ""
            yield self.finding(
                found.place,
                message=f"{self.message}{waits}",
                impact=Impact.HIGH if found.on_device else Impact.MEDIUM,
                advice=f"`{text}`" if text else "one operation on the batch (`==` and `.sum()`, `torch.bincount`)",
                fix=fix,
                withheld=withheld,
            )


def _fix(found: SampleLoop) -> tuple[Fix | None, str, str]:
    """The fix, what it writes, and why there is none."""
    try:
        counted = count_at_once(found)
    except CannotEdit as refusal:
        return None, "", refusal.reason
    safety = Safety.SAFE if counted.same_device else Safety.UNSAFE
    return Fix("Count over the whole batch", safety, counted.edits), counted.text, ""

"""PTL505 scaler-step-incomplete."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.edits import CannotEdit
from ptlint.edits.scaling import complete
from ptlint.facts.program import ProgramFacts
from ptlint.facts.scaling import AGAIN, NO_UPDATE, SKIPPED, UNSCALED, Incomplete
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

_MESSAGES = {
    UNSCALED: "the optimizer steps on gradients that are still multiplied by the scaler's scale",
    NO_UPDATE: "no `update()` follows: the second `step` of the scaler raises, and its scale never changes",
    SKIPPED: "`update()` does not follow every `step`: the next `step` of the scaler raises",
    AGAIN: "`unscale_` runs for every micro-batch, but a step ends several: its second call raises",
}
_ADVICE = {
    UNSCALED: "`scaler.step(optimizer)`, then `scaler.update()`",
    NO_UPDATE: "`scaler.update()` once, after the last `scaler.step`",
    SKIPPED: "`scaler.update()` on the same path as `scaler.step`, right behind it",
    AGAIN: "`scaler.unscale_(optimizer)` only in the passes that step, right before it",
}


class ScalerStepIncomplete(Rule):
    """
    ## What it finds
    A step that breaks the protocol of `GradScaler`, which is: scale the loss, backward, (unscale), `scaler.step`,
    `scaler.update`.

    - `optimizer.step()` in place of `scaler.step(optimizer)`, after a backward pass of a scaled loss.
    - `scaler.step(optimizer)` with no `scaler.update()` in the program.
    - An `update()` that runs more seldom than the step.
    - `scaler.unscale_(optimizer)` in every micro-batch, where one step ends several of them.

    ## Why it is slow
    The first trains on gradients 65536 times too large: Adam hides it, and steps with inf or NaN are no longer skipped.
    The others raise a `RuntimeError` in the second step or micro-batch, or leave the scale where it began.

    ## When it stays silent
    - One `update()` after the steps of several optimizers, which is right.
    - The step belongs to a branch without a scaler.
    - The program takes the scale out itself, or a loss that was not scaled runs backward too.
    - The scaler is switched off for good (`enabled=False`).
    - A framework owns the step, or an `update` in the text was not seen to run.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    Unsafe: training changes, which is the point. Offered where a step or a missing `update()` can be written in its
    place; where calls have to move, the finding says where to.

    ## How it is measured
    It costs no time; two steps with `GradScaler("cpu")` show each fault.

    ## References
    - https://pytorch.org/docs/stable/notes/amp_examples.html
    """

    code = "PTL505"
    name = "scaler-step-incomplete"
    message = "this step breaks the protocol of `GradScaler`"
    impact = Impact.HIGH
    roots = (("scale", "step"), ("scale", "backward"))
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for fault in program.scaling.incomplete:
            fix, withheld = None, ""
            try:
                fix = Fix("Complete the scaler's step", Safety.UNSAFE, complete(program, fault))
            except CannotEdit as error:
                withheld = error.reason
            yield self.finding(
                fault.step.place,
                message=_MESSAGES[fault.kind],
                advice=_ADVICE[fault.kind],
                fix=fix,
                withheld=withheld,
                because=_because(fault),
            )


def _because(fault: Incomplete) -> list[str]:
    if fault.other is None:
        return []
    row = fault.other.place.row
    if fault.kind == UNSCALED:
        return [f"line {row} runs backward on the scaled loss"]
    if fault.kind == SKIPPED:
        return [f"the `update()` in line {row} runs more seldom than this step"]
    return [f"line {row} unscales in every pass, this step is taken in some"]

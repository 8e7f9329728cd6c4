"""PTL504 clipped-before-unscale."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.edits import CannotEdit
from ptlint.edits.scaling import unscale_before
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class ClippedBeforeUnscale(Rule):
    """
    ## What it finds
    Gradients that are clipped between `scaler.scale(loss).backward()` and `scaler.step(optimizer)` with no
    `scaler.unscale_(optimizer)` in between: `clip_grad_norm_` or `clip_grad_value_` sees them multiplied by the scale.

    ## Why it is slow
    Training learns next to nothing. The scale begins at 65536, so that the norm of any gradient is far above the
    limit: each step is cut down to `max_norm`, and `scaler.step` then divides it by the scale once more. Nothing
    raises, and an optimizer such as Adam hides it.

    ## When it stays silent
    - The program unscales on that path, or asks for the scale (`get_scale`) to work it out itself.
    - The clip belongs to the branch without a scaler.
    - The scaler is switched off for good (`enabled=False`).
    - A framework owns the step.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for x, y in DataLoader(dataset, batch_size=64):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    ```

    Use instead:
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for x, y in DataLoader(dataset, batch_size=64):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: training changes, which is the point. `unscale_` may be called once for each optimizer and step, so the fix
    is withheld where gradients are clipped more often than steps are taken, and where several optimizers step and it
    is not known whose gradients are clipped.

    ## How it is measured
    It costs no time; two steps with `GradScaler("cpu")` show the gradients.

    ## References
    - https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping
    """

    code = "PTL504"
    name = "clipped-before-unscale"
    message = (
        "the gradients are still multiplied by the scaler's scale when they are clipped, so each step all but vanishes"
    )
    impact = Impact.MEDIUM
    roots = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for early in program.scaling.early_clips:
            fix, withheld = None, ""
            path = early.clip.place.path
            try:
                fix = Fix("Unscale the gradients first", Safety.UNSAFE, unscale_before(program, early))
            except CannotEdit as error:
                withheld = error.reason
            yield self.finding(
                early.clip.place,
                advice="`scaler.unscale_(optimizer)` before the clip",
                fix=fix,
                withheld=withheld,
                because=(
                    f"{early.backward.place.line(path)} runs backward on the scaled loss",
                    f"{early.step.place.line(path)} takes the step, and nothing unscales between the two",
                ),
            )

"""PTL502 fp16-without-gradscaler."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.edits import CannotEdit
from ptlint.edits.scaling import scale_pass
from ptlint.facts.events import Backward
from ptlint.facts.imported import name_of
from ptlint.facts.precision import UnscaledLoop
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class Fp16WithoutGradscaler(Rule):
    """
    ## What it finds
    An autocast to float16, by name or by CUDA's default, around the forward pass of a training loop in a program that
    scales no loss.

    ## Why it is slow
    Gradients smaller than float16 can hold become zero, from the last layers' down: training stalls at a loss that
    float32 would pass, or never starts. `GradScaler` multiplies the loss so that they fit, divides the gradients by the
    same before the step, and skips steps that overflowed.

    ## When it stays silent
    - The dtype is bfloat16, which has float32's range, or not known.
    - Something scales: a `GradScaler`, apex, a scale of the program's own, in whatever function.
    - The autocast surrounds evaluation only, or is off by the default of an option.
    - A framework owns the step.

    ## Example
    ```python
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    Unsafe: training changes, which is the point. The fix makes the scaler beside the optimizer, scales the loss, steps
    and updates through it, and unscales before gradients are clipped. Its state is not saved with checkpoints: add
    `scaler.state_dict()` there. Withheld where the optimizer is made in another function or file, and where several
    backward passes or optimizers make one step. On GPUs that have bfloat16, `dtype=torch.bfloat16` needs no scaler.

    ## How it is measured
    It costs no time; the share of gradients that are zero shows it.

    ## References
    - https://pytorch.org/docs/stable/notes/amp_examples.html
    """

    code = "PTL502"
    name = "fp16-without-gradscaler"
    message = "the forward pass runs in float16 and nothing scales the loss, so small gradients become zero"
    impact = Impact.HIGH
    roots = ("autocast",)
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in program.precision.unscaled:
            fix, withheld = None, ""
            try:
                torch = name_of(found.autocast.file, "torch") or "torch"
                imports = ("import torch",) if torch == "torch" else ()
                edits = self._edits(program, found, torch)
                fix = Fix("Scale the loss by a `GradScaler`", Safety.UNSAFE, edits, imports)
            except CannotEdit as error:
                withheld = error.reason
            yield self.finding(
                found.autocast,
                advice='a `torch.amp.GradScaler("cuda")` around backward and step, or `dtype=torch.bfloat16`',
                fix=fix,
                withheld=withheld,
                because=_because(found),
            )

    @staticmethod
    def _edits(program: ProgramFacts, found: UnscaledLoop, torch: str) -> tuple[Edit, ...]:
        backwards = [event for event in program.roles.under(found.loop) if isinstance(event, Backward)]
        if len({event.place.key for event in backwards}) != 1:
            raise CannotEdit("the step runs several backward passes: scale the loss of each")
        if backwards[0].place.path != found.autocast.path:
            raise CannotEdit(f"the backward pass is in {backwards[0].place.path.name}, line {backwards[0].place.row}")
        return scale_pass(program, found.loop, backwards[0], torch)


def _because(found: UnscaledLoop) -> list[str]:
    place = found.loop.place
    loop = [f"the training loop in {place.line(found.autocast.path)} runs backward on it"] if place else []
    return [*loop, "no `GradScaler` scales a loss anywhere in the program"]

"""PTL503 gradscaler-without-fp16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import set_keyword
from ptlint.facts.events import Enter, Forward
from ptlint.facts.scaling import is_disabled
from ptlint.facts.values import Mode, Scaler
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_HALF = frozenset({"half", "float16", "fp16", "HalfTensor", "apex", "deepspeed", "float16_params"})


class GradscalerWithoutFp16(Rule):
    """
    ## What it finds
    A `GradScaler` in a program whose autocast is bfloat16 only, or that has no autocast at all.

    ## Why it is slow
    bfloat16 and float32 have the same range, so that no gradient underflows and there is nothing to scale. The scaler
    still multiplies every loss and divides every gradient, and reads on the host in each step whether one is infinite,
    which makes it wait for the device.

    ## When it stays silent
    - An autocast of the program is float16, or of a dtype that is not known, or the model is cast to float16.
    - The scaler has an `enabled` of its own: the program chooses.
    - Nothing scales a loss with it, or a framework owns the step.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    Use instead:
    ```python
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: a scaler skips steps whose gradients are infinite, and a program may lean on that. The fix writes
    `enabled=False`, with which every method of the scaler passes things through.

    ## How it is measured
    Training steps under bfloat16 autocast with the scaler on and off.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling
    """

    code = "PTL503"
    name = "gradscaler-without-fp16"
    message = "this `GradScaler` scales losses that are not computed in float16"
    impact = Impact.LOW
    fixable = "unsafe"
    roots = ("GradScaler",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        modes = _autocasts(program)
        dtypes = {mode.dtype for mode in modes}
        if not dtypes <= {"bfloat16"} or (not modes and "autocast" in program.words) or program.words & _HALF:
            return
        scaled = {id(option) for call in program.scaling.calls("scale") for option in (call.scaler,)}
        for event in program.made(Scaler):
            scaler = event.value
            if not isinstance(scaler, Scaler) or id(scaler) not in scaled or is_disabled(scaler):
                continue
            call = scaler.call
            if call is None or call.state("enabled") != "absent" or program.managed(event.ctx):
                continue
            node = event.place.node
            fix, withheld = None, "it is not made by a call that is written here"
            if isinstance(node, cst.Call):
                edits = set_keyword(event.place.tree, node, "enabled", "False")
                fix, withheld = Fix("Switch the scaler off", Safety.UNSAFE, edits), ""
            what = "all of the program's autocast is bfloat16" if modes else "nothing in the program uses autocast"
            yield self.finding(
                event.place,
                advice="call `loss.backward()` and `optimizer.step()` without it, or switch it off: `enabled=False`",
                fix=fix,
                withheld=withheld,
                because=(what,),
            )


def _autocasts(program: ProgramFacts) -> list[Mode]:
    """The autocasts of a program, blocks and decorators."""
    entered = [event.mode for event in program.events(Enter)]
    entered += [mode for event in program.events(Forward) for mode in event.ctx.modes()]
    return [mode for mode in entered if mode.kind == "autocast"]

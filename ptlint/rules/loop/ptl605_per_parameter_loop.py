"""PTL605 per-parameter-loop."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.edits import CannotEdit
from ptlint.edits.parameters import group
from ptlint.facts.parameter_loops import AVERAGE, CLAMP, COPY, NORM, UPDATE, ParameterLoop, parameter_loops
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

ADVICE = {
    NORM: "`torch.nn.utils.get_total_norm(...)`, or what `clip_grad_norm_` returns",
    CLAMP: "`torch._foreach_clamp_min_` and `torch._foreach_clamp_max_` over the list of parameters",
    AVERAGE: "`torch._foreach_lerp_(averages, parameters, 1 - decay)`, or `torch.optim.swa_utils.AveragedModel`",
    COPY: "`torch._foreach_copy_(targets, parameters)`",
    UPDATE: "an optimizer of `torch.optim`, or `torch._foreach_add_(parameters, gradients, alpha=-lr)`",
}


class PerParameterLoop(Rule):
    """
    ## What it finds
    A Python loop over a model's parameters, or the entries of its state, in every iteration of a training loop, that
    takes their norms, clips them, averages them into another model, or updates them by hand.

    ## Why it is slow
    Each parameter costs some microseconds of Python and one launch or more of a kernel that is done in less; a norm
    read with `.item()` makes the host wait for each. The grouped functions do many tensors in one launch.

    ## When it stays silent
    - It only sets `requires_grad`, only zeroes or drops gradients, or exchanges them between processes.
    - It wants the norm of each parameter by itself, to log it.
    - It runs once, once an epoch, every so many steps, or nothing hot calls it.
    - The program runs on the CPU only, or a framework owns the step.

    ## Example
    ```python
    target = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), model.parameters()):
                slow.mul_(0.99).add_(fast, alpha=0.01)
    ```

    Use instead:
    ```python
    target = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
    slow, fast = list(target.parameters()), list(model.parameters())
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(slow, fast, 0.01)
    ```

    ## Fix safety
    Unsafe, for loops that only clip the parameters (`torch._foreach_clamp_min_`, `torch._foreach_clamp_max_`), and
    those that only add up squared norms (`torch._foreach_norm`): sums are rounded in another order, a model without
    parameters raises, and all have to lie on one device. No fix for averages and updates: the lists are best made once,
    outside of the loop, and which tensors belong in them is for you to say.

    ## How it is measured
    The moving average of a network of a hundred parameters, in a loop and grouped.

    ## References
    - https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html
    - https://pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema
    """

    code = "PTL605"
    name = "per-parameter-loop"
    message = "every step goes through the parameters one by one, with kernels of their own for each"
    impact = Impact.MEDIUM
    fixable = "unsafe"
    roots = (("For", "parameters|named_parameters|state_dict"),)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in parameter_loops(program):
            loop = found.training.place
            fix, withheld = _fix(program, found)
            yield self.finding(
                found.place,
                advice=ADVICE[found.kind],
                fix=fix,
                withheld=withheld,
                because=(f"the training loop in {loop.line(found.place.path)} runs it each time",) if loop else (),
            )


def _fix(program: ProgramFacts, found: ParameterLoop) -> tuple[Fix | None, str]:
    try:
        edits = group(program, found)
    except CannotEdit as refusal:
        return None, refusal.reason
    return Fix("Do all parameters at once", Safety.UNSAFE, edits), ""

"""PTL205 branch-on-device-tensor."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.branches import Branch, branches
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

_WORDS = {"assert": "`assert`", "while": "`while`", "not": "`not`", "and": "`and`", "or": "`or`"}


class BranchOnDeviceTensor(Rule):
    """
    ## What it finds
    In every iteration, or nearly, of a training or evaluation loop: an `if`, `while`, `assert`, `and`, `or` or `not` on
    a comparison of device tensors, or on what `torch.isnan`, `.any()`, `.all()` and their like give.

    ## Why it is slow
    Python needs the truth of the tensor before it can go on: the host waits until the device has worked out everything
    that was queued, and the device idles until the host has queued more. Under `torch.compile` it also breaks the
    graph.

    ## When it stays silent
    - The test decides whether the loop goes on: its arm ends in `break`, `continue` or `return`, or it is the loop's
      own `while`.
    - The tensor is on the host, or nothing is known of where it is.
    - What is tested is a size, a number that was read before (PTL201), or whether there is a tensor at all.
    - The test comes only now and then: behind a counter's modulo or a flag.
    - A loop goes over the elements of tensors and tests each: that loop is the fault.
    - The code measures time, where the host waits anyway.

    ## Example
    ```python
    for x, y in train_loader:
        loss = criterion(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
        if torch.isnan(loss):
            loss = torch.zeros_like(loss, requires_grad=True)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    Use instead:
    ```python
    for x, y in train_loader:
        loss = criterion(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
        loss = torch.where(torch.isnan(loss), torch.zeros_like(loss), loss)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    There is no fix: what to do instead depends on what the branch is for. `torch.where` chooses on the device; a check
    for errors can be made once in many steps; `error_if_nonfinite=True` and `GradScaler` check without a branch.

    ## How it is measured
    A training step with a check of its loss, and one that makes the check once in a hundred steps.

    ## References
    - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    - https://pytorch.org/docs/stable/generated/torch.where.html
    """

    code = "PTL205"
    name = "branch-on-device-tensor"
    message = "the host waits for the device in every iteration to decide a branch"
    impact = Impact.MEDIUM
    roots = ("For", "While")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated:
            return
        for branch in branches(program):
            word = _WORDS.get(branch.test.how, "`if`")
            yield self.finding(
                branch.test.place,
                message=f"{word} on a device tensor makes the host wait for the device in every iteration",
                advice=_advice(branch),
                because=[f"it runs in every iteration of the loop in {branch.loop.line(branch.test.place.path)}"],
            )


def _advice(branch: Branch) -> str:
    if branch.test.how == "assert" or branch.raises:
        return "check once in many steps, or after the loop"
    return "choose on the device with `torch.where`, or look once in many steps"

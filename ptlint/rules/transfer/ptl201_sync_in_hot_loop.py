"""PTL201 sync-in-hot-loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptlint.edits import CannotEdit
from ptlint.edits.reads import move_into_guard, sum_on_device
from ptlint.facts.roles import TRAINING
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.facts.reads import ReadGroup


class SyncInHotLoop(Rule):
    """
    ## What it finds
    A value of a device tensor that the host reads in every iteration of a training or evaluation loop: `.item()`,
    `.tolist()`, `.cpu()`, `.numpy()`, `float(t)`, `math.sqrt(t)`, `print(t)`, an f-string of `t`, `add_scalar(tag, t)`,
    a NumPy or scikit-learn call on `t`, a tensor given as `alpha=` or `value=`. Reads of one forward's results in one
    list of statements are one wait and one finding, and so is the same call again in a block below.

    Results that leave an evaluation loop (predictions for a file or a metric on the host) are one finding a loop, of
    medium impact; what functions that it calls take away is one more. Functions of libraries that copy what
    they are given (`save_image(t)`) need `--preview`.

    ## Why it is slow
    Kernels are queued: Python runs ahead and hands over the next ones while the device works. A read can only be
    answered when everything before it is done, so the queue runs dry, and the device idles until Python has launched
    the next kernels. How much that costs depends on how long the kernels of a step are.

    ## When it stays silent
    - Under a guard that holds seldom (`if step % 100 == 0:`), once an epoch, after the loop.
    - The loop needs the value to go on: it decides a `break`, `continue`, `return` or `raise`, it is an environment's
      action, the next token, an array for another runtime (ONNX, OpenVINO) or for an algorithm of SciPy's.
    - Something else makes the host wait right there: a test of the same tensor (PTL205), a loop over the samples of a
      batch (PTL601), a `torch.cuda.synchronize()` that a measurement needs.
    - Measurements: between synchronised readings of a clock, under a profiler, in a benchmark; not where the clock is
      read every hundred steps only, or is a meter that shows how long training steps take.
    - Code that has no accelerator, and loops that wait for a person.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            loss = criterion(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * x.size(0)
        print(epoch, total / len(dataset))
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            loss = criterion(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach().double() * x.size(0)
        total = float(total)
        print(epoch, total / len(dataset))
    ```

    ## Fix safety
    Safe for running sums that nothing else in the loop looks at (or only under a guard that holds seldom, where the
    fix reads them): the sum stays on the device, in float64 for losses and int64 for counts, and is read once after
    the loop. Python adds in float64 as well, so that the sum is the same to the last bit; in float32 it would not be.
    The sum still begins as a Python number and goes to the device with the first tensor, so that no device has to be
    named and an empty loop works as before. Withheld where the device may have no float64 (MPS, XLA), where the term
    is divided (a device divides by multiplying), and where other code may see the sum too.

    Where the target is a tensor on the device already, `.item()` becomes `.detach()`.

    Unsafe: moving the read into the guarded block behind it that is the only one to use the value. The value is then
    read later, so that the program stops at another line when the device reports an error.

    ## How it is measured
    Training steps of a small network, whose kernels are short, with and without a read of the loss in every step.

    ## References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    """

    code = "PTL201"
    name = "sync-in-hot-loop"
    message = "the host waits for the device in every iteration to read a value"
    impact = Impact.HIGH
    fixable = "both"
    roots = ("torch", "accelerate", "transformers")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for group in program.reads.groups:
            fix, write, withheld = _fix(program, group)
            yield self.finding(
                group.place,
                message=_message(group),
                impact=Impact.MEDIUM if group.results else Impact.HIGH,
                preview=all(read.how == "sink" for read in group.reads),
                advice=write or _advice(group),
                fix=fix,
                withheld=withheld,
                because=_because(group),
            )


def _fix(program: ProgramFacts, group: ReadGroup) -> tuple[Fix | None, str, str]:
    """The fix, what it writes, and why there is none."""
    try:
        change = sum_on_device(program, group)
        return Fix("Sum on the device and read after the loop", Safety.SAFE, change.edits), change.text, ""
    except CannotEdit as refusal:
        withheld = refusal.reason
    try:
        change = move_into_guard(group)
        return Fix("Read where the value is used", Safety.UNSAFE, change.edits), change.text, ""
    except CannotEdit:
        return None, "", withheld


def _message(group: ReadGroup) -> str:
    code = group.code
    if group.results:
        return f"`{code}` takes results off the device batch by batch: the host waits for each"
    what = "training step" if group.loop.role == TRAINING else "iteration of the evaluation loop"
    return f"`{code}` makes the host wait for the device in every {what}"


def _advice(group: ReadGroup) -> str:
    if group.results:
        return "collect the tensors (`.detach()`) in a list and copy them once after the loop: `torch.cat(found).cpu()`"
    return "keep tensors (`.detach()`) and read them after the loop, or every so many steps (`if step % 100 == 0:`)"


def _because(group: ReadGroup) -> list[str]:
    place = group.loop.place
    reasons = []
    if place is not None:
        where = place.line(group.place.path)
        reasons.append(f"this runs in every iteration of the {group.loop.role} loop in {where}")
    own = {id(read.place.tree.statement(read.place.node)): read for read in group.reads}
    rows = sorted({read.place.row for read in own.values() if read.place.path == group.place.path} - {group.place.row})
    if rows:
        reasons.append(f"the same wait covers the reads in line{'s' * (len(rows) > 1)} {', '.join(map(str, rows))}")
    return reasons

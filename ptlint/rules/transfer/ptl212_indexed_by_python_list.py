"""PTL212 indexed-by-python-list."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.gathers import listed
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class IndexedByPythonList(Rule):
    """
    ## What it finds
    A device tensor that is indexed by a Python list or `range` in every iteration, or nearly, of a training or
    evaluation loop.

    ## Why it is slow
    PyTorch makes a tensor of the list on the host and copies it to the device, each time, and the host waits for that
    small copy.

    ## When it stays silent
    - The index is a slice, a number, a tensor, or a tuple of these.
    - The tensor is on the host, or it is not known where it is.

    ## Example
    ```python
    for x, y in train_loader:
        logits = model(x.to(device, non_blocking=True))
        loss = criterion(logits[:, [0, 1, 2]], y.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    Use instead:
    ```python
    for x, y in train_loader:
        logits = model(x.to(device, non_blocking=True))
        loss = criterion(logits[:, 0:3], y.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    There is no fix: a slice is a view of the tensor, which a list's result is not, and an index that is made once, on
    the device, needs a name and a place.

    ## How it is measured
    A training step that picks columns by a list, and one that picks them by an index on the device.

    ## References
    - https://pytorch.org/docs/stable/tensor_view.html
    - https://pytorch.org/docs/stable/generated/torch.index_select.html
    """

    code = "PTL212"
    name = "indexed-by-python-list"
    message = "indexing a device tensor by a Python list copies the list to the device each time"
    impact = Impact.LOW
    preview = True
    roots = ("For", "While")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated:
            return
        for call, loop in listed(program):
            yield self.finding(
                call.place,
                advice="a slice, or an index tensor that is made on the device before the loop",
                because=[f"it runs in every iteration of the loop in {loop.line(call.place.path)}"],
            )

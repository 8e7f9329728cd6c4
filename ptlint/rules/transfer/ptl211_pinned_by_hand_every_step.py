"""PTL211 pinned-by-hand-every-step."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit, remove_keyword
from ptlint.facts.copies import pinned_by_hand
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class PinnedByHandEveryStep(Rule):
    """
    ## What it finds
    `t.pin_memory().to(device)` or `t.pin_memory().cuda()` in every iteration, or nearly, of a training or evaluation
    loop.

    ## Why it is slow
    Pinning is itself a copy, into memory that has to be allocated and locked, and the host waits for it. Copying the
    tensor as it is costs the host less, whatever `non_blocking` says.

    ## When it stays silent
    - The memory was pinned before the loop, or a loader pins it, in a thread of its own.
    - The program works with threads or streams of its own, in which the copies may overlap with other work.
    - The next batch is fetched between the forward and the backward pass, while the device is busy, by one of those
      who call the function.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        target = (y + 1).pin_memory().to(device, non_blocking=True)
        loss = criterion(model(x.to(device, non_blocking=True)), target)
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        target = (y + 1).to(device)
        loss = criterion(model(x.to(device, non_blocking=True)), target)
    ```

    ## Fix safety
    Safe: the same values arrive. `non_blocking=True` goes with the pinning, since it does nothing for memory that is
    not pinned.

    ## How it is measured
    Copies of batches to the device as they are, and through pinned memory that is made each time.

    ## References
    - https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    """

    code = "PTL211"
    name = "pinned-by-hand-every-step"
    message = "pinning memory right before the copy is a copy of its own, which the host waits for"
    impact = Impact.MEDIUM
    roots = ("pin_memory",)
    fixable = "safe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for move, loop, pinning in pinned_by_hand(program):
            call = move.place.node
            assert isinstance(call, cst.Call) and isinstance(pinning.func, cst.Attribute)
            tree = move.place.tree
            fix, withheld = None, ""
            try:
                edits = [Edit(tree.outer_span(pinning.func.value)[1], tree.outer_span(pinning)[1], "")]
                if move.args.state("non_blocking") == "set" and "non_blocking" in move.args.nodes:
                    edits += remove_keyword(tree, call, "non_blocking")
                fix = Fix("Copy it without pinning", Safety.SAFE, tuple(edits))
            except CannotEdit as error:
                withheld = error.reason
            yield self.finding(
                move.place,
                advice="copy the tensor as it is, or let the `DataLoader` pin",
                fix=fix,
                withheld=withheld,
                because=[f"it runs in every iteration of the loop in {loop.line(move.place.path)}"],
            )

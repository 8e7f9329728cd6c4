"""PTL210 async-copy-from-pageable-memory."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.copies import JOINS, from_pageable, from_unpinned_loaders
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class AsyncCopyFromPageableMemory(Rule):
    """
    ## What it finds
    `.to(device, non_blocking=True)` or `.cuda(non_blocking=True)` of memory that is known not to be pinned: batches of
    a `DataLoader` for which somebody chose not to pin (where nobody did, PTL102 names the loader), and tensors made
    right there by `torch.from_numpy` or `torch.tensor`, or joined on the host by `torch.cat` or `torch.stack` (the
    result is not pinned even where all parts are). The copies of one loop over such a loader are one finding, at the
    first. Other tensors that are copied outside of training and evaluation loops are shown with `--preview` only.

    ## Why it is slow
    The GPU can fetch memory by itself only where it is pinned. From pageable memory the driver first stages the data in
    a pinned buffer of its own, and the host waits for that: `non_blocking=True` promises what does not happen.

    ## When it stays silent
    - It is not known whether the memory is pinned: a flag decides, tensors are of unknown origin.
    - The tensor holds no data and could be made on the device, which PTL203 reports.
    - Accelerate or Lightning place the batches.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=False)
    for x, y in loader:
        logits = model(x.to(device, non_blocking=True))
        loss = criterion(logits, y.to(device, non_blocking=True))
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        logits = model(x.to(device, non_blocking=True))
        loss = criterion(logits, y.to(device, non_blocking=True))
    ```

    ## Fix safety
    There is no fix here: let the loader pin its batches, for which PTL102 has a fix. Pinning by hand right before the
    copy is slower than the copy alone (PTL211).

    ## How it is measured
    Copies of image batches with `non_blocking=True`, from pageable and from pinned memory.

    ## References
    - https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    - https://pytorch.org/docs/stable/data.html#memory-pinning
    """

    code = "PTL210"
    name = "async-copy-from-pageable-memory"
    message = "`non_blocking=True` does nothing for memory that is not pinned: the host waits for this copy"
    impact = Impact.MEDIUM
    roots = ("non_blocking",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated:
            return
        for use, move in from_unpinned_loaders(program):
            made = use.event.place
            yield self.finding(
                move.place,
                advice="`pin_memory=True` for the loader",
                because=[f"the loader in {made.line(move.place.path)} does not pin its batches"],
            )
        seen: set[int] = set()
        for name, move in from_pageable(program):
            statement = id(move.place.tree.statement(move.place.node))
            if statement not in seen:
                seen.add(statement)
                yield self.finding(
                    move.place,
                    preview=program.hot(move) is None,
                    advice=f"copy the parts with `non_blocking=True` and call `{name}` on the device"
                    if name in JOINS
                    else "let a `DataLoader` with `pin_memory=True` load the data",
                    because=[f"`{name}` gives pageable memory"],
                )

"""PTL202 blocking-transfer."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit, set_keyword
from ptlint.facts.events import Move
from ptlint.facts.loading import LoaderUse
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class BlockingTransfer(Rule):
    """
    ## What it finds
    `.to(device)`, `.cuda()` or `.type(torch.cuda.FloatTensor)` of a batch with no `non_blocking=True`, where the batch
    comes from a `DataLoader` that pins its memory (or that PTL102 reports because it should). The copies of one
    statement are one finding.

    ## Why it is slow
    The host waits until the copy is done. From pinned memory it need not: with `non_blocking=True` it goes on to queue
    the kernels of the step while the GPU fetches the batch.

    ## When it stays silent
    - What is moved is not pinned: no batch of a loader, or computed from one (a stack of images, a slice of an array).
    - Accelerate or Lightning place the batches; the loop waits for a person; one batch is moved outside of any loop.
    - The copy goes to the host, where the values could be read before they are there.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = criterion(model(x), y)
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = criterion(model(x), y)
    ```

    ## Fix safety
    Safe: kernels that use the batch run after the copy, in the order of the stream. Unsafe where a `collate_fn` makes
    the batch and the whole of it is moved: its own `.to` may not take the argument. Without pinned memory the argument
    does nothing, so that the fix waits for PTL102's.

    ## How it is measured
    A training step on pinned image batches, copied with and without `non_blocking=True`.

    ## References
    - https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    - https://pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers
    """

    code = "PTL202"
    name = "blocking-transfer"
    message = "the host waits for this copy of a batch to the GPU"
    impact = Impact.MEDIUM
    roots = ("to", "cuda", "type")
    fixable = "both"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated:
            return
        for copies in _statements(program):
            use, first = copies[0]
            fix, withheld = self._fix(copies)
            yield self.finding(
                first.place,
                preview=first.args.state("non_blocking") == "set",
                advice="`non_blocking=True`",
                fix=fix,
                withheld=withheld,
                because=[
                    f"the batch comes from the loader in {use.event.place.line(first.place.path)}",
                    "it pins its batches" if use.pins else "it should pin its batches (PTL102)",
                ],
            )

    @staticmethod
    def _fix(copies: list[tuple[LoaderUse, Move]]) -> tuple[Fix | None, str]:
        if not any(use.pins for use, _ in copies):
            use, first = copies[0]
            made = use.event.place.line(first.place.path)
            return None, f"it does nothing until the loader made in {made} pins its memory (PTL102)"
        edits: list[Edit] = []
        try:
            for _, move in copies:
                assert isinstance(move.place.node, cst.Call)
                edits += set_keyword(move.place.tree, move.place.node, "non_blocking", "True")
        except CannotEdit as error:
            return None, error.reason
        safety = Safety.UNSAFE if any(use.is_whole_batch(move) for use, move in copies) else Safety.SAFE
        return Fix("Copy without waiting", safety, tuple(edits)), ""


def _statements(program: ProgramFacts) -> list[list[tuple[LoaderUse, Move]]]:
    """The blocking copies of batches, those of a statement together, in the order of the source, each once."""
    found: dict[int, dict[int, tuple[LoaderUse, Move]]] = {}
    for use in program.loading:
        for move in use.blocking_copies:
            statement = move.place.tree.statement(move.place.node)
            known = found.setdefault(id(statement), {})
            before = known.get(id(move.place.node))
            if before is None or (use.pins and not before[0].pins):
                known[id(move.place.node)] = (use, move)
    return [sorted(copies.values(), key=lambda copy: copy[1].place.start) for copies in found.values()]

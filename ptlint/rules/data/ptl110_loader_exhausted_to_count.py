"""PTL110 loader-exhausted-to-count."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts import datasets, sizes
from ptlint.facts.program import ProgramFacts
from ptlint.facts.sizes import SizeRead
from ptlint.facts.values import Dataset, Instance, Loader, Value, options
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class LoaderExhaustedToCount(Rule):
    """
    ## What it finds
    A pass over a `DataLoader` that only learns a size: `len(list(loader))`, `sum(1 for _ in loader)`, a loop that only
    counts, and `next(iter(loader))` in an epoch loop of which nothing but a shape or length is asked.

    ## Why it is slow
    All data are read, decoded and collated once more, and thrown away. `next(iter(loader))` starts the workers, waits
    for the first batch, and stops them again with what they had fetched ahead.

    ## When it stays silent
    - The batch, or anything computed from it, is used.
    - A batch is looked at once, before the epochs, or now and then (in the first epoch, under a debugging flag).
    - The dataset is iterable, or not known, and is counted once: it may have no length.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(total / len(list(loader)))
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(total / len(loader))
    ```

    ## Fix safety
    No fix: a pass draws from the random generator, so that what follows sees other numbers without it; and what stands
    for the size (`len(loader)`, `loader.batch_size`, a counter) depends on the dataset and on the last batch.

    ## How it is measured
    An epoch with and without the pass that counts.

    ## References
    - https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """

    code = "PTL110"
    name = "loader-exhausted-to-count"
    message = "this pass over the loader loads everything once more, only to count it"
    impact = Impact.MEDIUM
    roots = ("DataLoader",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for read in sizes.size_reads(program):
            loader = read.event.value
            assert isinstance(loader, Loader)
            sized = all(_has_length(option) for option in options(loader.dataset()))
            if read.loop is None and (read.what == sizes.SHAPE or not sized):
                continue
            because = [] if loader.place is None else [f"the loader is made in line {loader.place.row}"]
            if read.loop is not None and read.loop.place is not None:
                because.append(f"the loop in line {read.loop.place.row} does this in each iteration")
            yield self.finding(
                read.place,
                message=_SHAPE_MESSAGE if read.what == sizes.SHAPE else None,
                advice=_advice(read, sized),
                because=because,
            )


_SHAPE_MESSAGE = "this starts a pass over the loader, with its workers, and drops it: only the size of a batch is asked"


def _advice(read: SizeRead, sized: bool) -> str:
    if read.what == sizes.SHAPE:
        return "`loader.batch_size`, or take the size from the batches that the loop goes over"
    if not sized:
        return "count in the loop that goes over the batches anyway"
    return "`len(loader)`" if read.what == sizes.BATCHES else "`len(loader.dataset)`"


def _has_length(dataset: Value) -> bool:
    """Whether a dataset is known to be one that is indexed, and so has a length."""
    if isinstance(dataset, (Instance, Dataset)):
        return not datasets.is_iterable(dataset)
    return False

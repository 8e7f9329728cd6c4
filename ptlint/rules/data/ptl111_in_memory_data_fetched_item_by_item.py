"""PTL111 in-memory-data-fetched-item-by-item."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts import sharding
from ptlint.facts.loading import LoaderUse
from ptlint.facts.program import ProgramFacts
from ptlint.facts.values import Const, Dataset, options
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

ARRAYS = "torch.utils.data.TensorDataset"
CHOSEN = ("sampler", "batch_sampler", "collate_fn", "worker_init_fn")


class InMemoryDataFetchedItemByItem(Rule):
    """
    ## What it finds
    A `TensorDataset` that a training loop reads through a `DataLoader` with the default fetch and collate.

    ## Why it is slow
    Each batch takes one row at a time out of the tensors and stacks the rows again, where one indexing with all the
    indices would do.

    ## When it stays silent
    - A sampler, a `collate_fn` or `batch_size=None` or 1 is given, or anything of it is not known.
    - The dataset is of any other class, which may not take a list of indices.

    ## Example
    ```python
    data = torch.utils.data.TensorDataset(torch.rand(1000, 784), torch.randint(10, (1000,)))
    for x, y in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    data = torch.utils.data.TensorDataset(torch.rand(1000, 784), torch.randint(10, (1000,)))
    order = torch.utils.data.RandomSampler(data)
    batches = torch.utils.data.BatchSampler(order, batch_size=64, drop_last=False)
    for x, y in DataLoader(data, sampler=batches, batch_size=None):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    ```

    ## Fix safety
    No fix: `loader.batch_size` becomes None, and code that looks at it, or at the sampler, sees another object.

    ## How it is measured
    An epoch of the loader alone, each way.

    ## References
    - https://pytorch.org/docs/stable/data.html#disable-automatic-batching
    """

    code = "PTL111"
    name = "in-memory-data-fetched-item-by-item"
    message = "each batch is taken out of the tensors row by row, and stacked again"
    impact = Impact.LOW
    preview = True
    roots = ("TensorDataset",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for use in program.loading:
            if use.managed or not _by_default(use) or not any(True for _ in sharding.training_loops(program, use)):
                continue
            yield self.finding(
                use.event.place,
                advice="`sampler=BatchSampler(RandomSampler(data), batch_size, drop_last=False), batch_size=None`",
            )


def _by_default(use: LoaderUse) -> bool:
    if use.args.open or any(use.args.state(name) != "absent" for name in CHOSEN):
        return False
    sizes = options(use.args.get("batch_size", Const(1)))
    if any(isinstance(size, Const) and size.value in (None, 1) for size in sizes):
        return False
    return all(isinstance(option, Dataset) and option.lib_base == ARRAYS for option in options(use.loader.dataset()))

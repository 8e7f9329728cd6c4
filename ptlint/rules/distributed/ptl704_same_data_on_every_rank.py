"""PTL704 same-data-on-every-rank."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts import datasets, sharding
from ptlint.facts.events import Ctx
from ptlint.facts.launch import is_main_guard
from ptlint.facts.loading import LoaderUse
from ptlint.facts.program import ProgramFacts
from ptlint.facts.values import Const, Dataset, Instance, options
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class SameDataOnEveryRank(Rule):
    """
    ## What it finds
    The `DataLoader` of a training loop whose model is wrapped in `DistributedDataParallel`, with no sampler that gives
    each process a share of its own.

    ## Why it is slow
    Every process goes over the whole dataset: an epoch takes as long as on one GPU, and does the work once a process.

    ## When it stays silent
    - A sampler or batch sampler is given, or may be; another loader of the same loop has one.
    - The dataset is iterable, or not known, or it, the code that makes it or a seed speaks of ranks.
    - The loader is made in a branch in which the model is not wrapped.
    - Accelerate, Lightning or another framework shards the data.

    ## Example
    ```python
    parallel = nn.parallel.DistributedDataParallel(model)
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(parallel(x.to(device)), y.to(device)).backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    parallel = nn.parallel.DistributedDataParallel(model)
    sampler = torch.utils.data.DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(parallel(x.to(device)), y.to(device)).backward()
        optimizer.step()
    ```

    ## Fix safety
    No fix: which items a step sees changes, and the sampler needs a `set_epoch` in the epoch loop.

    ## How it is measured
    Items that each of two processes loads in an epoch.

    ## References
    - https://pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """

    code = "PTL704"
    name = "same-data-on-every-rank"
    message = "every process trains on all of this data: nothing gives each of them a share"
    impact = Impact.HIGH
    roots = ("DataLoader",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if sharding.by_framework(program):
            return
        for use in program.loading:
            loops = list(sharding.training_loops(program, use))
            wraps = [wrap for loop in loops for wrap in sharding.ddp_wraps(program, loop)]
            if not wraps or not all(_may_share(use, wrap) for wrap in wraps) or not _plain(use):
                continue
            if any(_has_sampler(other) for other in program.loading if _shares_loop(program, other, loops)):
                continue
            if sharding.speaks_of_ranks(program, use):
                continue
            yield self.finding(
                use.event.place,
                advice="`sampler=DistributedSampler(dataset)` instead of `shuffle`, and `set_epoch` in the epoch loop",
                because=["the loop that goes over it calls a model in `DistributedDataParallel`"],
            )


def _plain(use: LoaderUse) -> bool:
    """Whether nothing but the dataset chooses the items, and the dataset is one that is indexed."""
    given = [use.args.get(name, Const(None)) for name in ("sampler", "batch_sampler")]
    none = all(isinstance(option, Const) and option.value is None for value in given for option in options(value))
    if use.args.open or not none:
        return False
    found = options(use.loader.dataset())
    return all(isinstance(option, (Dataset, Instance)) and not datasets.is_iterable(option) for option in found)


def _has_sampler(use: LoaderUse) -> bool:
    return use.args.open or bool(sharding.samplers(use.loader))


def _shares_loop(program: ProgramFacts, use: LoaderUse, loops: list[Ctx]) -> bool:
    nodes = {id(loop.place.node) for loop in loops if loop.place is not None}
    return any(
        loop.place is not None and id(loop.place.node) in nodes for loop in sharding.training_loops(program, use)
    )


def _may_share(use: LoaderUse, wrap: Ctx) -> bool:
    """Whether the branches that a loader is made in are those that the model is wrapped in."""
    return all(up.kind != "guard" or is_main_guard(up) or wrap.inside(up) for up in use.event.ctx.up())

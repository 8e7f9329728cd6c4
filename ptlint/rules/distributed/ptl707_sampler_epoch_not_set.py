"""PTL707 sampler-epoch-not-set."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts import sharding
from ptlint.facts.program import ProgramFacts
from ptlint.facts.values import Const, Instance, Lib, options
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

SAMPLERS = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")


class SamplerEpochNotSet(Rule):
    """
    ## What it finds
    A shuffling `DistributedSampler` of a loader that trains for several epochs, whose `set_epoch` nothing calls.

    ## Why it is slow
    The sampler draws its order from a seed and the number of the epoch. When that stays 0, each epoch has the same
    order and the same batches in the same process, and training needs more epochs for the same result.

    ## When it stays silent
    - `shuffle=False`, or not known; a sampler for evaluation; a single epoch.
    - Something calls `set_epoch`, of this sampler or of an object that is not known.
    - Accelerate, Lightning or another framework calls it.

    ## Example
    ```python
    sampler = torch.utils.data.DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    sampler = torch.utils.data.DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
    ```

    ## Fix safety
    No fix: the order of later epochs changes.

    ## How it is measured
    The order of the items in two epochs.

    ## References
    - https://pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """

    code = "PTL707"
    name = "sampler-epoch-not-set"
    message = "this sampler shuffles every epoch into the same order: nothing tells it the epoch"
    impact = Impact.MEDIUM
    roots = ("DistributedSampler",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if sharding.by_framework(program):
            return
        for use in program.loading:
            if not use.epochs or not any(True for _ in sharding.training_loops(program, use)):
                continue
            for sampler in sharding.samplers(use.loader):
                if not isinstance(sampler, Instance) or sampler.place is None or not _shuffles(sampler):
                    continue
                if sharding.renewed(program, sampler):
                    continue
                iterate, loop = use.epochs[0]
                around = loop.place if loop.place is not None else iterate.place
                yield self.finding(
                    sampler.place,
                    advice="`sampler.set_epoch(epoch)` before each pass over the loader",
                    because=[f"the loop in {around.line(sampler.place.path)} goes over its loader in each iteration"],
                )


def _shuffles(sampler: Instance) -> bool:
    """Whether it is a DistributedSampler, as PyTorch has it, that shuffles."""
    if not isinstance(sampler.cls, Lib) or sampler.cls.name not in SAMPLERS or sampler.call is None:
        return False
    if sampler.call.state("shuffle") == "absent":
        return True
    return all(isinstance(option, Const) and option.value is True for option in options(sampler.call.get("shuffle")))

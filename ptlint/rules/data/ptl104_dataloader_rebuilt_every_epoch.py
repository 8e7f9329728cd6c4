"""PTL104 dataloader-rebuilt-every-epoch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit
from ptlint.edits.hoisting import hoist
from ptlint.facts import epochs, roles
from ptlint.facts.events import Ctx, Store
from ptlint.facts.guards import EXCEPT, OFF_PATH
from ptlint.facts.invariance import Invariance
from ptlint.facts.loading import LoaderUse
from ptlint.facts.program import ProgramFacts
from ptlint.facts.scopes import walk
from ptlint.facts.values import Optimizer
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

HARMLESS = frozenset({"min", "max", "len", "int", "bool", "os.cpu_count", "torch.cuda.is_available"})


class DataloaderRebuiltEveryEpoch(Rule):
    """
    ## What it finds
    A `DataLoader(...)` made anew in each epoch (or step), itself or in a function called there, from arguments that are
    the same each time.

    ## Why it is slow
    Each loader starts workers of its own, imports and copies for them, and waits for their first batches. Workers
    cannot persist, and what is built with the loader (a dataset that lists its files) is built again.

    ## When it stays silent
    - An argument, or the test that it is made under, may depend on the epoch: resampling, curricula, folds.
    - The dataset, or something that it holds, is changed in the loop, or is made by code that is not known.
    - Each iteration of the loop is a whole training with an optimizer of its own.

    ## Example
    ```python
    for epoch in range(epochs):
        loader = DataLoader(dataset, batch_size=64, shuffle=True)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
    ```

    ## Fix safety
    Safe: each pass over a loader draws from the default generator as a new loader's first pass does, so that the order
    is the same. Withheld where a `generator` or `persistent_workers` is given, where the call makes something else, and
    where it does not stand in the loop's own block with all that it needs outside of it.

    ## How it is measured
    The time from the start of an epoch to its first batch, each way, with two workers.

    ## References
    - https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """

    code = "PTL104"
    name = "dataloader-rebuilt-every-epoch"
    message = "this `DataLoader` is made anew in every iteration, from the same arguments"
    impact = Impact.MEDIUM
    roots = ("DataLoader",)
    fixable = "safe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for use in program.loading:
            loop = program.roles.innermost(use.event.ctx, roles.EPOCH, roles.TRAINING)
            if loop is None or loop.place is None or not use.iterations or use.args.open:
                continue
            if not _same_each_time(program, use, loop) or _changes(program, use, loop):
                continue
            fix, withheld = _fix(program, use, loop)
            yield self.finding(
                use.event.place,
                advice=f"make it once, before the loop in {loop.place.line(use.event.place.path)}",
                fix=fix,
                withheld=withheld,
            )


def _same_each_time(program: ProgramFacts, use: LoaderUse, loop: Ctx) -> bool:
    """Whether the arguments, and the tests of the branches on the way to the call, depend on nothing in the loop."""
    node = use.site.node
    if not isinstance(node, cst.Call) or any(event.ctx.inside(loop) for event in program.made(Optimizer)):
        return False
    same = Invariance(program, loop)
    for up in use.ctx.up():
        if up is loop:
            break
        if up.kind != "guard":
            continue
        test = up.place.node if up.place is not None else None
        if up.rarity in (EXCEPT, OFF_PATH) or up.place is None or not isinstance(test, cst.If):
            return False
        if not same.holds(test.test, up.place, up.parent or up):
            return False
    return all(not arg.star and same.holds(arg.value, use.site, use.ctx) for arg in node.args)


def _changes(program: ProgramFacts, use: LoaderUse, loop: Ctx) -> bool:
    """Whether the dataset or a list that it holds is changed in the loop."""
    held = {id(part) for part in epochs.dataset_parts(use.loader)}
    changed = [(owner, ctx) for owner, ctx in program.loading.changes if ctx.inside(loop)]
    stored = [(store.holder, store.ctx) for store in program.events(Store) if store.ctx.inside(loop)]
    return any(id(owner) in held for owner, _ in (*changed, *stored))


def _fix(program: ProgramFacts, use: LoaderUse, loop: Ctx) -> tuple[Fix | None, str]:
    node, place = use.event.place.node, use.event.place
    if loop.place is None or place.tree is not loop.place.tree or use.event.ctx is not loop:
        return None, "it is made in another block than the loop's own"
    assert isinstance(node, cst.Call)
    if use.args.state("generator") != "absent" or use.flag("persistent_workers") is not False:
        return None, "with `generator` or `persistent_workers` the order of later epochs would change"
    names = {e.name for part in walk(node) if part is not node for e in program.calls_at(part)}
    calls = [part for part in walk(node) if isinstance(part, cst.Call) and part is not node]
    if not names <= HARMLESS or not all(program.calls_at(part) for part in calls):
        return None, "the call makes other things too"
    try:
        return Fix("Make the loader once", Safety.SAFE, hoist(place.tree, node, loop.place.node)), ""
    except CannotEdit as error:
        return None, error.reason

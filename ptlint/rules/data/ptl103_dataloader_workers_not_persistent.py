"""PTL103 dataloader-workers-not-persistent."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.edits import CannotEdit
from ptlint.edits.choices import choose, choose_beside
from ptlint.facts.events import Place
from ptlint.facts.loading import WORKERS, LoaderUse
from ptlint.facts.origins import ABSENT
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class DataloaderWorkersNotPersistent(Rule):
    """
    ## What it finds
    A `DataLoader` with workers that is gone over once an epoch, with `persistent_workers` absent or False: in a loop
    around trainings, in a generator without end (`while True: yield from loader`), anew after `except StopIteration:`.

    ## Why it is slow
    Each epoch stops all workers and starts new ones: processes are made, modules imported, the dataset copied, the
    first batches waited for. With `spawn` or `forkserver` (Linux's default from Python 3.14 on) this takes seconds.

    ## When it stays silent
    - Workers are not known to be there, or the loader is gone over once, or only now and then.
    - The dataset is changed between epochs (an attribute assigned, `set_epoch` called on it): persistent workers keep
      the copy that they were started with.
    - The loader is made anew in each epoch, or is of a class that keeps one iterator.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
    ```

    ## Fix safety
    Unsafe: the workers' random streams go on instead of starting anew each epoch, and with `shuffle=True` the order of
    later epochs differs. Where the number of workers may be 0 the value is `num_workers > 0`, because
    `persistent_workers=True` raises without workers.

    ## How it is measured
    The time from the start of an epoch to its first batch, in the second epoch and later.

    ## References
    - https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """

    code = "PTL103"
    name = "dataloader-workers-not-persistent"
    message = "the workers of this `DataLoader` are stopped and started anew in every epoch"
    impact = Impact.MEDIUM
    roots = ("DataLoader",)
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for use in program.loading:
            if use.workers != WORKERS or use.flag("persistent_workers") is not False or not use.epochs:
                continue
            if use.reuses_iterator or use.changed_between_epochs or program.off_path(use.event.ctx):
                continue
            place = use.place(use.origin("persistent_workers"))
            text = use.workers_text
            value = "True" if use.workers_certain else f"{text or 'num_workers'} > 0"
            fix, withheld = self._fix(use, value if use.workers_certain or text else None, place)
            iterate, loop = use.epochs[0]
            epoch = loop.place if loop.place is not None else iterate.place
            yield self.finding(
                place,
                advice=f"`persistent_workers={value}`",
                fix=fix,
                withheld=withheld,
                because=[
                    f"{iterate.place.line(place.path)} goes over the loader",
                    f"the loop in {epoch.line(place.path)} does that once an iteration",
                ],
            )

    @staticmethod
    def _fix(use: LoaderUse, value: str | None, at: Place) -> tuple[Fix | None, str]:
        origin, item = use.origin("persistent_workers"), use.item("num_workers")
        if value is None or (value != "True" and origin.site.node is not use.site.node):
            return None, "the number of workers may be 0, and is not in sight here"
        try:
            if origin.kind == ABSENT and item is not None:
                edits = choose_beside(item, "persistent_workers", value, at)
            else:
                edits = choose(origin, value, at)
        except CannotEdit as error:
            return None, error.reason
        return Fix("Keep the workers from epoch to epoch", Safety.UNSAFE, edits), ""

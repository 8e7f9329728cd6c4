"""PTL101 dataloader-no-workers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptlint.edits import CannotEdit
from ptlint.edits.choices import choose
from ptlint.facts.events import Place
from ptlint.facts.launch import world_size
from ptlint.facts.loading import NO_WORKERS, LoaderUse
from ptlint.facts.origins import DEFAULT, OPTION, OWN_DEFAULT, Origin
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class DataloaderNoWorkers(Rule):
    """
    ## What it finds
    A `DataLoader` with `num_workers` absent, or 0 by a default that can be read (of a function's parameter, a
    command-line option, a dataclass), whose dataset works for its items: it decodes, reads files, tokenises.

    A literal `num_workers=0` is somebody's choice, and code without a GPU gains less: both are shown with `--preview`
    only.

    ## Why it is slow
    With no workers the training process itself reads, decodes and collates each batch between two steps, and the GPU
    waits for it. Worker processes do that work while the GPU computes.

    ## When it stays silent
    - The data is in memory (`TensorDataset`, a list, a dataset whose `__getitem__` only indexes arrays, tensors or
      lists that it holds): handing items from process to process costs more than looking them up.
    - The dataset or `collate_fn` puts items on the GPU, which forked workers cannot do; the dataset's library
      prefetches by itself (WebDataset and its like); all that is ever taken is one batch.
    - `num_workers` comes from a value that cannot be read.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=min(8, os.cpu_count() or 1))
    ```

    ## Fix safety
    Unsafe: workers draw random augmentations from streams of their own, and need shared memory and processes. The
    number to write is an option (`num-workers` in the config): at most the cores that this process may use
    (`len(os.sched_getaffinity(0))` on Linux). In a program of several processes it is divided by their number.
    There is no fix where workers would break the script under the start methods `spawn` and `forkserver` (Linux's
    default from Python 3.14 on): a loader gone over at module level with no main guard, lambdas and local functions
    or classes in what is sent to workers, open file and database handles; nor for an iterable dataset that does not
    ask `get_worker_info()`, which would be repeated.

    ## How it is measured
    An epoch over images that are decoded from files, with a training step that keeps the device as busy as they do.

    ## References
    - https://pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading
    - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code = "PTL101"
    name = "dataloader-no-workers"
    message = "the training process loads every batch itself, between two steps: this `DataLoader` has no workers"
    impact = Impact.HIGH
    roots = ("DataLoader",)
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for use in program.loading:
            if use.workers != NO_WORKERS or use.one_batch or use.in_memory or use.on_device or use.streams:
                continue
            if program.off_path(use.event.ctx):
                continue
            origin = use.origin("num_workers")
            place = use.place(origin)
            value = self._workers(program, use)
            fix, withheld = self._fix(use, origin, value)
            yield self.finding(
                place,
                preview=use.is_choice("num_workers") or not program.accelerated,
                advice=f"{_wanted(origin, value)}, or as many as the cores that this process may use",
                fix=fix,
                withheld=withheld,
                because=_because(use, origin, place),
            )

    @staticmethod
    def _workers(program: ProgramFacts, use: LoaderUse) -> str:
        """The expression for the number of workers: the processes of a distributed program share the cores."""
        workers = program.config.num_workers
        world = world_size(program, use.ctx)
        if not world:
            return workers
        return f"max(1, {workers if workers.endswith(')') else f'({workers})'} // {world})"

    @staticmethod
    def _fix(use: LoaderUse, origin: Origin, value: str) -> tuple[Fix | None, str]:
        if use.obstacles:
            return None, use.obstacles[0]
        place = use.place(origin)
        try:
            edits = choose(origin, value, place)
        except CannotEdit as error:
            return None, error.reason
        return Fix(f"Load with `{value}` workers", Safety.UNSAFE, edits, _imports(value)), ""


def _wanted(origin: Origin, value: str) -> str:
    if origin.kind in (OPTION, OWN_DEFAULT):
        return f"`{value}` as the default in line {origin.place.row}"
    return f"`{origin.name}={value}`"


def _because(use: LoaderUse, origin: Origin, place: Place) -> list[str]:
    found = []
    if origin.kind == DEFAULT:
        found.append(f"`{origin.name}` is left at its default 0 here")
    elif origin.kind in (OPTION, OWN_DEFAULT):
        found.append(f"`{origin.name}` is 0 by the default in {origin.place.line(place.path)}")
    if use.iterations:
        found.append(f"the loader is gone over in {use.iterations[0].place.line(place.path)}")
    return found


def _imports(expression: str) -> tuple[str, ...]:
    """The modules whose names an expression uses."""
    modules = ("os", "torch", "multiprocessing", "psutil")
    return tuple(f"import {module}" for module in modules if re.search(rf"\b{module}\.", expression))

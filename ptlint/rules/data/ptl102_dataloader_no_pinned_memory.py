"""PTL102 dataloader-no-pinned-memory."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.edits import CannotEdit
from ptlint.edits.choices import choose
from ptlint.facts.events import Place
from ptlint.facts.loading import LoaderUse
from ptlint.facts.origins import DEFAULT, Origin
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class DataloaderNoPinnedMemory(Rule):
    """
    ## What it finds
    A `DataLoader` whose batches are copied to a GPU, with `pin_memory` absent, or False by the default of a project
    function's parameter. Loaders that Accelerate or Lightning are given, and that a loop uses, count: these copy the
    batches. A literal False, or an option that exists and is off, is somebody's choice: shown with `--preview` only.

    ## Why it is slow
    A copy from pageable memory is staged through a pinned buffer of the driver, and the host waits for it. From pinned
    memory the GPU fetches the batch itself, while the host goes on.

    ## When it stays silent
    - Nothing of the loader reaches CUDA: the code runs on a CPU, on MPS or XLA only, or the batches stay on the host.
    - The items are on the device already, which cannot be pinned.
    - The loop waits for a person, or takes a batch only now and then.
    - The loader is one of Hugging Face's Trainer, which pins.
    - `pin_memory` comes from a value that cannot be read.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
    ```

    ## Fix safety
    Safe: the batches hold the same values. `pin_memory=True` is written where the device is literally CUDA and only
    one program uses the file, else `torch.cuda.is_available()`: True on a machine without CUDA warns at every epoch.
    Pinned memory cannot be swapped out: with little memory for many processes, leave it. Unsafe where somebody chose
    False.

    ## How it is measured
    Copies of image batches to the device, from pageable and from pinned memory, beside a training step.

    ## References
    - https://pytorch.org/docs/stable/data.html#memory-pinning
    - https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    """

    code = "PTL102"
    name = "dataloader-no-pinned-memory"
    message = "batches of this `DataLoader` are copied to the GPU from pageable memory, which the host waits for"
    impact = Impact.MEDIUM
    roots = ("DataLoader",)
    fixable = "both"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated:
            return
        for use in program.loading:
            if use.pins is not False or not use.feeds_accelerator:
                continue
            origin = use.origin("pin_memory")
            value = "True" if use.literal_cuda else "torch.cuda.is_available()"
            place = use.place(origin)
            fix, withheld = self._fix(use, origin, value)
            yield self.finding(
                place,
                preview=not use.would_pin,
                advice=f"`{origin.name}={value}`",
                fix=fix,
                withheld=withheld,
                because=_because(use, origin, place),
            )

    @staticmethod
    def _fix(use: LoaderUse, origin: Origin, value: str) -> tuple[Fix | None, str]:
        try:
            edits = choose(origin, value, use.place(origin))
        except CannotEdit as error:
            return None, error.reason
        imports = ("import torch",) if value.startswith("torch.") else ()
        safety = Safety.UNSAFE if use.is_choice("pin_memory") or not use.would_pin else Safety.SAFE
        return Fix("Pin the batches' memory", safety, edits, imports), ""


def _because(use: LoaderUse, origin: Origin, place: Place) -> list[str]:
    found = []
    if origin.kind == DEFAULT:
        found.append(f"`{origin.name}` is left at its default False here")
    if use.moves:
        move = use.moves[0].place
        found.append(f"`{move.brief}` in {move.line(place.path)} copies its batches")
    elif use.managed:
        found.append("the framework that is given the loader copies its batches")
    return found

"""PTL106 device-work-in-dataset."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts import items
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class DeviceWorkInDataset(Rule):
    """
    ## What it finds
    `.cuda()`, `.to(device)` or `device="cuda"` in the `__getitem__` or `__iter__` of a dataset or in a `collate_fn`,
    where the device is an accelerator.

    ## Why it is slow
    Items go to the GPU one by one, each with a copy that the host waits for, and nothing is prepared while the GPU
    works. Workers cannot take over: each would need a CUDA context of its own, and forked ones raise.

    ## When it stays silent
    - The device is the CPU or not known, or the code stands in a branch that an option has to switch on.
    - The data were put on the device once, in `__init__`, and are only indexed.

    ## Example
    ```python
    class OnDevice(Dataset):
        def __getitem__(self, index):
            return torch.load(f"{index}.pt").cuda()
    ```

    Use instead:
    ```python
    class OnHost(Dataset):
        def __getitem__(self, index):
            return torch.load(f"{index}.pt")
    ```

    ## Fix safety
    No fix: the batch has to be moved in each loop that goes over the loader.

    ## How it is measured
    An epoch of a loader that moves items, and of one whose pinned batches the loop moves.

    ## References
    - https://pytorch.org/docs/stable/data.html#multi-process-data-loading
    """

    code = "PTL106"
    name = "device-work-in-dataset"
    message = "items go to the accelerator while they are made, and workers cannot make them"
    impact = Impact.HIGH
    roots = (("__getitem__|__iter__|collate_fn",),)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated:
            return
        seen: set[tuple[str, int]] = set()
        for event, function in sorted(items.device_work(program), key=lambda found: found[0].place.start):
            key = (function, id(event.place.tree))
            if key not in seen:
                seen.add(key)
                yield self.finding(
                    event.place,
                    advice="leave items on the CPU, and move the batch in the loop, with `non_blocking=True`",
                    because=[f"it is done in `{function}`"],
                )

"""PTL108 slow-per-item-setup."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts import items
from ptlint.facts.events import Call
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

SETUP = {
    "torchvision.transforms.Compose": "transforms",
    "torchvision.transforms.v2.Compose": "transforms",
    "albumentations.Compose": "transforms",
    "os.listdir": "a list of files",
    "os.scandir": "a list of files",
    "glob.glob": "a list of files",
    "glob.iglob": "a list of files",
}


class SlowPerItemSetup(Rule):
    """
    ## What it finds
    In the `__getitem__` of a dataset, or a function that it calls: transforms composed, a tokenizer or model loaded, or
    a folder listed, which does not depend on the item.

    ## Why it is slow
    It is done again for every item of every epoch. A folder of some thousand files takes a millisecond to list on a
    local disk, and far more on a network's; a tokenizer or a model takes seconds.

    ## When it stays silent
    - It depends on the item, on random numbers, or on anything that is not known.
    - It stands under a test, or its result is kept (`lru_cache`, an attribute).

    ## Example
    ```python
    class Tensors(Dataset):
        def __getitem__(self, index):
            return len(os.listdir("images")), torch.load(f"{index}.pt")
    ```

    Use instead:
    ```python
    class Tensors(Dataset):
        def __init__(self):
            self.names = os.listdir("images")

        def __getitem__(self, index):
            return len(self.names), torch.load(f"{index}.pt")
    ```

    ## Fix safety
    No fix: where it belongs depends on what else changes, a folder for instance.

    ## How it is measured
    Items a second, with the setup in `__getitem__` and in `__init__`.

    ## References
    - https://pytorch.org/tutorials/beginner/basics/data_tutorial.html
    """

    code = "PTL108"
    name = "slow-per-item-setup"
    message = "this is built anew for every item, though it is always the same"
    impact = Impact.MEDIUM
    roots = (("__getitem__",),)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for call in program.events(Call):
            what = _what(call)
            if what and items.repeated(program, call) is not None:
                yield self.finding(call.place, message=f"{what} built anew for every item, and always the same",
                                   advice="build it once, in `__init__`")  # fmt: skip


def _what(call: Call) -> str:
    """What a call sets up, as the beginning of a sentence; nothing where it is cheap or not known."""
    if call.name in SETUP:
        return f"{SETUP[call.name]} {'is' if SETUP[call.name].startswith('a ') else 'are'}"
    if call.name.startswith("transformers.") and call.name.endswith(".from_pretrained"):
        return "a tokenizer or model is"
    return "a model is" if call.name.startswith("torchvision.models.") and call.name.count(".") == 2 else ""

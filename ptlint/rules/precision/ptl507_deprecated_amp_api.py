"""PTL507 deprecated-amp-api."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptlint.edits import CannotEdit
from ptlint.edits.legacy_amp import modernise
from ptlint.facts.events import Call, Place
from ptlint.facts.fallbacks import is_fallback
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

_LEGACY = re.compile(r"torch\.(cuda|cpu)\.amp\.(autocast|GradScaler|custom_fwd|custom_bwd)\Z")
_MODERN = re.compile(r"torch\.amp\.(autocast|GradScaler|custom_)|torch\.autocast")


class DeprecatedAmpApi(Rule):
    """
    ## What it finds
    A use of `torch.cuda.amp.autocast`, `GradScaler`, `custom_fwd` or `custom_bwd`, or of their like in
    `torch.cpu.amp`, which PyTorch deprecated in 2.4 for those of `torch.amp`. The finding stands at the use, since that
    is what warns; the import does not.

    ## Why it is slow
    It is not: each use prints a `FutureWarning`, once for each place, and the names are to go. In a program that runs
    several processes the warning comes from each.

    ## When it stays silent
    - In a branch for older versions: an `except`, an arm of a test of the version or of `hasattr(torch, ...)`, an arm
      beside one that uses `torch.amp`.
    - Where the name is `torch.amp`'s on another path (`try: from torch.amp import GradScaler`).

    ## Example
    ```python
    scaler = torch.cuda.amp.GradScaler()
    with torch.cuda.amp.autocast(False):
        output = model(dataset[0][0])
    ```

    Use instead:
    ```python
    scaler = torch.amp.GradScaler("cuda")
    with torch.amp.autocast("cuda", dtype=torch.float16, enabled=False):
        output = model(dataset[0][0])
    ```

    ## Fix safety
    Safe: the same objects are made. The warning's own advice, to put `"cuda"` in front of the arguments, is wrong for
    positional ones: the old order is `enabled, dtype, cache_enabled`, the new one `device_type, dtype, enabled,
    cache_enabled`, so the fix names them. It also writes `dtype=torch.float16`, because the new autocast takes over the
    dtype of one around it, which the old one did not. Unsafe where the program tells scalers by
    `isinstance(..., GradScaler)`: the new class is the base of the old one. Withheld where the project works with a
    PyTorch that lacks the new name (`GradScaler` came with 2.3, `custom_fwd` with 2.4), in TorchScript, and where
    `**kwargs` may hold the dtype.

    ## How it is measured
    It costs no time; the warning is what goes away.

    ## References
    - https://pytorch.org/docs/stable/amp.html
    """

    code = "PTL507"
    name = "deprecated-amp-api"
    message = "this part of `torch.cuda.amp` and `torch.cpu.amp` is deprecated since PyTorch 2.4"
    impact = Impact.LOW
    roots = ("autocast", "GradScaler", "custom_fwd", "custom_bwd", "amp")
    fixable = "both"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        names: dict[tuple[str, int], set[str]] = {}
        places: dict[tuple[str, int], Place] = {}
        for event in program.events(Call):
            if ".amp." in event.name:
                places.setdefault(event.place.key, event.place)
                names.setdefault(event.place.key, set()).add(event.name)
        for key, place in places.items():
            found = {_LEGACY.match(name) for name in names[key]}
            if None in found or is_fallback(place, _MODERN):
                continue
            device, name = next((match[1], match[2]) for match in found if match is not None)
            fix, withheld = self._fix(program, place, name, device)
            yield self.finding(
                place,
                message=f"`torch.{device}.amp.{name}` is deprecated since PyTorch 2.4: each use warns",
                advice=_advice(name, device),
                fix=fix,
                withheld=withheld,
            )

    @staticmethod
    def _fix(program: ProgramFacts, place: Place, name: str, device: str) -> tuple[Fix | None, str]:
        if any(dotted.startswith(("torch.jit.script", "jit.script")) for dotted in program.dotted):
            return None, "the program compiles by `torch.jit.script`, which may read this"
        try:
            edits, imports = modernise(program, place, name, device)
        except CannotEdit as error:
            return None, error.reason
        tells = any(
            {"isinstance", "GradScaler"} <= statement.words
            for path in program.program.files
            for statement in program.project.file(path).outline.statements
        )
        safety = Safety.UNSAFE if name == "GradScaler" and tells else Safety.SAFE
        return Fix("Use `torch.amp`", safety, edits, imports), ""


def _advice(name: str, device: str) -> str:
    if name == "GradScaler":
        return f'`torch.amp.GradScaler("{device}", ...)`'
    if name == "autocast":
        dtype = "float16" if device == "cuda" else "bfloat16"
        return f'`torch.amp.autocast("{device}", dtype=torch.{dtype}, ...)` and name the other arguments'
    return f'`torch.amp.{name}(..., device_type="{device}")`'

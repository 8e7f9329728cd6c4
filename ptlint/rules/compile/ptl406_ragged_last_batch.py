"""PTL406 ragged-last-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import set_keyword
from ptlint.facts.events import Forward
from ptlint.facts.values import Const, Loader, Module, options
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.events import Ctx
    from ptlint.facts.program import ProgramFacts

_RECORDING = frozenset({"reduce-overhead", "max-autotune"})


class RaggedLastBatch(Rule):
    """
    ## What it finds
    A model compiled with `mode="reduce-overhead"` or `"max-autotune"` that a training loop feeds from a loader whose
    last batch may be smaller, since it has no `drop_last=True`.

    ## Why it is slow
    Those modes record a CUDA graph for each size that they meet. An epoch's last batch compiles the model once more,
    for sizes that vary, and records a graph of its own, with memory of its own.

    ## When it stays silent
    - `drop_last` is set, or not known; the loader has a batch sampler.
    - Other modes, which compile twice at most.

    ## Example
    ```python
    fast = torch.compile(model, mode="reduce-overhead")
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(fast(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    fast = torch.compile(model, mode="reduce-overhead")
    for images, labels in DataLoader(dataset, batch_size=64, drop_last=True):
        optimizer.zero_grad()
        criterion(fast(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: in each epoch up to a batch of samples is left out (others each time where the loader shuffles).

    ## How it is measured
    Time of the first two epochs, and peak memory, with and without the last batch.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """

    code = "PTL406"
    name = "ragged-last-batch"
    message = "the smaller last batch makes the compiled model record another CUDA graph"
    impact = Impact.LOW
    preview = True
    torch = ">=2.0"
    fixable = "unsafe"
    roots = ("reduce-overhead", "max-autotune")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        made = {id(loader): event for loader, event in program.loaders}
        for loop in program.training_loops:
            if program.managed(loop) or program.off_path(loop) or not _records(program, loop):
                continue
            for loader in program.gone_over(loop):
                call = loader.call if isinstance(loader, Loader) else None
                event = made.get(id(loader))
                if call is None or event is None or not isinstance(event.place.node, cst.Call):
                    continue
                if any(call.state(name) != "absent" for name in ("drop_last", "batch_sampler")):
                    continue
                edits = set_keyword(event.place.tree, event.place.node, "drop_last", "True")
                yield self.finding(
                    event.place,
                    advice="`drop_last=True`",
                    fix=Fix("Leave the smaller last batch out", Safety.UNSAFE, edits),
                )


def _records(program: ProgramFacts, loop: Ctx) -> bool:
    """Whether a loop calls a model that is compiled in a mode that records CUDA graphs."""
    in_place = {
        id(option)
        for call in program.calls("torch.nn.Module.compile")
        if call.receiver is not None and _mode(call.args.get("mode")) in _RECORDING
        for option in options(call.receiver)
    }
    for event in program.roles.under(loop):
        for option in options(event.module) if isinstance(event, Forward) else ():
            if not isinstance(option, Module):
                continue
            if id(option) in in_place or id(option.core) in in_place:
                return True
            if option.wrapper == "compile" and option.place is not None:
                calls = [c for c in program.calls_at(option.place.node) if c.name == "torch.compile"]
                if any(_mode(call.args.get("mode")) in _RECORDING for call in calls):
                    return True
    return False


def _mode(value: object) -> str:
    return value.value if isinstance(value, Const) and not value.soft and isinstance(value.value, str) else ""

"""PTL304 forward-called-directly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, rename_call
from ptlint.facts.events import Forward
from ptlint.facts.values import Module, options
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.events import Place
    from ptlint.facts.program import ProgramFacts

_WRAPPERS = {
    "compile": "the compiled code",
    "ddp": "DistributedDataParallel's preparation of the backward pass",
    "fsdp": "FSDP's gathering of the weights",
}
_HOOKS = frozenset({"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"})


class ForwardCalledDirectly(Rule):
    """
    ## What it finds
    `model.forward(x)` on a module that the program compiles in place, wraps in DistributedDataParallel or FSDP, or puts
    hooks on.

    ## Why it is slow
    Only a call of the module, `model(x)`, runs what is around `forward`: the code that `model.compile()` made, hooks,
    the synchronisation of a wrapper. `forward` goes past it: the model runs in eager mode, gradients of the processes
    drift apart, hooks do not run.

    ## When it stays silent
    - `super().forward(x)`, a submodule's or a plain module's `forward`, where nothing is skipped.
    - The object is not known to be a module (an OpenCV network).

    ## Example
    ```python
    model.compile()
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model.forward(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    model.compile()
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: what was skipped runs now, which is the point: compiled kernels round otherwise, hooks have effects.

    ## How it is measured
    Calls of a compiled model and of its `forward`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.forward
    """

    code = "PTL304"
    name = "forward-called-directly"
    message = "`forward` is called directly, which skips what a call of the module runs around it"
    impact = Impact.MEDIUM
    fixable = "unsafe"
    roots = ("forward",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        compiled = _receivers(program, {"compile"})
        hooked = _receivers(program, _HOOKS)
        for event in program.events(Forward):
            if event.method != "forward" or _is_super(event.place):
                continue
            skipped = {_skipped(option, compiled, hooked) for option in options(event.module)}
            if len(skipped) != 1 or not (what := skipped.pop()):
                continue
            fix, withheld = None, ""
            try:
                fix = _fix(event.place)
            except CannotEdit as refusal:
                withheld = refusal.reason
            yield self.finding(
                event.place,
                message=f"`forward` is called directly, which skips {what}",
                advice="call the module: `model(x)`",
                fix=fix,
                withheld=withheld,
            )


def _receivers(program: ProgramFacts, methods: set[str] | frozenset[str]) -> set[int]:
    """The modules on which a method was called."""
    calls = program.calls(*(f"torch.nn.Module.{name}" for name in methods))
    return {id(option) for call in calls if call.receiver is not None for option in options(call.receiver)}


def _skipped(value: object, compiled: set[int], hooked: set[int]) -> str:
    if not isinstance(value, Module):
        return ""
    if value.wrapper in _WRAPPERS and value.wrapper != "compile":
        return _WRAPPERS[value.wrapper]
    if id(value) in compiled:
        return _WRAPPERS["compile"]
    return "its hooks" if id(value) in hooked else ""


def _is_super(place: Place) -> bool:
    func = place.node.func if isinstance(place.node, cst.Call) else None
    value = func.value if isinstance(func, cst.Attribute) else None
    return isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "super"


def _fix(place: Place) -> Fix:
    node = place.node
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        raise CannotEdit("no name stands for the module here")
    return Fix("Call the module", Safety.UNSAFE, rename_call(place.tree, node, place.tree.code(node.func.value)))

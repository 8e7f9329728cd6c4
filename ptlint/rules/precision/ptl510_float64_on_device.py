"""PTL510 float64-on-device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Call, Forward, Move
from ptlint.facts.models import parts
from ptlint.facts.values import DEVICE, HOST, Device, Lib, Module, Tensor, options
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_DOUBLE = frozenset({"float64", "double"})
_SINGLE = frozenset({"float", "half", "bfloat16"})
_SCIENCE = frozenset("gpytorch botorch ase e3nn mace pyscf openmm torchani torchdiffeq torchsde scipy pyro".split())


class Float64OnDevice(Rule):
    """
    ## What it finds
    A model that is cast to float64 (`model.double()`, `model.to(torch.float64)`) and run on a GPU in each iteration,
    and a float64 tensor that is copied to the device in each iteration and only cast to float32 there.

    ## Why it is slow
    Most GPUs run float64 at a thirty-second or sixty-fourth of the speed of float32, and none has tensor cores for it
    outside of data centres; the tensors take twice the memory. The copy moves twice the bytes that are needed.

    ## When it stays silent
    - float64 is the default that the program sets, or it differentiates twice: it computes, rather than learns.
    - Libraries of physics, chemistry, Gaussian processes or differential equations are imported.
    - Metrics, counts and rewards: what is no input and no parameter of a model.
    - The model stays on the host, or the dtype is not known.

    ## Example
    ```python
    model = model.double()
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(images.double().to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    ## Fix safety
    There is no fix: whether the exactness is needed, only the author knows.

    ## How it is measured
    Training steps of a small net in float64 and in float32.

    ## References
    - https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#arithmetic-instructions
    """

    code = "PTL510"
    name = "float64-on-device"
    message = "this model runs in float64, for which the GPU has few units"
    impact = Impact.HIGH
    roots = ("double", "float64")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated or program.packages & _SCIENCE or program.used_models.differentiates_twice():
            return
        if program.words & {"set_default_dtype", "set_default_tensor_type", "gradcheck"}:
            return
        hot = {
            id(part)
            for event in program.events(Forward)
            if event.outer and program.hot(event) is not None
            for option in options(event.module)
            if isinstance(option, Module) and DEVICE in (option.where, option.core.where)
            for part in parts(option)
        }
        for call in program.calls("torch.nn.Module.double", "torch.nn.Module.to"):
            receivers = (
                [o for o in options(call.receiver) if isinstance(o, Module)] if call.receiver is not None else []
            )
            if any(id(module.core) in hot for module in receivers) and _asks_for_double(call):
                if not any(up.kind == "guard" for up in call.ctx.up()):
                    yield self.finding(call.place, advice="leave the model in float32")
        for move in program.events(Move):
            if program.hot(move) is not None and _is_cast_behind(move):
                yield self.finding(
                    move.place,
                    message="this copies float64 to the device, which is cast only there",
                    advice="cast before the copy: `x.float().to(device)`",
                    impact=Impact.MEDIUM,
                )


def _asks_for_double(call: Call) -> bool:
    if call.name.endswith(".double"):
        return True
    given = [*call.args.bound.values(), *call.args.extra]
    return any(
        isinstance(option, Lib) and option.name in ("torch.float64", "torch.double")
        for value in given
        for option in options(value)
    )


def _is_cast_behind(move: Move) -> bool:
    """Whether a float64 tensor of the host goes to the device and becomes float32 right behind."""
    known = all(
        isinstance(option, Tensor) and option.dtype in _DOUBLE and option.where == HOST
        for option in options(move.value)
    )
    if not known or not any(isinstance(o, Device) and o.where == DEVICE for o in options(move.target)):
        return False
    attribute = move.place.tree.parent(move.place.node)
    return isinstance(attribute, cst.Attribute) and attribute.attr.value in _SINGLE

"""The optimizers of a program that have a fused form, and where the parameters are over which they were made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptlint.facts import models
from ptlint.facts.values import (
    DEVICE,
    HOST,
    UNSURE,
    Const,
    Items,
    Lib,
    Mapping,
    Module,
    Optimizer,
    Params,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    options,
)

if TYPE_CHECKING:
    from ptlint.facts.events import Construct
    from ptlint.facts.program import ProgramFacts
    from ptlint.torch_version import Version

FUSED_SINCE: dict[str, tuple[Version, Version]] = {
    "torch.optim.Adam": ((2, 0), (2, 4)),
    "torch.optim.AdamW": ((2, 0), (2, 4)),
    "torch.optim.SGD": ((2, 3), (2, 4)),
    "torch.optim.Adagrad": ((2, 9), (2, 4)),
}
"""The releases that brought the fused form of an optimizer: on CUDA, on a CPU."""

_CHOICES = ("fused", "foreach", "capturable", "differentiable")
_OWNERS = frozenset("deepspeed composer fastai colossalai".split())
"""Packages that replace the optimizer or own its step wherever they are imported."""
_FEW = 2
"""Up to so many tensors there is nothing to fuse."""
_MAX_VISITED = 256

_PARAMETERS_OF = {models.LINEAR: 2, models.CONV: 2, models.NORM: 2, models.EMBEDDING: 1, models.PARAMETER: 1}


def whereabouts(params: Value) -> frozenset[str]:
    """Where the parameters are that an optimizer is given, "" for those of which that is not known.

    What was moved to a device chosen in a way that cannot be read counts as `UNSURE`.
    """
    return frozenset(where for value in _held(params) for where in _whereabouts(value))


def _whereabouts(value: Value) -> Iterator[str]:
    if isinstance(value, Params):
        for module in value.modules:
            wheres = {part.where for part in models.parts(module)} | {module.where}
            if DEVICE in wheres:
                yield DEVICE
            elif wheres == {HOST}:
                yield HOST if module.core.cls is not None else ""  # a module known by its use may be anywhere
            else:
                yield UNSURE
    elif isinstance(value, (Tensor, Unknown)):
        yield value.where if value.where == DEVICE else ""


def _held(params: Value) -> Iterator[Value]:
    """The parameters in a list, a list of groups, a generator."""
    stack = [params]
    seen: set[int] = set()
    while stack and len(seen) < _MAX_VISITED:
        for option in options(stack.pop()):
            if id(option) in seen:
                continue
            seen.add(id(option))
            if isinstance(option, Sequence):
                stack.extend(option.items or ())
                stack.extend([option.item] if option.item is not None else ())
            elif isinstance(option, Tuple):
                stack.extend(option.items)
            elif isinstance(option, Items):
                stack.append(option.item)
            elif isinstance(option, Mapping):
                stack.extend([option.entries["params"]] if "params" in option.entries else ())
            else:
                yield option


@dataclass(frozen=True)
class PlainOptimizer:
    """An optimizer that has a fused form, of which nothing was chosen. `on_device`: its parameters are on a GPU."""

    event: Construct
    optimizer: Optimizer
    name: str
    on_device: bool

    def fused_since(self) -> Version:
        """The release that brought the fused form for where its parameters are."""
        return FUSED_SINCE[self.name][0 if self.on_device else 1]


def plain_optimizers(program: ProgramFacts) -> Iterator[PlainOptimizer]:
    """The optimizers of a program that could be fused, over parameters that are where they stay."""
    if program.packages & _OWNERS:
        return
    for event in program.made(Optimizer):
        optimizer = event.value
        assert isinstance(optimizer, Optimizer)
        name = _fusible(program, event, optimizer)
        if name is None or program.off_path(event.ctx) or _few(program, optimizer) or _sparse(program, optimizer):
            continue
        over = optimizer.made_over or frozenset()
        if program.accelerated:
            if over & {DEVICE, UNSURE}:
                yield PlainOptimizer(event, optimizer, name, True)
        elif over == {HOST}:
            yield PlainOptimizer(event, optimizer, name, False)


def _fusible(program: ProgramFacts, event: Construct, optimizer: Optimizer) -> str | None:
    """The class of an optimizer that has a fused form, of which nothing was chosen."""
    if not isinstance(optimizer.cls, Lib) or optimizer.cls.name not in FUSED_SINCE or optimizer.call is None:
        return None
    if any(optimizer.call.state(choice) != "absent" for choice in _CHOICES):
        return None
    # One call may make several: `getattr(torch.optim, name)(...)`.
    made = {call.name for call in program.calls_at(event.place.node)}
    return optimizer.cls.name if all(name in FUSED_SINCE for name in made) else None


def _few(program: ProgramFacts, optimizer: Optimizer) -> bool:
    """Whether it is known to train too few tensors for fusing to pay."""
    count = 0
    params = optimizer.call.get("params") if optimizer.call is not None else Unknown()
    for option in options(params):
        if not isinstance(option, (Params, Tensor)) and not (isinstance(option, Sequence) and option.items is not None):
            return False  # a comprehension, or a list filled in a loop
    for value in _held(params):
        if isinstance(value, (Tensor, Unknown)):
            count += 1
        elif isinstance(value, Params) and not value.single:
            for module in value.modules:
                found = _tensors_of(program, module)
                if found is None:
                    return False
                count += found
        else:
            return False
        if count > _FEW:
            return False
    return count > 0


def _tensors_of(program: ProgramFacts, module: Module) -> int | None:
    """How many parameters a module has, None where that is not known."""
    makeup = program.makeup(module)
    counts = [_PARAMETERS_OF.get(layer.kind, 0 if layer.kind in models.LIGHT else None) for layer in makeup.layers]
    known = [count for count in counts if count is not None]
    return sum(known) if makeup.complete and len(known) == len(counts) else None


def _sparse(program: ProgramFacts, optimizer: Optimizer) -> bool:
    """Whether the gradients of an embedding are sparse, or may be."""
    for module in optimizer.modules:
        for layer in program.makeup(module).of(models.EMBEDDING):
            call = layer.module.call if layer.module is not None else None
            sparse = call.get("sparse", Const(False)) if call is not None else Const(False)
            if (call is not None and call.open) or any(not isinstance(o, Const) or o.value for o in options(sparse)):
                return True
    return False

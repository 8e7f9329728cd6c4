"""Settings that let a GPU run a loop faster: TF32, and cuDNN's own measurements (CATALOGUE.md, PTL508 and PTL509)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.models import ATTENTION, CONV, LINEAR, MODEL
from ptlint.facts.precision import FEW_STEPS, steps
from ptlint.facts.values import DEVICE, Const, Module, options

if TYPE_CHECKING:
    from ptlint.facts.events import Ctx
    from ptlint.facts.models import Layer, Makeup
    from ptlint.facts.program import ProgramFacts

_CROPS = frozenset({"RandomCrop", "CenterCrop", "RandomResizedCrop", "RandomSizedCrop"})
_SAME_SIZE = frozenset({"MNIST", "FashionMNIST", "KMNIST", "EMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10"})
_VARYING = frozenset({"multi_scale", "multiscale", "RandomShortestSize", "ScaleJitter", "pad_sequence"})

_TF32 = frozenset({"set_float32_matmul_precision", "allow_tf32", "fp32_precision"})
LARGE = 1024
"""From this width on a linear layer's products are large enough for tensor cores to matter."""


def fixed_size(program: ProgramFacts) -> bool:
    """Whether a crop or a well-known data set gives all images one size, and nothing speaks of several."""
    return bool(program.words & (_CROPS | _SAME_SIZE)) and not program.words & _VARYING


def outermost(loop: Ctx) -> cst.CSTNode:
    """The outermost of the loops around a loop, itself included, in the same function."""
    assert loop.place is not None
    node = loop.place.node
    for up in loop.up():
        if up.kind in ("frame", "module"):
            break
        if up.kind == "loop" and up.place is not None and up.place.tree is loop.place.tree:
            node = up.place.node
    return node


def without_tf32(program: ProgramFacts) -> Ctx | None:
    """The first evaluation loop whose matrix products run in full float32, in a program that only evaluates.

    A program that trains has mixed precision as the better answer (PTL501), or has chosen its precision.
    """
    precision = program.precision
    if not program.accelerated or program.words & _TF32 or program.training_loops or precision.double:
        return None
    if precision.chosen or precision.sparse or "backward" in program.words:
        return None
    for loop in program.evaluation_loops:
        if loop.place is None or program.managed(loop) or program.off_path(loop) or steps(loop) <= FEW_STEPS:
            continue
        modules = list(precision.modules(loop))
        on_device = all(DEVICE in (module.where, module.core.where) for module in modules)
        if modules and on_device and all(_multiplies(program.makeup(module)) for module in modules):
            return loop
    return None


def _multiplies(makeup: Makeup) -> bool:
    """Whether large matrix products are known to do a model's work; convolutions use TF32 by default."""
    if not makeup.complete or CONV in makeup.kinds or MODEL in makeup.kinds:
        return False
    return any(_width(layer) >= LARGE for layer in makeup.body if layer.kind in (LINEAR, ATTENTION))


def _width(layer: Layer) -> int:
    """How wide a layer is; 0 where that is not known. A stack of layers is as wide as the layer that it was given."""
    call = layer.module.call if layer.module is not None else None
    if layer.widths or call is None:
        return layer.width or 0
    given = [option.call for value in call.bound.values() for option in options(value) if isinstance(option, Module)]
    sizes = [
        o.value for inner in given if inner is not None for o in options(inner.get("d_model")) if isinstance(o, Const)
    ]
    return max((size for size in sizes if isinstance(size, int)), default=0)


__all__ = ["fixed_size", "outermost", "without_tf32"]

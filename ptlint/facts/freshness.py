"""Tensors and arrays that hold no data: what a factory made, through casts, views and arithmetic with numbers.

They could as well be made where they are used. `Tensor.made` and `Array.made` name the call that made them; a factory
whose result data was written into, under whatever name, is kept in `Run.filled`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ptlint.facts.events import Place
from ptlint.facts.run import Run
from ptlint.facts.torch_api import Api
from ptlint.facts.values import (
    HOST,
    UNKNOWN,
    Array,
    Const,
    Device,
    Lib,
    Num,
    Sequence,
    Tensor,
    Tuple,
    Value,
    options,
)

FACTORIES = frozenset(
    f"torch.{name}"
    for name in (
        "zeros ones empty full arange linspace logspace eye rand randn randint randperm normal tensor as_tensor "
        "scalar_tensor hann_window hamming_window"
    ).split()
)
_TAKES_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.scalar_tensor"})
_ARRAY_FACTORIES = frozenset("zeros ones empty full eye identity arange linspace".split())
_ARRAY_DRAWS = frozenset("rand randn normal uniform randint random random_sample standard_normal".split())
_SHAPES = frozenset(
    "view reshape expand repeat unsqueeze squeeze transpose permute t flatten contiguous tril triu narrow fill_ to "
    "type masked_fill repeat_interleave tile expand_as view_as movedim".split()
)
"""Methods and functions whose other arguments are sizes and numbers, also where those cannot be read."""
_PLAIN = (Const, Num, Lib, Device)


def is_legacy_constructor(name: str) -> bool:
    """`torch.FloatTensor(2, 3)` and its like, also of CUDA."""
    return name.startswith("torch.") and name.endswith("Tensor") and name.count(".") <= 2


def is_fresh(api: Api, positional: list[Value], data: Value) -> bool:
    """Whether what a factory makes of these arguments holds no data: zeros, random numbers, constants."""
    if is_legacy_constructor(api.qualname):
        if len(positional) == 1 and not isinstance(positional[0], (Const, Num)):
            return is_constant(positional[0]) or _is_size(positional[0])
        return bool(positional) and all(isinstance(o, (Const, Num)) or o == UNKNOWN for o in positional)
    if api.qualname in _TAKES_DATA:
        return is_constant(data)
    if api.of_data:
        return False
    return not any(isinstance(o, (Tensor, Array)) for value in positional for o in options(value)) or (
        api.qualname != "torch.normal"
    )


def is_constant(value: Value) -> bool:
    """A number, or a list of numbers that are written in the program."""
    if isinstance(value, Const):
        return isinstance(value.value, (int, float, bool))
    if isinstance(value, Tuple):
        return all(map(is_constant, value.items))
    if isinstance(value, Sequence) and value.items is not None:
        return bool(value.items) and all(map(is_constant, value.items))
    return False


def _is_size(value: Value) -> bool:
    return isinstance(value, Tuple) and all(isinstance(item, (Const, Num)) for item in value.items)


def array_factory(name: str) -> bool:
    """Whether a NumPy function makes an array from no data."""
    short = name.rpartition(".")[2]
    if name.startswith("numpy.random."):
        return short in _ARRAY_DRAWS
    return name == f"numpy.{short}" and short in _ARRAY_FACTORIES


def kept(result: Tensor, values: Iterable[Value], name: str = "") -> Tensor:
    """The result of an operation, fresh where all that went in is: one fresh tensor and numbers."""
    origin: Tensor | None = None
    for value in values:
        for option in options(value):
            if isinstance(option, Tensor):
                if not option.fresh or option.made is None or option.where != HOST:
                    return result
                if origin is not None and origin.made is not None and origin.made.node is not option.made.node:
                    return result
                origin = option
            elif not isinstance(option, _PLAIN) and not (option == UNKNOWN and name in _SHAPES):
                return result
    return result if origin is None else replace(result, fresh=True, made=origin.made)


def note_write(run: Run, target: Value, values: Iterable[Value]) -> None:
    """Something was written into a tensor or array in place; where that may be data, what made it makes no constant."""
    if all(_is_plain(option) for value in values for option in options(value)):
        return
    for option in options(target):
        if isinstance(option, (Tensor, Array)) and option.made is not None:
            run.filled.add(id(option.made.node))


def _is_plain(value: Value) -> bool:
    if isinstance(value, Tuple):
        return all(map(_is_plain, value.items))
    if isinstance(value, Num):
        return not value.reads and not value.counter
    return isinstance(value, (Const, Lib)) or (isinstance(value, Tensor) and value.fresh and value.made is not None)


def origin_of(run: Run, value: Value) -> Place | None:
    """The call that made a value from no data, where nothing else was ever written into what it made."""
    found: Place | None = None
    for option in options(value):
        made = option.made if isinstance(option, (Tensor, Array)) else None
        if made is None or id(made.node) in run.filled:
            return None
        if isinstance(option, Tensor) and not option.fresh:
            return None
        if found is not None and found.node is not made.node:
            return None
        found = made
    return found


__all__ = [
    "FACTORIES",
    "array_factory",
    "is_constant",
    "is_fresh",
    "is_legacy_constructor",
    "kept",
    "note_write",
    "origin_of",
]

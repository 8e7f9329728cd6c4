"""NumPy arrays and h5py data sets: which calls make one, of which type, and what is left of it by an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptlint.facts.arguments import Arguments
from ptlint.facts.freshness import array_factory
from ptlint.facts.values import NONE, Array, Const, Items, Lib, Num, Sequence, Tuple, Value, options

if TYPE_CHECKING:
    from ptlint.facts.events import Event, Place

_MAKERS = frozenset(
    {"array", "asarray", "asanyarray", "ascontiguousarray", "copy", "load", "loadtxt", "genfromtxt", "fromfile"}
    | {"frombuffer", "memmap", "zeros", "ones", "empty", "full", "eye", "identity", "arange", "linspace", "logspace"}
    | {"zeros_like", "ones_like", "empty_like", "full_like", "concatenate", "stack", "vstack", "hstack", "dstack"}
    | {"column_stack", "expand_dims", "tile", "repeat", "pad", "flip", "fliplr", "flipud", "rot90", "roll", "moveaxis"}
    | {"swapaxes", "transpose", "reshape", "ravel", "broadcast_to", "append", "sort", "argsort", "cumsum", "cumprod"}
    | {"diff", "bincount", "histogram", "outer", "unique", "nonzero", "argwhere", "meshgrid", "array_split", "split"}
)
"""NumPy functions that give arrays whatever they are given."""

_FLOAT64 = frozenset({"zeros", "ones", "empty", "eye", "identity", "linspace", "logspace"})
"""Those of them whose type without `dtype=` is float64."""

_SIZES = {"rand": 0, "randn": 0, "random": 0, "random_sample": 0, "normal": 2, "uniform": 2, "randint": 2, "choice": 1}
"""Where `numpy.random` functions take a size, without which they give a number."""

_KEEPERS = frozenset(
    {"astype", "byteswap", "clip", "copy", "cumprod", "cumsum", "flatten", "ravel", "repeat", "reshape", "resize"}
    | {"round", "sort", "swapaxes", "transpose", "view"}
)
"""Methods of an array that give an array."""


def called(name: str, args: Arguments, reads: frozenset[Event], place: Place | None = None) -> Array:
    """What a NumPy function gives that is known to give no plain number."""
    of_arrays = any(isinstance(option, Array) for value in args.all() for option in options(value))
    made = place if array_factory(name) and not of_arrays else None
    short = name.rpartition(".")[2]
    if name.startswith("numpy.random."):
        position = _SIZES.get(short)
        solid = args.has("size", position) or (short in ("permutation", "multinomial", "dirichlet"))
        return Array(
            "float64" if short in ("rand", "randn", "normal", "uniform", "random") else None,
            reads=reads,
            solid=solid,
            made=made,
        )
    dtype = dtype_of(args.get("dtype", None, NONE))
    if dtype is None and short in _FLOAT64:
        dtype = "float64"
    if name in ("numpy.float32", "numpy.float64", "numpy.int64", "numpy.int32"):
        dtype = short
    return Array(dtype, reads=reads, solid=name == f"numpy.{short}" and short in _MAKERS, made=made)


def method(receiver: Array, name: str, args: Arguments) -> Array:
    """What a method of an array gives that gives no plain number."""
    if name == "astype":
        dtype = dtype_of(args.get("dtype", 0, NONE))
        return Array(dtype, receiver.source, receiver.reads, receiver.solid, receiver.made)
    keeps = receiver.solid and name in _KEEPERS
    made = receiver.made if name in ("reshape", "copy", "view", "ravel", "flatten", "transpose") else None
    return Array(receiver.dtype, receiver.source, receiver.reads, keeps, made)


def item(base: Array, index: Value) -> Array:
    """`base[index]`: a row or a number by one index, an array by slices; of an h5py data set an array that was read."""
    keeps = all(_keeps(option) for option in options(index))
    if base.source != "numpy":
        if isinstance(index, Const) and isinstance(index.value, str):  # a group's member
            return base
        return Array(base.dtype, "numpy", base.reads, keeps)
    return Array(base.dtype, base.source, base.reads, base.solid and keeps)


def dtype_of(value: Value) -> str | None:
    """The type that `np.float32`, `"float32"` or `float` names."""
    if isinstance(value, Lib) and value.name.startswith("numpy."):
        return value.name.rpartition(".")[2]
    if isinstance(value, Lib):
        return {"builtins.float": "float64", "builtins.bool": "bool"}.get(value.name)
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def _keeps(index: Value) -> bool:
    """Whether an index leaves (or makes) a dimension."""
    if isinstance(index, Tuple):
        return not index.items or any(_keeps(part) for part in index.items)
    if isinstance(index, Num):
        return index.type == "slice"
    if isinstance(index, Const):
        return index.value is None or index.value is ...
    return isinstance(index, (Array, Sequence))


@dataclass(frozen=True, slots=True)
class Listed:
    """A list whose items are all arrays. `filled`: there is one for certain; `dtype`: the type of all, when known."""

    filled: bool
    dtype: str | None


def listed(value: Value) -> Listed | None:
    """What is known of a list of arrays; None for what is not known to be one."""
    found = [_listed(option) for option in options(value)]
    if not found or any(one is None for one in found):
        return None
    every = [one for one in found if one is not None]
    return Listed(all(one.filled for one in every), _same({one.dtype for one in every}))


def _listed(value: Value) -> Listed | None:
    filled = False
    if isinstance(value, Tuple):
        items, filled = list(value.items), bool(value.items)
    elif isinstance(value, Sequence):
        items, filled = [value.element()], bool(value.items)
    elif isinstance(value, Items) and value.kind == "list":
        items = [value.item]
    else:
        return None
    arrays = [option for item in items for option in options(item)]
    if not arrays or not all(isinstance(array, Array) and array.source == "numpy" and array.solid for array in arrays):
        return None
    return Listed(filled, _same({array.dtype for array in arrays if isinstance(array, Array)}))


def _same(dtypes: set[str | None]) -> str | None:
    return dtypes.pop() if len(dtypes) == 1 else None

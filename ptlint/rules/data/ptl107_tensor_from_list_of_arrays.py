"""PTL107 tensor-from-list-of-arrays."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.facts.arrays import Listed, listed
from ptlint.facts.events import Call
from ptlint.facts.program import ProgramFacts
from ptlint.facts.values import Array, Value, options
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.rule import Rule

KEEPS_TYPE = ("torch.tensor", "torch.as_tensor")
TYPED = tuple(
    f"{package}.{name}Tensor"
    for package in ("torch", "torch.cuda")
    for name in ("", "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
)


class TensorFromListOfArrays(Rule):
    """
    ## What it finds
    `torch.tensor(x)`, `torch.as_tensor(x)`, `torch.Tensor(x)`, `torch.FloatTensor(x)` and their like where `x` is a
    list, tuple or comprehension of NumPy arrays, or an h5py data set.

    ## Why it is slow
    PyTorch treats the list as nested Python sequences: it takes every number out of every array as a Python object and
    puts it into the tensor. NumPy joins the arrays by copying their memory.

    ## When it stays silent
    - The items are numbers, tensors, or not known to be arrays (an element of an array, the mean of one).
    - The list is joined already: `torch.tensor(np.array(x))`, `torch.from_numpy(np.stack(x))`.

    ## Example
    ```python
    frames = [np.zeros((84, 84), dtype=np.float32) for _ in range(64)]
    batch = torch.tensor(frames)
    ```

    Use instead:
    ```python
    frames = [np.zeros((84, 84), dtype=np.float32) for _ in range(64)]
    batch = torch.tensor(np.array(frames))
    ```

    ## Fix safety
    `np.array(x)` copies and keeps the type, so that the tensor is the same; `torch.from_numpy` would share memory. Safe
    where the constructor or `dtype=` says the type, and for lists known to hold at least one array and arrays of one
    type only; else unsafe, because an empty list becomes float64 instead of float32.

    ## How it is measured
    64 image arrays joined into one tensor, from the list and through `np.array`.

    ## References
    - https://github.com/pytorch/pytorch/issues/13918
    """

    code = "PTL107"
    name = "tensor-from-list-of-arrays"
    message = "the arrays in this list become a tensor number by number, each as a Python object"
    impact = Impact.HIGH
    roots = (("tensor|as_tensor|" + "|".join(sorted({name.rpartition(".")[2] for name in TYPED})),),)
    fixable = "both"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for call in program.calls(*KEEPS_TYPE, *TYPED):
            value, node = _data(call)
            if value is None:
                continue
            data_set = all(isinstance(option, Array) and option.source == "h5py" for option in options(value))
            arrays = listed(value)
            if arrays is None and not data_set:
                continue
            numpy = _numpy_name(call)
            yield self.finding(
                call.place,
                message="the data set becomes a tensor number by number, each as a Python object" if data_set else None,
                advice=f"`{numpy}.array(...)` around the argument",
                fix=_fix(call, node, arrays, numpy),
                withheld="" if node is not None else "the argument is not written at this call",
            )


def _data(call: Call) -> tuple[Value | None, cst.Arg | None]:
    """The data that a constructor is given, and its argument."""
    if "data" in call.args.bound:
        return call.args.bound["data"], call.args.nodes.get("data")
    if len(call.args.extra) != 1:
        return None, None
    args = call.place.node.args if isinstance(call.place.node, cst.Call) else ()
    return call.args.extra[0], args[0] if args and not args[0].star else None


def _fix(call: Call, node: cst.Arg | None, arrays: Listed | None, numpy: str) -> Fix | None:
    if node is None:
        return None
    start, end = call.place.tree.outer_span(node.value)
    typed = call.name in TYPED or call.args.state("dtype") == "set"
    same = arrays is None or (arrays.filled and arrays.dtype is not None)
    return Fix(
        "Join the arrays with NumPy first",
        Safety.SAFE if typed or same else Safety.UNSAFE,
        (Edit(start, start, f"{numpy}.array("), Edit(end, end, ")")),
        () if _imported_as(call) else ("import numpy as np",),
    )


def _numpy_name(call: Call) -> str:
    return _imported_as(call) or "np"


def _imported_as(call: Call) -> str | None:
    """The name that the file's own top-level import gives NumPy."""
    for item in call.place.file.outline.imports:
        if item.module == "numpy" and item.name is None and item.top:
            return item.asname or "numpy"
    return None

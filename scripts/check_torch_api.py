"""Run entries of the API table on the CPU and report each that does otherwise than its entry says.

    python scripts/check_torch_api.py [--verbose] [NAME ...]

Arguments are made up from the parameters' names; an entry is checked when some of them are accepted. Watched are the
kind of the result, its dtype and graph, whether the receiver was changed, whether the random generator moved, and
whether the host read a tensor: by a dispatch recorder on the CPU, and by the same call on fake CUDA tensors, which
raise where a value would be needed.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ptlint.facts import torch_api
from ptlint.facts.torch_api import Api, Overload, Param

SPACES = ("torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.nn.init")
# State of the process, other backends, or native code that trusts its arguments.
SKIPPED_PARTS = (
    "cudnn", "miopen", "mkldnn", "quantize", "fbgemm", "qr_", "set_", "get_", "seed", "compile", "fork", "wait",
    "import_", "parse_", "sym_", "autocast", "save", "load", "from_file", "batch_norm_", "native_", "dlpack",
    "resize", "deterministic", "while_loop", "storage", "names", "rename", "__set", "share_memory", "backward",
    "register", "module_load", "q_", "sparse", "vmap", "cond", "grouped_mm", "scaled_mm", "scaled_grouped", "hspmm",
    "sspaddmm", "smm", "__array", "__dlpack", "ctc_loss", "_copy", "crow_", "col_", "ccol_", "row_", "untyped", "pin_",
)  # fmt: skip
READS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal",
         "bincount", "_linalg_check_errors", "is_nonzero"}  # fmt: skip
# A check of values that only the CPU's kernel makes: the same call on fake CUDA tensors shows no read.
CPU_CHECKS = {"torch.nn.functional.one_hot"}
# The read is in the kernel itself, where no dispatch shows it.
HIDDEN_READS = {
    "torch.Tensor.tolist", "torch.Tensor.numpy", "torch.Tensor.cpu", "torch.lobpcg", "torch.linalg.pinv",
    "torch.pinverse", "torch.Tensor.pinverse", "torch.cholesky", "torch.Tensor.cholesky", "torch.svd",
    "torch.Tensor.svd", "torch.linalg.eig", "torch.linalg.eigh", "torch.linalg.eigvals", "torch.linalg.eigvalsh",
    "torch.linalg.svd", "torch.linalg.svdvals",
}  # fmt: skip
# They draw when training is set, which is not their default.
DRAWS_IN_TRAINING = {"torch.nn.functional.alpha_dropout", "torch.nn.functional.feature_alpha_dropout", "torch.rrelu",
                     "torch.rrelu_", "torch.nn.functional.rrelu", "torch.nn.functional.rrelu_"}  # fmt: skip
# They change what the receiver is to autograd, not its values.
CHANGES_NO_VALUE = {"torch.Tensor.detach_", "torch.detach_", "torch.Tensor.requires_grad_"}


@dataclass
class Outcome:
    """What running one entry showed."""

    overload: Overload
    first: object
    result: object
    changed: bool
    drew: bool
    reads: set[str] = field(default_factory=set)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func.__name__.partition(".")[0])
        return func(*args, **(kwargs or {}))


def main(arguments: list[str]) -> int:
    verbose = "--verbose" in arguments
    wanted = [name for name in arguments if not name.startswith("--")] or candidates()
    counts, faults = check(wanted, verbose=verbose)
    for fault in faults:
        print(fault)
    print(f"{counts['ran']} entries ran, {counts['not run']} could not be called, {len(faults)} faults")
    return 1 if faults else 0


def check(names: list[str], *, verbose: bool = False) -> tuple[Counter[str], list[str]]:
    """How many entries ran, and what was found wrong."""
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for name in names:
        api = torch_api.lookup(name)
        if api is None:
            raise SystemExit(f"no entry: {name}")
        outcome = run(api)
        counts["ran" if outcome else "not run"] += 1
        if outcome is not None:
            faults += [f"{name}: {fault}" for fault in judge(api, outcome)]
        elif verbose:
            print(f"not run: {name}")
    return counts, faults


def candidates() -> list[str]:
    """The entries that can be checked: functions and methods that take or make tensors."""
    found = []
    for name in sorted(torch_api.names()):
        space, _, short = name.rpartition(".")
        api = torch_api.lookup(name)
        skipped = any(part in short for part in SKIPPED_PARTS) or short.startswith("_")
        if space in SPACES and not skipped and api is not None and api.kind in ("function", "method") and api.overloads:
            found.append(name)
    return found


def run(api: Api) -> Outcome | None:
    """The outcome of the first call that is accepted."""
    space, _, short = api.qualname.rpartition(".")
    method = api.kind == "method"
    function = getattr(torch.Tensor, short) if method else getattr(importlib.import_module(space), short)
    for overload in api.overloads:
        for build in attempts(api.qualname, overload, method=method):
            torch.manual_seed(0)
            args = build(torch.device("cpu"))
            first = args[0] if args else None
            version = first._version if isinstance(first, torch.Tensor) else 0
            state = torch.get_rng_state()
            recorder = Recorder()
            try:
                with recorder:
                    result = function(*args)
            except Exception:  # noqa: BLE001 - any refusal means: try other arguments
                continue
            changed = isinstance(first, torch.Tensor) and first._version != version
            outcome = Outcome(overload, first, result, changed, not torch.equal(state, torch.get_rng_state()))
            outcome.reads = (recorder.seen & READS) | fake_reads(function, build)
            return outcome
    return None


def fake_reads(function: Any, build: Any) -> set[str]:
    """What the same call would have to read from a GPU."""
    try:
        with FakeTensorMode():
            function(*build(torch.device("cuda")))
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        return {f"fake {error.func}"}
    except Exception:  # noqa: BLE001 - what the fake backend cannot do shows nothing
        return set()
    return set()


def attempts(qualname: str, overload: Overload, *, method: bool) -> Iterator[Any]:
    """Builders of argument lists: first tensors of several kinds, other tensors alike or of indices."""
    if qualname in EXAMPLES:
        yield lambda device: EXAMPLES[qualname](lambda kind: tensor(kind, device))
        return
    required = [param for param in overload.params if not param.has_default and not param.keyword_only]
    required = [param for param in required if param.variadic != "**"]
    tensors = method or any(param.tensor for param in required)
    for kind, other in itertools.product(FIRST if tensors else ["square"], OTHERS):
        yield lambda device, kind=kind, other=other: [
            *([tensor(kind, device)] if method else []),
            *(item for param in required for item in argument(param, kind, other, device)),
        ]


FIRST = ["square", "vector", "image", "volume", "cube", "ids", "flags", "scalar", "complex"]
OTHERS = ["same", "ids", "flags", "vector", "matrix"]


def tensor(kind: str, device: torch.device) -> torch.Tensor:
    """A tensor of a kind; floating ones carry a graph."""
    shape = {"square": (4, 4), "matrix": (4, 4), "vector": (4,), "cube": (2, 4, 4), "image": (2, 4, 8, 8),
             "volume": (2, 4, 8, 8, 8), "scalar": ()}.get(kind, (4, 4))  # fmt: skip
    if kind == "ids":
        return torch.arange(16, device=device).reshape(4, 4) % 4
    if kind == "flags":
        return (torch.arange(16, device=device) % 2 == 0).reshape(4, 4)
    count = int(torch.Size(shape).numel())
    values = (torch.arange(count, device=device) % 7 + 1.0) / 10
    values = values.reshape(shape)
    if kind == "square":
        values = values @ values.T + torch.eye(4, device=device)
        values = values / values.max()
    if kind == "complex":
        values = torch.complex(values, values)
    # A fake CUDA tensor with a graph would abort the process where PyTorch has no CUDA.
    return values if device.type == "cuda" else values.requires_grad_().clone()


NUMBERS: dict[str, Any] = {
    "size": (4, 4), "shape": (4, 4), "sizes": (4, 4), "dim": 0, "dims": (0, 1), "dim0": 0, "dim1": 1, "axis": 0,
    "axis0": 0, "axis1": 1, "k": 1, "n": 4, "m": 4, "p": 0.5, "start": 0, "end": 4, "stop": 4, "step": 1,
    "steps": 4, "low": 0, "high": 4, "kernel_size": 2, "output_size": 2, "num_classes": 5, "sections": 2,
    "chunks": 2, "indices_or_sections": 2, "split_size_or_sections": 2, "tensor_split_input": 2, "repeats": 2,
    "length": 2, "min": 0.1, "max": 0.9, "value": 0.5, "fill_value": 0.5, "exponent": 2.0, "shifts": 1,
    "window_length": 8, "normalized_shape": (8,), "num_groups": 2, "upscale_factor": 2, "downscale_factor": 2,
    "groups": 2, "row": 4, "col": 4, "N": 4, "diagonal": 0, "obj": [1.0, 2.0], "data": [1.0, 2.0],
    "object": [1.0], "threshold": 0.1, "lower": 0.1, "upper": 0.9, "dtype": torch.float32, "q": 0.5,
    "num_samples": 2, "equation": "ij->ji", "source_dim": 0, "source": 0, "destination": 1, "dimension": 0,
    "pad": (1, 1), "blocks": 2, "maxnorm": 1.0, "scale_factor": 2, "num_spatial_dims": 2, "a": 0.1, "b": 0.9,
    "mean": 0.0, "std": 1.0, "val": 0.5, "sparsity": 0.5, "nonlinearity": "relu", "stride": (4, 1), "other": 0.5,
    "index": 0, "unflattened_size": (2, 2), "A": None, "beta": 0.5, "lambd": 0.5, "test_elements": None,
}  # fmt: skip
INDICES = {"index", "indices", "mask", "target", "test_elements", "repeats", "condition"}


def argument(param: Param, kind: str, other: str, device: torch.device) -> list[Any]:
    """A value for a parameter; none for `*args` of an unknown sort."""
    name = param.name
    alike = tensor(kind if other == "same" else other, device)
    if param.variadic:
        return [4, 4] if name in ("size", "shape", "sizes", "repeats") else [0, 1] if name == "dims" else [alike, alike]
    if param.tensor is True or (name in ("input", "self", "A", "x", "B", "tensor")):
        return [tensor(kind, device) if name in ("input", "self", "A", "x", "tensor") else alike]
    if name == "tensors":
        return [[tensor(kind, device), tensor(kind, device)]]
    if name in INDICES and other != "same":
        return [alike]
    value = NUMBERS.get(name, alike)
    return [alike if value is None else value]


def indices(t: Any) -> Any:
    """Four indices below four."""
    return t("ids")[0]


# Where names do not tell what to pass; `t` makes a tensor of a kind.
EXAMPLES: dict[str, Any] = {
    "torch.clamp": lambda t: [t("square"), 0.1, 0.5],
    "torch.clip": lambda t: [t("square"), 0.1, 0.5],
    "torch.cross": lambda t: [t("square")[:, :3], t("square")[:, :3]],
    "torch.atleast_1d": lambda t: [t("square")],
    "torch.atleast_2d": lambda t: [t("square")],
    "torch.atleast_3d": lambda t: [t("square")],
    "torch.bincount": lambda t: [indices(t)],
    "torch.einsum": lambda t: ["ij,jk->ik", t("square"), t("square")],
    "torch.tensordot": lambda t: [t("square"), t("square"), 1],
    "torch.narrow": lambda t: [t("square"), 0, 1, 2],
    "torch.unflatten": lambda t: [t("square"), 0, (2, 2)],
    "torch.index_add": lambda t: [t("square"), 0, indices(t), t("square")],
    "torch.index_fill": lambda t: [t("square"), 0, indices(t), 0.5],
    "torch.index_put": lambda t: [t("square"), (indices(t),), t("square")[0]],
    "torch.index_select": lambda t: [t("square"), 0, indices(t)],
    "torch.masked_fill": lambda t: [t("square"), t("flags"), 0.5],
    "torch.repeat_interleave": lambda t: [t("square"), indices(t), 0],
    "torch.scatter_reduce": lambda t: [t("square"), 0, t("ids"), t("square"), "sum"],
    "torch.select_scatter": lambda t: [t("square"), t("square")[0], 0, 1],
    "torch.split_with_sizes": lambda t: [t("square"), [1, 3]],
    "torch.unique": lambda t: [t("ids")],
    "torch.unique_consecutive": lambda t: [t("ids")],
    "torch.dropout": lambda t: [t("square"), 0.5, True],
    "torch.alpha_dropout": lambda t: [t("square"), 0.5, True],
    "torch.feature_dropout": lambda t: [t("image"), 0.5, True],
    "torch.feature_alpha_dropout": lambda t: [t("image"), 0.5, True],
    "torch.stft": lambda t: [t("vector").repeat(16), 8, None, None, torch.ones(8), True, "reflect", None, None, True],
    "torch.addmv": lambda t: [t("vector"), t("square"), t("vector")],
    "torch.addbmm": lambda t: [t("square"), t("cube"), t("cube")],
    "torch.normal": lambda t: [0.0, 1.0, t("square").shape],
    "torch.lu_solve": lambda t: [t("square"), *torch.linalg.lu_factor(t("square"))],
    "torch.nonzero_static": lambda t: [t("square")],
    "torch.scalar_tensor": lambda t: [0.5],
    "torch.view_as_complex": lambda t: [t("square")[:, :2]],
    "torch.conv_transpose2d": lambda t: [t("image"), t("image")[:1].expand(4, 4, 8, 8)],
    "torch.batch_norm": lambda t: [t("image"), None, None, None, None, True, 0.1, 1e-5, False],
    "torch.Tensor.clamp": lambda t: [t("square"), 0.1],
    "torch.Tensor.clamp_": lambda t: [t("square"), 0.1],
    "torch.Tensor.index_add_": lambda t: [t("square"), 0, indices(t), t("matrix")],
    "torch.Tensor.index_fill_": lambda t: [t("square"), 0, indices(t), 0.5],
    "torch.Tensor.index_put_": lambda t: [t("square"), (indices(t),), t("matrix")[0]],
    "torch.Tensor.index_select": lambda t: [t("square"), 0, indices(t)],
    "torch.Tensor.masked_fill": lambda t: [t("square"), t("flags"), 0.5],
    "torch.Tensor.masked_fill_": lambda t: [t("square"), t("flags"), 0.5],
    "torch.Tensor.narrow": lambda t: [t("square"), 0, 1, 2],
    "torch.Tensor.repeat_interleave": lambda t: [t("square"), 2],
    "torch.Tensor.scatter_reduce_": lambda t: [t("square"), 0, t("ids"), t("matrix"), "sum"],
    "torch.Tensor.split": lambda t: [t("square"), 2],
    "torch.Tensor.unfold": lambda t: [t("square"), 0, 2, 1],
    "torch.Tensor.unflatten": lambda t: [t("square"), 0, (2, 2)],
    "torch.nn.functional.nll_loss": lambda t: [t("square").log(), indices(t)],
    "torch.nn.functional.multi_margin_loss": lambda t: [t("square"), indices(t)],
    "torch.nn.functional.cosine_embedding_loss": lambda t: [t("square"), t("square"), t("vector").sign()],
    "torch.nn.functional.interpolate": lambda t: [t("image"), None, 2.0],
    "torch.nn.functional.grid_sample": lambda t: [t("image"), t("image")[:, :2].permute(0, 2, 3, 1)],
    "torch.nn.functional.local_response_norm": lambda t: [t("image"), 2],
    "torch.nn.functional.lp_pool2d": lambda t: [t("image"), 2.0, 2],
    "torch.nn.functional.conv_transpose2d": lambda t: [t("image"), t("image")[:1].expand(4, 4, 8, 8)],
    "torch.nn.functional.batch_norm": lambda t: [t("image"), None, None, None, None, True],
    "torch.nn.functional.fractional_max_pool2d": lambda t: [t("image"), 2, 4],
    "torch.nn.functional.embedding_bag": lambda t: [t("ids"), t("matrix")],
    "torch.linalg.cross": lambda t: [t("square")[:, :3], t("square")[:, :3]],
    "torch.linalg.solve_triangular": lambda t: [t("square"), t("square")],
}


def judge(api: Api, outcome: Outcome) -> Iterator[str]:
    """What the entry says wrongly."""
    result, first = outcome.result, outcome.first
    seen = kind_of(result, first, inplace=api.inplace)
    said = outcome.overload.returns
    if said not in (seen, "unknown") and not (said == "tensor" and seen == "self"):
        yield f"returns {seen}, the table says {said}"
    if outcome.changed != api.inplace and api.qualname not in CHANGES_NO_VALUE:
        yield "changes its first argument" if outcome.changed else "does not change its first argument"
    if outcome.drew != api.random and api.qualname not in DRAWS_IN_TRAINING:
        yield "draws random numbers" if outcome.drew else "draws no random numbers"
    reads = (
        outcome.reads if api.qualname not in CPU_CHECKS else {one for one in outcome.reads if one.startswith("fake")}
    )
    if reads and api.syncs == "never":
        yield f"reads from the device ({', '.join(sorted(reads))})"
    if not reads and api.syncs == "always" and api.qualname not in HIDDEN_READS:
        yield "shows no read from the device"
    tensors = [result] if isinstance(result, torch.Tensor) else []
    if api.overloads and not api.inplace and tensors:
        yield from judge_tensor(api, tensors[0], first)


def judge_tensor(api: Api, result: torch.Tensor, first: object) -> Iterator[str]:
    given = first if isinstance(first, torch.Tensor) else None
    if api.dtype == "same" and given is not None and given.is_floating_point() and result.dtype != given.dtype:
        yield f"gives {result.dtype} of {given.dtype}"
    named = {"float": torch.get_default_dtype()}.get(api.dtype or "", getattr(torch, api.dtype or "", None))
    if isinstance(named, torch.dtype) and result.dtype != named:
        yield f"gives {result.dtype}, the table says {api.dtype}"
    if given is not None and given.is_floating_point() and result.requires_grad is api.detached:
        yield "carries a graph" if result.requires_grad else "carries no graph"


def kind_of(result: object, first: object, *, inplace: bool) -> str:
    """The result in the words of `Api.returns`."""
    if isinstance(result, torch.Tensor):
        return "self" if inplace and result is first else "tensor"
    if isinstance(result, (tuple, list)) and result and all(isinstance(item, torch.Tensor) for item in result):
        return "tensors"
    kinds: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "bool"), ((int, float, complex), "number"), (torch.Size, "size"), (list, "list"), (torch.dtype, "dtype"),
        (torch.device, "device"), (type(None), "none"),
    ]  # fmt: skip
    for types, kind in kinds:
        if isinstance(result, types):
            return kind
    return "ndarray" if type(result).__name__ == "ndarray" else "other"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

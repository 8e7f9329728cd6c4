"""Attributes of values, when they are read rather than called."""

from __future__ import annotations

from ptlint.facts import torch_api
from ptlint.facts.arguments import Arguments
from ptlint.facts.events import Call, Place
from ptlint.facts.homes import Frame
from ptlint.facts.run import Run
from ptlint.facts.values import (
    DETACHED,
    DEVICE,
    HOST,
    NOWHERE,
    UNKNOWN,
    UNSURE,
    Array,
    CallArgs,
    Const,
    Dataset,
    Device,
    FileRef,
    Function,
    Items,
    Lib,
    Loader,
    Mapping,
    Method,
    Module,
    Num,
    Obj,
    Optimizer,
    Options,
    Params,
    ProjectClass,
    Sequence,
    Table,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join_all,
    options,
)

_SIZES = frozenset({"shape", "ndim", "dtype", "layout", "itemsize", "nbytes", "names", "is_cuda", "requires_grad"})

LIB_VALUES: dict[str, Value] = {
    "torch.backends.mps.is_available": Const(False, True),
    "os.environ": Lib("os.environ"),
}


def attribute(run: Run, base: Value, name: str, place: Place, frame: Frame) -> Value:
    """`base.name`."""
    return join_all([_attribute(run, option, name, place, frame) for option in with_attributes(base)])


def with_attributes(base: Value) -> list[Value]:
    """The alternatives that can have attributes: not None, where there are others."""
    return [option for option in options(base) if not (isinstance(option, Const) and option.value is None)] or [base]


def _attribute(run: Run, base: Value, name: str, place: Place, frame: Frame) -> Value:
    if isinstance(base, Lib):
        return LIB_VALUES.get(f"{base.name}.{name}", Lib(f"{base.name}.{name}"))
    if isinstance(base, FileRef):
        return file_attribute(run, base, name)
    if isinstance(base, Tensor):
        return _tensor_attribute(run, base, name)
    if isinstance(base, Obj):
        return _object_attribute(run, base, name, place, frame)
    if isinstance(base, ProjectClass):
        found = base.find(name)
        return found if found is not None else Method(base, name)
    if isinstance(base, Tuple) and len(base.items) == 2 and name in ("values", "indices"):
        return base.items[name == "indices"]
    if isinstance(base, Device):
        return Const(base.type if base.type != "accelerator" else "cuda", base.soft) if name == "type" else Num("int")
    if isinstance(base, Array):
        return Num("any") if name in ("shape", "size", "ndim", "dtype") else base if name == "T" else Method(base, name)
    if isinstance(base, Params) and base.single and name == "device":
        placed = any(module.core.where == DEVICE for module in base.modules)
        return Device("cuda" if placed else "unknown", True)
    if isinstance(base, Table) and name in ("iloc", "loc"):
        run.emit(Call(place, frame.ctx, f"pandas.DataFrame.{name}", CallArgs()), name)
    if isinstance(base, Unknown):
        if name in ("shape", "ndim", "dtype"):
            return Num("any")
        if name == "device" and base.where in (DEVICE, HOST):
            return Device("cuda" if base.where == DEVICE else "cpu", True)
        return Unknown(base.where, base.graph, base.batch, came=base.came, reads=base.reads)
    if isinstance(base, (Items, Num, Const)):
        return Method(base, name)
    return Method(base, name)


def file_attribute(run: Run, base: FileRef, name: str) -> Value:
    """A name of a project file, or a file of a project package."""
    home = base.home
    if name in home.globals or name in home.binders or home.stars:
        found = run.global_value(home, name)
        if name in home.globals:
            return found
    package = home.file.path.parent
    for path in (package / f"{name}.py", package / name / "__init__.py"):
        if home.file.path.name == "__init__.py" and run.in_program(path):
            return FileRef(run.imported(path))
    return UNKNOWN


def _tensor_attribute(run: Run, base: Tensor, name: str) -> Value:
    if name in _SIZES:
        return Num("any")
    if name == "device":
        return Device("cuda" if base.where == DEVICE else "cpu" if base.where == HOST else "unknown", True)
    if name == "data":
        return Tensor(base.where, DETACHED, base.dtype, base.batch, module=base.module)
    if name in ("grad", "T", "mT", "H", "real", "imag"):
        graph, came = (DETACHED, NOWHERE) if name == "grad" else (base.graph, base.came)
        return Tensor(base.where, graph, base.dtype, base.batch, module=base.module, came=came)
    if name == "grad_fn":
        return UNKNOWN
    if base.module is not None and torch_api.method("tensor", name) is None:
        # `output.loss`: what a library's model returns is an object that holds tensors.
        return Unknown(base.where, base.graph, base.batch, came=base.came, reads=base.reads)
    return Method(base, name)


def _object_attribute(run: Run, base: Obj, name: str, place: Place, frame: Frame) -> Value:
    if name in base.attrs:
        value = base.attrs[name]
        if isinstance(base, Module) and isinstance(value, Tensor) and not _stays(base, name, value):
            return Tensor(UNSURE if value.where == HOST else value.where, value.graph, value.dtype, came=value.came)
        return value
    if name == "__dict__":
        view = run.make(Mapping, place, frame.ctx, tag=f"dict{id(base)}")
        view.entries = base.attrs
        return view
    if isinstance(base.cls, ProjectClass):
        found = base.cls.find(name)
        if found is not None:
            return _bound(run, base, found, place, frame)
    if isinstance(base, Module):
        return _module_attribute(run, base, name)
    if isinstance(base, Loader):
        if name == "dataset":
            return base.dataset()
        if name in ("sampler", "batch_sampler"):
            return base.call.get(name, UNKNOWN) if base.call is not None else UNKNOWN
        return Num("int") if name in ("batch_size", "num_workers") else Method(base, name)
    if isinstance(base, Options):
        return UNKNOWN
    if isinstance(base, Optimizer):
        return UNKNOWN if name in ("param_groups", "state", "defaults") else Method(base, name)
    if isinstance(base, Dataset):
        return UNKNOWN
    if isinstance(base, (Sequence, Mapping)):
        return Method(base, name)
    if name == "__class__" and isinstance(base.cls, ProjectClass):
        return base.cls
    if base.lib_base is not None or base.open:
        return Method(base, name) if base.lib_base is not None else UNKNOWN
    return UNKNOWN


def _stays(module: Module, name: str, value: Tensor) -> bool:
    """Whether a tensor does not move with its module: it is neither a parameter nor a buffer."""
    return value.where == HOST and value.graph == DETACHED and value.made is not None and name not in module.registered


def _bound(run: Run, base: Obj, found: Value, place: Place, frame: Frame) -> Value:
    results: list[Value] = []
    for option in options(found):
        if isinstance(option, Function):
            if "property" in option.flags:
                results.append(run.call(option.bind(base), Arguments(), place, frame))
                continue
            if "static" in option.flags:
                results.append(option)
                continue
            results.append(option.bind(base if "class" not in option.flags or base.cls is None else base.cls))
        else:
            results.append(option)
    return join_all(results)


def _module_attribute(run: Run, base: Module, name: str) -> Value:
    if base.inner is not None:
        if name in ("module", "_orig_mod"):
            return base.inner
        inner = base.inner
        if name in inner.attrs:
            return inner.attrs[name]
    core = base.core
    if name in ("weight", "bias") and isinstance(core.cls, Lib):
        return Tensor(DEVICE if core.where == DEVICE else UNSURE, UNSURE)
    if name in ("weight", "bias") and core.cls is None and core.part_of is not None:
        return Params((core,), single=True)
    if name == "training":
        return Num("bool") if core.training is None else Const(core.training, True)
    if name == "device":
        return Device("cuda" if core.where == DEVICE else "unknown", True)
    if core.lib_base is not None and torch_api.lookup(f"torch.nn.Module.{name}") is not None:
        return Method(base, name)
    if isinstance(core.cls, Lib) or core.open:
        child = core.attrs.get(name)
        if child is None:
            return Method(base, name)
        return child
    return Method(base, name)

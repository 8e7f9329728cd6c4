"""Models of what is not project code: builtins, PyTorch, NumPy, argparse, frameworks.

A handler takes the run, the canonical name, the arguments and the place of the call, notes what happens as events and
returns the result. What has no handler is answered from the API table; what the table does not know is unknown.
"""

from __future__ import annotations

from ptlint.facts import torch_api
from ptlint.facts.arguments import Arguments
from ptlint.facts.attributes import file_attribute
from ptlint.facts.calls import call_module, derived
from ptlint.facts.events import Call, Place
from ptlint.facts.homes import Frame
from ptlint.facts.library import builtins, containers, data, frameworks, modules, tensors, torch_calls
from ptlint.facts.library.registry import FUNCTIONS
from ptlint.facts.run import Run
from ptlint.facts.values import (
    UNKNOWN,
    Array,
    CallArgs,
    Const,
    Dataset,
    FileRef,
    Function,
    Instance,
    Items,
    Lib,
    Loader,
    Mapping,
    Method,
    Mode,
    Module,
    Num,
    Obj,
    Optimizer,
    Options,
    Other,
    Params,
    ProjectClass,
    Scaler,
    Scheduler,
    Sequence,
    StateDict,
    Table,
    Tensor,
    Tuple,
    Value,
)

_PLACING = frozenset({"to", "cuda", "cpu", "eval", "train"})
_QUIET = ("builtins.", "argparse.", "itertools.", "functools.", "os.path.", "pathlib.")


def call(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """Call a library function or class by qualified name."""
    name = (
        torch_api.canonical(name).removeprefix("builtins.")
        if name.startswith("builtins.")
        else torch_api.canonical(name)
    )
    event: Call | None = None
    if not name.startswith(_QUIET):
        event = Call(place, frame.ctx, name, bind(name, args))
        run.emit(event, name)
    handler = FUNCTIONS.get(name)
    if handler is not None:
        result = handler(run, name, args, place, frame)
    else:
        result = from_table(run, name, args, place, frame)
    if event is not None:
        event.result = result
    return result


def bind(name: str, args: Arguments) -> CallArgs:
    """Bind arguments to the names in the API table."""
    api = torch_api.lookup(name)
    if api is None:
        return args.bind(())
    plain = [param for param in api.params if not param.variadic]
    only = frozenset(param.name for param in plain if param.keyword_only)
    return args.bind([param.name for param in plain], only)


def from_table(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """What the API table says a call returns."""
    api = torch_api.lookup(name)
    if api is None:
        return torch_calls.unlisted(run, name, args, place, frame)
    if name.startswith("numpy.") and api.returns in ("ndarray", "number", "bool", "list", "unknown"):
        return builtins.numpy_call(run, name, args, place, frame)
    if api.kind == "class":
        made = torch_calls.construct(run, api, args, place, frame)
        if made is not None:
            return made
    return tensors.result(run, api, args.positional, args, place, frame)


def call_attribute(run: Run, base: Value, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """`base.name(...)`."""
    if isinstance(base, Lib):
        return call(run, f"{base.name}.{name}", args, place, frame)
    if isinstance(base, FileRef):
        return run.call(file_attribute(run, base, name), args, place, frame)
    if isinstance(base, ProjectClass):
        return _class_call(run, base, name, args, place, frame)
    if isinstance(base, Obj):
        return _object_call(run, base, name, args, place, frame)
    return call_method(run, base, name, args, place, frame)


def _class_call(run: Run, base: ProjectClass, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    from ptlint.facts import classes

    member = base.find(name)
    if name == "__init__" and args.positional:  # Base.__init__(self, ...)
        receiver, rest = args.positional[0], Arguments(args.positional[1:], args.nodes[1:], args.keywords)
        if isinstance(member, Function):
            return run.call(member.bind(receiver), rest, place, frame)
        return UNKNOWN
    if isinstance(member, Function):
        if "class" in member.flags:
            return run.call(member.bind(base), args, place, frame)
        return run.call(member, args, place, frame)
    if member is not None:
        return run.call(member, args, place, frame)
    if name.startswith(("from_", "load_")) and classes.is_module(base):
        return classes.instantiate(run, base, Arguments(open=True), place, frame)
    return derived(args.all())


def _object_call(run: Run, base: Obj, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if name in base.attrs:
        return run.call(base.attrs[name], args, place, frame)
    member = run.member(base, name)
    if member is None and isinstance(base, Module) and base.inner is not None:
        core = base.core
        if name in core.attrs:
            return run.call(core.attrs[name], args, place, frame)
        member = run.member(core, name)
    if member is not None:
        if isinstance(base, Module) and name == "forward":
            return call_module(run, base, args, place, frame, method="forward")
        return run.call(member, args, place, frame)
    return call_method(run, base, name, args, place, frame)


def call_method(run: Run, receiver: Value, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A method that is not project code."""
    if isinstance(receiver, Tensor):
        return tensors.method(run, receiver, name, args, place, frame)
    if isinstance(receiver, Table):
        return frameworks.table_method(run, receiver, name, args, place, frame)
    if isinstance(receiver, Module):
        return modules.method(run, receiver, name, args, place, frame)
    if isinstance(receiver, Optimizer):
        return modules.optimizer_method(run, receiver, name, args, place, frame)
    if isinstance(receiver, Scaler):
        return modules.scaler_method(run, receiver, name, args, place, frame)
    if isinstance(receiver, Scheduler):
        return UNKNOWN
    if isinstance(receiver, (Loader, Dataset)):
        return data.method(run, receiver, name, args, place, frame)
    if isinstance(receiver, (Sequence, Mapping, Tuple, Items)):
        return containers.method(run, receiver, name, args, place, frame)
    if isinstance(receiver, Other):
        return frameworks.other_method(run, receiver, name, args, place, frame)
    if isinstance(receiver, Options):
        return UNKNOWN
    if isinstance(receiver, Array):
        return builtins.array_method(run, receiver, name, args, place, frame)
    if isinstance(receiver, (Num, Const)):
        return builtins.scalar_method(run, receiver, name, args, place, frame)
    if isinstance(receiver, Params):
        return modules.params_method(run, receiver, name, args, place, frame)
    if isinstance(receiver, StateDict):
        return receiver
    if isinstance(receiver, Method):
        if isinstance(receiver.receiver, Module) and name in _PLACING:
            # A part taken out of a library's model (`vgg19().features.cuda()`): the model stands for it.
            return modules.method(run, receiver.receiver, name, args, place, frame)
        return derived(args.all())
    if isinstance(receiver, Mode):
        return UNKNOWN
    if isinstance(receiver, ProjectClass):
        return _class_call(run, receiver, name, args, place, frame)
    if isinstance(receiver, Instance) and receiver.lib_base is not None:
        return frameworks.instance_method(run, receiver, name, args, place, frame)
    return tensors.unknown_method(run, receiver, name, args, place, frame)

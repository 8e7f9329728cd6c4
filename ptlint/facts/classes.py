"""Definitions: functions with their decorators, classes, their instances, and what `with` enters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.arguments import Arguments
from ptlint.facts.events import Call, Construct, Place
from ptlint.facts.homes import Frame
from ptlint.facts.run import Run
from ptlint.facts.values import (
    UNKNOWN,
    CallArgs,
    Device,
    Function,
    Instance,
    Lib,
    Loader,
    Mode,
    Module,
    Obj,
    Optimizer,
    Other,
    Partial,
    ProjectClass,
    Sequence,
    Unknown,
    Value,
    options,
)

DECORATOR_FLAGS = {
    "property": "property",
    "functools.cached_property": "property",
    "staticmethod": "static",
    "classmethod": "class",
    "contextlib.contextmanager": "contextmanager",
    "contextlib.asynccontextmanager": "contextmanager",
    "functools.lru_cache": "cached",
    "functools.cache": "cached",
    "torch.jit.script": "script",
    "torch.jit.ignore": "",
}

LOADER_PARAMS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator", "prefetch_factor",
    "persistent_workers", "pin_memory_device", "in_order",
)  # fmt: skip
LOADER_KEYWORD_ONLY = frozenset({"prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"})

DATALOADER = "torch.utils.data.DataLoader"


def define_function(run: Run, node: cst.FunctionDef, frame: Frame) -> Value:
    """The value that `def` binds, decorators applied."""
    function = Function(node, frame.home, None if frame.at_top else frame, frame.tree, frame.cls)
    function.defaults = defaults_of(run, node.params, frame)
    run.keep.append(node)
    value: Value = function
    for decorator in reversed(node.decorators):
        value = _decorate(run, decorator, value, frame)
    return value


def defaults_of(run: Run, params: cst.Parameters, frame: Frame) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for param in (*params.posonly_params, *params.params, *params.kwonly_params):
        if param.default is not None:
            found[param.name.value] = run.evaluate(param.default, frame)
    return found


def _decorate(run: Run, decorator: cst.Decorator, value: Value, frame: Frame) -> Value:
    wrapper = run.evaluate(decorator.decorator, frame)
    place = frame.place(decorator.decorator)
    return apply_decorator(run, wrapper, value, place, frame)


def apply_decorator(run: Run, wrapper: Value, value: Value, place: Place, frame: Frame) -> Value:
    """What a decorator makes of a function; one that is not understood leaves it as it is."""
    for option in options(wrapper):
        if isinstance(option, Mode) and isinstance(value, Function):
            return _with_modes(value, (option,))
    for option in options(wrapper):
        if isinstance(option, Lib) and isinstance(value, Function):
            name = torch_api.canonical(option.name).removeprefix("builtins.")
            if name in DECORATOR_FLAGS:
                mark = DECORATOR_FLAGS[name]
                return _flagged(value, mark) if mark else value
            mode = run.call(option, Arguments(), place, frame) if name in torch_api.GRAD_SWITCHES else UNKNOWN
            if isinstance(mode, Mode):
                return _with_modes(value, (mode,))
            if name == "torch.compile":
                return _flagged(value, "compiled")
            run.emit(Call(place, frame.ctx, name, CallArgs(extra=[value])), name)
    function_like = [o for o in options(wrapper) if isinstance(o, (Function, ProjectClass, Instance, Partial))]
    if function_like:
        result = run.call(function_like[0], Arguments().add(value), place, frame)
        if any(isinstance(o, (Function, Instance, Partial)) for o in options(result)):
            return result
    if any(isinstance(option, Other) and option.kind == "compile" for option in options(wrapper)):
        return _flagged(value, "compiled") if isinstance(value, Function) else value
    if isinstance(wrapper, Lib) and wrapper.name.endswith((".setter", ".deleter")):
        return value
    return value


def _with_modes(function: Function, modes: tuple[Mode, ...]) -> Function:
    made = replace(function)
    made.modes = (*modes, *function.modes)
    return made


def _flagged(function: Function, flag: str) -> Function:
    made = _with_modes(function, ())
    made.flags = function.flags | {flag}
    return made


def define_class(run: Run, node: cst.ClassDef, frame: Frame) -> ProjectClass:
    """The class that a `class` statement makes; its body runs now."""

    def define(cls: ProjectClass) -> cst.ClassDef:
        fill_class(run, cls, node, frame)
        return node

    cls = ProjectClass(node.name.value, frame.home, define, local=not frame.at_top)
    assert cls.node is node
    return cls


def fill_class(run: Run, cls: ProjectClass, node: cst.ClassDef, frame: Frame) -> None:
    """Run the body of a class."""
    home = frame.home
    run.keep.append(node)
    for base in node.bases:
        if base.star:
            cls.bases.append(UNKNOWN)
            continue
        value = run.evaluate(base.value, frame)
        chosen = next((o for o in options(value) if isinstance(o, (ProjectClass, Lib))), value)
        cls.bases.append(Lib(torch_api.canonical(chosen.name)) if isinstance(chosen, Lib) else chosen)
    body = Frame(home, frame.tree, frame.ctx, run.scope(node), frame)
    body.cls = cls
    body.locals = cls.members
    for statement in node.body.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            from ptlint.facts import statements

            statements.execute(run, statement, body)
            continue
        if isinstance(statement, cst.SimpleStatementLine):
            from ptlint.facts import statements

            statements.execute(run, statement, body)
    for decorator in node.decorators:
        cls.decorators.append(run.evaluate(decorator.decorator, frame))


def is_module(cls: ProjectClass | Lib) -> bool:
    """Whether instances are `nn.Module`s."""
    names = (cls.name,) if isinstance(cls, Lib) else cls.lib_bases
    return any(torch_api.is_module_class(name) or name in LIGHTNING_MODULES for name in names)


LIGHTNING_MODULES = frozenset(
    f"{package}.{name}"
    for base in ("pytorch_lightning", "lightning", "lightning.pytorch")
    for package in (base, f"{base}.core")
    for name in ("LightningModule",)
)


def instantiate(run: Run, cls: ProjectClass, args: Arguments, place: Place, frame: Frame) -> Value:
    """An instance of a project class, its `__init__` run."""
    bases = cls.lib_bases
    made: Obj
    if is_module(cls):
        made = run.make(Module, place, frame.ctx, cls, tag=str(id(cls)))
    elif DATALOADER in bases:
        made = run.make(Loader, place, frame.ctx, cls, tag=str(id(cls)))
    elif any(torch_api.is_optimizer(base) for base in bases):
        made = run.make(Optimizer, place, frame.ctx, cls, tag=str(id(cls)))
        run.fill_optimizer(made, args.first())
    else:
        made = run.make(Instance, place, frame.ctx, cls, tag=str(id(cls)))
        if "argparse.ArgumentParser" in bases:
            return run.make(Other, place, frame.ctx, "parser")
    made.open = made.open or cls.opaque
    made.call = args.bind(())
    init = cls.find("__init__")
    if isinstance(init, Function):
        run.call(init.bind(made), args, place, frame)
    elif isinstance(made, Loader):
        made.call = args.bind(LOADER_PARAMS, LOADER_KEYWORD_ONLY)
    else:
        _bind_fields(run, cls, made, args)
    run.emit(Construct(place, frame.ctx, made), str(id(cls)))
    return made


def _bind_fields(run: Run, cls: ProjectClass, made: Obj, args: Arguments) -> None:
    """Dataclass fields: arguments and soft defaults."""
    names = list(fields_of(cls))
    if not names:
        return
    bound = args.bind(names)
    for name in names:
        if name in bound.bound:
            made.attrs[name] = bound.bound[name]
        else:
            default = cls.find(name)
            made.attrs[name] = run.soften(default) if default is not None else UNKNOWN


def fields_of(cls: ProjectClass) -> Iterator[str]:
    """The annotated names of a class and its bases, in order."""
    for owner in reversed(list(cls.mro())):
        for statement in owner.node.body.body:
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
                        yield small.target.value


def super_init(run: Run, owner: ProjectClass, receiver: Value, args: Arguments, place: Place, frame: Frame) -> Value:
    """`super().__init__(...)`, or `Base.__init__(self, ...)`."""
    init = owner.find("__init__", after=owner)
    if isinstance(init, Function):
        return run.call(init.bind(receiver), args, place, frame)
    if isinstance(receiver, Loader):
        receiver.call = args.bind(LOADER_PARAMS, LOADER_KEYWORD_ONLY)
        run.emit(Call(place, frame.ctx, f"{DATALOADER}.__init__", receiver.call, receiver=receiver), str(id(receiver)))
    elif isinstance(receiver, Module) and args.positional:
        children = [value for value in args.positional if isinstance(value, (Module, Sequence))]
        for child in children:
            receiver.children.extend(child.items or [] if isinstance(child, Sequence) else [child])
    return UNKNOWN


def enter(run: Run, value: Value, place: Place, frame: Frame) -> tuple[list[Mode], Value]:
    """The modes that `with value:` puts in force, and what `as` binds."""
    modes: list[Mode] = []
    entered: Value = UNKNOWN
    for option in options(value):
        if isinstance(option, Mode):
            modes.append(option)
        elif isinstance(option, Device):  # `with torch.device("cuda"):` new tensors go there
            modes.append(Mode("device", device=option.type, name="torch.device", place=place))
        elif isinstance(option, Other) and option.kind == "managed":
            modes.extend(mode for mode in option.attrs.values() if isinstance(mode, Mode))
            entered = option.attrs.get("entered", UNKNOWN)
        elif isinstance(option, Instance):
            method = option.cls.find("__enter__") if isinstance(option.cls, ProjectClass) else None
            entered = option
            if isinstance(method, Function):
                entered = run.call(method.bind(option), Arguments(), place, frame)
        elif isinstance(option, (Obj, Unknown)):
            entered = option
    return modes, entered

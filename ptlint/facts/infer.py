"""What the use of a name says of its value, where nothing else does."""

from __future__ import annotations

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.events import Place
from ptlint.facts.homes import Frame
from ptlint.facts.run import Run
from ptlint.facts.scopes import Use
from ptlint.facts.values import (
    ATTACHED,
    Lib,
    Module,
    Optimizer,
    ProjectClass,
    Scaler,
    Table,
    Tensor,
    Unknown,
    Value,
    options,
)

_MODULE_METHODS = frozenset(
    "parameters named_parameters state_dict load_state_dict train eval modules named_modules children buffers".split()
)


def by_use(run: Run, value: Value, name: str, frame: Frame, place: Place) -> Value:
    """`value`, or when it is unknown what the rest of the scope shows that it must be."""
    if not isinstance(value, Unknown):
        return value
    use = frame.scope.uses.get(name)
    if use is None:
        return value
    return shown_by(run, use, value, frame, place)


def by_annotation(run: Run, value: Value, annotation: cst.Annotation | None, frame: Frame, place: Place) -> Value:
    """`value`, or when it is unknown what the parameter's annotation says: a module, an optimizer, a table."""
    if annotation is None or not isinstance(value, Unknown):
        return value
    for cls in options(run.evaluate(annotation.annotation, frame)):
        base = cls.name if isinstance(cls, Lib) else cls.lib_base if isinstance(cls, ProjectClass) else None
        if base is not None and torch_api.canonical(base) == "pandas.DataFrame":
            return Table()
        if base is not None and torch_api.is_module_class(base):
            module = run.make(Module, place, frame.ctx, cls if isinstance(cls, ProjectClass) else None, tag="annotated")
            module.open = True
            return module
        if base is not None and torch_api.is_optimizer(base):
            optimizer = run.make(Optimizer, place, frame.ctx, tag="annotated")
            optimizer.opaque = True
            return optimizer
    return value


def shown_by(run: Run, use: Use, value: Unknown, frame: Frame, place: Place) -> Value:
    methods = use.methods
    if "zero_grad" in methods and "step" in methods and "parameters" not in methods:
        found = run.make(Optimizer, place, frame.ctx, tag="use")
        found.opaque = True
        return found
    if "backward" in methods and "step" not in methods:
        return Tensor(value.where, ATTACHED, batch=value.batch, came=value.came)
    if _scaler_like(use):
        return run.make(Scaler, place, frame.ctx, tag="use")
    if use.wrapped or (methods & _MODULE_METHODS and _module_like(use)):
        module = run.make(Module, place, frame.ctx, None, tag="use")
        module.open = True
        return module
    return value


def scaler_by_use(run: Run, text: str, frame: Frame) -> Scaler | None:
    """The GradScaler that `text` (`self.scaler`) must be by what the scope calls on it; one for a running function."""
    use = frame.scope.uses.get(text)
    if use is None or not _scaler_like(use):
        return None
    return run.make(Scaler, frame.place(frame.tree.module), frame.root, tag=f"use {text}")


def _scaler_like(use: Use) -> bool:
    return "unscale_" in use.methods or ("scale" in use.methods and bool(use.methods & {"update", "step"}))


def _module_like(use: Use) -> bool:
    """Two signs of a module, or one and a call: trainers and agents have `train` and `eval` methods too."""
    methods = use.methods
    if methods & {"parameters", "named_parameters"}:
        return True
    if {"train", "eval"} <= methods:
        return True
    return use.called and bool(methods & {"train", "eval", "state_dict", "load_state_dict"})

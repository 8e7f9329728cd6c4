"""Whether an expression only computes: it changes nothing that is there after it, as far as that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.events import (
    Assign,
    Backward,
    Ctx,
    Event,
    Forward,
    Move,
    Place,
    Placed,
    Read,
    ScalerCall,
    Step,
    Store,
)
from ptlint.facts.events import Call as CallEvent
from ptlint.facts.scopes import bound_names, walk

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_BUILTINS = frozenset(
    "len range min max int float bool str abs round list tuple dict set sorted zip enumerate reversed sum isinstance "
    "any all map filter getattr hasattr format".split()
)
_PACKAGES = ("torch.", "numpy.", "math.", "sklearn.metrics.", "torchvision.utils.make_grid", "torchvision.ops.")
_IMPURE = (
    "torch.save", "torch.load", "torch.distributed.", "torch.cuda.", "torch.nn.Module.", "torch.optim.",
    "torch.utils.", "torch.manual_seed", "torch.set_", "torch.jit.", "torch.autograd.", "torch.onnx.",
    "torch.backends.", "torch.multiprocessing.", "torch.hub.", "numpy.random.", "numpy.save", "numpy.load", "numpy.put",
)  # fmt: skip
_OWN_LISTS = frozenset({"append", "extend"})

_QUIET_METHODS = frozenset(
    "detach item size dim numel format join split strip lower upper items keys values get count index".split()
)
"""Methods of which the execution notes nothing where it knows of what they are."""


class Purity:
    """The events of a program by where they happened."""

    def __init__(self, program: ProgramFacts) -> None:
        self._at: dict[int, list[Event]] = {}
        for event in program.run.trace:
            self._at.setdefault(id(event.place.node), []).append(event)
        self._frames: dict[int, list[Ctx]] = {}
        for ctx in program.run.root.down():
            if ctx.kind == "frame" and ctx.place is not None:
                self._frames.setdefault(id(ctx.place.node), []).append(ctx)

    def happened(self, place: Place, node: cst.BaseExpression) -> list[Event] | None:
        """What happened in an expression and the functions that it calls; None where it may change something."""
        found: list[Event] = []
        return found if self._pure(node, None, found, 0) else None

    def _pure(self, node: cst.CSTNode, function: cst.CSTNode | None, found: list[Event], depth: int) -> bool:
        if depth > 6:
            return False
        own = bound_names(function.body) if isinstance(function, cst.FunctionDef) else set()
        own -= _parameters(function)
        for part in walk(node, into_scopes=function is None):
            if isinstance(part, (cst.Await, cst.Yield, cst.NamedExpr, cst.Global, cst.Nonlocal, cst.Lambda)):
                return False
            if isinstance(part, (cst.Del, cst.Raise, cst.Import, cst.ImportFrom)):
                return False
            happened = self._at.get(id(part), [])
            found.extend(happened)
            if any(isinstance(event, (Backward, Step, Placed, ScalerCall, Assign)) for event in happened):
                return False
            if any(isinstance(event, Store) and _root(part) not in own for event in happened):
                return False
            if isinstance(part, cst.Call) and not self._is_pure_call(part, happened, own, found, depth):
                return False
        return True

    def _is_pure_call(
        self, node: cst.Call, happened: list[Event], own: set[str], found: list[Event], depth: int
    ) -> bool:
        frames = self._frames.get(id(node), [])
        for body in {id(frame.function.node): frame.function.node for frame in frames if frame.function}.values():
            # The layers of a model are looked into by what is known of it, not here.
            calls_model = any(isinstance(event, Forward) for event in happened)
            if not calls_model and not self._pure(body.body, body, found, depth + 1):
                return False
        names = {event.name for event in happened if isinstance(event, CallEvent)}
        known = bool(frames) or any(isinstance(event, (Forward, Move, Read)) for event in happened)
        func = node.func
        if isinstance(func, cst.Name) and not names and not known:
            return func.value in _BUILTINS
        if isinstance(func, cst.Attribute) and _root(func.value) in own:
            method = func.attr.value
            if method in _OWN_LISTS or _is_in_place(method):
                return True
        if isinstance(func, cst.Attribute) and not names and not known:
            return func.attr.value in _QUIET_METHODS
        return (known or bool(names)) and all(_only_computes(name) for name in names)


def _only_computes(name: str) -> bool:
    method = name.rpartition(".")[2]
    if _is_in_place(method):
        return False
    if name.startswith("."):
        return torch_api.lookup(f"torch.Tensor.{method}") is not None
    return name in _BUILTINS or (name.startswith(_PACKAGES) and not name.startswith(_IMPURE))


def _is_in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__")


def _parameters(function: cst.CSTNode | None) -> set[str]:
    if not isinstance(function, (cst.FunctionDef, cst.Lambda)):
        return set()
    return {node.name.value for node in walk(function.params, into_scopes=True) if isinstance(node, cst.Param)}


def _root(node: cst.CSTNode) -> str:
    """The name that a chain of attributes, subscripts and calls begins with."""
    while True:
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        elif isinstance(node, cst.Call):
            node = node.func
        elif isinstance(node, cst.AugAssign):
            node = node.target
        else:
            return node.value if isinstance(node, cst.Name) else ""


__all__ = ["Purity"]

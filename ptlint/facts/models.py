"""What models are made of: their layers, how wide, and whether all of it is in sight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.scopes import walk
from ptlint.facts.values import (
    ATTACHED,
    Const,
    Items,
    Lib,
    Mapping,
    Method,
    Module,
    ProjectClass,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    options,
)

CONV, LINEAR, RECURRENT, CELL, ATTENTION, EMBEDDING, NORM, PARAMETER, MODEL, OTHER, PLAIN = (
    "conv", "linear", "recurrent", "cell", "attention", "embedding", "norm", "parameter", "model", "other", "plain",
)  # fmt: skip

_ORDER = (CELL, RECURRENT, ATTENTION, CONV, LINEAR, EMBEDDING, NORM, "loss", "dropout", "activation", "pool")
"""The first of a class's tags in this order is its layers' kind."""

LIGHT = frozenset({NORM, PLAIN, "loss", "dropout", "activation", "pool"})
"""Kinds of layers that do not make a model's body."""

_WIDTHS = {
    CONV: ("in_channels", "out_channels"),
    LINEAR: ("in_features", "out_features", "in1_features", "in2_features"),
    RECURRENT: ("input_size", "hidden_size"),
    CELL: ("input_size", "hidden_size"),
    ATTENTION: ("embed_dim", "d_model", "dim_feedforward"),
    EMBEDDING: ("embedding_dim",),
    NORM: (),
}

_SPARSE_LAYERS = "torch_geometric."
_OWN_MODELS = ("torchvision.models", "timm", "transformers", "segmentation_models_pytorch", "torch.hub", "diffusers")

MAX_LAYERS = 4000


@dataclass(frozen=True)
class Layer:
    """A module that the project does not define, or a parameter (`PARAMETER`) that a project module holds.

    `widths`: the sizes that say how wide it is, None for one that is not a number in sight. `MODEL` is a whole model
    of a library (`torchvision.models.resnet50()`), `PLAIN` a layer without weights (`nn.Flatten`).
    """

    kind: str
    name: str
    widths: tuple[int | None, ...]
    module: Module | None = None

    @property
    def width(self) -> int | None:
        """The largest of its sizes; None when one is not known."""
        known = [width for width in self.widths if width is not None]
        return max(known, default=0) if len(known) == len(self.widths) else None

    @property
    def repeated(self) -> bool:
        """Whether a loop of the function that makes it makes several."""
        for up in self.module.ctx.up() if self.module is not None and self.module.ctx is not None else ():
            if up.kind == "loop":
                return True
            if up.kind in ("frame", "module"):
                break
        return False


@dataclass(frozen=True)
class Makeup:
    """The layers of a model in the order in which they were made, each once however often a loop made its like.

    `in_sight`: there is no part of which only the use is known.
    """

    layers: tuple[Layer, ...]
    in_sight: bool

    @property
    def complete(self) -> bool:
        """Whether all of the body is known. A body without layers is one whose layers came out of sight."""
        return self.in_sight and bool(self.body)

    @property
    def weightless(self) -> bool:
        """Whether there is nothing to train: a loss, an activation."""
        return self.in_sight and not self.body

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of the layers that make the model's body: no norms, activations, losses."""
        return frozenset(layer.kind for layer in self.body)

    @cached_property
    def body(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.kind not in LIGHT)

    def of(self, *kinds: str) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.kind in kinds)

    def within(self, limits: dict[str, int]) -> bool:
        """Whether the model is all in sight and every layer of its body is of a listed kind and no wider than that."""
        return self.complete and all(
            layer.kind in limits and layer.width is not None and layer.width <= limits[layer.kind]
            for layer in self.body
        )

    @property
    def one_small_layer(self) -> bool:
        """A model of one layer whose sizes are literally small: nothing to fuse, nothing to speed up."""
        if not self.one_layer:
            return False
        size = 1
        for width in self.body[0].widths:
            size *= width if width is not None else SMALL_LAYER + 1
        return size <= SMALL_LAYER

    @property
    def one_layer(self) -> bool:
        """A model of one linear or convolutional layer: nothing to fuse."""
        return (
            self.complete and len(self.body) == 1 and self.body[0].kind in (LINEAR, CONV) and not self.body[0].repeated
        )

    @property
    def recurrent_body(self) -> bool:
        """`nn.LSTM`, `nn.GRU` or `nn.RNN` does the work: beside it there are only embeddings and linear layers."""
        return self.complete and RECURRENT in self.kinds and self.kinds <= {RECURRENT, EMBEDDING, LINEAR}

    @property
    def sparse(self) -> bool:
        """Whether layers of a graph library work on sparse data."""
        return any(layer.name.startswith(_SPARSE_LAYERS) for layer in self.layers)


SMALL_LAYER = 16_384
"""A single layer with up to this many weights is too small for compilation or mixed precision to pay."""


def parts(module: Module) -> Iterator[Module]:
    """A module and all modules below it, each once, wrappers looked through."""
    seen: set[int] = set()
    stack: list[Value] = [module]
    while stack and len(seen) < MAX_LAYERS:
        value = stack.pop()
        if not isinstance(value, Module):
            stack.extend(_held_in(value))
            continue
        core = value.core
        if id(core) in seen:
            continue
        seen.add(id(core))
        yield core
        stack.extend(reversed([*core.attrs.values(), *core.children]))


def _held_in(value: Value) -> list[Value]:
    """What containers among an object's attributes hold."""
    found: list[Value] = []
    for option in options(value):
        if isinstance(option, Module):
            found.append(option)
        elif isinstance(option, Sequence):
            found.extend(item for item in option.items or () if not isinstance(item, Const))
            found.extend([option.item] if option.item is not None else [])
        elif isinstance(option, Tuple):
            found.extend(option.items)
        elif isinstance(option, Mapping):
            found.extend([*option.entries.values(), *([option.rest] if option.rest is not None else [])])
        elif isinstance(option, Items) and isinstance(option.item, Module):
            found.append(option.item)
    return [item for item in found if isinstance(item, Module) or _may_hold(item)]


def _may_hold(value: Value) -> bool:
    return any(isinstance(option, (Module, Sequence, Tuple, Mapping)) for option in options(value))


def makeup(module: Module) -> Makeup:
    """What a model is made of."""
    layers: list[Layer] = []
    complete, unclear = True, False
    for part in parts(module):
        complete = complete and not part.open and all(_may_hold(child) for child in part.children)
        if isinstance(part.cls, Lib):
            if not torch_api.tags(part.cls.name) & {"container", "wrapper"}:
                layers.append(_layer(part, part.cls))
            elif part.call is not None and part.call.open:
                complete = False  # `nn.Sequential(*children)` of what nobody saw
            continue
        if not isinstance(part.cls, ProjectClass) or part.cls.opaque:
            complete = False
            continue
        for base in part.cls.lib_bases:
            if torch_api.is_module_class(base) and base != "torch.nn.Module":
                layers.append(_layer(Module(None, None), Lib(base)))
        called, handed_on = _uses_of_self(part.cls)
        for name, value in part.attrs.items():
            for option in options(value):
                # Of a library's model a part may be taken: `vgg19().features`.
                if isinstance(option, Unknown) or (isinstance(option, Method) and _is_whole_model(option.receiver)):
                    unclear = unclear or name in handed_on or isinstance(option, Method)
                    complete = complete and name not in called
            if any(_is_parameter(option) for option in options(value)):
                layers.append(Layer(PARAMETER, name, (None,)))
    made = Makeup(tuple(layers), complete)
    return Makeup(made.layers, False) if unclear and not made.body else made


def _uses_of_self(cls: ProjectClass) -> tuple[set[str], set[str]]:
    """The attributes of `self` that a class calls, and those that it uses otherwise than as a number in a formula."""
    called: set[str] = set()
    found: list[cst.Attribute] = []
    operands: set[int] = set()
    for owner in cls.mro():
        for node in (node for part in owner.code() for node in walk(part, into_scopes=True)):
            if isinstance(node, cst.Call) and (name := _attribute_of_self(node.func)):
                called.add(name)
            elif isinstance(node, cst.Attribute) and _attribute_of_self(node):
                found.append(node)
            elif isinstance(node, cst.BinaryOperation):
                operands |= {id(node.left), id(node.right)}
            elif isinstance(node, cst.Comparison):
                operands |= {id(node.left), *(id(target.comparator) for target in node.comparisons)}
            elif isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign)):
                operands.add(id(node.target))
    return called, {node.attr.value for node in found if id(node) not in operands}


def _attribute_of_self(node: cst.BaseExpression) -> str:
    """The name of an attribute that is taken of `self`."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        return node.attr.value
    return ""


def _is_whole_model(value: Value) -> bool:
    if not isinstance(value, Module):
        return False
    cls = value.core.cls
    return cls is None or (isinstance(cls, Lib) and cls.name.startswith(_OWN_MODELS))


def _is_parameter(value: Value) -> bool:
    return isinstance(value, Tensor) and value.fresh and value.graph == ATTACHED


def _layer(module: Module, cls: Lib) -> Layer:
    tags = torch_api.tags(cls.name)
    api = torch_api.lookup(cls.name)
    # What a class draws at random when it is made are its weights.
    weightless = api is not None and not api.random
    kind = next((tag for tag in _ORDER if tag in tags), PLAIN if weightless else OTHER)
    if cls.name.startswith(_OWN_MODELS):
        return Layer(MODEL, cls.name, (None,), module)
    return Layer(kind, cls.name, tuple(_widths(module, cls, kind)), module)


def _widths(module: Module, cls: Lib, kind: str) -> Iterator[int | None]:
    api = torch_api.lookup(cls.name)
    for name in _WIDTHS.get(kind, ()):
        if api is None or api.param(name) is None:
            continue
        if module.call is None or module.call.state(name) == "unknown":
            yield None
        elif module.call.state(name) == "set":
            numbers = [option.value for option in options(module.call.get(name)) if isinstance(option, Const)]
            sure = len(numbers) == len(options(module.call.get(name)))
            integers = [number for number in numbers if isinstance(number, int)]
            yield max(integers) if sure and integers and len(integers) == len(numbers) else None
        else:
            default = api.param(name)
            text = default.default_repr if default is not None else None
            yield int(text) if text is not None and text.isdigit() else None


__all__ = ["Layer", "Makeup", "makeup", "parts"]

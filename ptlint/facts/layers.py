"""How large a model is: the widths of its layers, as far as the program says them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ptlint.facts import torch_api
from ptlint.facts.values import (
    CallArgs,
    Const,
    Items,
    Lib,
    Mapping,
    Module,
    ProjectClass,
    Sequence,
    Tuple,
    Value,
    options,
)

SMALL_LINEAR, SMALL_CONV, SMALL_RECURRENT = 256, 64, 128
"""Up to these widths a layer keeps no GPU busy (CATALOGUE.md, PTL501)."""
TINY_CONV, TINY_LINEAR = 24, 512
"""Nets of few convolutions, with layers up to these widths, are made for tiny images (LeNet and its like)."""
FEW_CONVS = 4
"""With more convolutions than these a net has work to do, narrow as it may be."""

_IGNORED_TAGS = frozenset({"norm", "dropout", "activation", "pool", "loss", "container", "wrapper", "metric"})
_WIDTHS = {
    "linear": ("in_features", "out_features", "in1_features", "in2_features"),
    "conv": ("in_channels", "out_channels"),
    "recurrent": ("input_size", "hidden_size"),
    "cell": ("input_size", "hidden_size"),
    "attention": ("embed_dim", "d_model", "dim_feedforward"),
    "embedding": ("embedding_dim",),
}


@dataclass(slots=True)
class Layers:
    """The layers below some modules: the widest of each kind (None: there is none), and whether all are known.

    `vocabulary`: an embedding of a number of rows that is large or not known, so that a layer whose width is not
    known is as wide.
    """

    widest: dict[str, int] = field(default_factory=dict)
    convs: int = 0
    count: int = 0
    unknown: int = 0
    vocabulary: bool = False
    outside: bool = False  # a model or layer of a library, of no known size

    def note(self, kind: str, width: int) -> None:
        self.count += 1
        self.convs += kind == "conv"
        self.widest[kind] = max(width, self.widest.get(kind, 0))

    @property
    def settled(self) -> bool:
        """Whether nothing of unknown size is among them."""
        return bool(self.count) and not self.unknown and not self.outside

    @property
    def small(self) -> bool:
        """Linear and recurrent layers too small to gain from mixed precision, with small convolutions at most."""
        if not self.settled or not {"linear", "recurrent", "attention"} & self.widest.keys():
            return False
        return (
            self.convs <= FEW_CONVS
            and self.at_most("linear", SMALL_LINEAR)
            and self.at_most("attention", SMALL_LINEAR)
            and self.at_most("conv", SMALL_CONV)
            and self.at_most("recurrent", SMALL_RECURRENT)
            and self.at_most("embedding", SMALL_LINEAR)
        )

    @property
    def tiny(self) -> bool:
        """A net of few channels, such as LeNet."""
        return (
            self.settled
            and 0 < self.convs <= FEW_CONVS
            and self.widest.keys() <= {"conv", "linear"}
            and self.at_most("conv", TINY_CONV)
            and self.at_most("linear", TINY_LINEAR)
        )

    def at_most(self, kind: str, width: int) -> bool:
        return self.widest.get(kind, 0) <= width


def layers_of(modules: Iterable[Module]) -> Layers:
    """The layers of some modules and of all below them."""
    found = Layers()
    wide_open = 0
    for module in tree_of(modules):
        core = module.core
        if not isinstance(core.cls, Lib):
            found.unknown += _hides_layers(core)
            continue
        tags = torch_api.tags(core.cls.name)
        kind = next((kind for kind in _WIDTHS if kind in tags), None)
        if kind is None:
            found.unknown += module.call is not None and module.call.open and "container" in tags
            if not tags & _IGNORED_TAGS and not _weightless(core):
                found.outside = True
            continue
        wide_open += _measure(found, core, kind)
    if found.vocabulary:
        found.unknown += wide_open
    return found


def _hides_layers(module: Module) -> bool:
    """Whether a module of the project may hold layers that nobody saw: its class, a base, or a layer it is itself."""
    if not isinstance(module.cls, ProjectClass):
        return True
    bases = module.cls.lib_bases
    return module.cls.opaque or any(torch_api.tags(base) & _WIDTHS.keys() for base in bases)


def _measure(found: Layers, module: Module, kind: str) -> int:
    """Note a layer; 1 when one of its widths is open."""
    call = module.call if module.call is not None else CallArgs(open=True)
    known: list[int] = []
    gaps = 0
    for name in _WIDTHS[kind]:
        if name not in call.bound:
            continue
        widths = list(_numbers(call.bound[name]))
        known.extend(width for width in widths if width is not None)
        gaps += None in widths
    if kind == "attention" and "dim_feedforward" not in call.bound and "d_model" in call.bound:
        known.append(2048)
    if kind == "embedding" and "num_embeddings" in call.bound:
        rows = list(_numbers(call.bound["num_embeddings"]))
        found.vocabulary = found.vocabulary or any(row is None or row > 2000 for row in rows)
    if not known:
        found.count += 1
        found.unknown += 1
        return 0
    shared = "recurrent" if kind == "cell" else kind
    found.note(shared, max(known))
    return 1 if gaps and kind == "linear" else 0


def _numbers(value: Value) -> Iterator[int | None]:
    for option in options(value):
        if isinstance(option, Const) and isinstance(option.value, int):
            yield option.value
        else:
            yield None


def _weightless(module: Module) -> bool:
    """Whether a module of torch.nn without a width of its own (Flatten, Upsample, PixelShuffle)."""
    return isinstance(module.cls, Lib) and module.cls.name.startswith("torch.nn.") and module.cls.name.count(".") <= 3


def tree_of(modules: Iterable[Module]) -> Iterator[Module]:
    """Modules and all modules that they hold, each once, without wrappers."""
    seen: set[int] = set()
    stack: list[Value] = list(modules)
    while stack:
        current = stack.pop()
        for option in options(current):
            if id(option) in seen:
                continue
            seen.add(id(option))
            if isinstance(option, Module):
                if option.inner is not None:
                    stack.append(option.inner)
                    continue
                yield option
                stack.extend(option.children)
                stack.extend(option.attrs.values())
            elif isinstance(option, Sequence):
                stack.extend(option.items or ())
                if option.item is not None:
                    stack.append(option.item)
            elif isinstance(option, Mapping):
                stack.extend(option.entries.values())
                if option.rest is not None:
                    stack.append(option.rest)
            elif isinstance(option, Tuple):
                stack.extend(option.items)
            elif isinstance(option, Items):
                stack.append(option.item)
                if option.source is not None:
                    stack.append(option.source)

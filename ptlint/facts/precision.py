"""What a program does about precision, and the training loop that does nothing (`Precision.fault`).

Other rules lean on the fault: where it is reported, TF32 is not (CATALOGUE.md, PTL508).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards, torch_api
from ptlint.facts.events import Backward, Call, Ctx, Forward, Move, Place, ScalerCall, Step
from ptlint.facts.iteration import passes
from ptlint.facts.models import ATTENTION, CELL, CONV, EMBEDDING, LINEAR, PARAMETER, RECURRENT, Layer, Makeup
from ptlint.facts.scopes import leaves_loop, target_names, walk
from ptlint.facts.values import DEVICE, HOST, Const, Lib, Mode, Module, Optimizer, Tensor, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

HALF = "float16"
FEW_STEPS = 100
"""Up to this many iterations in all, a loop is a trial, not a training."""

SMALL = {LINEAR: 256, ATTENTION: 256, EMBEDDING: 256, CONV: 64, RECURRENT: 128, CELL: 128}
"""Up to these widths a layer keeps no GPU busy (CATALOGUE.md, PTL501)."""
TINY = {CONV: 24, LINEAR: 512}
"""Nets of few convolutions, with layers up to these widths, are made for tiny images (LeNet and its like)."""
FEW_CONVS = 4
"""With more convolutions than these a net has work to do, narrow as it may be."""
VOCABULARY = 2000
"""An embedding of more rows, or of a number not known, makes a layer of unknown width as wide."""

_CHOSEN = re.compile(
    r"autocast|grad_?scaler|native_?scaler|loss_?scal|b?float16|bf16|fp16|fp8|float8|halftensor|mixed[-_ ]?precision"
    r"|torch_dtype|--half\Z|--dtype\Z|--(\w+-)?precision\Z",
    re.IGNORECASE,
)
_AMP = re.compile(r"[\w.-]*(?<![a-zA-Z0-9])amp(?![a-zA-Z0-9])[\w.-]*\Z", re.IGNORECASE)
_SCALES = re.compile(r"native_?scaler|loss_?scal|scale_loss|shardedgradscaler", re.IGNORECASE)
_DEFAULT_SETTERS = frozenset({"set_autocast_dtype", "set_autocast_gpu_dtype"})
_PACKAGES = frozenset("apex transformer_engine torchao msamp colossalai megatron bitsandbytes".split())
_SPARSE_PACKAGES = frozenset(
    "torch_geometric dgl torch_sparse torch_scatter MinkowskiEngine spconv torchsparse".split()
)
_SPARSE_METHODS = frozenset(
    "to_sparse to_sparse_csr to_sparse_coo to_sparse_csc sparse_coo_tensor sparse_csr_tensor spmm".split()
)
_OWNERS = frozenset("deepspeed composer fastai colossalai".split())
"""Packages that own the step wherever they are imported."""


@dataclass(frozen=True)
class Fault:
    """A training loop in float32 on the GPU, and the modules that it runs, losses aside."""

    loop: Ctx
    modules: tuple[Module, ...]


@dataclass(frozen=True)
class UnscaledLoop:
    """A training loop in float16 without a GradScaler, and the autocast that asks for it."""

    loop: Ctx
    autocast: Place


class Precision:
    """The precision of one program."""

    def __init__(self, program: ProgramFacts) -> None:
        self._program = program

    @cached_property
    def chosen(self) -> str:
        """What shows that the program has something to say about precision, "" for nothing.

        Names and options are enough: an option that exists but is off is a choice too.
        """
        program = self._program
        for word in sorted(program.words):
            if _CHOSEN.search(word) or _AMP.match(word):
                return word
        for name in sorted(program.dotted):
            if name.endswith(".half"):
                return name
        for package in sorted(program.packages & _PACKAGES):
            return package
        return next((event.name for event in program.events(Call) if event.name.endswith(".half")), "")

    @cached_property
    def double(self) -> bool:
        """Whether models run in double precision on purpose."""
        program = self._program
        for event in program.events(Call):
            if event.name == "torch.nn.Module.double":
                return True
            if event.name in ("torch.set_default_dtype", "torch.set_default_tensor_type"):
                given = [*event.args.bound.values(), *event.args.extra]
                if any("64" in name or "ouble" in name for value in given for name in _names(value)):
                    return True
            if event.name == "torch.nn.Module.to" and any(
                name in ("torch.float64", "torch.double")
                for value in (*event.args.bound.values(), *event.args.extra)
                for name in _names(value)
            ):
                return True
        return any(
            isinstance(option, Tensor) and option.dtype in ("float64", "double")
            for event in program.events(Forward)
            if event.outer
            for value in event.args
            for option in options(value)
        )

    @cached_property
    def sparse(self) -> bool:
        """Whether the program multiplies sparse matrices."""
        program = self._program
        if program.packages & _SPARSE_PACKAGES:
            return True
        return any(
            name.startswith(("torch.sparse", "torch.spmm", "torch.hspmm")) or name.rpartition(".")[2] in _SPARSE_METHODS
            for name in program.dotted
        )

    @cached_property
    def fault(self) -> Fault | None:
        """The first training loop worth mixed precision in a program that has none."""
        program = self._program
        if not program.accelerated or self.chosen or self.double or self.sparse or self._is_owned:
            return None
        loops = sorted(program.training_loops, key=lambda loop: (self._rare(loop), self._order(loop)))
        for loop in loops:
            if loop.place is None or program.managed(loop) or program.off_path(loop):
                continue
            modules = tuple(self.modules(loop)) or self._stepped(loop)
            if modules is None or not self._on_device(loop, modules) or searches_rate(loop) or steps(loop) <= FEW_STEPS:
                continue
            if not too_small([program.makeup(module) for module in modules]):
                return Fault(loop, modules)
        return None

    @property
    def _is_owned(self) -> bool:
        """Whether a framework owns every step of the program."""
        program = self._program
        fabric = "Fabric" in program.words and bool(
            program.packages & {"lightning", "lightning_fabric", "pytorch_lightning"}
        )
        return fabric or bool(program.packages & _OWNERS)

    def modules(self, loop: Ctx) -> Iterator[Module]:
        """The modules that a loop calls, losses aside."""
        seen: set[int] = set()
        for event in self._program.forwards(loop):
            for option in options(event.module):
                if isinstance(option, Module) and id(option) not in seen and not self.is_loss(option):
                    seen.add(id(option))
                    yield option

    def _stepped(self, loop: Ctx) -> tuple[Module, ...] | None:
        """For a loop of whose calls nothing is known: the modules that its steps are for, None for plain tensors."""
        steps_ = (event for event in self._program.roles.under(loop) if isinstance(event, Step) and not event.by_hand)
        found = [option for step in steps_ for option in options(step.optimizer) if isinstance(option, Optimizer)]
        if not any(optimizer.opaque or optimizer.modules for optimizer in found):
            return None
        return tuple(module for optimizer in found for module in optimizer.modules)

    def is_loss(self, module: Module) -> bool:
        """Whether a module is a loss: the library's, or a project's without a weight of its own."""
        core = module.core
        if isinstance(core.cls, Lib):
            return "loss" in torch_api.tags(core.cls.name)
        makeup = self._program.makeup(module)
        return makeup.weightless or (not makeup.body and any(layer.kind == "loss" for layer in makeup.layers))

    def _on_device(self, loop: Ctx, modules: Iterable[Module]) -> bool:
        """Whether the loop may run on the GPU: not when every model of it was made and left on the host."""
        if any(module.core.cls is None or module.core.where != HOST or module.where != HOST for module in modules):
            return True
        program = self._program
        if program.words & {"set_default_device", "set_default_tensor_type", "device_map"}:
            return True
        moved = (event for event in program.events(Move) if event.ctx.inside(loop))
        return any(getattr(event.result, "where", HOST) == DEVICE for event in moved)

    def _rare(self, loop: Ctx) -> bool:
        return any(ctx.kind == "guard" and ctx.rarity in (guards.RARE, guards.EXCEPT) for ctx in loop.up())

    def _order(self, loop: Ctx) -> int:
        return min((event.order for event in self._program.roles.under(loop)), default=0)

    # Scaling

    @cached_property
    def scales(self) -> bool:
        """Whether something in the program may scale a loss: a GradScaler's `scale`, apex, a factor, a wrapper."""
        program = self._program
        if any(event.method in ("scale", "__call__") for event in program.events(ScalerCall)):
            return True
        if any(event.scaled or is_multiplied(event) for event in program.events(Backward)):
            return True
        if program.packages & _PACKAGES:
            return True
        if any(event.name == ".scale" for event in program.events(Call)):
            return True
        return any(_SCALES.search(word) for word in program.words)

    @cached_property
    def unscaled(self) -> list[UnscaledLoop]:
        """Training loops whose forward runs in float16 while nothing in the program scales a loss."""
        if self.scales or self._is_owned:
            return []
        found: dict[tuple[str, int], UnscaledLoop] = {}
        for loop in self._program.training_loops:
            if self._program.managed(loop) or self._program.off_path(loop):
                continue
            under = sorted(self._program.roles.under(loop), key=lambda event: event.order)
            for event in under:
                mode = autocast(event) if isinstance(event, Forward) and event.grad else None
                if mode is not None and mode.place is not None and self._in_half(mode):
                    found.setdefault(mode.place.key, UnscaledLoop(loop, mode.place))
        return list(found.values())

    def _in_half(self, mode: Mode) -> bool:
        """Whether an autocast is known to be on, for CUDA, in float16."""
        on = isinstance(mode.enabled, Const) and bool(mode.enabled.value)
        if not on or mode.device not in ("cuda", "accelerator") or mode.dtype != HALF:
            return False
        return not self._program.words & _DEFAULT_SETTERS


def _names(value: object) -> Iterator[str]:
    for option in options(value):  # type: ignore[arg-type]
        if isinstance(option, Lib):
            yield option.name
        elif isinstance(option, Const) and isinstance(option.value, str):
            yield option.value


def is_multiplied(backward: Backward) -> bool:
    """Whether a loss is written with a factor where its backward is called: `(loss * scale).backward()`."""
    call = backward.place.node
    loss = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
    if not isinstance(loss, cst.BinaryOperation) or not isinstance(loss.operator, cst.Multiply):
        return False
    numbers = [side for side in (loss.left, loss.right) if isinstance(side, (cst.Integer, cst.Float))]
    return all(number.evaluated_value > 1 for number in numbers)


def too_small(makeups: Iterable[Makeup]) -> bool:
    """Whether models are so small that half the bits would not make them faster."""
    layers: list[Layer] = []
    for makeup in makeups:
        if not makeup.in_sight:
            return False
        layers += (layer for layer in makeup.body if layer.kind != PARAMETER)
    kinds = {layer.kind for layer in layers}
    words = {_text(layer, "num_embeddings") for layer in layers if layer.kind == EMBEDDING and _is_vocabulary(layer)}
    if sum(layer.kind == CONV for layer in layers) > FEW_CONVS:
        return False
    small = bool(kinds & {LINEAR, RECURRENT, CELL, ATTENTION}) and all(_within(layer, SMALL, words) for layer in layers)
    tiny = CONV in kinds and all(_within(layer, TINY, words) for layer in layers)
    return small or tiny


def _within(layer: Layer, limits: dict[str, int], words: set[str]) -> bool:
    """Whether a layer is known not to be wider; of a size not known the others speak, but for the number of words.

    `words`: how the embeddings of words write that number.
    """
    known = [width for width in layer.widths if width is not None]
    if layer.kind not in limits or not known:
        return False
    if layer.kind == LINEAR and len(known) < len(layer.widths) and _text(layer, "out_features") in words:
        return False
    return max(known) <= limits[layer.kind]


def _text(layer: Layer, argument: str) -> str:
    """An argument of the call that made a layer, as written there."""
    call = layer.module.call if layer.module is not None else None
    node = call.nodes.get(argument) if call is not None else None
    place = layer.module.place if layer.module is not None else None
    return place.tree.code(node.value) if node is not None and place is not None else "?"


def _is_vocabulary(layer: Layer) -> bool:
    call = layer.module.call if layer.module is not None else None
    rows = options(call.get("num_embeddings")) if call is not None else ()
    return any(not isinstance(row, Const) or not isinstance(row.value, int) or row.value > VOCABULARY for row in rows)


def steps(loop: Ctx) -> float:
    """How often a loop's body runs in all, loops around it included; infinity where that is not known."""
    total = 1.0
    for around in loop.loops():
        length = passes(around.items)
        total *= float("inf") if length is None else length
    return total


def searches_rate(loop: Ctx) -> bool:
    """Whether a loop looks for a learning rate: it sets the rate in each iteration and stops when the loss explodes."""
    node = loop.place.node if loop.place is not None else None
    if not isinstance(node, (cst.For, cst.While)):
        return False
    nodes = list(walk(node.body))
    if not any(_sets_rate(inner) for inner in nodes):
        return False
    losses = _from_backward(nodes)
    return any(
        isinstance(inner, cst.If) and leaves_loop(inner.body) and losses & _read_names(inner.test) for inner in nodes
    )


def _sets_rate(node: cst.CSTNode) -> bool:
    if not isinstance(node, (cst.Assign, cst.AugAssign)):
        return False
    targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else [node.target]
    return any(
        isinstance(target, cst.Subscript)
        and any(isinstance(part, cst.SimpleString) and part.value[1:-1] == "lr" for part in walk(target))
        for target in targets
    )


def _from_backward(nodes: list[cst.CSTNode]) -> set[str]:
    """The names that hold a loss, or something computed from it."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "backward":
            found |= _read_names(node.func.value)
    for _ in range(3):
        for node in nodes:
            if isinstance(node, cst.Assign) and found & _read_names(node.value):
                for target in node.targets:
                    found.update(target_names(target.target))
    return found


def _read_names(node: cst.CSTNode) -> set[str]:
    return {part.value for part in walk(node) if isinstance(part, cst.Name)}


def autocast(event: Forward | Backward | Step) -> Mode | None:
    """The innermost autocast in force, whatever it does."""
    return next((mode for mode in event.ctx.modes() if mode.kind == "autocast"), None)

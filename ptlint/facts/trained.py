"""The models that a program trains or evaluates: where they are made and placed, what speaks against compiling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards, roles
from ptlint.facts.events import Backward, Call, Construct, Ctx, Forward, Place, Placed, Step
from ptlint.facts.iteration import passes
from ptlint.facts.models import parts
from ptlint.facts.roles import in_forward
from ptlint.facts.scopes import dotted, walk
from ptlint.facts.values import Const, Lib, Module, Optimizer, ProjectClass, Tuple, Value, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

FEW_STEPS = 100
"""So few steps in all never win back what compiling costs."""

_READS = frozenset({"item", "tolist", "numpy"})
EXPORTS = frozenset(
    "torch.jit.trace torch.jit.script torch.jit.trace_module torch.onnx.export torch.export.export".split()
)
_PROCESSES = frozenset(
    "torch.multiprocessing.Process multiprocessing.Process torch.multiprocessing.spawn "
    "torch.multiprocessing.start_processes torch.multiprocessing.context.Process".split()
)
_GRAPH_LIBRARIES = frozenset({"torch_geometric", "dgl", "torch_sparse", "torch_scatter", "spconv", "MinkowskiEngine"})
_GRAPHS = ("torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables")
_OTHER_COMPILERS = frozenset({"torch_xla", "deepspeed", "torch_tensorrt", "torch2trt", "thunder"})
_TWICE = frozenset("torch.autograd.functional.hessian torch.func.hessian torch.func.jacfwd torch.func.jacrev".split())


@dataclass(frozen=True)
class UsedModel:
    """A model that loops call.

    `place`: the last statement that places it, bare, before an optimizer takes it, else the one that makes it.
    `loop`: the first loop that calls it; `forwards`: its calls there.
    """

    module: Module
    place: Place
    loop: Ctx
    forwards: tuple[Forward, ...]
    optimizer: Optimizer | None = None


class UsedModels:
    """What a program's loops call."""

    def __init__(self, program: ProgramFacts) -> None:
        self.program = program
        self._made = _first_places(program)
        self._broken: set[int] | None = None

    def trained(self) -> list[UsedModel]:
        """The models that optimizers hold and training loops call, in the order in which they are made."""
        return self._in_order(self.program.training_loops, training=True)

    def evaluated(self) -> list[UsedModel]:
        """The models that evaluation loops call, in the order in which they are made."""
        return self._in_order(self.program.evaluation_loops, training=False)

    def _in_order(self, loops: list[Ctx], *, training: bool) -> list[UsedModel]:
        found: dict[int, UsedModel] = {}
        for loop in loops:
            calls: dict[int, tuple[Module, list[Forward]]] = {}
            for event in sorted(self.program.roles.under(loop), key=lambda event: event.order):
                if isinstance(event, Forward):
                    for module in self._models_of(event, loop, training=training):
                        calls.setdefault(id(module), (module, []))[1].append(event)
            for module, events in calls.values():
                if self.program.makeup(module).weightless:
                    continue
                optimizer = self._optimizer_of(module, loop, events) if training else None
                place = self._place(module, optimizer)
                if id(module) in found or place is None or (training and optimizer is None):
                    continue
                found[id(module)] = UsedModel(module, place, loop, tuple(events), optimizer)
        return sorted(found.values(), key=lambda used: self._order(used.module))

    def _models_of(self, event: Forward, loop: Ctx, *, training: bool) -> Iterator[Module]:
        """The models that a call runs: the module called, or the one whose own method calls it (`model.encode(x)`)."""
        entered: Module | None = None
        by_call = False
        for up in event.ctx.up():
            if up is loop:
                break
            function = up.function if up.kind == "frame" else None
            if function is not None and isinstance(function.self_value, Module):
                entered, by_call = function.self_value.core, in_forward(function)
        called = [option.core for option in options(event.module) if isinstance(option, Module)]
        if entered is None:
            yield from called
            return
        # Inside a module that only computes the loss, or that holds several networks, the models are those held.
        held = [module.core for module in self.program.trained]
        if training and not any(entered is module for module in held):
            inner = [m for m in called if any(m is module for module in held) and not isinstance(m.cls, Lib)]
            if inner and (not by_call or self._is_all_of(inner[0], entered)):
                yield from inner
                return
        yield entered

    def _is_all_of(self, part: Module, whole: Module) -> bool:
        """Whether every layer of a module belongs to one part of it."""
        return len(self.program.makeup(part).body) == len(self.program.makeup(whole).body)

    def _optimizer_of(self, module: Module, loop: Ctx, events: list[Forward]) -> Optimizer | None:
        """The optimizer that holds the model, or a part of it."""
        ids = {id(part) for part in parts(module)}
        for optimizer in self.program.optimizers:
            if any(id(held.core) in ids for held in optimizer.modules):
                return optimizer
        if module.frozen:
            return None
        # Parameters gathered by code that cannot be read are those of what the backward goes through.
        if not any(self.program.gradients.reach(event) for event in events):
            return None
        for step in self.program.roles.under(loop):
            if isinstance(step, Step):
                for option in options(step.optimizer):
                    if isinstance(option, Optimizer) and option.opaque and not option.modules and not option.tensors:
                        return option
        return None

    def _order(self, module: Module) -> int:
        made = self._made.get(id(module))
        return made[0] if made is not None else 0

    def _place(self, module: Module, optimizer: Optimizer | None) -> Place | None:
        until = self._made[id(optimizer)][0] if optimizer is not None and id(optimizer) in self._made else None
        last: Placed | None = None
        for event in self.program.events(Placed):
            for option in options(event.module):
                if option is module and (until is None or event.order < until) and not _rare(event.ctx):
                    last = event if last is None or event.order > last.order else last
        if last is not None:
            return last.place
        made = self._made.get(id(module))
        if made is not None:
            # An object made by ourselves, to look into a class that nothing instantiates, has no place of its own.
            return made[1].place if isinstance(made[1].place.node, cst.Call) and not _rare(made[1].ctx) else None
        place = module.place
        if place is None or not isinstance(place.node, cst.Name):
            return None
        return place if isinstance(place.tree.statement(place.node), cst.Assign) else None

    def wrappers(self, module: Module) -> set[str]:
        """What wraps a model, unless an option that is off by default asks for it: "dataparallel", "ddp", "fsdp"…"""
        return {
            event.value.wrapper
            for event in self.program.made(Module)
            if isinstance(event.value, Module) and event.value.core is module.core and not _rare(event.ctx)
        }

    # What speaks against compiling

    def compiles(self) -> bool:
        """Whether anything in the program is compiled, or its steps are captured or run by another compiler."""
        program = self.program
        if program.packages & _OTHER_COMPILERS:
            return True
        names = program.dotted
        return any(
            (name.endswith(".compile") and name.partition(".")[0] not in ("re", "regex")) or name.startswith(_GRAPHS)
            for name in names
        ) or any(
            item.name == "compile" and item.module == "torch"
            for path in program.program.files
            for item in program.project.file(path).outline.imports
        )

    def differentiates_twice(self) -> bool:
        """Whether a gradient is made to be differentiated again."""
        if self.program.calls(*_TWICE):
            return True
        given: list[Value] = [event.args.get("create_graph") for event in self.program.calls("torch.autograd.grad")]
        given += [event.args.get("create_graph") for event in self.program.events(Backward)]
        return any(isinstance(option, Const) and bool(option.value) for value in given for option in options(value))

    def few_steps(self, loop: Ctx) -> bool:
        """Whether a loop is known to run a few times only, all in all."""
        total = 1
        for up in loop.loops():
            length = passes(up.items)
            if length is None:
                return False
            total *= length
        return total <= FEW_STEPS

    def unfit(self, used: UsedModel) -> bool:
        """Whether compiling this model would not pay, or would not work."""
        module = used.module
        makeup = self.program.makeup(module)
        return (
            makeup.recurrent_body
            or makeup.one_layer
            or self.few_steps(used.loop)
            or self.sparse(module)
            or self.scripted(module)
            or self.breaks(module)
        )

    def scripted(self, module: Module) -> bool:
        """Whether what runs is a TorchScript form of the model."""
        return any(
            isinstance(option, Module) and option.wrapper == "script" and option.core is module.core
            for event in self.program.events(Forward)
            for option in options(event.module)
        )

    def sparse(self, module: Module) -> bool:
        """Whether the model works on sparse tensors."""
        if self.program.makeup(module).sparse or self.program.packages & _GRAPH_LIBRARIES:
            return True
        inside = {id(part) for part in parts(module)}
        return any(
            ("sparse" in event.name or event.name in ("torch.spmm", "torch.hspmm")) and _forward_of(event.ctx, inside)
            for event in self.program.events(Call)
        )

    def breaks(self, module: Module) -> bool:
        """Whether a forward that training reaches leaves the graph in each step: reads, NumPy, loops over a size."""
        if self._broken is None:
            self._broken = self._find_broken()
        return any(id(part) in self._broken for part in parts(module))

    def _find_broken(self) -> set[int]:
        broken: set[int] = set()
        verdicts: dict[int, bool] = {}
        for ctx in self.program.run.root.down():
            function = ctx.function if ctx.kind == "frame" else None
            if function is None:
                continue
            node = function.node
            verdict = verdicts.get(id(node))
            if verdict is None:
                verdict = verdicts[id(node)] = _leaves_graph(node)
            if verdict:
                broken.update(_forwards_around(ctx))
        for event in self.program.events(Call):
            if event.name.startswith("numpy."):
                broken.update(_forwards_around(event.ctx))
        return broken

    def traced(self, module: Module) -> bool:
        """Whether the model is traced or exported."""
        return any(_is_among(module, event.args.bound.values()) for event in self.program.calls(*EXPORTS))

    def sent_to_processes(self, module: Module) -> bool:
        """Whether the model is pickled, or its memory shared, for other processes."""
        shared = self.program.calls("torch.nn.Module.share_memory")
        if any(isinstance(event.receiver, Module) and event.receiver.core is module.core for event in shared):
            return True
        started = self.program.calls(*_PROCESSES)
        return any(_is_among(module, [*event.args.bound.values(), *event.args.extra]) for event in started)

    def called_itself(self, used: UsedModel) -> bool:
        """Whether a loop calls the model as such: not one of its methods, nor `forward` past the call."""
        return any(
            not event.method and option.core is used.module
            for event in used.forwards
            for option in options(event.module)
            if isinstance(option, Module)
        )


def runs_as_torchs_own(module: Module) -> bool:
    """Whether the `forward` of a class of `torch.nn` itself runs a module: compiled in place, that captures nothing."""
    cls = module.core.cls
    if isinstance(cls, ProjectClass):
        return cls.find("forward") is None and any(base != "torch.nn.Module" for base in cls.lib_bases)
    return isinstance(cls, Lib) and cls.name.startswith("torch.nn.") and not module.core.wrapper


def wraps(module: Module, wrapper: Module) -> bool:
    """Whether a wrapper is among those around a module, or is the module itself."""
    current: Module | None = module
    while current is not None and current is not wrapper:
        current = current.inner
    return current is wrapper


def _first_places(program: ProgramFacts) -> dict[int, tuple[int, Construct]]:
    """The first construction of each object, and its order."""
    found: dict[int, tuple[int, Construct]] = {}
    for event in program.events(Construct):
        known = found.get(id(event.value))
        if known is None or event.order < known[0]:
            found[id(event.value)] = (event.order, event)
    return found


def _rare(ctx: Ctx) -> bool:
    return any(up.kind == "guard" and up.rarity in (guards.RARE, guards.OFF_PATH, guards.EXCEPT) for up in ctx.up())


def _forward_of(ctx: Ctx, modules: set[int]) -> bool:
    return any(known in modules for known in _forwards_around(ctx, training=False))


def _forwards_around(ctx: Ctx, *, training: bool = True) -> list[int]:
    """The modules whose forward runs in a context, where a training loop runs it."""
    found: list[int] = []
    for up in ctx.up():
        if up.kind == "frame" and up.function is not None and in_forward(up.function):
            receiver = up.function.self_value
            if isinstance(receiver, Module):
                found.append(id(receiver.core))
        elif up.kind == "loop" and up.role == roles.TRAINING:
            return found
    return [] if training else found


def _leaves_graph(node: cst.FunctionDef | cst.Lambda) -> bool:
    """Whether a function reads tensors on the host or loops over a tensor's size."""
    for inner in walk(node):
        if isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute):
            if inner.func.attr.value in _READS and not inner.args:
                return True
        elif isinstance(inner, (cst.For, cst.CompFor)) and _speaks_of_size(inner.iter):
            return True
    return False


def _speaks_of_size(node: cst.BaseExpression) -> bool:
    """`range(x.size(1))`, with or without a count or progress bar around it."""
    ranges = (inner for inner in walk(node) if isinstance(inner, cst.Call) and dotted(inner.func) == "range")
    return any(
        isinstance(inner, cst.Attribute) and inner.attr.value in ("size", "shape")
        for each in ranges
        for inner in walk(each)
    )


def _is_among(module: Module, values: object) -> bool:
    stack = list(values)  # type: ignore[call-overload]
    while stack:
        for option in options(stack.pop()):
            if isinstance(option, Module) and option.core is module.core:
                return True
            if isinstance(option, Tuple):
                stack.extend(option.items)
    return False

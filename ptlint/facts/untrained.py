"""Modules that no optimizer holds, and what their gradients cost (CATALOGUE.md, PTL307 and PTL308)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.events import Backward, Call, Construct, Ctx, Event, Forward, Place, Step
from ptlint.facts.gradients import tracked
from ptlint.facts.models import ATTENTION as ATTENTION_LAYER
from ptlint.facts.models import CELL, CONV, EMBEDDING, LINEAR, MODEL, RECURRENT, parts
from ptlint.facts.scopes import walk
from ptlint.facts.values import ANYWHERE, Lib, Module, Optimizer, ProjectClass, Tokens, Value, came_of, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

TARGET, GENERATED, DROPPED = "target", "generated", "dropped"

_HEAVY = frozenset({CONV, LINEAR, RECURRENT, CELL, ATTENTION_LAYER, EMBEDDING, MODEL})
_FREEZES = frozenset({"requires_grad", "requires_grad_", "no_grad", "inference_mode", "freeze", "detach", "detach_"})
_GOES_OVER = frozenset({"zip", "enumerate"})
_GIVES_WEIGHTS = tuple(
    f"torch.nn.Module.{name}"
    for name in "parameters named_parameters buffers named_buffers state_dict load_state_dict apply modules".split()
)
_CUTS = frozenset({"detach", "detach_", "data"})


@dataclass(frozen=True)
class Tracked:
    """A module call in a training loop that autograd records for nothing.

    `kind`: TARGET (no optimizer holds the network), GENERATED (a step of another network goes through its input, the
    argument `given`), DROPPED (all that is used of the result is detached).
    """

    place: Place
    kind: str
    loop: Ctx
    given: cst.BaseExpression | None = None


@dataclass(frozen=True)
class Idle:
    """An optimizer whose loss goes through a model that no optimizer holds and that collects gradients all the same."""

    place: Place
    forward: Place
    loop: Ctx


class Untrained:
    """The modules of a program that nothing trains."""

    def __init__(self, program: ProgramFacts) -> None:
        self._program = program
        self._forwards = {event.token: event for event in program.events(Forward)}

    @cached_property
    def _known(self) -> bool:
        """Whether it is known of every optimizer whose parameters it holds."""
        optimizers = self._program.optimizers
        return bool(optimizers) and not any(optimizer.opaque for optimizer in optimizers)

    @cached_property
    def idle(self) -> list[Idle]:
        """Optimizers of loops whose loss goes through a model with weights that are neither trained nor frozen."""
        found: dict[tuple[str, int], Idle] = {}
        made = {id(event.value): event.place for event in self._program.events(Construct)}
        for loop, backward, steps in self._passes():
            for forward in self._through(came_of(backward.value)):
                if not self._is_idle(forward):
                    continue
                for optimizer in steps:
                    place = made.get(id(optimizer))
                    if place is not None and self._serves(forward, optimizer, came_of(backward.value)):
                        found.setdefault(place.key, Idle(place, forward.place, loop))
        return list(found.values())

    @cached_property
    def tracked(self) -> list[Tracked]:
        """Module calls that are recorded for nothing, one for a statement."""
        if not self._known:
            return []
        found: dict[int, Tracked] = {}
        for item in sorted(self._find(), key=lambda item: item.place.start):
            statement = item.place.tree.statement(item.place.node)
            found.setdefault(id(statement), item)
        return list(found.values())

    def stays(self, value: Value, loop: Ctx) -> bool:
        """Whether it is known of a module that nothing in a loop changes its weights."""
        program, modules = self._program, self._modules(value)
        if not self._known or not self._steps_known(loop) or not modules or len(modules) < len(options(value)):
            return False
        if self._is_held(value, program.optimizers):
            return False
        ids = {id(part) for module in modules for part in parts(module)}
        return not any(
            isinstance(call.receiver, Module) and id(call.receiver.core) in ids and call.ctx.inside(loop)
            for call in program.calls(*_GIVES_WEIGHTS)
        ) and not any(self._is_given_away(module) for module in modules)

    def _find(self) -> Iterator[Tracked]:
        program = self._program
        by_place: dict[tuple[str, int], list[Forward]] = {}
        for event in program.events(Forward):
            if event.outer:
                by_place.setdefault(event.place.key, []).append(event)
        for events in by_place.values():
            hot = [(event, loop) for event in events if (loop := self._training_loop(event)) is not None]
            if not hot or not all(event.grad and tracked(event.result) for event, _ in hot) or len(hot) < len(events):
                continue
            event, loop = hot[0]
            if all(self._is_target(event, loop) for event, loop in hot):
                yield Tracked(event.place, TARGET, loop)
            elif all(self._is_dropped(event) for event, _ in hot):
                yield Tracked(event.place, DROPPED, loop)
        yield from self._generated()

    def _training_loop(self, event: Event) -> Ctx | None:
        loop = self._program.hot(event)
        if loop is None or loop.role != "training" or self._program.managed(loop) or self._program.off_path(event.ctx):
            return None
        return loop

    def _is_target(self, event: Forward, loop: Ctx) -> bool:
        """Whether it is the forward of a network without an optimizer, on an input that nothing trains."""
        if not self._is_idle(event) or not self._steps_known(loop):
            return False
        for value in event.args:
            tokens = came_of(value)
            if tracked(value) and not tokens:
                return False
            if not all(token in self._forwards and self._is_idle(self._forwards[token]) for token in tokens):
                return False
        return not any(self._is_input_of_trained(event, backward) for backward in self._program.events(Backward))

    def _is_input_of_trained(self, event: Forward, backward: Backward) -> bool:
        """Whether a backward goes through a trained module that got the result: a head (PTL308)."""
        tokens = came_of(backward.value)
        return event.token in tokens and any(
            event.token in came_of(*other.args) and self._is_held(other.module, self._program.optimizers)
            for other in self._through(tokens)
        )

    def _is_dropped(self, event: Forward) -> bool:
        """Whether the text uses the result only detached."""
        if self._program.gradients.reach(event) or not self._modules(event.module):
            return False
        if not any(self._has_weights(module) for module in self._modules(event.module)):
            return False
        tree, node = event.place.tree, event.place.node
        parent = tree.parent(node)
        if isinstance(parent, cst.Attribute):
            return parent.attr.value in _CUTS
        if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
            return False
        target = parent.targets[0].target
        if not isinstance(target, cst.Name):
            return False
        scope = next((above for above in tree.ancestors(node) if isinstance(above, cst.FunctionDef)), None)
        if scope is None and sum(target.value in s.words for s in event.place.file.outline.statements) > 1:
            return False
        uses = [
            inner
            for inner in (walk(scope, into_scopes=True) if scope is not None else tree.walk())
            if isinstance(inner, cst.Name) and inner.value == target.value and inner is not target
        ]
        return bool(uses) and all(_is_cut(tree.parent(use), use) for use in uses)

    def _generated(self) -> Iterator[Tracked]:
        """Discriminators' own steps that run backward into the generator."""
        for loop, backward, steps in self._passes():
            if not self._steps_known(loop):
                continue
            tokens = came_of(backward.value)
            for event in self._through(tokens):
                if not event.grad or not self._is_held(event.module, steps) or event.method:
                    continue
                for index, value in enumerate(event.args):
                    given = came_of(value)
                    makers = list(self._through(given))
                    if not makers or len(makers) < len(given) or not tracked(value):
                        continue
                    if any(self._is_held(maker.module, steps) for maker in makers):
                        continue
                    if all(self._is_zeroed(maker, backward, loop) for maker in makers):
                        node = event.place.node
                        arg = node.args[index] if isinstance(node, cst.Call) and index < len(node.args) else None
                        if arg is not None and not arg.star:
                            yield Tracked(event.place, GENERATED, loop, arg.value)

    def _is_zeroed(self, maker: Forward, backward: Backward, loop: Ctx) -> bool:
        """Whether the gradients that a backward leaves in a trained module are thrown away before its own step."""
        own = [o for o in self._program.optimizers if self._is_held(maker.module, [o])]
        if not own:
            return False
        steps = [e for e in self._program.events(Step) if e.ctx.inside(loop) and _optimizers(e) & {id(o) for o in own}]
        zeros = [
            call
            for call in self._program.calls("torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad")
            if call.ctx.inside(loop) and (_is_one_of(call.receiver, own) or self._is_held(call.receiver, own))
        ]
        if not steps or not zeros:
            return False
        step = _next(steps, backward.order)
        zero = _next(zeros, backward.order)
        return (zero.order - backward.order if zero.order > backward.order else zero.order + _WRAP) < (
            step.order - backward.order if step.order > backward.order else step.order + _WRAP
        )

    def _passes(self) -> Iterator[tuple[Ctx, Backward, list[Optimizer]]]:
        """The backward passes of training loops, each with the optimizers that step next."""
        program = self._program
        if not self._known:
            return
        for loop in program.training_loops:
            if program.managed(loop) or program.off_path(loop):
                continue
            inside = [e for kind in (Backward, Step) for e in program.events(kind) if e.ctx.inside(loop)]
            inside.sort(key=lambda event: event.order)
            for index, event in enumerate(inside):
                if isinstance(event, Backward) and not came_of(event.value) & ANYWHERE:
                    yield loop, event, list(_steps_after(inside[index + 1 :]))

    def _steps_known(self, loop: Ctx) -> bool:
        """Whether every step of a loop is that of an optimizer of which all is known."""
        return all(
            _optimizers(event) and not event.by_hand
            for event in self._program.roles.under(loop)
            if isinstance(event, Step)
        )

    def _through(self, tokens: Tokens) -> Iterator[Forward]:
        for token in tokens:
            event = self._forwards.get(token)
            if event is not None:
                yield event

    def _modules(self, value: Value | None) -> list[Module]:
        return [option.core for option in options(value) if isinstance(option, Module)] if value is not None else []

    def _is_held(self, value: Value | None, optimizers: list[Optimizer]) -> bool:
        """Whether optimizers hold parameters of a module."""
        held = [held.core for optimizer in optimizers for held in optimizer.modules]
        for module in self._modules(value):
            ids = {id(part) for part in parts(module)}
            # A copy shares what is below it with its original: what counts is what optimizers were given.
            below = held if _is_copy(module) else [part for root in held for part in parts(root)]
            if any(id(part) in ids for part in below):
                return True
        return False

    def _is_idle(self, event: Forward) -> bool:
        """Whether a call is that of a network with weights that no optimizer holds and that require gradients."""
        modules = self._modules(event.module)
        if (
            not modules
            or len(modules) < len(options(event.module))
            or self._is_held(event.module, self._program.optimizers)
        ):
            return False
        return (
            event.grad
            and tracked(event.result)
            and all(self._has_weights(module) and not self._is_given_away(module) for module in modules)
        )

    def _has_weights(self, module: Module) -> bool:
        """Whether a module is known to have weights that require gradients."""
        makeup = self._program.makeup(module)
        below = list(parts(module))
        frozen = {id(inner) for part in below if part.frozen for inner in parts(part)}
        if id(module.core) in frozen or makeup.weightless or self._program.precision.is_loss(module):
            return False
        heavy = [layer for layer in makeup.body if layer.kind in _HEAVY]
        if isinstance(module.core.cls, ProjectClass):
            cls = module.core.cls
            if cls.opaque or any(
                base != "torch.nn.Module" and not base.startswith("torch.nn.") for base in cls.lib_bases
            ):
                return False
            if frozen or any(_speaks_of_freezing(part.cls) for part in below if isinstance(part.cls, ProjectClass)):
                return False
            return bool(heavy) or not makeup.in_sight
        own = isinstance(module.core.cls, Lib) and module.core.cls.name.startswith(
            ("torch.nn.", "torchvision.", "timm.")
        )
        return own and any(layer.module is not None and id(layer.module) not in frozen for layer in heavy)

    def _is_given_away(self, module: Module) -> bool:
        """Whether code that is not understood gets the parameters, which may train them."""
        program = self._program
        ids = {id(part) for part in parts(module)}
        return any(
            isinstance(call.receiver, Module) and id(call.receiver.core) in ids and not _is_gone_over(program, call)
            for call in program.calls("torch.nn.Module.parameters", "torch.nn.Module.named_parameters")
        )

    def _serves(self, forward: Forward, optimizer: Optimizer, tokens: Tokens) -> bool:
        """Whether an optimizer trains what goes into a forward, or what its result goes into."""
        for value in forward.args:
            given = came_of(value)
            if tracked(value) and not given and optimizer.tensors:
                return True
            if any(self._is_held(maker.module, [optimizer]) for maker in self._through(given)):
                return True
        return any(
            forward.token in came_of(*other.args) and self._is_held(other.module, [optimizer])
            for other in self._through(tokens)
        )


_WRAP = 1 << 40
"""Added to the order of what comes before a pass's event, and so in the next pass."""


def _is_copy(module: Module) -> bool:
    call = module.place.node if module.place is not None else None
    func = call.func if isinstance(call, cst.Call) else None
    name = func.attr if isinstance(func, cst.Attribute) else func
    return isinstance(name, cst.Name) and name.value in ("deepcopy", "copy")


def _optimizers(event: Step) -> set[int]:
    return {id(option) for option in options(event.optimizer) if isinstance(option, Optimizer)}


def _steps_after(events: list[Event]) -> Iterator[Optimizer]:
    """The optimizers that step next, backward passes before them looked over."""
    stepped = False
    for event in events:
        if isinstance(event, Backward) and stepped:
            return
        if isinstance(event, Step):
            stepped = True
            yield from (option for option in options(event.optimizer) if isinstance(option, Optimizer))


def _next(events: list[Event] | list[Step] | list[Call], order: int) -> Event:
    return min(events, key=lambda event: event.order if event.order > order else event.order + _WRAP)


def _is_one_of(value: Value | None, optimizers: list[Optimizer]) -> bool:
    return value is not None and any(option is known for option in options(value) for known in optimizers)


def _is_cut(parent: cst.CSTNode | None, use: cst.Name) -> bool:
    return isinstance(parent, cst.Attribute) and parent.value is use and parent.attr.value in _CUTS


def _speaks_of_freezing(cls: ProjectClass) -> bool:
    return any(
        isinstance(node, cst.Name) and node.value in _FREEZES
        for owner in cls.mro()
        for part in owner.code()
        for node in walk(part, into_scopes=True)
    )


def _is_gone_over(program: ProgramFacts, call: Call) -> bool:
    """Whether parameters are what a `for` goes over, as they are for a moving average."""
    tree = call.place.tree
    node: cst.CSTNode = call.place.node
    parent = tree.parent(node)
    while isinstance(parent, cst.Arg) and (above := tree.parent(parent)) is not None:
        names = [each.name for each in program.calls_at(above)]
        if not names or not all(name in _GOES_OVER or "iterates" in torch_api.tags(name) for name in names):
            return False
        node, parent = above, tree.parent(above)
    return isinstance(parent, (cst.For, cst.CompFor)) and parent.iter is node


__all__ = ["DROPPED", "GENERATED", "TARGET", "Idle", "Tracked", "Untrained"]

"""What gradients are used for: which module calls a backward goes through, and where anything is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptlint.facts.events import Backward, Call, Ctx, Event, Forward, Place, Step
from ptlint.facts.values import ANYWHERE, ATTACHED, NOWHERE, Tensor, Tokens, Unknown, Value, came_of, held_by, options

if TYPE_CHECKING:
    import libcst as cst

    from ptlint.facts.run import Run

_DIFFERENTIATE = frozenset(
    "torch.autograd.grad torch.autograd.backward torch.autograd.functional.jacobian torch.autograd.functional.hessian "
    "torch.func.grad torch.func.vjp torch.func.jacrev".split()
)


class Gradients:
    """The uses of gradients in a program."""

    def __init__(self, run: Run) -> None:
        self._used: Tokens = NOWHERE
        self._training: set[int] = set()
        self._nodes: set[int] = set()
        self._needing: list[Event] = []
        for event in run.trace:
            if isinstance(event, Backward):
                self._used |= came_of(event.value, *event.args.bound.values())
            elif isinstance(event, Call) and event.name in _DIFFERENTIATE:
                self._used |= came_of(*event.args.bound.values(), *event.args.extra)
            elif not isinstance(event, Step):
                continue
            self._note(event.ctx)
            self._needing.append(event)
        for event in run.trace:
            if isinstance(event, Forward) and self.reach(event):
                self._note_nodes(event.ctx)
                self._needing.append(event)

    def _note(self, ctx: Ctx) -> None:
        self._training.update(id(up) for up in ctx.up())
        self._note_nodes(ctx)

    def _note_nodes(self, ctx: Ctx) -> None:
        for up in ctx.up():
            if up.kind == "frame" and up.function is not None:
                self._nodes.add(id(up.function.node))
            elif up.kind == "loop" and up.place is not None:
                self._nodes.add(id(up.place.node))

    def reach(self, event: Event) -> bool:
        """Whether a backward goes through the result of a module call, or through what a store kept."""
        return event.token in self._used or bool(ANYWHERE & self._used)

    def trains(self, ctx: Ctx) -> bool:
        """Whether gradients are used, or parameters updated, in a context or below it."""
        return id(ctx) in self._training

    def needed_at(self, frame: Ctx) -> list[Place]:
        """Where a function, by itself or by what it calls, trains or calls a module that a backward goes through."""
        found: list[Place] = []
        for event in self._needing:
            place, ctx = event.place, event.ctx
            while (below := ctx.frame()) is not frame and below.kind == "frame" and below.place is not None:
                assert below.parent is not None  # only the root has none
                place, ctx = below.place, below.parent
            if ctx.frame() is frame:
                found.append(place)
        return found

    def needed_in(self, node: cst.CSTNode) -> bool:
        """Whether on some path of calls a function or loop trains, or calls a module that a backward goes through."""
        return id(node) in self._nodes


def tracked(value: Value, depth: int = 3) -> bool:
    """Whether a value is known to hold a graph."""
    for option in options(value):
        if isinstance(option, (Tensor, Unknown)):
            if option.graph == ATTACHED:
                return True
        elif depth and any(tracked(item, depth - 1) for item in held_by(option)):
            return True
    return False

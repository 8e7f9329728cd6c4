"""Work of every iteration whose result only a branch uses that is seldom taken: what is logged every hundred steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards
from ptlint.facts.events import Call, Compared, Ctx, Event, Forward, Place
from ptlint.facts.occurrences import BIND, READ, Occurrence, occurrences
from ptlint.facts.purity import Purity
from ptlint.facts.scopes import target_names, walk
from ptlint.facts.values import Module, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.syntax.tree import Tree

_FEW_WORKS = 2
_VIEWS = frozenset(
    "view reshape size dim detach squeeze unsqueeze permute transpose t item tolist numpy cpu to cuda expand "
    "expand_as view_as numel contiguous flatten unbind chunk split narrow is_cuda".split()
)
"""Methods that compute nothing."""


@dataclass(frozen=True)
class LogOnly:
    """An assignment that does work in each iteration of a hot loop for a guard alone. `forward`: it calls a model."""

    place: Place
    guard: Place
    loop: Ctx
    forward: bool


def log_only(program: ProgramFacts) -> Iterator[LogOnly]:
    """Model calls of which only a seldom branch uses the result, and the first such metric of each block."""
    purity: Purity | None = None
    read = {id(each.place.node) for group in program.reads.groups for each in group.reads}
    for region in _regions(program):
        kept = region.kept
        if not kept:
            continue
        purity = purity if purity is not None else Purity(program)
        metrics: list[tuple[cst.Assign, int]] = []
        waits = False
        for assign in kept:
            place = region.guard.at(assign)
            happened = purity.happened(place, assign.value)
            if happened is None:
                continue
            if any(isinstance(event, Forward) and _is_model(program, event) for event in happened):
                yield LogOnly(place, region.guard_of(assign), region.loop, True)
                continue
            metrics.append((assign, sum(_is_work(event) for event in happened)))
            waits = waits or any(id(node) in read for node in walk(assign.value, into_scopes=True))
        # What makes the host wait is a fault of its own (PTL201), which moves the metric as well.
        if metrics and not waits and sum(works for _, works in metrics) >= _FEW_WORKS:
            first = next(assign for assign, works in metrics if works)
            yield LogOnly(region.guard.at(first), region.guard_of(first), region.loop, False)


def _is_model(program: ProgramFacts, event: Forward) -> bool:
    modules = [option for option in options(event.module) if isinstance(option, Module)]
    return any(not program.makeup(module).weightless and not program.precision.is_loss(module) for module in modules)


def _is_work(event: Event) -> bool:
    if isinstance(event, Compared):
        return True
    return isinstance(event, Call) and event.name.startswith("torch.") and event.name.rpartition(".")[2] not in _VIEWS


class _Region:
    """The body of a loop or function that a hot loop runs each time, with the guards in it that seldom hold."""

    def __init__(self, body: cst.CSTNode, guard: Place, loop: Ctx) -> None:
        self.guard = guard
        self.loop = loop
        self.guards: list[cst.If] = []
        self._body = body
        self._tree: Tree = guard.tree

    @cached_property
    def _holder(self) -> cst.FunctionDef | cst.Module:
        found = (node for node in self._tree.ancestors(self.guard.node) if isinstance(node, cst.FunctionDef))
        return next(found, self._tree.module)

    @cached_property
    def _assigns(self) -> dict[int, cst.Assign]:
        """The plain assignments of names in the body itself, or under a `with` in it."""
        found: dict[int, cst.Assign] = {}
        stack = [self._body]
        while stack:
            block = stack.pop()
            for node in getattr(block, "body", ()):
                if isinstance(node, cst.With):
                    stack.append(node.body)
                for part in node.body if isinstance(node, cst.SimpleStatementLine) else ():
                    if isinstance(part, cst.Assign) and len(part.targets) == 1 and _names(part):
                        found[id(part)] = part
        return found

    @cached_property
    def kept(self) -> list[cst.Assign]:
        """The assignments whose names nothing but the guards reads, in order."""
        names = {name for assign in self._assigns.values() for name in _names(assign)}
        if isinstance(self._holder, cst.Module):
            outside = self.guard.file.outline.statements
            names = {name for name in names if sum(name in s.words for s in outside) == 1}
        declared = {
            item.name.value
            for node in walk(self._holder)
            if isinstance(node, (cst.Global, cst.Nonlocal))
            for item in node.names
        }
        places = {name: occurrences(self._tree, self._holder, name) for name in names - declared}
        names = {name for name, found in places.items() if self._may_move(found)}
        while True:
            left = {name for name in names if all(self._is_idle(each, names) for each in places[name])}
            if left == names:
                break
            names = left
        return [assign for assign in self._assigns.values() if names and names >= set(_names(assign))]

    def _may_move(self, found: list[Occurrence]) -> bool:
        """Whether a name is bound before it is read, by plain assignments of the body alone, and read at all."""
        binds = [each for each in found if each.kind != READ]
        return (
            found[0].kind == BIND
            and len(binds) < len(found)
            and all(each.kind == BIND and id(self._tree.statement(each.node)) in self._assigns for each in binds)
        )

    def _is_idle(self, each: Occurrence, names: set[str]) -> bool:
        """Whether an occurrence is under a guard, or serves what is only read under guards."""
        statement = self._tree.statement(each.node)
        assign = self._assigns.get(id(statement)) if statement is not None else None
        if each.kind != READ or (assign is not None and names >= set(_names(assign))):
            return True
        return self._guard_around(each.node) is not None

    def _guard_around(self, node: cst.CSTNode) -> cst.If | None:
        start = self._tree.span(node)[0]
        for guard in self.guards:
            first, last = self._tree.span(guard.body)
            if first <= start < last:
                return guard
        return None

    def guard_of(self, assign: cst.Assign) -> Place:
        """The guard that uses what an assignment makes, the first one where that is through other names."""
        for name in _names(assign):
            for each in occurrences(self._tree, self._holder, name):
                guard = self._guard_around(each.node) if each.kind == READ else None
                if guard is not None:
                    return self.guard.at(guard)
        return self.guard


def _names(assign: cst.Assign) -> list[str]:
    """The names that an assignment binds; none where it binds anything else."""
    target = assign.targets[0].target
    parts = [element.value for element in target.elements] if isinstance(target, cst.Tuple) else [target]
    return list(target_names(target)) if all(isinstance(part, cst.Name) for part in parts) else []


def _regions(program: ProgramFacts) -> list[_Region]:
    """The bodies that hold guards which seldom hold, in hot code."""
    found: dict[int, _Region] = {}
    seldom: dict[int, tuple[Place, Ctx]] = {}
    often: set[int] = set()
    for outside in program.run.root.down():
        for (kind, key), ctx in outside.children.items():
            node = ctx.place.node if ctx.place is not None else None
            if kind != "guard" or not isinstance(node, cst.If) or not isinstance(key, tuple) or key[1] != "yes":
                continue
            loop = program.roles.hot_loop(outside)
            if ctx.rarity != guards.RARE or ctx.step or loop is None or program.off_path(ctx):
                often.add(id(node))
            elif ctx.place is not None:
                seldom.setdefault(id(node), (ctx.place, loop))
    for number, (place, loop) in seldom.items():
        node = place.node
        body = next((up for up in place.tree.ancestors(node) if isinstance(up, _BODIES)), None)
        if number in often or body is None or not isinstance(node, cst.If):
            continue
        region = found.setdefault(id(body), _Region(body.body, place, loop))
        region.guards.append(node)
    return sorted(found.values(), key=lambda region: (str(region.guard.path), region.guard.start))


_BODIES = (cst.For, cst.While, cst.FunctionDef)

__all__ = ["LogOnly", "log_only"]

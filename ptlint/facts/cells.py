"""Recurrent cells that a Python loop calls once a time step, though their input is all there before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards, torch_api
from ptlint.facts.events import Backward, Ctx, Event, Forward, Place, Step
from ptlint.facts.invariance import changed
from ptlint.facts.iteration import passes, plain, sources
from ptlint.facts.occurrences import BIND, READ, occurrences
from ptlint.facts.scopes import bound_names, counters, dotted, leaves_loop, target_names, walk
from ptlint.facts.values import Items, Lib, Module, Sequence, Tensor, Tuple, Unknown, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.syntax.tree import Tree

_CELLS = {f"torch.nn.{kind}Cell": f"nn.{kind}" for kind in ("LSTM", "GRU", "RNN")}
_FEW_STEPS = 3
_MAX_DEPTH = 8
_PARTS = frozenset({"unbind", "split", "chunk", "transpose", "permute"})
"""Methods that only tensors have, and whose parts or rows are all there at once."""
_PLAIN = frozenset({"range", "len", "min", "max", "int", "reversed"})


@dataclass(frozen=True)
class CellLoop:
    """The first cell that a loop runs over an input which is known before the loop. `whole`: the module for it."""

    place: Place
    whole: str
    loop: Place


def cell_loops(program: ProgramFacts) -> Iterator[CellLoop]:
    """The loops over time steps that one call of a recurrent module could be, each once."""
    seen: set[int] = set()
    for event in sorted(program.events(Forward), key=lambda event: (str(event.place.path), event.place.start)):
        whole = _whole(event)
        loop = next(event.ctx.loops(), None) if whole else None
        node = loop.place.node if loop is not None and loop.place is not None else None
        if loop is None or loop.place is None or not isinstance(node, (cst.For, cst.While)) or id(node) in seen:
            continue
        if loop.place.tree is not event.place.tree or not _always(event.ctx, loop) or _learns(program, loop):
            continue
        known = Beforehand(program, loop.place.tree, node)
        if known.steps(loop) and _keeps_state(event.place, node) and _takes(event.place, known):
            seen.add(id(node))
            yield CellLoop(event.place, whole, loop.place)


def _whole(event: Forward) -> str:
    """The module that runs a whole sequence in place of the cell that is called; nothing where it is not one."""
    names = {
        _CELLS.get(option.core.cls.name, "") if isinstance(option, Module) and isinstance(option.core.cls, Lib) else ""
        for option in options(event.module)
    }
    return names.pop() if len(names) == 1 and not event.method else ""


def _always(ctx: Ctx, loop: Ctx) -> bool:
    """Whether something happens in each pass of a loop, in the loop's own function."""
    for up in ctx.up():
        if up is loop:
            return True
        if up.kind != "mode" and not (up.kind == "guard" and up.rarity == guards.ALWAYS):
            return False
    return False


def _learns(program: ProgramFacts, loop: Ctx) -> bool:
    """Whether the weights change from one pass to the next."""
    events: list[Event] = [*program.events(Backward), *program.events(Step)]
    return any(event.ctx.inside(loop) for event in events)


def _keeps_state(place: Place, loop: cst.For | cst.While) -> bool:
    """Whether a cell goes on from just what it returned in the pass before."""
    tree, call = place.tree, place.node
    assign = tree.parent(call)
    if not isinstance(call, cst.Call) or not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return False
    state = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "hx"), None)
    if state is None:
        plain = [arg for arg in call.args if arg.keyword is None and not arg.star]
        state = plain[1] if len(plain) == 2 else None
    if state is None:
        return False
    kept = [tree.code(part) for part in _parts(assign.targets[0].target)]
    if [tree.code(part) for part in _parts(state.value)] != kept:
        return False
    roots = {_root(part) for part in _parts(state.value)}
    for node in walk(loop.body, into_scopes=True):
        targets: list[cst.BaseExpression] = []
        if isinstance(node, cst.Assign):
            targets = [target.target for target in node.targets]
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.NamedExpr, cst.For)):
            targets = [node.target]
        if node is not assign and any(_touches(tree, part, kept, roots) for t in targets for part in _parts(t)):
            return False
    return not any(
        isinstance(node, cst.Expr)
        and isinstance(node.value, cst.Call)
        and isinstance(node.value.func, cst.Attribute)
        and _root(node.value.func) in roots - {"self"}
        for node in walk(loop.body, into_scopes=True)
    )


def _touches(tree: Tree, target: cst.BaseExpression, kept: list[str], roots: set[str]) -> bool:
    """Whether an assignment elsewhere in the loop may change the state."""
    if isinstance(target, cst.Name):
        return target.value in roots
    if isinstance(target, cst.Subscript) and not all(
        isinstance(part.slice, cst.Index) and isinstance(part.slice.value, cst.Integer) for part in target.slice
    ):
        return _root(target) in roots
    return tree.code(target) in kept


def _takes(place: Place, known: Beforehand) -> bool:
    call = place.node
    assert isinstance(call, cst.Call)
    given = next((arg for arg in call.args if arg.keyword is None or arg.keyword.value == "input"), None)
    return given is not None and not given.star and known.constant(call.func) and known.holds(given.value)


class Beforehand:
    """What does not depend on the passes of a loop before: it could be worked out for all passes at once."""

    def __init__(self, program: ProgramFacts, tree: Tree, loop: cst.For | cst.While) -> None:
        self._program = program
        self._tree = tree
        self._loop = loop
        self._bound = bound_names(loop.body)
        self._targets = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
        self._counted = counters(loop.body)
        self._asked: set[str] = set()
        self._stored = {
            target.target.attr.value
            for node in walk(loop.body, into_scopes=True)
            if isinstance(node, cst.Assign)
            for target in node.targets
            if isinstance(target.target, cst.Attribute)
        }
        self._called = {id(event.place.node): event for event in program.events(Forward)}

    def steps(self, loop: Ctx) -> bool:
        """Whether the loop takes more than a few steps, over what is all there, and to its end."""
        if leaves_loop(self._loop.body):
            return False
        if isinstance(self._loop, cst.While):
            return self.holds(self._loop.test)
        length = passes(loop.items)
        if length is not None and length <= _FEW_STEPS:
            return False
        _, node = plain(self._loop, loop.items)
        cut = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _PARTS
        for source in sources(loop.items):
            whole = isinstance(source, (Tensor, Sequence, Tuple)) or (
                isinstance(source, Items) and source.kind in ("range", "list", "tuple")
            )
            if not whole and not (cut and isinstance(source, (Unknown, Items))):
                return False
        return all(self.constant(name) for name in walk(node) if isinstance(name, cst.Name))

    def constant(self, node: cst.BaseExpression) -> bool:
        """Whether what a chain of attributes begins with is the same in all passes."""
        name = dotted(node).partition(".")[0]
        return (
            bool(name)
            and name not in self._bound
            and name not in self._targets
            and not changed(self._tree, self._loop.body, name)
            and not any(isinstance(part, cst.Attribute) and part.attr.value in self._stored for part in walk(node))
        )

    def holds(self, node: cst.CSTNode) -> bool:
        """Whether an expression is known for all passes before the first."""
        self._asked.clear()
        return self._holds(node, 0)

    def _holds(self, node: cst.CSTNode, depth: int) -> bool:
        if depth > _MAX_DEPTH:
            return False
        if isinstance(node, cst.Name):
            return self._name(node.value, depth)
        if isinstance(node, cst.Attribute):
            return node.attr.value not in self._stored and self._holds(node.value, depth)
        if isinstance(node, cst.Call):
            if not self._is_pure(node):
                return False
            func = [node.func.value] if isinstance(node.func, cst.Attribute) else []
            return all(self._holds(part, depth) for part in (*func, *(arg.value for arg in node.args)))
        if isinstance(node, (cst.Lambda, cst.BaseComp, cst.Await, cst.Yield, cst.NamedExpr)):
            return False
        inner = (child for child in self._tree.children(node) if isinstance(child, _HOLDERS))
        return all(self._holds(child, depth) for child in inner)

    def _name(self, name: str, depth: int) -> bool:
        if name in self._counted:
            return True
        if changed(self._tree, self._loop.body, name):
            return False
        if name not in self._bound or name in self._asked:
            return True
        self._asked.add(name)  # `word = relu(word)`: it hangs on the other places that bind it
        inside = {id(part) for part in walk(self._loop.body, into_scopes=True)}
        holder = next((n for n in self._tree.ancestors(self._loop) if isinstance(n, cst.FunctionDef)), None)
        found = [
            each
            for each in occurrences(self._tree, holder if holder is not None else self._tree.module, name)
            if id(each.node) in inside
        ]
        if not found or found[0].kind != BIND:  # what the pass before has left
            return False
        return all(
            each.kind == BIND
            and each.value is not None
            and self._block(each.node) is self._loop.body
            and self._holds(each.value, depth + 1)
            for each in found
            if each.kind != READ
        )

    def _block(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The list of statements in which a node stands."""
        statement = self._tree.statement(node)
        parent = self._tree.parent(statement) if statement is not None else None
        return self._tree.parent(parent) if isinstance(parent, cst.SimpleStatementLine) else parent

    def _is_pure(self, node: cst.Call) -> bool:
        """Whether a call only computes: PyTorch's functions, its own modules, methods of tensors."""
        forward = self._called.get(id(node))
        if forward is not None:
            return all(isinstance(o, Module) and isinstance(o.core.cls, Lib) for o in options(forward.module))
        names = {event.name for event in self._program.calls_at(node)}
        return bool(names) and all(name in _PLAIN or _is_computation(name) for name in names)


_HOLDERS = (
    cst.BaseExpression, cst.BaseElement, cst.SubscriptElement, cst.BaseSlice, cst.ComparisonTarget, cst.Arg,
)  # fmt: skip


def _is_computation(name: str) -> bool:
    method = name.rpartition(".")[2]
    if method.endswith("_") and not method.endswith("__"):
        return False
    if name.startswith("."):
        return torch_api.lookup(f"torch.Tensor.{method}") is not None
    return name.startswith("torch.") and not name.startswith(("torch.nn.Module.", "torch.utils."))


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [element.value for element in node.elements] if isinstance(node, (cst.Tuple, cst.List)) else [node]


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


__all__ = ["CellLoop", "cell_loops"]

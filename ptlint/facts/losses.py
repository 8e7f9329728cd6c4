"""Where a training step computes its loss: the statements from the first forward pass to the last of the loss.

They stand in one block, the one that starts the backward pass; what happens in functions that the block calls counts
for the statement that calls them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import libcst as cst

from ptlint.facts.events import Backward, Call, Ctx, Event, Forward, Place, Step
from ptlint.facts.roles import in_forward
from ptlint.facts.scopes import dotted, target_names, walk
from ptlint.facts.values import UNKNOWN, Lib, Module, Tensor, Tuple, Unknown, Value, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

Block = cst.IndentedBlock | cst.Module

_BCE = ("torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy")
_TENSOR_METHODS = frozenset(
    "view reshape contiguous detach squeeze unsqueeze argmax softmax log_softmax sigmoid cpu float transpose permute "
    "flatten mean max gather".split()
)
_PLAIN = frozenset(
    "mean sum item to cuda cpu float view reshape squeeze unsqueeze detach print len range zero_grad update append "
    "size dim contiguous set_description set_postfix train".split()
)
"""Calls that compute no loss."""


class NoPass(Exception):  # noqa: N818  says what happened
    """The step's statements are not laid out in one block; `reason` says how they are."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class LossPass:
    """The statements `first` to `last` of `block` compute the loss on which `backward` is run.

    `derived`: the names that they bind to what comes from the models; `tensors`: those known to be tensors.
    `bare`: what follows up to `end`, where backward is, has a binary cross-entropy of probabilities, which raises under
    autocast.
    """

    place: Place
    block: Block
    first: int
    last: int
    backward: Backward
    end: int
    tensors: tuple[str, ...]
    derived: frozenset[str]
    bare: bool

    def statement(self, index: int) -> cst.CSTNode:
        return self.block.body[index]


def loss_pass(program: ProgramFacts, loop: Ctx) -> LossPass:
    """The pass of a training loop; raises `NoPass` where it cannot be told or is not one run of statements."""
    under = program.roles.under(loop)
    backwards = [event for event in under if isinstance(event, Backward)]
    if len({event.place.key for event in backwards}) != 1:
        raise NoPass("the step runs several backward passes: wrap each forward pass with its loss")
    optimizers = {id(o) for e in under if isinstance(e, Step) and not e.by_hand for o in options(e.optimizer)}
    if len(optimizers) > 1:
        raise NoPass("several optimizers step in one pass: wrap each forward pass with its loss")
    backward = max(backwards, key=lambda event: event.order)
    forwards = [e for e in program.forwards(loop) if e.order < backward.order and e.grad]
    if not forwards:
        raise NoPass("which call is the forward pass cannot be told, for the model is made out of sight")
    for place in _places(backward, loop):
        for block in _blocks(place, loop):
            end = _index(place, block)
            inside = [(index, event) for event in forwards if (index := _mapped(event, loop, place, block)) is not None]
            if end is None or not any(not _only_loss(program, event) for _, event in inside):
                continue
            if loop.place is None or place.path != loop.place.path:
                raise NoPass(f"the step is taken in {place.path.name}, line {place.row}")
            return _pass_in(program, loop, place, block, backward, end, inside)
    raise NoPass("the forward and the backward pass stand in different blocks")


def _blocks(place: Place, loop: Ctx) -> Iterator[Block]:
    """The blocks around a place, innermost first, within a loop and within a function."""
    for above in place.tree.ancestors(place.node):
        if isinstance(above, (cst.FunctionDef, cst.ClassDef)) or (loop.place is not None and above is loop.place.node):
            return
        if isinstance(above, Block):
            yield above


def _places(event: Event, loop: Ctx) -> Iterator[Place]:
    """An event's place, and those of the calls that lead to it from a loop."""
    yield event.place
    for ctx in event.ctx.up():
        if ctx is loop:
            return
        if ctx.kind == "frame" and ctx.place is not None:
            yield ctx.place


def _mapped(event: Event, loop: Ctx, at: Place, block: Block) -> int | None:
    """The statement of a block in which an event happens, be it in a function that is called there."""
    for place in _places(event, loop):
        if place.tree is at.tree:
            index = _index(place, block)
            if index is not None:
                return index
    return None


def _index(place: Place, block: Block) -> int | None:
    below = place.node
    for above in place.tree.ancestors(place.node):
        if above is block:
            return list(block.body).index(below)  # type: ignore[arg-type]
        below = above
    return None


def _only_loss(program: ProgramFacts, event: Forward) -> bool:
    return all(isinstance(option, Module) and program.precision.is_loss(option) for option in options(event.module))


def _pass_in(
    program: ProgramFacts,
    loop: Ctx,
    place: Place,
    block: Block,
    backward: Backward,
    end: int,
    inside: list[tuple[int, Forward]],
) -> LossPass:
    models = [(index, event) for index, event in inside if not _only_loss(program, event)]
    first = min(index for index, _ in models)
    if any(index == end for index, _ in inside):
        if place is not backward.place:
            raise NoPass(
                f"one function computes the loss and runs backward, in line {backward.place.row}: wrap its loss too"
            )
        raise NoPass("the loss and its backward pass are one expression: give the loss a name first")
    targets = _loss_names(place)
    ends = [index for index in range(first, end) if targets & set(_bound(place.tree.walk(block.body[index])))]
    last = max([*(index for index, _ in inside), *ends])
    called = {event.place.node for _, event in inside if not _only_loss(program, event)}
    if not any(_computes(place, block.body[index], called) for index in range(first, last + 1)):
        raise NoPass("the loss is computed inside `forward`: autocast must end before a loss that needs float32")
    bare = _bare_losses(program, loop, place, block)
    if bare:
        if min(bare) <= max(index for index, _ in models):
            raise NoPass("`BCELoss` raises under autocast: compute it behind the forward pass, outside, on `.float()`")
        last = max(index for index, _ in models)
    derived = frozenset(_derived(place, [block.body[index] for index in range(first, last + 1)], called))
    used = set(_used_as_tensors(place.tree.walk(block)))
    tensors = tuple(dict.fromkeys([*_tensors(place, block, models, used), *sorted((derived - targets) & used)]))
    return LossPass(place, block, first, last, backward, end, tensors, derived, bool(bare))


def _loss_names(place: Place) -> set[str]:
    """The names and attributes that a backward pass starts from."""
    node = place.node
    value: cst.CSTNode = node
    if isinstance(node, cst.Call):
        func = node.func
        value = func.value if isinstance(func, cst.Attribute) and func.attr.value == "backward" else node
    found: set[str] = set()
    for part in walk(value):
        if isinstance(part, (cst.Name, cst.Attribute)):
            found.add(dotted(part))
    return found - {""}


def _bound(nodes: object) -> Iterator[str]:
    """The names and attributes that statements assign."""
    for node in nodes:  # type: ignore[attr-defined]
        if isinstance(node, cst.Assign):
            for target in node.targets:
                yield from target_names(target.target)
                yield dotted(target.target)
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign)):
            yield dotted(node.target)
        elif isinstance(node, cst.For):
            yield from target_names(node.target)


def _derived(place: Place, statements: list[Any], models: set[cst.CSTNode]) -> set[str]:
    """The names that statements bind to what comes from the models' calls."""
    assigns = [
        node
        for statement in statements
        for node in place.tree.walk(statement)
        if isinstance(node, (cst.Assign, cst.AugAssign))
    ]
    found: set[str] = set()
    for _ in range(3):
        for node in assigns:
            parts = list(place.tree.walk(node.value))
            if any(part in models or (isinstance(part, cst.Name) and part.value in found) for part in parts):
                found.update(name for name in _bound([node]) if name and name != "_")
    return found


def _computes(place: Place, statement: cst.CSTNode, models: set[cst.CSTNode]) -> bool:
    """Whether a statement computes something from what the models return."""
    stack: list[cst.CSTNode] = [statement]
    while stack:
        node = stack.pop()
        if node in models:
            continue  # what its arguments compute is not the loss
        if isinstance(node, cst.BinaryOperation) and not isinstance(node.operator, (cst.Divide, cst.Multiply)):
            return True
        if isinstance(node, cst.Call) and node.args:
            func = node.func
            name = (
                func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else ""
            )
            if name not in _PLAIN:
                return True
        stack.extend(place.tree.children(node))
    return False


def _bare_losses(program: ProgramFacts, loop: Ctx, place: Place, block: Block) -> list[int]:
    """The statements of a block that compute binary cross-entropy of probabilities."""
    found: list[int] = []
    events: list[Forward | Call] = [*program.events(Forward), *program.calls(_BCE[1])]
    for event in events:
        if not event.ctx.inside(loop) or not _is_bare(event):
            continue
        if any(up.function is not None and in_forward(up.function) for up in event.ctx.up() if up.kind == "frame"):
            raise NoPass("`forward` computes a `BCELoss`, which raises under autocast: `BCEWithLogitsLoss` does not")
        index = _mapped(event, loop, place, block)
        if index is not None:
            found.append(index)
    return found


def _is_bare(event: Forward | Call) -> bool:
    if isinstance(event, Call):
        return True
    return any(
        isinstance(option, Module) and isinstance(option.core.cls, Lib) and option.core.cls.name == _BCE[0]
        for option in options(event.module)
    )


def _tensors(place: Place, block: Block, models: list[tuple[int, Forward]], used: set[str]) -> Iterator[str]:
    """Names to which the models' calls bind what is known to be a tensor, by its value or its use in the block."""
    for index, event in models:
        for node in place.tree.walk(block.body[index]):
            if not isinstance(node, cst.Assign):
                continue
            targets = [target.target for target in node.targets]
            if node.value is event.place.node and len(targets) == 1:
                for name, value in _parts(targets[0], event.result):
                    if name in used or _is_tensor(value):
                        yield name
            elif _is_method_chain(node.value, event.place.node):
                yield from (name for target in targets for name in target_names(target))


def _parts(target: cst.BaseExpression, value: Value) -> Iterator[tuple[str, Value]]:
    """The names of an assignment's target with what each is given."""
    if isinstance(target, cst.Name):
        yield target.value, value
    elif isinstance(target, (cst.Tuple, cst.List)):
        values = value.items if isinstance(value, Tuple) and len(value.items) == len(target.elements) else ()
        for index, element in enumerate(target.elements):
            if isinstance(element.value, cst.Name):
                yield element.value.value, values[index] if values else UNKNOWN


def _used_as_tensors(nodes: Iterable[cst.CSTNode]) -> Iterator[str]:
    for node in nodes:
        func = node.func if isinstance(node, cst.Call) else None
        if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.attr.value in _TENSOR_METHODS:
            yield func.value.value


def _is_method_chain(node: cst.CSTNode, end: cst.CSTNode) -> bool:
    """Whether an expression is a chain of methods on a call (`model(x).view(-1)`), so that both are tensors."""
    steps = 0
    while node is not end:
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        node = node.func.value
        steps += 1
    return steps > 0


def _is_tensor(value: Value) -> bool:
    return all(isinstance(option, Tensor) for option in options(value)) and not isinstance(value, Unknown)

"""Branches of hot code that hang on the values of device tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards
from ptlint.facts.events import Ctx, Test
from ptlint.facts.scopes import target_names, walk
from ptlint.facts.values import DEVICE, Tensor, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_GOES_ON = (cst.Break, cst.Continue, cst.Return)


@dataclass(frozen=True)
class Branch:
    """A test of a device tensor in every iteration of `loop`; `raises`: its arm ends in an error."""

    test: Test
    loop: Ctx
    raises: bool


def branches(program: ProgramFacts) -> Iterator[Branch]:
    """The tests of device tensors that a hot loop could do without, the outermost of each statement."""
    tests = program.events(Test)
    rare = {
        (id(test.place.node), id(test.ctx))
        for test in tests
        if test.how == "and" and guards.arms(test.value)[0] in (guards.RARE, guards.NEVER)
    }
    seen: set[tuple[int, int]] = set()
    for test in tests:
        if not _is_device_bool(test):
            continue
        loop = program.hot(test)
        if loop is None or program.off_path(test.ctx) or program.timing.measured(test):
            continue
        statement, arms = _statement(test)
        if (
            statement is None
            or _steers(test, statement, arms, loop)
            or _is_behind_rare(test, rare)
            or _is_of_element(test, loop)
            or _settles(test, statement, arms)
        ):
            continue
        key = (id(statement), id(loop))
        if key not in seen:
            seen.add(key)
            yield Branch(test, loop, any(isinstance(node, cst.Raise) for arm in arms for node in walk(arm)))


def _is_device_bool(test: Test) -> bool:
    """Whether a test may be of a device tensor of booleans; others are asked whether they are there at all."""
    return any(
        isinstance(option, Tensor) and option.where == DEVICE and option.dtype == "bool"
        for option in options(test.value)
    )


def _statement(test: Test) -> tuple[cst.CSTNode | None, list[cst.CSTNode]]:
    """The innermost statement or conditional expression whose test holds this one, and its arms."""
    child: cst.CSTNode = test.place.node
    for node in test.place.tree.ancestors(child):
        if isinstance(node, cst.If):
            if child is not node.test:
                return None, []
            return node, [node.body, *([node.orelse.body] if isinstance(node.orelse, cst.Else) else [])]
        if isinstance(node, (cst.While, cst.Assert, cst.BaseSmallStatement)):
            return node, [node.body] if isinstance(node, cst.While) else []
        if isinstance(node, (cst.IfExp, cst.CompIf)) and child is node.test:
            return node, []
        child = node
    return None, []


def _steers(test: Test, statement: cst.CSTNode, arms: list[cst.CSTNode], loop: Ctx) -> bool:
    """Whether a test decides how the loop goes on, or what a function returns."""
    if isinstance(statement, cst.While):
        return loop.place is not None and loop.place.node is statement
    if isinstance(statement, cst.Return):
        return True
    return any(isinstance(node, _GOES_ON) for arm in arms for node in walk(arm))


def _settles(test: Test, statement: cst.CSTNode, arms: list[cst.CSTNode]) -> bool:
    """Whether the tensor is only looked at behind a test that its arm makes false (`epoch > last and …`)."""
    if not isinstance(statement, cst.If):
        return False
    code = test.place.tree.code
    node, first = statement.test, set[str]()
    while isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And):
        node = node.left
        first = {code(part) for part in walk(node) if isinstance(part, (cst.Name, cst.Attribute))}
    if node is test.place.node:
        return False
    targets = (part.target for arm in arms for part in walk(arm) if isinstance(part, cst.AssignTarget))
    return any(code(target) in first for target in targets)


def _is_of_element(test: Test, loop: Ctx) -> bool:
    """Whether a loop over the elements of tensors is the fault, which a test of each element only shows."""
    names = {node.value for node in walk(test.place.node) if isinstance(node, cst.Name)}
    for inner in test.ctx.loops():
        if inner is loop:
            break
        node = inner.place.node if inner.place is not None else None
        if isinstance(node, (cst.For, cst.CompFor)) and names & set(target_names(node.target)):
            return True
    return False


def _is_behind_rare(test: Test, rare: set[tuple[int, int]]) -> bool:
    """Whether it stands behind an `and` of something that seldom holds."""
    stack = [test.place.node]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.BooleanOperation):
            if isinstance(node.operator, cst.And) and (id(node.left), id(test.ctx)) in rare:
                return True
            stack += [node.left, node.right]
    child: cst.CSTNode = test.place.node
    for parent in test.place.tree.ancestors(child):
        if not isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation)):
            break
        if isinstance(parent, cst.BooleanOperation) and (id(parent.left), id(test.ctx)) in rare:
            return True
        child = parent
    return False


__all__ = ["Branch", "branches"]

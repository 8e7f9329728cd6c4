"""Tensors and arrays that grow by one piece in every pass of a loop, each time copied as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Call, Ctx, Place
from ptlint.facts.iteration import passes, sources
from ptlint.facts.occurrences import BIND, Occurrence, occurrences
from ptlint.facts.values import Items, Mapping, Module, Params, Sequence, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.syntax.tree import Tree

TENSOR_JOINS = frozenset(
    f"torch.{name}"
    for name in ("cat", "concat", "concatenate", "stack", "vstack", "hstack", "row_stack", "column_stack")
)
ARRAY_JOINS = frozenset(f"numpy.{name}" for name in ("append", "concatenate", "vstack", "hstack", "stack"))
FEW_PASSES = 16
"""Up to so many passes known there is little to copy."""


@dataclass(frozen=True)
class Growth:
    """`name = join([name, piece])` in the body of `loop`: `call` is the join, `statement` the assignment."""

    call: Call
    place: Place
    statement: cst.Assign
    loop: cst.For | cst.While
    name: str
    pieces: tuple[cst.BaseExpression, ...]
    """What is joined, `name` itself first where it comes first."""


def growths(program: ProgramFacts) -> Iterator[Growth]:
    """The assignments that let something grow, the first one of each variable and loop."""
    seen: set[tuple[int, str]] = set()
    for call in sorted(program.calls(*TENSOR_JOINS, *ARRAY_JOINS), key=lambda event: event.place.start):
        found = _growth(call)
        if found is None or (id(found.loop), found.name) in seen or _few(call.ctx, found.loop):
            continue
        seen.add((id(found.loop), found.name))
        yield found


def _growth(call: Call) -> Growth | None:
    tree, node = call.place.tree, call.place.node
    statement = tree.statement(node)
    if not isinstance(node, cst.Call) or not isinstance(statement, cst.Assign) or statement.value is not node:
        return None
    target = statement.targets[0].target
    pieces = _pieces(call, node)
    if len(statement.targets) != 1 or not isinstance(target, cst.Name) or len(pieces) < 2:
        return None
    if sum(_is_name(piece, target.value) for piece in pieces) != 1:
        return None
    loop, function = _around(tree, node)
    if loop is None or function is None:
        return None
    inside = [found for found in occurrences(tree, function, target.value) if _within(tree, loop, found.node)]
    if not all(_is_part(tree, found, statement, node) for found in inside):
        return None
    return Growth(call, call.place.at(statement), statement, loop, target.value, tuple(pieces))


def _pieces(call: Call, node: cst.Call) -> list[cst.BaseExpression]:
    if not node.args or any(arg.star for arg in node.args[:2]):
        return []
    if call.name == "numpy.append":
        return [arg.value for arg in node.args[:2] if arg.keyword is None]
    first = node.args[0]
    if isinstance(first.value, (cst.List, cst.Tuple)):
        elements = first.value.elements
        return [] if any(isinstance(e, cst.StarredElement) for e in elements) else [e.value for e in elements]
    return []


def _around(tree: Tree, node: cst.CSTNode) -> tuple[cst.For | cst.While | None, cst.FunctionDef | cst.Module | None]:
    """The innermost loop and the function around a node, or the file's top level."""
    loop: cst.For | cst.While | None = None
    for above in tree.ancestors(node):
        if loop is None and isinstance(above, (cst.For, cst.While)):
            loop = above
        if isinstance(above, cst.FunctionDef):
            return loop, above
        if isinstance(above, (cst.ClassDef, cst.Lambda)):
            return None, None
    return loop, tree.module


def _within(tree: Tree, outer: cst.CSTNode, node: cst.CSTNode) -> bool:
    start, end = tree.span(outer)
    return start <= tree.span(node)[0] < end


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _is_part(tree: Tree, found: Occurrence, statement: cst.Assign, join: cst.CSTNode) -> bool:
    """Whether a place of the name in the loop belongs to its growth: the join, its target, or how it starts.

    `if out is None: out = x`, `out = x if out is None else ...` and the other arm of the join's own `if` start it.
    """
    if _within(tree, statement, found.node):
        return True
    if found.kind == BIND:
        arms = [above for above in tree.ancestors(statement) if isinstance(above, cst.If)]
        return any(
            isinstance(above, cst.If) and any(above is arm for arm in arms) for above in tree.ancestors(found.node)
        )
    test = tree.parent(found.node)
    if not isinstance(test, cst.Comparison) or test.left is not found.node or len(test.comparisons) != 1:
        return False
    part = test.comparisons[0]
    return isinstance(part.operator, (cst.Is, cst.IsNot)) and _is_name(part.comparator, "None")


def _few(ctx: Ctx, node: cst.For | cst.While) -> bool:
    """Whether a loop is known to have few passes: a short literal range, layers, the keys of a dict."""
    loop = next((up for up in ctx.loops() if up.place is not None and up.place.node is node), None)
    if loop is None:
        return True
    if isinstance(node, cst.While):
        return False
    length = passes(loop.items)
    if length is not None and length <= FEW_PASSES:
        return True
    for source in (*options(loop.items), *sources(loop.items)):
        if isinstance(source, (Module, Params, Mapping)):
            return True
        if isinstance(source, Items) and (source.kind in ("modules", "items", "keys", "values")):
            return True
        if isinstance(source, Sequence) and any(isinstance(option, Module) for option in options(source.element())):
            return True
    return False


def starts_with(growth: Growth) -> cst.Assign | None:
    """The assignment in front of the loop, on the way to it, that says what the variable starts with."""
    tree = growth.place.tree
    block = tree.parent(growth.loop)
    blocks = [block]
    while isinstance(block, cst.IndentedBlock) and isinstance(tree.parent(block), cst.With):
        block = tree.parent(tree.parent(block) or block)
        blocks.append(block)
    function = next((above for above in tree.ancestors(growth.loop) if isinstance(above, cst.FunctionDef)), None)
    if function is None:
        return None
    before = [
        found
        for found in occurrences(tree, function, growth.name)
        if tree.span(found.node)[0] < tree.span(growth.loop)[0]
    ]
    last = before[-1] if before else None
    if last is None or last.kind != BIND or last.value is None:
        return None
    statement = tree.statement(last.node)
    line = tree.parent(statement) if statement is not None else None
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1 or line is None:
        return None
    return statement if any(tree.parent(line) is block for block in blocks) else None


__all__ = ["ARRAY_JOINS", "TENSOR_JOINS", "Growth", "growths", "starts_with"]

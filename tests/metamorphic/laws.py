"""The changes of a program that must not change what ptlint finds in it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from metamorphic import aliases, moving, renaming, wrapping
from metamorphic.names import Program


@dataclass(frozen=True)
class Change:
    """A change of a program that keeps the rows of all code; `applies` says cheaply whether it does anything."""

    name: str
    make: Callable[[Program], Program]
    applies: Callable[[Program], bool]


def _holds(*kinds: type[ast.AST]) -> Callable[[Program], bool]:
    def holds(program: Program) -> bool:
        return any(isinstance(node, kinds) for text in program.values() for node in ast.walk(ast.parse(text)))

    return holds


CHANGES = (
    Change("renamed", renaming.renamed, _holds(ast.arg, ast.Name)),
    Change("aliased", aliases.aliased, _holds(ast.Import, ast.ImportFrom)),
    Change("from-modules", aliases.from_modules, _holds(ast.Import, ast.ImportFrom)),
    Change("moved", moving.moved, partial(moving.can_move, leaves=False)),
    Change("leaves-moved", moving.leaves_moved, partial(moving.can_move, leaves=True)),
    Change("counted", wrapping.counted, _holds(ast.For)),
    Change("shown", wrapping.shown, _holds(ast.For)),
)

"""The names that a top-level statement binds in its module."""

from __future__ import annotations

import ast
from typing import Any

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def names_bound(statement: ast.stmt, kinds: set[type]) -> set[str]:
    """The names bound by `statement`, in whose tree the node types `kinds` occur.

    Never too few: a walrus or a `global` counts wherever it stands.
    """
    found: set[str] = set()
    pending: list[Any] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, _DEFINITIONS):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                _add_target(target, found)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
            _add_target(node.target, found)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    _add_target(item.optional_vars, found)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                found.update(_captures(case.pattern))
                pending += case.body
            continue
        elif isinstance(node, ast.ExceptHandler):
            if node.name:
                found.add(node.name)
        elif node.__class__.__name__ == "TypeAlias":
            found.add(node.name.id)
        if hasattr(node, "body") and not isinstance(node, _DEFINITIONS):
            pending += node.body
            pending += getattr(node, "orelse", ())
            pending += getattr(node, "handlers", ())
            pending += getattr(node, "finalbody", ())
    if ast.Global in kinds or (ast.NamedExpr in kinds and not isinstance(statement, _DEFINITIONS)):
        for node in ast.walk(statement):
            if isinstance(node, ast.Global):
                found.update(node.names)
            elif isinstance(node, ast.NamedExpr):
                found.add(node.target.id)
    return found


def _add_target(target: ast.expr, found: set[str]) -> None:
    pending = [target]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, (ast.Tuple, ast.List)):
            pending += node.elts
        elif isinstance(node, ast.Starred):
            pending.append(node.value)


def _captures(pattern: ast.pattern) -> set[str]:
    found: set[str | None] = set()
    for node in ast.walk(pattern):
        if isinstance(node, (ast.MatchAs, ast.MatchStar)):
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping):
            found.add(node.rest)
    return {name for name in found if name}

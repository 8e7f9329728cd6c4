"""The names that a top-level statement binds in its module."""

from __future__ import annotations

import ast

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# What holds names of its own, apart from the walrus in a comprehension, which binds outside of it.
_SCOPES = (*_DEFINITIONS, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def names_bound(statement: ast.stmt, kinds: set[type]) -> set[str]:
    """The names bound by `statement`, in whose tree the node types `kinds` occur."""
    if isinstance(statement, _DEFINITIONS):
        found = {statement.name}
    else:
        found = _bound_here(statement)
    if ast.Global in kinds:
        found.update(name for node in ast.walk(statement) if isinstance(node, ast.Global) for name in node.names)
    return found


def _bound_here(statement: ast.stmt) -> set[str]:
    found: set[str] = set()
    pending: list[tuple[ast.AST, bool]] = [(statement, False)]
    while pending:
        node, in_comprehension = pending.pop()
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                found.add(node.name)
            continue
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store) and not in_comprehension:
                found.add(node.id)
            continue
        if isinstance(node, ast.NamedExpr):
            found.add(node.target.id)
            pending.append((node.value, in_comprehension))
            continue
        if isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            if node.name:
                found.add(node.name)
        elif isinstance(node, ast.MatchMapping):
            if node.rest:
                found.add(node.rest)
        elif isinstance(node, _COMPREHENSIONS):
            in_comprehension = True
        pending.extend((child, in_comprehension) for child in ast.iter_child_nodes(node))
    return found

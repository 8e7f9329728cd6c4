"""Modules that a file loads by a name that it puts together: `import_module("models." + name)`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from ptlint.outline.shape import Loaded


def modules_loaded(statement: ast.stmt, names: Collection[str]) -> Iterator[Loaded]:
    """What the calls of `import_module` in a statement load, where the package at least is written in them.

    `names`: what the function is called in the file, beside `importlib.import_module`.
    """
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and len(node.args) == 1 and _loads(node.func, names):
            name = _name(node.args[0])
            if all(map(str.isidentifier, name.removesuffix(".").split("."))):
                yield Loaded(name, node.lineno)


def _loads(func: ast.expr, names: Collection[str]) -> bool:
    if isinstance(func, ast.Attribute):
        return func.attr == "import_module"
    return isinstance(func, ast.Name) and func.id in names


def _name(node: ast.expr) -> str:
    """The name of a module, or as far as it is written that of its package with a dot behind."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    begins = ""
    if isinstance(node, ast.JoinedStr) and node.values:
        begins = _name(node.values[0])
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        begins = _name(node.left)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        begins = _name(node.left).partition("%")[0]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        begins = _name(node.func.value).partition("{")[0]
    package, dot, _ = begins.rpartition(".")
    return package + dot

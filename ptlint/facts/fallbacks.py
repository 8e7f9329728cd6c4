"""Branches for other versions of a library: the arm of a version test, an `except`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Place
from ptlint.facts.scopes import is_terminal

if TYPE_CHECKING:
    from ptlint.outline.project import ProjectFile

_VERSION_TEST = re.compile(
    r"__version__|version\.|version\(|check_\w*version|torch_?version|hasattr\(\s*torch|is_torch|torch_(?:[a-z]+_)?v?[12]_?\d",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")


def is_fallback(place: Place, modern: re.Pattern[str]) -> bool:
    """Whether a use stands in a branch for versions that lack what `modern` matches.

    That is an `except`, an arm of a test of a version, or an arm beside one that uses the modern name, be that arm an
    `if` above that leaves.
    """
    names = _full_names(place.file)
    below: cst.CSTNode = place.node

    def text(node: cst.CSTNode) -> str:
        return _WORD.sub(lambda word: names.get(word[0], word[0]), place.tree.code(node))

    for node in place.tree.ancestors(place.node):
        if isinstance(node, cst.ExceptHandler):
            return True
        if isinstance(node, (cst.If, cst.IfExp)) and below is not node.test:
            if _VERSION_TEST.search(text(node.test)):
                return True
            if any(arm is not below and modern.search(text(arm)) for arm in _arms(node)):
                return True
        if isinstance(node, (cst.IndentedBlock, cst.Module)):
            for earlier in _leaving_above(node, below):
                if _VERSION_TEST.search(text(earlier.test)) or modern.search(text(earlier.body)):
                    return True
        below = node
    return False


def _full_names(file: ProjectFile) -> dict[str, str]:
    """What a file's imports bind, by its full name."""
    found: dict[str, str] = {}
    for item in file.outline.imports:
        if not item.level and item.name is not None:
            found[item.asname or item.name] = f"{item.module}.{item.name}"
        elif not item.level and item.asname is not None:
            found[item.asname] = item.module
    return found


def _arms(node: cst.If | cst.IfExp) -> Iterator[cst.CSTNode]:
    yield node.body
    if node.orelse is not None:
        yield node.orelse


def _leaving_above(block: cst.IndentedBlock | cst.Module, statement: cst.CSTNode) -> Iterator[cst.If]:
    """The `if`s above a statement in its block whose body leaves."""
    for node in block.body:
        if node is statement:
            return
        if isinstance(node, cst.If) and node.orelse is None and is_terminal(node.body):
            yield node

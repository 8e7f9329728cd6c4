"""Branches for other versions of a library: the arm of a version test, an `except`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ptlint.facts.events import Place
from ptlint.facts.scopes import is_terminal

_VERSION_TEST = re.compile(
    r"__version__|version\.|version\(|check_\w*version|torch_?version|hasattr\(\s*torch|is_torch|torch_(?:[a-z]+_)?v?[12]_?\d",
    re.IGNORECASE,
)


def is_fallback(place: Place, modern: re.Pattern[str]) -> bool:
    """Whether a use stands in a branch for versions that lack what `modern` matches.

    That is an `except`, an arm of a test of a version, or an arm beside one that uses the modern name, be that arm an
    `if` above that leaves.
    """
    tree = place.tree
    below: cst.CSTNode = place.node
    for node in tree.ancestors(place.node):
        if isinstance(node, cst.ExceptHandler):
            return True
        if isinstance(node, (cst.If, cst.IfExp)) and below is not node.test:
            if _VERSION_TEST.search(tree.code(node.test)):
                return True
            if any(arm is not below and modern.search(tree.code(arm)) for arm in _arms(node)):
                return True
        if isinstance(node, (cst.IndentedBlock, cst.Module)):
            for earlier in _leaving_above(node, below):
                if _VERSION_TEST.search(tree.code(earlier.test)) or modern.search(tree.code(earlier.body)):
                    return True
        below = node
    return False


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

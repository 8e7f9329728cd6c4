"""Giving a call's argument a value where that was chosen (see `ptlint.facts.origins`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.arguments import add_keyword, set_keyword
from ptlint.edits.expressions import as_argument, replace
from ptlint.edits.layout import CannotEdit
from ptlint.facts.origins import ABSENT, DEFAULT, ITEM, OPTION, OTHER, item_value
from ptlint.findings import Edit
from ptlint.paths import shown

if TYPE_CHECKING:
    from ptlint.facts.events import Place
    from ptlint.facts.origins import Origin


def choose(origin: Origin, value: str, at: Place) -> tuple[Edit, ...]:
    """Give the argument `value` at its origin, as a fix of a finding at `at`."""
    _same_file(origin.place, at, origin.name)
    if origin.kind in (ABSENT, DEFAULT):
        return _add(origin.site, origin.name, value)
    if origin.kind == OPTION:
        assert isinstance(origin.place.node, cst.Call)
        if any(arg.keyword is not None and arg.keyword.value == "action" for arg in origin.place.node.args):
            raise CannotEdit(f"the option in line {origin.place.row} decides")
        return set_keyword(origin.place.tree, origin.place.node, "default", value)
    if origin.kind == ITEM:
        node = item_value(origin.place)
        if node is None:
            raise CannotEdit(f"`{origin.name}` is set in line {origin.place.row} in an unusual way")
        return replace(origin.place.tree, node, value)
    if origin.kind == OTHER:
        raise CannotEdit(f"`{origin.name}` is worked out elsewhere: set it there")
    return replace(origin.place.tree, origin.place.node, value)


def choose_beside(item: Place, name: str, value: str, at: Place) -> tuple[Edit, ...]:
    """Put `name` with `value` beside an item of a dict, for a finding at `at`."""
    tree = item.tree
    if item.path != at.path:
        raise CannotEdit(f"the call's options stand in {shown(item.path)}, line {item.row}")
    if isinstance(item.node, cst.Arg):
        call = tree.parent(item.node)
        assert isinstance(call, cst.Call)
        return add_keyword(tree, call, name, value)
    if not (isinstance(item.node, cst.DictElement) and isinstance(item.node.key, cst.SimpleString)):
        raise CannotEdit(f"the call's options are filled in line {item.row}: set `{name}` there")
    end = tree.outer_span(item.node.value)[1]
    quote = tree.code(item.node.key)[-1]
    return (Edit(end, end, f", {quote}{name}{quote}: {as_argument(value)}"),)


def _add(call: Place, name: str, value: str) -> tuple[Edit, ...]:
    assert isinstance(call.node, cst.Call)
    for arg in call.node.args:
        if arg.star == "**" and name in _words(call):
            raise CannotEdit(f"`**{call.tree.code(arg.value)}` may hold `{name}` on another path")
    return add_keyword(call.tree, call.node, name, value)


def _words(call: Place) -> frozenset[str]:
    return frozenset[str]().union(*(statement.words for statement in call.file.outline.statements))


def _same_file(place: Place, at: Place, name: str) -> None:
    if place.path != at.path:
        raise CannotEdit(f"`{name}` is chosen in {shown(place.path)}, line {place.row}")

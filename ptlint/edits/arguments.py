"""Adding, setting and removing the keyword arguments of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.expressions import as_argument
from ptlint.edits.layout import (
    CannotEdit,
    leading,
    newline_at,
    next_row,
    row_end,
    row_start,
    starts_row,
    unit_below,
    with_newlines,
)
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.syntax.tree import Tree


def add_keyword(tree: Tree, call: cst.Call, name: str, value: str) -> tuple[Edit, ...]:
    """Give the call one more keyword argument: the last one, but in front of a `**mapping` at the end."""
    if _given(call, name) is not None:
        raise CannotEdit(f"`{name}` is given already")
    argument = f"{name}={with_newlines(as_argument(value), tree.source.newline)}"
    if not call.args:
        return _into_empty(tree, call, argument)
    if _is_bare_generator(call):
        start, end = tree.span(call.args[0].value)
        return (Edit(start, start, "("), Edit(end, end, f"), {argument}"))
    mappings = 0
    while mappings < len(call.args) and call.args[-1 - mappings].star == "**":
        mappings += 1
    if mappings:
        return _in_front_of(tree, call, len(call.args) - mappings, argument)
    return _at_the_end(tree, call, argument)


def add_first(tree: Tree, call: cst.Call, value: str) -> tuple[Edit, ...]:
    """Give the call one more positional argument, in front of the others."""
    argument = with_newlines(as_argument(value), tree.source.newline)
    if not call.args:
        return _into_empty(tree, call, argument)
    if _is_bare_generator(call):
        start, end = tree.span(call.args[0].value)
        return (Edit(start, start, f"{argument}, ("), Edit(end, end, ")"))
    return _in_front_of(tree, call, 0, argument)


def set_keyword(tree: Tree, call: cst.Call, name: str, value: str) -> tuple[Edit, ...]:
    """Give the keyword argument this value, whether the call has it or not; no edit where it has this value."""
    given = _given(call, name)
    if given is None:
        return add_keyword(tree, call, name, value)
    start, end = tree.outer_span(given.value)
    if tree.source.text[start:end] == value:
        return ()
    return (Edit(start, end, with_newlines(as_argument(value), tree.source.newline)),)


def remove_keyword(tree: Tree, call: cst.Call, name: str) -> tuple[Edit, ...]:
    """Take the keyword argument away, with its comma and, where it has one for itself, its row."""
    given = _given(call, name)
    if given is None:
        raise CannotEdit(f"`{name}` is not given")
    return remove_argument(tree, call, given)


def remove_argument(tree: Tree, call: cst.Call, arg: cst.Arg) -> tuple[Edit, ...]:
    """As `remove_keyword`, for any argument."""
    source = tree.source
    text = source.text
    index = call.args.index(arg)
    start, end = tree.span(arg)
    comma = _comma(tree, arg)
    after = comma[1] if comma else end
    # Between arguments there are only white space, commas and comments.
    if comma and "#" in text[end : comma[0]]:
        return (Edit(start, end, ""), Edit(*comma, ""))
    is_last = index == len(call.args) - 1
    if is_last and not comma and index:
        previous_end = tree.span(call.args[index - 1])[1]
        if "#" not in text[previous_end:start]:
            return (Edit(previous_end, end, ""),)
    if starts_row(source, start) and not text[after : row_end(source, after)].strip():
        return (Edit(row_start(source, start), next_row(source, after), ""),)
    if not is_last:
        following = tree.span(call.args[index + 1])[0]
        if row_start(source, following) == row_start(source, after):
            return (Edit(start, following, ""),)
    if index and not starts_row(source, start):
        before = _comma(tree, call.args[index - 1])
        if before:
            return (Edit(before[1], after, ""),)
    return (Edit(start, after, ""),)


def _given(call: cst.Call, name: str) -> cst.Arg | None:
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name), None)


def _is_bare_generator(call: cst.Call) -> bool:
    first = call.args[0]
    return len(call.args) == 1 and isinstance(first.value, cst.GeneratorExp) and not first.value.lpar


def _comma(tree: Tree, arg: cst.Arg) -> tuple[int, int] | None:
    """Where the comma itself stands."""
    if not isinstance(arg.comma, cst.Comma):
        return None
    start, end = tree.span(arg.comma)
    place = start + tree.source.text[start:end].index(",")
    return place, place + 1


def _into_empty(tree: Tree, call: cst.Call, argument: str) -> tuple[Edit, ...]:
    source = tree.source
    close = tree.span(call)[1] - 1
    between = tree.code(call.whitespace_before_args)
    if not between.strip(" \t"):
        return (Edit(close - len(between), close, argument),)
    row = row_start(source, close)
    indentation = leading(source, close) + unit_below(tree, call)
    if not starts_row(source, close) or row <= tree.span(call)[0]:
        raise CannotEdit("the call's empty parentheses are laid out in an unusual way")
    return (Edit(row, row, f"{indentation}{argument},{newline_at(source, close)}"),)


def _in_front_of(tree: Tree, call: cst.Call, index: int, argument: str) -> tuple[Edit, ...]:
    source = tree.source
    start = tree.span(call.args[index])[0]
    if starts_row(source, start) and row_start(source, start) > tree.span(call)[0]:
        indentation = source.text[row_start(source, start) : start]
        return (Edit(start, start, f"{argument},{newline_at(source, start)}{indentation}"),)
    return (Edit(start, start, f"{argument}, "),)


def _at_the_end(tree: Tree, call: cst.Call, argument: str) -> tuple[Edit, ...]:
    source = tree.source
    last = call.args[-1]
    start, end = tree.span(last)
    comma = _comma(tree, last)
    if not starts_row(source, start):
        if comma:
            return (Edit(comma[1], comma[1], f" {argument},"),)
        return (Edit(end, end, f", {argument}"),)
    after = comma[1] if comma else end
    close = tree.span(call)[1] - 1
    place = after
    if "#" in source.text[after : min(row_end(source, after), close)]:
        place = row_end(source, after)
    indentation = source.text[row_start(source, start) : start]
    own_row = f"{newline_at(source, start)}{indentation}{argument}"
    if comma:
        return (Edit(place, place, f"{own_row},"),)
    if place == end:
        return (Edit(end, end, f",{own_row}"),)
    return (Edit(end, end, ","), Edit(place, place, own_row))

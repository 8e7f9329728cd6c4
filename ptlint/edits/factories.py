"""Making a tensor where it is used: the device goes from a `.to(…)` behind the factory into its call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.arguments import add_keyword
from ptlint.edits.layout import CannotEdit
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.syntax.tree import Tree

_SIMPLE = (cst.Name, cst.Attribute, cst.SimpleString, cst.Integer)


def make_on_device(tree: Tree, move: cst.Call, factory: cst.Call, how: str, *, to_tensor: bool) -> tuple[Edit, ...]:
    """Edits for `factory(…).to(device)`; `how` is the method's name, `to_tensor`: its argument is another tensor.

    A call that also changes the type stays; it no longer copies to another device.
    """
    func = move.func
    if not isinstance(func, cst.Attribute):
        raise CannotEdit("it is not copied by a method")
    given = _device_argument(move)
    if how == "cuda" and given is None:
        text = '"cuda"'
    elif how == "type":
        text = '"cuda"'
    elif given is None:
        raise CannotEdit("the device is not written in the call")
    elif not isinstance(given.value, _SIMPLE):
        raise CannotEdit("the device is worked out in the call")
    else:
        text = tree.code(given.value) + (".device" if to_tensor else "")
    edits = add_keyword(tree, factory, "device", text)
    others = [arg for arg in move.args if arg is not given and not _says_how(arg)]
    if how == "type" or to_tensor or others:
        return edits
    return (*edits, Edit(tree.outer_span(func.value)[1], tree.span(move)[1], ""))


def _device_argument(move: cst.Call) -> cst.Arg | None:
    for index, arg in enumerate(move.args):
        if arg.star:
            raise CannotEdit("the call spreads arguments")
        if (arg.keyword is None and index == 0) or (
            arg.keyword is not None and arg.keyword.value in ("device", "other")
        ):
            return arg
    return None


def _says_how(arg: cst.Arg) -> bool:
    """`non_blocking=` and `copy=` say how to copy, and there is nothing left to copy."""
    return arg.keyword is not None and arg.keyword.value in ("non_blocking", "copy")

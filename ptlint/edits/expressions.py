"""Replacing expressions: parentheses are added where the new text would bind otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.layout import CannotEdit, with_newlines
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.syntax.tree import Tree

_ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.SimpleString,
    cst.FormattedString,
    cst.List,
    cst.Dict,
    cst.Set,
    cst.ListComp,
    cst.DictComp,
    cst.SetComp,
    cst.Ellipsis,
)
_NUMBERS = (cst.Integer, cst.Float, cst.Imaginary)
# Legal without parentheses in fewer places than other expressions.
_SHY = (cst.Tuple, cst.Yield, cst.NamedExpr, cst.GeneratorExp)
# Below these any other expression may stand as it is.
_ROOMY = (
    cst.Arg,
    cst.Assign,
    cst.AnnAssign,
    cst.AugAssign,
    cst.Expr,
    cst.Return,
    cst.Element,
    cst.Index,
    cst.DictElement,
    cst.If,
    cst.While,
    cst.For,
    cst.Assert,
    cst.Raise,
    cst.Param,
)


def parsed(text: str) -> cst.BaseExpression:
    """The expression that `text` is; `CannotEdit` where it is none."""
    try:
        return cst.parse_expression(text)
    except cst.ParserSyntaxError as error:
        raise CannotEdit(f"`{text}` is not an expression") from error


def as_argument(text: str) -> str:
    """`text` as the value of an argument."""
    node = parsed(text)
    return f"({text})" if isinstance(node, _SHY) and not node.lpar else text


def replace(tree: Tree, node: cst.CSTNode, new_text: str) -> tuple[Edit, ...]:
    """Put `new_text` in the place of `node`, in parentheses where an operator around it asks for them."""
    text = tree.source.text
    start, end = tree.span(node)
    if not isinstance(node, cst.BaseExpression):
        return (Edit(start, end, new_text),)
    new = parsed(new_text)
    new_text = with_newlines(new_text, tree.source.newline)
    needs_parentheses = _binds_otherwise(tree.parent(node), new)
    if node.lpar:
        outer_start, outer_end = tree.outer_span(node)
        around = text[outer_start:start] + text[end:outer_end]
        if needs_parentheses or "#" in around or "\n" in around or "\r" in around:
            return (Edit(start, end, new_text),)
        start, end = outer_start, outer_end
    elif needs_parentheses:
        new_text = f"({new_text})"
    # `return(x)`, `[0]if a else b`: what stood there was its own separator.
    if _is_word(text[start - 1 : start]) and _is_word(new_text[0]):
        new_text = f" {new_text}"
    if _is_word(text[end : end + 1]) and _is_word(new_text[-1]):
        new_text = f"{new_text} "
    return (Edit(start, end, new_text),)


def _is_word(character: str) -> bool:
    return character.isalnum() or character in {"_", '"', "'"}


def _binds_otherwise(parent: cst.CSTNode | None, new: cst.BaseExpression) -> bool:
    if new.lpar or isinstance(new, _ATOMS):
        return False
    if isinstance(new, _NUMBERS):
        return isinstance(parent, cst.Attribute)
    return isinstance(new, _SHY) or not isinstance(parent, _ROOMY)


def rename_call(tree: Tree, call: cst.Call, new_callee: str) -> tuple[Edit, ...]:
    """Call `new_callee` instead, with the same arguments."""
    if not isinstance(parsed(new_callee), (cst.Name, cst.Attribute)):
        raise CannotEdit(f"`{new_callee}` is not a name")
    start, end = tree.outer_span(call.func)
    return (Edit(start, end, new_callee),)

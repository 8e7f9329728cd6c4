"""Which fields of a libcst node carry meaning, in source order.

About two thirds of libcst's nodes are white space, commas, parentheses and operators. Walking only the others, by a
table of field names a node type, is an order of magnitude faster than libcst's visitors.
"""

from __future__ import annotations

import dataclasses
import typing

import libcst as cst

_TRIVIA = frozenset(
    [
        "asynchronous",
        "colon",
        "comma",
        "default_indent",
        "default_newline",
        "dot",
        "encoding",
        "equal",
        "first_colon",
        "footer",
        "has_trailing_newline",
        "header",
        "indent",
        "lbrace",
        "lbracket",
        "leading_lines",
        "lines_after_decorators",
        "lpar",
        "newline",
        "operator",
        "posonly_ind",
        "prefix",
        "rbrace",
        "rbracket",
        "relative",
        "rpar",
        "second_colon",
        "semicolon",
        "separator",
        "star",
        "trailing_comma",
        "trailing_whitespace",
    ]
)

# libcst declares these types' fields in another order than the source has them.
_SOURCE_ORDER: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Arg: ("keyword", "value"),
    cst.ClassDef: ("decorators", "name", "type_parameters", "bases", "keywords", "body"),
    cst.ExceptHandler: ("type", "name", "body"),
    cst.ExceptStarHandler: ("type", "name", "body"),
    cst.FunctionDef: ("decorators", "name", "type_parameters", "params", "returns", "body"),
    cst.IfExp: ("body", "test", "orelse"),
    cst.MatchCase: ("pattern", "guard", "body"),
    cst.Parameters: ("posonly_params", "params", "star_arg", "kwonly_params", "star_kwarg"),
    cst.TypeAlias: ("name", "type_parameters", "value"),
}

_fields: dict[type[cst.CSTNode], tuple[str, ...]] = {}


def _holds_text_only(annotation: object) -> bool:
    if annotation in (str, bool, "str", "bool"):
        return True
    if typing.get_origin(annotation) is typing.Literal:
        return True
    return annotation == typing.Optional[str]  # noqa: UP045  libcst spells its annotations so


def fields_of(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The names of the fields of `kind` that may hold meaningful nodes, in source order."""
    found = _fields.get(kind)
    if found is None:
        found = _SOURCE_ORDER.get(kind)
        if found is None:
            found = tuple(
                field.name
                for field in dataclasses.fields(kind)
                if "whitespace" not in field.name
                and field.name not in _TRIVIA
                and not field.name.startswith("_")
                and not _holds_text_only(field.type)
            )
        _fields[kind] = found
    return found


_is_node: dict[type, bool] = {}


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The meaningful nodes directly below `node`, in source order."""
    below: list[cst.CSTNode] = []
    for name in fields_of(node.__class__):
        value = getattr(node, name)
        kind = value.__class__
        if kind is tuple or kind is list:
            below += value
            continue
        # libcst's classes are ABCs, whose isinstance() is slow.
        known = _is_node.get(kind)
        if known is None:
            known = _is_node[kind] = issubclass(kind, cst.CSTNode)
        if known:
            below.append(value)
    return below

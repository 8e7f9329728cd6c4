"""Builders of edits: they keep comments, commas, indentation, line ends and the contents of strings.

Each takes the tree and nodes of it and gives the edits of one change, or raises `CannotEdit` where the change cannot
be made right.
"""

from __future__ import annotations

from ptlint.edits.arguments import add_first, add_keyword, remove_argument, remove_keyword, set_keyword
from ptlint.edits.expressions import rename_call, replace
from ptlint.edits.imports import import_edit, import_edits
from ptlint.edits.layout import CannotEdit
from ptlint.edits.statements import (
    add_decorator,
    delete_statement,
    insert_after,
    insert_before,
    replace_statements,
    unwrap,
    wrap_with,
)

__all__ = [
    "CannotEdit",
    "add_decorator",
    "add_first",
    "add_keyword",
    "delete_statement",
    "import_edit",
    "import_edits",
    "insert_after",
    "insert_before",
    "remove_argument",
    "remove_keyword",
    "rename_call",
    "replace",
    "replace_statements",
    "set_keyword",
    "unwrap",
    "wrap_with",
]

"""Concrete syntax: the libcst tree of a top-level statement, made when someone asks for it.

This package is the only code that touches libcst's internals.
"""

from __future__ import annotations

from ptlint.syntax.tree import SyntaxUnreadable, Tree

__all__ = ["SyntaxUnreadable", "Tree"]

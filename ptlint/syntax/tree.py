"""The libcst tree of one top-level statement, with parents, nodes by kind and spans in the file's text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import libcst as cst

from ptlint.outline.collector import collection_paused
from ptlint.syntax.fields import children, fields_of
from ptlint.syntax.spans import Spans, spans_of, with_deep_stack

if TYPE_CHECKING:
    from ptlint.outline.shape import Method
    from ptlint.outline.statements import Statement
    from ptlint.source.text import SourceFile

StatementNode = cst.BaseSmallStatement | cst.BaseCompoundStatement
BodyNode = cst.SimpleStatementLine | cst.BaseCompoundStatement | cst.SimpleStatementSuite

_Node = TypeVar("_Node", bound=cst.CSTNode)

# Python's tokenizer forgets the columns before a form feed in a line's indentation; libcst would repeat it on each
# line of the block.
_FORM_FEED_INDENT = re.compile(r"(?:(?<=[\r\n])|\A)[ \t\f]*\f")


_NO_BODY = "0"
"""Stands for the body of a function that was left out."""


class SyntaxUnreadable(Exception):  # noqa: N818  says what happened
    """libcst cannot read the statement; `row` and `column` are the file's, from 1."""

    def __init__(self, message: str, row: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.row = row
        self.column = column


class Tree:
    """The syntax of the rows of one top-level statement (or several on shared rows).

    Offsets are characters of the file's decoded text. Parents and nodes by kind are found in one walk, spans in one
    code generation, each when first asked for.
    """

    def __init__(self, source: SourceFile, module: cst.Module, start: int, end: int, *, first_row: int = 1) -> None:
        self.source = source
        self.module = module
        self.start = start
        self.end = end
        self.first_row = first_row
        self._parents: dict[cst.CSTNode, cst.CSTNode] | None = None
        self._order: list[cst.CSTNode] = []
        self._kinds: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        self._spans: Spans | None = None
        self._text = source.text[start:end]
        self._cuts: tuple[list[int], list[int]] = ([], [])
        self._above = 0  # characters parsed in front of the text at `start`
        self._bodies: dict[int, Method] = {}
        self._wholes: dict[int, tuple[Tree, cst.FunctionDef]] = {}

    @classmethod
    def parse(cls, source: SourceFile, statement: Statement) -> Tree:
        """Parse the rows of `statement`; raises `SyntaxUnreadable`."""
        return cls.parse_rows(source, statement.first_row, statement.last_row)

    @classmethod
    def parse_rows(cls, source: SourceFile, first_row: int, last_row: int) -> Tree:
        """Parse the rows `first_row` to `last_row`, which hold whole top-level statements."""
        starts = source.line_starts
        start = starts[first_row - 1]
        end = starts[last_row] if last_row < len(starts) else len(source.text)
        text = source.text[start:end]
        cuts: tuple[list[int], list[int]] = ([], [])
        if "\f" in text:
            text, cuts = _without_form_feed_indents(text, start)
        module = _parse(text, first_row)
        tree = cls(source, module, start, end, first_row=first_row)
        tree._text, tree._cuts = text, cuts
        return tree

    @classmethod
    def parse_class(cls, source: SourceFile, statement: Statement) -> Tree:
        """Parse a class without the bodies of its methods, of which few are ever asked for (see `whole`)."""
        starts = source.line_starts
        cut = [method for method in statement.methods if not method.one_line]
        start = starts[statement.first_row - 1]
        end = starts[statement.last_row] if statement.last_row < len(starts) else len(source.text)
        if not cut or "\f" in source.text[start:end]:
            return cls.parse(source, statement)
        pieces: list[str] = []
        cuts: tuple[list[int], list[int]] = ([], [])
        done, total = start, 0
        for method in cut:
            row = source.text[starts[method.body_row - 1] : _end_of_row(source, method.body_row)]
            first = starts[method.body_row - 1] + len(row) - len(row.lstrip())
            last = _end_of_row(source, method.last_row)
            pieces += (source.text[done:first], _NO_BODY)
            cuts[0].append(first + len(_NO_BODY) - total)
            total += last - first - len(_NO_BODY)
            cuts[1].append(total)
            done = last
        pieces.append(source.text[done:end])
        text = "".join(pieces)
        tree = cls(source, _parse(text, statement.first_row), start, end, first_row=statement.first_row)
        tree._text, tree._cuts = text, cuts
        definition = tree.module.body[0]
        assert isinstance(definition, cst.ClassDef)
        heads = [member for member in definition.body.body if isinstance(member, cst.FunctionDef)]
        for head, method in zip(heads, statement.methods, strict=True):
            if not method.one_line:
                tree._bodies[id(head)] = method
        return tree

    def whole(self, head: _Node) -> tuple[Tree, _Node]:
        """A function with its body, and the tree that holds it; raises `SyntaxUnreadable`.

        `head` itself in this tree, unless that is the tree of a class and left the body out.
        """
        method = self._bodies.get(id(head))
        if method is None:
            return self, head
        found = self._wholes.get(id(head))
        if found is None:
            found = self._wholes[id(head)] = self._parse_method(method)
        return cast("tuple[Tree, _Node]", found)

    def _parse_method(self, method: Method) -> tuple[Tree, cst.FunctionDef]:
        starts, text = self.source.line_starts, self.source.text
        start = starts[method.first_row - 1]
        end = starts[method.last_row] if method.last_row < len(starts) else len(text)
        owner = self.module.body[0]
        assert isinstance(owner, cst.ClassDef)
        # Indented as it is, it needs something to stand in; what asks for the class around it finds one.
        above = f"class {owner.name.value}:\n"
        module = _parse(above + text[start:end], method.first_row - 1)
        tree = Tree(self.source, module, start, end, first_row=method.first_row)
        tree._text, tree._above = above + text[start:end], len(above)
        around = module.body[0]
        assert isinstance(around, cst.ClassDef)
        function = around.body.body[0]
        assert isinstance(function, cst.FunctionDef)
        return tree, function

    @property
    def lines(self) -> int:
        """How many lines were parsed for it so far."""
        return self._text.count("\n") + sum(tree.lines for tree, _ in self._wholes.values())

    @property
    def body(self) -> Sequence[cst.SimpleStatementLine | cst.BaseCompoundStatement]:
        """The statements themselves."""
        return self.module.body

    # Structure

    def children(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The meaningful nodes directly below `node`, in source order: no white space, commas or operators."""
        return children(node)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node above; None above the module."""
        return self._index().get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes above, innermost first, the module last."""
        parents = self._index()
        above = parents.get(node)
        while above is not None:
            yield above
            above = parents.get(above)

    def nodes(self, kind: Callable[..., _Node]) -> list[_Node]:
        """All nodes of the class `kind` (subclasses included), in source order."""
        # A callable, because mypy refuses libcst's abstract bases where `type` is asked for.
        wanted = cast("type[_Node]", kind)
        self._index()
        found = self._kinds.get(wanted)
        if found is None:
            found = self._kinds[wanted] = [node for node in self._order if isinstance(node, wanted)]
        return cast("list[_Node]", found)

    def walk(self, node: cst.CSTNode | None = None) -> Iterator[cst.CSTNode]:
        """`node` (default: the module) and all meaningful nodes below it, in source order."""
        stack = [self.module if node is None else node]
        while stack:
            here = stack.pop()
            yield here
            below = children(here)
            below.reverse()
            stack += below

    def statement(self, node: cst.CSTNode) -> StatementNode | None:
        """The innermost simple (`cst.Assign`, ...) or compound statement that holds `node`, or `node` itself.

        A decorator or a default belongs to its `def`, a test to its `if`; None for the module.
        """
        found = self._innermost(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement))
        assert found is None or isinstance(found, (cst.BaseSmallStatement, cst.BaseCompoundStatement))
        return found

    def body_statement(self, node: cst.CSTNode) -> BodyNode | None:
        """As `statement`, but as it stands in a body: a `SimpleStatementLine` instead of the small statements on it
        (a `SimpleStatementSuite` where they follow a colon on its row)."""
        wanted = (cst.SimpleStatementLine, cst.BaseCompoundStatement, cst.SimpleStatementSuite)
        found = self._innermost(node, wanted)
        assert found is None or isinstance(found, wanted)
        return found

    def _innermost(self, node: cst.CSTNode, kinds: tuple[type, ...]) -> cst.CSTNode | None:
        if isinstance(node, kinds):
            return node
        return next((above for above in self.ancestors(node) if isinstance(above, kinds)), None)

    def _index(self) -> dict[cst.CSTNode, cst.CSTNode]:
        if self._parents is not None:
            return self._parents
        parents: dict[cst.CSTNode, cst.CSTNode] = {}
        kinds: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        order: list[cst.CSTNode] = []
        stack: list[cst.CSTNode] = [self.module]
        while stack:
            node = stack.pop()
            order.append(node)
            kind = node.__class__
            known = kinds.get(kind)
            if known is None:
                known = kinds[kind] = []
            known.append(node)
            fields = fields_of(kind)
            if not fields:
                continue
            below: list[cst.CSTNode] = []
            for name in fields:
                value = getattr(node, name)
                if value is None:
                    continue
                if isinstance(value, cst.CSTNode):
                    below.append(value)
                elif isinstance(value, (tuple, list)):
                    below += value
            for child in below:
                parents[child] = node
            below.reverse()
            stack += below
        self._parents, self._order, self._kinds = parents, order, kinds
        return parents

    # Places

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Start and end, as `PositionProvider` sees them: a `def` starts at its keyword, not at its decorators, and
        an expression does not hold the parentheses around it."""
        spans = self._spans
        if spans is None:
            spans = self._find_spans()
        return spans[node]

    def outer_span(self, node: cst.CSTNode) -> tuple[int, int]:
        """As `span`, with the parentheses that the node owns."""
        start, end = self.span(node)
        left: Sequence[cst.CSTNode] = getattr(node, "lpar", ())
        right: Sequence[cst.CSTNode] = getattr(node, "rpar", ())
        if isinstance(left, (tuple, list)) and left:
            start = min(start, self.span(left[0])[0])
        if isinstance(right, (tuple, list)) and right:
            end = max(end, self.span(right[-1])[1])
        return start, end

    def code(self, node: cst.CSTNode) -> str:
        """The source text of `node`'s span."""
        start, end = self.span(node)
        return self.source.text[start:end]

    def outer_code(self, node: cst.CSTNode) -> str:
        """The source text of `node` with its parentheses."""
        start, end = self.outer_span(node)
        return self.source.text[start:end]

    def row(self, node: cst.CSTNode) -> int:
        """The row, from 1, on which `node` starts."""
        return bisect_right(self.source.line_starts, self.span(node)[0])

    def _find_spans(self) -> Spans:
        with collection_paused():
            spans = spans_of(self.module, self._text, self.start - self._above)
        if self._cuts[0]:
            spans = _widened(spans, self._cuts)
        self._spans = spans
        return spans


def _end_of_row(source: SourceFile, row: int) -> int:
    """Where a row ends, its newline left out."""
    starts = source.line_starts
    end = starts[row] if row < len(starts) else len(source.text)
    return starts[row - 1] + len(source.text[starts[row - 1] : end].rstrip("\r\n"))


def _parse(text: str, first_row: int) -> cst.Module:
    if text.startswith("\ufeff"):
        raise SyntaxUnreadable("a byte order mark inside the text", first_row, 1)
    try:
        with collection_paused():
            return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise SyntaxUnreadable(error.message, first_row + error.raw_line - 1, error.raw_column + 1) from None
    except RecursionError:
        return with_deep_stack(lambda: cst.parse_module(text))
    except UnicodeEncodeError:
        raise SyntaxUnreadable("a lone surrogate in the text", first_row, 1) from None
    except BaseException as error:
        # pyo3 derives its panics from BaseException, and offers no name to import.
        if type(error).__name__ != "PanicException":
            raise
        raise SyntaxUnreadable(f"libcst failed: {error}", first_row, 1) from None


def _without_form_feed_indents(text: str, start: int) -> tuple[str, tuple[list[int], list[int]]]:
    """`text` without what ends in a form feed in front of a line; and where that was cut, in offsets of the shorter
    text, with how much was cut up to there."""
    pieces: list[str] = []
    places: list[int] = []
    totals: list[int] = []
    done = total = 0
    for match in _FORM_FEED_INDENT.finditer(text):
        pieces.append(text[done : match.start()])
        places.append(start + match.start() - total)
        total += match.end() - match.start()
        totals.append(total)
        done = match.end()
    pieces.append(text[done:])
    return "".join(pieces), (places, totals)


def _widened(spans: Spans, cuts: tuple[list[int], list[int]]) -> Spans:
    """Spans of the shortened text as spans of the file's: a start moves behind what was cut there, an end does not."""
    places, totals = cuts
    result: Spans = {}
    for node, (first, last) in spans.items():
        before_first = bisect_right(places, first)
        before_last = before_first if last == first else bisect_left(places, last)
        result[node] = (
            first + (totals[before_first - 1] if before_first else 0),
            last + (totals[before_last - 1] if before_last else 0),
        )
    return result

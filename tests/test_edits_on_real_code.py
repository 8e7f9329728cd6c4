"""The builders on the standard library's own sources: `ast` must see the wanted change and nothing else, and no
comment may go."""

from __future__ import annotations

import ast
import io
import random
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import libcst as cst
import pytest

from ptlint import edits
from ptlint.edits import CannotEdit
from ptlint.findings import Edit
from ptlint.fixes import apply_edits
from ptlint.source.text import SourceFile, read_source, source_from_text
from ptlint.syntax import Tree

STDLIB = Path(sysconfig.get_paths()["stdlib"])
MODULES = ("heapq.py", "textwrap.py", "shelve.py", "asyncio/taskgroups.py")
PATHS = tuple(path for name in MODULES if (path := STDLIB / name).exists())
CASES = [(path, "\n") for path in PATHS] + [(path, newline) for path in PATHS[-1:] for newline in ("\r\n", "\r")]
STEPS = 5

_Node = TypeVar("_Node", bound=cst.CSTNode)


def parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def comments(text: str) -> list[str]:
    readable = re.sub(r"\r\n?", "\n", text)
    return [t.string for t in tokenize.generate_tokens(io.StringIO(readable).readline) if t.type == tokenize.COMMENT]


class Case:
    """One file, whole, with other line ends; and random picks of its nodes."""

    def __init__(self, path: Path, newline: str) -> None:
        text = re.sub(r"\r\n?|\n", newline, read_source(path).text)
        self.source: SourceFile = source_from_text(path, text)
        self.text = text
        self.comments = comments(text)
        self.tree = Tree.parse_rows(self.source, 1, len(self.source.line_starts))
        self.random = random.Random(path.name + newline)

    def some(self, kind: Callable[..., _Node]) -> list[_Node]:
        nodes = self.tree.nodes(kind)
        return self.random.sample(nodes, min(STEPS, len(nodes)))

    def after(self, new: tuple[Edit, ...], *, keeps_comments: bool = True) -> ast.Module:
        text = apply_edits(self.text, new)
        if keeps_comments:
            assert comments(text) == self.comments
        rest = set(re.findall(r"\r\n?|\n", text))
        assert rest <= set(re.findall(r"\r\n?|\n", self.text))
        return parse(text)


@pytest.fixture(params=CASES, ids=lambda given: f"{given[0].name} {given[1]!r}")
def case(request: pytest.FixtureRequest) -> Case:
    path, newline = request.param
    return Case(path, newline)


class Unmark(ast.NodeTransformer):
    """Undo the change: what carries the mark goes, and what it holds comes up."""

    def __init__(self) -> None:
        self.found = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        kept = [keyword for keyword in node.keywords if keyword.arg != "mark_"]
        self.found += len(node.keywords) - len(kept)
        node.keywords = kept
        return node

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if ast.unparse(node.items[0].context_expr) != "mark_":
            return node
        self.found += 1
        return node.body

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Name) and node.value.id == "mark_":
            self.found += 1
            return None
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return node


def unmarked(module: ast.Module) -> tuple[str, int]:
    transformer = Unmark()
    return ast.dump(transformer.visit(module)), transformer.found


def test_add_and_remove_keyword(case: Case) -> None:
    before = ast.dump(parse(case.text))
    for call in case.some(cst.Call):
        new = edits.add_keyword(case.tree, call, "mark_", "1")
        assert unmarked(case.after(new)) == (before, 1)
        text = apply_edits(case.text, new)
        source = case.source.with_text(text)
        again = Tree.parse_rows(source, 1, len(source.line_starts))
        marked = next(
            call for call in again.nodes(cst.Call) if any(a.keyword and a.keyword.value == "mark_" for a in call.args)
        )
        back = apply_edits(text, edits.remove_keyword(again, marked, "mark_"))
        assert ast.dump(parse(back)) == before
        assert comments(back) == case.comments


def test_insert_before_and_after(case: Case) -> None:
    before = ast.dump(parse(case.text))
    refused = 0
    for line in [*case.some(cst.SimpleStatementLine), *case.some(cst.BaseCompoundStatement)]:
        for build in (edits.insert_before, edits.insert_after):
            try:
                new = build(case.tree, line, ["mark_"])
            except CannotEdit:
                refused += 1
                continue
            assert unmarked(case.after(new)) == (before, 1)
    assert refused < STEPS


def test_wrap_with(case: Case) -> None:
    before = ast.dump(parse(case.text))
    for block in case.some(cst.IndentedBlock):
        first = case.random.randrange(len(block.body))
        last = case.random.randrange(first, len(block.body))
        new = edits.wrap_with(case.tree, block.body[first], block.body[last], "with mark_:")
        after = case.after(new)
        assert unmarked(after) == (before, 1)
        text = apply_edits(case.text, new)
        source = case.source.with_text(text)
        again = Tree.parse_rows(source, 1, len(source.line_starts))
        marked = next(node for node in again.nodes(cst.With) if again.code(node).startswith("with mark_:"))
        assert apply_edits(text, edits.unwrap(again, marked)) == case.text


def test_delete_statement(case: Case) -> None:
    before = parse(case.text)
    count = sum(isinstance(node, ast.stmt) for node in ast.walk(before))
    for small in case.some(cst.BaseSmallStatement):
        after = case.after(edits.delete_statement(case.tree, small), keeps_comments="#" not in case.tree.code(small))
        left = sum(isinstance(node, ast.stmt) for node in ast.walk(after))
        alone = isinstance(case.tree.parent(case.tree.parent(small) or small), cst.IndentedBlock | cst.Module)
        assert left in ((count - 1, count) if alone else (count,)) or not alone


def test_replace_by_itself(case: Case) -> None:
    before = ast.dump(parse(case.text))
    for node in case.some(cst.BaseExpression):
        if isinstance(
            case.tree.parent(node), (cst.Arg, cst.BinaryOperation, cst.Comparison, cst.Attribute, cst.Return)
        ):
            try:
                new = edits.replace(case.tree, node, case.tree.code(node))
            except CannotEdit:
                continue
            assert ast.dump(case.after(new)) == before


def test_add_decorator(case: Case) -> None:
    for definition in case.some(cst.FunctionDef):
        after = case.after(edits.add_decorator(case.tree, definition, "@mark_"))
        marked = [
            node
            for node in ast.walk(after)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.decorator_list
            and ast.unparse(node.decorator_list[-1]) == "mark_"
        ]
        assert [node.name for node in marked] == [definition.name.value]

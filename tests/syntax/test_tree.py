"""The tree against libcst's own providers, and its structure."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from ptlint.source.text import SourceFile, read_source, source_from_text
from ptlint.syntax import SyntaxUnreadable, Tree
from ptlint.syntax.fields import children
from ptlint.syntax.spans import count_spans, provided_spans

STDLIB = Path(sysconfig.get_paths()["stdlib"])
MODULES = (
    "argparse.py",
    "asyncio/base_events.py",
    "cgitb.py",
    "codecs.py",
    "dataclasses.py",
    "heapq.py",
    "email/message.py",
    "inspect.py",
    "textwrap.py",
    "test/test_grammar.py",
    "test/test_fstring.py",
    "test/test_patma.py",
    "test/test_except_star.py",
    "test/test_positional_only_arg.py",
    "test/test_unicode_identifiers.py",
)
REAL_FILES = tuple(path for name in MODULES if (path := STDLIB / name).exists())


def source(text: str) -> SourceFile:
    return source_from_text(Path("sample.py"), text)


def tree(text: str) -> Tree:
    made = source(text)
    return Tree.parse_rows(made, 1, len(made.line_starts))


def top_level_rows(text: str) -> list[tuple[int, int]]:
    """What the outline gives: the rows of each top-level statement, those that share a row as one."""
    rows: list[tuple[int, int]] = []
    for node in ast.parse(text).body:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        last = node.end_lineno or node.lineno
        if rows and first <= rows[-1][1]:
            rows[-1] = (rows[-1][0], max(last, rows[-1][1]))
        else:
            rows.append((first, last))
    return rows


def readable(path: Path) -> SourceFile | None:
    made = read_source(path)
    try:
        cst.parse_module(made.text)
    except cst.ParserSyntaxError:
        return None
    return made


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.name)
def test_spans_are_those_of_the_position_provider(path: Path) -> None:
    made = readable(path)
    if made is None:
        pytest.skip("libcst does not read this file")
    whole = MetadataWrapper(cst.parse_module(made.text), unsafe_skip_copy=True)
    counted = count_spans(whole.module, made.text, 0)
    assert counted == provided_spans(whole.module, made.text, 0)
    in_bytes = whole.resolve(ByteSpanPositionProvider)
    if made.text.isascii():
        for node, span in in_bytes.items():
            assert counted[node] == (span.start, span.start + span.length)
    else:
        for node, span in list(in_bytes.items())[::7]:
            start, end = counted[node]
            assert len(made.text[:start].encode()) == span.start
            assert len(made.text[start:end].encode()) == span.length


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.name)
def test_a_statement_alone_stands_where_it_stands_in_the_file(path: Path) -> None:
    made = readable(path)
    if made is None:
        pytest.skip("libcst does not read this file")
    module = cst.parse_module(made.text)
    whole = count_spans(module, made.text, 0)
    expected = [whole[node] for node in _walk(module)][1:]
    found = []
    for first, last in top_level_rows(made.text):
        part = Tree.parse_rows(made, first, last)
        found += [part.span(node) for node in part.walk()][1:]
        for node in part.nodes(cst.Name):
            assert part.code(node) == node.value
    assert found == expected


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.name)
def test_the_walk_goes_in_source_order_and_misses_no_name(path: Path) -> None:
    made = readable(path)
    if made is None:
        pytest.skip("libcst does not read this file")
    part = Tree.parse_rows(made, 1, len(made.line_starts))
    # A def or class with decorators starts behind them, and a block behind its first white space.
    order = [part.span(node)[0] for node in part.nodes(cst.BaseExpression)]
    plain = [part.span(node)[0] for node in part.nodes(cst.Name)]
    assert plain == sorted(plain)
    assert order == sorted(order)
    names: list[cst.Name] = []

    class Collector(cst.CSTVisitor):
        def visit_Name(self, node: cst.Name) -> None:  # noqa: N802  libcst's hook
            names.append(node)

    part.module.visit(Collector())
    assert sorted(plain) == sorted(part.span(name)[0] for name in names)


def _walk(node: cst.CSTNode) -> list[cst.CSTNode]:
    found = [node]
    for child in children(node):
        found += _walk(child)
    return found


LINES = st.lists(
    st.sampled_from(
        [
            "x = f(a, # comment",
            "      b)",
            "if x:",
            "    y = '''é",
            "  \f z'''",
            "    def g(a, /, b, *, c=1): return (a, b)",
            "\tpass",
            "    with a as b, c: d; e;",
            "\f",
            "\f    w = 1",
            "  \f    w = 2",
            "\fw = 3",
            "x = 1 \\",
            "  + 2",
            "# comment ü",
            "    # deep comment",
            "",
            "   ",
            "@d",
            "class C(B, k=1): x: int = 1",
            "s = '\u2028'",
            "x = [i for i in (j) if not j]",
            "else:",
            "    print(f'{x!r:>{w}} {y=}')",
        ]
    ),
    max_size=8,
)


@settings(max_examples=400, deadline=None)
@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_every_name_is_where_its_span_says(lines: list[str], newline: str, last_newline: bool) -> None:
    text = newline.join(lines) + (newline if last_newline else "")
    try:
        ast.parse(text)
        made = tree(text)
    except (SyntaxError, ValueError, SyntaxUnreadable):
        return
    for node in made.nodes(cst.Name):
        assert made.code(node) == node.value
    for literal in made.nodes(cst.Integer):
        assert made.code(literal) == literal.value
    for line in made.nodes(cst.SimpleStatementLine):
        assert made.code(line) == made.code(line).strip()
    if "\f" not in text and "\r" not in text:
        assert made._find_spans() == provided_spans(made.module, text, 0)


def test_form_feeds_in_indentation_do_not_shift_what_follows() -> None:
    text = "if x:\n  \f    y = 1\n    z = '''\n\fq'''\n\fw\n"
    made = tree(text)
    assert [made.code(node) for node in made.nodes(cst.Name)] == ["x", "y", "z", "w"]
    assert made.code(made.nodes(cst.SimpleString)[0]) == "'''\n\fq'''"


def test_parents_ancestors_statements() -> None:
    made = tree("@d(1)\ndef f(a=g()):\n    if a: b = h(a); c = 2\n    return a\n")
    by_name = {name.value: name for name in made.nodes(cst.Name)}
    function = made.nodes(cst.FunctionDef)[0]
    assert made.statement(by_name["d"]) is function
    assert made.statement(by_name["g"]) is function
    assign = made.nodes(cst.Assign)[0]
    assert made.statement(by_name["h"]) is assign
    suite = made.nodes(cst.SimpleStatementSuite)[0]
    assert made.body_statement(by_name["h"]) is suite
    assert made.parent(suite) is made.nodes(cst.If)[0]
    assert list(made.ancestors(by_name["h"]))[-1] is made.module
    assert made.parent(made.module) is None
    assert made.statement(made.module) is None
    assert made.code(function).startswith("def f")
    assert made.row(function) == 2
    last = made.nodes(cst.Return)[0]
    assert made.body_statement(last) is made.nodes(cst.SimpleStatementLine)[-1]


def test_nodes_by_abstract_kind_keep_source_order() -> None:
    made = tree("for x in y:\n    while z: pass\n")
    assert [type(node) for node in made.nodes(cst.BaseCompoundStatement)] == [cst.For, cst.While]


def test_outer_span_holds_owned_parentheses() -> None:
    made = tree("x = ( (a + b) )\ny = (1, 2)\nz = (yield)\n")
    add = made.nodes(cst.BinaryOperation)[0]
    assert (made.code(add), made.outer_code(add)) == ("a + b", "( (a + b) )")
    pair = made.nodes(cst.Tuple)[0]
    assert made.outer_code(pair) == "(1, 2)"


def test_rows_in_the_middle_of_a_file() -> None:
    made = source("import a\r\n\r\nx = é(1)\r\ny = 2")
    part = Tree.parse_rows(made, 3, 3)
    call = part.nodes(cst.Call)[0]
    assert part.code(call) == "é(1)"
    assert part.row(call) == 3
    last = Tree.parse_rows(made, 4, 4)
    assert last.code(last.body[0]) == "y = 2"


def test_what_libcst_cannot_read_says_where() -> None:
    made = source("x = 1\nprint 'a'\n")
    with pytest.raises(SyntaxUnreadable) as caught:
        Tree.parse_rows(made, 2, 2)
    assert caught.value.row == 2
    assert caught.value.message


def test_spans_of_a_chain_deeper_than_the_recursion_limit() -> None:
    made = tree("x = a" + " + a" * 900 + "\n")
    assert made.code(made.nodes(cst.Name)[-1]) == "a"
    assert made.code(made.nodes(cst.Assign)[0]) == made.source.text.strip()

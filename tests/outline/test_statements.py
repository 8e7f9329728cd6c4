"""The outline of a file: statements, what they hold and bind, imports, and errors in place of crashes."""

from __future__ import annotations

import ast
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

import ptlint
from ptlint.outline.statements import MAX_DEPTH, Import, Outline, outline


def _outline(text: str) -> Outline:
    return outline(textwrap.dedent(text))


def test_kinds_rows_and_names() -> None:
    found = _outline(
        '''\
        """Docstring."""
        import os
        from a import b

        @decorated(
            1,
        )
        async def run(x):
            return x


        class Net: pass
        for i in range(3):
            pass
        x = 1; y = (
            2); import z
        if x: y; z
        '''
    )
    assert [(item.kind, item.name, item.first_row, item.last_row) for item in found.statements] == [
        ("simple", "", 1, 1),
        ("import", "", 2, 2),
        ("import", "", 3, 3),
        ("def", "run", 5, 9),
        ("class", "Net", 12, 12),
        ("compound", "", 13, 14),
        ("simple", "", 15, 16),
        ("compound", "", 17, 17),
    ]
    assert [item.index for item in found.statements] == list(range(8))
    assert found.error is None
    assert [getattr(found.statement_at(row), "index", None) for row in (1, 4, 5, 9, 10, 16, 17, 18)] == [
        0, None, 3, 3, None, 6, 7, None]  # fmt: skip


def test_a_decorator_below_its_at_sign() -> None:
    (found,) = _outline("@(\n  a.b\n)\ndef f(): pass\n").statements
    assert (found.first_row, found.last_row) == (1, 4)


def test_words_reach_everywhere() -> None:
    (found,) = _outline(
        '''\
        @deco.rated(option=compiled)
        def outer(first: Typed = default, *rest, key=None, **more) -> Result:
            """A docstring that is much longer than forty characters is no word."""
            global shared
            import torch.utils.data as D
            from x.y import z as w
            def inner():
                return self.model(loader)[index].to("cuda:0", non_blocking=True)
            class Deep(Base, metaclass=Meta): pass
            try: pass
            except Broken as error: pass
            return f"{shown.value!r} text" + (lambda arg: arg)
        '''
    ).statements
    assert found.words == {
        *("deco", "rated", "option", "compiled", "outer", "first", "Typed", "default", "rest", "key", "more", "Result"),
        *("shared", "torch", "utils", "data", "D", "x", "y", "z", "w", "inner", "self", "model", "loader", "index"),
        *("to", "cuda:0", "non_blocking", "Deep", "Base", "metaclass", "Meta", "Broken", "error", "shown", "value"),
        *(" text", "arg"),
    }
    assert found.dotted == {"deco.rated", "torch.utils.data", "x.y", "x.y.z", "self.model", "shown.value"}
    assert {"FunctionDef", "ClassDef", "Lambda", "Try", "Return", "JoinedStr"} <= found.nodes
    assert not {"For", "While", "With", "AsyncFunctionDef"} & found.nodes


def test_match_words() -> None:
    (found,) = _outline(
        """\
        match command:
            case Point(x=0, y=[a, *others]) if guard: pass
            case {"key": value, **remaining}: pass
            case None | other: pass
        """
    ).statements
    names = {"command", "Point", "x", "y", "a", "others", "guard", "key", "value", "remaining", "other"}
    assert found.words == names
    assert found.binds == {"a", "others", "value", "remaining", "other"}


@pytest.mark.parametrize(
    ("text", "binds"),
    [
        ("def f(a): b = 1", {"f"}),
        ("def f():\n  global g\n  g = 1", {"f", "g"}),
        ("class C: x = 1", {"C"}),
        ("import a.b, c.d as e", {"a", "e"}),
        ("from m import x, y as z", {"x", "z"}),
        ("from m import *", {"*"}),
        ("a, (b, *c) = d[0], e.f = 1", {"a", "b", "c"}),
        ("a: int = 1", {"a"}),
        ("a += 1", {"a"}),
        ("a.b = c[d] = 1", set()),
        ("f(x)", set()),
        ("print(y := 1)", {"y"}),
        ("for i, j in x:\n  k = 1\nelse:\n  m = 1", {"i", "j", "k", "m"}),
        ("with a as b, c as (d, e): f = 1", {"b", "d", "e", "f"}),
        ("try: a = 1\nexcept E as e: b = 1\nelse: c = 1\nfinally: d = 1", {"a", "b", "c", "d", "e"}),
        ("if a:\n  def f(): g = 1\nelif b:\n  class D: h = 1\nelse:\n  import k", {"f", "D", "k"}),
        ("x = [i for i in y]", {"x"}),
        ("x = lambda a: a", {"x"}),
        ("a = 1; b = 2", {"a", "b"}),
    ],
)
def test_binds(text: str, binds: set[str]) -> None:
    assert outline(text).statements[0].binds == binds


def test_newer_syntax_binds() -> None:
    if sys.version_info >= (3, 12):
        assert outline("type Alias[T] = list[T]").statements[0].binds == {"Alias"}


def test_imports_by_row() -> None:
    found = _outline(
        """\
        def f():
            from . import late
        import a.b as c, d
        from ..x.y import z as w, v
        try:
            from m import *
        except ImportError:
            pass
        """
    )
    assert found.imports == (
        Import("", "late", None, 1, 2, False),
        Import("a.b", None, "c", 0, 3, True),
        Import("d", None, None, 0, 3, True),
        Import("x.y", "z", "w", 2, 4, True),
        Import("x.y", "v", None, 2, 4, True),
        Import("m", "*", None, 0, 6, False),
    )


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ('if __name__ == "__main__": main()', True),
        ("if '__main__' == __name__: main()", True),
        ('if __name__ == "__main__" and not hidden:\n  main()', True),
        ('def f():\n  if __name__ == "__main__": main()', False),
        ("if name == '__main__': main()", False),
        ("__name__ = '__main__'", False),
    ],
)
def test_main_guard(text: str, guarded: bool) -> None:
    assert outline(text).has_main_guard is guarded


@pytest.mark.parametrize("text", ["", "\n", "# comment", "\f\n", "\r\r\n"])
def test_nothing_to_outline(text: str) -> None:
    assert outline(text) == Outline()


def test_rows_with_odd_line_ends() -> None:
    found = outline("a = 1\rb = 2\r\n\f\nc = '''\u2028\x0c'''\nd = 4")
    assert [(item.first_row, item.last_row) for item in found.statements] == [(1, 1), (2, 2), (4, 4), (5, 5)]


@pytest.mark.parametrize(
    "text", ["x = (1,\n", "def f(:\n", "if x:\npass\n", "x = 1\n  y\n", "'''", "f'{'", "x = 08\n", "\0"]
)
def test_broken_code_has_an_error_with_a_place(text: str) -> None:
    found = outline(text)
    assert found.error is not None
    assert found.error.message
    assert 1 <= found.error.row <= 3
    assert found.error.column >= 1


def test_what_ast_refuses_is_one_statement_that_libcst_may_read() -> None:
    found = outline(
        "import os\nfrom .a import (\n  b as c,  # why\n  d,\n)\nfor x in loader: x.cuda()\nmatch 1: ?\n"
        "def f(): pass\nasync  def g(): pass\nclass C: pass\nx, y = 1\nz: int = 2\nx.y = 3\nx == w\n"
    )
    (whole,) = found.statements
    assert (whole.kind, whole.first_row, whole.last_row) == ("whole", 1, 15)
    assert whole.binds == {"os", "c", "d", "f", "g", "C", "x", "y", "z"}
    assert {"loader", "cuda", "os"} <= whole.words
    assert "x.cuda" in whole.dotted
    assert "For" in whole.nodes
    assert found.imports == (
        Import("os", None, None, 0, 1, True),
        Import("a", "b", "c", 1, 2, True),
        Import("a", "d", None, 1, 2, True),
    )


_DEEP = {
    "parentheses": "x = " + "(" * 5000 + "1" + ")" * 5000,
    "brackets": "x = " + "[" * 5000 + "]" * 5000,
    "calls": "x = " + "f(" * 5000 + ")" * 5000,
    "unclosed": "[" * 5000,
    "unary": "x = " + "-" * 30_000 + "1",
    "not": "x = " + "not " * 30_000 + "1",
    "sum": "x = " + "+".join(["a"] * 20_000),
    "attributes": "x = a" + ".b" * 20_000,
    "methods": "x = a" + ".b()" * 20_000,
    "many lines of methods": "x = (a\n" + ".b()\n" * 300_000 + ")",
    "power": "x = " + "**".join(["a"] * 20_000),
    "lambda": "x = " + "lambda: " * 10_000 + "1",
    "elif": "if a: pass\n" + "elif b: pass\n" * 10_000,
    "and": "x = " + " and ".join(["a"] * 20_000),
    "blocks": "".join(" " * depth + "if a:\n" for depth in range(200)) + " " * 200 + "pass\n",
    "f-strings": "x = " + "f'{" * 300 + "1" + "}'" * 300,
}


@pytest.mark.parametrize("text", _DEEP.values(), ids=_DEEP.keys())
def test_deep_nesting_is_an_error_and_never_given_to_libcst(text: str) -> None:
    found = outline(text)
    assert found.error is not None
    assert found.statements == ()


def test_a_broken_file_that_nests_deeply_is_not_given_to_libcst() -> None:
    assert outline("print 'old'\n" + "(" * 2000 + ")" * 2000).statements == ()
    assert outline("print 'old'\nx = a" + ".b" * 20_000).statements == ()
    assert outline("print 'old'\nx = '" + "(" * 2000 + "'\n").statements != ()


def test_one_deep_statement_costs_no_other() -> None:
    found = outline("a = 1\nb = " + "-" * (MAX_DEPTH + 10) + "1\nc = 3\n")
    assert found.error is not None
    assert found.error.row == 2
    assert [(item.index, item.first_row) for item in found.statements] == [(0, 1), (1, 3)]


def test_long_but_flat_code_is_read() -> None:
    found = outline("x = [" + "1, " * 60_000 + "]\n" + "y = {" + "'a': b, " * 20_000 + "}\nf" + "(1)" * 90)
    assert found.error is None
    assert len(found.statements) == 3


def test_no_warning_leaks() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert outline("x = '\\d'\nif x is 'a': pass\n").error is None


def test_words_are_those_of_a_plain_walk() -> None:
    package = Path(ptlint.__file__).parent
    for path in sorted(package.glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        for statement, node in zip(outline(text).statements, ast.parse(text).body, strict=True):
            names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            names |= {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
            names |= {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.keyword) and inner.arg}
            assert names <= statement.words
            kinds = {type(inner).__name__ for inner in ast.walk(node)}
            held = kinds - {"Load", "Store", "Del", "Name", "Attribute", "Constant", "Call", "keyword", "alias"}
            assert {kind for kind in held if hasattr(getattr(ast, kind), "lineno")} <= statement.nodes

"""Each builder of edits on small texts: comments, commas, layouts, line ends, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import libcst as cst
import pytest

from ptlint import edits
from ptlint.edits import CannotEdit
from ptlint.findings import Edit
from ptlint.fixes import apply_edits
from ptlint.outline.statements import outline
from ptlint.source.text import SourceFile, source_from_text
from ptlint.syntax import Tree


def source(text: str) -> SourceFile:
    return source_from_text(Path("sample.py"), text)


def tree(text: str) -> Tree:
    made = source(text)
    return Tree.parse_rows(made, 1, len(made.line_starts))


def on_call(text: str, build: Callable[[Tree, cst.Call], tuple[Edit, ...]]) -> str:
    made = tree(text)
    return apply_edits(text, build(made, made.nodes(cst.Call)[0]))


def statement(made: Tree, start: str) -> cst.CSTNode:
    """The innermost statement whose text starts so."""
    for kind in (cst.BaseSmallStatement, cst.BaseCompoundStatement):
        for node in made.nodes(kind):
            if made.code(node).startswith(start):
                return node
    raise AssertionError(f"no statement starts with {start!r}")


ADDED = {
    "no arguments": ("f()", "f(k=1)"),
    "white space only": ("f(  )", "f(k=1)"),
    "a comment only": ("x = f(\n    # nothing\n)\n", "x = f(\n    # nothing\n    k=1,\n)\n"),
    "one argument": ("f(a)", "f(a, k=1)"),
    "inner space": ("f( a )", "f( a, k=1 )"),
    "trailing comma on a row": ("f(a, b,)", "f(a, b, k=1,)"),
    "positional star": ("f(*a)", "f(*a, k=1)"),
    "mapping last": ("f(a, **m)", "f(a, k=1, **m)"),
    "only a mapping": ("f(**m)", "f(k=1, **m)"),
    "mapping not last": ("f(**m, b=2)", "f(**m, b=2, k=1)"),
    "mapping on its row": ("f(\n    a,\n    **m,\n)\n", "f(\n    a,\n    k=1,\n    **m,\n)\n"),
    "bare generator": ("f(x for x in y)", "f((x for x in y), k=1)"),
    "bare generator with space": ("f( x for x in y )", "f( (x for x in y), k=1 )"),
    "generator in parentheses": ("f((x for x in y))", "f((x for x in y), k=1)"),
    "parenthesised argument": ("f((a))", "f((a), k=1)"),
    "a row each": ("f(\n    a,\n    b,\n)\n", "f(\n    a,\n    b,\n    k=1,\n)\n"),
    "a row each, no last comma": ("f(\n    a,\n    b\n)\n", "f(\n    a,\n    b,\n    k=1\n)\n"),
    "comment behind the last": ("f(\n    a,\n    b,  # why, (\n)\n", "f(\n    a,\n    b,  # why, (\n    k=1,\n)\n"),
    "comment and no comma": ("f(\n    a,\n    b  # why\n)\n", "f(\n    a,\n    b,  # why\n    k=1\n)\n"),
    "comment row at the end": ("f(\n    a,\n    # b=2,\n)\n", "f(\n    a,\n    k=1,\n    # b=2,\n)\n"),
    "aligned": ("f(a,\n  b)\n", "f(a,\n  b,\n  k=1)\n"),
    "two on the last row": ("f(a,\n  b, c)\n", "f(a,\n  b, c, k=1)\n"),
    "comment between": ("f(a,  # why\n  b)\n", "f(a,  # why\n  b,\n  k=1)\n"),
    "comment behind the only one": ("f(a  # why\n  )\n", "f(a, k=1  # why\n  )\n"),
    "tabs and CRLF": ("if x:\r\n\tf(\r\n\t\ta,\r\n\t)\r\n", "if x:\r\n\tf(\r\n\t\ta,\r\n\t\tk=1,\r\n\t)\r\n"),
    "CR": ("f(\r  a,\r)\r", "f(\r  a,\r  k=1,\r)\r"),
    "multi-line string": ('f("""a\n  # b\n""")', 'f("""a\n  # b\n""", k=1)'),
    "nested": ("f(g(a), [b])", "f(g(a), [b], k=1)"),
    "not ASCII": ("f('é😀')", "f('é😀', k=1)"),
    "chained": ("f(a)(b)", "f(a)(b, k=1)"),
}


@pytest.mark.parametrize(("before", "after"), ADDED.values(), ids=ADDED)
def test_add_keyword(before: str, after: str) -> None:
    assert on_call(before, lambda made, call: edits.add_keyword(made, call, "k", "1")) == after
    assert on_call(before, lambda made, call: edits.set_keyword(made, call, "k", "1")) == after


def test_add_keyword_parenthesises_what_needs_it() -> None:
    assert on_call("f()", lambda made, call: edits.add_keyword(made, call, "k", "1, 2")) == "f(k=(1, 2))"
    assert on_call("f()", lambda made, call: edits.add_keyword(made, call, "k", "a or b")) == "f(k=a or b)"


def test_add_keyword_refuses_what_is_given() -> None:
    with pytest.raises(CannotEdit):
        on_call("f(k=0)", lambda made, call: edits.add_keyword(made, call, "k", "1"))
    with pytest.raises(CannotEdit):
        on_call("f()", lambda made, call: edits.add_keyword(made, call, "k", "1 +"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(k=0)", "f(k=1)"),
        ("f(k = (0), b=2)", "f(k = 1, b=2)"),
        ("f(k=1)", "f(k=1)"),
        ("f(k=0  # c\n)", "f(k=1  # c\n)"),
    ],
)
def test_set_keyword_replaces(before: str, after: str) -> None:
    assert on_call(before, lambda made, call: edits.set_keyword(made, call, "k", "1")) == after


REMOVED = {
    "only": ("f(k=1)", "f()"),
    "only, comma": ("f(k=1,)", "f()"),
    "first": ("f(k=1, a=2)", "f(a=2)"),
    "last": ("f(a, k=1)", "f(a)"),
    "last, comma": ("f(a, k=1,)", "f(a,)"),
    "middle": ("f(a, k=1, b=2)", "f(a, b=2)"),
    "own row": ("f(\n    a,\n    k=1,\n    b=2,\n)\n", "f(\n    a,\n    b=2,\n)\n"),
    "last row": ("f(\n    a,\n    k=1\n)\n", "f(\n    a\n)\n"),
    "last row, comma": ("f(\n    a,\n    k=1,\n)\n", "f(\n    a,\n)\n"),
    "comment on the row": ("f(\n    a,\n    k=1,  # why\n)\n", "f(\n    a,\n      # why\n)\n"),
    "comment in front": ("f(\n    a,  # first\n    k=1)\n", "f(\n    a,  # first\n    )\n"),
    "comment in front, own row": ("f(\n    a,  # first\n    k=1\n)\n", "f(\n    a,  # first\n)\n"),
    "row's last": ("f(a, k=1,\n  b=2)\n", "f(a,\n  b=2)\n"),
    "row's first": ("f(k=1,\n  b=2)\n", "f(\n  b=2)\n"),
    "comma after a comment": ("f(k=1  # why\n  , b=2)\n", "f(  # why\n   b=2)\n"),
    "hash in a string": ("f(a, k='#', b=2)", "f(a, b=2)"),
}


@pytest.mark.parametrize(("before", "after"), REMOVED.values(), ids=REMOVED)
def test_remove_keyword(before: str, after: str) -> None:
    assert on_call(before, lambda made, call: edits.remove_keyword(made, call, "k")) == after


def test_remove_keyword_refuses_what_is_not_there() -> None:
    with pytest.raises(CannotEdit):
        on_call("f(a)", lambda made, call: edits.remove_keyword(made, call, "k"))


@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        ("x = v * 2", "a + b", "x = (a + b) * 2"),
        ("x = v * 2", "a.b(c)", "x = a.b(c) * 2"),
        ("x = (v) * 2", "a + b", "x = (a + b) * 2"),
        ("x = (v) * 2", "a", "x = a * 2"),
        ("x = v.a", "1", "x = (1).a"),
        ("x = v[0]", "-a", "x = (-a)[0]"),
        ("f(v)", "a if b else c", "f(a if b else c)"),
        ("f(v)", "a, b", "f((a, b))"),
        ("def f():\n    return(v)\n", "a", "def f():\n    return a\n"),
        ("x = (v)if b else c", "a", "x = a if b else c"),
        ("x = (  # why\n    v\n)\n", "a", "x = (  # why\n    a\n)\n"),
        ("x = not v", "a and b", "x = not (a and b)"),
        ("x = [v for i in j]", "a or b", "x = [(a or b) for i in j]"),
    ],
)
def test_replace(before: str, new: str, after: str) -> None:
    made = tree(before)
    node = next(name for name in made.nodes(cst.Name) if name.value == "v")
    assert apply_edits(before, edits.replace(made, node, new)) == after


def test_replace_refuses_what_is_no_expression() -> None:
    made = tree("x = v")
    with pytest.raises(CannotEdit):
        edits.replace(made, made.nodes(cst.Name)[1], "a = b")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f('a')"),
        ("f(b)", "f('a', b)"),
        ("f(**m)", "f('a', **m)"),
        ("f(x for x in y)", "f('a', (x for x in y))"),
        ("f(\n  # c\n  b,\n)\n", "f(\n  # c\n  'a',\n  b,\n)\n"),
    ],
)
def test_add_first(before: str, after: str) -> None:
    assert on_call(before, lambda made, call: edits.add_first(made, call, "'a'")) == after


def test_rename_call() -> None:
    assert on_call("(m.f)(a, # c\n b)", lambda t, c: edits.rename_call(t, c, "m.g")) == "m.g(a, # c\n b)"
    with pytest.raises(CannotEdit):
        on_call("f()", lambda t, c: edits.rename_call(t, c, "1 + 1"))


BEFORE = {
    "plain": ("a\nb\n", "b", "a\nN\nb\n"),
    "nested": ("if x:\n    b\n", "b", "if x:\n    N\n    b\n"),
    "its comments stay with it": ("a\n\n# of b\n# too\nb\n", "b", "a\n\nN\n# of b\n# too\nb\n"),
    "comments in a block": ("if x:\n    # of b\n    b\n", "b", "if x:\n    N\n    # of b\n    b\n"),
    "comment of the header": ("if x:  # of x\n    b\n", "b", "if x:  # of x\n    N\n    b\n"),
    "comment at another depth": ("if x:\n    a\n  # less\n    b\n", "b", "if x:\n    a\n  # less\n    N\n    b\n"),
    "head of the file": ("#!/usr/bin/env python\nb\n", "b", "#!/usr/bin/env python\nN\nb\n"),
    "string above that ends like a comment": ("a = '''\n# x'''\nb\n", "b", "a = '''\n# x'''\nN\nb\n"),
    "the same in a block": ("if x:\n  a = '''\n  # x'''\n  b\n", "b", "if x:\n  a = '''\n  # x'''\n  N\n  b\n"),
    "decorated": ("@d\n@e\ndef f(): pass\n", "def f", "N\n@d\n@e\ndef f(): pass\n"),
    "first on its row": ("b; c\n", "b", "N\nb; c\n"),
    "compound": ("if x:\n\tfor i in j:\n\t\tpass\n", "for", "if x:\n\tN\n\tfor i in j:\n\t\tpass\n"),
    "CRLF": ("if x:\r\n  b\r\n", "b", "if x:\r\n  N\r\n  b\r\n"),
    "in else": ("if x: a\nelse:\n  # c\n  b\n", "b", "if x: a\nelse:\n  N\n  # c\n  b\n"),
    "form feed": ("a\n\fb\n", "b", "a\nN\n\fb\n"),
}


@pytest.mark.parametrize(("before", "start", "after"), BEFORE.values(), ids=BEFORE)
def test_insert_before(before: str, start: str, after: str) -> None:
    made = tree(before)
    assert apply_edits(before, edits.insert_before(made, statement(made, start), ["N"])) == after


def test_insert_before_a_statement_read_alone() -> None:
    made = source("'''\n# doc'''\n# of b\nb\n")
    part = Tree.parse_rows(made, 4, 4)
    assert apply_edits(made.text, edits.insert_before(part, part.body[0], ["N"])) == "'''\n# doc'''\nN\n# of b\nb\n"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("if x: b\n", "b"),
        ("a; b\n", "b"),
        ("if x:\n  a\nelif y:\n  b\n", "if y"),
        ("'''doc'''\na\n", "'''doc"),
        ("def f():\n  'doc'\n", "'doc"),
        ("from __future__ import annotations\n", "from"),
    ],
)
def test_insert_before_refuses(text: str, start: str) -> None:
    made = tree(text)
    node = made.nodes(cst.If)[1] if start == "if y" else statement(made, start)
    with pytest.raises(CannotEdit):
        edits.insert_before(made, node, ["N"])


AFTER = {
    "plain": ("a\nb\n", "a", "a\nN\nb\n"),
    "comment behind": ("a  # of a\nb\n", "a", "a  # of a\nN\nb\n"),
    "compound": ("for i in j:\n    a\n\nb\n", "for", "for i in j:\n    a\nN\n\nb\n"),
    "else belongs to it": ("for i in j: a\nelse: c\nb\n", "for", "for i in j: a\nelse: c\nN\nb\n"),
    "its last comments": (
        "for i in j:\n    a\n\n    # end\n# b\nb\n",
        "for",
        "for i in j:\n    a\n\n    # end\nN\n# b\nb\n",
    ),
    "no last newline": ("if x:\n  a", "a", "if x:\n  a\n  N"),
    "no last newline, CRLF": ("b\r\na", "a", "b\r\na\r\nN"),
    "multi-line string": ("a = '''\n  x\n'''\nb\n", "a", "a = '''\n  x\n'''\nN\nb\n"),
    "last on its row": ("a; c;  # d\nb\n", "c", "a; c;  # d\nN\nb\n"),
    "function": (
        "def f():\n    a\n    def g():\n        b\n",
        "def g",
        "def f():\n    a\n    def g():\n        b\n    N\n",
    ),
    "continued row": ("a = 1 + \\\n  2\nb\n", "a", "a = 1 + \\\n  2\nN\nb\n"),
}


@pytest.mark.parametrize(("before", "start", "after"), AFTER.values(), ids=AFTER)
def test_insert_after(before: str, start: str, after: str) -> None:
    made = tree(before)
    assert apply_edits(before, edits.insert_after(made, statement(made, start), ["N"])) == after


@pytest.mark.parametrize(("text", "start"), [("a; b\n", "a"), ("if x: a\n", "a"), ("while x: a; b\n", "b")])
def test_insert_after_refuses(text: str, start: str) -> None:
    made = tree(text)
    with pytest.raises(CannotEdit):
        edits.insert_after(made, statement(made, start), ["N"])


def test_inserted_rows_take_the_block_s_step() -> None:
    text = "if x:\n\tb\n"
    made = tree(text)
    new = edits.insert_before(made, statement(made, "b"), ["with c:", "    d", "", "e"])
    assert apply_edits(text, new) == "if x:\n\twith c:\n\t\td\n\n\te\n\tb\n"


def test_rows_within_a_logical_line_stay_as_they_are() -> None:
    text = "if x:\r\n    b\r\n"
    made = tree(text)
    new = edits.insert_after(made, statement(made, "b"), ["c = '''\n  d\r\n'''", "e"])
    assert apply_edits(text, new) == "if x:\r\n    b\r\n    c = '''\r\n  d\r\n'''\r\n    e\r\n"


WRAPPED = {
    "one": ("a\nb\n", "a", "a", "with c:\n    a\nb\n"),
    "a run": (
        "if x:\n  a\n\n  # of b\n  b  # too\n  d\n",
        "a",
        "b",
        "if x:\n  with c:\n    a\n\n    # of b\n    b  # too\n  d\n",
    ),
    "its comments stay above": ("if x:\n  # of a\n  a\n", "a", "a", "if x:\n  # of a\n  with c:\n    a\n"),
    "strings": (
        'a = """\nx\n  # y\n\n"""\nb = (1,\n     2)\n',
        "a",
        "b",
        'with c:\n    a = """\nx\n  # y\n\n"""\n    b = (1,\n         2)\n',
    ),
    "string that goes on": ("a = 'x\\\n  y'\n", "a", "a", "with c:\n    a = 'x\\\n  y'\n"),
    "f-string": ("a = f'''\n {b}\n'''\n", "a", "a", "with c:\n    a = f'''\n {b}\n'''\n"),
    "continued row": ("a = 1 + \\\n  2\n", "a", "a", "with c:\n    a = 1 + \\\n      2\n"),
    "compound": ("for i in j:\n\ta\n\n\t# end\nb\n", "for", "for", "with c:\n\tfor i in j:\n\t\ta\n\n\t\t# end\nb\n"),
    "CRLF": ("if x:\r\n\ta\r\n\tb", "a", "b", "if x:\r\n\twith c:\r\n\t\ta\r\n\t\tb"),
    "decorated": ("@d\ndef f(): pass\n", "def", "def", "with c:\n    @d\n    def f(): pass\n"),
    "comment at the margin": ("if x:\n  a\n# margin\n  b\n", "a", "b", "if x:\n  with c:\n    a\n  # margin\n    b\n"),
    "whole rows": ("a; b;\nd\n", "a", "b", "with c:\n    a; b;\nd\n"),
    "row left of the block": ("if x:\n    a(\n  1)\n", "a", "a", "if x:\n    with c:\n        a(\n      1)\n"),
    "form feed": ("if x:\n\f  a\n", "a", "a", "if x:\n  with c:\n\f    a\n"),
}


@pytest.mark.parametrize(("before", "first", "last", "after"), WRAPPED.values(), ids=WRAPPED)
def test_wrap_with(before: str, first: str, last: str, after: str) -> None:
    made = tree(before)
    new = edits.wrap_with(made, statement(made, first), statement(made, last), "with c:")
    assert apply_edits(before, new) == after
    assert len(new) == 1


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("a; b\n", "a", "a"),
        ("a; b\n", "b", "b"),
        ("if x: a\n", "a", "a"),
        ("if x:\n  a\nb\n", "a", "b"),
        ("a\nb\n", "b", "a"),
        ("a; b\nd\n", "b", "d"),
    ],
)
def test_wrap_with_refuses(text: str, first: str, last: str) -> None:
    made = tree(text)
    with pytest.raises(CannotEdit):
        edits.wrap_with(made, statement(made, first), statement(made, last), "with c:")


UNWRAPPED = {
    "plain": ("a\nwith c:\n    b\nd\n", "a\nb\nd\n"),
    "nested": (
        "if x:\n\twith c:\n\t\tfor i in j:\n\t\t\tb\n\n\t\t# end\n\td\n",
        "if x:\n\tfor i in j:\n\t\tb\n\n\t# end\n\td\n",
    ),
    "comment of the header": ("if x:\n  with c:  # why\n    # of b\n    b\n", "if x:\n  # why\n  # of b\n  b\n"),
    "strings": (
        'with c:\n    a = """\n    b\n    """\n    f(1,\n      2)\n',
        'a = """\n    b\n    """\nf(1,\n  2)\n',
    ),
    "header of several rows": ("with (\n    c as d,\n):\n    b\n", "b\n"),
    "on one row": ("with c: a; b  # why\n", "a; b  # why\n"),
    "rows of white space": ("with c:\n    a\n        \n    b\n", "a\n        \nb\n"),
    "CRLF, no last newline": ("with c:\r\n    a\r\n    b", "a\r\nb"),
}


@pytest.mark.parametrize(("before", "after"), UNWRAPPED.values(), ids=UNWRAPPED)
def test_unwrap(before: str, after: str) -> None:
    made = tree(before)
    assert apply_edits(before, edits.unwrap(made, made.nodes(cst.With)[0])) == after


DELETED = {
    "plain": ("a\nb\nd\n", "b", "a\nd\n"),
    "comment stays": ("a\nb  # why\n", "b", "a\n# why\n"),
    "only one": ("if x:\n    b  # why\n", "b", "if x:\n    pass  # why\n"),
    "on the header's row": ("if x: b\n", "b", "if x: pass\n"),
    "one of two there": ("if x: b; a\n", "b", "if x: a\n"),
    "first": ("b; a  # why\n", "b", "a  # why\n"),
    "middle": ("a; b; d\n", "b", "a; d\n"),
    "last": ("a; b\n", "b", "a\n"),
    "last, semicolon": ("a; b ;  # why\n", "b", "a  # why\n"),
    "semicolon alone": ("a\nb;\n", "b", "a\n"),
    "multi-line": ("b = '''\n'''\na\n", "b", "a\n"),
    "compound": ("@d\ndef b():\n  a\n  # end\na\n", "def b", "a\n"),
    "only compound": ("if x:\n  for b in c:\n    a\n", "for", "if x:\n  pass\n"),
    "last row of the file": ("a\nb", "b", "a\n"),
}


@pytest.mark.parametrize(("before", "start", "after"), DELETED.values(), ids=DELETED)
def test_delete_statement(before: str, start: str, after: str) -> None:
    made = tree(before)
    assert apply_edits(before, edits.delete_statement(made, statement(made, start))) == after


def test_delete_statement_refuses_a_branch() -> None:
    made = tree("if x:\n  a\nelif y:\n  b\n")
    with pytest.raises(CannotEdit):
        edits.delete_statement(made, made.nodes(cst.If)[1])


def test_replace_statements() -> None:
    text = "if x:\n\ta\n\tb;  # why\n\td\n"
    made = tree(text)
    new = edits.replace_statements(made, statement(made, "a"), statement(made, "b"), ["for i in j:", "    e"])
    assert apply_edits(text, new) == "if x:\n\tfor i in j:\n\t\te  # why\n\td\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(): pass\n", "@n()\ndef f(): pass\n"),
        ("@d\n# c\nasync def f():\n  pass\n", "@d\n# c\n@n()\nasync def f():\n  pass\n"),
        (
            "class C:\r\n\t@staticmethod\r\n\tdef f(): pass\r\n",
            "class C:\r\n\t@staticmethod\r\n\t@n()\r\n\tdef f(): pass\r\n",
        ),
    ],
)
def test_add_decorator(before: str, after: str) -> None:
    made = tree(before)
    definition = made.nodes(cst.FunctionDef)[0]
    assert apply_edits(before, edits.add_decorator(made, definition, "n()")) == after
    assert apply_edits(before, edits.add_decorator(made, definition, "@n()")) == after


IMPORTED = {
    "there": ("import os\n", "import os", "import os\n"),
    "there among others": ("import re, os\n", "import os", "import re, os\n"),
    "there by a submodule": ("import os.path\n", "import os", "import os.path\n"),
    "the package is not the submodule": ("import torch\n", "import torch.amp", "import torch\nimport torch.amp\n"),
    "the same by another form": ("import torch.nn as nn\n", "from torch import nn", "import torch.nn as nn\n"),
    "under another name": ("import os as o\n", "import os", "import os as o\nimport os\n"),
    "sorted": (
        "import abc\nimport sys\n\nimport torch\n",
        "import os",
        "import abc\nimport os\nimport sys\n\nimport torch\n",
    ),
    "first": ("import sys\nfrom a import b\n", "import os", "import os\nimport sys\nfrom a import b\n"),
    "last": (
        "import abc\nfrom abc import d\n",
        "from os import path",
        "import abc\nfrom abc import d\nfrom os import path\n",
    ),
    "plain above from": (
        "from abc import d\nimport torch\n",
        "import os",
        "import os\nfrom abc import d\nimport torch\n",
    ),
    "a section in front": ("import torch\nx = 1\n", "import os", "import os\n\nimport torch\nx = 1\n"),
    "a section behind": ("import os\n\nx = 1\n", "import torch", "import os\n\nimport torch\n\nx = 1\n"),
    "a section between": (
        "import os\n\nfrom . import x\n",
        "import torch",
        "import os\n\nimport torch\n\nfrom . import x\n",
    ),
    "behind the docstring": ('"""Doc."""\n\nimport torch\n', "import os", '"""Doc."""\n\nimport os\n\nimport torch\n'),
    "behind __future__": (
        "from __future__ import annotations\n\nimport torch\n",
        "import os",
        "from __future__ import annotations\n\nimport os\n\nimport torch\n",
    ),
    "no import, docstring": ('"""Doc."""\nx = 1\n', "import os", '"""Doc."""\n\nimport os\n\nx = 1\n'),
    "no import, __future__": (
        "from __future__ import annotations\n\nx = 1\n",
        "import os",
        "from __future__ import annotations\n\nimport os\n\nx = 1\n",
    ),
    "no import": ("#!/usr/bin/env python\nx = 1\n", "import os", "#!/usr/bin/env python\nimport os\n\nx = 1\n"),
    "empty": ("", "import os", "import os\n"),
    "only comments": ("# c", "import os", "# c\nimport os"),
    "multi-line import": (
        "from abc import (\n    a,\n)\nx\n",
        "from os import path",
        "from abc import (\n    a,\n)\nfrom os import path\nx\n",
    ),
    "type checking only": (
        "import typing\nif typing.TYPE_CHECKING:\n    import os\n",
        "import os",
        "import os\nimport typing\nif typing.TYPE_CHECKING:\n    import os\n",
    ),
    "in a function": (
        "import sys\ndef f():\n    import os\n",
        "import os",
        "import os\nimport sys\ndef f():\n    import os\n",
    ),
    "CRLF": ("import sys\r\n", "import os", "import os\r\nimport sys\r\n"),
    "heading comment": (
        "# licence\n\n# third\nimport torch\n",
        "import os",
        "# licence\n\nimport os\n\n# third\nimport torch\n",
    ),
    "no last newline": ("import os", "import re", "import os\nimport re"),
}


@pytest.mark.parametrize(("before", "wanted", "after"), IMPORTED.values(), ids=IMPORTED)
def test_import_edit(before: str, wanted: str, after: str) -> None:
    made = source(before)
    assert apply_edits(before, edits.import_edit(made, outline(before), wanted)) == after
    again = source(after)
    assert edits.import_edit(again, outline(after), wanted) == ()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("os = 1\n", "import os"),
        ("try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n", "from torch import amp"),
        ("x = 1\n", "import a, b"),
        ("x = 1\n", "x = 2"),
        ("x = 1\n", "import"),
    ],
)
def test_import_edit_refuses(text: str, wanted: str) -> None:
    with pytest.raises(CannotEdit):
        edits.import_edit(source(text), outline(text), wanted)


def test_imports_for_one_place_make_one_edit() -> None:
    text = "import torch\n"
    new = edits.import_edits(
        source(text), outline(text), ["import sys", "import os", "import os", "from abc import ABC"]
    )
    assert len(new) == 1
    assert apply_edits(text, new) == "import os\nimport sys\nfrom abc import ABC\n\nimport torch\n"

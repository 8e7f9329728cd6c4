"""The rows for which one suppression comment speaks."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

import ptlint
from ptlint.outline.statements import outline

TEXT = textwrap.dedent(
    '''\
    x = call(
        1,  # a comment
    )
    # alone
    @first
    @second(
        2,
    )
    def f(
        a=lambda: {1: 2},  # not: the end
        é: "b:c" = 3,
    ) -> dict[
        int, int
    ]:
        # alone

        """Docstring

        ends."""
        with open("a:b") as c, \\
             open(d) as e:
            y = 1; z = (
                2); w = 3
        for i in (
            range(3)
        ):  # here

            print(i)
        else:
            pass
        try: go()
        except (
            E,
        ):
            match z:
                case [
                    1
                ] if z:
                    pass
        finally:
            pass
        while True: break
        if a: b
        elif (
            c
        ): d
    class C(
        # a comment: with a colon
    ):

        v: int = 1
    '''
)


@pytest.mark.parametrize(
    ("row", "first", "last"),
    [
        (1, 1, 3),
        (3, 1, 3),
        (4, 4, 4),
        (5, 5, 14),
        (9, 5, 14),
        (14, 5, 14),
        (15, 15, 15),
        (16, 16, 16),
        (18, 17, 19),
        (20, 20, 21),
        (21, 20, 21),
        (22, 22, 23),
        (23, 22, 23),
        (24, 24, 26),
        (26, 24, 26),
        (28, 28, 28),
        (29, 29, 29),
        (30, 30, 30),
        (31, 31, 31),
        (33, 32, 34),
        (34, 32, 34),
        (35, 35, 35),
        (36, 36, 38),
        (38, 36, 38),
        (39, 39, 39),
        (41, 41, 41),
        (42, 42, 42),
        (43, 43, 43),
        (45, 44, 45),
        (46, 46, 46),
        (47, 47, 49),
        (49, 47, 49),
        (51, 51, 51),
        (99, 99, 99),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_rows_of(row: int, first: int, last: int, newline: str) -> None:
    assert outline(TEXT.replace("\n", newline)).rows_of(row) == range(first, last + 1)


def test_without_a_tree_each_row_is_its_own() -> None:
    assert outline("x = (\n1\n").rows_of(2) == range(2, 3)
    assert outline("").rows_of(1) == range(1, 2)


def test_headers_end_where_bodies_have_not_begun() -> None:
    package = Path(ptlint.__file__).parent
    for path in sorted(package.glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        found = outline(text)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.For, ast.If, ast.With, ast.ClassDef, ast.While)):
                rows = found.rows_of(node.lineno)
                if node.body[0].lineno == rows[-1]:
                    continue  # on one row
                assert rows[-1] < node.body[0].lineno
                assert text.splitlines()[rows[-1] - 1].partition("  #")[0].rstrip().endswith(":")

"""Suppression comments are found in comments only, and read as they were meant."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

import pytest

import ptlint
from ptlint.source.suppress import find_suppressions


@pytest.mark.parametrize(
    ("comment", "kind", "codes"),
    [
        ("# ptlint: ignore", "ptlint", None),
        ("#ptlint:ignore", "ptlint", None),
        ("# ptlint: ignore because it is slow on purpose", "ptlint", None),
        ("# ptlint: ignore[PTL201]", "ptlint", ("PTL201",)),
        ("# ptlint: ignore[PTL201, dataloader-no-workers] reason", "ptlint", ("PTL201", "dataloader-no-workers")),
        ("# type: ignore  # ptlint: ignore[PTL201]", "ptlint", ("PTL201",)),
        ("# ptlint: ignore-file", "file", None),
        ("# ptlint: ignore-file[PTL201]", "file", ("PTL201",)),
        ("# noqa", "noqa", None),
        ("# NoQA", "noqa", None),
        ("# noqa: PTL201", "noqa", ("PTL201",)),
        ("#noqa:PTL201,E501", "noqa", ("PTL201", "E501")),
        ("# noqa : PTL201 E501 for now", "noqa", ("PTL201", "E501")),
        ("# noqa: PTL2", "noqa", ("PTL2",)),
        ("# noqa: the reason is prose", "noqa", None),
        ("# pragma: no cover # noqa: PTL201", "noqa", ("PTL201",)),
    ],
)
def test_well_formed(comment: str, kind: str, codes: tuple[str, ...] | None) -> None:
    (found,) = find_suppressions(f"x = 1  {comment}\n")
    assert (found.kind, found.codes, found.malformed) == (kind, codes, None)


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# noqa PTL201", ("PTL201",)),
        ("# noqa PTL201, E501", ("PTL201", "E501")),
        ("# ptlint: ignore PTL201", ("PTL201",)),
        ("# ptlint: ignore=PTL201", ("PTL201",)),
        ("# ptlint: ignore[PTL201", ("PTL201",)),
        ("# ptlint: ignore[]", ()),
        ("# ptlint ignore[PTL201]", ("PTL201",)),
        ("# ptlint ignore", None),
        ("# ptlint: disable=PTL201", ()),
    ],
)
def test_malformed(comment: str, codes: tuple[str, ...] | None) -> None:
    (found,) = find_suppressions(f"x = 1  {comment}\n")
    assert found.malformed
    assert found.codes == codes


@pytest.mark.parametrize(
    "text",
    [
        "x = 1  # noqa: E501\n",
        "x = 1  # noqa: E501, F401\n",
        "x = '# noqa'\n",
        'x = """\n# ptlint: ignore\n"""\n',
        "x = 1  # ptlint finds nothing here\n",
        "x = 1  # ptlint ignores this folder\n",
        "# flake8: noqa\n",
        "",
    ],
)
def test_not_ours(text: str) -> None:
    assert find_suppressions(text) == ()


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_place(newline: str) -> None:
    text = newline.join(["é = '# noqa'", "y = 2  # a # noqa: PTL201, E501  later", "z = (", "  # ptlint: ignore", ")"])
    first, second = find_suppressions(text)
    assert (first.row, first.column) == (2, 12)
    assert text[first.start_offset : first.end_offset] == "# noqa: PTL201, E501"
    assert (second.row, second.column) == (4, 3)
    assert text[second.start_offset : second.end_offset] == "# ptlint: ignore"


def test_two_in_one_comment() -> None:
    found = find_suppressions("x = 1  # noqa: PTL201 # ptlint: ignore[PTL102]\n")
    assert [item.codes for item in found] == [("PTL201",), ("PTL102",)]


def test_comments_are_those_of_the_tokenizer() -> None:
    package = Path(ptlint.__file__).parent
    for path in sorted(package.glob("**/*.py")):
        text = path.read_text(encoding="utf-8")
        rows = []
        lines = text.splitlines(keepends=True)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and "noqa" not in token.string and "ptlint" not in token.string:
                row, column = token.end
                lines[row - 1] = lines[row - 1][:column] + " # noqa: PTL201" + lines[row - 1][column:]
                rows.append(row)
        marked = "".join(lines)
        assert [item.row for item in find_suppressions(marked) if item.codes == ("PTL201",)] == rows


@pytest.mark.parametrize("broken", ["x = (\n", "'''", "if x:\n  y\n z\n", "(" * 5000, "f'{", "\f\n  \f x\n"])
def test_broken_files_keep_the_comments_before_the_break(broken: str) -> None:
    (found,) = find_suppressions(f"x = 1  # noqa: PTL201\n{broken}")
    assert found.row == 1


def test_form_feed_does_not_shift_rows() -> None:
    (found,) = find_suppressions("x = 1\n\f\ny = 2  # noqa: PTL201\n")
    assert (found.row, found.column) == (3, 8)

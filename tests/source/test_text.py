"""Bytes become text as Python itself would read them, or an error that says why not and where."""

from __future__ import annotations

import ast
import codecs
import os
from pathlib import Path

import pytest

from ptlint.findings import Position
from ptlint.source.text import (
    MAX_FILE_BYTES,
    MAX_LINE_LENGTH,
    SourceError,
    read_source,
    source_from_bytes,
    source_from_text,
)

HERE = Path("x.py")


@pytest.mark.parametrize(
    ("data", "text", "encoding", "bom"),
    [
        (b"", "", "utf-8", False),
        (b"x = 1", "x = 1", "utf-8", False),
        ("é\r\n".encode(), "é\r\n", "utf-8", False),
        (codecs.BOM_UTF8 + b"x\n", "x\n", "utf-8", True),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n\xc3\xa9", "# coding: latin-1\né", "utf-8", True),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "# -*- coding: latin-1 -*-\nx = 'é'\n", "iso8859-1", False),
        (b"#!/usr/bin/python\n# vim: fileencoding=cp1252\n\x80", None, "cp1252", False),
        (b"# coding: utf8\n", None, "utf-8", False),
        (b"# coding: shift_jis\n\x82\xa0\n", "# coding: shift_jis\nあ\n", "shift_jis", False),
    ],
)
def test_decoding_and_back(data: bytes, text: str | None, encoding: str, bom: bool) -> None:
    source = source_from_bytes(HERE, data)
    assert text is None or source.text == text
    assert (source.encoding, source.bom, source.exact) == (encoding, bom, True)
    assert source.encode(source.text) == data


@pytest.mark.parametrize(
    ("data", "reason", "place"),
    [
        (b"x = 1\ny = \xff\n", "not valid utf-8", (2, 5)),
        (b"# row\r\r\n  '\xc3\xa9\xe9'\n", "not valid utf-8", (3, 5)),
        (b"# coding: ascii\nx = '\xe9'\n", "not valid ascii", (2, 6)),
        (b"x\n\n  \0", "NUL", (3, 3)),
        ("x = 1\n".encode("utf-16"), "not valid utf-8", (1, 1)),
        ("x = 1\n".encode("utf-16-le"), "NUL", (1, 2)),
        (b"# coding: nonsense\n", "unknown encoding nonsense", (1, 1)),
        (b"# coding: rot13\n", "cannot be decoded as rot-13: .* is not a text encoding$", (1, 1)),
        (b"# coding: unicode_escape\nx = '\\ud800'\n", "lone surrogate", (2, 6)),
        (b"#" * (MAX_FILE_BYTES + 1), "larger than 2 MB", (1, 1)),
        (b"x = 1\n'" + b"a" * MAX_LINE_LENGTH + b"'\n", "longer than 200 kB", (2, 1)),
    ],
)
def test_what_cannot_be_decoded(data: bytes, reason: str, place: tuple[int, int]) -> None:
    with pytest.raises(SourceError, match=reason) as caught:
        source_from_bytes(HERE, data)
    assert (caught.value.row, caught.value.column) == place


def test_limits_are_for_what_lies_beyond_them() -> None:
    line = b"a" * MAX_LINE_LENGTH + b"\n"
    assert source_from_bytes(HERE, line * (MAX_FILE_BYTES // len(line))).text


def test_an_encoding_that_loses_bytes_is_not_exact() -> None:
    data = b"# coding: utf-7\nx = 1  # +AGE-\n"
    assert not source_from_bytes(HERE, data).exact


def test_new_text_that_the_encoding_lacks() -> None:
    source = source_from_bytes(HERE, b"# coding: latin-1\n")
    with pytest.raises(SourceError, match="iso8859-1"):
        source.encode("# coding: latin-1\n→")


def test_rows_are_those_of_the_parser() -> None:
    text = "a = '''\x0c\x0b\x1c\u2028\x85'''\r\nb\x0c=1\rc=2\n\nd"
    source = source_from_text(HERE, text)
    rows = [node.lineno for node in ast.parse(text).body]
    found = [source.position(text.index(name)).row for name in ("a =", "b\x0c", "c=", "d")]
    assert found == rows == [1, 2, 3, 5]
    assert source.position(text.index("=2")) == Position(3, 2)
    assert source.position(len(text)) == Position(5, 2)
    assert source.offset(3, 2) == text.index("=2")
    assert [source.line(row) for row in range(2, 7)] == ["b\x0c=1", "c=2", "", "d", ""]
    assert source.lines(2, 3) == "b\x0c=1\rc=2\n"
    assert source.newline == "\r\n"


def test_another_text_keeps_the_encoding() -> None:
    source = source_from_bytes(HERE, codecs.BOM_UTF8 + b"x\n").with_text("\ufeffy\n")
    assert source.encode(source.text) == codecs.BOM_UTF8 + b"y\n"
    with pytest.raises(SourceError):
        source.with_text("\0")


def test_unreadable_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="No such file"):
        read_source(tmp_path / "gone.py")
    with pytest.raises(SourceError, match="folder"):
        read_source(tmp_path)
    with pytest.raises(SourceError, match="null"):
        read_source(tmp_path / "a\0b.py")
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    with pytest.raises(SourceError, match="not a regular file"):
        read_source(pipe)
    loop = tmp_path / "loop.py"
    loop.symlink_to(loop)
    with pytest.raises(SourceError, match="cannot be read"):
        read_source(loop)

    locked = tmp_path / "locked.py"
    locked.write_text("x = 1\n")

    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SourceError, match="Permission denied"):
        read_source(locked)


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    huge = tmp_path / "huge.py"
    with huge.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(SourceError, match="larger"):
        read_source(huge)

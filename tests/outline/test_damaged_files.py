"""Whatever happens to a file's bytes, it is read, outlined and searched for comments without a crash."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import ptlint
from ptlint.outline.statements import outline
from ptlint.source.suppress import find_suppressions
from ptlint.source.text import SourceError, SourceFile, source_from_bytes

_PIECES = [
    *(b"(", b")", b"[", b"{", b"}", b"'''", b'"""', b"'", b'"', b"\\", b"\n", b"\r", b"\r\n", b"\x0c", b"\0", b"\xff"),
    *(b"# noqa: PTL201", b"# ptlint: ignore[", b"# coding: latin-1\n", b";", b":", b"@", b"lambda ", b'f"{', b"async "),
    *(
        b"\xef\xbb\xbf",
        b"match x:\n case ",
        b"\t",
        b"    ",
        b"import a.b as c\n",
        b"from . import (x,\n",
        b"global x\n",
    ),
    *(
        b"\xe2\x80\xa8",
        b"if 1:",
        b"else:",
        b"try:",
        b"except* E:",
        b"type X = int\n",
        b"def f[T]():pass\n",
        b":=",
        b"**",
    ),
]


@pytest.mark.parametrize("seed", range(8))
def test_damaged_files(seed: int) -> None:
    chance = random.Random(seed)
    package = Path(ptlint.__file__).parent
    originals = [path.read_bytes() for path in sorted(package.glob("source/*.py"))]
    for _ in range(40):
        data = bytearray(chance.choice(originals))
        for _ in range(chance.randrange(1, 8)):
            at = chance.randrange(len(data) + 1)
            if chance.random() < 0.6:
                data[at:at] = chance.choice(_PIECES) * chance.choice([1, 1, 1, 2, 3, 250])
            else:
                del data[at : at + chance.choice([1, 2, 10, 200])]
        try:
            source = source_from_bytes(Path("x.py"), bytes(data))
        except SourceError as error:
            assert min(error.row, error.column) >= 1
            continue
        _check(source, bytes(data))


def _check(source: SourceFile, data: bytes) -> None:
    assert source.encode(source.text) == data
    found = outline(source.text)
    assert found.error is None or min(found.error.row, found.error.column) >= 1
    last = 0
    for statement in found.statements:
        assert last < statement.first_row <= statement.last_row <= len(source.line_starts)
        last = statement.last_row
    for item in find_suppressions(source.text):
        assert source.text[item.start_offset] == "#"
        assert source.offset(item.row, item.column) == item.start_offset
        assert item.row in found.rows_of(item.row)

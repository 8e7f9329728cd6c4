"""A file's bytes as text, and the way back to the same bytes."""

from __future__ import annotations

import codecs
import io
import re
import stat
import tokenize
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ptlint.findings import Position

MAX_FILE_BYTES = 2_000_000
MAX_LINE_LENGTH = 200_000

_NEWLINE = re.compile(r"\r\n|\n|\r")


class SourceError(Exception):
    """A file that cannot be read as Python text: why, and where (row and column count from 1)."""

    def __init__(self, message: str, row: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.row = row
        self.column = column


@dataclass(frozen=True)
class SourceFile:
    """The decoded text of a file: newlines untouched, a byte order mark removed.

    Rows are those of Python's own tokenizer: they end at LF, CRLF or CR, never at a form feed or another character
    that `str.splitlines` would split at. `exact` is False where encoding the text does not give the file's bytes
    back, so that the file must not be written.
    """

    path: Path
    text: str
    encoding: str = "utf-8"
    bom: bool = False
    exact: bool = True

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """The offset at which each row begins."""
        return line_starts(self.text)

    @cached_property
    def newline(self) -> str:
        """The line end that the file uses, by its first row."""
        first = _NEWLINE.search(self.text)
        return first.group() if first else "\n"

    def position(self, offset: int) -> Position:
        row = bisect_right(self.line_starts, offset)
        return Position(row, offset - self.line_starts[row - 1] + 1)

    def offset(self, row: int, column: int = 1) -> int:
        """The inverse of `position`."""
        return self.line_starts[row - 1] + column - 1

    def line(self, row: int) -> str:
        """The text of a row without its line end; empty past the end of the file."""
        return self.lines(row, row).rstrip("\r\n")

    def lines(self, first: int, last: int) -> str:
        """The text of the rows `first` to `last`, both included, with their line ends."""
        starts = self.line_starts
        if first > len(starts):
            return ""
        return self.text[starts[first - 1] : starts[last] if last < len(starts) else len(self.text)]

    def encode(self, text: str) -> bytes:
        """`text` as this file's bytes, byte order mark included."""
        try:
            data = text.encode(self.encoding)
        except UnicodeError as error:
            raise SourceError(f"the new text cannot be written as {self.encoding}: {error}") from error
        return codecs.BOM_UTF8 + data if self.bom else data

    def with_text(self, text: str) -> SourceFile:
        """The same file with another text, held to the same limits."""
        text = text.removeprefix("\ufeff")
        _check_text(text)
        return replace(self, text=text)


def line_starts(text: str) -> tuple[int, ...]:
    """The offset at which each row begins, by the rule that `SourceFile` names."""
    return (0, *(match.end() for match in _NEWLINE.finditer(text)))


def read_source(path: Path) -> SourceFile:
    """Read and decode a file; `SourceError` says why that cannot be done."""
    try:
        status = path.stat()
        # Opening a pipe or a device would wait for ever.
        if stat.S_ISDIR(status.st_mode):
            raise SourceError("the path is a folder, not a file")
        if not stat.S_ISREG(status.st_mode):
            raise SourceError("the path is not a regular file")
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SourceError(f"the file cannot be read: {reason}") from error
    return source_from_bytes(path, data)


def source_from_bytes(path: Path, data: bytes) -> SourceFile:
    """Decode a file's bytes as Python would (PEP 263), or raise `SourceError`."""
    if len(data) > MAX_FILE_BYTES:
        raise SourceError(f"the file is larger than {MAX_FILE_BYTES // 1_000_000} MB")
    bom = data.startswith(codecs.BOM_UTF8)
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    encoding = "utf-8" if bom else _declared_encoding(data)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        before = body[: error.start].decode(encoding, "replace")
        raise SourceError(f"the file is not valid {encoding}: {error.reason}", *_place(before)) from error
    except (LookupError, ValueError) as error:
        reason = str(error).partition(";")[0]
        raise SourceError(f"the file cannot be decoded as {encoding}: {reason}") from error
    _check_text(text)
    return SourceFile(path, text, encoding, bom, exact=encoding == "utf-8" or _comes_back(text, encoding, body))


def source_from_text(path: Path, text: str) -> SourceFile:
    """A file that exists as text only (an editor's buffer), held to the same limits as one on disk."""
    return SourceFile(path, "").with_text(text)


def _declared_encoding(data: bytes) -> str:
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return codecs.lookup(name).name
    except SyntaxError as error:
        if error.msg.startswith("unknown encoding: "):
            raise SourceError(f"the file declares an {error.msg.replace(': ', ' ')}") from error
        # The first rows are not UTF-8: let decoding say where.
        return "utf-8"


def _comes_back(text: str, encoding: str, data: bytes) -> bool:
    try:
        return text.encode(encoding) == data
    except UnicodeError:
        return False


def _check_text(text: str) -> None:
    nul = text.find("\0")
    if nul >= 0:
        raise SourceError("the file holds a NUL byte", *_place(text[:nul]))
    if len(text) > MAX_LINE_LENGTH:
        start = 0
        for row, match in enumerate(_NEWLINE.finditer(text + "\n"), 1):
            if match.start() - start > MAX_LINE_LENGTH:
                raise SourceError(f"a line is longer than {MAX_LINE_LENGTH // 1_000} kB", row)
            start = match.end()
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SourceError("the file holds a lone surrogate", *_place(text[: error.start])) from error


def _place(before: str) -> tuple[int, int]:
    starts = line_starts(before)
    return len(starts), len(before) - starts[-1] + 1

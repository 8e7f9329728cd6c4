"""Putting a new text in the place of a file, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from ptlint.source.text import SourceError, SourceFile


class WriteError(Exception):
    """The file was left as it is; the message says why."""


def write(source: SourceFile, text: str) -> None:
    """Replace the content of `source`'s file by `text`: atomically, in its encoding, mode and owner kept.

    Of a symbolic link, the target is replaced. A file that is no longer what was read is left alone.
    """
    if not source.exact:
        raise WriteError(f"the text cannot be turned back into the same bytes of {source.encoding}")
    # `resolve` of pathlib raises on a loop of links; such a file could not have been read.
    target = Path(os.path.realpath(source.path))
    try:
        if target.read_bytes() != source.encode(source.text):
            raise WriteError("the file was changed by someone else in the meantime")
        if not os.access(target, os.W_OK):
            raise WriteError("the file is read-only")
        _replace(target, source.encode(text))
    except SourceError as error:
        raise WriteError(error.message) from error
    except OSError as error:
        raise WriteError(error.strerror or str(error)) from error


def _replace(target: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=".ptlint-", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if hasattr(os, "chown"):
            status = target.stat()
            with contextlib.suppress(OSError):
                os.chown(temporary, status.st_uid, status.st_gid)
        # After the owner, since changing that clears bits of the mode.
        shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise

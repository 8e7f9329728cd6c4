"""Progress on stderr, only on a terminal and only where one would begin to wonder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 1.0
_INTERVAL = 0.1
_CLEAR = "\r\x1b[K"

Tick = Callable[[int, int], None]


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour what goes to `stream` (https://no-color.org, and FORCE_COLOR as pytest reads it)."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


@contextmanager
def progress() -> Iterator[Tick]:
    """A function to call with how much of how much is done."""
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    begun = time.monotonic()
    shown = 0.0

    def tick(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if terminal and now - begun > PATIENCE and now - shown > _INTERVAL:
            shown = now
            sys.stderr.write(f"{_CLEAR}ptlint: {100 * done // total} %")
            sys.stderr.flush()

    try:
        yield tick
    finally:
        if shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

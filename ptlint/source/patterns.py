"""Globs over a project's files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from ptlint.config import DEFAULT_TESTS
from ptlint.paths import matcher


def is_test_file(path: Path, root: Path, patterns: Sequence[str] = DEFAULT_TESTS) -> bool:
    """Whether a file is a test by its path relative to the project's root; no patterns, no tests."""
    return _matcher(tuple(patterns), root)(path)


@functools.lru_cache(maxsize=16)
def _matcher(patterns: tuple[str, ...], root: Path) -> Callable[[Path], bool]:
    return matcher(patterns, root)

"""How a path is shown to the user, and which paths a config's globs mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path


def shown(path: Path) -> str:
    """`path` as the user would write it: relative to the working folder where it lies below, else absolute."""
    absolute = os.path.abspath(path)
    here = os.getcwd()
    prefix = here if here.endswith(os.sep) else here + os.sep
    return absolute.removeprefix(prefix)


def matcher(globs: Sequence[str], root: Path) -> Callable[[Path], bool]:
    """Whether a path below `root` is meant by one of these globs, which read as lines of a .gitignore there do."""
    if not globs:
        return lambda _: False
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(globs)
    base = os.path.abspath(root)

    def matches(path: Path) -> bool:
        relative = os.path.relpath(os.path.abspath(path), base).replace(os.sep, "/")
        # What lies outside the root has only its name left to be judged by.
        return spec.match_file(relative.rpartition("/")[2] if relative.startswith("../") else relative)

    return matches

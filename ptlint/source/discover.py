"""From the paths that a user names to the files to lint."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptlint.paths import shown
from ptlint.source.ignored import DEFAULT_EXCLUDE, is_excluded
from ptlint.source.walk import Walk


@dataclass(frozen=True)
class Discovery:
    """The files to lint (absolute, sorted, each once), what was skipped and why, and the paths that do not exist."""

    files: tuple[Path, ...]
    warnings: tuple[str, ...] = ()
    missing: tuple[Path, ...] = ()


def exclude_globs(exclude: Sequence[str] | None, extend_exclude: Iterable[str] = ()) -> tuple[str, ...]:
    """The excludes in force; None stands for the default ones."""
    return (*(DEFAULT_EXCLUDE if exclude is None else exclude), *extend_exclude)


def discover(
    paths: Iterable[Path],
    *,
    root: Path,
    exclude: Sequence[str] | None = None,
    extend_exclude: Iterable[str] = (),
    force_exclude: bool = False,
) -> Discovery:
    """The Python files at and below `paths`; the excludes read as lines of a `.gitignore` at `root` do.

    A path that is named itself is always taken, unless `force_exclude` holds it to the excludes too.
    """
    globs = exclude_globs(exclude, extend_exclude)
    base = os.path.abspath(root)
    files: set[str] = set()
    warnings: list[str] = []
    missing: list[Path] = []
    for path in paths:
        absolute = os.path.abspath(path)
        if not os.path.lexists(absolute):
            missing.append(path)
        elif force_exclude and is_excluded(absolute, base, globs):
            continue
        elif Path(absolute).is_dir():
            walk = Walk(absolute, base, globs)
            files.update(walk.files())
            warnings += walk.warnings
            warnings += map(_skipped_notebook, walk.notebooks)
        elif absolute.endswith(".ipynb"):
            warnings.append(_skipped_notebook(absolute))
        elif absolute.endswith(".pyi"):
            warnings.append(f"{shown(Path(absolute))}: a type stub has no code that runs; skipped")
        else:
            files.add(absolute)
    return Discovery(tuple(map(Path, sorted(files))), tuple(dict.fromkeys(warnings)), tuple(missing))


def _skipped_notebook(path: str) -> str:
    return f"{shown(Path(path))}: notebooks cannot be read yet; skipped"

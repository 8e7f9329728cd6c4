"""What `.gitignore` files and the excludes of a config keep out."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".git-rewrite",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".ptlint_cache",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "__pycache__",
    "__pypackages__",
    "_build",
    "buck-out",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


@dataclass(frozen=True)
class Ignores:
    """What keeps paths out below a folder: specs, each with the folder that it counts from, the nearest first."""

    excludes: tuple[str, GitIgnoreSpec]
    gitignores: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    @classmethod
    def around(cls, folder: str, root: str, globs: Sequence[str]) -> Ignores:
        """For a folder that was asked for: what keeps it out as a whole does not count; `globs` count from `root`."""
        spec = _spec(globs)
        base = root if is_within(folder, root) and not _keeps_out(spec, root, folder) else folder
        return cls((base, spec), tuple(_gitignores_above(folder, base)))

    def entering(self, folder: str) -> Ignores:
        """With the `.gitignore` of a folder below, where it has one."""
        spec = _read_spec(os.path.join(folder, ".gitignore"))
        return self if spec is None else Ignores(self.excludes, ((folder, spec), *self.gitignores))

    def keep_out(self, path: str, *, is_folder: bool) -> bool:
        if _verdict(*self.excludes, path, is_folder):
            return True
        for base, spec in self.gitignores:
            verdict = _verdict(base, spec, path, is_folder)
            if verdict is not None:
                return verdict
        return False


def is_excluded(path: str, root: str, globs: Sequence[str]) -> bool:
    """Whether these excludes keep a file out, by itself or by a folder that it lies in."""
    return is_within(path, root) and bool(_verdict(root, _spec(globs), path, False))


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _gitignores_above(folder: str, root: str) -> Iterator[tuple[str, GitIgnoreSpec]]:
    """Those in the folders above `folder`, up to the repository's top or else the root, the nearest first."""
    top = _repository(folder) or root
    place = folder
    while place != top:
        place = os.path.dirname(place)
        spec = _read_spec(os.path.join(place, ".gitignore"))
        if spec is not None and not _keeps_out(spec, place, folder):
            yield place, spec
    spec = _read_spec(os.path.join(top, ".git", "info", "exclude"))
    if spec is not None and not _keeps_out(spec, top, folder):
        yield top, spec


def _repository(folder: str) -> str | None:
    place = folder
    while not os.path.exists(os.path.join(place, ".git")):
        above = os.path.dirname(place)
        if above == place:
            return None
        place = above
    return place


def _keeps_out(spec: GitIgnoreSpec, base: str, folder: str) -> bool:
    """Whether the spec keeps out a folder below its base, or one that holds it."""
    while folder != base:
        if _verdict(base, spec, folder, True):
            return True
        folder = os.path.dirname(folder)
    return False


def _verdict(base: str, spec: GitIgnoreSpec, path: str, is_folder: bool) -> bool | None:
    relative = path[len(base) :].lstrip(os.sep).replace(os.sep, "/")
    return spec.check_file(relative + "/" if is_folder else relative).include


def _read_spec(path: str) -> GitIgnoreSpec | None:
    try:
        with Path(path).open(encoding="utf-8", errors="surrogateescape") as stream:
            return _spec(stream.read().splitlines())
    except OSError:
        return None


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    try:
        return _compiled(lines)
    except (ValueError, re.error):
        # Git reads on past a pattern that means nothing.
        return _compiled([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    try:
        _compiled((line,))
    except (ValueError, re.error):
        return False
    return True


def _compiled(lines: Sequence[str]) -> GitIgnoreSpec:
    with warnings.catch_warnings():
        # Python's own about odd brackets; nobody here can do anything about them.
        warnings.simplefilter("ignore")
        return GitIgnoreSpec.from_lines(lines)

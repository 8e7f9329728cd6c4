"""The Python files below a folder, in an order that never changes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptlint.paths import shown
from ptlint.source.ignored import Ignores


@dataclass
class Walk:
    """One walk below `folder`; `warnings` and `notebooks` fill while `files` is read.

    Symbolic links are not followed: a folder's may lead round in circles or out of the project, and a file's target
    is met under its own name.
    """

    folder: str
    root: str
    globs: Sequence[str]
    deep: bool = True
    warnings: list[str] = field(default_factory=list)
    notebooks: list[str] = field(default_factory=list)

    def files(self) -> Iterator[str]:
        pending = [(self.folder, Ignores.around(self.folder, self.root, self.globs))]
        while pending:
            folder, ignores = pending.pop()
            ignores = ignores.entering(folder)
            below: list[tuple[str, Ignores]] = []
            for name, is_folder in self._entries(folder):
                path = os.path.join(folder, name)
                if is_folder:
                    if self.deep and not ignores.keep_out(path, is_folder=True):
                        below.append((path, ignores))
                elif name.endswith((".py", ".ipynb")) and not ignores.keep_out(path, is_folder=False):
                    if name.endswith(".py"):
                        yield path
                    else:
                        self.notebooks.append(path)
            pending += reversed(below)

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        found: list[tuple[str, bool]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        found.append((entry.name, True))
                    elif entry.is_file(follow_symlinks=False):
                        found.append((entry.name, False))
        except OSError as error:
            self.warnings.append(f"{shown(Path(folder))}: the folder cannot be read: {error.strerror or error}")
        return sorted(found)

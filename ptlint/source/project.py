"""Where a project begins: the folder that bounds what is read together with a file."""

from __future__ import annotations

import os
from pathlib import Path

_MARKERS = ("pyproject.toml", "ptlint.toml", "setup.py", ".git")


def find_root(path: Path, explicit: Path | None = None) -> Path:
    """The root of the project that a file or folder belongs to.

    The nearest folder upwards that holds a project's mark, else the file's own folder. The search ends below the home
    folder and the file system's root: neither is ever taken for what it holds.
    """
    if explicit is not None:
        return Path(os.path.abspath(explicit))
    absolute = Path(os.path.abspath(path))
    folder = absolute if absolute.is_dir() else absolute.parent
    home = _home()
    for place in (folder, *folder.parents):
        if _holds(place, home):
            break
        if any(os.path.exists(place / marker) for marker in _MARKERS):
            return place
    return folder


def too_wide(folder: Path) -> bool:
    """Whether a folder is the home folder or holds it: much too much to read because one script lies there."""
    return _holds(Path(os.path.abspath(folder)), _home())


def _home() -> Path | None:
    try:
        return Path(os.path.realpath(Path.home()))
    except RuntimeError:
        return None


def _holds(folder: Path, home: Path | None) -> bool:
    if folder == folder.parent:
        return True
    if home is None:
        return False
    real = Path(os.path.realpath(folder))
    return real == home or real in home.parents

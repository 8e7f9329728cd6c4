"""How a path is shown to the user."""

from __future__ import annotations

import os
from pathlib import Path


def shown(path: Path) -> str:
    """`path` as the user would write it: relative to the working folder where it lies below, else absolute."""
    absolute = os.path.abspath(path)
    here = os.getcwd()
    prefix = here if here.endswith(os.sep) else here + os.sep
    return absolute.removeprefix(prefix)

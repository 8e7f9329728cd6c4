"""What ptlint makes of `examples/slow_train.py`: its report, and the script after safe and after all fixes."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from pathlib import Path

from ptlint.cli import main

SCRIPT = "slow_train.py"
FIXED = {"slow_train.safe.py": ("--fix",), "slow_train.unsafe.py": ("--fix", "--unsafe-fixes")}


def example(root: Path) -> dict[Path, str]:
    """The texts beside the example, by path."""
    folder = root / "examples"
    found = {folder / "slow_train.txt": _report(folder)}
    with tempfile.TemporaryDirectory() as scratch:
        for name, options in FIXED.items():
            copy = Path(scratch) / name / SCRIPT
            copy.parent.mkdir()
            shutil.copy(folder / SCRIPT, copy)
            _run(["--isolated", "--no-cache", "--exit-zero", *options, str(copy)])
            found[folder / name] = copy.read_text("utf-8")
    return found


def _report(folder: Path) -> str:
    before = Path.cwd()
    os.chdir(folder.parent)
    try:
        return _run(["--isolated", "--no-cache", f"{folder.name}/{SCRIPT}"])
    finally:
        os.chdir(before)


def _run(arguments: list[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        main(["check", *arguments])
    return shown.getvalue()

"""The layers of ARCHITECTURE.md hold, and importing the command line stays cheap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_layers() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", ["ptlint", "ptlint.cli", "ptlint.cli.check", "ptlint.registry", "ptlint.engine"])
def test_importing_needs_no_libcst(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('libcst', 'torch', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

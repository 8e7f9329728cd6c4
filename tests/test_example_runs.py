"""The articles' script runs, and `ptlint --fix` leaves what it prints as it was, to the last digit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "slow_train.py"


def run(script: Path) -> str:
    """The script's stdout on a small problem; one thread, so that nothing else on the machine can change a bit."""
    command = [sys.executable, str(script), "--images", "64", "--epochs", "2", "--batch-size", "16"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.count("epoch") == 2
    assert "inference" in done.stderr
    return done.stdout


def test_safe_fixes_change_no_bit(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    fixed = tmp_path / "slow_train.py"
    fixed.write_bytes(EXAMPLE.read_bytes())
    arguments = ["check", "--isolated", "--no-cache", "--fix", "--exit-zero", str(fixed)]
    subprocess.run([sys.executable, "-m", "ptlint", *arguments], check=True, cwd=ROOT, capture_output=True)
    text = fixed.read_text("utf-8")
    assert "non_blocking=True" in text
    assert "pin_memory=" in text
    assert ".double()" in text
    assert text.count("@torch.no_grad()") == 2
    assert "for index in range(len(labels))" not in text
    before, after = run(EXAMPLE), run(fixed)
    assert before.count("accuracy") == 2
    assert after == before

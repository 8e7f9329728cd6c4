"""`--debug-facts`: what ptlint knows of a file, for bug reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptlint.cli import main

STEPS = """\
import torch


def step(model, batch, optimizer):
    loss = model(batch.cuda()).sum()
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, loader):
    return [model(x.cuda()).tolist() for x in loader]


def never():
    pass
"""

TRAIN = """\
import torch
import other_library
from torch.utils.data import DataLoader

from steps import evaluate, step

net = torch.nn.Sequential(torch.nn.Linear(8, 2)).cuda()
optimizer = torch.optim.Adam(net.parameters())
loader = DataLoader(other_library.read("x"), batch_size=4, num_workers=2)
for epoch in range(3):
    for number, batch in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = step(net, batch, optimizer)
        if number % 100 == 0:
            print(net(batch.cuda()).sum())
"""

OF_TRAIN = """\
train.py: the entry of a program of 2 files
  GPU   the program may run on a GPU: `cuda` in line 7
     7  makes the model `Sequential`, held by an optimizer
        moves `Sequential` of line 7 to the device
     8  makes the optimizer `Adam` over `Sequential` of line 7
     9  makes a loader: dataset=?, batch_size=4, num_workers=2; absent: pin_memory, drop_last, prefetch_factor, \
persistent_workers
    10  this loop counts epochs: the training loop in line 11 runs inside it
    11  this loop trains: `loss.backward()` in line 6 of steps.py, `optimizer.step()` in line 7 of steps.py; it goes \
over the loader made in line 9
    12  puts autocast in bfloat16 in force
    15  calls `Sequential` of line 7: gradients on, the result is on the device; \
not hot: in few iterations only (line 14)
        reads a tensor, on the device (`print`); not hot: in few iterations only (line 14)
        moves a batch of the loader made in line 9, on the host, to the device; \
not hot: in few iterations only (line 14)
  calls whose result is not known: `other_library.read` (9)
"""

OF_STEPS = """\
steps.py: imported from train.py, a program of 2 files
  GPU   the program may run on a GPU: `cuda` in line 5
     5  calls `Sequential` of line 7 of train.py: gradients on, autocast in bfloat16, the result is on the device; \
hot: in the training loop of line 11 of train.py
        moves a batch of the loader made in line 9 of train.py, on the host, to the device; \
hot: in the training loop of line 11 of train.py
     6  runs backward; hot: in the training loop of line 11 of train.py
     7  steps the optimizer `Adam` over `Sequential` of line 7 of train.py; \
hot: in the training loop of line 11 of train.py
     8  reads a tensor, on the device (`item`); hot: in the training loop of line 11 of train.py
  not looked at, for nothing calls it: `evaluate` (12), `never` (16)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "broken.py").write_text("def (\n")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["check", "--debug-facts", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_an_entry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "train.py") == (0, OF_TRAIN, "")


def test_a_file_that_others_import(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "steps.py") == (0, OF_STEPS, "")


def test_several_files_and_the_same_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = (0, f"{OF_STEPS}\n{OF_TRAIN}", "")
    assert run(capsys, "steps.py", "train.py") == expected
    assert run(capsys, "steps.py", "train.py") == expected


def test_a_file_that_cannot_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "broken.py") == (0, "broken.py:1:5: PTL002 syntax error: invalid syntax\n", "")


def test_more_programs_than_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(5):
        (folder / f"entry{number}.py").write_text("import steps\n")
    status, out, _ = run(capsys, "steps.py")
    assert status == 0
    assert out.count("steps.py: imported from") == 3
    assert out.endswith("\n\nand in 3 more programs\n")


def test_the_device_option_counts_and_the_output_file_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "--device", "cpu", "--output-file", "facts.txt", "train.py") == (0, "", "")
    assert "GPU   the option `device` says that it runs on `cpu`\n" in (folder / "facts.txt").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fix", "train.py"], "--debug-facts and --fix exclude each other"),
        (["--add-ignores", "train.py"], "--debug-facts and --add-ignores exclude each other"),
        (["."], "--debug-facts needs a file"),
        ([], "--debug-facts needs a file"),
        (["absent.py"], "absent.py: no such file or folder"),
    ],
)
def test_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert run(capsys, *words) == (2, "", f"ptlint: error: {message}\n")

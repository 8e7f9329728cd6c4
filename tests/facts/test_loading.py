"""What is known of a program's loaders."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.arrays import Listed, listed

HEAD = """
import os

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset
from torchvision.datasets import MNIST
from torchvision.transforms import Compose, Lambda


class Held(Dataset):
    def __init__(self, rows, change=None):
        self.rows, self.change = rows, change

    def __getitem__(self, index):
        row = torch.as_tensor(self.rows[index], dtype=torch.float32)
        return self.change(row) if self.change is not None else row


class Read(Dataset):
    def __getitem__(self, index):
        with open(str(index)) as file:
            return file.read()
"""

MEMORY = {
    "tensors": ("TensorDataset(torch.ones(3))", True),
    "a part of it": ("Subset(TensorDataset(torch.ones(3)), [0])", True),
    "several": ("ConcatDataset([TensorDataset(torch.ones(3)), Held([1])])", True),
    "one of them reads": ("ConcatDataset([TensorDataset(torch.ones(3)), Read()])", False),
    "a list": ("[1, 2, 3]", True),
    "an array": ("np.zeros((3, 3))", True),
    "held by a class": ("Held([1])", True),
    "changed on the way": ("Held([1], Compose([]))", False),
    "a dataset of a dataset": ("Held(MNIST('.'))", False),
    "files": ("Read()", False),
    "decoded": ("MNIST('.')", False),
    "not known": ("open_dataset()", False),
}


@pytest.mark.parametrize(("code", "expected"), MEMORY.values(), ids=MEMORY)
def test_in_memory(code: str, expected: bool, tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=f"{HEAD}\nfor x in DataLoader({code}): pass\n")
    assert next(iter(facts.loading)).in_memory is expected


WORKERS = {
    "absent": ("", "none", False),
    "a number": ("num_workers=2", "some", True),
    "0": ("num_workers=0", "none", False),
    "all cores": ("num_workers=os.cpu_count()", "some", True),
    "at most eight": ("num_workers=min(8, os.cpu_count() or 1)", "some", True),
    "at most as many as asked for": ("num_workers=min(os.cpu_count(), many)", "unknown", False),
    "not known": ("num_workers=many", "unknown", False),
    "spread": ("**many", "unknown", False),
    "by the platform": ("num_workers=0 if os.name == 'nt' else 4", "some", False),
}


@pytest.mark.parametrize(("code", "workers", "certain"), WORKERS.values(), ids=WORKERS)
def test_workers(code: str, workers: str, certain: bool, tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path, main=f"{HEAD}\ndef make(many):\n    return DataLoader(Read(), {code})\n\nmake(input())\n"
    )
    (use,) = facts.loading
    assert (use.workers, use.workers_certain) == (workers, certain)


LISTS = {
    "two arrays": ("[np.zeros(3), np.ones(3)]", Listed(True, "float64")),
    "of two types": ("[np.zeros(3), np.zeros(3, dtype=np.float32)]", Listed(True, None)),
    "a comprehension": ("[np.load(n) for n in 'ab']", Listed(False, None)),
    "rows": ("[np.zeros((3, 3))[i, :] for i in range(3)]", Listed(False, "float64")),
    "numbers of an array": ("[np.zeros(3)[i] for i in range(3)]", None),
    "means": ("[np.zeros(3).mean()]", None),
    "random numbers": ("[np.random.rand(), np.random.randint(4)]", None),
    "random arrays": ("[np.random.rand(3), np.random.rand(3)]", Listed(True, "float64")),
    "an array": ("np.zeros(3)", None),
    "not known": ("[row for row in open('a')]", None),
}


@pytest.mark.parametrize(("code", "expected"), LISTS.values(), ids=LISTS)
def test_lists_of_arrays(code: str, expected: Listed | None, tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=f"{HEAD}\ntorch.tensor({code})\n")
    (call,) = facts.calls("torch.tensor")
    assert listed(call.args.get("data")) == expected

"""What the fixes of PTL201 and PTL601 rest on: sums and counts on a device are those of Python, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

LOSSES: dict[str, Callable[[int], Any]] = {
    "float32": lambda seed: torch.rand((), generator=torch.Generator().manual_seed(seed)) * 7,
    "bfloat16": lambda seed: (torch.rand((), generator=torch.Generator().manual_seed(seed)) * 7).bfloat16(),
    "of one element": lambda seed: torch.rand(1, generator=torch.Generator().manual_seed(seed)) * 7,
    "not a number": lambda seed: torch.tensor(float("nan") if seed == 3 else float(seed)),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_a_sum_in_float64_is_pythons_sum(kind: str) -> None:
    by_python, on_device = 0.0, 0.0
    sizes = [64] * 299 + [17]
    for seed, size in enumerate(sizes):
        loss = LOSSES[kind](seed)
        by_python += loss.item() * size
        on_device += loss.detach().double() * size
    assert repr(float(on_device)) == repr(by_python)


def test_float32_would_not_do() -> None:
    by_python, on_device = 0.0, 0.0
    for seed in range(300):
        loss = LOSSES["float32"](seed)
        by_python += loss.item()
        on_device += loss.detach()
    assert float(on_device) != by_python


def test_a_count_is_a_whole_number_again() -> None:
    by_python, on_device = 0, 0
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        scores, labels = torch.rand(16, 4, generator=generator), torch.randint(4, (16,), generator=generator)
        by_python += (scores.argmax(1) == labels).sum().item()
        on_device += (scores.argmax(1) == labels).sum()
    assert repr(int(on_device)) == repr(by_python)


def test_samples_counted_at_once() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        scores, labels = torch.rand(16, 4, generator=generator), torch.randint(4, (16,), generator=generator)
        columns = labels[:, None]
        one_by_one = sum(1 for j in range(len(labels)) if scores[j].argmax() == labels[j])
        assert (scores.argmax(dim=1) == labels).sum().item() == one_by_one
        found = scores.argmax(dim=1)
        pairs = sum(1 for a, b in zip(found, columns, strict=True) if a == b)
        assert (found.flatten() == columns.flatten()).sum().item() == pairs

"""What a program measures, and whether somebody waits for the device."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.events import Elapsed, Read

HEAD = """
import time
import torch
from torch import nn

model = nn.Linear(8, 8).cuda()
x = torch.ones(4, 8, device="cuda")
"""

SPANS: dict[str, tuple[str, int]] = {
    "nothing waits": ("t = time.time()\nmodel(x)\nprint(time.time() - t)", 1),
    "a value is read": ("t = time.time()\nmodel(x).sum().item()\nprint(time.time() - t)", 0),
    "a value is read before the work": ("t = time.time()\nx.sum().item()\nmodel(x)\nprint(time.time() - t)", 1),
    "synchronised": ("t = time.time()\nmodel(x)\ntorch.cuda.synchronize()\nprint(time.time() - t)", 0),
    "no work": ("model(x)\nt = time.time()\nprint(time.time() - t)", 0),
    "in an attribute": ("class C: pass\nc = C()\nc.t = time.time()\nmodel(x)\nprint(time.time() - c.t)", 1),
    "wrapped around the loop": (
        "t = time.time()\nfor _ in range(99):\n    print(time.time() - t)\n    t = time.time()\n    model(x)",
        1,
    ),
    "a part of an iteration, read outside of it": (
        "for _ in range(99):\n    t = time.time()\n    y = model(x)\n    print(time.time() - t)\n    print(y)",
        1,
    ),
    "whole iterations, read in each": (
        "t = time.time()\nfor _ in range(99):\n    print(model(x))\n    print(time.time() - t)\n    t = time.time()",
        0,
    ),
    "a time-out": ("t = time.time()\nwhile True:\n    model(x)\n    if time.time() - t > 9:\n        break", 0),
}


@pytest.mark.parametrize("name", SPANS)
def test_unfinished_work(name: str, tmp_path: Path) -> None:
    body, wanted = SPANS[name]
    facts = facts_of(tmp_path, main=HEAD + body + "\n")
    assert sum(facts.timing.unfinished(span) is not None for span in facts.timing.spans) == wanted


MEASURED: dict[str, tuple[str, bool]] = {
    "in a loop of its own": ("for _ in range(99):\n    model(x).sum().item()", False),
    "between synchronised readings": (
        (
            "t = time.time()\nfor _ in range(99):\n    model(x).sum().item()\n"
            "torch.cuda.synchronize()\nprint(time.time() - t)"
        ),
        True,
    ),
    "the same input, clocked": (
        "for _ in range(99):\n    t = time.time()\n    model(x).sum().item()\n    print(time.time() - t)",
        True,
    ),
    "other input, clocked": (
        (
            "for y in torch.utils.data.DataLoader([]):\n    t = time.time()\n    model(y.cuda()).sum().item()\n"
            "    print(time.time() - t)"
        ),
        False,
    ),
    "profiled": ("with torch.profiler.profile():\n    for _ in range(99):\n        model(x).sum().item()", True),
    "synchronised for the read alone": (
        "for _ in range(99):\n    y = model(x)\n    torch.cuda.synchronize()\n    y.item()",
        False,
    ),
    "idle no longer": (
        "for _ in range(99):\n    y = model(x)\n    torch.cuda.synchronize()\n    y.sum().item()",
        False,
    ),
}


@pytest.mark.parametrize("name", MEASURED)
def test_measurements(name: str, tmp_path: Path) -> None:
    body, wanted = MEASURED[name]
    facts = facts_of(tmp_path, main=HEAD + body + "\n")
    read = next(event for event in facts.events(Read) if event.how == "item")
    assert facts.timing.measured(read) is wanted


def test_elapsed_time_knows_its_readings(tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path,
        main=textwrap.dedent(
            """
            import time
            start = time.time()
            for _ in range(9):
                now = time.perf_counter()
                print(now - start)
                start = time.monotonic()
            """
        ),
    )
    (elapsed,) = facts.events(Elapsed)
    assert {clock.name for clock in elapsed.ends} == {"time.perf_counter"}
    assert {clock.name for clock in elapsed.starts} == {"time.time", "time.monotonic"}

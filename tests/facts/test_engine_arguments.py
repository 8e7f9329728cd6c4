"""Whether an argument is set, absent or unknown, and by which value."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.values import Const

HEAD = """
import argparse
import functools
from dataclasses import dataclass
from torch.utils.data import DataLoader
import probe

data = probe.dataset()
"""

STATES: dict[str, tuple[str, str, object]] = {
    "by keyword": ("DataLoader(data, num_workers=2)", "set", 2),
    "by position": ("DataLoader(data, 8, True, None, None, 3)", "set", 3),
    "not at all": ("DataLoader(data)", "absent", None),
    "by a known dict": ("DataLoader(data, **{'num_workers': 4})", "set", 4),
    "by a dict that grows": ("k = {}\nk['num_workers'] = 5\nDataLoader(data, **k)", "set", 5),
    "by a dict that is updated": (
        "k = dict(a=1)\nk.update(num_workers=6)\nk.pop('a')\nDataLoader(data, **k)",
        "set",
        6,
    ),
    "not by a known dict": ("k = dict(shuffle=True)\nDataLoader(data, **k)", "absent", None),
    "by an unknown dict": ("DataLoader(data, **probe.options())", "unknown", None),
    "by a function's keywords": ("def f(**k):\n    DataLoader(data, **k)\nf(num_workers=7)", "set", 7),
    "not by a function's keywords": ("def f(**k):\n    DataLoader(data, **k)\nf(shuffle=True)", "absent", None),
    "by a partial": ("functools.partial(DataLoader, num_workers=8)(data)", "set", 8),
    "by a subclass": (
        "class Own(DataLoader):\n    def __init__(self, d):\n        super().__init__(d, num_workers=9)\nOwn(data)",
        "set",
        9,
    ),
    "by a parameter's default": ("def f(n=1):\n    DataLoader(data, num_workers=n)\nf()", "set", 1),
    "by an option's default": (
        (
            "p = argparse.ArgumentParser()\np.add_argument('--n', type=int, default=2)\n"
            "DataLoader(data, num_workers=p.parse_args().n)"
        ),
        "set",
        2,
    ),
    "by a dataclass": ("@dataclass\nclass C:\n    n: int = 3\nDataLoader(data, num_workers=C().n)", "set", 3),
    "by what a module says": ("DataLoader(data, num_workers=int(probe.n))", "set", None),
}


@pytest.mark.parametrize("name", STATES)
def test_states(name: str, tmp_path: Path) -> None:
    text, state, value = STATES[name]
    facts = facts_of(tmp_path, main=HEAD + text)
    ((loader, _),) = facts.loaders
    assert loader.call is not None
    assert loader.call.state("num_workers") == state
    found = loader.call.get("num_workers")
    assert (found.value if isinstance(found, Const) else None) == value


def test_a_factory_in_another_file(tmp_path: Path) -> None:
    main = "from factory import make\nmake([1, 2], workers=4)\n"
    factory = "from torch.utils.data import DataLoader\ndef make(d, workers=0):\n"
    factory += "    return DataLoader(d, num_workers=workers)\n"
    facts = facts_of(tmp_path, main=main, factory=factory)
    ((loader, event),) = facts.loaders
    assert loader.call is not None
    assert isinstance(loader.call.get("num_workers"), Const)
    assert event.place.path.stem == "factory"
    assert [place.path.stem for place in facts.callers(event.ctx)] == ["main"]


def test_arguments_written_at_the_call_have_nodes(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=f"{HEAD}DataLoader(data, 8, **dict(num_workers=2))\n")
    ((loader, _),) = facts.loaders
    assert loader.call is not None
    assert set(loader.call.nodes) == {"dataset", "batch_size"}
    assert loader.call.starred == {"num_workers"}

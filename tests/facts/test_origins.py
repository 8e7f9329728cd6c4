"""Where the value of a loader's argument was chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts import origins

HEAD = """
import argparse
import functools
from torch.utils.data import DataLoader

WORKERS = 3
parser = argparse.ArgumentParser()
parser.add_argument("--jobs", "-j", type=int, default=0)
args = parser.parse_args()
"""

KEPT = """class L:
  def __init__(self, n=0):
    self.n = n
  def make(self):
    return DataLoader(a, num_workers=self.n)
L().make()"""

CASES = {
    "left out": ("DataLoader(a)", origins.ABSENT, 11),
    "a literal": ("DataLoader(a, num_workers=2)", origins.LITERAL, 11),
    "by position": ("DataLoader(a, 1, False, None, None, 2)", origins.LITERAL, 11),
    "a constant": ("DataLoader(a, num_workers=WORKERS)", origins.CONSTANT, 6),
    "an option": ("DataLoader(a, num_workers=args.jobs)", origins.OPTION, 8),
    "a local name": ("n = 4\nDataLoader(a, num_workers=n)", origins.CONSTANT, 11),
    "two values of a name": ("n = 4\nif a: n = 5\nDataLoader(a, num_workers=n)", origins.OTHER, 13),
    "an expression": ("DataLoader(a, num_workers=WORKERS + 1)", origins.OTHER, 11),
    "an item of a dict": ("o = {'num_workers': 2}\nDataLoader(a, **o)", origins.ITEM, 11),
    "a keyword of dict": ("o = dict(num_workers=2)\nDataLoader(a, **o)", origins.ITEM, 11),
    "a subscript": ("o = {}\no['num_workers'] = 2\nDataLoader(a, **o)", origins.ITEM, 12),
    "an option in a dict": ("o = dict(num_workers=args.jobs)\nDataLoader(a, **o)", origins.OPTION, 8),
    "a factory's default": ("def f(n=0):\n  return DataLoader(a, num_workers=n)\nf()", origins.DEFAULT, 13),
    "given to a factory": ("def f(n=0):\n  return DataLoader(a, num_workers=n)\nf(n=1)", origins.LITERAL, 13),
    "a default nobody uses": ("def f(n=0):\n  return DataLoader(a, num_workers=n)", origins.OWN_DEFAULT, 11),
    "two factories deep": (
        "def f(n=0):\n  return DataLoader(a, num_workers=n)\ndef g(m=0):\n  return f(m)\ng()",
        origins.DEFAULT,
        15,
    ),
    "keywords passed on": ("def f(**o):\n  return DataLoader(a, **o)\nf()", origins.ABSENT, 13),
    "keywords passed on and given": ("def f(**o):\n  return DataLoader(a, **o)\nf(num_workers=1)", origins.LITERAL, 13),
    "an attribute": (KEPT, origins.DEFAULT, 16),
    "of a subclass": (
        "class L(DataLoader):\n  def __init__(self, d, n=0):\n    super().__init__(d, num_workers=n)\nL(a)",
        origins.DEFAULT,
        14,
    ),
}


@pytest.mark.parametrize(("code", "kind", "row"), CASES.values(), ids=CASES)
def test_origin(code: str, kind: str, row: int, tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=f"{HEAD}\n{code}\n")
    (use,) = facts.loading
    origin = use.origin("num_workers")
    assert (origin.kind, origin.place.row) == (kind, row)

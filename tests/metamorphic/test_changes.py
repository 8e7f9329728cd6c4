"""The changes are what they say: the changed program does the same, and nothing that could change is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from metamorphic.laws import CHANGES, Change
from metamorphic.names import Program

SCRIPT = '''\
"""A script that binds names in every way there is."""

from __future__ import annotations

import argparse
import os.path
import collections.abc
import json as notation
from collections import (
    OrderedDict,
    defaultdict as counts,
)
from functools import partial, wraps

total = 0


# Says how often it was called.
def counted(function):
    calls = counts(int)

    @wraps(function)
    def inner(*args, **kwargs):
        nonlocal_total = calls["all"]
        calls["all"] = nonlocal_total + 1
        return function(*args, **kwargs)

    return inner


class Base:
    scale: int = 2
    table = OrderedDict(a=1)

    def __init__(self, size, *, rate=1.0):
        self.size = size
        self.rate = rate
        self.update = [size]

    @property
    def twice(self):
        return self.size * self.scale

    @classmethod
    def make(cls, size):
        return cls(size, rate=0.5)

    @staticmethod
    def add(left, right=0):
        return left + right


class Derived(Base):
    def __init__(self, size, **options):
        super().__init__(size, **options)
        self.forward_count = 0

    def forward(self, value):
        self.forward_count += 1
        return value + self.twice

    def eval(self):
        return self

    def __call__(self, value):
        return self.eval().forward(value)


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.25)
    return parser.parse_args([])


@counted
def work(items, start=0, *rest, last=None):
    result = [item + start for item in items if (limit := 10) > item]
    pairs = {key: value for key, value in enumerate(result)}
    try:
        raise ValueError(pairs)
    except ValueError as error:
        text = f"{error!s:>12} {len(result)} {last}"
    match result:
        case [first, *others] if others:
            return text, first, others, limit, rest
        case _:
            return text


def count_up():
    global total
    total += 1

    def nested():
        nonlocal step
        step += 1
        return step

    step = total
    return nested() + step


def main():
    args = parsed()
    made = Derived(3, rate=args.rate)
    print(made(args.batch_size), made.rate, made.twice, Derived.make(7).rate, Base.add(1, right=2), made.update)
    print(work([1, 2, 3], start=1), partial(work, last=5)([1]))
    print(count_up(), count_up(), notation.dumps({"os": os.path.sep}), collections.abc.Sized.__name__)
    for index in range(2):
        print(index, end=" ")
    for (left, right) in [(1, 2), (3, 4)]:
        print(left + right)
    for left, right in zip("ab", "cd"):
        print(left + right)
    for each in 1, 2:
        print((lambda one, two=each: one + two)(one=3))


if __name__ == "__main__":
    main()
'''

FOLDER = {
    "main.py": (
        "import tools.shapes\n"
        "from tools import areas, shapes as forms\n"
        "from tools.areas import area as area_of, UNIT\n\n"
        "def main():\n"
        "    square = forms.Square(side=2)\n"
        "    print(area_of(square), areas.area(square), UNIT, tools.shapes.Square(1).side)\n\n"
        "main()\n"
    ),
    "tools/__init__.py": "from .shapes import Square\n",
    "tools/areas.py": (
        "from . import shapes\nfrom .shapes import Square\n\nUNIT = 'cm'\n\n"
        "def area(square: Square):\n    assert isinstance(square, shapes.Square)\n    return square.side ** 2\n"
    ),
    "tools/shapes.py": "class Square:\n    def __init__(self, side):\n        self.side = side\n",
}

GONE = {
    "renamed": (
        "nonlocal_total",
        "counted",
        "self",
        "Derived",
        "size",
        "twice",
        "items",
        "result",
        "left",
        "make",
        "total",
    ),
    "aliased": ("import json as notation\n", "OrderedDict(", "counts(", "os.path.sep"),
    "from-modules": ("OrderedDict,", "counts(int)", "import partial"),
    "moved": (),
    "leaves-moved": (),
    "counted": ("for index in", "in zip", "in 1"),
    "shown": ("in range", "in zip", "in 1"),
}

each = pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)


@each
@pytest.mark.parametrize("program", [{"main.py": SCRIPT}, FOLDER], ids=["script", "folder"])
def test_the_changed_program_does_the_same(program: Program, change: Change, tmp_path: Path) -> None:
    if not change.applies(program):
        assert program is FOLDER
        return
    changed = change.make(program)
    assert changed != program
    assert _output(changed, tmp_path / "after") == _output(program, tmp_path / "before")
    for name, text in program.items():
        assert changed[name].count("\n") == text.count("\n"), "rows stay where they are"


@each
def test_what_can_change_does(change: Change) -> None:
    changed = change.make({"main.py": SCRIPT})["main.py"]
    words = changed.replace("(", " ( ").replace(".", " . ").replace(",", " , ").split()
    for gone in GONE[change.name]:
        assert gone in SCRIPT
        assert gone not in (words if gone.isidentifier() else changed)


def test_what_moves() -> None:
    by_name = {change.name: change for change in CHANGES}
    program = by_name["moved"].make({"main.py": SCRIPT})
    assert "class Derived" in program["helpers_moved.py"]
    assert "from helpers_moved import counted, Base, Derived, parsed, work" in program["main.py"]
    assert "# Says how often" in program["helpers_moved.py"]
    assert "def count_up" in program["main.py"], "it sets a variable of the script"
    assert "import argparse" not in program["main.py"]
    leaves = by_name["leaves-moved"].make({"main.py": SCRIPT})
    assert "import counted, Base, parsed\n" in leaves["main.py"]


def _output(program: Program, folder: Path) -> str:
    for name, text in {**program, "tqdm.py": "tqdm = list\n"}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "main.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    return done.stdout

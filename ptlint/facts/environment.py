"""Environment variables that PyTorch programs set: who reads them, when, and which values do harm.

The table is `data/environment.json`, kept by hand; each entry names the source of what it says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data") / "environment.json"

IMPORT = "import"
CUDA_START = "cuda start"
PROCESS_GROUP = "process group"
COMPILE = "compile"
USE = "use"
NEVER = "never"


@dataclass(frozen=True, slots=True)
class Values:
    """Values of a kind, as a pattern that the whole value matches, and what is to be said of them."""

    pattern: str
    why: str

    def hold(self, value: str) -> bool:
        return re.fullmatch(self.pattern, value) is not None


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable.

    - `owner`: the library that it belongs to. `effect`: what it sets, as a noun phrase. `source`: who says so.
    - `read`: when: `IMPORT` (one of `modules` loads), `CUDA_START`, `PROCESS_GROUP` (one is created), `COMPILE` (the
      first use of `torch.compile`), `USE` (each time, or late enough), or `NEVER` (nothing in a PyTorch program does).
    - `libraries`: importing one of these gives a variable with `NEVER` a reader after all.
    - `renamed_to`, with the PyTorch release `since` which the new name is read; `alias_of`: another name of it, both
      read. `instead`: the call that still works once it is too late.
    - `harmful`: values that slow the program; `raises`: that raise when read; `idle`: that change nothing.
    - `rule`: another rule's code that speaks of its harmful values.
    """

    name: str
    owner: str
    read: str
    effect: str
    source: str
    modules: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    renamed_to: str | None = None
    alias_of: str | None = None
    since: tuple[int, int] | None = None
    instead: str | None = None
    rule: str | None = None
    harmful: tuple[Values, ...] = ()
    raises: tuple[Values, ...] = ()
    idle: tuple[Values, ...] = ()
    import_values: str | None = None
    correct: tuple[tuple[str, str], ...] = ()

    def read_when(self, value: str | None) -> str:
        """`read`, or `IMPORT` where this value holds something that is read already then (`backend:`)."""
        if value is not None and self.import_values is not None and re.search(self.import_values, value):
            return IMPORT
        return self.read

    def has_reader(self, imported: Collection[str]) -> bool:
        """Whether a program that imports these top-level modules reads it at all."""
        return self.read != NEVER or any(name.partition(".")[0] in self.libraries for name in imported)

    def harm(self, value: str) -> str | None:
        """Why this value slows the program."""
        return _first(self.harmful, value)

    def error(self, value: str) -> str | None:
        """Why this value raises."""
        return _first(self.raises, value)

    def idleness(self, value: str) -> str | None:
        """Why this value changes nothing."""
        return _first(self.idle, value)

    def corrected(self, value: str) -> str | None:
        """The value that was meant, where one that raises is only misspelt."""
        text = value
        for pattern, replacement in self.correct:
            text = re.sub(pattern, replacement, text)
        return text if text != value and self.error(text) is None else None


def lookup(name: str) -> Variable | None:
    """What is known of a variable."""
    return _table().get(name)


def names() -> Collection[str]:
    return _table().keys()


@cache
def _table() -> Mapping[str, Variable]:
    data: dict[str, dict[str, Any]] = json.loads(DATA.read_bytes())
    return {name: _variable(name, entry) for name, entry in data.items()}


def _variable(name: str, entry: dict[str, Any]) -> Variable:
    since = entry.get("since")
    major, _, minor = since.partition(".") if since else ("", "", "")
    return Variable(
        name=name,
        owner=entry["owner"],
        read=entry["read"],
        effect=entry["effect"],
        source=entry["source"],
        modules=tuple(entry.get("modules", ())),
        libraries=tuple(entry.get("libraries", ())),
        renamed_to=entry.get("renamed_to"),
        alias_of=entry.get("alias_of"),
        since=(int(major), int(minor)) if since else None,
        instead=entry.get("instead"),
        rule=entry.get("rule"),
        harmful=tuple(Values(*pair) for pair in entry.get("harmful", ())),
        raises=tuple(Values(*pair) for pair in entry.get("raises", ())),
        idle=tuple(Values(*pair) for pair in entry.get("idle", ())),
        import_values=entry.get("import_values"),
        correct=tuple((pattern, text) for pattern, text in entry.get("correct", ())),
    )


def _first(kinds: tuple[Values, ...], value: str) -> str | None:
    return next((kind.why for kind in kinds if kind.hold(value)), None)

"""What a rule reports: plain frozen data, picklable, without syntax nodes."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace


class Safety(enum.Enum):
    """Whether a fix keeps what the program computes (CATALOGUE.md, "Safe fix")."""

    SAFE = "safe"
    UNSAFE = "unsafe"


class Impact(enum.IntEnum):
    """How much a fault usually costs; orders the report."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, order=True)
class Position:
    """A place in a file: `row` and `column` count from 1, columns in characters."""

    row: int
    column: int


@dataclass(frozen=True, order=True)
class Edit:
    """Replace the characters `start:end` of the file's decoded text by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Fix:
    """One change of one file.

    `imports` are wanted import statements (`import os`, `from a import b`) that the engine adds where the file
    lacks them; they are never part of `edits`.
    """

    message: str
    safety: Safety
    edits: tuple[Edit, ...]
    imports: tuple[str, ...] = ()

    def made_unsafe(self) -> Fix:
        return replace(self, safety=Safety.UNSAFE)


@dataclass(frozen=True)
class Related:
    """A second place that a finding speaks of."""

    filename: str
    location: Position
    message: str


@dataclass(frozen=True)
class Finding:
    """A fault at a place.

    `filename` is the path as the user would write it (relative to the working folder where that is possible);
    `start_offset`/`end_offset` are character offsets of the place in the file's decoded text. `message` names the
    mechanism, `advice` the concrete change to write, `because` the chain of facts that led here, shortest useful
    sentence first. `withheld` says why there is no fix although the rule can fix in general.
    """

    code: str
    name: str
    message: str
    filename: str
    location: Position
    end_location: Position
    start_offset: int = 0
    end_offset: int = 0
    impact: Impact = Impact.MEDIUM
    preview: bool = False
    advice: str = ""
    fix: Fix | None = None
    withheld: str = ""
    because: tuple[str, ...] = ()
    related: tuple[Related, ...] = ()

    @property
    def sort_key(self) -> tuple[str, Position, str]:
        return (self.filename, self.location, self.code)

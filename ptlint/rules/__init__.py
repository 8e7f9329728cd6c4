"""The rules, one file each, and the rendered table that answers for them without importing any."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ptlint.findings import Impact
    from ptlint.rule import Fixable, Root

FAMILIES = {
    "PTL1": "Data pipeline",
    "PTL2": "Host, device and synchronisation",
    "PTL3": "Autograd",
    "PTL4": "Compilation",
    "PTL5": "Precision",
    "PTL6": "The loop's own Python",
    "PTL7": "Several devices and the environment",
    "PTL9": "Measurement",
    "PTL0": "About the lint itself",
}


class Entry(NamedTuple):
    """What the table in `index.py` says of a rule."""

    code: str
    name: str
    message: str
    impact: Impact
    preview: bool
    fixable: Fixable
    torch: str | None
    options: tuple[str, ...]
    roots: tuple[Root, ...]
    module: str

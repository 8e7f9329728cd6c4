"""PyTorch versions: as written, as ranges, and the bounds that a project names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

Version = tuple[int, int]

DEFAULT: Version = (2, 4)
"""What is assumed of a project that names no lower bound."""

_NAMERS = ("pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "environment.yml", "environment.yaml")
_LARGEST = 1_000_000

_REQUIREMENT = re.compile(
    r"""(?<![\w.-])(?:py)?torch(?![\w.-])["']?\s*   # torch, conda's pytorch, a key or a string's start
    (?:\[[\w,\s]*\]\s*)?                            # extras
    (?:=\s*(?=["'{]))?(?:\{\s*version\s*=\s*)?      # poetry's `torch = "^2.0"` and `torch = {version = "^2.0"}`
    ["']?\s*\(?(?P<spec>[<>=!~^][^"'\n\#;)]*)""",
    re.VERBOSE,
)
_LOWER = re.compile(r"(?:>=|===?|~=|\^|(?<![<>!~=])=|>)\s*v?(\d+)\.(\d+)")
_UPPER = re.compile(r"(<=?|===?|~=|\^|(?<![<>!~=])=)\s*v?(\d+)(?:\.(\d+))?(?:\.(\d+))?")
_PART = re.compile(r"(>=|<)(\d+)\.(\d+)")


def parse(text: str) -> Version | None:
    """`2.4` or `2.4.1` as a pair; None where it is no version."""
    match = re.match(r"v?(\d+)\.(\d+)(?:[.+].*)?\Z", text.strip())
    return (int(match[1]), int(match[2])) if match else None


def within(allowed: str | None, version: Version) -> bool:
    """Whether `version` lies in a range such as ">=1.10,<2.5"; no range allows all."""
    return overlaps(allowed, version, (version[0], version[1] + 1))


def overlaps(allowed: str | None, lowest: Version, below: Version | None) -> bool:
    """Whether some version from `lowest` on, but older than `below` where that is known, lies in a range."""
    for operator, major, minor in _PART.findall(allowed or ""):
        bound = (int(major), int(minor))
        if lowest >= bound if operator == "<" else lowest < bound and below is not None and below <= bound:
            return False
    return True


def bounds(root: Path) -> tuple[Version, Version | None]:
    """The lowest PyTorch that the project at `root` works with, else `DEFAULT`, and the lowest that is too new."""
    for name in _NAMERS:
        found = list(_bounds(root / name))
        if found:
            above = [below for _, below in found if below is not None]
            return min(lowest for lowest, _ in found), max(above) if len(above) == len(found) else None
    return DEFAULT, None


def _bounds(path: Path) -> Iterator[tuple[Version, Version | None]]:
    try:
        if path.stat().st_size > _LARGEST:
            return
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        for requirement in _REQUIREMENT.finditer(line):
            lower = [(int(major), int(minor)) for major, minor in _LOWER.findall(requirement["spec"])]
            upper = [_too_new(*found) for found in _UPPER.findall(requirement["spec"])]
            if lower:
                yield min(lower), min(upper, default=None)


def _too_new(operator: str, major: str, minor: str, patch: str) -> Version:
    """The lowest version that `==2.1`, `<2.3`, `~=2.1` or their like leave out."""
    if operator == "<" and not int(patch or 0):
        return int(major), int(minor or 0)
    if not minor or operator == "^" or (operator == "~=" and not patch):
        return int(major) + 1, 0
    return int(major), int(minor) + 1

"""PyTorch versions: as written, as ranges, and the lower bound that a project names."""

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
_PART = re.compile(r"(>=|<)(\d+)\.(\d+)")


def parse(text: str) -> Version | None:
    """`2.4` or `2.4.1` as a pair; None where it is no version."""
    match = re.match(r"v?(\d+)\.(\d+)(?:[.+].*)?\Z", text.strip())
    return (int(match[1]), int(match[2])) if match else None


def within(allowed: str | None, version: Version) -> bool:
    """Whether `version` lies in a range such as ">=1.10,<2.5"; no range allows all."""
    for operator, major, minor in _PART.findall(allowed or ""):
        bound = (int(major), int(minor))
        if version < bound if operator == ">=" else version >= bound:
            return False
    return True


def lower_bound(root: Path) -> Version:
    """The lowest PyTorch that the project at `root` says it works with, else `DEFAULT`."""
    for name in _NAMERS:
        bounds = list(_bounds(root / name))
        if bounds:
            return min(bounds)
    return DEFAULT


def _bounds(path: Path) -> Iterator[Version]:
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
            for major, minor in _LOWER.findall(requirement["spec"]):
                yield int(major), int(minor)

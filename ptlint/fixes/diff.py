"""A change of a file as a unified diff that `patch` and `git apply -p0` read."""

from __future__ import annotations

import difflib
import re

# LF alone ends a row of a patch: a CR stays part of the row's text.
_ROWS = re.compile(r"[^\n]*\n|[^\n]+")


def unified_diff(name: str, before: str, after: str) -> str:
    """The diff from `before` to `after`; empty where they are the same."""
    rows = difflib.unified_diff(_ROWS.findall(before), _ROWS.findall(after), name, name)
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)

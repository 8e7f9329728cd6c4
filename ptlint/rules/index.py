"""The rules as a table, so that a run that needs none of them imports none of them.

Rendered by `python scripts/render.py` from the rule classes: change those, not this.
"""

# fmt: off

from __future__ import annotations

from ptlint.findings import Impact
from ptlint.rules import Entry

RULES: tuple[Entry, ...] = (
    Entry(
        code="PTL000",
        name="internal-error",
        message="a rule of ptlint's own failed on this file",
        impact=Impact.HIGH,
        preview=False,
        fixable="no",
        torch=None,
        options=(),
        roots=(),
        module="ptlint.rules.lint.ptl000_internal_error",
    ),
    Entry(
        code="PTL001",
        name="unused-suppression",
        message="this comment suppresses nothing",
        impact=Impact.LOW,
        preview=False,
        fixable="safe",
        torch=None,
        options=(),
        roots=(),
        module="ptlint.rules.lint.ptl001_unused_suppression",
    ),
    Entry(
        code="PTL002",
        name="file-not-parsed",
        message="this file cannot be read as Python",
        impact=Impact.HIGH,
        preview=False,
        fixable="no",
        torch=None,
        options=(),
        roots=(),
        module="ptlint.rules.lint.ptl002_file_not_parsed",
    ),
    Entry(
        code="PTL003",
        name="malformed-suppression",
        message="this suppression comment is malformed",
        impact=Impact.LOW,
        preview=False,
        fixable="no",
        torch=None,
        options=(),
        roots=(),
        module="ptlint.rules.lint.ptl003_malformed_suppression",
    ),
)

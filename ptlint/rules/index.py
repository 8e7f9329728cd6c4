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
    Entry(
        code="PTL101",
        name="dataloader-no-workers",
        message="the training process loads every batch itself, between two steps: this `DataLoader` has no workers",
        impact=Impact.HIGH,
        preview=False,
        fixable="unsafe",
        torch=None,
        options=(),
        roots=("DataLoader",),
        module="ptlint.rules.data.ptl101_dataloader_no_workers",
    ),
    Entry(
        code="PTL102",
        name="dataloader-no-pinned-memory",
        message="batches of this `DataLoader` are copied to the GPU from pageable memory, which the host waits for",
        impact=Impact.MEDIUM,
        preview=False,
        fixable="safe",
        torch=None,
        options=(),
        roots=("DataLoader",),
        module="ptlint.rules.data.ptl102_dataloader_no_pinned_memory",
    ),
    Entry(
        code="PTL103",
        name="dataloader-workers-not-persistent",
        message="the workers of this `DataLoader` are stopped and started anew in every epoch",
        impact=Impact.MEDIUM,
        preview=False,
        fixable="unsafe",
        torch=None,
        options=(),
        roots=("DataLoader",),
        module="ptlint.rules.data.ptl103_dataloader_workers_not_persistent",
    ),
    Entry(
        code="PTL301",
        name="evaluation-tracks-gradients",
        message="autograd records this evaluation, and no gradient is ever asked for",
        impact=Impact.HIGH,
        preview=False,
        fixable="both",
        torch=None,
        options=(),
        roots=("Call",),
        module="ptlint.rules.autograd.ptl301_evaluation_tracks_gradients",
    ),
)

"""Applying fixes: which of them, in rounds over a whole program, and writing the result.

`fix_to_fixpoint` finds the new texts, `write` puts one on disk, `unified_diff` shows one. `complete` and `demote` make
a finding's fix what a report may show.
"""

from __future__ import annotations

from ptlint.fixes.diff import unified_diff
from ptlint.fixes.rounds import Fixed, Linted, Round, complete, fix_round, fix_to_fixpoint
from ptlint.fixes.safety import demote
from ptlint.fixes.splice import apply_edits
from ptlint.fixes.write import WriteError, write

__all__ = [
    "Fixed",
    "Linted",
    "Round",
    "WriteError",
    "apply_edits",
    "complete",
    "demote",
    "fix_round",
    "fix_to_fixpoint",
    "unified_diff",
    "write",
]

"""PTL201 sync-in-hot-loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class SyncInHotLoop(Rule):
    """
    ## What it finds
    x

    ## Why it is slow
    x

    ## When it stays silent
    x

    ## Example
    ```python
    total = 0.0
    ```

    Use instead:
    ```python
    total = 0.0
    ```

    ## Fix safety
    x

    ## How it is measured
    x

    ## References
    x
    """

    code = "PTL201"
    name = "sync-in-hot-loop"
    message = "the host waits for the device in every iteration to read a value"
    impact = Impact.HIGH
    fixable = "both"
    roots = ("For", "While", "ListComp", "GeneratorExp", "forward")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for group in program.reads.groups:
            impact = Impact.MEDIUM if group.results else Impact.HIGH
            yield self.finding(group.first.place, impact=impact, preview=all(r.how == "sink" for r in group.reads))

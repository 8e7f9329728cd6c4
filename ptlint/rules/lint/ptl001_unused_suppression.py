"""PTL001 unused-suppression."""

from __future__ import annotations

from ptlint.findings import Impact
from ptlint.rule import AboutLint


class UnusedSuppression(AboutLint):
    """
    ## What it finds
    A suppression comment that silences nothing: `# ptlint: ignore[PTL201]`, `# ptlint: ignore-file[PTL201]` or
    `# noqa: PTL201` where the rule ran and found nothing that the comment covers.

    ```python
    total += loss.detach()  # ptlint: ignore[PTL201]
    ```

    Only codes of ptlint's own are judged, and only those of rules that ran: after `--select PTL1`, a comment about
    PTL201 is left alone. A bare `# noqa` speaks to every linter and is never judged.

    ## Why it matters
    The comment tells its reader of a fault that is not there, and will hide the next one that is.

    ## Fix safety
    Safe: the comment goes, or the one code in it; other tools' codes and the text behind them stay.
    """

    code = "PTL001"
    name = "unused-suppression"
    message = "this comment suppresses nothing"
    impact = Impact.LOW
    fixable = "safe"

"""PTL003 malformed-suppression."""

from __future__ import annotations

from ptlint.findings import Impact
from ptlint.rule import AboutLint


class MalformedSuppression(AboutLint):
    """
    ## What it finds
    A comment that means to suppress a rule of ptlint's and does not: `# noqa PTL201` without its colon (which is a
    bare `# noqa` to every tool), `# ptlint: ignore[]`, or a code or name of ours that no rule has.

    ```python
    history.append(loss.item())  # ptlint: ignore[PTL999]
    ```

    Codes without our prefix belong to other tools and are never judged.

    ## Why it matters
    The comment does something else than it says: nothing, or too much.

    ## Fix safety
    There is no fix: which rule was meant, only a person knows.
    """

    code = "PTL003"
    name = "malformed-suppression"
    message = "this suppression comment is malformed"
    impact = Impact.LOW

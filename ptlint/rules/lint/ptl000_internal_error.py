"""PTL000 internal-error."""

from __future__ import annotations

from ptlint.findings import Impact
from ptlint.rule import AboutLint


class InternalError(AboutLint):
    """
    ## What it finds
    A rule or a fix of ptlint's own that failed on this file. The message names the rule and says how to report it.

    ## Why it matters
    This rule could not judge this file, so silence means nothing here. All other rules and files were linted as
    usual. The run ends with exit status 2, whatever else was found, so that a broken check is never taken for a
    clean one. A fix whose result would not have been valid Python is not written, and is reported here too.

    `ptlint check --ignore CODE` leaves out the rule that failed, until it is mended.

    ## Fix safety
    There is no fix: the fault is ptlint's.
    """

    code = "PTL000"
    name = "internal-error"
    message = "a rule of ptlint's own failed on this file"
    impact = Impact.HIGH

"""One line a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptlint.report.closing import closing
from ptlint.report.style import printable

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.findings import Finding
    from ptlint.report.style import Style


def render(report: Report, style: Style) -> str:
    lines = [line(finding, style) for finding in report.findings]
    return "\n".join([*lines, *closing(report, style)]) + "\n"


def line(finding: Finding, style: Style) -> str:
    """`file:row:column: CODE [*] message`."""
    return head(finding, style) + style.ticks(printable(finding.message))


def head(finding: Finding, style: Style) -> str:
    """The line up to the message."""
    place = f"{finding.location.row}:{finding.location.column}"
    code = style.impact(finding.impact, finding.code)
    return f"{style.paint(printable(finding.filename), 'bold')}:{place}: {code} {style.mark(finding)}"

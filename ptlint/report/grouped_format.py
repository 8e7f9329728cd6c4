"""Findings under their file's name."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ptlint.report.closing import closing
from ptlint.report.style import printable

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.report.style import Style


def render(report: Report, style: Style) -> str:
    parts = []
    for filename, group in groupby(report.findings, key=lambda finding: finding.filename):
        findings = list(group)
        places = [f"{finding.location.row}:{finding.location.column}" for finding in findings]
        width = max(map(len, places))
        parts.append(f"{style.paint(printable(filename), 'bold')}:")
        for finding, place in zip(findings, places, strict=True):
            code = style.impact(finding.impact, finding.code)
            parts.append(f"  {place:>{width}} {code} {style.mark(finding)}{style.ticks(printable(finding.message))}")
        parts.append("")
    return "\n".join([*parts, *closing(report, style)]) + "\n"

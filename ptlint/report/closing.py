"""The last lines of the reports that people read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ptlint.findings import Impact, Safety

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.report.style import Style


def closing(report: Report, style: Style) -> list[str]:
    """How many findings there are of each impact, and what the fixes would do."""
    lines = []
    if report.fixed:
        fixed = counted(sum(report.fixed.values()), "finding")
        lines.append(style.paint(f"Fixed {fixed} in {counted(len(report.fixed), 'file')}.", "green"))
    if not report.findings:
        what = "Nothing more to find" if report.fixed else "Nothing found"
        return [*lines, style.paint(f"{what} in {counted(report.files, 'file')}.", "green")]
    counts = Counter(finding.impact for finding in report.findings)
    parts = [style.impact(impact, f"{counts[impact]} {impact.label}") for impact in sorted(Impact, reverse=True)]
    shown = [part for part, impact in zip(parts, sorted(Impact, reverse=True), strict=True) if counts[impact]]
    found = counted(len(report.findings), "finding")
    in_files = f"in {counted(len({finding.filename for finding in report.findings}), 'file')}"
    lines.append(f"{found} {in_files}: {', '.join(shown)}.")
    safe = sum(finding.fix is not None and finding.fix.safety is Safety.SAFE for finding in report.findings)
    unsafe = sum(finding.fix is not None and finding.fix.safety is Safety.UNSAFE for finding in report.findings)
    if safe:
        more = f", `--fix --unsafe-fixes` {unsafe} more" if unsafe else ""
        lines.append(style.ticks(f"`--fix` makes {counted(safe, 'change')}{more}."))
    elif unsafe:
        lines.append(style.ticks(f"`--fix --unsafe-fixes` makes {counted(unsafe, 'change')}."))
    return lines


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

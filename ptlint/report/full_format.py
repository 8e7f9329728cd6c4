"""The report for people: what is wrong, where, what to write instead, and how that is known."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from ptlint.findings import Finding, Safety
from ptlint.report.closing import closing
from ptlint.report.concise_format import head
from ptlint.report.excerpt import excerpt
from ptlint.report.style import columns, printable

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.report.style import Style

FOLD_FROM = 20
SHOWN_OF_FOLDED = 5


def render(report: Report, style: Style) -> str:
    lines: list[str] = []
    ranked = sorted(report.findings, key=lambda finding: -finding.impact)
    folded = _folded(ranked)
    for impact, group in groupby(ranked, key=lambda finding: finding.impact):
        lines += [style.impact(impact, f"{impact.label.capitalize()} impact"), ""]
        for finding in group:
            hidden = folded.get(finding, 0)
            if hidden >= 0:
                lines += [*_finding(finding, report, style), ""]
            if hidden > 0:
                lines += [_more(finding, hidden, style), ""]
    return "\n".join([*lines, *closing(report, style)]) + "\n"


def _folded(ranked: list[Finding]) -> dict[Finding, int]:
    """Of the rules with many findings: -1 for a finding that is not shown, the number of those for the last shown."""
    by_code = defaultdict(list)
    for finding in ranked:
        by_code[finding.code].append(finding)
    folded = {}
    for findings in by_code.values():
        if len(findings) >= FOLD_FROM:
            folded[findings[SHOWN_OF_FOLDED - 1]] = len(findings) - SHOWN_OF_FOLDED
            folded.update(dict.fromkeys(findings[SHOWN_OF_FOLDED:], -1))
    return folded


def _more(finding: Finding, hidden: int, style: Style) -> str:
    return style.paint(f"… and {hidden} more {finding.code}; `--output-format concise` lists them all", "dim")


def _finding(finding: Finding, report: Report, style: Style) -> list[str]:
    taken = columns(head(finding, replace(style, colour=False)))
    first, *others = [style.ticks(line) for line in style.wrap(printable(finding.message), "    ", taken)]
    lines = [head(finding, style) + first, *others]
    source = report.sources.get(finding.filename)
    if source is not None:
        lines += excerpt(finding, source, style)
    for label, text in _remarks(finding, style):
        indent = len(label) + 4
        first, *others = [style.ticks(line) for line in style.wrap(printable(text), " " * indent, indent)]
        lines += [f"  {style.paint(label + ':', 'dim')} {first}", *others]
    return lines


def _remarks(finding: Finding, style: Style) -> list[tuple[str, str]]:
    remarks = []
    if finding.advice:
        remarks.append(("write", finding.advice))
    if finding.fix is not None:
        unsafe = finding.fix.safety is Safety.UNSAFE
        flags = "unsafe: `--fix --unsafe-fixes`" if unsafe else "safe: `--fix`"
        remarks.append(("fix", f"{finding.fix.message} ({flags})"))
    elif finding.withheld:
        remarks.append(("no fix", finding.withheld))
    reasons = finding.because if style.explain else finding.because[:1]
    remarks += [("because", reason) for reason in reasons]
    if style.explain:
        for related in finding.related:
            place = f"{related.filename}:{related.location.row}:{related.location.column}"
            remarks.append(("see", f"{place}: {related.message}"))
    return remarks

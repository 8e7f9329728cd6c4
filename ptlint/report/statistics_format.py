"""How often each rule fired."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from ptlint import registry
from ptlint.report.closing import closing

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.report.style import Style


def render(report: Report, style: Style, *, as_json: bool) -> str:
    counts = Counter(finding.code for finding in report.findings)
    fixable = Counter(finding.code for finding in report.findings if style.applicable(finding))
    ranked = sorted(counts, key=lambda code: (-counts[code], code))
    if as_json:
        rows = [
            {
                "code": code,
                "name": registry.BY_CODE[code].name,
                "count": counts[code],
                "fixable": fixable[code],
                "impact": registry.BY_CODE[code].impact.label,
            }
            for code in ranked
        ]
        return json.dumps(rows, indent=2) + "\n"
    width = max((len(str(count)) for count in counts.values()), default=1)
    lines = []
    for code in ranked:
        entry = registry.BY_CODE[code]
        mark = style.paint("[*]", "cyan") if fixable[code] else "[ ]"
        lines.append(f"{counts[code]:>{width}}  {style.impact(entry.impact, code)}  {mark} {entry.name}")
    return "\n".join([*lines, *([""] if lines else []), *closing(report, style)]) + "\n"

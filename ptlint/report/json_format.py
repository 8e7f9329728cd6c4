"""One JSON array, with ruff's names for what ruff has too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ptlint.report.urls import rule_url

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.findings import Finding, Fix, Position
    from ptlint.report.style import Style
    from ptlint.source.text import SourceFile


def render(report: Report, style: Style) -> str:
    return json.dumps(rows(report), indent=2, ensure_ascii=False) + "\n"


def rows(report: Report) -> list[dict[str, Any]]:
    """The findings as JSON values."""
    return [_row(finding, report) for finding in report.findings]


def position(place: Position) -> dict[str, int]:
    return {"row": place.row, "column": place.column}


def _row(finding: Finding, report: Report) -> dict[str, Any]:
    source = report.sources.get(finding.filename)
    return {
        "cell": None,
        "code": finding.code,
        "end_location": position(finding.end_location),
        "filename": finding.filename,
        "fix": None if finding.fix is None or source is None else _fix(finding.fix, source),
        "location": position(finding.location),
        "message": finding.message,
        "noqa_row": report.noqa_row(finding),
        "url": rule_url(finding.code),
        "name": finding.name,
        "impact": finding.impact.label,
        "preview": finding.preview,
        "advice": finding.advice or None,
        "because": list(finding.because),
        "fix_withheld": finding.withheld or None,
        "related": [
            {"filename": related.filename, "location": position(related.location), "message": related.message}
            for related in finding.related
        ],
        "measured": None,
    }


def _fix(fix: Fix, source: SourceFile) -> dict[str, Any]:
    return {
        "applicability": fix.safety.value,
        "edits": [
            {
                "content": edit.text,
                "end_location": position(source.position(edit.end)),
                "location": position(source.position(edit.start)),
            }
            for edit in fix.edits
        ],
        "message": fix.message,
    }

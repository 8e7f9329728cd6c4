"""Workflow commands that GitHub shows as annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptlint.findings import Finding, Impact

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.report.style import Style

_LEVELS = {Impact.HIGH: "error", Impact.MEDIUM: "warning", Impact.LOW: "notice"}


def render(report: Report, style: Style) -> str:
    return "".join(_command(finding) + "\n" for finding in report.findings)


def _command(finding: Finding) -> str:
    place = f"{finding.filename}:{finding.location.row}:{finding.location.column}"
    properties = {
        "title": f"ptlint {finding.code} ({finding.name})",
        "file": finding.filename.replace("\\", "/"),
        "line": finding.location.row,
        "col": finding.location.column,
        "endLine": finding.end_location.row,
        "endColumn": finding.end_location.column,
    }
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    advice = f" Write: {finding.advice}" if finding.advice else ""
    return f"::{_LEVELS[finding.impact]} {given}::{_data(f'{place}: {finding.code} {finding.message}{advice}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

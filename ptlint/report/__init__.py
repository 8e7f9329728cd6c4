"""Finished findings as text, one file a format: small functions that nothing below calls and that print nothing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.report.style import Style


def render(output_format: str, report: Report, style: Style) -> str:
    """The report in one of `config.OUTPUT_FORMATS`; ends in a line end unless it is empty."""
    module = importlib.import_module(f"ptlint.report.{output_format.replace('-', '_')}_format")
    text: str = module.render(report, style)
    return text


def statistics(output_format: str, report: Report, style: Style) -> str:
    """How often each rule fired, instead of the findings."""
    from ptlint.report import statistics_format

    return statistics_format.render(report, style, as_json=output_format.startswith("json"))

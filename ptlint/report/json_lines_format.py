"""One JSON object a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ptlint.report.json_format import rows

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.report.style import Style


def render(report: Report, style: Style) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(report))

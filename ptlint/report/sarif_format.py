"""SARIF 2.1.0 for code scanning: rules with help, relative URIs, fixes, fingerprints that survive moved lines."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ptlint import __version__, registry
from ptlint.findings import Finding, Fix, Impact, Position
from ptlint.report.urls import rule_url

if TYPE_CHECKING:
    from ptlint.engine import Report
    from ptlint.report.style import Style
    from ptlint.source.text import SourceFile

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Impact.HIGH: "error", Impact.MEDIUM: "warning", Impact.LOW: "note"}


def render(report: Report, style: Style) -> str:
    codes = sorted({finding.code for finding in report.findings})
    run = {
        "tool": {"driver": {"name": "ptlint", "version": __version__, "rules": [_rule(code) for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "the folder that ptlint was run in"}}},
        "invocations": [{"executionSuccessful": registry.INTERNAL_ERROR not in codes}],
        "results": _results(report, codes),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str) -> dict[str, Any]:
    entry = registry.BY_CODE[code]
    doc = registry.documentation(entry)
    rule = {
        "id": code,
        "name": entry.name,
        "shortDescription": {"text": entry.message},
        "help": {"text": doc, "markdown": doc},
        "defaultConfiguration": {"level": _LEVELS[entry.impact]},
        "properties": {"tags": ["performance", "pytorch"], "impact": entry.impact.label, "preview": entry.preview},
    }
    url = rule_url(code)
    return {**rule, "helpUri": url} if url else rule


def _results(report: Report, codes: list[str]) -> list[dict[str, Any]]:
    seen: Counter[str] = Counter()
    results = []
    for finding in report.findings:
        source = report.sources.get(finding.filename)
        line = source.line(finding.location.row).strip() if source else ""
        what = "\0".join((finding.code, finding.filename.replace("\\", "/"), " ".join(line.split())))
        seen[what] += 1
        results.append(_result(finding, source, codes, f"{what}\0{seen[what]}"))
    return results


def _result(finding: Finding, source: SourceFile | None, codes: list[str], identity: str) -> dict[str, Any]:
    advice = f" Write: {finding.advice}" if finding.advice else ""
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.impact],
        "message": {"text": finding.message + advice},
        "locations": [_location(finding.filename, finding.location, finding.end_location)],
        "partialFingerprints": {"ptlint/v1": hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()},
        "properties": {"impact": finding.impact.label, "preview": finding.preview},
    }
    if finding.related:
        result["relatedLocations"] = [
            {
                **_location(related.filename, related.location, related.location),
                "id": number,
                "message": {"text": related.message},
            }
            for number, related in enumerate(finding.related)
        ]
    if finding.fix is not None and source is not None:
        result["fixes"] = [_fix(finding.filename, finding.fix, source)]
    return result


def _location(filename: str, start: Position, end: Position) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(filename), "region": _region(start, end)}}


def _artifact(filename: str) -> dict[str, str]:
    if Path(filename).is_absolute():
        return {"uri": Path(filename).as_uri()}
    return {"uri": quote(filename.replace("\\", "/"), errors="surrogateescape"), "uriBaseId": "%SRCROOT%"}


def _region(start: Position, end: Position) -> dict[str, int]:
    return {"startLine": start.row, "startColumn": start.column, "endLine": end.row, "endColumn": end.column}


def _fix(filename: str, fix: Fix, source: SourceFile) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": _region(source.position(edit.start), source.position(edit.end)),
            "insertedContent": {"text": edit.text},
        }
        for edit in fix.edits
    ]
    return {
        "description": {"text": f"{fix.message} ({fix.safety.value})"},
        "artifactChanges": [{"artifactLocation": _artifact(filename), "replacements": replacements}],
    }

"""Every format over the same findings."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ptlint import report as reports
from ptlint.config import OUTPUT_FORMATS
from ptlint.engine import Report
from ptlint.findings import Edit, Finding, Fix, Impact, Position, Related, Safety
from ptlint.report.style import Style, columns, printable
from ptlint.source.text import source_from_text

TEXT = (
    "import torch\n"
    "loader = DataLoader(train_set, batch_size=64, shuffle=True)\n"
    "for images, labels in loader:\n"
    "\ttotal += loss.item()\n"
)


def finding_at(row: int, first: int, last: int, **values: Any) -> Finding:
    source = source_from_text(Path("train.py"), TEXT)
    start, end = source.offset(row, first), source.offset(row, last)
    given = {
        "code": "PTL001",
        "name": "unused-suppression",
        "message": "a message about `code`",
        "filename": "train.py",
        "location": Position(row, first),
        "end_location": Position(row, last),
        "start_offset": start,
        "end_offset": end,
        **values,
    }
    return Finding(**given)


LOADER = finding_at(
    2,
    10,
    60,
    code="PTL000",
    name="internal-error",
    message="`DataLoader` loads every batch in the training process",
    impact=Impact.HIGH,
    advice="`num_workers=min(8, os.cpu_count() or 1)`",
    fix=Fix("Add `num_workers`", Safety.UNSAFE, (Edit(71, 71, ", num_workers=8"), Edit(0, 0, "import os\n"))),
    because=("this loop is a training loop: it steps `optimizer`", "the second reason"),
    related=(Related("model.py", Position(7, 3), "moved here"),),
)
ITEM = finding_at(4, 11, 22, message="`.item()` waits for the device in every step", withheld="`total` is printed")
REPORT = Report((LOADER, ITEM), files=3, sources={"train.py": source_from_text(Path("train.py"), TEXT)})
TERMINAL = Style(width=80)
NAMES = [
    "advice",
    "because",
    "cell",
    "code",
    "end_location",
    "filename",
    "fix",
    "fix_withheld",
    "impact",
    "location",
    "measured",
    "message",
    "name",
    "noqa_row",
    "preview",
    "related",
    "url",
]


def test_full() -> None:
    assert reports.render("full", REPORT, TERMINAL) == (
        "High impact\n"
        "\n"
        "train.py:2:10: PTL000 `DataLoader` loads every batch in the training process\n"
        "  2 | loader = DataLoader(train_set, batch_size=64, shuffle=True)\n"
        "    |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  write: `num_workers=min(8, os.cpu_count() or 1)`\n"
        "  fix: Add `num_workers` (unsafe: `--fix --unsafe-fixes`)\n"
        "  because: this loop is a training loop: it steps `optimizer`\n"
        "\n"
        "Medium impact\n"
        "\n"
        "train.py:4:11: PTL001 `.item()` waits for the device in every step\n"
        "  4 |     total += loss.item()\n"
        "    |              ^^^^^^^^^^^\n"
        "  no fix: `total` is printed\n"
        "\n"
        "2 findings in 1 file: 1 high, 1 medium.\n"
        "`--fix --unsafe-fixes` makes 1 change.\n"
    )


def test_full_explains_the_whole_chain_when_asked() -> None:
    text = reports.render("full", REPORT, replace(TERMINAL, explain=True))
    assert "  because: the second reason\n  see: model.py:7:3: moved here\n" in text


def test_full_folds_many_findings_of_one_rule() -> None:
    findings = tuple(finding_at(row % 4 + 1, 1, 3, message=f"number {row}") for row in range(23))
    text = reports.render("full", replace(REPORT, findings=(*findings, LOADER)), TERMINAL)
    assert text.count("number ") == 5
    assert "… and 18 more PTL001; `--output-format concise` lists them all" in text
    assert "24 findings in 1 file: 1 high, 23 medium." in text


def test_full_cuts_endless_lines_without_a_terminal_too() -> None:
    source = source_from_text(Path("train.py"), "x = [" + "1, " * 9_000 + "]\n")
    text = reports.render(
        "full", replace(REPORT, findings=(finding_at(1, 1, 20_000),), sources={"train.py": source}), Style()
    )
    assert max(map(len, text.splitlines())) < 250


def test_full_fits_the_terminal() -> None:
    long = "x = " + "f(" * 60 + "loss.item()" + ")" * 60 + "\n"
    source = source_from_text(Path("train.py"), long)
    column = long.index("loss") + 1
    finding = replace(ITEM, location=Position(1, column), end_location=Position(1, column + 11), message="word " * 40)
    text = reports.render("full", Report((finding,), files=1, sources={"train.py": source}), TERMINAL)
    assert max(map(columns, text.splitlines())) <= 80
    marked = [line for line in text.splitlines() if "loss.item()" in line or "^" in line]
    assert marked[0].index("loss.item()") == marked[1].index("^^^^^^^^^^^")


def test_carets_stand_below_wide_characters() -> None:
    line = "名 = loss.item()\n"
    finding = replace(ITEM, location=Position(1, 5), end_location=Position(1, 16))
    sources = {"train.py": source_from_text(Path("train.py"), line)}
    text = reports.render("full", Report((finding,), files=1, sources=sources), TERMINAL)
    code, carets = text.splitlines()[3:5]
    assert columns(code[: code.index("loss")]) == carets.index("^")


@pytest.mark.parametrize("output_format", ["full", "concise", "grouped"])
def test_a_terminal_is_never_sent_control_characters(output_format: str) -> None:
    evil = "a\x1b[2Jb\u202ec"
    finding = replace(ITEM, filename=f"{evil}.py", message=evil, location=Position(1, 1), end_location=Position(1, 3))
    sources = {f"{evil}.py": source_from_text(Path("x.py"), f"'{evil}'\n")}
    text = reports.render(output_format, Report((finding,), files=1, sources=sources), TERMINAL)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_colour_changes_nothing_but_colour() -> None:
    for output_format in OUTPUT_FORMATS:
        plain = reports.render(output_format, REPORT, TERMINAL)
        painted = reports.render(output_format, REPORT, replace(TERMINAL, colour=True))
        assert re.sub(r"\x1b\[[\d;]*m", "", painted) == plain


def test_concise_and_grouped() -> None:
    style = Style(unsafe_fixes=True)
    concise = reports.render("concise", REPORT, style)
    assert concise.splitlines()[0] == (
        "train.py:2:10: PTL000 [*] `DataLoader` loads every batch in the training process"
    )
    assert reports.render("grouped", REPORT, style).splitlines()[:3] == [
        "train.py:",
        "  2:10 PTL000 [*] `DataLoader` loads every batch in the training process",
        "  4:11 PTL001 `.item()` waits for the device in every step",
    ]


def test_nothing_found() -> None:
    assert reports.render("full", Report(files=3), TERMINAL) == "Nothing found in 3 files.\n"
    assert reports.render("json", Report(files=3), TERMINAL) == "[]\n"
    assert reports.render("json-lines", Report(files=3), TERMINAL) == ""
    assert reports.render("github", Report(files=3), TERMINAL) == ""


def test_json_has_the_documented_names() -> None:
    rows = json.loads(reports.render("json", REPORT, Style()))
    assert sorted(rows[0]) == NAMES
    assert rows[0]["fix"] == {
        "applicability": "unsafe",
        "message": "Add `num_workers`",
        "edits": [
            {
                "content": ", num_workers=8",
                "location": {"row": 2, "column": 59},
                "end_location": {"row": 2, "column": 59},
            },
            {"content": "import os\n", "location": {"row": 1, "column": 1}, "end_location": {"row": 1, "column": 1}},
        ],
    }
    assert rows[1]["fix"] is None
    assert rows[1]["fix_withheld"] == "`total` is printed"
    assert rows[0]["related"] == [
        {"filename": "model.py", "location": {"row": 7, "column": 3}, "message": "moved here"}
    ]
    lines = reports.render("json-lines", REPORT, Style()).splitlines()
    assert [json.loads(line) for line in lines] == rows


def test_github_escapes() -> None:
    finding = replace(ITEM, filename="a,b:c.py", message="100 %\nnext")
    line = reports.render("github", Report((finding,), files=1), Style())
    assert line == (
        "::warning title=ptlint PTL001 (unused-suppression),file=a%2Cb%3Ac.py,line=4,col=11,endLine=4,endColumn=22"
        "::a,b:c.py:4:11: PTL001 100 %25%0Anext\n"
    )


def test_statistics() -> None:
    twice = replace(REPORT, findings=(LOADER, ITEM, replace(ITEM, message="other")))
    text = reports.statistics("full", twice, Style(unsafe_fixes=True))
    assert text.splitlines()[:2] == ["2  PTL001  [ ] unused-suppression", "1  PTL000  [*] internal-error"]
    rows = json.loads(reports.statistics("json", twice, Style()))
    assert [(row["code"], row["count"]) for row in rows] == [("PTL001", 2), ("PTL000", 1)]


def test_printable_keeps_what_is_harmless() -> None:
    assert printable("name = 'ä名'\t") == "name = 'ä名'\t"


def sarif(report: Report) -> dict[str, Any]:
    document = json.loads(reports.render("sarif", report, Style()))
    schema = os.environ.get("SARIF_SCHEMA")
    if schema:  # the official schema is too large to keep here
        jsonschema.Draft4Validator(json.loads(Path(schema).read_text())).validate(document)
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    return dict(run)


def test_sarif() -> None:
    run = sarif(REPORT)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["PTL000", "PTL001"]
    assert all("What it finds" in rule["help"]["markdown"] for rule in rules)
    first, second = run["results"]
    assert [rules[result["ruleIndex"]]["id"] for result in (first, second)] == ["PTL000", "PTL001"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 2, "startColumn": 10, "endLine": 2, "endColumn": 60}
    assert first["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 7
    replacement = first["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert replacement["deletedRegion"] == {"startLine": 2, "startColumn": 59, "endLine": 2, "endColumn": 59}
    assert replacement["insertedContent"] == {"text": ", num_workers=8"}
    assert (first["level"], second["level"]) == ("error", "warning")
    assert run["invocations"] == [{"executionSuccessful": False}]
    assert sarif(replace(REPORT, findings=(ITEM,)))["invocations"] == [{"executionSuccessful": True}]
    assert sarif(Report(files=1))["results"] == []


def test_sarif_paths_are_uris() -> None:
    names = ("a b/c#d.py", "/elsewhere/ä.py")
    results = sarif(Report(tuple(replace(ITEM, filename=name) for name in names), files=2))["results"]
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in results]
    assert places == [
        {"uri": "a%20b/c%23d.py", "uriBaseId": "%SRCROOT%"},
        {"uri": "file:///elsewhere/%C3%A4.py"},
    ]


def test_sarif_fingerprints_survive_moved_lines_and_tell_twins_apart() -> None:
    def fingerprints(report: Report) -> list[str]:
        return [result["partialFingerprints"]["ptlint/v1"] for result in sarif(report)["results"]]

    twins = replace(REPORT, findings=(ITEM, replace(ITEM, location=Position(4, 12))))
    assert len(set(fingerprints(twins))) == 2
    moved = source_from_text(Path("train.py"), "\n\n" + TEXT.replace("total += loss", "total  +=  loss"))
    down = replace(ITEM, location=Position(6, 11), end_location=Position(6, 22))
    assert fingerprints(Report((down,), files=1, sources={"train.py": moved})) == fingerprints(twins)[:1]

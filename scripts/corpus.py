"""Run ptlint over folders of other people's code: what fails, what is lost, what is found, and what it costs.

    python scripts/corpus.py FOLDER…                 a row for each folder and each rule; fails on a crash or lost file
    python scripts/corpus.py --sample 40 FOLDER…     that many findings drawn at random, with their source, to be judged

Each folder is linted in a process of its own, as `ptlint FOLDER` does. A file is lost if it was found but neither
read nor given a PTL002.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import click

from ptlint import registry
from ptlint.config import Config
from ptlint.findings import Finding
from ptlint.paths import shown
from ptlint.plan import Group, plan
from ptlint.runner import Request, run

NOT_JUDGED = (registry.INTERNAL_ERROR, registry.FILE_NOT_PARSED)


@dataclass(frozen=True)
class Found:
    """A finding as far as it is shown here."""

    code: str
    file: str
    row: int
    end_row: int
    column: int
    impact: str
    message: str
    advice: str
    because: tuple[str, ...]
    fix: str
    preview: bool


@dataclass
class Result:
    """What came of one folder."""

    folder: str
    files: int = 0
    lines: int = 0
    left_out: int = 0
    """Python files that lie there and that excludes or `.gitignore` leave out."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    megabytes: float = 0.0
    failures: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    findings: list[Found] = field(default_factory=list)

    def count(self, code: str | None = None) -> int:
        return sum(found.code == code or code is None for found in self.findings)


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--select", default="", help="Codes or prefixes, as of ptlint; none stands for the default rules.")
@click.option("--preview", is_flag=True, help="Preview findings too.")
@click.option("--sample", type=click.IntRange(1), help="Show that many findings drawn at random.")
@click.option("--seed", default=0, show_default=True, help="What is drawn.")
@click.option("--context", default=6, show_default=True, help="Rows around each drawn finding.")
@click.option("--trees", is_flag=True, help="Read every statement by libcst too: what it refuses counts as lost.")
@click.option("--time-limit", default=3600, show_default=True, help="Seconds for a folder.")
@click.option("--worker", is_flag=True, hidden=True)
def main(
    folders: Sequence[str],
    select: str,
    preview: bool,
    sample: int | None,
    seed: int,
    context: int,
    trees: bool,
    time_limit: int,
    worker: bool,
) -> None:
    """Run ptlint over FOLDERS and say what came of it."""
    if worker:
        print(json.dumps(asdict(_lint(Path(folders[0]), select, preview, trees))))
        return
    options = ["--select", select, *["--preview"] * preview, *["--trees"] * trees]
    results = []
    for folder in folders:
        results.append(_in_process(folder, options, time_limit))
        print(_row(results[-1]), flush=True)
    if len(results) > 1:
        print(_row(_sum(results)))
    _print_rules(results)
    for result in results:
        for line in [*result.failures, *(f"lost: {name}" for name in result.lost)]:
            print(f"{result.folder}: {line}")
    if sample:
        _print_sample([found for result in results for found in result.findings], sample, seed, context)
    sys.exit(any(result.failures or result.lost for result in results))


def _in_process(folder: str, options: Sequence[str], limit: int) -> Result:
    command = [sys.executable, __file__, folder, "--worker", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return Result(folder, seconds=limit, failures=[f"not done after {limit} s"])
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return Result(folder, failures=[f"exit status {done.returncode}: {last[0]}"])
    values = json.loads(done.stdout)
    values["findings"] = [Found(**{**each, "because": tuple(each["because"])}) for each in values["findings"]]
    return Result(**values)


def _lint(folder: Path, select: str, preview: bool, trees: bool) -> Result:
    def override(config: Config) -> Config:
        return replace(config, select=tuple(filter(None, select.split(","))), preview=preview)

    request = Request((folder,), override=override)
    result = Result(str(folder))
    before, cpu_before = time.perf_counter(), time.process_time()
    outcome = run(request)
    result.seconds, result.cpu_seconds = time.perf_counter() - before, time.process_time() - cpu_before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result.megabytes = peak / 1024 / (1024 if sys.platform == "darwin" else 1)
    findings = outcome.report.findings
    result.failures = [each.message for each in findings if each.code == registry.INTERNAL_ERROR] + list(outcome.errors)
    unread = {each.filename for each in findings if each.code == registry.FILE_NOT_PARSED}
    for group in plan(request).groups:
        result.files += len(group.files)
        result.lost += _lost(group, unread, trees)
        for path in group.files:
            source = group.project.file(path).source
            result.lines += 0 if source is None else len(source.line_starts)
    if outcome.report.files != result.files:
        result.lost.append(f"{result.files - outcome.report.files} files that are planned and not linted")
    result.left_out = sum(1 for _ in _python_files(folder)) - result.files
    result.findings = [_found(each) for each in findings if each.code not in NOT_JUDGED]
    return result


def _lost(group: Group, unread: Iterable[str], trees: bool) -> list[str]:
    """The files of a group that were not read and say nothing about it."""
    from ptlint.syntax.tree import SyntaxUnreadable, Tree

    lost = []
    for path in group.files:
        file = group.project.file(path)
        name = shown(path)
        if name in unread:
            continue
        if file.error is not None or file.source is None:
            lost.append(name)
        elif trees:
            for statement in file.outline.statements:
                try:
                    Tree.parse(file.source, statement)
                except SyntaxUnreadable as problem:
                    lost.append(f"{name}:{statement.first_row}: {problem}")
    return lost


def _python_files(folder: Path) -> Iterable[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        yield from (Path(place, name) for name in names if name.endswith(".py"))


def _found(finding: Finding) -> Found:
    return Found(
        finding.code,
        str(Path(finding.filename).absolute()),
        finding.location.row,
        finding.end_location.row,
        finding.location.column,
        finding.impact.label,
        finding.message,
        finding.advice,
        finding.because,
        finding.fix.safety.value if finding.fix else f"no fix: {finding.withheld or 'never'}",
        finding.preview,
    )


def _sum(results: Sequence[Result]) -> Result:
    total = Result("all", megabytes=max(result.megabytes for result in results))
    for result in results:
        total.files += result.files
        total.lines += result.lines
        total.left_out += result.left_out
        total.seconds += result.seconds
        total.cpu_seconds += result.cpu_seconds
        total.failures += result.failures
        total.lost += result.lost
        total.findings += result.findings
    return total


def _row(result: Result) -> str:
    speed = result.lines / result.cpu_seconds if result.cpu_seconds else 0
    parts = [
        f"{result.folder}: {result.files} files ({result.left_out} left out)",
        f"{result.lines} lines",
        f"{result.seconds:.1f} s ({result.cpu_seconds:.1f} s CPU, {speed:.0f} lines/s)",
        f"{result.megabytes:.0f} MB",
        f"{len(result.findings)} findings",
        f"{len(result.failures)} failures",
        f"{len(result.lost)} files lost",
    ]
    return ", ".join(parts)


def _print_rules(results: Sequence[Result]) -> None:
    lines = sum(result.lines for result in results) or 1
    counts = Counter(found.code for result in results for found in result.findings)
    for code, number in sorted(counts.items()):
        folders = sum(result.count(code) > 0 for result in results)
        print(f"  {code}  {number:5}  {1000 * number / lines:7.3f} per 1000 lines  in {folders} folders")


def _print_sample(findings: Sequence[Found], number: int, seed: int, context: int) -> None:
    ordered = sorted(findings, key=lambda found: (found.file, found.row, found.column, found.code))
    drawn = random.Random(seed).sample(ordered, min(number, len(ordered)))
    for index, found in enumerate(drawn, 1):
        preview = ", preview" if found.preview else ""
        place = f"{found.file}:{found.row}:{found.column}"
        print(f"\n--- {index}. {found.code} {place} ({found.impact}{preview}, {found.fix})")
        print(f"    {found.message}")
        for line in [found.advice, *found.because]:
            if line:
                print(f"    | {line}")
        lines = Path(found.file).read_text(encoding="utf-8", errors="replace").splitlines()
        for row in range(max(1, found.row - context), min(len(lines), found.end_row + context) + 1):
            mark = ">" if found.row <= row <= found.end_row else " "
            print(f"{row:6}{mark} {lines[row - 1]}")


if __name__ == "__main__":
    main()

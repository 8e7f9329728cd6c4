"""Many files: which project and config each belongs to, linting or fixing them, and what the exit status is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptlint import engine, registry
from ptlint.config import Config
from ptlint.engine import Report
from ptlint.findings import Finding
from ptlint.outline.project import Project
from ptlint.plan import Group, Plan, Request, plan
from ptlint.source.text import SourceError, SourceFile

__all__ = ["Outcome", "Request", "run"]

Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    report: Report
    config: Config
    """The config of the first path, for what concerns the run as a whole."""
    status: int
    errors: tuple[str, ...] = ()
    diff: str = ""
    stdin_result: bytes = b""
    """The text of stdin after all fixes."""


@dataclass
class _Work:
    """What the groups of a run add up to."""

    tick: Callable[[], None]
    findings: list[Finding] = field(default_factory=list)
    sources: dict[str, SourceFile] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    diffs: list[str] = field(default_factory=list)
    stdin_result: bytes = b""


def run(request: Request, tick: Tick | None = None) -> Outcome:
    """Lint, and fix where asked; raises `ConfigError` before anything is read or written where a config is wrong."""
    todo = plan(request)
    total = sum(len(group.files) for group in todo.groups)
    work = _Work(_counter(tick, 2 * total), list(todo.unread), notes=list(todo.notes), errors=list(todo.errors))
    work.stdin_result = request.stdin or b""
    for group in todo.groups:
        if request.add_ignores:
            _add_ignores(group, work)
        elif group.config.fix or request.diff:
            _fix(group, work, request)
        else:
            found = engine.lint(group.project, group.files, group.config, work.tick, explain=request.explain)
            _take(found, group.project, work)
    return _outcome(todo, work, request, total)


def _counter(tick: Tick | None, total: int) -> Callable[[], None]:
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if tick is not None:
            tick(done, total)

    return count


def _outcome(todo: Plan, work: _Work, request: Request, total: int) -> Outcome:
    work.findings.sort(key=lambda finding: finding.sort_key)
    notes = tuple(dict.fromkeys(work.notes))
    report = Report(tuple(work.findings), notes, total, work.sources, work.fixed)
    diff = "".join(work.diffs)
    failed = any(finding.code == registry.INTERNAL_ERROR for finding in work.findings)
    reported = bool(diff) if request.diff else bool(work.findings)
    status = 2 if failed or work.errors else int(reported)
    return Outcome(report, todo.config, status, tuple(work.errors), diff, work.stdin_result)


def _take(report: Report, project: Project, work: _Work) -> None:
    """Add a group's findings, their fixes made whole."""
    work.findings += (_completed(finding, project) for finding in report.findings)
    shown_files = {finding.filename for finding in report.findings}
    work.sources.update((name, source) for name, source in report.sources.items() if name in shown_files)


def _completed(finding: Finding, project: Project) -> Finding:
    if finding.fix is None:
        return finding
    from ptlint.fixes import complete

    file = project.file(Path(os.path.abspath(finding.filename)))
    return finding if file.source is None else complete(finding, file.source, file.outline)


def _fix(group: Group, work: _Work, request: Request) -> None:
    from ptlint.fixes import WriteError, fix_to_fixpoint, unified_diff, write

    projects = [group.project]

    def lint(overlay: Mapping[Path, str]) -> Report:
        if overlay:
            projects.append(group.project.with_overlay(overlay))
        tick = work.tick if len(projects) == 1 else None
        return engine.lint(projects[-1], group.files, group.config, tick, explain=request.explain)

    fixed = fix_to_fixpoint(lint, unsafe=group.config.unsafe_fixes)
    _take(fixed.report, projects[-1], work)
    work.findings += fixed.failures
    for name, text in fixed.texts.items():
        source = fixed.originals[name]
        if request.diff:
            work.diffs.append(unified_diff(name, source.text, text))
            continue
        try:
            if group.is_stdin:
                work.stdin_result = source.encode(text)
            else:
                write(source, text)
        except (WriteError, SourceError) as problem:
            work.errors.append(f"{name}: the fixes are not written: {problem}")
        else:
            work.fixed[name] = len(fixed.applied[name])


def _add_ignores(group: Group, work: _Work) -> None:
    from ptlint.fixes import WriteError, write
    from ptlint.suppression import with_comments

    report = engine.lint(group.project, group.files, group.config, work.tick)
    failed = [finding for finding in report.findings if finding.code == registry.INTERNAL_ERROR]
    work.errors += (f"{finding.filename}: {finding.message}; {finding.advice}" for finding in failed)
    for name, findings in _by_file(report.findings):
        source = report.sources[name]
        text, added = with_comments(source, findings)
        if not added:
            continue
        try:
            write(source, text)
        except WriteError as problem:
            work.errors.append(f"{name}: the comments are not written: {problem}")
        else:
            work.fixed[name] = added


def _by_file(findings: Sequence[Finding]) -> Iterator[tuple[str, Iterable[Finding]]]:
    for name in dict.fromkeys(finding.filename for finding in findings):
        chosen = [f for f in findings if f.filename == name and not f.code.startswith("PTL0")]
        if chosen:
            yield name, chosen

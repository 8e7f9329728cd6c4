"""Lint files of one project: which programs hold them, which rules can fire, and what is left of what they say.

Nothing here reads a config file, prints or writes.
"""

from __future__ import annotations

import functools
import gc
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ptlint import registry, suppression, torch_version
from ptlint.findings import Finding, Fix, Impact, Position, Safety
from ptlint.paths import matcher, shown
from ptlint.rules import Entry

if TYPE_CHECKING:
    from ptlint.config import Config
    from ptlint.facts.reasons import Reasons
    from ptlint.outline.project import Program, Project, ProjectFile
    from ptlint.outline.statements import OutlineError, Statement
    from ptlint.rule import Root
    from ptlint.source.text import SourceError, SourceFile

KEPT_LINES = 20_000
"""How many lines of trees are kept from one program to the next."""


@dataclass(frozen=True)
class Report:
    """What a run found, ready to be shown: sorted, with fixes that hold all of their edits."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """What the user should know that is no finding; one line each."""
    files: int = 0
    """How many files were linted."""
    sources: Mapping[str, SourceFile] = field(default_factory=dict)
    """The text that the findings of a file speak of, by file name."""
    fixed: Mapping[str, int] = field(default_factory=dict)
    """How many findings were fixed in each file that was changed."""

    def noqa_row(self, finding: Finding) -> int:
        """The row at whose end a comment would suppress the finding."""
        source = self.sources.get(finding.filename)
        return finding.location.row if source is None else suppression.comment_row(source, finding.location.row)


def lint(
    project: Project,
    files: Sequence[Path],
    config: Config,
    tick: Callable[[], None] | None = None,
    *,
    explain: bool = False,
) -> Report:
    """What is wrong in `files`, as their programs show it; `tick` is called when one is read, and when it is judged.

    `explain`: give the whole chain of facts behind each finding, not only its rule's own reasons.
    """
    tick = tick or (lambda: None)
    selection = registry.select(config)
    targets: dict[str, ProjectFile] = {}
    for path in files:
        targets[shown(path)] = project.file(path)
        tick()
    tests = {name for name, file in targets.items() if project.is_test(file.path)}
    rules = [rule for rule in selection.rules(config) if config.preview or not rule.preview]
    judged = {name: file for name, file in targets.items() if name not in tests}
    raw: dict[str, list[Finding]] = {name: [] for name in targets}
    from ptlint.outline.collector import collection_paused

    with collection_paused():
        found_in_programs = list(_merged(_run_rules(project, judged, rules, config, tick, explain=explain)))
    for finding in found_in_programs:
        # Other files of a program were read for these ones' sake and have findings of their own.
        if finding.filename in judged:
            raw[finding.filename].append(finding)
    ignores = [(matcher((glob,), config.root), registry.codes_of(codes)) for glob, codes in config.per_file_ignores]
    # Where a rule failed, nobody can say which comments it would have used.
    failed = any(finding.code == registry.INTERNAL_ERROR for found in raw.values() for finding in found)
    ran = frozenset() if failed else frozenset(rule.code for rule in rules)
    kept: list[Finding] = []
    for name, file in targets.items():
        findings = [
            replace(finding, impact=selection.impacts.get(finding.code, finding.impact))
            for finding in _of_file(file, raw[name], ran if name in judged else frozenset())
        ]
        ignored = frozenset[str]().union(*(codes for matches, codes in ignores if matches(file.path)))
        kept += [f for f in findings if f.code not in ignored and is_wanted(f, config, selection)]
        if name not in judged:
            tick()
    kept.sort(key=lambda finding: finding.sort_key)
    sources = {name: file.source for name, file in targets.items() if file.source is not None}
    return Report(tuple(kept), files=len(targets), sources=sources)


def is_wanted(finding: Finding, config: Config, selection: registry.Selection | None = None) -> bool:
    """Whether a run with this config shows the finding."""
    selection = selection or registry.select(config)
    if finding.code == registry.INTERNAL_ERROR:
        return True
    if finding.code == registry.FILE_NOT_PARSED:
        return finding.code not in selection.ignored
    return (
        finding.code in selection.codes
        and (config.preview or not finding.preview)
        and (config.min_impact is None or finding.impact >= config.min_impact)
    )


def _of_file(file: ProjectFile, findings: list[Finding], ran: frozenset[str]) -> list[Finding]:
    """The file's own findings: those of rules that no comment suppresses, and those about file and comments."""
    problem = unread(file)
    unread_file = [] if problem is None else [problem]
    if file.source is None:
        return unread_file
    return [*unread_file, *suppression.apply(file, findings, ran)]


def unread(file: ProjectFile) -> Finding | None:
    """PTL002 where a file cannot be read."""
    if file.error is None or _libcst_reads(file):
        return None
    return not_parsed(file.path, file.error, file.source)


def _libcst_reads(file: ProjectFile) -> bool:
    """Whether libcst knows a syntax that the running Python does not."""
    whole = [statement for statement in file.outline.statements if statement.kind == "whole"]
    if file.source is None or not whole:
        return False
    from ptlint.syntax.tree import SyntaxUnreadable, Tree

    try:
        Tree.parse(file.source, whole[0])
    except SyntaxUnreadable:
        return False
    return True


def not_parsed(path: Path, error: OutlineError | SourceError, source: SourceFile | None = None) -> Finding:
    """PTL002 for a file."""
    entry = registry.BY_CODE[registry.FILE_NOT_PARSED]
    place = Position(error.row, error.column)
    offset = 0 if source is None or error.row > len(source.line_starts) else source.offset(error.row, error.column)
    return Finding(
        entry.code, entry.name, error.message, shown(path), place, place, offset, offset, impact=entry.impact
    )


def _run_rules(
    project: Project,
    targets: Mapping[str, ProjectFile],
    entries: Sequence[Entry],
    config: Config,
    tick: Callable[[], None],
    *,
    explain: bool,
) -> Iterator[Finding]:
    """What the rules say of the programs that hold any of `targets`."""
    programs = project.programs_of(*(file.path for file in targets.values())) if targets else ()
    screen = functools.cache(lambda path: _rooted(project.file(path), entries))
    analyst: _Analyst | None = None
    waiting = dict.fromkeys(file.path for file in targets.values())
    for program in programs:
        rooted = frozenset[str]().union(*map(screen, program.files))
        rules = [entry for entry in entries if entry.code in rooted]
        if rules:
            analyst = analyst or _Analyst(project, config, explain=explain)
            blamed = next(name for name in map(shown, program.files) if name in targets)
            yield from analyst.judge(program, rules, blamed)
        for path in program.files:
            if waiting.pop(path, True) is None:
                tick()


KEPT_WORK = 250_000
"""How much analysing (`Run.work`) is done before what was left behind is collected."""


class _Analyst:
    """Facts and rules over one program after another; made only where there is one to judge."""

    def __init__(self, project: Project, config: Config, *, explain: bool) -> None:
        from ptlint.facts.homes import Trees

        self._project = project
        self._config = config
        self._explain = explain
        self._trees = Trees()

    def judge(self, program: Program, entries: Iterable[Entry], blamed: str) -> Iterator[Finding]:
        """What the rules find; a failure of ours is a finding in the file `blamed`."""
        from ptlint.facts.program import analyse
        from ptlint.facts.reasons import Reasons

        # Programs share files: what one made of them serves the next, as long as there is not too much of it.
        if self._trees.lines > KEPT_LINES:
            self._trees.forget()
        if self._trees.work > KEPT_WORK:
            # What is known of a program holds on to itself; Python by itself would look for it in all trees, often.
            gc.collect()
            self._trees.work = 0
        try:
            facts = analyse(self._project, program, self._config, self._trees)
        except Exception as failure:  # noqa: BLE001 - a fault of ours in one program must not cost the others
            yield _failure_of_ours(blamed, "the analysis of this program", failure)
            return
        reasons = Reasons(facts)
        for entry in entries:
            try:
                for found in registry.load(entry).check(facts):
                    finding = _as_supported(found, entry, self._config)
                    yield _with_chain(finding, reasons) if self._explain or not finding.because else finding
            except Exception as failure:  # noqa: BLE001 - nor must one in a rule
                yield _failure_of_ours(blamed, f"rule {entry.code}", failure)


def _as_supported(finding: Finding, entry: Entry, config: Config) -> Finding:
    """The finding without its fix where that is not for all versions of PyTorch that the project supports."""
    if finding.fix is None or torch_version.within(entry.torch, config.torch_version):
        return finding
    oldest = ".".join(map(str, config.torch_version))
    return replace(finding, fix=None, withheld=f"it needs PyTorch {entry.torch}, and {oldest} is supported as well")


def _with_chain(finding: Finding, reasons: Reasons) -> Finding:
    """The finding with the facts that its rule's own reasons rest on, or that stand for them where it gives none."""
    chain = reasons.chain(Path(os.path.abspath(finding.filename)), finding.start_offset, finding.end_offset)
    more = [line for line in chain if line not in finding.because]
    return replace(finding, because=(*finding.because, *more)) if more else finding


def _failure_of_ours(filename: str, what: str, failure: Exception) -> Finding:
    if os.environ.get("PTLINT_DEBUG"):
        raise failure
    return internal_error(filename, what, failure)


def internal_error(filename: str, what: str, failure: BaseException) -> Finding:
    """PTL000 for a failure of ptlint's own."""
    entry = registry.BY_CODE[registry.INTERNAL_ERROR]
    frames = traceback.extract_tb(failure.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(failure).split())
    said = f"{type(failure).__name__}: {text[:200]}" if text else type(failure).__name__
    return Finding(
        entry.code,
        entry.name,
        f"{what} failed: {said}{where}",
        filename,
        Position(1, 1),
        Position(1, 1),
        impact=entry.impact,
        advice="report this line with `ptlint --version` and, if you can, the file",
    )


def _rooted(file: ProjectFile, entries: Sequence[Entry]) -> frozenset[str]:
    """The codes of the rules for which some statement of the file is a root."""
    left = list(entries)
    found: set[str] = set()
    for statement in file.outline.statements:
        holding = [entry for entry in left if any(_holds(statement, root) for root in entry.roots)]
        if holding:
            found.update(entry.code for entry in holding)
            left = [entry for entry in left if entry.code not in found]
    return frozenset(found)


def _holds(statement: Statement, root: Root) -> bool:
    words = root if isinstance(root, tuple) else (root,)
    return all(
        any(name in statement.words or name in statement.dotted or name in statement.nodes for name in word.split("|"))
        for word in words
    )


def _merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """One finding a code and place: of a file that several programs reach, what holds in all of them."""
    same: dict[tuple[str, str, int, int, str], list[Finding]] = {}
    for finding in findings:
        what = finding.message if finding.code == registry.INTERNAL_ERROR else ""
        key = (finding.code, finding.filename, finding.start_offset, finding.end_offset, what)
        same.setdefault(key, []).append(finding)
    for group in same.values():
        yield group[0] if len(group) == 1 else _one_of(group)


def _one_of(group: list[Finding]) -> Finding:
    """A fix counts only where every program allows it, and as unsafe where it is unsafe in one."""
    shown_first = sorted(group, key=lambda finding: (finding.preview, -finding.impact))
    best = shown_first[0]
    fixes = [finding.fix for finding in group]
    known = [fix for fix in fixes if fix is not None]
    if len(known) < len(fixes):
        reason = next((finding.withheld for finding in group if finding.fix is None and finding.withheld), "")
        return replace(best, fix=None, withheld=reason)
    if len({(fix.edits, fix.imports) for fix in known}) > 1:
        return replace(best, fix=None, withheld="the programs that use this file would need different changes")
    unsafe = any(fix.safety is Safety.UNSAFE for fix in known)
    fix: Fix = known[0].made_unsafe() if unsafe else known[0]
    return replace(best, fix=fix, impact=max((f.impact for f in group), default=Impact.LOW))

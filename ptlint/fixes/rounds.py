"""Which fixes go in together, round by round until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.fixes.safety import demote
from ptlint.fixes.splice import apply_edits, are_sound, can_read, collide
from ptlint.outline.statements import Outline, outline
from ptlint.source.text import SourceFile

MAX_ROUNDS = 10

_Key = tuple[str, str, str, tuple[str, ...]]


class Linted(Protocol):
    """What linting gives: the findings and the texts that they speak of, by file name."""

    @property
    def findings(self) -> Sequence[Finding]: ...

    @property
    def sources(self) -> Mapping[str, SourceFile]: ...


_Report = TypeVar("_Report", bound=Linted)


@dataclass(frozen=True)
class Round:
    """A file after one round: its text, the findings whose fixes are in it, and a PTL000 for each that broke it."""

    text: str
    applied: tuple[Finding, ...] = ()
    failures: tuple[Finding, ...] = ()
    broken: frozenset[_Key] = frozenset()
    """What to leave out of later rounds."""


@dataclass(frozen=True)
class Fixed(Generic[_Report]):
    """A program after its last round."""

    report: _Report
    """What the fixed program still has."""
    texts: dict[str, str] = field(default_factory=dict)
    """The new texts of the files that changed, by file name."""
    originals: dict[str, SourceFile] = field(default_factory=dict)
    """The same files as they were."""
    applied: dict[str, list[Finding]] = field(default_factory=dict)
    """The findings that were fixed in them, each as its round saw it."""
    failures: tuple[Finding, ...] = ()
    """PTL000 for each fix that would have left a file that does not parse."""


def complete(finding: Finding, source: SourceFile, outlined: Outline) -> Finding:
    """The finding as a report shows it: the fix holds the edits for its imports, and is demoted where it must be.

    A fix whose import cannot be placed is withheld.
    """
    finding = demote(finding, source.text)
    fix = finding.fix
    if fix is None or not fix.imports:
        return finding
    edits, obstacle = _import_edits(source, outlined, fix.imports)
    if obstacle:
        return replace(finding, fix=None, withheld=obstacle)
    ordered = sorted((*edits, *fix.edits), key=lambda edit: (edit.start, edit.end))
    return replace(finding, fix=replace(fix, edits=tuple(ordered), imports=()))


def fix_to_fixpoint(
    lint: Callable[[Mapping[Path, str]], _Report], *, unsafe: bool = False, max_rounds: int = MAX_ROUNDS
) -> Fixed[_Report]:
    """Fix until nothing is left to fix, a text comes back that was there before, or the rounds are used up.

    `lint` judges the whole program with the given texts in the place of these files' own. All edits of a round come
    from one state; nothing is written.
    """
    overlay: dict[Path, str] = {}
    report = lint(overlay)
    result = Fixed(report)
    failures: list[Finding] = []
    broken: frozenset[_Key] = frozenset()
    seen: dict[str, set[str]] = {}
    settled: set[str] = set()
    for _ in range(max_rounds):
        changed = False
        for name, findings in _by_file(report.findings).items():
            source = report.sources.get(name)
            if source is None or name in settled:
                continue
            done = fix_round(source, findings, unsafe=unsafe, leave_out=broken)
            failures += done.failures
            broken |= done.broken
            if done.text == source.text:
                continue
            texts = seen.setdefault(name, {source.text})
            if done.text in texts:
                settled.add(name)
                continue
            texts.add(done.text)
            changed = True
            overlay[source.path] = done.text
            result.originals.setdefault(name, source)
            result.texts[name] = done.text
            result.applied.setdefault(name, []).extend(done.applied)
        if not changed:
            break
        report = lint(overlay)
    return replace(result, report=report, failures=tuple(failures))


def fix_round(
    source: SourceFile, findings: Iterable[Finding], *, unsafe: bool = False, leave_out: AbstractSet[_Key] = frozenset()
) -> Round:
    """Apply to one file those fixes of its findings that do not touch one another; the later of two waits."""
    if not source.exact:
        return Round(source.text)
    allowed: list[Finding] = []
    for finding in findings:
        fix = demote(finding, source.text).fix
        if fix is not None and (unsafe or fix.safety is Safety.SAFE) and _key(finding) not in leave_out:
            allowed.append(finding)
    if not allowed:
        return Round(source.text)
    chosen, unsound = _choose(source, sorted(allowed, key=_order))
    text = _spliced(source, chosen)
    if not can_read(text, source.text):
        # A fault of ours: find the fixes that do it, and keep the others.
        kept: list[Finding] = []
        for finding in chosen:
            attempt = _spliced(source, [*kept, finding])
            if can_read(attempt, source.text):
                kept.append(finding)
            else:
                unsound.append(finding)
        chosen, text = kept, _spliced(source, kept)
    return Round(text, tuple(chosen), tuple(map(_failure, unsound)), frozenset(map(_key, unsound)))


def _choose(source: SourceFile, findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """The findings whose fixes go in together, and those whose fixes cannot be applied at all."""
    chosen: list[Finding] = []
    unsound: list[Finding] = []
    taken: list[Edit] = []
    imports: list[Edit] = []
    for finding in findings:
        fix = _fix(finding)
        if not are_sound(fix.edits, source.text):
            unsound.append(finding)
            continue
        wanted, obstacle = _import_edits(source, _outline(source.text), fix.imports)
        if obstacle or any(collide(edit, other) for edit in fix.edits for other in taken):
            continue
        # Imports share their places with one another, and go in front of what is replaced there.
        if any(edit.start < place.start < edit.end for edit in (*taken, *fix.edits) for place in (*imports, *wanted)):
            continue
        chosen.append(finding)
        taken += fix.edits
        imports += wanted
    return chosen, unsound


def _spliced(source: SourceFile, findings: Sequence[Finding]) -> str:
    fixes = [_fix(finding) for finding in findings]
    imports, _ = _import_edits(source, _outline(source.text), [wanted for fix in fixes for wanted in fix.imports])
    return apply_edits(source.text, [*imports, *(edit for fix in fixes for edit in fix.edits)])


def _import_edits(source: SourceFile, outlined: Outline, wanted: Sequence[str]) -> tuple[tuple[Edit, ...], str]:
    """The edits that add these imports, or why there are none."""
    if not wanted:
        return (), ""
    # The builders load libcst, which runs without findings do without.
    from ptlint.edits import CannotEdit, import_edits

    try:
        return import_edits(source, outlined, wanted), ""
    except CannotEdit as error:
        return (), error.reason


@lru_cache(maxsize=2)
def _outline(text: str) -> Outline:
    return outline(text)


def _by_file(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        files.setdefault(finding.filename, []).append(finding)
    return files


def _fix(finding: Finding) -> Fix:
    assert finding.fix is not None
    return finding.fix


def _order(finding: Finding) -> tuple[int, int, str]:
    first = min(_fix(finding).edits, default=Edit(0, 0, ""))
    return first.start, first.end, finding.code


def _key(finding: Finding) -> _Key:
    fix = _fix(finding)
    return finding.filename, finding.code, fix.message, tuple(edit.text for edit in fix.edits)


def _failure(finding: Finding) -> Finding:
    return Finding(
        "PTL000",
        "internal-error",
        f"the fix of {finding.code} ({finding.name}) would leave code that does not parse, and was not applied",
        finding.filename,
        finding.location,
        finding.end_location,
        finding.start_offset,
        finding.end_offset,
        impact=Impact.HIGH,
        advice="report this line with `ptlint --version` and, if you can, the file",
    )

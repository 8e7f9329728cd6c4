"""Which findings a comment silences, and what is wrong with such comments themselves (PTL001, PTL003)."""

from __future__ import annotations

import functools
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptlint import registry
from ptlint.findings import Edit, Finding, Fix, Safety
from ptlint.paths import shown
from ptlint.source.suppress import find_suppressions

if TYPE_CHECKING:
    from ptlint.outline.project import ProjectFile
    from ptlint.source.suppress import Suppression
    from ptlint.source.text import SourceFile

_OURS = re.compile(r"PTL\w*\Z", re.IGNORECASE)
_FOREIGN = re.compile(r"[A-Za-z]{1,10}\d+\Z")


@dataclass
class _Comment:
    """A suppression comment with the rules that it names, and those of them that it silenced."""

    comment: Suppression
    rows: frozenset[int] | None
    """The rows of the statement that it speaks of; None for the whole file."""
    codes: frozenset[str] | None
    """None for every rule."""
    unknown: tuple[str, ...]
    """Words that look like ours and name no rule."""
    used: set[str] = field(default_factory=set)

    def covers(self, finding: Finding) -> bool:
        return (self.rows is None or finding.location.row in self.rows) and (
            self.codes is None or finding.code in self.codes
        )


def apply(file: ProjectFile, findings: Iterable[Finding], ran: frozenset[str]) -> list[Finding]:
    """The findings that no comment silences, and those about the comments; `ran` are the rules that judged the file."""
    source = file.source
    found = find_suppressions(source.text) if source is not None else ()
    if source is None or not found:
        return list(findings)
    comments = [_resolved(comment, file, source) for comment in found]
    kept = [finding for finding in findings if not _silenced(finding, comments)]
    about = [*_malformed(comments, source), *_unused(comments, source, ran)]
    return kept + [finding for finding in about if not _named(finding, comments)]


def comment_row(source: SourceFile, row: int) -> int:
    """The first row from `row` on at whose end a comment can stand: not within a string, not before a continuation."""
    blocked = _blocked_rows(source.text)
    while row in blocked:
        row += 1
    return row


def with_comments(source: SourceFile, findings: Iterable[Finding]) -> tuple[str, int]:
    """The text with a suppression comment for each finding, and how many were added."""
    wanted: dict[int, set[str]] = {}
    for finding in findings:
        wanted.setdefault(comment_row(source, finding.location.row), set()).add(finding.code)
    there = {comment.row: comment for comment in find_suppressions(source.text) if comment.kind == "ptlint"}
    text = source.text
    for row, codes in sorted(wanted.items(), reverse=True):
        known = there.get(row)
        if known is not None and known.codes:
            start, end = _codes_span(text, known)
            text = f"{text[:start]}{', '.join((*known.codes, *sorted(codes)))}{text[end:]}"
        else:
            end = source.offset(row) + len(source.line(row))
            text = f"{text[:end].rstrip(' ')}  # ptlint: ignore[{', '.join(sorted(codes))}]{text[end:]}"
    return text, sum(map(len, wanted.values()))


def own_line(source: SourceFile, comment: Suppression) -> bool:
    """Whether nothing but the comment stands on its row."""
    return not source.line(comment.row)[: comment.column - 1].strip()


def _resolved(comment: Suppression, file: ProjectFile, source: SourceFile) -> _Comment:
    rows: frozenset[int] | None = None
    if comment.kind != "file":
        rows = frozenset(file.outline.rows_of(comment.row))
        if own_line(source, comment):
            rows |= frozenset(file.outline.rows_of(_next_code_row(source, comment.row)))
    if comment.malformed:
        return _Comment(comment, rows, frozenset(), ())
    if comment.codes is None:
        return _Comment(comment, rows, None, ())
    entries = {word: registry.find(word) for word in comment.codes}
    codes = frozenset(entry.code for entry in entries.values() if entry is not None)
    unknown = tuple(word for word, entry in entries.items() if entry is None and _meant_for_us(word, comment))
    return _Comment(comment, rows, codes, unknown)


def _meant_for_us(word: str, comment: Suppression) -> bool:
    return bool(_OURS.match(word)) or (comment.kind != "noqa" and not _FOREIGN.match(word))


def _next_code_row(source: SourceFile, row: int) -> int:
    last = len(source.line_starts)
    row += 1
    while row < last and source.line(row).strip()[:1] in ("", "#"):
        row += 1
    return row


def _silenced(finding: Finding, comments: list[_Comment]) -> bool:
    if finding.code in (registry.INTERNAL_ERROR, registry.FILE_NOT_PARSED):
        return False
    covering = [comment for comment in comments if comment.covers(finding)]
    for comment in covering:
        comment.used.add(finding.code)
    return bool(covering)


def _named(finding: Finding, comments: list[_Comment]) -> bool:
    """Whether a comment names the very rule; a bare one does not silence what is said about itself."""
    return any(comment.codes is not None and comment.covers(finding) for comment in comments)


def _malformed(comments: list[_Comment], source: SourceFile) -> Iterator[Finding]:
    for comment in comments:
        if comment.comment.malformed:
            yield _finding(registry.MALFORMED_SUPPRESSION, comment.comment.malformed, comment, source)
        for word in comment.unknown:
            yield _finding(registry.MALFORMED_SUPPRESSION, registry.unknown(word), comment, source)


def _unused(comments: list[_Comment], source: SourceFile, ran: frozenset[str]) -> Iterator[Finding]:
    for comment in comments:
        if comment.comment.malformed:
            continue
        if comment.codes is None:
            if comment.comment.kind != "noqa" and not comment.used and ran >= _on_by_default():
                fix = Fix("Remove the comment", Safety.SAFE, _removal(comment.comment, (), source))
                yield _finding(registry.UNUSED_SUPPRESSION, "this comment suppresses nothing", comment, source, fix)
            continue
        idle = sorted((comment.codes & ran) - comment.used)
        if idle:
            words = comment.comment.codes or ()
            left = tuple(word for word in words if getattr(registry.find(word), "code", None) not in idle)
            listed = ", ".join(idle)
            title = f"Remove {listed}" if left else "Remove the comment"
            fix = Fix(title, Safety.SAFE, _removal(comment.comment, left, source))
            yield _finding(registry.UNUSED_SUPPRESSION, f"this comment suppresses no {listed}", comment, source, fix)


def _on_by_default() -> frozenset[str]:
    return frozenset(entry.code for entry in registry.BY_CODE.values() if entry.roots and not entry.preview)


def _removal(comment: Suppression, left: tuple[str, ...], source: SourceFile) -> tuple[Edit, ...]:
    """Take the comment out, or all of its codes but those `left`."""
    text = source.text
    start, end = comment.start_offset, comment.end_offset
    if left:
        return (Edit(*_codes_span(text, comment), ", ".join(left)),)
    row_start = source.offset(comment.row)
    row_end = row_start + len(source.line(comment.row))
    rest = text[end:row_end].strip()
    if rest:
        if rest.startswith("#"):
            return (Edit(start, row_end - len(text[end:row_end].lstrip()), ""),)
        return (Edit(start, end + len(text[end:row_end]) - len(text[end:row_end].lstrip()), "# "),)
    before = text[row_start:start]
    if before.strip():
        return (Edit(row_start + len(before.rstrip()), row_end, ""),)
    after = source.line_starts[comment.row] if comment.row < len(source.line_starts) else len(text)
    return (Edit(row_start, after, ""),)


def _codes_span(text: str, comment: Suppression) -> tuple[int, int]:
    """Where the list of codes stands."""
    words = comment.codes or ()
    first = last = text.index(words[0], comment.start_offset)
    for word in words:
        last = text.index(word, last) + len(word)
    return first, last


def _finding(code: str, message: str, comment: _Comment, source: SourceFile, fix: Fix | None = None) -> Finding:
    entry = registry.BY_CODE[code]
    start, end = comment.comment.start_offset, comment.comment.end_offset
    return Finding(
        code,
        entry.name,
        message,
        shown(source.path),
        source.position(start),
        source.position(end),
        start,
        end,
        impact=entry.impact,
        fix=fix,
    )


@functools.lru_cache(maxsize=8)
def _blocked_rows(text: str) -> frozenset[int]:
    """Rows that end within a string or with a backslash that continues the line."""
    blocked: set[int] = set()
    opened: list[int] = []
    after = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            name = tokenize.tok_name[token.type]
            if name.endswith("STRING_START"):
                opened.append(token.start[0])
            elif name.endswith("STRING_END"):
                blocked.update(range(opened.pop(), token.end[0]))
            elif token.type == tokenize.STRING:
                blocked.update(range(token.start[0], token.end[0]))
            # Where no line end was seen between two tokens on different rows, backslashes join them.
            if after and token.start[0] > after:
                blocked.update(range(after, token.start[0]))
            ends = token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT)
            after = 0 if ends else token.end[0]
    except (tokenize.TokenError, SyntaxError):
        pass  # what was read so far is right
    return frozenset(blocked)

"""Comments that speak to ptlint: `# ptlint: ignore[…]`, `# ptlint: ignore-file[…]` and `# noqa: …`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ptlint.source.text import line_starts

Kind = Literal["ptlint", "noqa", "file"]

_CANDIDATE = re.compile(r"#[ \t]*(?:noqa|ptlint)\b", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#[ \t]*(?P<who>noqa|ptlint)\b(?P<colon>[ \t]*:)?(?P<rest>[^#]*)", re.IGNORECASE)
# A code of any linter, or what was meant as one of ours.
_CODE = r"(?:[A-Za-z]{1,10}\d+|PTL\w*)\b"
_CODES = re.compile(rf"[ \t]*{_CODE}(?:[ \t]*,?[ \t]*{_CODE})*", re.IGNORECASE)
_OUR_CODE = re.compile(r"PTL\w*\Z", re.IGNORECASE)
_IGNORE = re.compile(r"[ \t]*ignore(?P<file>-file)?(?![\w-])[ \t]*", re.IGNORECASE)
_BRACKETS = re.compile(r"\[(?P<words>[^\[\]]*)(?P<end>\]?)")
_WITHOUT_BRACKETS = re.compile(r"[:=(]?[ \t]*(?P<words>PTL\w*(?:[ \t]*,[ \t]*[\w-]+)*)", re.IGNORECASE)
_ROW_END = re.compile(r"[\r\n]")
_OPENING = re.compile(r"\"{3}|'{3}|[\"'#]")
# What may end a string, or an escape in it, in one pass; a row's end ends a string that was never closed.
_CLOSING = {
    quote: re.compile(r"\\(?:\r\n|.)|" + quote + ("" if len(quote) == 3 else r"|[\r\n]"), re.DOTALL)
    for quote in ("'", '"', "'''", '"""')
}
_WORD = re.compile(r"[^\s,]+")


@dataclass(frozen=True)
class Suppression:
    """One such comment, or part of a comment.

    `codes` are the words as written, those of other linters too; None stands for every rule. `malformed` says what is
    wrong with it; `codes` are then what was evidently meant. The offsets run from its `#` to its last character.
    """

    row: int
    codes: tuple[str, ...] | None
    kind: Kind
    column: int
    start_offset: int
    end_offset: int
    malformed: str | None = None


@dataclass(frozen=True)
class _Directive:
    codes: tuple[str, ...] | None
    kind: Kind
    start: int
    end: int
    malformed: str | None = None


def find_suppressions(text: str) -> tuple[Suppression, ...]:
    """Those of a file in order, from real comments only; a `# noqa` that names only others' codes is none."""
    last = -1
    for match in _CANDIDATE.finditer(text):
        if any(_directives(_rest_of_row(text, match.start()))):
            last = match.start()
    if last < 0:
        return ()
    starts = line_starts(text)
    found: list[Suppression] = []
    for offset, comment in _comments(text, last):
        for item in _directives(comment):
            start = offset + item.start
            row = bisect_right(starts, start)
            column = start - starts[row - 1] + 1
            end = offset + item.end
            found.append(Suppression(row, item.codes, item.kind, column, start, end, item.malformed))
    return tuple(found)


def _rest_of_row(text: str, start: int) -> str:
    end = _ROW_END.search(text, start)
    return text[start : end.start() if end else len(text)]


def _comments(text: str, last: int) -> Iterator[tuple[int, str]]:
    """Offset and text of the comments up to the offset `last`.

    Strings are skipped by their quotes alone, which is twenty times as fast as `tokenize`. The quotes within an
    f-string's braces come in pairs, so that they end where they began.
    """
    at = 0
    while (match := _OPENING.search(text, at)) is not None and match.start() <= last:
        opening = match.group()
        at = match.end()
        if opening == "#":
            comment = _rest_of_row(text, match.start())
            yield match.start(), comment
            at = match.start() + len(comment)
        else:
            closing = next((end for end in _CLOSING[opening].finditer(text, at) if end.group()[0] != "\\"), None)
            at = closing.end() if closing else len(text)


def _directives(comment: str) -> Iterator[_Directive]:
    for match in _DIRECTIVE.finditer(comment):
        found = (_noqa if match["who"].lower() == "noqa" else _ours)(match)
        if found is not None:
            yield found


def _noqa(match: re.Match[str]) -> _Directive | None:
    codes = _CODES.match(match["rest"])
    words = tuple(_WORD.findall(codes.group())) if codes else ()
    ours = [word for word in words if _OUR_CODE.match(word)]
    if match["colon"] and words:
        end = match.start("rest") + (codes.end() if codes else 0)
        return _Directive(words, "noqa", match.start(), end) if ours else None
    if ours and codes:
        message = f"`# noqa` lacks its colon; write `# noqa: {', '.join(words)}`"
        return _Directive(words, "noqa", match.start(), match.start("rest") + codes.end(), message)
    return _Directive(None, "noqa", match.start(), match.end("colon") if match["colon"] else match.end("who"))


def _ours(match: re.Match[str]) -> _Directive | None:
    start, rest, base = match.start(), match["rest"], match.start("rest")
    ignore = _IGNORE.match(rest)
    if ignore is None:
        if not match["colon"]:
            return None
        end = base + len(rest.rstrip())
        return _Directive((), "ptlint", start, end, "unknown directive; write `# ptlint: ignore[CODE]`")
    kind: Kind = "file" if ignore["file"] else "ptlint"
    word = "ignore-file" if ignore["file"] else "ignore"
    brackets = _BRACKETS.match(rest, ignore.end())
    bare = _WITHOUT_BRACKETS.match(rest, ignore.end())
    given = brackets or bare
    if given is None:
        end = base + len(rest[: ignore.end()].rstrip())
        if match["colon"]:
            return _Directive(None, kind, start, end)
        if rest[ignore.end() :].strip():
            return None  # a sentence that begins with our name
        return _Directive(None, kind, start, end, f"a colon is missing; write `# ptlint: {word}`")
    words = tuple(_WORD.findall(given["words"]))
    message = None
    if not words:
        message = f"no rule is named; write `# ptlint: {word}[CODE]`, or `# ptlint: {word}` for all"
    elif brackets is None or not brackets["end"]:
        message = f"the brackets are not right; write `# ptlint: {word}[{', '.join(words)}]`"
    elif not match["colon"]:
        message = f"a colon is missing; write `# ptlint: {word}[{', '.join(words)}]`"
    return _Directive(words, kind, start, base + len(rest[: given.end()].rstrip()), message)

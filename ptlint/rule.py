"""What a rule is: metadata as class attributes, documentation as docstring, one generator over the facts."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from ptlint.findings import Finding, Fix, Impact, Related
from ptlint.paths import shown

if TYPE_CHECKING:
    from ptlint.facts.events import Place
    from ptlint.facts.program import ProgramFacts

Root = str | tuple[str, ...]
Fixable = Literal["no", "safe", "unsafe", "both"]

CODE = re.compile(r"PTL\d{3}\Z")
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+\Z")
_HEADING = re.compile(r"^## (.+?)\s*$", re.MULTILINE)
_VERSION_RANGE = re.compile(r"(>=|<)\d+\.\d+(,(>=|<)\d+\.\d+)*\Z")

USE_INSTEAD = "Use instead:"


class RuleError(TypeError):
    """A rule class is not well formed: raised when the class is created, so that it cannot go unseen."""


class Rule:
    """One fault that ptlint can find.

    `roots` says when an analysis is worth starting: at least one alternative must hold in one top-level statement of
    the program. An alternative is a word or a tuple of words that must all occur there; a word is an identifier, an
    attribute, a dotted name (`torch.cuda.is_available`) or an `ast` class name (`While`), and `a|b` stands for either.

    `check` is a pure generator over complete facts. Instances are shared: a rule keeps nothing on `self`.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    message: ClassVar[str]
    impact: ClassVar[Impact]
    roots: ClassVar[tuple[Root, ...]]
    preview: ClassVar[bool] = False
    fixable: ClassVar[Fixable] = "no"
    torch: ClassVar[str | None] = None
    """The PyTorch versions in which the fault exists, such as ">=2.0" or ">=1.10,<2.5"."""
    options: ClassVar[tuple[str, ...]] = ()
    """Keys that `[tool.ptlint.rules.CODE]` may hold beside `impact`; read from `program.config.rules`."""
    headings: ClassVar[tuple[str, ...]] = (
        "What it finds",
        "Why it is slow",
        "When it stays silent",
        "Example",
        "Fix safety",
        "How it is measured",
        "References",
    )

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        super().__init_subclass__()
        if not abstract:
            _validate(cls)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        """Yield what is wrong in `program`."""
        raise NotImplementedError

    def finding(
        self,
        place: Place,
        *,
        message: str | None = None,
        impact: Impact | None = None,
        preview: bool | None = None,
        advice: str = "",
        fix: Fix | None = None,
        withheld: str = "",
        because: Sequence[str] = (),
        related: Sequence[Related] = (),
    ) -> Finding:
        """A finding of this rule at a place of the facts; what is not given comes from the class."""
        source = place.source
        start, end = place.tree.span(place.node)
        return Finding(
            code=self.code,
            name=self.name,
            message=_one_line(self.message if message is None else message),
            filename=shown(place.path),
            location=source.position(start),
            end_location=source.position(end),
            start_offset=start,
            end_offset=end,
            impact=self.impact if impact is None else impact,
            preview=self.preview if preview is None else preview,
            advice=_one_line(advice),
            fix=fix,
            withheld=_one_line(withheld),
            because=tuple(map(_one_line, because)),
            related=tuple(related),
        )


def _one_line(text: str) -> str:
    """A text that quotes code of several rows, as one."""
    return " ".join(text.split()) if "\n" in text or "\r" in text else text


class AboutLint(Rule, abstract=True):
    """A PTL0 rule: the engine finds these itself, so they have documentation but no check and no roots."""

    roots = ()
    headings = ("What it finds", "Why it matters", "Fix safety")


def sections(doc: str) -> dict[str, str]:
    """The text under each `## ` heading of a rule's docstring, in order."""
    parts = _HEADING.split(inspect.cleandoc(doc))
    return {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def _validate(cls: type[Rule]) -> None:
    where = f"{cls.__module__}.{cls.__qualname__}"
    for attribute in ("code", "name", "message", "impact", "roots"):
        if not hasattr(cls, attribute):
            raise RuleError(f"{where}: the class attribute `{attribute}` is missing")
    if not CODE.match(cls.code):
        raise RuleError(f"{where}: code {cls.code!r} is not PTL and three digits")
    if not NAME.match(cls.name):
        raise RuleError(f"{where}: name {cls.name!r} is not words in lower case joined by hyphens")
    if cls.fixable not in ("no", "safe", "unsafe", "both"):
        raise RuleError(f"{where}: fixable must be no, safe, unsafe or both, not {cls.fixable!r}")
    if cls.torch is not None and not _VERSION_RANGE.match(cls.torch):
        raise RuleError(f"{where}: torch {cls.torch!r} is not a range such as '>=2.0' or '>=1.10,<2.5'")
    if not issubclass(cls, AboutLint):
        if cls.check is Rule.check:
            raise RuleError(f"{where}: there is no check")
        _validate_roots(where, cls.roots)
    if sys.flags.optimize < 2:  # python -OO drops docstrings
        _validate_doc(where, cls)


def _validate_roots(where: str, roots: object) -> None:
    if not isinstance(roots, tuple) or not roots:
        raise RuleError(f"{where}: roots must be a tuple of alternatives, not {roots!r}")
    for root in roots:
        words = root if isinstance(root, tuple) else (root,)
        if not words or not all(isinstance(word, str) and word for word in words):
            raise RuleError(f"{where}: root {root!r} is neither a word nor a tuple of words")


def _validate_doc(where: str, cls: type[Rule]) -> None:
    found = sections(cls.__doc__ or "")
    titles = [title for title in found if title in cls.headings]
    if titles != list(cls.headings) or len(found) != len(titles):
        wanted = ", ".join(f"## {title}" for title in cls.headings)
        raise RuleError(f"{where}: the docstring must have exactly the headings {wanted}, in this order")
    if "Example" in found and USE_INSTEAD not in found["Example"]:
        raise RuleError(f"{where}: the docstring's example has no line `{USE_INSTEAD}`")
    empty = [title for title, text in found.items() if not text]
    if empty:
        raise RuleError(f"{where}: nothing stands under ## {empty[0]}")

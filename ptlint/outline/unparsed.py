"""A rough outline of a text that `ast` refuses but libcst may be able to read: newer syntax, or broken code."""

from __future__ import annotations

import re
from bisect import bisect_right

from ptlint.outline.shape import Import, Outline, OutlineError, Statement
from ptlint.source.text import line_starts

# libcst overflows the C stack where `ast` would have refused: what could nest so deeply is not given to it.
_MAX_BRACKETS = 100
_MAX_TOKENS = 3_000
_MAX_ELIF = 500

_TOKEN = re.compile(
    r"""
    \#[^\r\n]*
    | '{3}(?:[^\\]|\\.)*?'{3} | "{3}(?:[^\\]|\\.)*?"{3}
    | '(?:[^'\\\r\n]|\\.)*'  | "(?:[^"\\\r\n]|\\.)*"
    | \w+ | \\\r?\n | [^\w\ \t\f\\]
    """,
    re.DOTALL | re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d]\w*")
_CHAIN = re.compile(r"\b[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_IMPORT = re.compile(r"^([ \t]*)import[ \t]+([\w., \t]+)", re.MULTILINE)
_FROM = re.compile(r"^([ \t]*)from[ \t]+(\.*)((?:\w[\w.]*)?)[ \t]*import[ \t]+(\*|\([^()]*\)|[\w, \t]+)", re.MULTILINE)
# A definition or an assignment that begins its row.
_BINDING = re.compile(
    r"^(?:(?:async[ \t]+)?(?:def|class|type)[ \t]+(\w+)|([^\W\d][\w., \t]*)(?::[^=\r\n]*)?=(?!=))", re.MULTILINE
)
_NODES = {
    "for": ("For", "comprehension"),
    "while": ("While",),
    "with": ("With",),
    "lambda": ("Lambda",),
    "def": ("FunctionDef",),
    "class": ("ClassDef",),
    "if": ("If",),
    "try": ("Try",),
    "async": ("AsyncFor", "AsyncWith", "AsyncFunctionDef"),
    "import": ("Import", "ImportFrom"),
    "return": ("Return",),
}


def unparsed(text: str, error: OutlineError) -> Outline:
    """The whole text as one statement of kind "whole", or nothing where libcst would not survive it."""
    if not _shallow(text):
        return Outline(error=error)
    words = frozenset(_WORD.findall(text))
    imports = _imports(text)
    statement = Statement(
        0,
        "whole",
        "",
        1,
        len(line_starts(text)),
        binds=_bound(text, imports),
        words=words,
        dotted=frozenset(_CHAIN.findall(text)),
        nodes=frozenset(name for word in words & _NODES.keys() for name in _NODES[word]) | {"Assign", "Expr"},
    )
    return Outline((statement,), imports, error, '"__main__"' in text or "'__main__'" in text)


def _bound(text: str, imports: tuple[Import, ...]) -> frozenset[str]:
    found = {item.asname or item.name or item.module.partition(".")[0] for item in imports if item.top}
    for name, targets in _BINDING.findall(text):
        found.update([name] if name else (target.strip() for target in targets.split(",") if "." not in target))
    return frozenset(found)


def _shallow(text: str) -> bool:
    depth = tokens = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth = max(depth - 1, 0)
        elif token in "\r\n" and depth == 0:
            tokens = 0
        tokens += 1
        if depth > _MAX_BRACKETS or tokens > _MAX_TOKENS:
            return False
    return text.count("elif") <= _MAX_ELIF


def _imports(text: str) -> tuple[Import, ...]:
    starts = line_starts(text)
    found: list[Import] = []
    for match in _IMPORT.finditer(text):
        for part in match.group(2).split(","):
            module, _, asname = part.strip().partition(" as ")
            found.append(Import(module.strip(), None, asname.strip() or None, 0, match.start(), not match.group(1)))
    for match in _FROM.finditer(text):
        indent, dots, module, names = match.groups()
        for part in re.sub(r"#[^\n]*", "", names.strip("()")).split(","):
            name, _, asname = part.strip().partition(" as ")
            if name:
                found.append(Import(module, name, asname.strip() or None, len(dots), match.start(), not indent))
    return tuple(
        Import(item.module, item.name, item.asname, item.level, bisect_right(starts, item.row), item.top)
        for item in sorted(found, key=lambda item: item.row)
    )

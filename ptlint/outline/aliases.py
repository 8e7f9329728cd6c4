"""What statements say of imported names, whatever the file calls them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from sys import intern

from ptlint.outline.shape import Import, Statement


def with_full_names(statements: Sequence[Statement], imports: Iterable[Import]) -> tuple[Statement, ...]:
    """The statements with the full names of what they take from imports added to their words and dotted names.

    `from torch import cuda as c` adds "torch.cuda.is_available" where `c.is_available` is written, with its words.
    Names count in the whole file: what is local to a function may be taken for an import, so this can only screen.
    """
    full: dict[str, dict[str, frozenset[str]]] = {}
    for item in imports:
        if item.name == "*" or item.level or (item.name is None and item.asname is None):
            continue
        name = f"{item.module}.{item.name}" if item.name else item.module
        bound = item.asname or item.name or name
        if bound != name:
            full.setdefault(bound, {})[intern(name)] = frozenset(map(intern, name.split(".")))
    return tuple(_completed(each, full) for each in statements) if full else tuple(statements)


def _completed(statement: Statement, full: dict[str, dict[str, frozenset[str]]]) -> Statement:
    used = statement.words & full.keys()
    if not used or statement.kind == "import":
        return statement
    dotted = {name for word in used for name in full[word]}
    for chain in statement.dotted:
        head, _, rest = chain.partition(".")
        if head in used:
            dotted.update(intern(f"{name}.{rest}") for name in full[head])
    words = (parts for word in used for parts in full[word].values())
    return replace(statement, words=statement.words.union(*words), dotted=statement.dotted | dotted)

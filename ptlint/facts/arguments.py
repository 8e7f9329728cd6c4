"""A call's arguments as written, and their binding to parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.values import UNKNOWN, CallArgs, Const, Value

if TYPE_CHECKING:
    from ptlint.facts.events import Place


@dataclass(slots=True)
class Arguments:
    """Positional and keyword arguments, stars spread where their content is known.

    `open`: some star could not be spread, so that any parameter may be set. Nodes are None for spread arguments.
    `origins`: where the value of a spread keyword was written.
    """

    positional: list[Value] = field(default_factory=list)
    nodes: list[cst.Arg | None] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    keyword_nodes: dict[str, cst.Arg] = field(default_factory=dict)
    open: bool = False
    origins: dict[str, Place] = field(default_factory=dict)

    def add(self, value: Value, node: cst.Arg | None = None) -> Arguments:
        self.positional.append(value)
        self.nodes.append(node)
        return self

    def first(self, default: Value = UNKNOWN) -> Value:
        return self.positional[0] if self.positional else default

    def get(self, name: str, position: int | None = None, default: Value = UNKNOWN) -> Value:
        """The argument by keyword or position; `default` where it is not given."""
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return default

    def has(self, name: str, position: int | None = None) -> bool:
        return name in self.keywords or (position is not None and position < len(self.positional))

    def all(self) -> Iterator[Value]:
        yield from self.positional
        yield from self.keywords.values()

    def prepend(self, value: Value) -> Arguments:
        """The same arguments after one more."""
        positional, nodes = [value, *self.positional], [None, *self.nodes]
        return Arguments(positional, nodes, self.keywords, self.keyword_nodes, self.open, self.origins)

    def bind(self, params: Sequence[str], keyword_only: frozenset[str] = frozenset()) -> CallArgs:
        """Bind to the names of a known signature."""
        bound = CallArgs(open=self.open, origins=self.origins)
        places = [name for name in params if name not in keyword_only]
        for index, value in enumerate(self.positional):
            if index < len(places):
                bound.bound[places[index]] = value
                node = self.nodes[index]
                if node is not None:
                    bound.nodes[places[index]] = node
            else:
                bound.extra.append(value)
        starred = []
        for name, value in self.keywords.items():
            bound.bound[name] = value
            if name in self.keyword_nodes:
                bound.nodes[name] = self.keyword_nodes[name]
            else:
                starred.append(name)
        bound.starred = frozenset(starred)
        return bound

    def key(self) -> object:
        return (
            tuple(value.key() for value in self.positional),
            tuple(sorted((name, value.key()) for name, value in self.keywords.items())) if self.keywords else (),
            self.open,
        )


def flag(value: Value) -> bool | None:
    """A value as True or False where it is a constant that says so."""
    return bool(value.value) if isinstance(value, Const) else None

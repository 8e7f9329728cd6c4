"""Handlers by canonical name."""

from __future__ import annotations

from collections.abc import Callable

from ptlint.facts.arguments import Arguments
from ptlint.facts.events import Place
from ptlint.facts.homes import Frame
from ptlint.facts.run import Run
from ptlint.facts.values import Value

Handler = Callable[[Run, str, Arguments, Place, Frame], Value]

FUNCTIONS: dict[str, Handler] = {}


def models(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for some canonical names."""

    def register(handler: Handler) -> Handler:
        for name in names:
            FUNCTIONS[name] = handler
        return handler

    return register

"""Methods of loaders and datasets."""

from __future__ import annotations

from ptlint.facts import iteration
from ptlint.facts.arguments import Arguments
from ptlint.facts.events import Call, Place
from ptlint.facts.homes import Frame
from ptlint.facts.run import Run
from ptlint.facts.values import UNKNOWN, Dataset, Items, Loader, Num, Unknown, Value


def method(run: Run, receiver: Loader | Dataset, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    run.emit(Call(place, frame.ctx, f".{name}", args.bind(()), UNKNOWN, receiver), name)
    if name == "__iter__":
        iteration.note(run, receiver, place, frame.ctx, None)
        return Items(UNKNOWN, "iter", receiver)
    if name == "__next__":
        return iteration.next_of(run, receiver, place, frame)
    if name == "__len__":
        return Num("int")
    if name == "__getitem__":
        return Unknown("host", batch=receiver)
    if isinstance(receiver, Dataset) and name in (
        "map",
        "filter",
        "with_transform",
        "shuffle",
        "select",
        "with_format",
    ):
        return receiver
    return UNKNOWN

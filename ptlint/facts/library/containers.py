"""Methods of lists, dicts and iterators."""

from __future__ import annotations

from ptlint.facts import iteration
from ptlint.facts.arguments import Arguments
from ptlint.facts.events import Place, Store
from ptlint.facts.homes import Frame
from ptlint.facts.run import Run
from ptlint.facts.values import (
    NONE,
    UNKNOWN,
    Const,
    Items,
    Mapping,
    Num,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
    join_all,
    options,
    through,
)

MAX_ITEMS = 64


def method(
    run: Run, receiver: Sequence | Mapping | Tuple | Items, name: str, args: Arguments, place: Place, frame: Frame
) -> Value:
    if isinstance(receiver, Sequence):
        return _sequence(run, receiver, name, args, place, frame)
    if isinstance(receiver, Mapping):
        return _mapping(run, receiver, name, args, place, frame)
    if isinstance(receiver, Items) and name in ("set_description", "set_postfix", "set_postfix_str", "update", "close"):
        from ptlint.facts.library.builtins import read_all
        from ptlint.facts.library.frameworks import read_keywords

        if name.startswith("set_"):
            read_all(run, args, place, frame, "argument")
            read_keywords(run, args, place, frame)
        return NONE
    if name in ("index", "count"):
        return Num("int")
    return iteration.item_of(run, receiver, place, frame) or UNKNOWN if name == "__next__" else UNKNOWN


def _note_store(run: Run, holder: Sequence | Mapping, value: Value, place: Place, frame: Frame) -> Value:
    """Note a tensor that goes into a container; the value, marked so."""
    if not any(isinstance(option, (Tensor, Tuple, Unknown)) for option in options(value)):
        return value
    event = Store(place, frame.ctx, value, "append", "", holder, holder.ctx)
    run.emit(event)
    return through(value, event.token)


def _sequence(run: Run, receiver: Sequence, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if name in ("append", "add", "appendleft", "insert"):
        value = args.positional[-1] if args.positional else UNKNOWN
        value = _note_store(run, receiver, value, place, frame)
        in_loop = any(ctx.kind == "loop" for ctx in frame.ctx.up()) and receiver.ctx is not frame.ctx
        full = receiver.items is None or len(receiver.items) >= MAX_ITEMS
        if full or in_loop or name == "insert":
            receiver.blur(value) if not _known(receiver, value) else None
        else:
            assert receiver.items is not None
            receiver.items.append(value)
        return NONE
    if name in ("extend", "extendleft", "update"):
        source = args.first()
        if isinstance(source, (Sequence, Tuple)) and source.items is not None and receiver.items is not None:
            if len(receiver.items) + len(source.items) <= MAX_ITEMS and not any(
                c.kind == "loop" for c in frame.ctx.up()
            ):
                receiver.items.extend(source.items)
                return NONE
        item = iteration.item_of(run, source, place, frame)
        if item is not None:
            receiver.blur(_note_store(run, receiver, item, place, frame))
        return NONE
    if name in ("pop", "popleft"):
        return receiver.element()
    if name == "copy":
        return receiver
    if name in ("index", "count"):
        return Num("int")
    if name == "clear" and receiver.items is not None:
        receiver.items = []
    return NONE if name in ("sort", "reverse", "clear", "remove") else UNKNOWN


def _known(receiver: Sequence, value: Value) -> bool:
    """Whether appending the same object again tells nothing new."""
    return receiver.items is None and receiver.item is not None and receiver.item.key() == value.key()


def _mapping(run: Run, receiver: Mapping, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    everything = [*receiver.entries.values(), *([receiver.rest] if receiver.rest is not None else [])]
    if name in ("get", "pop", "setdefault"):
        key, default = args.first(), args.get("default", 1, NONE)
        if isinstance(key, Const):
            if key.value in receiver.entries:
                return receiver.entries[key.value]
            if name == "setdefault":
                receiver.entries[key.value] = default
            return default if receiver.rest is None else join(receiver.rest, default)
        return join_all([*everything, default])
    if name == "update":
        for value in args.positional:
            if isinstance(value, Mapping):
                receiver.entries.update(value.entries)
                receiver.origins.update(value.origins)
                receiver.rest = receiver.rest or value.rest
            else:
                receiver.rest = UNKNOWN
        receiver.entries.update(args.keywords)
        receiver.origins.update({key: place.at(node) for key, node in args.keyword_nodes.items()})
        receiver.open = receiver.open or args.open
        return NONE
    if name == "items":
        keys: Value = join_all([Const(k) for k in receiver.entries]) if 0 < len(receiver.entries) <= 4 else Num("str")
        return Items(Tuple((keys, join_all(everything) if everything else UNKNOWN)), "items")
    if name == "values":
        return Items(join_all(everything) if everything else UNKNOWN, "values")
    if name == "keys":
        return Items(Num("str"), "keys")
    return receiver if name == "copy" else UNKNOWN

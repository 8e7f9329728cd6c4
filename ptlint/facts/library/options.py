"""Command-line options: argparse and its like give soft defaults."""

from __future__ import annotations

from ptlint.facts.arguments import Arguments
from ptlint.facts.events import Call, Place
from ptlint.facts.homes import Frame
from ptlint.facts.library.registry import models
from ptlint.facts.run import Run
from ptlint.facts.values import NONE, UNKNOWN, Const, Lib, Num, Options, Other, Sequence, Tuple, Value
from ptlint.facts.values import options as alternatives


@models(
    "argparse.ArgumentParser",
    "configargparse.ArgumentParser",
    "configargparse.ArgParser",
    "transformers.HfArgumentParser",
)
def _parser(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    made = run.make(Other, place, frame.ctx, "parser")
    parents = args.keywords.get("parents")
    for parent in (parents.items or ()) if isinstance(parents, (Sequence, Tuple)) else ():
        for option in alternatives(parent):
            if isinstance(option, Other):
                made.attrs.update(option.attrs)
    return made


def parser_method(run: Run, receiver: Other, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A method of an argument parser (or of a group of it)."""
    if name == "add_argument":
        dest = _add(receiver, args)
        if dest is not None:
            run.emit(Call(place, frame.ctx, "parser.add_argument", args.bind(()), Const(dest), receiver), dest)
        return UNKNOWN
    if name in ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser"):
        return receiver
    if name == "set_defaults":
        for key, value in args.keywords.items():
            receiver.attrs[key] = _soft(value)
        return NONE
    if name in ("parse_args", "parse_known_args"):
        made = run.make(Options, place, frame.ctx)
        made.attrs.update({key: value for key, value in receiver.attrs.items() if key not in made.attr_ctx})
        return made if name == "parse_args" else Tuple((made, UNKNOWN))
    return UNKNOWN


def _add(receiver: Other, args: Arguments) -> str | None:
    """Note an option; the attribute that will hold it."""
    flags = [v.value for v in args.positional if isinstance(v, Const) and isinstance(v.value, str)]
    given = args.keywords.get("dest")
    if isinstance(given, Const):
        dest = str(given.value)
    else:
        named = [flag for flag in flags if flag.startswith("--")] or flags
        if not named:
            return None
        dest = named[0].lstrip("-").replace("-", "_")
    receiver.attrs[dest] = _default(args, bool(flags) and not flags[0].startswith("-"))
    return dest


def _default(args: Arguments, positional: bool) -> Value:
    action = args.keywords.get("action")
    if isinstance(action, Const) and action.value == "store_true":
        return _soft(args.keywords.get("default", Const(False)))
    if isinstance(action, Const) and action.value == "store_false":
        return _soft(args.keywords.get("default", Const(True)))
    if "default" in args.keywords:
        default = _converted(args.keywords["default"], args.keywords.get("type"))
        if isinstance(default, Const) and default.value is None:
            return Num("any")
        return _soft(default)
    kind = args.keywords.get("type")
    if isinstance(kind, Lib) and kind.name in ("builtins.int", "builtins.float", "builtins.str"):
        return Num(kind.name.rpartition(".")[2])
    if positional:
        return Num("str")
    return Num("any")


def _converted(value: Value, kind: Value | None) -> Value:
    """argparse converts string defaults by `type`."""
    if isinstance(kind, Lib) and isinstance(value, Const) and isinstance(value.value, str):
        try:
            if kind.name == "builtins.int":
                return Const(int(value.value))
            if kind.name == "builtins.float":
                return Const(float(value.value))
        except ValueError:
            return Num("any")
    return value


def _soft(value: Value) -> Value:
    return Const(value.value, True) if isinstance(value, Const) else value

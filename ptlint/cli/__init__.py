"""The command line: thin click commands over the pipeline.

`ptlint PATH…` is `ptlint check PATH…`: the first word is taken for a command only where it is the name of one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

import click

from ptlint import __version__
from ptlint.cli.messages import error, warning
from ptlint.config import ConfigError, nearest

_INTERRUPTED = 130
_PIPE_CLOSED = 141


def commands() -> dict[str, click.Command]:
    """The commands by name."""
    from ptlint.cli.check import check
    from ptlint.cli.rule import rule

    return {"check": check, "rule": rule}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status; no error leaves this as a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    try:
        return _run(words)
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.ClickException as problem:
        error(problem.format_message().replace("\n", " "))
        return 2
    except ConfigError as problem:
        error(str(problem))
        return 2
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left; Python's own flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except Exception as failure:  # noqa: BLE001 - the last line of defence: say what happened, in one line
        return _report(failure)


def _open_closed_streams() -> None:
    """Where the shell closed a stream (`ptlint >&-`), Python has None in its place: read and write nothing there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - no path; open until the end


def _run(words: list[str]) -> int:
    if words and words[0] in ("--version", "-V"):
        click.echo(f"ptlint {__version__}")
        return 0
    known = commands()
    if words and words[0] in ("--help", "-h"):
        click.echo(_overview(known))
        return 0
    try:
        os.getcwd()
    except OSError as problem:
        raise click.UsageError(f"the current folder cannot be used: {problem.strerror}") from None
    name = words[0] if words and words[0] in known else "check"
    _refuse_mistyped_command(words, known)
    rest = words[1:] if words and words[0] in known else words
    if rest is not words and os.path.exists(name):
        warning(f"`{name}` is read as the command; for the path of that name write `./{name}`")
    status = known[name].main(rest, prog_name=f"ptlint {name}", standalone_mode=False)
    sys.stdout.flush()
    return status if isinstance(status, int) else 0


def _refuse_mistyped_command(words: list[str], known: Iterable[str]) -> None:
    """A first word that is no path, but nearly a command."""
    if words and words[0].isidentifier() and words[0] not in known and not os.path.exists(words[0]):
        near = nearest(words[0], known)
        if near:
            raise click.UsageError(f"no such command or path `{words[0]}`{near}")


def _overview(known: dict[str, click.Command]) -> str:
    width = max(map(len, known))
    listed = "\n".join(f"  {name:<{width}}  {command.get_short_help_str(70)}" for name, command in known.items())
    return (
        "Usage: ptlint [COMMAND] [OPTIONS] [PATH]...\n\n"
        "Finds what makes PyTorch code slow, and rewrites what can be rewritten.\n\n"
        f"Commands:\n{listed}\n\n"
        "`ptlint PATH...` is short for `ptlint check PATH...`, and takes its options:\n\n"
        "  ptlint train.py              what is slow in this script\n"
        "  ptlint --fix train.py        make the safe changes\n"
        "  ptlint --diff .              show them for a whole project, change nothing\n\n"
        "`ptlint COMMAND --help` lists a command's options."
    )


def _report(failure: Exception) -> int:
    import traceback

    if os.environ.get("PTLINT_DEBUG"):
        traceback.print_exception(failure)
    last = traceback.extract_tb(failure.__traceback__)[-1]
    error(
        f"a failure of ptlint's own: {type(failure).__name__}: {failure} "
        f"({os.path.basename(last.filename)}:{last.lineno}); "
        "please report this line with the command and `ptlint --version`"
    )
    return 2

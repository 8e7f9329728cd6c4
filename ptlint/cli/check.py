"""`ptlint check`: lint, and fix where asked."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptlint.cli.messages import NearChoice, NoEmptyPath, error, warning
from ptlint.config import DEVICES, IMPACTS, OUTPUT_FORMATS, Config, ConfigError, read_impact, read_version

if TYPE_CHECKING:
    from ptlint.report.style import Style
    from ptlint.runner import Outcome, Request

LIST = "A comma-separated list; may be given several times."


def _split(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    """The words of a comma-separated option; None where it is not given."""
    if not values:
        return None
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def _selectors(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    """The same for codes, prefixes and names of rules."""
    words = _split(context, option, values)
    _check_rules(words or (), context, option)
    return words


def _check_rules(words: Iterable[str], context: click.Context, option: click.Parameter) -> None:
    from ptlint import registry

    for word in words:
        if not registry.matching(word):
            raise click.BadParameter(registry.unknown(word), ctx=context, param=option)


def _pairs(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """`glob:CODE,CODE,glob:CODE` as pairs."""
    if not values:
        return None
    found: list[tuple[str, list[str]]] = []
    for word in (word.strip() for value in values for word in value.split(",")):
        glob, colon, code = word.rpartition(":")
        if colon:
            found.append((glob, [code]))
        elif found and word:
            found[-1][1].append(word)
        else:
            raise click.BadParameter(f"`{word}` is not GLOB:CODE", ctx=context, param=option)
    _check_rules((code for _, codes in found for code in codes), context, option)
    return tuple((glob, tuple(codes)) for glob, codes in found)


def _checked(read: Callable[[object], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    def callback(context: click.Context, option: click.Parameter, value: str | None) -> Any:
        if value is None:
            return None
        try:
            return read(value)
        except ValueError as problem:
            raise click.BadParameter(str(problem), ctx=context, param=option) from None

    return callback


@click.command(short_help="Lint files and folders (the default command).")
@click.argument("paths", nargs=-1, type=NoEmptyPath(path_type=Path), metavar="[PATH]...")
@click.option("--fix/--no-fix", default=None, help="Make the safe changes.")
@click.option("--unsafe-fixes/--no-unsafe-fixes", default=None, help="With --fix or --diff: the unsafe changes too.")
@click.option("--diff", is_flag=True, help="Print what --fix would change; write nothing.")
@click.option("--select", multiple=True, callback=_selectors, help=f"Rules to run: codes, prefixes or names. {LIST}")
@click.option("--ignore", multiple=True, callback=_selectors, help="Rules to leave out.")
@click.option("--extend-select", multiple=True, callback=_selectors, help="Rules to run as well.")
@click.option("--per-file-ignores", multiple=True, callback=_pairs, help="Rules to leave out of files: GLOB:CODE,….")
@click.option("--preview/--no-preview", default=None, help="Show findings that may be wrong more than once in twenty.")
@click.option("--min-impact", type=NearChoice(IMPACTS), callback=_checked(read_impact), help="Hide lesser findings.")
@click.option("--exclude", multiple=True, callback=_split, help="Globs to skip instead of the default ones.")
@click.option("--extend-exclude", multiple=True, callback=_split, help="Globs to skip as well.")
@click.option("--force-exclude/--no-force-exclude", default=None, help="Skip excluded files even when named.")
@click.option("--output-format", type=NearChoice(OUTPUT_FORMATS), help="How to print findings; full by default.")
@click.option("--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to a file.")
@click.option("--statistics", is_flag=True, help="Print how often each rule fired instead of the findings.")
@click.option("--explain-finding", is_flag=True, help="Show the whole chain of facts behind each finding.")
@click.option("--debug-facts", is_flag=True, help="Print what is known of a file, for bug reports; no findings.")
@click.option("--add-ignores", is_flag=True, help="Write a suppression comment for each finding.")
@click.option("--device", type=NearChoice(DEVICES), help="What the code runs on, where it does not say.")
@click.option("--torch-version", callback=_checked(read_version), metavar="X.Y", help="The oldest PyTorch to support.")
@click.option("--stdin-filename", type=click.Path(path_type=Path), help="What the text on stdin stands for.")
@click.option("--root", type=click.Path(path_type=Path, exists=True, file_okay=False), help="The project's folder.")
@click.option("--config", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The config file to use.")
@click.option("--isolated", is_flag=True, help="Ignore all config files.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 where findings would make it 1.")
def check(paths: tuple[Path, ...], **options: Any) -> int:
    """Find what makes PyTorch code slow in files and folders.

    With no PATH, the current folder is linted; `-` reads the text from stdin.
    """
    from ptlint import runner

    _refuse_nonsense(paths, options)
    request = runner.Request(
        paths=paths or (Path(),),
        stdin=sys.stdin.buffer.read() if Path("-") in paths else None,
        stdin_filename=options["stdin_filename"],
        override=_override(options),
        config_file=options["config"],
        isolated=options["isolated"],
        root=options["root"],
        diff=options["diff"],
        add_ignores=options["add_ignores"],
        explain=options["explain_finding"],
    )
    if options["debug_facts"]:
        return _debug_facts(request, options)
    from ptlint.cli.progress import progress

    with progress() as tick:
        outcome = runner.run(request, tick)
    for note in outcome.report.notes:
        warning(note)
    for line in outcome.errors:
        error(line)
    _print(outcome, request, options)
    return 0 if outcome.status == 1 and options["exit_zero"] else outcome.status


def _debug_facts(request: Request, options: dict[str, Any]) -> int:
    from ptlint.plan import plan
    from ptlint.report.concise_format import line
    from ptlint.report.debug_facts import debug_facts

    todo = plan(request)
    for problem in todo.errors:
        error(problem)
    style = _style(todo.config, options, to_stderr=False)
    parts = ["".join(f"{line(finding, style)}\n" for finding in todo.unread)]
    parts += (debug_facts(group.project, path, group.config, style) for group in todo.groups for path in group.files)
    _write("\n".join(part for part in parts if part), style, options)
    return 2 if todo.errors else 0


def _refuse_nonsense(paths: tuple[Path, ...], options: dict[str, Any]) -> None:
    if options["isolated"] and options["config"]:
        raise click.UsageError("--isolated and --config exclude each other")
    if options["debug_facts"]:
        wrong = next((name for name in ("fix", "diff", "add_ignores", "statistics") if options[name]), None)
        if wrong is not None:
            raise click.UsageError(f"--debug-facts and --{wrong.replace('_', '-')} exclude each other")
        if not paths or any(path.is_dir() for path in paths):
            raise click.UsageError("--debug-facts needs a file")
    if options["diff"] and options["add_ignores"]:
        raise click.UsageError("--diff and --add-ignores exclude each other")
    if options["fix"] and options["add_ignores"]:
        raise click.UsageError("--fix and --add-ignores exclude each other")
    if Path("-") in paths:
        if len(paths) > 1:
            raise click.UsageError("`-` stands for stdin and excludes other paths")
        if options["add_ignores"]:
            raise click.UsageError("--add-ignores writes files and cannot be used on stdin")
    elif options["stdin_filename"]:
        raise click.UsageError("--stdin-filename needs `-` as the path")


def _override(options: dict[str, Any]) -> Callable[[Config], Config]:
    """What the command line says on top of a config; `--select` starts afresh."""
    given = {
        key: value
        for key, value in options.items()
        if value is not None and key in Config.__dataclass_fields__ and key not in ("root", "select", "ignore")
    }
    select, ignore = options["select"], options["ignore"] or ()

    def override(config: Config) -> Config:
        if select is not None:
            config = replace(config, select=select, extend_select=(), ignore=())
        return replace(config, ignore=(*config.ignore, *ignore), **given)

    return override


def _print(outcome: Outcome, request: Any, options: dict[str, Any]) -> None:
    from ptlint import report

    text = ""
    to_stderr = False
    if options["add_ignores"]:
        text = _added(outcome)
    elif request.diff:
        text = outcome.diff
    elif request.stdin is not None and outcome.config.fix:
        sys.stdout.flush()
        sys.stdout.buffer.write(outcome.stdin_result)
        sys.stdout.buffer.flush()
        to_stderr = True
    style = _style(outcome.config, options, to_stderr=to_stderr)
    if not text and not request.diff:
        render = report.statistics if options["statistics"] else report.render
        text = render(outcome.config.output_format, outcome.report, style)
    _write(text, style, options, to_stderr=to_stderr)


def _write(text: str, style: Style, options: dict[str, Any], *, to_stderr: bool = False) -> None:
    if options["output_file"]:
        try:
            options["output_file"].write_text(text, encoding="utf-8", newline="")
        except OSError as problem:
            path = options["output_file"]
            raise ConfigError(f"--output-file: {path} cannot be written: {problem.strerror}") from None
    else:
        try:
            click.echo(text, nl=False, err=to_stderr, color=style.colour or None)
        except BrokenPipeError:
            raise
        except OSError as problem:
            # What is left in the stream's buffer must not fail again when Python closes it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if to_stderr else sys.stdout).fileno())
            raise click.ClickException(f"the report cannot be written: {problem.strerror}") from None


def _style(config: Config, options: dict[str, Any], *, to_stderr: bool) -> Style:
    from ptlint.cli.progress import wants_colour
    from ptlint.report.style import Style

    stream = sys.stderr if to_stderr else sys.stdout
    terminal = stream.isatty() and not options["output_file"]
    return Style(
        colour=wants_colour(stream) and not options["output_file"],
        width=min(shutil.get_terminal_size().columns, 120) if terminal else None,
        explain=options["explain_finding"],
        unsafe_fixes=config.unsafe_fixes,
    )


def _added(outcome: Outcome) -> str:
    from ptlint.report.closing import counted

    comments = counted(sum(outcome.report.fixed.values()), "suppression")
    return f"Added {comments} in {counted(len(outcome.report.fixed), 'file')}.\n"

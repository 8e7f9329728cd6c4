"""Which calls of libraries in real code give a result that ptlint does not know: where the API table lacks most.

    python scripts/unknown_calls.py [--top 60] FOLDER…

Every program of the folders is executed abstractly, as for linting. Counted are places of calls by the library's
qualified name (once each, however often they run), those of Python's own library left out, and as unknown only those
whose result is used. What the table has, but says "unknown" of, is marked with a star. Methods of values that are not
known follow; they have no qualified name.
"""

from __future__ import annotations

import builtins
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import click
import libcst as cst

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ptlint.config import Config
from ptlint.engine import KEPT_LINES
from ptlint.facts import torch_api
from ptlint.facts.events import Backward, Call, Event, Forward, Move, Place, Placed, Read, Step
from ptlint.facts.homes import Trees
from ptlint.facts.program import ProgramFacts, analyse
from ptlint.facts.values import UNSURE, Other, Unknown, options
from ptlint.outline.project import Project

PLAIN = frozenset(sys.stdlib_module_names) | frozenset(dir(builtins))
UNDERSTOOD: tuple[type[Event], ...] = (Move, Placed, Read, Backward, Step, Forward)

Site = tuple[str, int]


class Tally:
    """The places of calls by name: all, and those with an unknown result."""

    def __init__(self) -> None:
        self.calls: set[Site] = set()
        self.unknown: defaultdict[str, set[Site]] = defaultdict(set)
        self.folders: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, facts: ProgramFacts, folder: str) -> None:
        understood = {id(event.place.node) for kind in UNDERSTOOD for event in facts.events(kind)}
        for event in facts.events(Call):
            if event.name.partition(".")[0] in PLAIN and not event.name.startswith("."):
                continue
            site = (str(event.place.path), event.place.start)
            if not event.name.startswith("."):
                self.calls.add(site)
            used = _is_used(event.place)
            if used and is_unknown(event) and id(event.place.node) not in understood:
                self.unknown[event.name].add(site)
                self.folders[event.name].add(folder)


def _is_used(place: Place) -> bool:
    """Whether something is done with the result of a call; a decorator that is not known is looked through."""
    return isinstance(place.node, cst.Call) and not isinstance(place.tree.parent(place.node), (cst.Expr, cst.Decorator))


def is_unknown(event: Call) -> bool:
    """Whether nothing says what a call gives.

    The trace has the results of functions and classes, not those of methods: of these the table's word counts.
    """
    if isinstance(event.receiver, Other):
        return False  # an object that has a model of its own
    api = torch_api.lookup(event.name)
    if api is not None and (event.receiver is not None or api.kind == "method"):
        return api.returns == "unknown"
    return any(
        isinstance(option, Unknown) and option.where == UNSURE and option.batch is None
        for option in options(event.result)
    ) and (api is None or api.returns == "unknown")


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--top", default=60, show_default=True, help="How many names to print.")
def main(folders: Sequence[Path], top: int) -> None:
    """Count the calls with unknown results in FOLDERS."""
    tally = Tally()
    for folder in folders:
        project, trees, done = Project(folder), Trees(), 0
        for program in project.programs():
            if trees.lines > KEPT_LINES:
                trees = Trees()
            tally.add(analyse(project, program, Config(root=folder), trees), folder.name)
            done += 1
        print(f"{folder.name}: {done} programs", file=sys.stderr, flush=True)
    _print(tally, top)


def _print(tally: Tally, top: int) -> None:
    named = Counter({name: len(sites) for name, sites in tally.unknown.items() if not name.startswith(".")})
    methods = Counter({name: len(sites) for name, sites in tally.unknown.items() if name.startswith(".")})
    sites = set().union(*(places for name, places in tally.unknown.items() if not name.startswith(".")))
    share = 100 * len(sites) / max(len(tally.calls), 1)
    entries = [torch_api.lookup(name) for name in torch_api.names()]
    blank = sum(entry is not None and entry.kind != "module" and entry.returns == "unknown" for entry in entries)
    print(f"table: {len(entries)} entries, {blank} of them with an unknown result")
    print(f"calls of libraries: {len(tally.calls)}")
    print(f"with a result that is used and not known: {len(sites)} ({share:.1f} %), of {len(named)} names")
    for name, count in named.most_common(top):
        star = "*" if torch_api.lookup(name) is not None else " "
        print(f"{count:6} {star} {name}  ({len(tally.folders[name])} projects)")
    print(f"methods of what is not known: {sum(methods.values())}, {len(methods)} names")
    for name, count in methods.most_common(top // 2):
        print(f"{count:6}   {name}  ({len(tally.folders[name])} projects)")


if __name__ == "__main__":
    main()

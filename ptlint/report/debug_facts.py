"""What ptlint knows of a file, line by line, for bug reports."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst

from ptlint import engine
from ptlint.facts import torch_api
from ptlint.facts.classes import LOADER_PARAMS
from ptlint.facts.events import (
    Backward,
    Call,
    Construct,
    Ctx,
    Enter,
    Event,
    Forward,
    Move,
    Placed,
    Read,
    Step,
)
from ptlint.facts.models import parts
from ptlint.facts.program import analyse
from ptlint.facts.reasons import Reasons
from ptlint.facts.run import MAX_WORK, parts_of
from ptlint.facts.values import (
    DEVICE,
    HOST,
    UNSURE,
    Const,
    Dataset,
    Device,
    Loader,
    Mode,
    Module,
    Obj,
    Optimizer,
    ProjectClass,
    Scaler,
    Tensor,
    Unknown,
    Value,
    options,
    sources_of,
)
from ptlint.paths import shown
from ptlint.report.closing import counted
from ptlint.report.concise_format import line as one_line
from ptlint.report.style import printable

if TYPE_CHECKING:
    from ptlint.config import Config
    from ptlint.facts.program import ProgramFacts
    from ptlint.outline.project import Project
    from ptlint.report.style import Style

MAX_PROGRAMS = 3
MAX_NAMES = 40

_TELLING = frozenset({"num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "drop_last"})
"""Arguments of a loader whose absence tells something."""
_PLAIN = frozenset(sys.stdlib_module_names) | frozenset(dir(builtins))
"""Where names come from that have nothing to do with tensors."""

_TELLING_EVENTS: tuple[type[Event], ...] = (Move, Placed, Read, Backward, Step, Forward)

_PLACES = {DEVICE: "on the device", HOST: "on the host"}


def debug_facts(project: Project, path: Path, config: Config, style: Style) -> str:
    """The facts of a file in each program that holds it; its PTL002 where it cannot be read."""
    problem = engine.unread(project.file(path))
    if problem is not None:
        return f"{one_line(problem, style)}\n"
    programs = project.programs_of(path)
    told = [_in_program(analyse(project, program, config), path) for program in programs[:MAX_PROGRAMS]]
    more = [f"and in {counted(len(programs) - MAX_PROGRAMS, 'more program')}"] if len(programs) > MAX_PROGRAMS else []
    return "\n\n".join(printable_lines([*told, *more])) + "\n"


def printable_lines(parts: list[str]) -> Iterator[str]:
    for part in parts:
        yield "\n".join(map(printable, part.split("\n")))


def _in_program(facts: ProgramFacts, path: Path) -> str:
    described = _File(facts, path)
    entry, files = facts.program.entry, len(facts.program.files)
    what = "the entry" if entry == path else f"imported from {shown(entry)}"
    head = f"{shown(path)}: {what} of a program of {counted(files, 'file')}"
    if entry != path:
        head = f"{shown(path)}: {what}, a program of {counted(files, 'file')}"
    lines = [head, f"  GPU   {described.reasons.accelerated(path)}"]
    row = 0
    for number, text in described.lines():
        lines.append(f"  {number if number != row else '':>4}  {text}")
        row = number
    lines += described.closing()
    return "\n".join(lines)


class _File:
    """Sentences about what happens in one file of a program."""

    def __init__(self, facts: ProgramFacts, path: Path) -> None:
        self._facts = facts
        self._path = path
        self.reasons = Reasons(facts)

    def lines(self) -> list[tuple[int, str]]:
        """What is known, by row; the same thing in several calls of a function once."""
        found: dict[tuple[int, str], int] = {}
        for loop in self._facts.roles.every_loop():
            if loop.place is not None and loop.place.path == self._path:
                text = self._loop(loop)
                if text:
                    found.setdefault((loop.place.row, text), loop.place.start)
        for event in self._facts.run.trace:
            if event.place.path == self._path:
                text = self._event(event)
                if text:
                    found.setdefault((event.place.row, text), event.place.start)
        return sorted(found, key=lambda line: (line[0], found[line], line[1]))

    def closing(self) -> Iterator[str]:
        """What is not known: results of calls, and functions that were not looked at."""
        unknown: dict[str, set[int]] = {}
        understood = {id(event.place.node) for kind in _TELLING_EVENTS for event in self._facts.events(kind)}
        for event in self._facts.events(Call):
            if event.place.path == self._path and is_unknown(event) and id(event.place.node) not in understood:
                unknown.setdefault(event.name, set()).add(event.place.row)
        names = [f"`{name}` ({_rows(rows)})" for name, rows in sorted(unknown.items())]
        calls = [name for name in names if not name.startswith("`.")]
        if calls:
            yield f"  calls whose result is not known: {_cut(calls)}"
        if len(calls) < len(names):
            yield f"  methods of what is not known: {_cut([name for name in names if name.startswith('`.')])}"
        alone = [f"`{name}` ({row})" for name, row in self._not_run()]
        if alone:
            yield f"  not looked at, for nothing calls it: {_cut(alone)}"
        if self._facts.run.work > MAX_WORK:
            yield "  the program is so large that its last calls were not followed"

    def _not_run(self) -> Iterator[tuple[str, int]]:
        """The functions and methods of the file that were not executed."""
        run = self._facts.run
        file = self._facts.project.file(self._path)
        for statement in file.outline.statements:
            tree = run.trees.tree(file, statement) if statement.kind in ("def", "class") else None
            for node in tree.module.body if tree is not None else ():
                if isinstance(node, cst.FunctionDef):
                    members: list[tuple[str, cst.FunctionDef]] = [(node.name.value, node)]
                elif isinstance(node, cst.ClassDef):
                    body = node.body.body
                    members = [(f"{node.name.value}.{m.name.value}", m) for m in body if isinstance(m, cst.FunctionDef)]
                else:
                    continue
                for name, function in members:
                    if id(function) not in run.called and tree is not None:
                        yield name, file.source.position(tree.span(function)[0]).row if file.source else 0

    # Loops

    def _loop(self, loop: Ctx) -> str:
        """What a loop is for; "" for one that nothing here is about."""
        said = self.reasons.loop(loop, self._path)
        _, _, rest = said.partition(f"the loop in {loop.line(self._path)} ")
        if not loop.role:
            rest = f"has no role: {self.reasons.without_role(loop)}"
        over = self.reasons.goes_over(loop, self._path)
        if not (loop.role or over or self._facts.roles.under(loop)):
            return ""
        return f"this loop {rest}" + (f"; {over}" if over else "")

    # Events

    def _event(self, event: Event) -> str:
        if isinstance(event, Construct):
            return self._made(event)
        if isinstance(event, Placed):
            return f"moves {self._module(event.module)} {_to(event.target)}"
        if isinstance(event, Move):
            return f"moves {self._tensor(event.value)}, {_to(event.target)}{self._hot(event)}"
        if isinstance(event, Read):
            decides = ", which decides how the loop goes on" if event.decides else ""
            return f"reads {self._tensor(event.value)} (`{event.how}`{decides}){self._hot(event)}"
        if isinstance(event, Forward) and event.outer:
            return f"calls {self._module(event.module)}: {self._modes(event)}{self._result(event)}{self._hot(event)}"
        if isinstance(event, Backward):
            scaled = " on a scaled loss" if event.scaled else ""
            return f"runs backward{scaled}{self._hot(event)}"
        if isinstance(event, Step):
            if event.by_hand:
                return f"updates parameters by hand{self._hot(event)}"
            through = " through a GradScaler" if event.scaler is not None else ""
            return f"steps {self._optimizer(event.optimizer)}{through}{self._hot(event)}"
        if isinstance(event, Enter):
            return f"puts {_mode(event.mode)} in force"
        return ""

    def _made(self, event: Construct) -> str:
        value = event.value
        if isinstance(value, Loader):
            return f"makes a loader: {_states(value)}"
        if isinstance(value, Optimizer):
            return f"makes {self._optimizer(value)}"
        if isinstance(value, Scaler):
            return "makes a GradScaler"
        if isinstance(value, Dataset):
            return f"makes the dataset {_name(value)}"
        if isinstance(value, Module) and not _within_module(event.ctx) and id(value) not in self._layers:
            around = f" around {self._module(value.inner)}" if value.inner is not None else ""
            held = any(value.core is part for module in self._facts.trained for part in parts(module))
            return f"makes the model {_name(value)}{around}, held by {'an' if held else 'no'} optimizer"
        return ""

    @cached_property
    def _layers(self) -> set[int]:
        """The modules that are part of another one."""
        modules = [event.value for event in self._facts.events(Construct) if isinstance(event.value, Module)]
        return {id(part) for module in modules for part in parts(module) if part is not module.core}

    def _optimizer(self, value: Value) -> str:
        for option in options(value):
            if isinstance(option, Optimizer):
                held = " and ".join(dict.fromkeys(self._module(module) for module in option.modules))
                held = held or ("plain tensors" if option.tensors else "what is not known")
                return f"the optimizer {_name(option)} over {held}"
        return "an optimizer that is not known"

    def _module(self, value: Value) -> str:
        found = [option for option in options(value) if isinstance(option, Module)]
        names = dict.fromkeys(
            _name(each) + (f" of {each.place.line(self._path)}" if each.place is not None else "") for each in found
        )
        return " or ".join(names) or "what is not known"

    def _tensor(self, value: Value) -> str:
        for option in options(value):
            if not isinstance(option, (Tensor, Unknown)):
                continue
            kind = "a tensor" if isinstance(option, Tensor) else "what may be a tensor"
            for source in sources_of(option.batch):
                place = source.place if isinstance(source, Obj) else None
                made = f" made in {place.line(self._path)}" if place is not None and isinstance(source, Loader) else ""
                kind = f"a batch of {'the loader' if isinstance(source, Loader) else 'what the loop goes over'}{made}"
                break
            return f"{kind}, {_PLACES.get(option.where, 'in a place that is not known')}"
        return "what is not known to be a tensor"

    def _result(self, event: Forward) -> str:
        found = {part.where for part in parts_of(event.result) if isinstance(part, (Tensor, Unknown))}
        known = [_PLACES[where] for where in sorted(found) if where in _PLACES]
        return f", the result is {' or '.join(known)}" if known else ", where the result lies is not known"

    def _modes(self, event: Event) -> str:
        gradients = "gradients on" if event.grad else "gradients off"
        autocast = next((mode for mode in event.ctx.modes() if mode.kind == "autocast"), None)
        return f"{gradients}, {_mode(autocast)}" if autocast is not None else gradients

    def _hot(self, event: Event) -> str:
        loop = self._facts.hot(event)
        if loop is not None:
            return f"; hot: in the {loop.role} loop of {loop.line(self._path)}"
        return f"; not hot: {self.reasons.cold(event, self._path)}"


def is_unknown(event: Call) -> bool:
    """Whether nothing tells what a call gives: no model and no entry of the API table, and it matters what it is."""
    if event.name.partition(".")[0] in _PLAIN or torch_api.lookup(event.name) is not None:
        return False
    found = [option for option in options(event.result) if isinstance(option, Unknown)]
    return any(option.where == UNSURE and option.batch is None for option in found)


def _states(loader: Loader) -> str:
    call = loader.call
    if call is None:
        return "its arguments are not known"
    absent, said = [], []
    for name in LOADER_PARAMS:
        state = call.state(name)
        if state == "set":
            said.append(f"{name}={_text(call.get(name))}")
        elif state == "absent":
            if name in _TELLING:
                absent.append(name)
        else:
            said.append(f"{name} unknown")
    return "; ".join(filter(None, (", ".join(said), f"absent: {', '.join(absent)}" if absent else "")))


def _text(value: Value) -> str:
    found = []
    for option in options(value):
        if isinstance(option, Const):
            found.append(f"{option.value!r}{' by default' if option.soft else ''}")
        elif isinstance(option, Obj):
            found.append(_name(option).strip("`"))
        else:
            found.append("?")
    return " or ".join(dict.fromkeys(found))


def _name(value: Obj) -> str:
    cls = value.cls
    if isinstance(cls, ProjectClass):
        return f"`{cls.name}`"
    if cls is not None:
        return f"`{cls.name.removeprefix('torch.nn.').removeprefix('torch.optim.')}`"
    return f"`{value.place.brief}`" if value.place is not None else f"a {type(value).__name__.lower()}"


def _to(target: Value) -> str:
    for option in options(target):
        if isinstance(option, Device):
            where = {DEVICE: "to the device", HOST: "to the host"}.get(option.where, "to a device that is not known")
            return f"{where}{' (chosen at run time)' if option.soft else ''}"
    return "to a device that is not known"


def _mode(mode: Mode) -> str:
    off = isinstance(mode.enabled, Const) and mode.enabled.value is False
    if mode.kind == "grad":
        return "no_grad" if off else "enable_grad"
    if mode.kind == "autocast":
        return f"autocast{' off' if off else ''}{f' in {mode.dtype}' if mode.dtype else ''}"
    return mode.name or mode.kind


def _within_module(ctx: Ctx) -> bool:
    """Whether a module's own code makes it: a layer, not a model."""
    return any(
        up.kind == "frame" and up.function is not None and isinstance(up.function.self_value, Module) for up in ctx.up()
    )


def _rows(rows: set[int]) -> str:
    return ", ".join(map(str, sorted(rows)))


def _cut(names: list[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")

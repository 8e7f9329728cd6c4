"""Environment variables that a program sets: each assignment with what is known of the variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import environment, guards
from ptlint.facts.environment import Variable
from ptlint.facts.events import Assign, Call
from ptlint.facts.values import Const

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_SPAWNS = (
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.start_processes",
    "torch.multiprocessing.Process",
    "multiprocessing.Process",
)


_COMMANDS = ("subprocess.", "os.system", "os.exec", "os.spawn", "torch.distributed.run.", "torch.distributed.launch")


@dataclass(frozen=True, slots=True)
class Setting:
    """`os.environ[NAME] = value`, `setdefault`, `putenv` or `update`: `value` where it is a constant."""

    event: Assign
    variable: Variable
    value: str | None


def settings(facts: ProgramFacts) -> list[Setting]:
    """The variables that the table knows, where a program sets them (not under a switch that is off)."""
    found: list[Setting] = []
    for event in facts.events(Assign):
        if event.holder is not None or not event.target.startswith("os.environ["):
            continue
        variable = environment.lookup(event.target[len("os.environ[") : -1])
        if variable is None or any(up.kind == "guard" and up.rarity in _OFF for up in event.ctx.up()):
            continue
        value = event.value.value if isinstance(event.value, Const) and not event.value.soft else None
        found.append(Setting(event, variable, value if isinstance(value, str) else None))
    return found


_OFF = (guards.RARE, guards.EXCEPT, guards.OFF_PATH)


def reaches_children(facts: ProgramFacts, setting: Setting) -> bool:
    """Whether the program starts processes later on, which load their libraries anew with the variable set.

    Commands count in the same function only: elsewhere they may be anything.
    """
    here = setting.event.ctx
    for event in facts.events(Call):
        if event.order < setting.event.order:
            continue
        if event.name in _SPAWNS and not any(up.place is event.place for up in here.up()):
            return True
        if event.name.startswith(_COMMANDS) and event.ctx.frame() is here.frame():
            return True
    return False


def set_by_call(facts: ProgramFacts, setting: Setting) -> bool:
    """Whether the same function also makes the call that does what the variable would."""
    call = (setting.variable.instead or "").partition("(")[0]
    return any(event.ctx.frame() is setting.event.ctx.frame() for event in facts.calls(call))


def mentions(facts: ProgramFacts, name: str) -> int:
    """How often the program's strings hold a variable's name."""
    found = 0
    for path in facts.program.files:
        file = facts.project.file(path)
        for statement in file.outline.statements:
            tree = facts.run.trees.whole(file, statement) if name in statement.words else None
            if tree is not None:
                found += sum(node.evaluated_value == name for node in tree.nodes(cst.SimpleString))
    return found


def name_node(setting: Setting) -> cst.SimpleString | None:
    """The literal that names the variable, at the place where it is set."""
    for node in setting.event.place.tree.walk(setting.event.place.node):
        if isinstance(node, cst.SimpleString) and node.evaluated_value == setting.variable.name:
            return node
    return None


def value_node(setting: Setting) -> cst.SimpleString | None:
    """The literal that it is set to."""
    place = setting.event.place
    statement = place.tree.statement(place.node)
    where: cst.CSTNode = statement if isinstance(statement, cst.Assign) else place.node
    for node in place.tree.walk(where):
        if isinstance(node, cst.SimpleString) and node.evaluated_value == setting.value:
            return node
    return None

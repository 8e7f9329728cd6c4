"""Reads that hold up a loop: which the program cannot do without, and which belong together.

A read costs a wait for all that was launched before it. A second read of the same results right behind it is nearly
free, so those count as one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.events import Backward, Call, Ctx, Event, Forward, Place, Read, Step
from ptlint.facts.library.torch_calls import is_runtime
from ptlint.facts.roles import EVALUATION, in_forward
from ptlint.facts.values import WHOLE_NUMBERS, Items, Lib, Mapping, Module, Sequence, Tensor, Value, options, reads_of

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_COPIES = frozenset({"cpu", "numpy", "to", "tolist", "sink"})
_OWN_CALL = frozenset({"item", "cpu", "numpy", "to", "tolist"})
_TEXT = frozenset({"format", "print"})
_LIGHT = frozenset({"loss", "metric", "activation", "dropout", "pool"})


@dataclass(frozen=True)
class ReadGroup:
    """Reads that are one wait: of one forward's results in one list of statements.

    `results`: they carry results out of an evaluation loop, which then has one such group.
    """

    reads: tuple[Read, ...]
    loop: Ctx
    results: bool = False

    @property
    def first(self) -> Read:
        return self.reads[0]

    @property
    def place(self) -> Place:
        """The first call that reads (`print(t)`, `t.item()`); what is formatted, in an f-string."""
        read = self.first.place
        if self.first.how in _OWN_CALL:
            return read
        parent = read.tree.parent(read.node)
        call = read.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        return read.at(call) if isinstance(call, cst.Call) else read

    @property
    def code(self) -> str:
        """What reads, on one row and not long."""
        line = " ".join(self.place.code.split())
        return line if len(line) <= 40 else f"{line[:37]}..."


class Reads:
    """The hot reads of a program that it could do without, in groups."""

    def __init__(self, program: ProgramFacts) -> None:
        self._program = program
        self._turning = sorted(_turns(program), key=lambda event: event.order)
        self._turns = [event.order for event in self._turning]
        self._needed = _needed(program)
        counted = {id(found.ctx) for found in program.sample_loops}
        hot = [
            (read, loop)
            for read in program.events(Read)
            if (loop := program.hot(read)) is not None and not any(id(ctx) in counted for ctx in read.ctx.loops())
        ]
        self.groups = self._grouped(hot) if hot and program.accelerated else []

    def _grouped(self, hot: list[tuple[Read, Ctx]]) -> list[ReadGroup]:
        lists: dict[tuple[int, int, int, int], list[Read]] = {}
        loops: dict[int, Ctx] = {}
        for read, loop in sorted(hot, key=lambda item: item[0].order):
            block = _block(read)
            turn = bisect_left(self._turns, read.order)
            lists.setdefault((id(loop), id(read.ctx.frame()), id(block), turn), []).append(read)
            loops[id(loop)] = loop
        found: list[ReadGroup] = []
        known: dict[tuple[int, int, int], list[Read]] = {}
        for (loop_id, frame_id, _, turn), reads in lists.items():
            loop = loops[loop_id]
            before = known.setdefault((loop_id, frame_id, turn), [])
            if all(any(_reads_again(read, earlier) for earlier in before) for read in reads):
                continue
            before.extend(reads)
            # The wait is there anyway where one of them must be read.
            if any(self._is_needed(read, loop) for read in reads):
                continue
            results = loop.role == EVALUATION and all(_leaves(read, loop) for read in reads)
            found.append(ReadGroup(tuple(reads), loop, results))
        return list(_results_once(found))

    def _is_needed(self, read: Read, loop: Ctx) -> bool:
        if read.decides or read in self._needed:
            return True
        if self._program.timing.measured(read) or self._behind_test(read, loop):
            return True
        return is_token(read, loop, self._program)

    def _behind_test(self, read: Read, loop: Ctx) -> bool:
        """Whether the test of an arm that it stands in has just waited: for a tensor (PTL205), or a read of its own."""
        for ctx in read.ctx.up():
            if ctx is loop:
                return False
            if ctx.kind != "guard" or ctx.test is None:
                continue
            if _is_device_tensor(ctx.test):
                return not any(event.ctx.inside(ctx) and event.order < read.order for event in self._turning)
            turn = bisect_left(self._turns, read.order)
            if any(isinstance(e, Read) and bisect_left(self._turns, e.order) == turn for e in reads_of(ctx.test)):
                return True
        return False


def _reads_again(read: Read, earlier: Read) -> bool:
    """Whether a read repeats one of statements around it, which has just waited for the same value."""
    tree = read.place.tree
    if earlier.place.tree is not tree or earlier.how != read.how:
        return False
    own, around = _block(read), _block(earlier)
    if own is around or not any(up is around for up in tree.ancestors(own)):
        return False
    return tree.code(earlier.place.node) == tree.code(read.place.node)


def _is_device_tensor(value: Value) -> bool:
    return any(isinstance(option, Tensor) and option.on_device for option in options(value))


def _turns(program: ProgramFacts) -> Iterable[Event]:
    """What makes new results: forwards of networks, backwards, steps."""
    for forward in program.events(Forward):
        if forward.outer and any(_is_network(option) for option in options(forward.module)):
            yield forward
    yield from program.events(Backward)
    yield from program.events(Step)


def _is_network(module: Value) -> bool:
    """Not a loss, a metric or an activation, which only work on what a network gave."""
    if not isinstance(module, Module):
        return True
    cls = module.core.cls
    base = cls.name if isinstance(cls, Lib) else module.core.lib_base or ""
    return not torch_api.tags(base) & _LIGHT


def _block(read: Read) -> cst.CSTNode:
    """The list of statements in which a read stands."""
    tree = read.place.tree
    node: cst.CSTNode | None = tree.statement(read.place.node)
    while node is not None:
        parent = tree.parent(node)
        if parent is None or isinstance(parent, (cst.IndentedBlock, cst.Module, cst.SimpleStatementSuite)):
            return parent if parent is not None else node
        node = parent
    return read.place.node


# What must be read


def _needed(program: ProgramFacts) -> frozenset[Event]:
    """Reads whose numbers the loop needs to go on: they reach an environment, another runtime, or a network's input."""
    found: set[Event] = set()
    for call in program.events(Call):
        if _is_environment_step(call):
            found |= deep_reads(*call.args.bound.values(), *call.args.extra)
        elif _feeds_another_runtime(call):
            fed = deep_reads(*call.args.bound.values(), *call.args.extra)
            found |= {read for read in fed if isinstance(read, Read) and read.how in _COPIES}
    for forward in program.events(Forward):
        if forward.outer and any(_is_network(option) for option in options(forward.module)):
            loops = list(forward.ctx.loops())
            found |= {read for read in deep_reads(*forward.args) if any(read.ctx.inside(loop) for loop in loops)}
    return frozenset(found)


def _is_environment_step(call: Call) -> bool:
    """`observation, reward, … = env.step(action)`: not an optimizer's, whose step gives nothing back."""
    if not call.name.endswith(".step") or not (call.args.bound or call.args.extra):
        return False
    return not isinstance(call.place.tree.parent(call.place.node), cst.Expr)


def _feeds_another_runtime(call: Call) -> bool:
    """Arrays given to ONNX, OpenVINO and their like, or to an algorithm that there is on the host only; not a log."""
    if "summary" in call.name.lower():
        return False
    return is_runtime(call.name) or call.name.startswith(("runtime.", "scipy.optimize."))


def deep_reads(*values: Value) -> frozenset[Event]:
    """The reads that values came from, and what containers hold."""
    found = reads_of(*values)
    stack: list[tuple[Value, int]] = [(value, 0) for value in values]
    while stack:
        value, depth = stack.pop()
        for option in options(value):
            inner: list[Value] = []
            if isinstance(option, Sequence):
                inner = [option.element()]
            elif isinstance(option, Mapping):
                inner = [*option.entries.values(), *([option.rest] if option.rest is not None else [])]
            elif isinstance(option, Items):
                inner = [option.item]
            found |= reads_of(*inner)
            if depth < 3:
                stack.extend((item, depth + 1) for item in inner)
    return found


def is_token(read: Read, loop: Ctx, program: ProgramFacts) -> bool:
    """Whether a read is of the next token: an index, in a loop in which a network eats what it gave before."""
    value = read.value
    if loop.role != EVALUATION or not isinstance(value, Tensor) or value.dtype not in WHOLE_NUMBERS:
        return False
    return any(_eats_itself(forward) for forward in program.forwards(loop))


def _eats_itself(forward: Forward) -> bool:
    parts = {id(part) for option in options(forward.module) if isinstance(option, Module) for part in parts_of(option)}
    return any(
        isinstance(option, Tensor) and option.module is not None and id(option.module) in parts
        for value in forward.args
        for option in options(value)
    )


def parts_of(module: Module) -> Iterator[Module]:
    """A module's core and all modules below it."""
    stack: list[Value] = [module.core]
    seen: set[int] = set()
    while stack:
        for option in options(stack.pop()):
            if isinstance(option, Module) and id(option) not in seen:
                seen.add(id(option))
                yield option
                stack.extend((*option.attrs.values(), *option.children))


# What leaves an evaluation loop


def _leaves(read: Read, loop: Ctx) -> bool:
    """Whether a read carries results away, rather than a number for a running sum or for the model itself."""
    for ctx in read.ctx.up():
        if ctx is loop:
            break
        if ctx.function is not None and in_forward(ctx.function):
            return False
    if read.how in _COPIES or read.how in _TEXT:
        return True
    inner = next(iter(read.ctx.loops()), None)
    return inner is not None and inner is not loop


def _results_once(groups: list[ReadGroup]) -> Iterable[ReadGroup]:
    """The results that leave an evaluation are one group, beside the running sums of its body.

    Loops over batches and over the parts of each are one evaluation. What functions take that it calls is theirs: one
    more group.
    """
    taken: dict[tuple[int, bool], int] = {}
    found: list[ReadGroup] = []
    for group in groups:
        carries = group.loop.role == EVALUATION and any(_leaves(read, group.loop) for read in group.reads)
        if not carries:
            found.append(group)
            continue
        outermost = [loop for loop in group.loop.loops() if loop.role == EVALUATION][-1]
        own = (id(outermost), group.first.ctx.frame() is group.loop.frame())
        at = taken.get(own)
        if at is None:
            taken[own] = len(found)
            found.append(group)
        elif group.results:
            known = found[at]
            found[at] = ReadGroup((*known.reads, *group.reads), known.loop, known.results)
        else:
            found.append(group)
    return found


__all__ = ["ReadGroup", "Reads", "deep_reads"]

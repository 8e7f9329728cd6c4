"""Why the facts say what they say, in plain sentences: what a loop is for, why a tensor lies on the device.

A sentence names the lines of the file that it is about by their number alone, those of other files with the name.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import guards, roles, torch_api
from ptlint.facts.events import Backward, Construct, Ctx, Event, Forward, Move, Place, Placed, Read, Step, Test
from ptlint.facts.iteration import sources
from ptlint.facts.values import (
    DEVICE,
    Batches,
    Device,
    Instance,
    Lib,
    Loader,
    Module,
    Optimizer,
    Tensor,
    Tuple,
    Unknown,
    Value,
    options,
    sources_of,
)

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

ROLES = {roles.TRAINING: "trains", roles.EVALUATION: "evaluates", roles.EPOCH: "counts epochs", roles.OUTER: "repeats"}
MAX_HOPS = 3

_CUDA = re.compile(r"""\btorch\.(?:cuda|accelerator)\.\w+|\.cuda\b|["']cuda(?::\d+)?["']""")


class Reasons:
    """Sentences about one program."""

    def __init__(self, facts: ProgramFacts) -> None:
        self._facts = facts
        self._gpu_code: dict[Path, tuple[str, int] | None] = {}
        self._spans: dict[int, list[tuple[int, int, int, Event]]] = {}

    # The program

    def _asks_for_gpu(self, seen_from: Path) -> str:
        """The first code of the program that only a GPU gives a meaning, as `code` in line N."""
        for path in sorted(self._facts.program.files, key=lambda path: path != seen_from):
            if path not in self._gpu_code:
                self._gpu_code[path] = self._first_gpu_code(path)
            found = self._gpu_code[path]
            if found is not None:
                return f"`{found[0]}` in line {found[1]}" + (f" of {path.name}" if path != seen_from else "")
        return ""

    def _first_gpu_code(self, path: Path) -> tuple[str, int] | None:
        file = self._facts.project.file(path)
        source = file.source
        for statement in file.outline.statements if source is not None else ():
            named = any(name.startswith(("torch.cuda.", "torch.accelerator.")) for name in statement.dotted)
            if source is None or not (named or any(word.startswith("cuda") for word in statement.words)):
                continue
            for row in range(statement.first_row, statement.last_row + 1):
                found = _CUDA.search(source.line(row).partition("#")[0])
                if found is not None:
                    return found[0].lstrip("."), row
        return None

    def accelerated(self, seen_from: Path) -> str:
        """Why the program counts as one that runs on a GPU, or does not."""
        facts = self._facts
        if facts.config.device != "auto":
            return f"the option `device` says that it runs on `{facts.config.device}`"
        if not facts.accelerated:
            return "nothing in the program asks for a GPU"
        managers = sorted(facts.packages & {"accelerate", "pytorch_lightning", "lightning"})
        if managers:
            return f"the program may run on a GPU: it imports `{managers[0]}`"
        if facts.uses_hf_trainer:
            return "the program may run on a GPU: it trains with the `Trainer` of transformers"
        code = self._asks_for_gpu(seen_from)
        if code:
            return f"the program may run on a GPU: {code}"
        return "the program may run on a GPU: it chooses a device at run time"

    # Loops

    def loop(self, loop: Ctx, seen_from: Path) -> str:
        """What a loop is for, and what shows it."""
        place = loop.place
        if place is None:
            return ""
        said = f"the loop in {place.line(seen_from)} {ROLES.get(loop.role, 'has no role')}"
        shown = ""
        if loop.role == roles.TRAINING:
            under = self._facts.roles.under(loop)
            shown = _listed(
                [
                    self._first(under, Backward, place.path),
                    self._first(under, Step, place.path),
                ]
            )
        elif loop.role == roles.EVALUATION:
            called = [event for event in self._facts.roles.under(loop) if isinstance(event, Forward) and event.outer]
            first = self._first(called, Forward, place.path)
            shown = f"{first}, and no `backward` in it" if first else ""
        elif loop.role in (roles.EPOCH, roles.OUTER):
            inner = sorted(
                (other for other in self._facts.training_loops if other is not loop and other.inside(loop)),
                key=lambda other: other.depth,
            )
            if inner and inner[0].place is not None:
                shown = f"the training loop in {inner[0].place.line(place.path)} runs inside it"
        return f"{said}: {shown}" if shown else said

    def without_role(self, loop: Ctx) -> str:
        """What a loop lacks that has no role."""
        if loop.once:
            return "it ends in its first iteration"
        if loop.waits:
            return "it waits for a person"
        under = self._facts.roles.under(loop)
        if not any(isinstance(event, Forward) for event in under):
            return "no model is called in it"
        if any(isinstance(event, Backward) for event in under):
            return "it calls backward, but no optimizer steps in it"
        return "it does not go over batches, or is part of a training step"

    def goes_over(self, loop: Ctx, seen_from: Path) -> str:
        """What a loop goes over, where that is a source of batches."""
        for source in sources(loop.items):
            if isinstance(source, Loader) and source.place is not None:
                return f"it goes over the loader made in {source.place.line(seen_from)}"
            if isinstance(source, Batches) and id(source) in self._facts.roles.fed:
                return "it goes over batches whose source is out of sight"
            if isinstance(source, Instance) and source.place is not None:
                return f"it goes over the object made in {source.place.line(seen_from)}"
        return ""

    def cold(self, event: Event, seen_from: Path) -> str:
        """Why an event is in no hot place; "" where it is hot."""
        if self._facts.hot(event) is not None:
            return ""
        for up in event.ctx.up():
            if up.kind == "guard" and up.rarity in _RARITIES and not up.step and up.place is not None:
                return f"{_RARITIES[up.rarity]} ({up.place.line(seen_from)})"
            if up.kind == "loop" and not up.pump:
                break
        return "in no training or evaluation loop"

    def _first(self, events: Iterable[Event], kind: type[Event], near: Path) -> str:
        """The first event of a kind as `code` in line N, those of one file before others."""
        found = [event.place for event in events if isinstance(event, kind)]
        if not found:
            return ""
        nearest = min(found, key=lambda place: (place.path != near, str(place.path))).path
        place = min((place for place in found if place.path == nearest), key=lambda place: place.start)
        return f"`{place.brief}` in {place.line(near)}"

    # Devices

    def on_device(self, value: Value, before: Event, seen_from: Path) -> str:
        """How a value that is known to lie on the device came there; "" where nothing shows it."""
        for option in options(value):
            found = self._trace(option, before, seen_from, 0)
            if found:
                return found
        return ""

    def _trace(self, value: Value, before: Event, seen_from: Path, hops: int) -> str:
        if isinstance(value, Tuple):
            return next(filter(None, (self._trace(item, before, seen_from, hops) for item in value.items)), "")
        if not isinstance(value, (Tensor, Unknown)) or value.where != DEVICE:
            return ""
        forward = self._forward(value, before) if hops < MAX_HOPS else None
        if forward is not None:
            # A loss has no place of its own: what it is given decides.
            root = "" if _is_loss(forward.module) else self.placed(forward.module, seen_from)
            root = root or next(filter(None, (self._root(each, forward, seen_from, hops) for each in forward.args)), "")
            said = f"`{forward.place.brief}` in {forward.place.line(seen_from)} computes it there"
            return f"{said}{_AND}{root}" if root else said
        moved = self._moved(value, before)
        if moved is not None:
            return f"`{moved.place.brief}` in {moved.place.line(seen_from)} moves it there"
        made = value.made if isinstance(value, Tensor) else None
        if made is not None and made.node is not before.place.node:
            return f"`{made.brief}` in {made.line(seen_from)} makes it there"
        return ""

    def _root(self, value: Value, before: Event, seen_from: Path, hops: int) -> str:
        """Of what a call was given: the move, or the placing of a model, that put it on the device."""
        for option in options(value):
            found = self._trace(option, before, seen_from, hops + 1)
            if found:
                return found.rpartition(_AND)[2].replace(" moves it ", " moves its input ")
        return ""

    def _forward(self, value: Tensor | Unknown, before: Event) -> Forward | None:
        """The call of a model that a tensor came out of."""
        module = value.module if isinstance(value, Tensor) else None
        fitting = [
            event
            for event in self._forwards
            if event.order < before.order
            and event.place.node is not before.place.node
            and (event.token in value.came or (module is not None and _is_one(event.module, module)))
        ]
        near = [event for event in fitting if event.ctx.frame() is before.ctx.frame()] or fitting
        return near[-1] if near else None

    @cached_property
    def _forwards(self) -> list[Forward]:
        return [event for event in self._facts.events(Forward) if event.outer]

    def _moved(self, value: Tensor | Unknown, before: Event) -> Move | None:
        """The move that brought a tensor, or the batch that it is of, to the device."""
        fitting = []
        for event in self._facts.events(Move):
            if event.order >= before.order or not _to_device(event.target):
                continue
            same = any(option is value for option in options(event.result))
            if same or (value.batch is not None and _share_source(event.value, value.batch)):
                fitting.append(event)
        near = [event for event in fitting if event.ctx.frame() is before.ctx.frame()] or fitting
        return near[-1] if near else None

    def placed(self, module: Value, seen_from: Path) -> str:
        """Where a model was put on the device, "" where that cannot be seen."""
        for event in self._facts.events(Placed):
            if _to_device(event.target) and any(
                isinstance(option, Module) and _is_one(event.module, option) for option in options(module)
            ):
                return f"`{event.place.brief}` in {event.place.line(seen_from)} puts the model there"
        return ""

    # Chains

    def chain(self, path: Path, start: int, end: int) -> list[str]:
        """What led to a finding at some characters of a file: the facts that its rule's own reasons rest on."""
        at = self._loops_at(path, start)
        loops = [loop for loop in at if loop.role]
        events = [] if loops else self._inside(path, start, end)
        found: list[str] = []
        loops += _in_order(self._facts.roles.hot_loop(loop) for loop in at)[:1]
        hot = next((event for event in events if self._facts.hot(event) is not None), None)
        if hot is not None and not loops:
            loop = self._facts.hot(hot)
            assert loop is not None
            loops.append(loop)
            found += self._reached(hot, loop, path)
        made = next((_subject_of(event) for event in events if isinstance(event, (Construct, Placed))), None)
        if made is not None:
            loops += self._uses(made)[:1]
        found += [self.loop(loop, path) for loop in loops if loop.role]
        read = next((event for event in events if isinstance(event, (Read, Test))), None)
        if read is not None:
            cause = self.on_device(read.value, read, path)
            found += [f"`{_subject(read.place)}` is on the device: {cause}"] if cause else []
        if made is not None:
            found += [self._held(made, path)]
        if (loops or read or any(isinstance(event, (Move, Placed)) for event in events)) and self._facts.accelerated:
            found.append(self.accelerated(path))
        return list(dict.fromkeys(line for line in found if line))

    def _held(self, made: Value, path: Path) -> str:
        """Of an optimizer: what it steps; of a model: where it is put on the device."""
        if isinstance(made, Optimizer):
            places = [module.place for module in made.modules if module.place is not None]
            return f"it steps the parameters of the model made in {places[0].line(path)}" if places else ""
        return self.placed(made, path) if isinstance(made, Module) else ""

    def _reached(self, event: Event, loop: Ctx, path: Path) -> list[str]:
        """The call in the loop that leads to an event in another function."""
        frames = []
        for up in event.ctx.up():
            if up is loop:
                break
            if up.kind == "frame" and up.place is not None:
                frames.append(up.place)
        return [f"`{frames[-1].brief}` in {frames[-1].line(path)} leads here"] if frames else []

    def _uses(self, value: Value) -> list[Ctx]:
        """The loops that go over a loader, call a model, or step an optimizer."""
        if isinstance(value, Module):
            ours = [e for e in self._forwards if _is_one(e.module, value)]
            return _in_order(self._facts.hot(event) for event in ours)
        if isinstance(value, Optimizer):
            steps = [e for e in self._facts.events(Step) if any(o is value for o in options(e.optimizer))]
            return _in_order(self._facts.hot(event) for event in steps)
        return _in_order(event.loop for event in self._facts.iterations(value))

    def _loops_at(self, path: Path, start: int) -> list[Ctx]:
        """The loops that begin at a character of a file."""
        return [
            loop
            for loop in self._loops.get(path, ())
            if loop.place is not None and loop.place.tree.start <= start < loop.place.tree.end
            # Only now: the spans of a tree are worked out when first asked for.
            if loop.place.start == start
        ]

    @cached_property
    def _loops(self) -> dict[Path, list[Ctx]]:
        found: dict[Path, list[Ctx]] = {}
        for loop in self._facts.roles.every_loop():
            if loop.place is not None:
                found.setdefault(loop.place.path, []).append(loop)
        return found

    @cached_property
    def _trees(self) -> dict[Path, dict[int, list[Event]]]:
        """The events by file and tree."""
        found: dict[Path, dict[int, list[Event]]] = {}
        for event in self._facts.run.trace:
            found.setdefault(event.place.path, {}).setdefault(id(event.place.tree), []).append(event)
        return found

    def _inside(self, path: Path, start: int, end: int) -> list[Event]:
        """The events at nodes within some characters, those of the whole of it first."""
        for key, events in self._trees.get(path, {}).items():
            tree = events[0].place.tree
            if tree.start <= start < tree.end:
                if key not in self._spans:
                    spans = [(*tree.span(event.place.node), event.order, event) for event in events]
                    self._spans[key] = sorted(spans, key=lambda item: item[:3])
                spans = self._spans[key]
                first = bisect_left(spans, start, key=lambda item: item[0])
                last = bisect_left(spans, end, key=lambda item: item[0])
                inside = [item for item in spans[first:last] if item[1] <= end]
                return [event for *_, event in sorted(inside, key=lambda item: (item[0] - item[1], item[2]))]
        return []


_AND = ", and "
_RARITIES = {
    guards.RARE: "in few iterations only",
    guards.EXCEPT: "only after an exception",
    guards.OFF_PATH: "off the accelerated path",
}


def _in_order(loops: Iterable[Ctx | None]) -> list[Ctx]:
    """Loops with a role, each once, training first."""
    found = list({id(loop): loop for loop in loops if loop is not None and loop.role}.values())
    return sorted(found, key=lambda loop: loop.role != roles.TRAINING)


def _subject_of(event: Construct | Placed) -> Value:
    return event.module if isinstance(event, Placed) else event.value


def _is_loss(value: Value) -> bool:
    """Whether a module is one of PyTorch's losses, which has nothing to put on a device."""
    return any(
        isinstance(option, Module) and isinstance(option.cls, Lib) and "loss" in torch_api.tags(option.cls.name)
        for option in options(value)
    )


def _listed(parts: list[str]) -> str:
    return ", ".join(part for part in parts if part)


def _is_one(value: Value, module: Value) -> bool:
    """Whether a value may be a module, with or without wrappers."""
    core = module.core if isinstance(module, Module) else module
    return any(isinstance(option, Module) and option.core is core for option in options(value))


def _to_device(target: Value) -> bool:
    return any(isinstance(option, Device) and option.where == DEVICE for option in options(target))


def _share_source(value: Value, batch: Value) -> bool:
    wanted = sources_of(batch)
    return any(
        source is other
        for option in options(value)
        for source in sources_of(getattr(option, "batch", None))
        for other in wanted
    )


def _subject(place: Place) -> str:
    """What is read: `loss` of `loss.item()` and `float(loss)`."""
    node = place.node
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            return place.at(node.func.value).brief
        if len(node.args) == 1:
            return place.at(node.args[0].value).brief
    return place.brief

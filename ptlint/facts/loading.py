"""Loaders: who works for them, whether they pin, where their batches go, how often they are gone over."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import batch_moves, datasets, epochs, launch, roles
from ptlint.facts.events import Call, Construct, Ctx, Iterate, Move, Place
from ptlint.facts.origins import (
    ABSENT,
    CONSTANT,
    DEFAULT,
    ITEM,
    LITERAL,
    OTHER,
    OWN_DEFAULT,
    Origin,
    Origins,
    item_value,
)
from ptlint.facts.values import (
    CallArgs,
    Const,
    Loader,
    Obj,
    Other,
    ProjectClass,
    Tensor,
    Tuple,
    Unknown,
    Value,
    options,
    pick,
    sources_of,
)

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

NO_WORKERS, WORKERS, UNSURE = "none", "some", "unknown"

_USES = (roles.TRAINING, roles.EVALUATION)


class LoaderUse:
    """One `DataLoader` of a program: its arguments and what becomes of it.

    `event` is its construction; `args` are those of `DataLoader(...)` itself, or of the `super().__init__(...)` of a
    subclass, at `site` in `ctx`.
    """

    def __init__(self, facts: ProgramFacts, loading: Loading, loader: Loader, event: Construct) -> None:
        self.facts = facts
        self.loading = loading
        self.loader = loader
        self.event = event
        inner = loading.super_calls.get(id(loader))
        self.args = loader.call if loader.call is not None else CallArgs(open=True)
        self.site: Place = inner.place if inner is not None else event.place
        self.ctx: Ctx = inner.ctx if inner is not None else event.ctx

    def origin(self, name: str) -> Origin:
        """Where an argument was chosen."""
        return self.loading.origins.of(self.args, name, self.site, self.ctx)

    def item(self, name: str) -> Place | None:
        """Where an argument that is spread into the call stands in its dict."""
        return self.args.origins.get(name) if name not in self.args.nodes else None

    def place(self, origin: Origin) -> Place:
        """Where to speak of a choice: the call that could make it, else the loader's own."""
        return origin.site if origin.kind in (ABSENT, DEFAULT) else self.event.place

    def is_choice(self, name: str) -> bool:
        """Whether somebody wrote an argument's value down for this loader, rather than left it at a default."""
        kind = self.origin(name).kind
        if kind != OTHER:
            return kind in (LITERAL, CONSTANT, ITEM)
        return not any(option.soft for option in pick(self.args.get(name), Const))

    # Arguments

    @cached_property
    def workers(self) -> str:
        """Whether worker processes do the loading, on some path through the program."""
        state = self.args.state("num_workers")
        if state != "set":
            return NO_WORKERS if state == "absent" else UNSURE
        found = options(self.args.bound["num_workers"])
        numbers = [option.value for option in found if isinstance(option, Const) and isinstance(option.value, int)]
        if any(number > 0 for number in numbers):
            return WORKERS
        return NO_WORKERS if len(numbers) == len(found) and not any(numbers) else UNSURE

    @cached_property
    def workers_certain(self) -> bool:
        """Whether there are workers whatever flags and machine say."""
        if self.workers != WORKERS:
            return False
        found = options(self.args.bound["num_workers"])
        if self.origin("num_workers").kind in (LITERAL, CONSTANT):
            return all(isinstance(option, Const) and option.value and not option.soft for option in found)
        _, node = self._workers_node()
        return node is not None and _positive(node)

    def _workers_node(self) -> tuple[Place, cst.BaseExpression | None]:
        """The number of workers as it is written at the call, or in the dict that is spread into it."""
        given = self.args.nodes.get("num_workers")
        if given is not None:
            return self.site, given.value
        item = self.item("num_workers")
        return (item, item_value(item)) if item is not None else (self.site, None)

    @property
    def workers_text(self) -> str | None:
        """That as an operand."""
        place, node = self._workers_node()
        if node is None:
            return None
        text = place.tree.code(node)
        loose = isinstance(node, (cst.IfExp, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation))
        return f"({text})" if loose else text

    @cached_property
    def pins(self) -> bool | None:
        """Whether batches come in pinned memory (on a machine with CUDA); None where that is not known."""
        return self.flag("pin_memory")

    def flag(self, name: str) -> bool | None:
        """A boolean argument whose default is False."""
        state = self.args.state(name)
        if state != "set":
            return False if state == "absent" else None
        found = {bool(o.value) if isinstance(o, Const) else None for o in options(self.args.bound[name])}
        return found.pop() if len(found) == 1 else None

    # Data

    @cached_property
    def in_memory(self) -> bool:
        return datasets.in_memory(self.facts, self.loader.dataset())

    @cached_property
    def on_device(self) -> bool:
        return datasets.on_device(self.facts, self.loader)

    @cached_property
    def streams(self) -> bool:
        """Whether workers are not for this dataset: its own library prefetches, or it calls the model."""
        dataset = self.loader.dataset()
        return datasets.brings_own_workers(dataset) or datasets.is_online(dataset)

    @cached_property
    def obstacles(self) -> list[str]:
        """Why worker processes would fail or repeat data."""
        found = datasets.obstacles(self.facts, self.loader)
        if any(launch.runs_at_import(event.ctx) for event in self.iterations):
            guard = 'if __name__ == "__main__":'
            found.append(f"the loader is gone over at module level with no `{guard}`: spawned workers would do it too")
        return found

    # Use

    @cached_property
    def iterations(self) -> list[Iterate]:
        return self.loading.iterations.get(id(self.loader), [])

    @cached_property
    def one_batch(self) -> bool:
        """Whether all that is ever taken is a first batch, outside of any loop."""
        return bool(self.iterations) and all(epochs.takes_one_batch(event) for event in self.iterations)

    @cached_property
    def waits(self) -> bool:
        """Whether what goes over the loader waits for a person."""
        loops = [event.loop or next(event.ctx.loops(), None) for event in self.iterations]
        return any(loop is not None and loop.waits for loop in loops)

    @cached_property
    def moves(self) -> list[Move]:
        """Copies of its batches to an accelerator, in nearly every iteration of a loop, each place once."""
        found: dict[int, Move] = {}
        for event in self.loading.moves.get(id(self.loader), []):
            if batch_moves.is_repeated(event):
                found.setdefault(id(event.place.node), event)
        return list(found.values())

    @property
    def blocking_copies(self) -> list[Move]:
        """Those of `moves` that copy what the loader gave (or a view or cast of it) and that the host waits for,
        where the batches are pinned, or would be by PTL102's fix."""
        if self.managed or self.waits or self.facts.off_path(self.event.ctx) or not (self.pins or self.would_pin):
            return []
        facts = self.facts
        return [
            move
            for move in self.moves
            if batch_moves.blocks(move) and batch_moves.is_given(facts, move) and not facts.off_path(move.ctx)
        ]

    def is_whole_batch(self, move: Move) -> bool:
        """Whether all that the loader gives at once is moved, which a `collate_fn` may make of any type."""
        return self.args.state("collate_fn") != "absent" and batch_moves.is_whole_batch(move)

    @cached_property
    def managed(self) -> bool:
        """Whether Accelerate or Lightning put the batches on the device."""
        return id(self.loader) in self.loading.prepared

    @property
    def feeds_accelerator(self) -> bool:
        """Whether its batches are copied to an accelerator again and again."""
        if self.waits or self.on_device or self.facts.off_path(self.event.ctx):
            return False
        if self.moves:
            return True
        loops = [event.loop for event in self.iterations if event.loop is not None]
        return self.managed and (not self.iterations or any(loop.role in _USES for loop in loops))

    @property
    def would_pin(self) -> bool:
        """Whether PTL102 reports the loader and its fix makes it pin: nobody chose, and it feeds an accelerator."""
        if not self.facts.accelerated or self.pins is not False or not self.feeds_accelerator:
            return False
        return self.origin("pin_memory").kind in (ABSENT, DEFAULT, OWN_DEFAULT)

    @cached_property
    def literal_cuda(self) -> bool:
        """Whether the code asks for CUDA whatever the machine has, and no other program makes loaders there."""
        if not batch_moves.ask_for_cuda(self.moves):
            return False
        return len(self.facts.project.programs_of(self.site.path)) == 1

    # Epochs

    @cached_property
    def epochs(self) -> list[tuple[Iterate, Ctx]]:
        """Where it is gone over anew in each iteration of a loop around trainings (or of a generator without end)."""
        found = [(event, epochs.epoch_of(event, self.event.ctx)) for event in self.iterations]
        return [(event, loop) for event, loop in found if loop is not None]

    @cached_property
    def changed_between_epochs(self) -> bool:
        """Whether the dataset is changed in a loop around the passes: persistent workers would keep their old copy."""
        held = {id(part) for part in epochs.dataset_parts(self.loader)}
        made = self.event.ctx
        loops = [loop for _, epoch in self.epochs for loop in epoch.loops() if not made.inside(loop)]
        for owner, ctx in self.loading.changes:
            if id(owner) in held and any(ctx.inside(loop) for loop in loops):
                return True
        node = self.args.nodes.get("dataset")
        text = self.site.tree.code(node.value) if node is not None else ""
        return bool(text) and any(epochs.changes_by_name(loop, text) for loop in loops)

    @property
    def reuses_iterator(self) -> bool:
        """Whether it is of a class with an `__iter__` of its own."""
        return isinstance(self.loader.cls, ProjectClass) and self.loader.cls.find("__iter__") is not None


class Loading:
    """All loaders of a program."""

    def __init__(self, facts: ProgramFacts) -> None:
        self.facts = facts
        self.origins = Origins(facts)
        self.super_calls: dict[int, Call] = {
            id(event.receiver): event for event in facts.calls("torch.utils.data.DataLoader.__init__")
        }
        self.iterations: dict[int, list[Iterate]] = {}
        for iterate in facts.events(Iterate):
            self.iterations.setdefault(id(iterate.value), []).append(iterate)
        self.moves: dict[int, list[Move]] = {}
        for move in facts.events(Move):
            moved = pick(move.value, (Tensor, Unknown))
            for batch in {id(source) for option in moved for source in sources_of(option.batch)}:
                self.moves.setdefault(batch, []).append(move)
        self._uses = {id(loader): LoaderUse(facts, self, loader, event) for loader, event in facts.loaders}

    def __iter__(self) -> Iterator[LoaderUse]:
        return iter(self._uses.values())

    def of(self, loader: Value | None) -> LoaderUse | None:
        return self._uses.get(id(loader))

    @cached_property
    def prepared(self) -> set[int]:
        """Loaders that were given to Accelerate, or that Lightning takes from a hook or a Trainer."""
        found: set[int] = set()
        for event in self.facts.events(Call):
            by_accelerate = event.name in ("accelerator.prepare", "accelerator.prepare_data_loader")
            by_lightning = event.name.rpartition(".")[2] in ("fit", "validate", "test") and _is_trainer(event.receiver)
            if by_accelerate or by_lightning:
                given = [*event.args.bound.values(), *event.args.extra]
                found.update(id(loader) for value in given for loader in _loaders_in(value))
        for loader, made in self.facts.loaders:
            if any(_is_lightning_hook(up) for up in made.ctx.up()):
                found.add(id(loader))
        return found

    @cached_property
    def changes(self) -> list[tuple[Value, Ctx]]:
        """Objects of the program that are changed, and where."""
        return epochs.changes(self.facts)


def _loaders_in(value: Value) -> Iterator[Loader]:
    for option in options(value):
        if isinstance(option, Loader):
            yield option
        elif isinstance(option, Tuple):
            for item in option.items:
                yield from _loaders_in(item)


def _is_trainer(receiver: Value | None) -> bool:
    base = receiver.lib_base if isinstance(receiver, Obj) and not isinstance(receiver, Other) else None
    return base is not None and base.startswith(("lightning.", "pytorch_lightning.")) and base.endswith("Trainer")


def _is_lightning_hook(ctx: Ctx) -> bool:
    function = ctx.function if ctx.kind == "frame" else None
    if function is None or function.owner is None or not isinstance(function.node, cst.FunctionDef):
        return False
    if not function.node.name.value.endswith("_dataloader"):
        return False
    return any(base.startswith(("lightning.", "pytorch_lightning.")) for base in function.owner.lib_bases)


def _positive(node: cst.BaseExpression) -> bool:
    """Whether an expression is positive on any machine: `min(8, os.cpu_count() or 1)`."""
    if isinstance(node, cst.Integer):
        return node.evaluated_value > 0
    if isinstance(node, cst.BooleanOperation):
        if isinstance(node.operator, cst.Or):
            return _positive(node.right)
        return False
    if not isinstance(node, cst.Call):
        return False
    args = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
    if isinstance(node.func, cst.Name) and node.func.value in ("min", "max") and len(args) > 1:
        return (all if node.func.value == "min" else any)(_positive(arg) for arg in args)
    if isinstance(node.func, cst.Name) and node.func.value == "len" and len(args) == 1:
        return isinstance(args[0], cst.Call) and _last_name(args[0].func) == "sched_getaffinity"
    return _last_name(node.func) in ("cpu_count", "process_cpu_count")


def _last_name(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""

"""The abstract execution of one program: the state that statements, expressions and calls share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.events import Ctx, Event, Place, Read, Trace
from ptlint.facts.homes import Frame, Home, Trees
from ptlint.facts.scopes import Scope
from ptlint.facts.values import (
    DETACHED,
    DEVICE,
    HOST,
    UNKNOWN,
    Const,
    Dataset,
    FileRef,
    Function,
    Imported,
    Instance,
    Items,
    Lib,
    Loader,
    Mapping,
    Method,
    Module,
    Num,
    Obj,
    Optimizer,
    Params,
    ProjectClass,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
    join_all,
    options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptlint.config import Config
    from ptlint.outline.project import Program, Project
    from ptlint.outline.statements import Statement

Made = TypeVar("Made", bound=Obj)

MAX_WORK = 400_000
"""Expressions evaluated in one program before calls are no longer followed: a count of work, never seconds."""
MAX_DEPTH = 24


@dataclass(slots=True)
class Followed:
    """The calls of a function that were followed in one zone (`Ctx.zone`), and the work that they took."""

    paths: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    work: int = 0


class Run:
    """One program's execution. Files run when imported, functions when called, both abstractly."""

    def __init__(self, project: Project, program: Program, config: Config, trees: Trees) -> None:
        from ptlint.facts import calls, expressions

        self._evaluate = expressions.evaluate
        self._call = calls.call
        self.project = project
        self.program = program
        self.config = config
        self.trees = trees
        self.trace = Trace()
        self.work = 0
        self.nesting = 0
        self.changes = 0  # of attributes, so that loops notice what names do not show
        self._states: set[tuple[int, str, object]] = set()
        self.root = Ctx("module", None)
        self.homes: dict[Path, Home] = {}
        self.objects: dict[tuple[int, int, str], Obj] = {}
        self.memo: dict[object, tuple[Value, object]] = {}
        self.active: list[int] = []
        self.forwards = 0  # calls of modules that are being run, one inside another
        self.forward_began = 0  # how much work had been done when the outermost of them began
        self.followed: dict[tuple[int, int], Followed] = {}  # by function and zone
        self.called: set[int] = set()
        self.containers: set[int] = set()  # whose children are being run
        self.grad_off = False
        self.filled: set[int] = set()  # factories into whose results data was written (`freshness`)
        self.keep: list[object] = []
        self._files = set(program.files)

    # Files and names

    def home(self, path: Path) -> Home:
        found = self.homes.get(path)
        if found is None:
            ctx = self.root.child("module", str(path))
            found = self.homes[path] = Home(self.project.file(path), ctx)
            ctx.home = found
        return found

    def top_frame(self, home: Home, statement: Statement) -> Frame | None:
        tree = self.trees.tree(home.file, statement)
        if tree is None:
            return None
        frame = Frame(home, tree, home.ctx, self.trees.scope(tree.module))
        frame.locals = home.globals
        return frame

    def execute_top(self, home: Home, statement: Statement) -> None:
        """Execute one top-level statement, once."""
        from ptlint.facts import statements

        if statement.index in home.done:
            return
        home.done.add(statement.index)
        if statement.kind == "import" and self._import_fast(home, statement):
            return
        if statement.kind == "class" and self._can_wait(home, statement):
            home.globals[statement.name] = ProjectClass(statement.name, home, partial(self._define, home, statement))
            return
        frame = self.top_frame(home, statement)
        if frame is None:
            return
        statements.execute_block(self, frame.tree.module.body, frame)
        for name, value in frame.locals.items():
            home.globals[name] = value

    def _can_wait(self, home: Home, statement: Statement) -> bool:
        """Whether a class may be looked at when it is used: a table of a library's models names hundreds."""
        source = home.file.source
        return (
            home.file.path != self.program.entry
            and len(home.binders[statement.name]) == 1
            and source is not None
            and source.text.startswith("class", source.line_starts[statement.first_row - 1])
        )

    def _define(self, home: Home, statement: Statement, cls: ProjectClass) -> cst.ClassDef:
        from ptlint.facts.classes import fill_class

        frame = self.top_frame(home, statement)
        if frame is None:
            cls.bases.append(UNKNOWN)
            return cst.ClassDef(cst.Name(cls.name), cst.IndentedBlock([]))
        node = frame.tree.module.body[0]
        assert isinstance(node, cst.ClassDef)
        fill_class(self, cls, node, frame)
        return node

    def _import_fast(self, home: Home, statement: Statement) -> bool:
        """Bind imports from the outline, without a tree."""
        wanted = [
            item
            for item in home.file.outline.imports
            if item.top and statement.first_row <= item.row <= statement.last_row
        ]
        if not wanted:
            return False
        for item in wanted:
            if item.name == "*":
                self.import_star(home, item.module, item.level)
            elif item.name is None:
                self.bind_import(home, home.globals, item.module, item.asname)
            else:
                bound = item.asname or item.name
                home.globals.pop(bound, None)
                home.imports[bound] = (item.module, item.level, item.name)
                path = self.resolve(home, item.module, item.level)
                if path is not None:
                    self.imported(path)
        return True

    def bind_import(self, home: Home, names: dict[str, Value], module: str, asname: str | None) -> None:
        """`import a.b.c` or `import a.b.c as d`."""
        first = module.partition(".")[0]
        target = module if asname is not None else first
        path = self.resolve(home, target, 0)
        value: Value = FileRef(self.imported(path)) if path is not None else Lib(target)
        names[asname or first] = value
        if asname is None and module != first:
            deep = self.resolve(home, module, 0)
            if deep is not None:
                self.imported(deep)

    def import_from(self, home: Home, module: str, level: int, name: str) -> Value:
        """The value that `from module import name` binds."""
        path = self.resolve(home, module, level)
        if path is not None:
            target = self.imported(path)
            # A package's own file that imports from the package means the file beside it.
            if target is not home and (name in target.binders or target.stars):
                return self.global_value(target, name)
        deep = self.resolve(home, f"{module}.{name}" if module else name, level)
        if deep is not None:
            return FileRef(self.imported(deep))
        if path is not None or level:
            return UNKNOWN
        return Lib(f"{module}.{name}")

    def import_star(self, home: Home, module: str, level: int) -> None:
        """`from module import *`: its names are looked up when asked for."""
        path = self.resolve(home, module, level)
        if path is not None:
            target = self.imported(path)
            if target is not home and target not in home.star_homes:
                home.star_homes.append(target)
        elif not level and module not in home.star_modules:
            home.star_modules.append(module)

    def resolve(self, home: Home, module: str, level: int) -> Path | None:
        path = self.project.resolve(home.file.path, module, level, entry=self.program.entry)
        return path if path in self._files else None

    def imported(self, path: Path) -> Home:
        """A file as `import` leaves it: statements that matter have run, the rest runs when a name is asked for."""
        home = self.home(path)
        if not home.imported:
            home.imported = True
            for statement in home.file.outline.statements:
                if statement.kind in ("simple", "compound", "whole") and not is_main_guard(statement):
                    if statement.words & ROOT_WORDS:
                        self.execute_top(home, statement)
        return home

    def global_value(self, home: Home, name: str) -> Value:
        """A global name of a file, executing what binds it first."""
        for statement in home.binders.get(name, ()):
            if statement.index not in home.done and not is_main_guard(statement):
                self.execute_top(home, statement)
        if name not in home.globals and name in home.imports:
            home.globals[name] = UNKNOWN  # files may import a name from one another
            home.globals[name] = self.import_from(home, *home.imports[name])
        known = home.globals.get(name)
        if known is not None:
            return known.look_up() if isinstance(known, Imported) else known
        for statement in home.stars:
            self.execute_top(home, statement)
        found = self._star_value(home, name, set()) if not name.startswith("_") else None
        if found is None:
            return UNKNOWN
        home.globals[name] = found
        return found

    def _star_value(self, home: Home, name: str, seen: set[int]) -> Value | None:
        """What a name stands for through star imports."""
        seen.add(id(home))
        for target in home.star_homes:
            if name in target.globals or name in target.binders:
                return self.global_value(target, name)
            for statement in target.stars:
                self.execute_top(target, statement)
            found = self._star_value(target, name, seen) if id(target) not in seen else None
            if found is not None:
                return found
        for module in home.star_modules:
            if name in torch_api.public_names(module):
                return Lib(f"{module}.{name}")
        return None

    # Objects and events

    def make(self, kind: Callable[..., Made], place: Place, ctx: Ctx, *args: Any, tag: str = "") -> Made:
        """An object made at a place in a context: the same one when that runs again."""
        key = (id(place.node), id(ctx), f"{getattr(kind, '__name__', '')}{tag}")
        found = self.objects.get(key)
        if found is None:
            found = self.objects[key] = kind(place, *args)
            found.ctx = ctx
        return found  # type: ignore[return-value]

    def emit(self, event: Event, detail: str = "") -> None:
        event.grad = self.grad_enabled(event.ctx)
        self.trace.add(event, detail)

    def note_read(self, value: Value, how: str, place: Place, ctx: Ctx) -> Read:
        """The host reads a tensor: the same event when that runs again, so that numbers read from it stay the same."""
        event = self.trace.find(Read, place, ctx)
        if event is None:
            event = Read(place, ctx, value, how)
        event.value, event.how = value, how
        self.emit(event)
        return event

    def grad_enabled(self, ctx: Ctx) -> bool:
        """Whether gradients are tracked in a context."""
        for mode in ctx.modes():
            if mode.kind == "grad":
                enabled = mode.enabled
                return not (isinstance(enabled, Const) and enabled.value is False)
        return not self.grad_off

    # Front doors of the other modules, so that these need not import each other

    def evaluate(self, node: cst.BaseExpression, frame: Frame) -> Value:
        return self._evaluate(self, node, frame)

    def call(self, function: Value, args: Any, place: Place, frame: Frame) -> Value:
        return self._call(self, function, args, place, frame)

    def evaluate_index(self, node: cst.Subscript, frame: Frame) -> Value:
        from ptlint.facts import displays

        return displays.index_of(self, node, frame)

    def run_generator(self, value: Items, place: Place, frame: Frame) -> Value:
        from ptlint.facts import calls

        return calls.run_generator(self, value, place, frame)

    def iterate_instance(self, value: Instance, place: Place, frame: Frame) -> Value:
        """An item of a project object that defines `__iter__`, `__next__` or `__getitem__`."""
        from ptlint.facts import iteration
        from ptlint.facts.arguments import Arguments

        method = self.member(value, "__iter__")
        if method is not None:
            found: list[Value] = []
            for made in options(self.call(method, Arguments(), place, frame)):
                following = self.member(made, "__next__") if isinstance(made, Instance) else None
                if following is not None:
                    found.append(self.call(following, Arguments(), place, frame))
                elif made is not value and not isinstance(made, Instance):
                    found.append(iteration.item_of(self, made, place, frame) or UNKNOWN)
            return join_all(found)
        method = self.member(value, "__getitem__")
        if method is not None:
            item = self.call(method, Arguments().add(Num("int", counter=True)), place, frame)
            return self.as_batch(item, value)
        return Unknown(batch=value)

    # Questions that several modules ask

    def scope(self, node: cst.CSTNode) -> Scope:
        return self.trees.scope(node)

    def in_program(self, path: Path) -> bool:
        return path in self._files

    def member(self, value: Value, name: str) -> Value | None:
        """A method or attribute of a project object, bound."""
        if not isinstance(value, Obj):
            return None
        if name in value.attrs:
            return value.attrs[name]
        if isinstance(value.cls, ProjectClass):
            found = value.cls.find(name)
            if isinstance(found, Function):
                if "static" in found.flags:
                    return found
                return found.bind(value.cls if "class" in found.flags else value)
            return found
        return None

    def instance_of(self, cls: ProjectClass) -> Obj | None:
        """An object of a class that the program made, if it made one."""
        return next((made for made in self.objects.values() if made.cls is cls), None)

    def note_change(self, holder: Obj, name: str, value: Value, *, first: bool) -> None:
        """Count a counter's state that was never seen before; going back to an old one tells nothing new.

        Other attributes are left out: to go over loops again for each would cost more than it tells.
        """
        if not isinstance(value, Num):
            return
        state = (id(holder), name, (value.type, value.counter, value.period, value.rare, value.often))
        if state not in self._states:
            self._states.add(state)
            self.changes += not first

    def soften(self, value: Value) -> Value:
        """A default that can be read but that a caller may override."""
        return Const(value.value, True) if isinstance(value, Const) else value

    def freeze(self, module: Module, frozen: bool, ctx: Ctx) -> None:
        module.core.frozen = frozen

    def is_frozen(self, module: Module) -> bool:
        """Whether a module's parameters are known not to require gradients."""
        return module.core.frozen

    def fill_optimizer(self, optimizer: Optimizer, params: Value) -> None:
        """Note whose parameters an optimizer holds."""
        stack, modules = [params], list(optimizer.modules)
        seen: set[int] = set()
        while stack:
            current = stack.pop()
            for option in options(current):
                if id(option) in seen:
                    continue
                seen.add(id(option))
                if isinstance(option, Params):
                    held = [module.part_of or module for module in option.modules]
                    modules.extend(m for m in held if not any(m is known for known in modules))
                elif isinstance(option, Sequence):
                    stack.extend(option.items or ())
                    if option.item is not None:
                        stack.append(option.item)
                elif isinstance(option, Mapping):
                    stack.append(option.entries.get("params", UNKNOWN))
                elif isinstance(option, Tuple):
                    stack.extend(option.items)
                elif isinstance(option, Items):
                    stack.append(option.item)
                elif isinstance(option, Tensor):
                    optimizer.tensors = True
                elif isinstance(option, (Unknown, Method)):
                    optimizer.opaque = True
        optimizer.modules = tuple(modules)

    def batch_of(self, loader: Loader, frame: Frame) -> Value:
        """What a loader yields: a batch on the host, unless its dataset is known to put items on the device."""
        dataset = loader.dataset()
        for option in options(dataset):
            if isinstance(option, Dataset) and option.call is not None:
                held = [*option.call.bound.values(), *option.call.extra]
                if held and all(isinstance(value, Tensor) and value.where == DEVICE for value in held):
                    return Unknown(DEVICE, DETACHED, loader)
            if isinstance(option, Instance):
                item = self.item_of_dataset(option)
                if device_items(item):
                    return Unknown(DEVICE, DETACHED, loader)
        if self._own_batches(loader):
            return Unknown(HOST, DETACHED)
        return Unknown(HOST, DETACHED, loader)

    def _own_batches(self, loader: Loader) -> bool:
        """Whether a project `collate_fn` makes objects that move themselves: what their `to` takes is theirs to say."""
        from ptlint.facts.arguments import Arguments

        collate = loader.call.get("collate_fn", UNKNOWN) if loader.call is not None else UNKNOWN
        for option in options(collate):
            if not isinstance(option, Function) or option.tree is None:
                continue
            ctx = self.root.child("module", ("collate", id(option.node)))
            ctx.home = option.home
            frame = Frame(option.home, option.tree, ctx, self.scope(option.node))
            place = Place(option.home.file, option.tree, option.node)
            batch = self.call(option, Arguments().add(Items(UNKNOWN, "list")), place, frame)
            if any(self.member(part, "to") is not None for part in parts_of(batch) if isinstance(part, Instance)):
                return True
        return False

    def item_of_dataset(self, dataset: Instance) -> Value:
        """What a project dataset's `__getitem__` returns; it runs in a context of its own, never hot."""
        from ptlint.facts.arguments import Arguments

        method = self.member(dataset, "__getitem__") or self.member(dataset, "__iter__")
        if not isinstance(method, Function) or dataset.place is None or method.tree is None:
            return UNKNOWN
        ctx = self.root.child("module", ("dataset", id(dataset)))
        ctx.home = method.home
        frame = Frame(method.home, method.tree, ctx, self.scope(method.node))
        return self.call(method, Arguments().add(Num("int")), Place(method.home.file, method.tree, method.node), frame)

    def as_batch(self, item: Value, source: Value) -> Value:
        """An item as the batch of a source."""
        if isinstance(item, Tensor):
            return Tensor(item.where, item.graph, item.dtype, source, came=item.came)
        if isinstance(item, Unknown):
            return Unknown(item.where, item.graph, source, came=item.came)
        if isinstance(item, Tuple):
            return Tuple(tuple(self.as_batch(part, source) for part in item.items))
        return item

    def used_as(self, frame: Frame, place: Place, method: str) -> bool:
        """Whether the scope also calls `method` on what `place` calls a method of."""
        call = place.node
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return False
        use = frame.scope.uses.get(place.tree.code(call.func.value))
        return use is not None and method in use.methods

    def lib_item(self, base: Lib, index: Value) -> Value:
        """An item of a library object (`os.environ["X"]`)."""
        return Num("str") if base.name == "os.environ" else UNKNOWN

    def assign_name(self, frame: Frame, name: str, value: Value) -> None:
        if name in frame.globals_declared:
            home = frame.home
            old = home.globals.get(name)
            home.globals[name] = value if old is None else join(old, value)
            return
        frame.locals[name] = value


def parts_of(value: Value, depth: int = 3) -> Iterator[Value]:
    """A value and what its tuples, lists and dicts hold."""
    for option in options(value):
        yield option
        held: list[Value] = []
        if isinstance(option, Tuple):
            held = list(option.items)
        elif isinstance(option, Sequence):
            held = [option.element()]
        elif isinstance(option, Mapping):
            held = list(option.entries.values())
        for part in held if depth else ():
            yield from parts_of(part, depth - 1)


def device_items(value: Value) -> bool:
    """Whether every tensor in an item is known to be on the device."""
    tensors: list[Tensor] = []
    for option in options(value):
        parts = option.items if isinstance(option, Tuple) else (option,)
        tensors.extend(part for part in parts if isinstance(part, Tensor))
    return bool(tensors) and all(tensor.where == DEVICE for tensor in tensors)


ROOT_WORDS = frozenset(
    "environ putenv setenv backends set_default_device set_default_dtype set_default_tensor_type manual_seed "
    "set_detect_anomaly set_grad_enabled set_float32_matmul_precision use_deterministic_algorithms DataLoader "
    "backward step compile empty_cache init_process_group num_threads set_num_threads GradScaler autocast".split()
)
"""What makes a top-level statement of an imported file worth running at import."""


def is_main_guard(statement: Statement) -> bool:
    """Whether a top-level statement is `if __name__ == "__main__":`."""
    return statement.kind == "compound" and "__name__" in statement.words and "__main__" in statement.words

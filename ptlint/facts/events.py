"""The trace of an abstract execution: calling contexts and what happened in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ptlint.facts.values import UNKNOWN, CallArgs, Function, Mode, Value

if TYPE_CHECKING:
    import libcst as cst

    from ptlint.outline.project import ProjectFile
    from ptlint.source.text import SourceFile
    from ptlint.syntax.tree import Tree


EventKey = tuple[type, int, int, str]
E = TypeVar("E", bound="Event")

MOST_QUOTED = 48
"""Columns of code that a sentence quotes."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node in a file. `key` is the same for the same place, whatever path of calls led there."""

    file: ProjectFile
    tree: Tree
    node: cst.CSTNode

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def source(self) -> SourceFile:
        assert self.file.source is not None  # a file that was executed has a text
        return self.file.source

    @property
    def key(self) -> tuple[str, int]:
        return (str(self.file.path), id(self.node))

    @property
    def row(self) -> int:
        return self.source.position(self.tree.span(self.node)[0]).row

    @property
    def start(self) -> int:
        return self.tree.span(self.node)[0]

    @property
    def code(self) -> str:
        return self.tree.code(self.node)

    @property
    def brief(self) -> str:
        """The code in one line, cut where it is long."""
        code = " ".join(self.code.split())
        return code if len(code) <= MOST_QUOTED else f"{code[: MOST_QUOTED - 3]}..."

    def line(self, seen_from: Path) -> str:
        """How a sentence about a file names the line: `line 12`, or `line 12 of other.py`."""
        return f"line {self.row}" if self.path == seen_from else f"line {self.row} of {self.path.name}"

    def at(self, node: cst.CSTNode) -> Place:
        """Another node of the same tree."""
        return Place(self.file, self.tree, node)


class Ctx:
    """A node of the calling-context tree: where in the dynamic nesting something happens.

    `kind` is one of
      module  a file's top level is running (`home`)
      frame   a project function is running (`function`; `place` is the call, None when nothing calls it)
      loop    an iteration of a loop (`place`; `items` is what it goes over)
      guard   a branch (`rarity`: rare, maybe, except, off-path; `place` is the `if`, `test` its value)
      mode    inside a context manager (`mode`)
    The same path always gives the same node, so that going over a loop body again updates instead of repeating.
    """

    __slots__ = (
        "_children", "backward", "depth", "forward", "function", "happened", "home", "items",
        "kind", "managed", "mode", "once", "parent", "place", "pump", "rarity", "returned", "role", "sealed", "step",
        "test", "waits", "zone",
    )  # fmt: skip

    def __init__(self, kind: str, parent: Ctx | None, place: Place | None = None) -> None:
        self.kind = kind
        self.parent = parent
        self.place = place
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.managed: Ctx | None = self if kind == "mode" else parent and parent.managed  # the innermost mode around
        self.sealed: bool = parent is not None and parent.sealed  # under a module's forward
        # The innermost loop around, outside all modules' forwards: one place for the engine to be thorough in.
        self.zone: Ctx | None = self if kind == "loop" and not self.sealed else parent and parent.zone
        self.function: Function | None = None
        self.home: Any = None
        self.items: Value = UNKNOWN
        self.mode: Mode | None = None
        self.rarity = ""
        self.test: Value | None = None
        self.pump = False  # the loop of a generator, driven by the loop that consumes it
        self.once = False  # the body ends in an unconditional break
        self.waits = False
        self.role = ""
        self.forward = self.backward = self.step = False
        self.happened: list[EventKey] = []  # what happened right here, for the trace
        self.returned: Value = UNKNOWN  # by the function that runs in a frame
        self._children: dict[tuple[str, object], Ctx] = {}

    def child(self, kind: str, key: object, place: Place | None = None) -> Ctx:
        found = self._children.get((kind, key))
        if found is None:
            found = self._children[(kind, key)] = Ctx(kind, self, place)
        return found

    @property
    def children(self) -> Mapping[tuple[str, object], Ctx]:
        """The contexts right below, by their kind and what tells them apart."""
        return self._children

    def down(self) -> Iterator[Ctx]:
        """This context and all below it, in no particular order."""
        stack = [self]
        while stack:
            ctx = stack.pop()
            yield ctx
            stack.extend(ctx._children.values())

    def up(self) -> Iterator[Ctx]:
        """This context and all around it, innermost first."""
        ctx: Ctx | None = self
        while ctx is not None:
            yield ctx
            ctx = ctx.parent

    def loops(self) -> Iterator[Ctx]:
        """The loops around, innermost first, without generators' own loops."""
        for ctx in self.up():
            if ctx.kind == "loop" and not ctx.pump:
                yield ctx

    def inside(self, other: Ctx) -> bool:
        return any(ctx is other for ctx in self.up())

    def line(self, seen_from: Path) -> str:
        """The line of what runs here, as `Place.line` names it."""
        return self.place.line(seen_from) if self.place is not None else "a line out of sight"

    def frame(self) -> Ctx:
        """The innermost frame or module context."""
        for ctx in self.up():
            if ctx.kind in ("frame", "module"):
                return ctx
        raise AssertionError("every context stands in a module")

    def modes(self) -> Iterator[Mode]:
        """The context managers in force, innermost first."""
        ctx = self.managed
        while ctx is not None:
            if ctx.mode is not None:
                yield ctx.mode
            ctx = ctx.parent.managed if ctx.parent is not None else None


@dataclass(eq=False, slots=True)
class Event:
    """Something that happened. `order` grows with execution; `grad`: gradients were being tracked."""

    place: Place
    ctx: Ctx
    order: int = field(default=0, kw_only=True)
    grad: bool = field(default=True, kw_only=True)

    def __hash__(self) -> int:
        return id(self)

    @property
    def token(self) -> tuple[int, int]:
        """The same each time that this happens again at its place in its context."""
        return (id(self.place.node), id(self.ctx))


@dataclass(eq=False, slots=True)
class Call(Event):
    """A call of a library function or class, by canonical name, or of a method of an unknown value (".name")."""

    name: str
    args: CallArgs
    result: Value = UNKNOWN
    receiver: Value | None = None

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Forward(Event):
    """A module was called (or one of its methods that uses it: `method`). Only the outermost call is `outer`."""

    module: Value
    args: list[Value]
    result: Value = UNKNOWN
    outer: bool = True
    method: str = ""

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Backward(Event):
    """`.backward()` (or autograd.backward) on `value`; `scaled` when a GradScaler scaled it."""

    value: Value
    scaled: bool = False
    args: CallArgs = field(default_factory=CallArgs)

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Step(Event):
    """An optimizer took a step: `optimizer`, and the scaler when it went through one.

    `by_hand`: parameters were updated in place instead.
    """

    optimizer: Value
    scaler: Value | None = None
    by_hand: bool = False

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class ScalerCall(Event):
    """scale, unscale_, step, update of a GradScaler."""

    scaler: Value
    method: str
    args: list[Value]

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Read(Event):
    """The host read a tensor: `how` is item, tolist, cpu, numpy, float, int, bool, print, format, argument, sink..."""

    value: Value
    how: str
    decides: bool = False  # the value decides how the loop goes on

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Added(Event):
    """A number that the host had read (`value`) was added to something by `+=`; `total` is what that was before."""

    total: Value
    value: Value

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Clock(Event):
    """A clock was read; `decides`: what was read decides how the loop goes on (a time-out)."""

    name: str
    decides: bool = False

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Elapsed(Event):
    """The time between readings of a clock was worked out."""

    starts: frozenset[Clock]
    ends: frozenset[Clock]

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Move(Event):
    """A tensor (or batch) was moved: `.to`, `.cuda`, `.type`. `target` is a Device, or Unknown."""

    value: Value
    target: Value
    args: CallArgs
    how: str = "to"
    result: Value = UNKNOWN

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Placed(Event):
    """A module was moved to a device (`.to`, `.cuda`): `module`, `target`."""

    module: Value
    target: Value

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Construct(Event):
    """An object with identity was made: a loader, optimizer, scaler, module, dataset."""

    value: Value

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Iterate(Event):
    """A loop (or `iter`, `next`) began to go over `value`; `loop` is the loop's context, None for `next(iter(x))`."""

    value: Value
    loop: Ctx | None

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Store(Event):
    """`value` was kept in something that outlives the iteration.

    `how`: add (augmented assignment), append, key, attribute. `target`: the name or object stored to, as source text;
    `bound_at`: the depth of the loop nest at which the target was made (the number of loops around it).
    """

    value: Value
    how: str
    target: str
    holder: Value
    outer: Ctx | None = None

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Assign(Event):
    """An attribute or item of a library object was set (`torch.backends.cudnn.deterministic`, `os.environ[...]`).

    Also an attribute of an object: `target` is its name with a dot before it, `holder` the object.
    """

    target: str
    value: Value
    holder: Value | None = None

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Enter(Event):
    """A `with` (or decorator) put a mode in force."""

    mode: Mode
    body: Ctx

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Test(Event):
    """An `if`, `while`, `assert`, `and`, `or`, `not` looked at a value."""

    value: Value
    how: str

    __hash__ = Event.__hash__


@dataclass(eq=False, slots=True)
class Compared(Event):
    """Two values, at least one a tensor, were compared (`place` is the comparison)."""

    left: Value
    right: Value

    __hash__ = Event.__hash__


class Trace:
    """All events of a program, in the order of execution, one for each place, context and kind."""

    def __init__(self) -> None:
        self._events: dict[EventKey, Event] = {}
        self._order = 0

    def add(self, event: Event, detail: str = "") -> None:
        key = _event_key(type(event), event.place, event.ctx, detail)
        if self._events.pop(key, None) is None:
            event.ctx.happened.append(key)
        self._order += 1
        event.order = self._order
        self._events[key] = event

    def find(self, kind: type[E], place: Place, ctx: Ctx, detail: str = "") -> E | None:
        """The event of a kind that is noted for a place in a context."""
        found = self._events.get(_event_key(kind, place, ctx, detail))
        return found if isinstance(found, kind) else None

    def repeat(self, ctx: Ctx) -> None:
        """What happened in a context and below it happens once more, in the order in which it did."""
        keys = [key for below in ctx.down() for key in below.happened]
        for key in sorted(keys, key=lambda key: self._events[key].order):
            self._order += 1
            event = self._events[key] = self._events.pop(key)
            event.order = self._order

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events.values())

    def __len__(self) -> int:
        return len(self._events)


def _event_key(kind: type[Event], place: Place, ctx: Ctx, detail: str) -> EventKey:
    return (kind, id(place.node), id(ctx), detail)

"""Abstract values: what the engine knows of an expression.

Values that stand for plain data (`Const`, `Num`, `Tensor`, ...) are immutable and compare by `key()`; values that
stand for objects with identity (`Obj` and its kin) are mutable and compare by identity. `Unknown` is the honest
answer for everything else; it may still carry what it was computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst

    from ptlint.facts.events import Ctx, Event, Place
    from ptlint.syntax.tree import Tree

DEVICE, HOST, UNSURE = "device", "host", "unknown"
ATTACHED, DETACHED = "attached", "detached"

WHOLE_NUMBERS = frozenset({"int64", "long", "int32", "int", "int16", "short", "int8", "uint8"})
FLOATING = frozenset({"float", "float32", "float64", "double", "float16", "half", "bfloat16"})
"""Names of dtypes; "float" is the default one."""

OFTEN_PERIOD = 8
"""A guard that holds in at least one iteration of this many is still hot (CATALOGUE.md, Hot)."""

MAX_ALTERNATIVES = 5

Tokens = frozenset[tuple[int, int]]
"""Events that a value came through, by `Event.token`."""
NOWHERE: Tokens = frozenset()
ANYWHERE: Tokens = frozenset({(0, 0)})
"""Stands for more events than are told apart."""
MAX_TOKENS = 64
MAX_HELD = 16
"""So many items of a container are looked at where every item would count."""


class Value:
    """Base of all abstract values."""

    __slots__ = ()

    def key(self) -> object:
        """What makes two values the same for joins and memos."""
        return id(self)


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """Anything. `where`, `graph`, `came` and `reads` tell what it was computed from, for when it is a tensor after all.

    `wraps`: loaders and iterators that code which cannot be read was given (a progress bar, a prefetcher).
    """

    where: str = UNSURE
    graph: str = UNSURE
    batch: Value | None = None
    wraps: tuple[Value, ...] = ()
    came: Tokens = NOWHERE
    reads: frozenset[Event] = frozenset()

    def key(self) -> object:
        batch = tuple(id(source) for source in sources_of(self.batch))
        return ("?", self.where, self.graph, batch, tuple(value.key() for value in self.wraps), self.came, self.reads)


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class Table(Unknown):
    """A pandas DataFrame: nothing is known of what it holds."""

    def key(self) -> object:
        return ("table",)


@dataclass(frozen=True, slots=True)
class Const(Value):
    """A Python constant. `soft`: a readable default that a user, a flag or the machine may change."""

    value: Any
    soft: bool = False

    def key(self) -> object:
        return ("c", type(self.value).__name__, self.value, self.soft)


NONE = Const(None)


@dataclass(frozen=True, slots=True)
class Num(Value):
    """A Python number, bool or string whose value is not known.

    `counter`: counts iterations of a loop (of a test: looks at one that does).
    `period`: it is a counter modulo this (0: by something not readable).
    `rare`: as a test it holds in a small share of iterations; `often`: its negation does.
    `reads`: the host reads of device tensors, and the readings of a clock, that it came from.
    `size`: a loop-invariant size such as `len(loader)`.
    """

    type: str = "any"
    counter: bool = False
    period: int | None = None
    rare: bool = False
    often: bool = False
    reads: frozenset[Event] = frozenset()

    def key(self) -> object:
        return ("n", self.type, self.counter, self.period, self.rare, self.often, self.reads)


@dataclass(frozen=True, slots=True)
class Tensor(Value):
    """A tensor. `where`: device, host or unknown; `graph`: attached, detached or unknown.

    `batch`: the loader (or other source) whose item this is;
    `fresh`: from no data: a factory's, or of constants, also after casts, views and arithmetic with numbers;
    `made`: the call that made it, if that is one, through the same;
    `module`: the module whose call made it; `moved`: it is the result of a move of a batch;
    `data`: holds external data (an array, a file's contents);
    `came`: the module calls and the stores that its graph goes through (tokens of their events);
    `reads`: the host reads of device tensors that its numbers came from.
    """

    where: str = UNSURE
    graph: str = UNSURE
    dtype: str | None = None
    batch: Value | None = None
    fresh: bool = False
    module: Value | None = None
    moved: bool = False
    made: Place | None = None
    came: Tokens = NOWHERE
    reads: frozenset[Event] = frozenset()

    def key(self) -> object:
        return (
            "t",
            self.where,
            self.graph,
            self.dtype,
            tuple(id(source) for source in sources_of(self.batch)),
            self.fresh,
            id(self.module) if self.module is not None else 0,
            id(self.made.node) if self.made is not None else 0,
            self.came,
            self.reads,
        )

    @property
    def on_device(self) -> bool:
        return self.where == DEVICE


@dataclass(frozen=True, slots=True)
class Array(Value):
    """A NumPy array (or an h5py data set, by `source`); `dtype` when known, `reads` as for `Num`.

    `solid`: known to have a dimension; what is not may be a NumPy number. `made`: the factory or random call that made
    it, from no data.
    """

    dtype: str | None = None
    source: str = "numpy"
    reads: frozenset[Event] = frozenset()
    solid: bool = False
    made: Place | None = None

    def key(self) -> object:
        made = id(self.made.node) if self.made is not None else 0
        return ("a", self.dtype, self.source, self.reads, self.solid, made)


@dataclass(frozen=True, slots=True)
class Lib(Value):
    """Something defined outside the project, by its qualified name (`torch.utils.data.DataLoader`)."""

    name: str

    def key(self) -> object:
        return ("l", self.name)


@dataclass(frozen=True, slots=True)
class Device(Value):
    """A device: type is cuda, cpu, mps, xla, meta, accelerator or unknown. `soft`: chosen at run time."""

    type: str
    soft: bool = False

    def key(self) -> object:
        return ("d", self.type, self.soft)

    @property
    def where(self) -> str:
        if self.type == "cpu":
            return HOST
        return DEVICE if self.type in ("cuda", "accelerator") else UNSURE


@dataclass(frozen=True, slots=True)
class Method(Value):
    """A method of a value that is not project code, before it is called."""

    receiver: Value
    name: str

    def key(self) -> object:
        return ("m", self.receiver.key(), self.name)


@dataclass(frozen=True, slots=True)
class Tuple(Value):
    """A tuple of known length."""

    items: tuple[Value, ...]

    def key(self) -> object:
        return ("tuple", *(item.key() for item in self.items))


@dataclass(frozen=True, slots=True)
class Items(Value):
    """Something iterable of unknown length: each item is `item`; `kind` is iterator, generator, range, list...

    `source` is what it goes over (a loader, a module's parameters), through any number of wrappers.
    `length`: the number of items when it is a known constant.
    """

    item: Value
    kind: str = "iterator"
    source: Value | None = None
    length: int | None = None

    def key(self) -> object:
        return ("i", self.kind, self.item.key(), id(self.source) if self.source is not None else 0)


@dataclass(frozen=True, slots=True)
class Join(Value):
    """One of several values, by the branch taken."""

    options: tuple[Value, ...]

    def key(self) -> object:
        return ("j", frozenset(option.key() for option in self.options))


@dataclass(frozen=True, slots=True)
class Params(Value):
    """Parameters of modules: `model.parameters()`, or one of them (`single`)."""

    modules: tuple[Module, ...]
    single: bool = False
    named: bool = False

    def key(self) -> object:
        return ("p", tuple(id(m) for m in self.modules), self.single, self.named)


@dataclass(frozen=True, slots=True)
class StateDict(Value):
    """`module.state_dict()` and what is copied from it."""

    module: Value

    def key(self) -> object:
        return ("sd", id(self.module))


@dataclass(frozen=True, slots=True)
class Mode(Value):
    """A context manager that changes how code inside it runs.

    `kind`: grad (enabled says which), autocast (dtype, device, enabled), device, profiler, anomaly, no_sync, other.
    Also usable as a decorator.
    """

    kind: str
    enabled: Value = Const(True)
    dtype: str | None = None
    device: str | None = None
    name: str = ""
    place: Place | None = None
    target: Value | None = None

    def key(self) -> object:
        return (*self._at, self.enabled.key(), self.dtype, self.device)

    @property
    def _at(self) -> tuple[object, ...]:
        return ("mode", self.kind, self.name, id(self.place.node) if self.place is not None else 0)

    @property
    def site(self) -> object:
        """The same each time that the mode is entered, although more may be known of it then; a grad mode's switch
        tells calls of one function apart."""
        return (*self._at, self.enabled.key()) if self.kind == "grad" else self._at


class Obj(Value):
    """An object with identity: attributes, the place that made it, and a class when the project defines one."""

    __slots__ = ("attr_ctx", "attrs", "call", "cls", "ctx", "open", "place")

    def __init__(self, place: Place | None, cls: ProjectClass | Lib | None = None) -> None:
        self.place = place
        self.ctx: Ctx | None = None
        self.cls = cls
        self.attr_ctx: dict[str, Ctx] = {}
        self.attrs: dict[str, Value] = {}
        self.call: CallArgs | None = None
        self.open = False  # attributes may exist that were never seen being set

    @property
    def lib_base(self) -> str | None:
        """The qualified name of the nearest class outside the project that this is an instance of."""
        if isinstance(self.cls, Lib):
            return self.cls.name
        return self.cls.lib_base if self.cls is not None else None


class Instance(Obj):
    """An instance of a project class (or of a library class without a model of its own)."""

    __slots__ = ()


class Module(Obj):
    """An `nn.Module`: of the project (`cls` is a ProjectClass) or of a library (`cls` is a Lib).

    `inner`: what DataParallel, DDP, FSDP, torch.compile, AveragedModel wrap. `wrapper`: which of them
    (dataparallel, ddp, fsdp, compile, script, other) or "". `children` of containers in order.
    `where` is where it was last put; `frozen`: all its parameters were frozen by hand; `registered`: names of buffers,
    which move with it; `part_of`: it is one of this module's `modules()`, not known which.
    """

    __slots__ = ("children", "frozen", "inner", "part_of", "registered", "training", "where", "wrapper")

    def __init__(self, place: Place | None, cls: ProjectClass | Lib | None) -> None:
        super().__init__(place, cls)
        self.where = HOST
        self.frozen = False
        self.registered: set[str] = set()
        self.inner: Module | None = None
        self.wrapper = ""
        self.children: list[Value] = []
        self.training: bool | None = None
        self.part_of: Module | None = None

    @property
    def core(self) -> Module:
        """The module under all wrappers."""
        module = self
        while module.inner is not None:
            module = module.inner
        return module


class Loader(Obj):
    """A `torch.utils.data.DataLoader` (or a subclass): `call` holds its arguments."""

    __slots__ = ()

    def dataset(self) -> Value:
        return self.call.get("dataset", UNKNOWN) if self.call is not None else UNKNOWN


class Dataset(Obj):
    """A dataset of a library (torchvision, TensorDataset, Subset ...); project datasets are `Instance`s."""

    __slots__ = ()


class Batches(Obj):
    """A source of batches that is no DataLoader: a parameter nothing binds, an iterator of a library."""

    __slots__ = ()


class Either(Value):
    """One of several sources of batches, by the branch taken or the turn of a loop."""

    __slots__ = ("members",)

    def __init__(self, members: tuple[Value, ...]) -> None:
        self.members = members


def sources_of(batch: Value | None) -> tuple[Value, ...]:
    """The sources that a batch may come from."""
    if batch is None:
        return ()
    return batch.members if isinstance(batch, Either) else (batch,)


def either(a: Value | None, b: Value | None) -> Value | None:
    """The source of what comes from one of two."""
    if a is b or b is None:
        return a
    if a is None:
        return b
    members = list(sources_of(a))
    members += [source for source in sources_of(b) if not any(source is known for known in members)]
    return a if len(members) == len(sources_of(a)) else Either(tuple(members))


class Optimizer(Obj):
    """A `torch.optim` optimizer; `modules` whose parameters it holds, `tensors`: it holds plain tensors too.

    `made_over`: where the modules' parameters (and the tensors) were when it was made, as far as that is known.
    """

    __slots__ = ("made_over", "modules", "opaque", "tensors")

    def __init__(self, place: Place | None, cls: ProjectClass | Lib | None = None) -> None:
        super().__init__(place, cls)
        self.modules: tuple[Module, ...] = ()
        self.tensors = False
        self.opaque = False
        self.made_over: frozenset[str] | None = None


class Scaler(Obj):
    """A GradScaler."""

    __slots__ = ()


class Scheduler(Obj):
    """A learning-rate scheduler."""

    __slots__ = ()


class Sequence(Obj):
    """A list (or set, deque): `items` in order while they are known, else every item is `item`."""

    __slots__ = ("item", "items")

    def __init__(self, place: Place | None, items: Iterable[Value] | None = None, item: Value | None = None) -> None:
        super().__init__(place)
        self.items: list[Value] | None = list(items) if items is not None else None
        self.item: Value | None = item

    def element(self) -> Value:
        """A value that stands for any item."""
        values = list(self.items or ())
        if self.item is not None:
            values.append(self.item)
        return join_all(values) if values else UNKNOWN

    def blur(self, value: Value) -> None:
        """Forget the order; `value` is one of the items."""
        before = self.element() if self.items or self.item is not None else None
        self.item = value if before is None else widen(before, value)
        self.items = None


class Mapping(Obj):
    """A dict with known string keys in `entries`; `rest` stands for values under other keys.

    `origins`: where a key's value was written (the item of a display, the keyword argument, the assigned subscript).
    """

    __slots__ = ("entries", "origins", "rest")

    def __init__(self, place: Place | None) -> None:
        super().__init__(place)
        self.entries: dict[Any, Value] = {}
        self.origins: dict[Any, Place] = {}
        self.rest: Value | None = None


class Options(Obj):
    """What `parse_args()` returns: attributes are options with soft defaults."""

    __slots__ = ()


class Other(Obj):
    """A library object with a few known methods; `kind` says which (parser, writer, event, accelerator, ...)."""

    __slots__ = ("kind",)

    def __init__(self, place: Place | None, kind: str) -> None:
        super().__init__(place)
        self.kind = kind


@dataclass(eq=False, slots=True)
class Function(Value):
    """A project function with its closure. `self_value` once bound; `modes` that decorators put around it."""

    head: cst.FunctionDef | cst.Lambda
    home: Any
    scope: Any
    head_tree: Tree | None
    owner: ProjectClass | None = None
    self_value: Value | None = None
    modes: tuple[Mode, ...] = ()
    flags: frozenset[str] = frozenset()
    defaults: dict[str, Value] = field(default_factory=dict)

    @property
    def node(self) -> cst.FunctionDef | cst.Lambda:
        """The function as a whole; `head`, which a class holds, may lack the body."""
        return self.head if self.head_tree is None else self.head_tree.whole(self.head)[1]

    @property
    def tree(self) -> Tree | None:
        """The tree that `node` stands in."""
        return self.head_tree and self.head_tree.whole(self.head)[0]

    def key(self) -> object:
        bound = self.self_value.key() if self.self_value is not None else 0
        return ("f", id(self.head), id(self.scope), bound, tuple(mode.key() for mode in self.modes))

    def bind(self, receiver: Value) -> Function:
        return replace(self, self_value=receiver)


@dataclass(frozen=True, slots=True)
class Partial(Value):
    """`functools.partial(...)`."""

    function: Value
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]

    def key(self) -> object:
        return (
            "partial",
            self.function.key(),
            *(a.key() for a in self.args),
            *((n, v.key()) for n, v in self.keywords),
        )


class ProjectClass(Value):
    """A class of the project: its methods and class attributes by name, bases resolved.

    `define` fills it when somebody first asks for more than the name; `local`: it is made inside a function or class.
    """

    __slots__ = ("_bases", "_define", "_members", "_node", "decorators", "home", "local", "name")

    def __init__(
        self, name: str, home: Any, define: Callable[[ProjectClass], cst.ClassDef], *, local: bool = False
    ) -> None:
        self.name = name
        self.home = home
        self.local = local
        self._define: Callable[[ProjectClass], cst.ClassDef] | None = define
        self._node: cst.ClassDef | None = None
        self._bases: list[Value] = []
        self._members: dict[str, Value] = {}
        self.decorators: list[Value] = []

    def _fill(self) -> None:
        if self._define is not None:
            define, self._define = self._define, None
            self._node = define(self)

    @property
    def node(self) -> cst.ClassDef:
        self._fill()
        assert self._node is not None, "asked for while its own body runs"
        return self._node

    @property
    def bases(self) -> list[Value]:
        self._fill()
        return self._bases

    @property
    def members(self) -> dict[str, Value]:
        self._fill()
        return self._members

    def mro(self) -> Iterator[ProjectClass]:
        """The project's classes in (depth first) resolution order, each once."""
        seen: set[int] = set()
        stack = [self]
        while stack:
            current = stack.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            yield current
            stack.extend(base for base in reversed(current.bases) if isinstance(base, ProjectClass))

    def find(self, name: str, after: ProjectClass | None = None) -> Value | None:
        """The member `name`, looked up through the bases (`after` a class, for `super()`)."""
        skipping = after is not None
        for cls in self.mro():
            if skipping:
                skipping = cls is not after
                continue
            if name in cls.members:
                return cls.members[name]
        return None

    def code(self) -> Iterator[cst.CSTNode]:
        """The class, and its methods with their bodies."""
        yield self.node
        yield from (member.node for member in self.members.values() if isinstance(member, Function))

    @property
    def lib_bases(self) -> tuple[str, ...]:
        return tuple(base.name for cls in self.mro() for base in cls.bases if isinstance(base, Lib))

    @property
    def lib_base(self) -> str | None:
        bases = self.lib_bases
        return bases[0] if bases else None

    @property
    def opaque(self) -> bool:
        """Whether a base could not be resolved."""
        return any(not isinstance(base, (ProjectClass, Lib)) for cls in self.mro() for base in cls.bases)


@dataclass(frozen=True, slots=True)
class FileRef(Value):
    """A module of the project, as imported."""

    home: Any

    def key(self) -> object:
        return ("file", id(self.home))


@dataclass(slots=True)
class CallArgs:
    """A call's arguments, bound to names where the signature is known.

    `bound`: parameter to value; `nodes`: parameter to the argument's node where it is written at the call;
    `open`: a `*args`/`**kwargs` of unknown content may set any parameter; `starred`: parameters set through one;
    `origins`: where the values of those were written, as far as that is known.
    """

    bound: dict[str, Value] = field(default_factory=dict)
    nodes: dict[str, cst.Arg] = field(default_factory=dict)
    extra: list[Value] = field(default_factory=list)
    open: bool = False
    starred: frozenset[str] = frozenset()
    origins: dict[str, Place] = field(default_factory=dict)

    def state(self, name: str) -> str:
        """The argument's state: "set", "absent" or "unknown" (CATALOGUE.md, Argument states)."""
        if name in self.bound:
            return "set"
        return "unknown" if self.open else "absent"

    def get(self, name: str, default: Value = UNKNOWN) -> Value:
        return self.bound.get(name, default)


class Imported(Value):
    """A global name from another file of the program, looked up when somebody asks for it."""

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], Value]) -> None:
        self._find = find
        self._found: Value | None = None

    def look_up(self) -> Value:
        if self._found is None:
            self._found = UNKNOWN  # files may import a name from one another
            self._found = self._find()
        return self._found


def options(value: Value) -> tuple[Value, ...]:
    """The alternatives of a value (itself when there is one)."""
    if isinstance(value, Join):
        return value.options
    return options(value.look_up()) if isinstance(value, Imported) else (value,)


def pick(value: Value, kind: type | tuple[type, ...]) -> list[Any]:
    """Those alternatives of a value that are of a kind."""
    return [option for option in options(value) if isinstance(option, kind)]


def unwrap(value: Value, predicate: Callable[[Value], bool]) -> Value | None:
    """The first alternative that a predicate accepts."""
    return next((option for option in options(value) if predicate(option)), None)


def join_where(a: str, b: str) -> str:
    """Code that chooses at run time is judged on its accelerated path: device wins over host."""
    if a == b:
        return a
    return DEVICE if {a, b} == {DEVICE, HOST} else UNSURE


def _join_graph(a: str, b: str) -> str:
    if a == b:
        return a
    return ATTACHED if {a, b} == {ATTACHED, DETACHED} else UNSURE


def reads_of(*values: Value) -> frozenset[Event]:
    """The host reads that values came from, those in tuples too."""
    found: frozenset[Event] = frozenset()
    for value in values:
        for option in options(value):
            if isinstance(option, (Num, Array, Tensor, Unknown)):
                if option.reads:
                    found = found | option.reads
            elif isinstance(option, Tuple):
                found = found | reads_of(*option.items)
    return found


def came_of(*values: Value, depth: int = 3) -> Tokens:
    """What values came through, those in containers too."""
    found = NOWHERE
    for value in values:
        for option in options(value):
            if isinstance(option, (Tensor, Unknown)):
                if option.came and option.came is not found:
                    found = found | option.came
            elif depth:
                held = held_by(option)
                if held:
                    found = found | came_of(*held, depth=depth - 1)
    return found if len(found) <= MAX_TOKENS else ANYWHERE


def held_by(value: Value) -> Iterable[Value]:
    """What a tuple, list, dict or iterator holds."""
    if isinstance(value, Tuple):
        return value.items
    if isinstance(value, Sequence):
        return [*(value.items or ())[:MAX_HELD], *([value.item] if value.item is not None else ())]
    if isinstance(value, Mapping):
        return [*list(value.entries.values())[:MAX_HELD], *([value.rest] if value.rest is not None else ())]
    return (value.item,) if isinstance(value, Items) else ()


def through(value: Value, token: tuple[int, int]) -> Value:
    """A value that also came through an event; what carries no graph comes through none."""
    found: list[Value] = []
    for option in options(value):
        if isinstance(option, Unknown) and option == UNKNOWN:
            found.append(option)
        elif isinstance(option, (Tensor, Unknown)) and option.graph != DETACHED and token not in option.came:
            found.append(replace(option, came=option.came | {token}))
        elif isinstance(option, Tuple):
            found.append(Tuple(tuple(through(item, token) for item in option.items)))
        else:
            found.append(option)
    return found[0] if len(found) == 1 else Join(tuple(found))


def same_place(a: Place | None, b: Place | None) -> bool:
    return a is b or (a is not None and b is not None and a.node is b.node)


def _common_period(a: int | None, b: int | None) -> int | None:
    """The period of a counter modulo one of two numbers: one that is known to be short, else one not known."""
    if a == b or a is None or b is None:
        return a if a == b else None
    return min((period for period in (a, b) if 0 < period <= OFTEN_PERIOD), default=0)


def _merge(a: Value, b: Value) -> Value | None:
    """One value of the same class that covers both, or None."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return Tensor(
            join_where(a.where, b.where),
            _join_graph(a.graph, b.graph),
            a.dtype if a.dtype == b.dtype else None,
            either(a.batch, b.batch),
            a.fresh and b.fresh,
            a.module if a.module is b.module else (a.module or b.module),
            a.moved and b.moved,
            a.made if same_place(a.made, b.made) else None,
            came_of(a, b),
            a.reads | b.reads,
        )
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return Unknown(
            a.where if a.where == b.where else UNSURE,
            a.graph if a.graph == b.graph else UNSURE,
            either(a.batch, b.batch) if a.batch is not None and b.batch is not None else None,
            a.wraps or b.wraps,
            came_of(a, b),
            a.reads | b.reads,
        )
    if isinstance(a, Num) and isinstance(b, Num):
        return Num(
            a.type if a.type == b.type else "any",
            a.counter and b.counter,
            _common_period(a.period, b.period),
            a.rare and b.rare,
            a.often and b.often,
            a.reads | b.reads,
        )
    if isinstance(a, Array) and isinstance(b, Array):
        made = a.made if same_place(a.made, b.made) else None
        dtype = a.dtype if a.dtype == b.dtype else None
        return Array(dtype, a.source, a.reads | b.reads, a.solid and b.solid, made)
    if isinstance(a, Device) and isinstance(b, Device):
        ranked = sorted(
            (a, b),
            key=lambda d: (
                ("cuda", "accelerator", "unknown", "cpu").index(d.type)
                if d.type in ("cuda", "accelerator", "unknown", "cpu")
                else 2
            ),
        )
        return Device(ranked[0].type, True)
    if isinstance(a, Tuple) and isinstance(b, Tuple) and len(a.items) == len(b.items):
        return Tuple(tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True)))
    if isinstance(a, Other) and isinstance(b, Other) and a.kind == b.kind == "runtime":
        return a
    if isinstance(a, Items) and isinstance(b, Items) and a.kind == b.kind:
        return Items(join(a.item, b.item), a.kind, a.source if a.source is b.source else (a.source or b.source))
    return None


def join(a: Value, b: Value) -> Value:
    """The least value we can write that covers both."""
    if a is b:
        return a
    if a.key() == b.key():
        return a
    found: list[Value] = list(options(a))
    for new in options(b):
        for index, old in enumerate(found):
            if old is new or old.key() == new.key():
                break
            merged = _merge(old, new)
            if merged is not None:
                found[index] = merged
                break
        else:
            found.append(new)
    if len(found) == 1:
        return found[0]
    if len(found) > MAX_ALTERNATIVES:
        return UNKNOWN
    return Join(tuple(found))


def join_all(values: Iterable[Value]) -> Value:
    """The join of any number of values; Unknown for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def type_of(value: object) -> str:
    """The Num type of a Python constant."""
    if isinstance(value, bool):
        return "bool"
    return type(value).__name__ if isinstance(value, (int, float, str)) else "any"


def widen(a: Value, b: Value) -> Value:
    """Join for loop heads: differing constants become numbers so that loops settle."""
    if a is b or a.key() == b.key():
        return a
    numbers = [o for o in (*options(a), *options(b)) if isinstance(o, Const) and type_of(o.value) != "any"]
    others = [o for o in (*options(a), *options(b)) if not any(o is n for n in numbers)]
    if not numbers:
        return join(a, b)
    if len({(type(n.value), n.value) for n in numbers}) == 1:
        return join(a, b)
    number: Value = join_all([Num(type_of(n.value)) for n in numbers])
    return join_all([number, *others])

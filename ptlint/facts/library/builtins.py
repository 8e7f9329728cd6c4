"""Python's own functions, `math`, `itertools`, `functools`, `copy`, and NumPy."""

from __future__ import annotations

from itertools import islice, product

import libcst as cst

from ptlint.facts import arrays, guards, iteration, torch_api
from ptlint.facts.arguments import Arguments
from ptlint.facts.calls import derived
from ptlint.facts.events import Call, Event, Place
from ptlint.facts.homes import Frame
from ptlint.facts.library.registry import FUNCTIONS, models
from ptlint.facts.operations import read, text_from
from ptlint.facts.run import Run
from ptlint.facts.values import (
    DEVICE,
    MAX_ALTERNATIVES,
    NONE,
    UNKNOWN,
    Array,
    Const,
    FileRef,
    Items,
    Lib,
    Mapping,
    Mode,
    Module,
    Num,
    Obj,
    Options,
    Other,
    Params,
    Partial,
    ProjectClass,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join_all,
    options,
    reads_of,
)


def argument_node(args: Arguments, index: int, place: Place) -> cst.CSTNode:
    """The node of an argument (the call where it was spread)."""
    node = args.nodes[index] if index < len(args.nodes) else None
    return node.value if node is not None else place.node


def read_all(run: Run, args: Arguments, place: Place, frame: Frame, how: str) -> frozenset[Event]:
    found: frozenset[Event] = frozenset()
    for index, value in enumerate(args.positional):
        held = value.entries.values() if isinstance(value, Mapping) else (value,)  # `set_postfix({"loss": loss})`
        for part in held:
            found |= read(run, part, argument_node(args, index, place), how, frame)
    return found


@models("print")
def _print(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    read_all(run, args, place, frame, "print")
    run.emit(Call(place, frame.ctx, "print", args.bind(())), "print")
    return NONE


@models("input", "exit", "quit", "breakpoint")
def _stop(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    run.emit(Call(place, frame.ctx, name, args.bind(())), name)
    if name in ("exit", "quit"):
        frame.dead = True
    return Num("str")


@models("sys.exit", "os._exit")
def _exit(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    frame.dead = True
    return NONE


@models("float", "int", "bool", "str", "repr", "format")
def _convert(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if not args.positional:
        return Const({"float": 0.0, "int": 0, "bool": False}.get(name, ""))
    value = args.positional[0]
    if (
        isinstance(value, Const)
        and isinstance(value.value, (int, float, str, bool))
        and name in ("int", "float", "bool", "str")
    ):
        try:
            return Const({"int": int, "float": float, "bool": bool, "str": str}[name](value.value), value.soft)
        except (ValueError, OverflowError):
            return Num(name)
    how = name if name in ("float", "int", "bool") else "format"
    reads = read(run, value, argument_node(args, 0, place), how, frame)
    first = next((o for o in options(value) if isinstance(o, Num)), None)
    if first is not None and name in ("bool", "int"):
        return Num(name, first.counter, first.period, first.rare, first.often, reads)
    return Num(name if name in ("float", "int", "bool") else "str", reads=reads)


@models("len")
def _len(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    value = args.first()
    if isinstance(value, Tuple):
        return Const(len(value.items))
    if isinstance(value, Sequence) and value.items and value.ctx is run.root:
        return Const(len(value.items))
    method = run.member(value, "__len__")
    if method is not None:
        run.call(method, Arguments(), place, frame)
    return Num("int")


@models("range")
def _range(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    read_all(run, args, place, frame, "argument")
    return Items(Num("int", counter=True), "range", length=_range_length(args.positional))


def _range_length(values: list[Value]) -> int | None:
    """The number of steps, at most, of a range between known numbers."""
    choices = [[o.value if isinstance(o, Const) and not o.soft else None for o in options(value)] for value in values]
    if not choices or not all(isinstance(number, int) for numbers in choices for number in numbers):
        return None
    try:
        return max(len(range(*numbers)) for numbers in product(*choices))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


_PROGRESS = frozenset(
    f"tqdm.{name}"
    for name in ("tqdm", "auto.tqdm", "notebook.tqdm", "autonotebook.tqdm", "asyncio.tqdm", "tqdm_notebook")
) | {"rich.progress.track", "fastprogress.progress_bar", "alive_progress.alive_it"}


@models("enumerate", "itertools.islice", "itertools.cycle", "reversed", "iter", "tqdm.contrib.tenumerate", *_PROGRESS)
def _over(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    source = args.get("iterable", 0, UNKNOWN)
    if name in _PROGRESS and not args.has("iterable", 0):
        return run.make(Other, place, frame.ctx, "progress")
    if name == "iter":
        method = run.member(source, "__iter__")
        if method is not None:
            return run.call(method, Arguments(), place, frame)
        iteration.note(run, source, place, frame.ctx, None)
    last = name.rpartition(".")[2]
    kind = "tqdm" if name in _PROGRESS else {"tenumerate": "enumerate"}.get(last, last)
    return Items(UNKNOWN, kind, source)


@models("tqdm.trange", "tqdm.auto.trange")
def _trange(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return _range(run, "range", args, place, frame)


@models("zip", "itertools.zip_longest", "itertools.product")
def _zip(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if args.open:
        return Items(UNKNOWN, "iterator")
    return Items(UNKNOWN, "zip", Tuple(tuple(args.positional)))


@models("itertools.count")
def _count(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Items(Num("int", counter=True), "range")


@models("itertools.chain")
def _chain(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    modules = [
        module for value in args.positional for o in options(value) if isinstance(o, Params) for module in o.modules
    ]
    if modules:
        return Params(tuple(dict.fromkeys(modules)))
    items = [iteration.item_of(run, value, place, frame) for value in args.positional]
    return Items(join_all([item for item in items if item is not None]), "chain")


@models("next")
def _next(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    source = args.first()
    method = run.member(source, "__next__")
    if method is not None:
        return run.call(method, Arguments(), place, frame)
    return iteration.next_of(run, source, place, frame)


@models("list", "tuple", "set", "sorted", "frozenset", "collections.deque")
def _collect(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    source = args.first(NONE)
    made = run.make(Sequence, place, frame.ctx)
    if not args.positional:
        made.items, made.item = [], None
        return made
    if isinstance(source, (Tuple, Sequence)) and source.items is not None:
        made.items, made.item = list(source.items), None
        return made
    if isinstance(source, Module) and source.children:
        made.items, made.item = list(source.children), None
        return made
    if isinstance(source, Params):
        return source
    iteration.note(run, source, place, frame.ctx, None)
    made.items, made.item = None, iteration.item_of(run, source, place, frame) or UNKNOWN
    return made


@models("dict", "collections.OrderedDict", "collections.defaultdict")
def _dict(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    made = run.make(Mapping, place, frame.ctx)
    made.entries.clear()
    made.rest = UNKNOWN if args.open else None
    for value in args.positional if name != "collections.defaultdict" else ():
        if isinstance(value, Mapping):
            made.entries.update(value.entries)
            made.origins.update(value.origins)
            made.rest = value.rest or made.rest
        elif isinstance(value, Sequence) and value.items is not None:
            for item in value.items:
                if isinstance(item, Tuple) and len(item.items) == 2 and isinstance(item.items[0], Const):
                    made.entries[item.items[0].value] = item.items[1]
        elif isinstance(value, Params) and value.named and not args.keywords:
            return value  # `dict(model.named_parameters())`: what it holds stays what it is
        else:
            made.rest = UNKNOWN
    made.entries.update(args.keywords)
    made.origins.update(args.origins)
    made.origins.update({key: place.at(node) for key, node in args.keyword_nodes.items()})
    return made


@models("map", "filter")
def _map(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if len(args.positional) < 2:
        return UNKNOWN
    item = iteration.item_of(run, args.positional[1], place, frame) or UNKNOWN
    if name == "filter":
        return args.positional[1] if isinstance(args.positional[1], Params) else Items(item, "filter")
    return Items(run.call(args.positional[0], Arguments().add(item), place, frame), "map")


@models("sum", "max", "min", "abs", "round", "pow", "divmod")
def _fold(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    values = list(args.positional)
    if name in ("sum", "max", "min") and len(values) == 1:
        for option in options(values[0]):
            if isinstance(option, (Sequence, Items, Tuple)):
                values = [iteration.item_of(run, option, place, frame) or UNKNOWN]
    tensors = [o for value in values for o in options(value) if isinstance(o, Tensor)]
    if tensors:
        if name in ("max", "min", "round") and any(t.where == DEVICE for t in tensors):
            read(run, tensors[0], place.node, name, frame)
        from ptlint.facts.operations import tensor_of

        return tensor_of(run, values, frame)
    reads = reads_of(*values)
    if any(isinstance(o, Unknown) for v in values for o in options(v)):
        return derived(values)
    constants = [v.value for v in values if isinstance(v, Const) and isinstance(v.value, (int, float))]
    if name in ("max", "min") and len(constants) == len(args.positional) and len(constants) > 1:
        return Const((max if name == "max" else min)(constants), any(v.soft for v in values if isinstance(v, Const)))
    kind = "float" if any(isinstance(v, Num) and v.type == "float" for v in values) else "any"
    if name in ("min", "max") and all(isinstance(v, Num) and v.type == "int" for v in values):
        kind = "int"
    return Num(kind, reads=reads)


@models("isinstance", "hasattr", "callable", "issubclass")
def _check(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if name == "isinstance" and len(args.positional) == 2:
        classes = args.positional[1]
        wanted = classes.items if isinstance(classes, Tuple) else (classes,)
        names = [cls.name.rpartition(".")[2] if isinstance(cls, Lib) else "" for cls in wanted]
        return join_all([_isinstance(option, names) for option in options(args.positional[0])])
    return Num("bool")


def _isinstance(value: Value, names: list[str]) -> Value:
    known = guards.is_a(value, names)
    return Num("bool") if known is None else Const(known)


@models("getattr")
def _getattr(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    from ptlint.facts.attributes import attribute

    if len(args.positional) >= 2 and isinstance(args.positional[1], Const):
        return attribute(run, args.positional[0], str(args.positional[1].value), place, frame)
    if args.positional and isinstance(args.positional[0], Lib):
        return UNKNOWN
    return derived(args.positional[:1])


@models("setattr")
def _setattr(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if len(args.positional) == 3:
        holder, key, value = args.positional
        for option in options(holder):
            if isinstance(option, Obj):
                if isinstance(key, Const):
                    option.attrs[str(key.value)] = value
                else:
                    option.open = True
    return NONE


@models("vars", "globals", "locals")
def _vars(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    value = args.first()
    if name == "locals":
        made = run.make(Mapping, place, frame.ctx)
        made.entries = dict(frame.locals)
        return made
    return value if isinstance(value, Options) else UNKNOWN


@models("type")
def _type(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    value = args.first()
    if isinstance(value, Obj) and isinstance(value.cls, (ProjectClass, Lib)):
        return value.cls
    return UNKNOWN


@models("functools.partial")
def _partial(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if not args.positional or args.open:
        return UNKNOWN
    return Partial(args.positional[0], tuple(args.positional[1:]), tuple(args.keywords.items()))


@models("functools.wraps", "functools.update_wrapper")
def _wraps(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return UNKNOWN


@models("copy.deepcopy", "copy.copy")
def _copy(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    found: list[Value] = []
    for option in options(args.first()):
        if isinstance(option, Module):
            clone = run.make(Module, place, frame.ctx, option.core.cls, tag=f"copy{id(option)}")
            clone.attrs = option.core.attrs
            clone.children = option.core.children
            clone.where, clone.open = option.core.where, option.core.open
            found.append(clone)
        else:
            found.append(option)
    return join_all(found)


@models("contextlib.nullcontext")
def _nullcontext(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Mode("other", name="nullcontext", place=place)


@models("os.environ.get", "os.getenv")
def _getenv(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    default = args.get("default", 1, NONE)
    return Const(default.value, True) if isinstance(default, Const) and default.value is not None else Num("str")


@models("os.environ.setdefault", "os.putenv", "os.environ.update")
def _setenv(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    from ptlint.facts.events import Assign

    if len(args.positional) == 2 and isinstance(args.positional[0], Const):
        run.emit(Assign(place, frame.ctx, f"os.environ[{args.positional[0].value}]", args.positional[1]))
    elif name == "os.environ.update":
        given = _dict(run, "dict", args, place, frame)
        if isinstance(given, Mapping):
            for key, value in given.entries.items():
                run.emit(Assign(given.origins.get(key, place), frame.ctx, f"os.environ[{key}]", value), str(key))
    return NONE


@models("os.cpu_count", "multiprocessing.cpu_count", "os.process_cpu_count")
def _cpus(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Const(8, True)


@models("importlib.import_module")
def _import_module(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A module by its name; where only its package is known, any in that, of which some stand for all."""
    wanted = args.first()
    home, entry = frame.home, run.program.entry
    if isinstance(wanted, Const) and isinstance(wanted.value, str):
        names = [wanted.value]
    else:
        names = [item.module for item in run.project.loaded(home.file.path, entry) if item.row == place.row]
    paths = dict.fromkeys(path for each in names if (path := run.resolve(home, each, 0)) is not None)
    found = [FileRef(run.imported(path)) for path in islice(paths, MAX_ALTERNATIVES)]
    return join_all(found)


def _math(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Num("float", reads=read_all(run, args, place, frame, "math"))


for _short in "exp log log2 log10 sqrt isnan isinf isfinite floor ceil pow sin cos tan tanh fabs fsum trunc".split():
    FUNCTIONS[f"math.{_short}"] = _math


def numpy_call(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A NumPy function: host data; a device tensor given to it is read."""
    reads = read_all(run, args, place, frame, "numpy") | reads_of(*args.keywords.values())
    api = torch_api.lookup(name)
    if api is not None and api.returns in ("number", "bool"):
        return Num("any", reads=reads)
    return arrays.called(name, args, reads, place)


def array_method(run: Run, receiver: Array, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if name in ("item", "tolist"):
        return Num("any", reads=receiver.reads)
    return arrays.method(receiver, name, args)


def scalar_method(run: Run, receiver: Num | Const, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """Methods of numbers and strings; `"...".format(t)` reads t."""
    if name == "format":
        reads: frozenset[Event] = frozenset()
        for index, value in enumerate(args.positional):
            reads |= read(run, value, argument_node(args, index, place), "format", frame)
        for key, value in args.keywords.items():
            node = args.keyword_nodes.get(key)
            reads |= read(run, value, node.value if node is not None else place.node, "format", frame)
        return text_from(str(receiver.value) if isinstance(receiver, Const) else "", reads)
    if isinstance(receiver, Const) and isinstance(receiver.value, str):
        return _string_method(receiver, name, args)
    return Num("any", reads=receiver.reads if isinstance(receiver, Num) else frozenset())


def _string_method(receiver: Const, name: str, args: Arguments) -> Value:
    values = [value.value for value in args.positional if isinstance(value, Const)]
    if len(values) == len(args.positional) and name in ("lower", "upper", "strip", "startswith", "endswith", "replace"):
        try:
            return Const(getattr(receiver.value, name)(*values), receiver.soft)
        except (TypeError, ValueError):
            return Num("str")
    if name in ("split", "rsplit", "splitlines"):
        return Items(Num("str"), "list")
    return Num("bool" if name.startswith("is") else "str")

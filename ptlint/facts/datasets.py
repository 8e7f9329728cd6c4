"""What a loader's dataset does for an item, and whether worker processes could do it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.events import Call, Ctx, Event, Move, Placed
from ptlint.facts.run import device_items
from ptlint.facts.scopes import walk
from ptlint.facts.values import (
    DEVICE,
    Array,
    Const,
    Dataset,
    Device,
    Function,
    Instance,
    Items,
    Lib,
    Loader,
    Mapping,
    Module,
    Obj,
    Partial,
    ProjectClass,
    Sequence,
    Tensor,
    Tuple,
    Value,
    options,
    pick,
)
from ptlint.syntax.fields import children

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

ITEM_METHODS = ("__getitem__", "__getitems__", "__iter__", "__next__")

STREAMING = ("webdataset.", "streaming.", "ffcv.", "nvidia.dali.", "litdata.")
"""Packages whose datasets bring workers or prefetching of their own."""

HANDLES = frozenset(
    "h5py.File sqlite3.connect lmdb.open zipfile.ZipFile tarfile.open tarfile.TarFile tables.open_file netCDF4.Dataset "
    "socket.socket pymongo.MongoClient redis.Redis psycopg2.connect cv2.VideoCapture".split()
)
"""What opens a file, database or connection that forked processes must not share and that cannot be pickled."""

_CHEAP_METHODS = frozenset(
    "astype bool clone contiguous copy detach double dim expand flatten float get half int item items keys long "
    "mean narrow ndim numel numpy permute reshape shape size squeeze std sum t tolist transpose type unsqueeze values "
    "view append".split()
)
_CHEAP_FUNCTIONS = frozenset(
    "torch.tensor torch.as_tensor torch.from_numpy torch.FloatTensor torch.LongTensor torch.Tensor torch.IntTensor "
    "torch.is_tensor torch.stack torch.cat torch.zeros torch.ones numpy.array numpy.asarray numpy.expand_dims "
    "numpy.stack numpy.float32 numpy.int64 numpy.concatenate numpy.transpose numpy.ascontiguousarray".split()
)
_CHEAP_BUILTINS = frozenset(
    "bool dict divmod enumerate float int isinstance len list max min range slice str super tuple zip print".split()
)
_RANDOM = ("random.", "numpy.random.", "torch.rand")
MAX_DEPTH = 6


def in_memory(facts: ProgramFacts, dataset: Value) -> bool:
    """Whether an item is only looked up in arrays, tensors or lists that the dataset holds."""
    found = options(dataset)
    return bool(found) and all(_in_memory(facts, option, 0) for option in found)


def _in_memory(facts: ProgramFacts, value: Value, depth: int) -> bool:
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, (Sequence, Tuple, Tensor, Mapping)):
        return True
    if isinstance(value, Array):
        return value.source == "numpy"
    if isinstance(value, Items):
        return value.kind in ("range", "list", "zip")
    if isinstance(value, (Instance, Dataset)):
        method = _item_method(value)
        if method is not None:
            return isinstance(value, Instance) and _only_indexes(facts, value, method, depth)
        tags = torch_api.tags(value.lib_base or "")
        if "memory" in tags:
            return True
        return "wraps" in tags and all(_in_memory(facts, inner, depth + 1) for inner in _wrapped(value))
    return False


def _item_method(value: Obj) -> Function | None:
    """The project's own method that gives items."""
    if not isinstance(value.cls, ProjectClass):
        return None
    found = value.cls.find("__iter__" if is_iterable(value) else "__getitem__")
    return found if isinstance(found, Function) else None


def _wrapped(value: Obj) -> list[Value]:
    """What a Subset, ConcatDataset or the like goes over."""
    if value.call is None:
        return []
    given = value.call.get("dataset") if "dataset" in value.call.bound else value.call.get("datasets")
    inner: list[Value] = []
    for option in options(given):
        inner += options(option.element()) if isinstance(option, Sequence) else (option,)
    return inner


def _only_indexes(facts: ProgramFacts, dataset: Instance, method: Function, depth: int) -> bool:
    """Whether a method holds nothing that takes time: no call but conversions, no file, no loop but one that yields."""
    if depth > MAX_DEPTH:
        return False
    yields = facts.run.scope(method.node).has_yield
    for node in _live(method.node.body, dataset):
        if isinstance(node, (cst.With, cst.Await)) or (isinstance(node, (cst.For, cst.While)) and not yields):
            return False
        if isinstance(node, cst.Attribute) and node.attr.value in ("iloc", "loc"):
            return False
        if isinstance(node, cst.Subscript) and not _held_in_memory(facts, dataset, node.value, depth):
            return False
        if isinstance(node, cst.Call) and not _cheap(facts, dataset, node, depth):
            return False
    return True


def _live(body: cst.CSTNode, dataset: Instance) -> Iterator[cst.CSTNode]:
    """The nodes of a body, without branches that attributes known to be None (or False) switch off."""
    stack: list[cst.CSTNode] = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.If) and _switched_off(node.test, dataset):
            if node.orelse is not None:
                stack.append(node.orelse)
            continue
        if isinstance(node, cst.IfExp) and _switched_off(node.test, dataset):
            stack.append(node.orelse)
            continue
        if isinstance(node, (cst.FunctionDef, cst.Lambda)):
            continue
        yield node
        stack.extend(children(node))


def _switched_off(test: cst.BaseExpression, dataset: Instance) -> bool:
    """`self.transform`, or `self.transform is not None`, of an attribute that is None."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        part = test.comparisons[0]
        is_none = isinstance(part.comparator, cst.Name) and part.comparator.value == "None"
        if not (is_none and isinstance(part.operator, (cst.IsNot, cst.NotEqual))):
            return False
        test = test.left
    value = _attribute_of(test, dataset)
    return isinstance(value, Const) and not value.value


def _attribute_of(node: cst.CSTNode, dataset: Instance) -> Value | None:
    """The value of `self.x`."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
        return dataset.attrs.get(node.attr.value)
    return None


def _held_in_memory(facts: ProgramFacts, dataset: Instance, base: cst.BaseExpression, depth: int) -> bool:
    """Whether indexing an attribute is a lookup: not where the attribute is a file, or a dataset that works."""
    value = _attribute_of(base, dataset)
    for option in options(value) if value is not None else ():
        if isinstance(option, (Instance, Dataset)) and not _in_memory(facts, option, depth + 1):
            return False
        if isinstance(option, Array) and option.source != "numpy":
            return False
    return True


def _cheap(facts: ProgramFacts, dataset: Instance, call: cst.Call, depth: int) -> bool:
    func = call.func
    names = {event.name for event in facts.calls_at(call)}
    if names and all(name in _CHEAP_FUNCTIONS or name.startswith(_RANDOM) for name in names):
        return True
    if isinstance(func, cst.Name):
        return func.value in _CHEAP_BUILTINS
    if not isinstance(func, cst.Attribute):
        return False
    held = _attribute_of(func.value, dataset)
    owner = dataset if isinstance(func.value, cst.Name) else held
    if isinstance(owner, Instance) and isinstance(owner.cls, ProjectClass):
        member = owner.cls.find(func.attr.value)
        if isinstance(member, Function):
            return _only_indexes(facts, owner, member, depth + 1)
    return func.attr.value in _CHEAP_METHODS and not any(name.startswith(("numpy.", "torch.nn.")) for name in names)


def brings_own_workers(dataset: Value) -> bool:
    """Whether a dataset of a streaming library prefetches by itself."""
    return any((option.lib_base or "").startswith(STREAMING) for option in pick(dataset, Obj))


def is_online(dataset: Value) -> bool:
    """Whether a dataset calls a model of the program: it plays, samples or predicts in step with the training."""
    stack: list[tuple[Value, int]] = [(dataset, 0)]
    seen: set[int] = set()
    while stack:
        value, depth = stack.pop()
        for option in options(value):
            if id(option) in seen or depth > 3:
                continue
            seen.add(id(option))
            if isinstance(option, Module):
                return True
            stack += [(inner, depth + 1) for inner in _parts(option)]
    return False


def work_functions(loader: Loader) -> list[Function]:
    """The project's functions that make a batch: the dataset's own, and `collate_fn`."""
    found: list[Function] = []
    for option in options(loader.dataset()):
        if isinstance(option, Obj) and isinstance(option.cls, ProjectClass):
            members = [option.cls.find(name) for name in ITEM_METHODS]
            found += [member for member in members if isinstance(member, Function)]
    if loader.call is not None and "collate_fn" in loader.call.bound:
        for option in options(loader.call.bound["collate_fn"]):
            inner = option.function if isinstance(option, Partial) else option
            if isinstance(inner, Instance) and isinstance(inner.cls, ProjectClass):
                inner = inner.cls.find("__call__") or inner
            if isinstance(inner, Function):
                found.append(inner)
    return found


def on_device(facts: ProgramFacts, loader: Loader) -> bool:
    """Whether batches are made on the accelerator: the items are there, or `__getitem__` or `collate_fn` puts them."""
    for option in options(loader.dataset()):
        if isinstance(option, Dataset) and option.call is not None:
            held = [*option.call.bound.values(), *option.call.extra]
            if held and all(isinstance(value, Tensor) and value.where == DEVICE for value in held):
                return True
        if isinstance(option, Instance) and device_items(facts.run.item_of_dataset(option)):
            return True
    nodes = {id(function.node) for function in work_functions(loader)}
    return bool(nodes) and any(_inside(event.ctx, nodes) for event in facts.device_work)


def device_work(facts: ProgramFacts) -> list[Event]:
    """What puts something on the accelerator."""
    moves: list[Event] = [e for e in facts.events(Move) if _is_device(e.target)]
    placed: list[Event] = [e for e in facts.events(Placed) if _is_device(e.target)]
    calls: list[Event] = [e for e in facts.events(Call) if _is_device(e.args.get("device", Const(None)))]
    return [*moves, *placed, *calls]


def _is_device(value: Value) -> bool:
    return any(
        (isinstance(option, Device) and option.where == DEVICE)
        or (isinstance(option, Const) and isinstance(option.value, str) and option.value.startswith("cuda"))
        for option in options(value)
    )


def _inside(ctx: Ctx, nodes: set[int]) -> bool:
    return any(up.function is not None and id(up.function.node) in nodes for up in ctx.up() if up.kind == "frame")


def obstacles(facts: ProgramFacts, loader: Loader) -> list[str]:
    """Why worker processes would fail, or repeat data, as clauses: "the dataset ..."."""
    found: list[str] = []
    for option in options(loader.dataset()):
        if isinstance(option, Obj) and is_iterable(option) and not shards_itself(option):
            found.append("the iterable dataset does not ask `get_worker_info()`: every worker would repeat the data")
        if isinstance(option, Obj) and isinstance(option.cls, ProjectClass):
            handle = opened_early(facts, option.cls)
            if handle is not None:
                found.append(f"the dataset opens `{handle}` in `__init__`, which workers cannot share")
    reason = unpicklable(loader)
    if reason is not None:
        found.append(f"{reason} cannot be sent to workers that are spawned")
    return found


def is_iterable(dataset: Obj) -> bool:
    """Whether a dataset is an `IterableDataset`."""
    bases = dataset.cls.lib_bases if isinstance(dataset.cls, ProjectClass) else (dataset.lib_base or "",)
    return any("iterable" in torch_api.tags(base) for base in bases)


def shards_itself(dataset: Obj) -> bool:
    """Whether the dataset's class asks which worker it is in."""
    if not isinstance(dataset.cls, ProjectClass):
        return False
    return any(
        isinstance(node, (cst.Name, cst.Attribute)) and _last_name(node) == "get_worker_info"
        for cls in dataset.cls.mro()
        for part in cls.code()
        for node in walk(part, into_scopes=True)
    )


def _last_name(node: cst.Name | cst.Attribute) -> str:
    return node.value if isinstance(node, cst.Name) else node.attr.value


def opened_early(facts: ProgramFacts, cls: ProjectClass) -> str | None:
    """What `__init__` opens and keeps on `self`."""
    init = cls.find("__init__")
    if not isinstance(init, Function):
        return None
    for node in walk(init.node):
        if not (isinstance(node, cst.Assign) and isinstance(node.value, cst.Call)):
            continue
        if not any(isinstance(target.target, cst.Attribute) for target in node.targets):
            continue
        if isinstance(node.value.func, cst.Name) and node.value.func.value == "open":
            return "open"
        for event in facts.calls_at(node.value):
            if event.name in HANDLES:
                return event.name
    return None


def unpicklable(loader: Loader) -> str | None:
    """What in a loader's dataset, `collate_fn` or `worker_init_fn` cannot be pickled, as a noun phrase."""
    if loader.call is None:
        return None
    stack = [(loader.call.bound[name], name, 0) for name in ("dataset", "collate_fn", "worker_init_fn")
             if name in loader.call.bound]  # fmt: skip
    seen: set[int] = set()
    while stack:
        value, role, depth = stack.pop()
        for option in options(value):
            if id(option) in seen or depth > MAX_DEPTH:
                continue
            seen.add(id(option))
            reason = _not_picklable(option, role)
            if reason is not None:
                return reason
            stack += [(inner, role, depth + 1) for inner in _parts(option)]
    return None


def _not_picklable(value: Value, role: str) -> str | None:
    where = {"dataset": "in the dataset", "collate_fn": "as `collate_fn`"}.get(role, f"as `{role}`")
    if isinstance(value, Function):
        if isinstance(value.node, cst.Lambda):
            return f"a lambda {where}"
        if value.self_value is None and value.owner is None and value.scope is not None:
            return f"the local function `{value.node.name.value}` {where}"
    if isinstance(value, Obj) and isinstance(value.cls, ProjectClass) and value.cls.local:
        return f"an object of the local class `{value.cls.name}` {where}"
    return None


def _parts(value: Value) -> list[Value]:
    """What is pickled with a value."""
    if isinstance(value, Function):
        return [value.self_value] if value.self_value is not None else []
    if isinstance(value, Partial):
        return [value.function, *value.args, *(item for _, item in value.keywords)]
    if isinstance(value, Tuple):
        return list(value.items)
    if isinstance(value, Sequence):
        return [*(value.items or ()), *([value.item] if value.item is not None else [])]
    if isinstance(value, Mapping):
        return list(value.entries.values())
    if isinstance(value, (Instance, Dataset, Module)):
        call = value.call if isinstance(value.cls, Lib) else None
        return [*value.attrs.values(), *((*call.bound.values(), *call.extra) if call is not None else ())]
    return []

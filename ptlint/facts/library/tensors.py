"""Tensor functions and methods, from the API table."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.arguments import Arguments
from ptlint.facts.calls import derived
from ptlint.facts.events import Backward, Call, Event, Forward, Move, Place, Step
from ptlint.facts.freshness import is_fresh, kept, note_write
from ptlint.facts.homes import Frame
from ptlint.facts.infer import scaler_by_use
from ptlint.facts.library.devices import device_of
from ptlint.facts.operations import read, tensor_of
from ptlint.facts.run import Run
from ptlint.facts.scopes import dotted
from ptlint.facts.store import rebind
from ptlint.facts.torch_api import Api
from ptlint.facts.values import (
    ATTACHED,
    DETACHED,
    DEVICE,
    HOST,
    NONE,
    NOWHERE,
    UNKNOWN,
    UNSURE,
    WHOLE_NUMBERS,
    Array,
    CallArgs,
    Const,
    Device,
    Items,
    Lib,
    Module,
    Num,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join_all,
    options,
    reads_of,
)

_WITH_INDICES = frozenset("max min topk sort kthvalue median nanmedian mode cummax cummin".split())
"""What returns values and their indices."""
READS = frozenset({"item", "tolist", "cpu", "numpy"})
SINKS = {"add_batch": "sink", "info": "print", "warning": "print", "error": "print"}
"""Methods of metrics and loggers that copy the tensors they are given, and how."""
HOST_TYPES = frozenset(
    f"torch.{kind}Tensor" for kind in ("Float", "Double", "Half", "Long", "Int", "Short", "Char", "Byte", "Bool")
)
"""`t.type(torch.LongTensor)` is a copy to the host; `t.long()` is not."""
TO_PARAMS = ("device", "dtype", "non_blocking", "copy")
BACKWARD_PARAMS = ("gradient", "retain_graph", "create_graph", "inputs")
CUDA_PARAMS = ("device", "non_blocking")


def result(
    run: Run, api: Api, values: list[Value], args: Arguments, place: Place, frame: Frame, receiver: Value | None = None
) -> Value:
    """What a function or method of the table returns for these arguments."""
    for name in ("alpha", "value"):  # numbers: a tensor given for one is read
        if name in args.keywords:
            node = args.keyword_nodes.get(name)
            read(run, args.keywords[name], node.value if node is not None else place.node, "argument", frame)
    if api.inplace and receiver is not None and api.returns in ("self", "tensor"):
        if api.qualname.rpartition(".")[2] not in ("fill_", "requires_grad_"):
            note_write(run, receiver, args.all())
        written = reads_of(*args.all())
        if written and isinstance(receiver, Tensor) and not written <= receiver.reads:
            receiver = replace(receiver, reads=receiver.reads | written)
            if isinstance(place.node, cst.Call) and isinstance(place.node.func, cst.Attribute):
                rebind(place.node.func.value, receiver, frame)
        return receiver
    if api.makes:
        return made(run, api, args, place, frame)
    kinds = [_is_tensor(value) for value in values]
    returns = api.result(kinds, set(args.keywords)) if api.overloads else api.returns
    inputs = [*([receiver] if receiver is not None else []), *args.all()]
    if returns in ("tensor", "self"):
        if returns == "self" and receiver is not None:
            return receiver
        flat = _flat(inputs)
        tensor = _with_flags(tensor_of(run, flat, frame), api, args)
        if tensor.dtype is None:
            tensor = replace(tensor, dtype=_kind_of_number(api.qualname, flat))
        return kept(tensor, flat, api.qualname.rpartition(".")[2])
    if returns in ("tensors", "list"):
        item = _with_flags(tensor_of(run, _flat(inputs), frame), api, args)
        if api.qualname.rpartition(".")[2] in _WITH_INDICES:
            return Tuple((item, Tensor(item.where, DETACHED, "int64", item.batch, module=item.module)))
        return Items(item, "tensors")
    if returns in ("number", "bool"):
        if api.syncs == "always":
            return Num("any", reads=_sync(run, inputs, api.qualname, place, frame))
        return Num("bool" if returns == "bool" else "any")
    if returns == "ndarray":
        return Array(solid=True)
    if returns == "none":
        return NONE
    if returns == "size":
        return Num("any")
    if returns == "module":
        return run.make(Module, place, frame.ctx, Lib(api.qualname))
    if returns == "other":
        reads = reads_of(*inputs)
        return Unknown(reads=reads) if reads else UNKNOWN
    return derived(inputs)


_SUMS = frozenset({"sum", "prod", "cumsum", "cumprod"})
_FLOATING = frozenset(
    "mean var std norm softmax log_softmax sigmoid cross_entropy binary_cross_entropy binary_cross_entropy_with_logits "
    "kl_div".split()
)


def _kind_of_number(qualname: str, inputs: list[Value]) -> str | None:
    """The dtype of sums, means and losses, as far as the operation says it."""
    name = qualname.rpartition(".")[2]
    if name in _FLOATING or name.endswith("_loss"):
        return "float"
    first = inputs[0] if inputs else None
    if name in _SUMS and isinstance(first, Tensor):
        return "int64" if first.dtype in WHOLE_NUMBERS or first.dtype == "bool" else first.dtype
    return None


def _flat(values: list[Value]) -> list[Value]:
    """Tensors in lists and tuples count as inputs too (`torch.cat([a, b])`)."""
    found: list[Value] = []
    for value in values:
        for option in options(value):
            if isinstance(option, Tuple):
                found.extend(option.items)
            elif isinstance(option, Sequence):
                found.append(option.element())
            elif isinstance(option, Items):
                found.append(option.item)
            else:
                found.append(option)
    return found


def _is_tensor(value: Value) -> bool | None:
    if isinstance(value, Tensor):
        return True
    return None if isinstance(value, Unknown) else False


def _with_flags(tensor: Tensor, api: Api, args: Arguments) -> Tensor:
    graph = DETACHED if api.detached else tensor.graph
    where = HOST if api.moves == "host" else tensor.where
    dtype = _dtype_name(args.get("dtype", None, NONE)) or (api.dtype if api.dtype not in ("same", None) else None)
    dtype = dtype or (tensor.dtype if api.dtype == "same" else None)
    came = tensor.came if graph != DETACHED else NOWHERE
    return Tensor(where, graph, dtype, tensor.batch, module=tensor.module, came=came, reads=tensor.reads)


def _dtype_name(value: Value) -> str | None:
    return value.name.rpartition(".")[2] if isinstance(value, Lib) and value.name.startswith("torch.") else None


def made(run: Run, api: Api, args: Arguments, place: Place, frame: Frame) -> Value:
    """A fresh tensor: on the `device=` argument, the device in force, else on the host."""
    where = HOST
    if args.has("device"):
        device = device_of(args.keywords["device"])
        where = device.where if device is not None else UNSURE
    else:
        for mode in frame.ctx.modes():
            if mode.kind == "device":
                where = Device(mode.device or "unknown").where
                break
    if api.qualname.startswith("torch.cuda."):
        where = DEVICE
    if api.of_data:
        inputs = _flat(list(args.all()))
        for value in inputs:
            for option in options(value):
                if isinstance(option, (Tensor, Unknown)) and option.where == DEVICE and not args.has("device"):
                    where = DEVICE if isinstance(option, Tensor) and api.qualname == "torch.as_tensor" else where
    wants = args.get("requires_grad", None, NONE)
    graph = ATTACHED if isinstance(wants, Const) and wants.value else DETACHED
    dtype = _dtype_name(args.get("dtype", None, NONE)) or api.dtype
    fresh = is_fresh(api, args.positional, args.get("data", 0, UNKNOWN))
    return Tensor(where, graph, dtype, fresh=fresh, made=place, reads=reads_of(*_flat(list(args.all()))))


def _sync(run: Run, inputs: list[Value], how: str, place: Place, frame: Frame) -> frozenset[Event]:
    found: frozenset[Event] = frozenset()
    for value in inputs:
        for option in options(value):
            if isinstance(option, Tensor) and option.where == DEVICE:
                found |= {run.note_read(option, how.rpartition(".")[2], place, frame.ctx)}
    return found


def read_to_host(run: Run, value: Value, how: str, place: Place, frame: Frame) -> frozenset[Event]:
    """`.item()` and its like on what is known to be on the device."""
    if getattr(value, "where", UNSURE) != DEVICE:
        return frozenset()
    return frozenset({run.note_read(value, how, place, frame.ctx)})


def method(run: Run, receiver: Tensor, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A method of a tensor."""
    if name in READS:
        return _read(run, receiver, name, place, frame)
    if name == "to":
        return to(run, receiver, args, place, frame)
    if name in ("cuda", "xpu"):
        return move(run, receiver, Device("cuda"), args.bind(CUDA_PARAMS), "cuda", place, frame)
    if name == "type":
        return cast(run, receiver, args, place, frame)
    if name == "type_as":
        return _type_as(run, receiver, args, place, frame)
    if name == "backward":
        scaled = receiver.dtype == "scaled"
        run.emit(Backward(place, frame.ctx, receiver, scaled, args.bind(BACKWARD_PARAMS)))
        return NONE
    if name in ("detach", "detach_"):
        return replace(receiver, graph=DETACHED, came=NOWHERE, moved=False)
    if name == "requires_grad_":
        wants = args.get("requires_grad", 0, Const(True))
        graph = DETACHED if isinstance(wants, Const) and not wants.value else ATTACHED
        return Tensor(receiver.where, graph, receiver.dtype, receiver.batch)
    if name in ("size", "dim", "numel", "nelement", "stride", "ndimension", "element_size", "data_ptr"):
        return Num("any")
    if name == "pin_memory":
        run.emit(Call(place, frame.ctx, "torch.Tensor.pin_memory", args.bind(("device",)), receiver, receiver))
        return Tensor(HOST, receiver.graph, receiver.dtype, receiver.batch, came=receiver.came, reads=receiver.reads)
    if name in ("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "new"):
        reads = reads_of(*_flat(list(args.all())))
        run.emit(Call(place, frame.ctx, f"torch.Tensor.{name}", args.bind(("data",)), UNKNOWN, receiver), name)
        return Tensor(receiver.where, DETACHED, receiver.dtype, fresh=name != "new_tensor", made=place, reads=reads)
    api = torch_api.method("tensor", name)
    if api is None:
        return derived([receiver, *args.all()])
    if api.syncs == "always" and api.qualname.rpartition(".")[2] in ("equal", "allclose", "is_nonzero"):
        return Num("bool", reads=_sync(run, [receiver], name, place, frame))
    if api.qualname != "torch.Tensor.backward":
        run.emit(Call(place, frame.ctx, api.qualname, args.bind([p.name for p in api.params]), UNKNOWN, receiver), name)
    return result(run, api, args.positional, args, place, frame, receiver)


def _read(run: Run, receiver: Tensor, name: str, place: Place, frame: Frame) -> Value:
    reads = receiver.reads | read_to_host(run, receiver, name, place, frame)
    if receiver.where == UNSURE:
        run.emit(Call(place, frame.ctx, f"torch.Tensor.{name}", CallArgs(), UNKNOWN, receiver), name)
    if name == "cpu":
        return replace(receiver, where=HOST, fresh=False, moved=False, made=None, reads=reads)
    if name == "numpy":
        return Array(reads=reads, solid=True)
    if name == "tolist":
        return Items(Num("any", reads=reads), "list")
    return Num("any", reads=reads)


def to(run: Run, receiver: Tensor | Unknown, args: Arguments, place: Place, frame: Frame) -> Value:
    """`t.to(...)`: a device, a dtype, another tensor, or both."""
    bound = args.bind(TO_PARAMS)
    first = args.get("device", 0, args.get("other", None, NONE))
    results: list[Value] = []
    device = device_of(first)
    if device is not None:
        results.append(move(run, receiver, device, bound, "to", place, frame))
    for option in options(first):
        if device_of(option) is not None or (device is not None and not isinstance(option, (Tensor, Lib))):
            continue
        if isinstance(option, Tensor):
            target = Device("cuda" if option.where == DEVICE else "cpu" if option.where == HOST else "unknown", True)
            results.append(move(run, receiver, target, bound, "to", place, frame))
        elif isinstance(option, Unknown):
            results.append(move(run, receiver, option, bound, "to", place, frame))
        elif isinstance(option, Lib) and _dtype_name(option) is not None:
            results.append(_cast_to(receiver, _dtype_name(option)))
        elif isinstance(receiver, Tensor):
            results.append(_cast_to(receiver, _dtype_name(args.get("dtype", None, NONE))))
        else:
            results.append(receiver)
    return join_all(results)


def _cast_to(receiver: Tensor | Unknown, dtype: str | None) -> Value:
    if isinstance(receiver, Unknown):
        if not dtype:
            return receiver
        return Tensor(receiver.where, receiver.graph, dtype, receiver.batch, came=receiver.came, reads=receiver.reads)
    return replace(receiver, dtype=dtype or receiver.dtype, moved=False)


def cast(run: Run, receiver: Tensor | Unknown, args: Arguments, place: Place, frame: Frame) -> Value:
    """`t.type(torch.cuda.FloatTensor)` moves; `t.type(torch.float32)` casts."""
    results: list[Value] = []
    target = args.get("dtype", 0, NONE)
    bound = args.bind(("dtype", "non_blocking"))
    for option in options(target):
        name = option.name if isinstance(option, Lib) else option.value if isinstance(option, Const) else ""
        if isinstance(name, str) and name.startswith("torch.cuda.") and name.endswith("Tensor"):
            results.append(move(run, receiver, Device("cuda", True), bound, "type", place, frame))
        elif name in HOST_TYPES:
            results.append(move(run, receiver, Device("cpu"), bound, "type", place, frame))
        else:
            results.append(_cast_to(receiver, _dtype_name(option)))
    return join_all(results)


def _type_as(run: Run, receiver: Tensor, args: Arguments, place: Place, frame: Frame) -> Value:
    """`t.type_as(other)`: a copy to the device of the other, in its dtype."""
    others = [option for option in options(args.get("other", 0, UNKNOWN)) if isinstance(option, (Tensor, Unknown))]
    where = {option.where for option in others}
    if where == {receiver.where} or not where & {DEVICE, HOST}:
        return kept(tensor_of(run, [receiver, *others], frame), [receiver, *others])
    target = Device("cuda" if DEVICE in where else "cpu", True)
    moved = move(run, receiver, target, args.bind(("other",)), "type_as", place, frame)
    dtypes = {option.dtype if isinstance(option, Tensor) else None for option in others}
    return replace(moved, dtype=dtypes.pop() if len(dtypes) == 1 else None) if isinstance(moved, Tensor) else moved


def move(
    run: Run, receiver: Tensor | Unknown, target: Value, bound: CallArgs, how: str, place: Place, frame: Frame
) -> Value:
    """A copy to another device."""
    where = target.where if isinstance(target, Device) else UNSURE
    dtype = receiver.dtype if isinstance(receiver, Tensor) else None
    module = receiver.module if isinstance(receiver, Tensor) else None
    reads = receiver.reads
    if where == HOST:
        reads = reads | read_to_host(run, receiver, "to", place, frame)
    moved = receiver.batch is not None
    made_tensor = Tensor(
        where, receiver.graph, dtype, receiver.batch, False, module, moved, came=receiver.came, reads=reads
    )
    event = Move(place, frame.ctx, receiver, target, bound, how, made_tensor)
    run.emit(event)
    if isinstance(receiver, Unknown) and receiver.batch is None:
        return Unknown(where, receiver.graph, came=receiver.came, reads=reads)
    return made_tensor


def _is_of_clone(node: cst.CSTNode) -> bool:
    """`x.clone().requires_grad_(True)`: what only a tensor can be."""
    func = node.func if isinstance(node, cst.Call) else None
    base = func.value if isinstance(func, cst.Attribute) else None
    return isinstance(base, cst.Call) and isinstance(base.func, cst.Attribute) and base.func.attr.value == "clone"


def unknown_method(run: Run, receiver: Value, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A method of a value of which little is known: what the method itself shows."""
    if not isinstance(receiver, Unknown):
        return derived([receiver, *args.all()])
    run.emit(Call(place, frame.ctx, f".{name}", args.bind(()), UNKNOWN, receiver), name)
    if name in SINKS:
        for value in args.all():
            read(run, value, place.node, SINKS[name], frame)
    if name in ("scale", "step", "unscale_", "update", "get_scale") and isinstance(place.node, cst.Call):
        func = place.node.func
        scaler = scaler_by_use(run, dotted(func.value), frame) if isinstance(func, cst.Attribute) else None
        if scaler is not None:
            from ptlint.facts.library.modules import scaler_method

            return scaler_method(run, scaler, name, args, place, frame)
    if name in READS:
        # `.numpy()` of a tensor on the device raises: what has it lies on the host.
        noted = read_to_host(run, receiver, name, place, frame) if name != "numpy" else frozenset()
        reads = receiver.reads | noted
        if name == "cpu" and receiver.where == DEVICE:
            return Tensor(HOST, receiver.graph, batch=receiver.batch, came=receiver.came, reads=reads)
        if name == "cpu":
            return receiver
        return Array(reads=reads, solid=True) if name == "numpy" else Num("any", reads=reads)
    if name == "backward":
        run.emit(Backward(place, frame.ctx, receiver, args=args.bind(BACKWARD_PARAMS)))
        return NONE
    if name == "to":
        return to(run, receiver, args, place, frame)
    if name == "cuda":
        return move(run, receiver, Device("cuda"), args.bind(CUDA_PARAMS), "cuda", place, frame)
    if name == "type" and args.positional:
        return cast(run, receiver, args, place, frame)
    if name == "detach":
        return Tensor(receiver.where, DETACHED, batch=receiver.batch, reads=receiver.reads)
    if name == "requires_grad_" and (not isinstance(args.first(), Const) or _is_of_clone(place.node)):
        return Tensor(receiver.where, ATTACHED, batch=receiver.batch, fresh=True)
    if name in ("size", "dim", "numel"):
        return Num("any")
    if name == "step" and run.used_as(frame, place, "zero_grad"):
        run.emit(Step(place, frame.ctx, receiver))
        return NONE
    if name == "forward":
        run.emit(Forward(place, frame.ctx, receiver, list(args.all()), method="forward"))
    return derived([receiver, *args.all()])

"""Methods of modules, optimizers, scalers and parameters."""

from __future__ import annotations

from ptlint.facts import torch_api
from ptlint.facts.arguments import Arguments
from ptlint.facts.calls import call_module, derived
from ptlint.facts.events import Backward, Call, Place, Placed, ScalerCall, Step
from ptlint.facts.homes import Frame
from ptlint.facts.library.devices import device_of
from ptlint.facts.run import Run
from ptlint.facts.values import (
    DEVICE,
    NONE,
    UNKNOWN,
    UNSURE,
    Const,
    Device,
    Items,
    Lib,
    Module,
    Num,
    Optimizer,
    Params,
    Scaler,
    Sequence,
    StateDict,
    Tensor,
    Tuple,
    Unknown,
    Value,
    came_of,
    join_all,
    options,
)

_SELF = frozenset(
    "half float double bfloat16 share_memory requires_grad_ apply type to_empty compile register_module".split()
)


def method(run: Run, receiver: Module, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A method of `nn.Module` or of a library's module class."""
    run.emit(
        Call(place, frame.ctx, f"torch.nn.Module.{name}", args.bind(("module", "strict")), UNKNOWN, receiver), name
    )
    if name == "forward" or name == "__call__":
        return call_module(run, receiver, args, place, frame, method="forward" if name == "forward" else "")
    if name in ("to", "cuda", "cpu", "xpu"):
        return _place(run, receiver, name, args, place, frame)
    if name in ("train", "eval"):
        mode = args.get("mode", 0, Const(True)) if name == "train" else Const(False)
        receiver.core.training = bool(mode.value) if isinstance(mode, Const) else None
        return receiver
    if name == "requires_grad_":
        wants = args.get("requires_grad", 0, Const(True))
        if isinstance(wants, Const):
            run.freeze(receiver, not wants.value, frame.ctx)
        return receiver
    if name in _SELF:
        return receiver
    if name in ("parameters", "named_parameters"):
        return Params((receiver.core,), named=name == "named_parameters")
    if name == "state_dict":
        return StateDict(receiver)
    if name in ("modules", "children"):
        return Items(_part(run, receiver.core, place, frame), "modules", receiver)
    if name in ("named_modules", "named_children"):
        return Items(Tuple((Num("str"), _part(run, receiver.core, place, frame))), "modules", receiver)
    if name in ("append", "add_module", "insert", "extend"):
        return _add(receiver, args)
    if name in ("register_buffer", "register_parameter") and len(args.positional) > 1:
        key = args.positional[0]
        if isinstance(key, Const):
            receiver.attrs[str(key.value)] = args.positional[1]
            receiver.registered.add(str(key.value))
        return NONE
    if name in ("load_state_dict", "zero_grad", "no_sync", "buffers", "named_buffers", "register_forward_hook"):
        return UNKNOWN
    if torch_api.lookup(f"torch.nn.Module.{name}") is not None:
        return UNKNOWN
    if name == "__setattr__" and len(args.positional) == 2 and isinstance(args.positional[0], Const):
        receiver.attrs[str(args.positional[0].value)] = args.positional[1]
        return NONE
    key = args.first()
    if name == "__getattr__" and isinstance(key, Const):
        return receiver.attrs.get(str(key.value), UNKNOWN)
    if name.startswith("_") or not (receiver.core.open or isinstance(receiver.core.cls, Lib)):
        return derived(args.all())
    if not any(_is_data(value) for value in args.all()):
        return derived(args.all())  # `model.load_pretrained(path)`: no use of the module's layers
    return call_module(run, receiver, args, place, frame, method=name)


def _part(run: Run, module: Module, place: Place, frame: Frame) -> Value:
    """Any module below one: of which nothing is known but where it is."""
    if module.children:
        return join_all(module.children[:8])
    part = run.make(Module, place, frame.ctx, None, tag=f"part{id(module)}")
    part.open, part.where, part.part_of = True, module.where, module
    return part


def _is_data(value: Value) -> bool:
    """Whether a value is a tensor, or computed from one or from a batch."""
    return any(
        isinstance(option, Tensor)
        or (isinstance(option, Unknown) and (option.batch is not None or {option.where, option.graph} != {UNSURE}))
        for option in options(value)
    )


def _add(receiver: Module, args: Arguments) -> Value:
    receiver.open = receiver.open or isinstance(args.positional[-1] if args.positional else UNKNOWN, Unknown)
    for value in args.positional:
        for option in options(value):
            if isinstance(option, Module) and not any(option is child for child in receiver.children):
                receiver.children.append(option)
            elif isinstance(option, Sequence):
                receiver.children.extend(option.items or ([option.item] if option.item is not None else []))
    return receiver


def _place(run: Run, receiver: Module, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if name == "cpu":
        target: Value = Device("cpu")
    elif name in ("cuda", "xpu"):
        target = Device("cuda")
    else:
        first = args.get("device", 0, NONE)
        found = device_of(first)
        if found is None:
            if isinstance(first, Lib) or first is NONE:
                return receiver  # a dtype or a memory format
            found_tensor = next((o for o in options(first) if isinstance(o, Tensor)), None)
            found = Device("cuda" if found_tensor is not None and found_tensor.where == DEVICE else "unknown", True)
        target = found
    where = target.where if isinstance(target, Device) else UNSURE
    put(receiver, where)
    run.emit(Placed(place, frame.ctx, receiver, target), str(id(receiver)))
    return receiver


def put(module: Module, where: str) -> None:
    """A module and all below it are on a device now."""
    stack: list[Module] = [module, module.core]
    seen: set[int] = set()
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        current.where = where
        for held in (*current.attrs.values(), *current.children):
            for option in options(held):
                if isinstance(option, Module):
                    stack.append(option)
                elif isinstance(option, Sequence):
                    stack.extend(item for item in options(option.element()) if isinstance(item, Module))


def params_method(run: Run, receiver: Params, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A parameter used as a tensor (`p.grad.zero_()`, `p.data.add_()`)."""
    if name == "requires_grad_":
        wants = args.get("requires_grad", 0, Const(True))
        if isinstance(wants, Const):
            for module in receiver.modules:
                run.freeze(module, not wants.value, frame.ctx)
        return receiver
    if name in ("add_", "sub_", "copy_", "mul_", "addcmul_", "addcdiv_") and receiver.single:
        from ptlint.facts.events import Step as Stepped

        inputs = derived(list(args.all()))
        if name in ("add_", "sub_", "addcmul_", "addcdiv_"):
            run.emit(Stepped(place, frame.ctx, receiver, by_hand=True))
        return receiver if inputs is not None else UNKNOWN
    if name in ("numel", "size", "dim", "nelement"):
        return Num("int")
    if not receiver.single and name in ("items", "values", "get", "pop"):  # of `dict(model.named_parameters())`
        return Params(receiver.modules, single=name in ("get", "pop"), named=name == "items")
    if not receiver.single and name == "keys":
        return Items(Num("str"), "keys", receiver)
    return Tensor(UNSURE, UNSURE)


def optimizer_method(run: Run, receiver: Optimizer, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if name == "step":
        if args.positional or args.keywords:
            closure = args.get("closure", 0)
            run.call(closure, Arguments(), place, frame)
        run.emit(Step(place, frame.ctx, receiver))
        return UNKNOWN
    run.emit(
        Call(place, frame.ctx, f"torch.optim.Optimizer.{name}", args.bind(("set_to_none",)), UNKNOWN, receiver), name
    )
    if name == "add_param_group":
        run.fill_optimizer(receiver, args.first())
    if name == "minimize":
        run.emit(Step(place, frame.ctx, receiver))
    return UNKNOWN


def scaler_method(run: Run, receiver: Scaler, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    run.emit(ScalerCall(place, frame.ctx, receiver, name, list(args.all())), name)
    if name == "scale":
        return _scaled(args.first())
    if name == "step":
        run.emit(Step(place, frame.ctx, args.get("optimizer", 0), scaler=receiver))
    if name == "__call__":  # timm's NativeScaler: scales, runs backward and steps
        run.emit(Backward(place, frame.ctx, args.first(), scaled=True))
        run.emit(Step(place, frame.ctx, args.get("optimizer", 1), scaler=receiver))
    return Num("float") if name == "get_scale" else UNKNOWN


def _scaled(value: Value) -> Value:
    """A loss that a GradScaler scaled, marked so that its backward is known to be of the scaled loss."""
    found: list[Value] = []
    for option in options(value):
        where, graph = getattr(option, "where", UNSURE), getattr(option, "graph", UNSURE)
        batch, module = getattr(option, "batch", None), getattr(option, "module", None)
        found.append(Tensor(where, graph, "scaled", batch, module=module, came=came_of(option)))
    return join_all(found)

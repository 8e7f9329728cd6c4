"""Classes and functions of PyTorch that make objects, set modes or step."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from ptlint.facts import torch_api
from ptlint.facts.arguments import Arguments
from ptlint.facts.calls import derived
from ptlint.facts.classes import LOADER_KEYWORD_ONLY, LOADER_PARAMS
from ptlint.facts.events import Backward, Construct, Place
from ptlint.facts.homes import Frame
from ptlint.facts.library.devices import device_of
from ptlint.facts.library.registry import models
from ptlint.facts.optimizers import whereabouts
from ptlint.facts.run import Run
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
    Const,
    Dataset,
    Device,
    Instance,
    Items,
    Lib,
    Loader,
    Mapping,
    Mode,
    Module,
    Num,
    Optimizer,
    Other,
    Scaler,
    Scheduler,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join_all,
    options,
)

WRAPPERS = {
    "torch.nn.DataParallel": "dataparallel",
    "torch.nn.parallel.DistributedDataParallel": "ddp",
    "torch.distributed.fsdp.FullyShardedDataParallel": "fsdp",
    "torch.optim.swa_utils.AveragedModel": "average",
    "apex.parallel.DistributedDataParallel": "ddp",
    "torch.jit.script": "script",
    "torch.jit.trace": "script",
    "torch.fx.symbolic_trace": "script",
    "torch.nn.utils.weight_norm": "",
    "torch.nn.utils.spectral_norm": "",
    "torch.nn.utils.parametrizations.weight_norm": "",
    "torch.nn.utils.parametrizations.spectral_norm": "",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": "",
    "torch.quantization.prepare_qat": "",
}


def construct(run: Run, api: Api, args: Arguments, place: Place, frame: Frame) -> Value | None:
    """An object of a library class; None when the class has no model."""
    name, cls = api.qualname, Lib(api.qualname)
    if api.returns == "module":
        return module_of(run, cls, args, place, frame)
    if api.returns == "loader":
        loader = run.make(Loader, place, frame.ctx, cls)
        loader.call = args.bind(LOADER_PARAMS, LOADER_KEYWORD_ONLY)
        run.emit(Construct(place, frame.ctx, loader), name)
        return loader
    if api.returns == "optimizer":
        optimizer = run.make(Optimizer, place, frame.ctx, cls)
        names = [param.name for param in api.params if not param.variadic]
        optimizer.call = args.bind(names, frozenset(p.name for p in api.params if p.keyword_only))
        run.fill_optimizer(optimizer, args.get("params", 0))
        if optimizer.made_over is None:  # what runs again finds the parameters where the last pass left them
            optimizer.made_over = whereabouts(args.get("params", 0))
        run.emit(Construct(place, frame.ctx, optimizer))
        return optimizer
    if api.returns == "scheduler":
        return run.make(Scheduler, place, frame.ctx, cls)
    if api.returns == "scaler":
        scaler = run.make(Scaler, place, frame.ctx, cls)
        scaler.call = args.bind([param.name for param in api.params if not param.variadic])
        run.emit(Construct(place, frame.ctx, scaler))
        return scaler
    if api.returns == "dataset":
        dataset = run.make(Dataset, place, frame.ctx, cls)
        dataset.call = args.bind([param.name for param in api.params if not param.variadic])
        run.emit(Construct(place, frame.ctx, dataset))
        return dataset
    if api.returns in ("sampler", "other", "unknown"):
        made = run.make(Instance, place, frame.ctx, cls)
        made.call = args.bind([param.name for param in api.params if not param.variadic])
        run.emit(Construct(place, frame.ctx, made))
        return made
    if name == "torch.nn.Parameter":
        data = args.get("data", 0, NONE)
        lies = {option.where for option in options(data) if isinstance(option, (Tensor, Unknown))}
        wants = args.get("requires_grad", 1, Const(True))
        graph = DETACHED if isinstance(wants, Const) and not wants.value else ATTACHED
        return Tensor(lies.pop() if len(lies) == 1 else HOST, graph, fresh=True)
    return None


def module_of(run: Run, cls: Lib, args: Arguments, place: Place, frame: Frame) -> Value:
    wrapper = WRAPPERS.get(cls.name)
    if wrapper is not None:
        return wrap(run, cls, wrapper, args.get("module", 0, args.get("model", None)), args, place, frame)
    module = run.make(Module, place, frame.ctx, cls)
    api = torch_api.lookup(cls.name)
    module.call = args.bind([param.name for param in api.params if not param.variadic] if api is not None else ())
    module.children = []
    if "container" in torch_api.tags(cls.name) or cls.name in ("torch.nn.Sequential", "torch.nn.ModuleList"):
        for value in args.positional:
            for option in options(value):
                if isinstance(option, Sequence):
                    module.children.extend(option.items or ([option.item] if option.item is not None else []))
                elif isinstance(option, Mapping):
                    module.children.extend(option.entries.values())
                elif isinstance(option, Items):
                    module.children.append(option.item)
                else:
                    module.children.append(option)
    run.emit(Construct(place, frame.ctx, module))
    return module


@models("torch.nn.Embedding.from_pretrained", "torch.nn.EmbeddingBag.from_pretrained")
def _embedding(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    module = module_of(run, Lib(name.rpartition(".")[0]), Arguments(open=True), place, frame)
    freeze = args.get("freeze", 1, Const(True))
    api = torch_api.lookup(name)
    if isinstance(module, Module):
        given = args.bind([param.name for param in api.params] if api is not None else ())
        # The sizes are those of the weights, the rest is chosen here as it is for the class.
        module.call = replace(given, bound={"num_embeddings": UNKNOWN, "embedding_dim": UNKNOWN, **given.bound})
        module.frozen = isinstance(freeze, Const) and freeze.value is True
    return module


def wrap(run: Run, cls: Lib, wrapper: str, inner: Value, args: Arguments, place: Place, frame: Frame) -> Value:
    """DataParallel, DDP, FSDP, compile and their like around modules."""
    found: list[Value] = []
    for option in options(inner):
        if not isinstance(option, Module):
            if wrapper and isinstance(option, Unknown):
                module = run.make(Module, place, frame.ctx, cls, tag=wrapper)
                module.wrapper, module.open = wrapper, True
                module.call = args.bind(("module",))
                run.emit(Construct(place, frame.ctx, module), wrapper)
                found.append(module)
            else:
                found.append(option)
            continue
        if not wrapper:
            found.append(option)
            continue
        module = run.make(Module, place, frame.ctx, cls, tag=f"{wrapper}{id(option)}")
        module.wrapper, module.inner, module.where = wrapper, option, option.where
        module.call = args.bind(("module",))
        run.emit(Construct(place, frame.ctx, module), f"{wrapper}{id(option)}")
        found.append(module)
    return join_all(found) if found else UNKNOWN


@models(
    "torch.jit.script", "torch.jit.trace", "torch.fx.symbolic_trace", "torch.nn.utils.weight_norm",
    "torch.nn.utils.spectral_norm", "torch.nn.utils.parametrizations.weight_norm",
    "torch.nn.utils.parametrizations.spectral_norm", "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "apex.parallel.convert_syncbn_model", "torch.quantization.prepare_qat",
)  # fmt: skip
def _wrapper(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    inner = args.first()
    if any(isinstance(option, Module) for option in options(inner)):
        return wrap(run, Lib(name), WRAPPERS.get(name, ""), inner, args, place, frame)
    return inner if isinstance(inner, (Module, Unknown)) else derived(args.all())


@models("torch.compile")
def _compile(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if not args.has("model", 0):
        return run.make(Other, place, frame.ctx, "compile")
    target = args.get("model", 0)
    if any(isinstance(option, (Module, Unknown)) for option in options(target)):
        return wrap(run, Lib("torch.compile"), "compile", target, args, place, frame)
    return target


@models("torch.device")
def _device(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    found = device_of(args.get("device", 0, args.get("type", None)))
    return found if found is not None else Device("unknown", True)


@models(
    "torch.cuda.is_available", "torch.accelerator.is_available", "torch.cuda.is_initialized",
    "torch.distributed.is_available",
)  # fmt: skip
def _available(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Const(True, True)


@models(
    "torch.backends.mps.is_available", "torch.xpu.is_available", "torch.backends.mps.is_built", "torch.mps.is_available"
)
def _other_device(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Const(False, True)


@models("torch.accelerator.current_accelerator")
def _accelerator(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Device("accelerator", True)


@models(
    "torch.cuda.device_count", "torch.cuda.current_device", "torch.distributed.get_rank",
    "torch.distributed.get_world_size", "torch.accelerator.device_count", "torch.cuda.get_device_properties",
    "torch.get_num_threads", "torch.cuda.get_device_name", "torch.cuda.memory_allocated", "torch.cuda.memory_reserved",
    "torch.cuda.max_memory_allocated",
)  # fmt: skip
def _number(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Num("int")


@models("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.set_grad_enabled")
def _grad(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    enabled: Value = Const(name == "torch.enable_grad")
    if name == "torch.set_grad_enabled":
        enabled = args.get("mode", 0)
        enabled = Const(bool(enabled.value)) if isinstance(enabled, Const) else enabled
        if isinstance(place.tree.parent(place.node), cst.Expr) and isinstance(enabled, Const):
            run.grad_off = not enabled.value
    elif name == "torch.inference_mode":
        given = args.get("mode", 0, Const(True))
        if isinstance(given, Const) and isinstance(given.value, bool):
            enabled = Const(not given.value)
    function = args.first(NONE)
    mode = Mode("grad", enabled, name=name, place=place)
    from ptlint.facts.values import Function

    if name != "torch.set_grad_enabled" and isinstance(function, Function):
        from ptlint.facts.classes import apply_decorator

        return apply_decorator(run, mode, function, place, frame)
    return mode


@models("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast",
        "torch.amp.autocast_mode.autocast", "torch.cuda.amp.autocast_mode.autocast")  # fmt: skip
def _autocast(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    legacy = ".cuda.amp." in name or ".cpu.amp." in name
    if legacy:
        device = "cuda" if ".cuda." in name else "cpu"
        enabled, dtype = args.get("enabled", 0, Const(True)), args.get("dtype", 1, NONE)
    else:
        given = args.get("device_type", 0, Const("cuda"))
        found = device_of(given)
        device = found.type if found is not None else "unknown"
        dtype, enabled = args.get("dtype", 1, NONE), args.get("enabled", 2, Const(True))
    names = {option.name.rpartition(".")[2] for option in options(dtype) if isinstance(option, Lib)}
    if not names and isinstance(dtype, Const) and dtype.value is None:
        names = {"float16" if device in ("cuda", "accelerator") else "bfloat16"}
    names = {{"half": "float16"}.get(found_name, found_name) for found_name in names}
    known = names.pop() if len(names) == 1 else None
    return Mode("autocast", enabled, known, device, name, place)


@models("torch.cuda.device", "torch.accelerator.device_index", "torch.cuda.stream")
def _cuda_context(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Mode("stream" if name.endswith("stream") else "other", name=name, place=place)


@models("torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly",
        "torch.autograd.anomaly_mode.set_detect_anomaly",
        "torch.autograd.anomaly_mode.detect_anomaly")  # fmt: skip
def _anomaly(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Mode("anomaly", args.get("mode", 0, Const(True)), name=name, place=place)


@models(
    "torch.profiler.profile", "torch.autograd.profiler.profile", "torch.autograd.profiler.emit_nvtx",
    "torch.autograd.profiler.record_function", "torch.profiler.record_function",
)  # fmt: skip
def _profiler(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Mode("profiler", name=name, place=place)


@models("torch.autograd.backward")
def _backward(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    run.emit(Backward(place, frame.ctx, args.first()))
    return NONE


@models("torch.distributed.autograd.backward")
def _distributed_backward(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    run.emit(Backward(place, frame.ctx, args.get("roots", 1)))
    return NONE


@models("torch.autograd.grad")
def _autograd_grad(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    outputs = args.get("outputs", 0)
    where = next((o.where for o in options(outputs) if isinstance(o, (Tensor, Unknown))), UNSURE)
    create = args.get("create_graph", None, NONE)
    graph = ATTACHED if isinstance(create, Const) and create.value else DETACHED
    return Items(Tensor(where, graph), "tensors")


@models("torch.load")
def _load(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return UNKNOWN


@models("torch.autograd.Variable")
def _variable(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    value = args.first()
    grad = args.get("requires_grad", 1, NONE)
    if isinstance(grad, Const) and grad.value:
        return join_all([
            replace(o, graph=ATTACHED, module=None, moved=False, came=NOWHERE) if isinstance(o, Tensor) else o
            for o in options(value)
        ])  # fmt: skip
    return value


@models("torch.hub.load")
def _hub(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return run.make(Module, place, frame.ctx, Lib("torch.hub.load"))


@models("torch.utils.data.random_split")
def _split(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    found: list[Value] = []
    for number in range(4):
        subset = run.make(Dataset, place, frame.ctx, Lib("torch.utils.data.Subset"), tag=str(number))
        subset.call = args.bind(("dataset", "lengths", "generator"))
        found.append(subset)
    return Items(found[0], "list")


@models("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
def _spawn(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    function = args.get("fn", 0)
    inputs = args.get("args", 1, Tuple(()))
    call = Arguments().add(Num("int"))
    for option in options(inputs)[:1]:
        for item in option.items if isinstance(option, Tuple) else ():
            call.add(item)
    call.open = not isinstance(inputs, Tuple)
    _start_process(run, function, call, place, frame)
    return UNKNOWN


def _start_process(run: Run, function: Value, call: Arguments, place: Place, frame: Frame) -> None:
    """Run a process's function: the loops, modes and clocks around the place that starts it are not its own."""
    ctx = run.root.child("module", ("process", id(place.node)))
    ctx.home = frame.home
    apart = Frame(frame.home, frame.tree, ctx, frame.scope, frame)
    run.call(function, call, place, apart)


@models("torch.multiprocessing.Process", "multiprocessing.Process", "threading.Thread",
        "torch.multiprocessing.context.Process")  # fmt: skip
def _process(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    inputs = args.get("args", 3, Tuple(()))
    call = Arguments()
    for option in options(inputs)[:1]:
        for item in option.items if isinstance(option, Tuple) else ():
            call.add(item)
    extra = args.get("kwargs", 4, NONE)
    if isinstance(extra, Mapping):
        call.keywords.update({k: v for k, v in extra.entries.items() if isinstance(k, str)})
    target = args.get("target", 1, NONE)
    if target is NONE:
        return UNKNOWN
    if name.endswith("Thread"):
        run.call(target, call, place, frame)
    else:
        _start_process(run, target, call, place, frame)
    return UNKNOWN


@models("torch.func.functional_call", "torch.utils.checkpoint.checkpoint", "torch.nn.parallel.data_parallel")
def _through(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    rest = Arguments(args.positional[1:], args.nodes[1:])
    return run.call(args.first(), rest, place, frame)


RUNTIMES = frozenset(
    "coremltools jax mlx onnxruntime openvino paddle tensorflow tensorrt tflite_runtime tritonclient".split()
)
"""Libraries that take host arrays and know nothing of PyTorch's device tensors."""


def is_runtime(name: str) -> bool:
    """Whether something belongs to another runtime."""
    return name.partition(".")[0] in RUNTIMES or name.startswith("cv2.dnn.")


def unlisted(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A library name that the table does not hold."""
    if name.startswith(("numpy.", "scipy.", "sklearn.")):
        from ptlint.facts.library.builtins import numpy_call

        return numpy_call(run, name, args, place, frame)
    if is_runtime(name):
        return run.make(Other, place, frame.ctx, "runtime")
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        return Tensor("device", DETACHED, fresh=True, made=place)
    head, _, last = name.rpartition(".")
    if last.startswith("from_") and torch_api.is_module_class(head):
        return module_of(run, Lib(head), Arguments(open=True), place, frame)
    device = device_of(args.keywords["device"]) if "device" in args.keywords else None
    if device is not None and device.where == DEVICE:  # what it makes or yields goes there
        made = derived(args.all())
        return replace(made, where=DEVICE) if isinstance(made, Unknown) else made
    return derived(args.all())

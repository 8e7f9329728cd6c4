"""Libraries around PyTorch: progress bars, loggers, Accelerate, Lightning, sklearn."""

from __future__ import annotations

from ptlint.facts.arguments import Arguments
from ptlint.facts.calls import derived
from ptlint.facts.events import Call, Clock, Place
from ptlint.facts.homes import Frame
from ptlint.facts.library.builtins import argument_node, read_all
from ptlint.facts.library.modules import put
from ptlint.facts.library.options import parser_method
from ptlint.facts.library.registry import models
from ptlint.facts.operations import read
from ptlint.facts.run import Run, parts_of
from ptlint.facts.values import (
    DEVICE,
    NONE,
    UNKNOWN,
    Const,
    Device,
    Instance,
    Lib,
    Mode,
    Module,
    Num,
    Other,
    Table,
    Tuple,
    Value,
    options,
)


def read_keywords(run: Run, args: Arguments, place: Place, frame: Frame, how: str = "argument") -> None:
    for key, value in args.keywords.items():
        node = args.keyword_nodes.get(key)
        read(run, value, node.value if node is not None else place.node, how, frame)


@models(
    "torch.utils.tensorboard.SummaryWriter",
    "tensorboardX.SummaryWriter",
    "torch.utils.tensorboard.writer.SummaryWriter",
)
def _writer(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return run.make(Other, place, frame.ctx, "writer")


_TOKENIZERS = (
    "Auto Bert Roberta DistilBert Albert Bart CLIP Deberta DebertaV2 Electra GPT2 Llama MBart T5 XLMRoberta XLNet"
).split()


@models(*(f"transformers.{name}Tokenizer{fast}.from_pretrained" for name in _TOKENIZERS for fast in ("", "Fast")))
def _tokenizer(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return run.make(Other, place, frame.ctx, "tokenizer")


_TABLE_METHODS = frozenset(
    "astype copy drop drop_duplicates dropna fillna filter groupby head merge query rename reset_index sample "
    "set_index sort_index sort_values".split()
)


@models(*(f"pandas.read_{kind}" for kind in "csv excel feather hdf json parquet pickle sql table".split()),
        "pandas.DataFrame", "pandas.concat", "pandas.merge")  # fmt: skip
def _table(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return Table()


def table_method(run: Run, receiver: Table, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """What most methods of a DataFrame return is one again."""
    return receiver if name in _TABLE_METHODS else UNKNOWN


@models("accelerate.Accelerator")
def _accelerator(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    made = run.make(Other, place, frame.ctx, "accelerator")
    made.attrs["device"] = Device("cuda", True)
    return made


@models("apex.amp.initialize")
def _apex(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if args.has("optimizers", 1):
        return Tuple((args.get("models", 0), args.get("optimizers", 1)))
    return args.get("models", 0)


@models("apex.amp.scale_loss")
def _apex_loss(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return derived([args.get("loss", 0)])


@models("einops.pack")
def _pack(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """One tensor of several, and the shapes that `unpack` needs."""
    return Tuple((derived(parts_of(args.get("tensors", 0))), UNKNOWN))


@models("torch.cuda.Event", "torch.Event")
def _event(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return run.make(Other, place, frame.ctx, "event")


@models("time.time", "time.perf_counter", "time.monotonic", "time.process_time", "timeit.default_timer", "time.time_ns",
        "time.perf_counter_ns", "datetime.datetime.now")  # fmt: skip
def _clock(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    event = run.trace.find(Clock, place, frame.ctx) or Clock(place, frame.ctx, name)
    run.emit(event)
    return Num("float", reads=frozenset({event}))


@models("torchvision.utils.save_image", "torchvision.utils.make_grid")
def _sink(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if name.endswith("make_grid"):
        return derived(args.all())
    read_sink(run, args, place, frame)
    return NONE


def read_sink(run: Run, args: Arguments, place: Place, frame: Frame) -> None:
    """Library code copies the tensors that it is given to the host."""
    for value in args.all():
        read(run, value, place.node, "sink", frame)


LEVELS = ("info", "warning", "error", "critical", "success")
"""Methods of loggers that write by default; the text of what they are given is made then."""


@models("logging.getLogger")
def _logger(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    return run.make(Other, place, frame.ctx, "logger")


@models(*(f"{logger}.{level}" for logger in ("logging", "loguru.logger") for level in LEVELS))
def _logging(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    read_all(run, args, place, frame, "print")
    return NONE


def other_method(run: Run, receiver: Other, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """Methods of library objects with a kind."""
    if receiver.kind == "parser":
        return parser_method(run, receiver, name, args, place, frame)
    run.emit(Call(place, frame.ctx, f"{receiver.kind}.{name}", args.bind(()), UNKNOWN, receiver), name)
    if receiver.kind == "writer" and name in ("add_scalar", "add_scalars"):
        for index, value in enumerate(args.positional[1:2], 1):
            read(run, value, argument_node(args, index, place), "argument", frame)
        read_keywords(run, args, place, frame)
    elif receiver.kind == "logger" and name in LEVELS:
        read_all(run, args, place, frame, "print")
        return NONE
    elif receiver.kind == "progress" and name.startswith("set_"):
        read_all(run, args, place, frame, "argument")
        read_keywords(run, args, place, frame)
    elif receiver.kind == "runtime":
        return receiver
    elif receiver.kind == "accelerator":
        return _accelerator_method(run, name, args, place, frame)
    elif receiver.kind == "event" and name == "elapsed_time":
        return Num("float")
    return UNKNOWN


def _accelerator_method(run: Run, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    if name == "prepare":
        for value in args.positional:
            for option in options(value):
                if isinstance(option, Module):
                    put(option, DEVICE)
        return args.positional[0] if len(args.positional) == 1 else Tuple(tuple(args.positional))
    if name == "backward":
        from ptlint.facts.events import Backward

        run.emit(Backward(place, frame.ctx, args.first(), scaled=True))
        return NONE
    if name == "autocast":
        return Mode("autocast", Const(True), None, "cuda", "accelerate", place)
    if name in ("accumulate", "no_sync", "main_process_first", "local_main_process_first"):
        return Mode("other", name=name, place=place)
    if name == "unwrap_model":
        return args.first()
    return Num("bool") if name.startswith("is_") else derived(args.all())


def instance_method(run: Run, receiver: Instance, name: str, args: Arguments, place: Place, frame: Frame) -> Value:
    """A method that an instance inherits from a library class."""
    base = receiver.lib_base
    run.emit(Call(place, frame.ctx, f"{base}.{name}", args.bind(()), UNKNOWN, receiver), name)
    # What a library object was made of is in what its methods return: `Categorical(probs).log_prob(action)`.
    made_of = list(receiver.call.bound.values()) if receiver.call is not None and isinstance(receiver.cls, Lib) else []
    return derived([*args.all(), *made_of])

"""Make ptlint/facts/data/torch_api.json from the installed PyTorch: its stubs, its signatures, and torch_api.toml.

    python scripts/make_torch_api.py           write the file
    python scripts/make_torch_api.py --check   exit with 1 if it is out of date

The stubs give the builtin functions and Tensor methods, `inspect` what is written in Python, the first line of a
docstring the rest; what a call does (draws random numbers, waits for the device, ...) is kept by hand in
`torch_api.toml`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch_signatures import Signature, Stubs, is_dunder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "ptlint" / "facts" / "data" / "torch_api.json"
HAND = HERE / "torch_api.toml"

# Objects that these share with other namespaces keep one entry in each, since people use both names.
OWN_ENTRIES = {"torch.nn.functional", "torch.special", "torch.linalg"}
SHORT_NAMES = {"torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special"}
IN_PLACE_SPACES = {*SHORT_NAMES, "torch.nn.init", "torch.nn.utils"}
IN_PLACE_OPERATOR = re.compile(r"__i(?!nt|ndex|nvert|ter)\w+__|__setitem__")
GRAPHLESS = {"int64", "int32", "int16", "int8", "uint8", "bool"}
CORE_CLASSES = {"Generator", "Size", "device", "dtype", "Event", "Stream", "finfo", "iinfo", "OutOfMemoryError"}
KINDS = {
    "module": torch.nn.Module,
    "optimizer": torch.optim.Optimizer,
    "scheduler": torch.optim.lr_scheduler.LRScheduler,
    "loader": torch.utils.data.DataLoader,
    "dataset": torch.utils.data.Dataset,
    "sampler": torch.utils.data.Sampler,
    "scaler": torch.amp.GradScaler,
    "tensor": torch.Tensor,
}
TENSOR_PROPERTIES = {
    "shape": "size", "device": "device", "dtype": "dtype", "ndim": "number", "requires_grad": "bool", "is_cuda": "bool",
    "is_leaf": "bool", "is_cpu": "bool", "is_mps": "bool", "is_sparse": "bool", "layout": "other", "grad_fn": "other",
    "itemsize": "number", "nbytes": "number", "names": "other", "data": "tensor", "grad": "tensor", "T": "tensor",
    "mT": "tensor", "H": "tensor", "mH": "tensor", "real": "tensor", "imag": "tensor",
}  # fmt: skip


@dataclass
class Entry:
    """An entry before it is written: its signatures as text."""

    kind: str
    signatures: list[Signature] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def main() -> int:
    warnings.simplefilter("ignore")
    text = render()
    if "--check" in sys.argv[1:]:
        fresh = TARGET.is_file() and TARGET.read_text("utf-8") == text
        print(f"{TARGET.name}: {'up to date' if fresh else 'out of date: run scripts/make_torch_api.py'}")
        return 0 if fresh else 1
    TARGET.write_text(text, "utf-8")
    print(f"{TARGET}: {len(text)} bytes")
    return 0


def render() -> str:
    """The whole file, one entry a line."""
    hand = tomllib.loads(HAND.read_text("utf-8"))
    entries, aliases, modules = collect(hand["namespaces"])
    for owner in hand["methods_of"]:
        entries.update(methods(owner, Stubs()))
    for words, names in hand["tags"].items():
        for name in names:
            entries[name].tags += words.split(",")
    aliases.update(hand["aliases"])
    modules.update(hand["modules"])
    effects = Effects(hand)
    lines = {name: effects.line(name, entry) for name, entry in entries.items()} | hand["entries"]
    data = {
        "torch": torch.__version__.partition("+")[0],
        "source": "scripts/make_torch_api.py and scripts/torch_api.toml",
        "aliases": {name: aliases[name] for name in sorted(aliases) if name not in lines},
        "modules": dict(sorted(modules.items())),
        "entries": dict(sorted(lines.items())),
    }
    effects.check_used()
    return json.dumps(data, indent=0, ensure_ascii=False) + "\n"


def collect(namespaces: list[str]) -> tuple[dict[str, Entry], dict[str, str], dict[str, str]]:
    """All entries, the aliases of single names, and the private modules whose names are public elsewhere."""
    entries: dict[str, Entry] = {}
    aliases: dict[str, str] = {}
    modules: dict[str, str] = {}
    seen: dict[int, str] = {}
    stubs = Stubs()
    for space in namespaces:
        namespace = importlib.import_module(space)
        entries[space] = Entry("module")
        for short, thing in public(space, namespace):
            name = f"{space}.{short}"
            if isinstance(thing, torch.dtype):
                name = str(thing)
                aliases[f"{space}.{short}"] = name
            known = seen.setdefault(id(thing), name)
            if known != name and (space not in OWN_ENTRIES or known.rpartition(".")[0] in OWN_ENTRIES):
                aliases[name] = known
                continue
            entries[name] = describe(name, thing, stubs)
            home = getattr(thing, "__module__", None) or ""
            private = home.startswith("torch.") and not home.startswith("torch._C") and home not in namespaces
            if private and modules.setdefault(home, space) != space:
                aliases.setdefault(f"{home}.{short}", name)
    entries.update(tensor_entries(stubs))
    return entries, aliases, modules


def tensor_entries(stubs: Stubs) -> Iterator[tuple[str, Entry]]:
    """`torch.Tensor`, its methods and its properties."""
    yield "torch.Tensor", Entry("class", [(["*data"], "tensor")])
    for short, overloads in stubs.tensor.items():
        yield f"torch.Tensor.{short}", Entry("method", overloads)
    for short in dir(torch.Tensor):
        thing = inspect.getattr_static(torch.Tensor, short)
        special = is_dunder(short) and (short not in dir(object) or short in ("__repr__", "__format__"))
        if callable(thing) and short not in stubs.tensor and (special or not short.startswith("_")):
            yield f"torch.Tensor.{short}", Entry("method", stubs.signature(short, thing))
    for short, returns in TENSOR_PROPERTIES.items():
        yield f"torch.Tensor.{short}", Entry("property", [([], returns)])


def public(space: str, namespace: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names that belong to a namespace, not those that it happens to import."""
    listed = set(getattr(namespace, "__all__", ()))
    for short in sorted(dir(namespace)):
        thing = getattr(namespace, short)
        grouped = space == "torch" and short.startswith("_foreach_")
        if space == "torch.nn.init" and hasattr(namespace, f"{short}_"):
            continue  # the deprecated names without the underscore
        if (short.startswith("_") and not grouped) or short.endswith("Storage"):
            continue
        if inspect.ismodule(thing) or (thing is torch.Tensor and space != "torch") or is_internal(short, thing):
            continue
        home = getattr(thing, "__module__", None) or ""
        ours = home == space or home.startswith((f"{space}.", "torch._C._")) or home in ("torch", "torch._C")
        wanted = callable(thing) and (short in listed or (ours and "_jit_internal" not in home))
        if wanted or isinstance(thing, (torch.dtype, torch.memory_format, torch.layout)):
            yield short, thing


def is_internal(short: str, thing: Any) -> bool:
    """Classes of the compiled core (the JIT's types and the like) and what `__torch_function__` needs."""
    home = getattr(thing, "__module__", None) or ""
    core = isinstance(thing, type) and type(thing).__name__ != "tensortype" and home in ("torch", "torch._C")
    return (
        (core and short not in CORE_CLASSES and not issubclass(thing, torch.Tensor))
        or "overrides" in home
        or short.startswith("has_torch_func")
    )


def describe(name: str, thing: Any, stubs: Stubs) -> Entry:
    """The entry of one public object."""
    if isinstance(thing, torch.dtype):
        return Entry("property", [([], "dtype")])
    if isinstance(thing, (torch.memory_format, torch.layout)):
        return Entry("property", [([], "other")])
    if type(thing).__name__ == "tensortype":
        return Entry("class", [(["*data", "device=None"], "tensor")])
    if isinstance(thing, type):
        returns = next((kind for kind, base in KINDS.items() if issubclass(thing, base)), None)
        if returns is None:
            returns = "context" if hasattr(thing, "__enter__") else "other"
        return Entry("class", [(params, returns) for params, _ in stubs.signature(name, thing, of_class=True)])
    return Entry("function", stubs.function(name, thing))


def methods(owner: str, stubs: Stubs) -> Iterator[tuple[str, Entry]]:
    """The public methods that a class defines itself or inherits from a base that is not in the table."""
    space, _, short = owner.rpartition(".")
    cls = getattr(importlib.import_module(space), short)
    for name in dir(cls):
        thing = inspect.getattr_static(cls, name)
        inherited = any(issubclass(cls, base) and cls is not base and hasattr(base, name) for base in KINDS.values())
        if name.startswith("_") or not callable(getattr(cls, name)) or (inherited and name not in vars(cls)):
            continue
        bound = thing.__func__ if isinstance(thing, (staticmethod, classmethod)) else thing
        yield f"{owner}.{name}", Entry("method", stubs.signature(name, bound, own=owner))


class Effects:
    """What a call does, by torch_api.toml; keeps count of which of its lines were used."""

    def __init__(self, hand: dict[str, Any]) -> None:
        self.hand = hand
        self.used: set[tuple[str, str]] = set()

    def has(self, section: str, names: list[str], name: str) -> bool:
        """Whether a name is listed: itself, or, for the short-named spaces, its last word with or without `_`."""
        space, _, short = name.rpartition(".")
        wanted = [name, short, short.rstrip("_")] if space in SHORT_NAMES else [name]
        for one in wanted:
            if one in names:
                self.used.add((section, one))
                return True
        return False

    def line(self, name: str, entry: Entry) -> str:
        """The text of an entry, as ptlint/facts/torch_api.py explains it."""
        overloads = [f"({', '.join(params)}) -> {self.returns(name, result)}" for params, result in entry.signatures]
        words = self.words(name, entry) if entry.kind != "module" else []
        text = f"{entry.kind} {' | '.join(overloads)}" if overloads else entry.kind
        return f"{text}; {' '.join(words)}" if words else text

    def returns(self, name: str, result: str) -> str:
        """The result by hand where no stub tells it, or where a dotted name corrects one."""
        for kind, names in self.hand["returns"].items():
            if (result == "unknown" or name in names) and self.has(f"returns.{kind}", names, name):
                return str(kind)
        return result

    def words(self, name: str, entry: Entry) -> list[str]:
        """What stands after the semicolon."""
        hand = self.hand
        space, _, short = name.rpartition(".")
        results = {self.returns(name, result) for _, result in entry.signatures}
        tensor = bool(results & {"tensor", "tensors"} or (space in SHORT_NAMES and "self" in results))
        in_place = short.endswith("_") and not is_dunder(short) and space in IN_PLACE_SPACES
        makes = space != "torch.Tensor" and self.has("makes", hand["makes"], name)
        words = ["makes"] if makes else []
        words += [flag for flag in ("of_data", "random") if self.has(flag, hand[flag], name)]
        words += ["inplace"] if in_place or IN_PLACE_OPERATOR.fullmatch(short) else []
        syncs = [state for state in ("always", "maybe") if self.has(f"syncs_{state}", hand[f"syncs_{state}"], name)]
        words += [f"syncs={syncs[0]}"] if syncs else []
        words += [f"moves={to}" for to, names in hand["moves"].items() if self.has(f"moves.{to}", names, name)]
        kind = self.dtype(name, in_place=in_place) if tensor and entry.kind != "property" else None
        words += [f"dtype={kind}"] if kind else []
        detached = kind in GRAPHLESS or makes or self.has("detached", hand["detached"], name)
        words += ["detached"] if tensor and not in_place and detached else []
        return words + ([f"tags={','.join(entry.tags)}"] if entry.tags else [])

    def dtype(self, name: str, *, in_place: bool) -> str | None:
        if in_place:
            return "same"
        for kind, names in self.hand["dtype"].items():
            if kind != "same" and self.has(f"dtype.{kind}", names, name):
                return None if kind == "unknown" else str(kind)
        listed = self.has("dtype.same", self.hand["dtype"]["same"], name)
        return "same" if listed or name.rpartition(".")[0] in SHORT_NAMES else None

    def check_used(self) -> None:
        """Every hand-kept name must have matched an entry, so that the file holds no dead lines."""
        flat = ("makes", "of_data", "random", "syncs_always", "syncs_maybe", "detached")
        listed = {(section, name) for section in flat for name in self.hand[section]}
        for section in ("moves", "dtype", "returns"):
            for kind, names in self.hand[section].items():
                listed |= {(f"{section}.{kind}", name) for name in names}
        dead = sorted(listed - self.used)
        if dead:
            raise SystemExit(f"{HAND.name}: these match no entry: {dead}")


if __name__ == "__main__":
    sys.exit(main())

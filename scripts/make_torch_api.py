"""Make ptlint/facts/data/torch_api.json from the installed PyTorch: its stubs, its signatures, and torch_api.toml.

    python scripts/make_torch_api.py           write the file
    python scripts/make_torch_api.py --check   exit with 1 if it is out of date

The stubs give the builtin functions and Tensor methods, `inspect` what is written in Python, the first line of a
docstring the rest; what a call does (draws random numbers, waits for the device, ...) is kept by hand in
`torch_api.toml`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "ptlint" / "facts" / "data" / "torch_api.json"
HAND = HERE / "torch_api.toml"
TORCH = Path(torch.__file__).parent

# In the order in which an object's canonical name is chosen: the first that holds it.
NAMESPACES = """
    torch.amp torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn torch.nn.utils.parametrizations
    torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.parallel torch.nn.attention
    torch.nn.attention.flex_attention torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.utils.data
    torch.utils.checkpoint torch.utils.benchmark torch.utils.dlpack torch.autograd torch.autograd.functional
    torch.profiler torch.autograd.profiler torch.autograd.graph torch.cuda torch.cuda.amp torch.cpu.amp torch.cuda.nvtx torch.cuda.comm torch.backends.cuda torch.backends.cudnn torch.backends.mps torch.accelerator
    torch.mps torch.xpu torch.distributed torch.distributed.fsdp torch.distributed.checkpoint torch.distributed.optim
    torch.distributed.tensor torch.distributed.device_mesh torch.distributed.algorithms.join torch.multiprocessing
    torch.jit torch.compiler torch.func torch.linalg torch.fft torch.special torch.sparse torch.distributions torch.hub
    torch.random torch.export torch.testing torch.utils.swap_tensors
""".split()
# Objects that these share with other namespaces keep one entry in each, since people use both names.
OWN_ENTRIES = {"torch.nn.functional", "torch.special", "torch.linalg"}
SHORT_NAMES = {"torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special"}
CORE_CLASSES = {"Generator", "Size", "device", "dtype", "Event", "Stream", "finfo", "iinfo", "OutOfMemoryError"}
METHODS_OF = """
    torch.nn.Module torch.nn.Sequential torch.nn.ModuleList torch.nn.ModuleDict torch.nn.ParameterList torch.nn.Embedding
    torch.nn.Transformer
    torch.optim.Optimizer torch.optim.LBFGS torch.optim.lr_scheduler.LRScheduler
    torch.optim.lr_scheduler.ReduceLROnPlateau torch.optim.swa_utils.AveragedModel torch.amp.GradScaler
    torch.cuda.amp.GradScaler torch.cuda.Event torch.cuda.Stream torch.cuda.CUDAGraph torch.Generator torch.utils.data.DataLoader
    torch.utils.data.DistributedSampler torch.nn.parallel.DistributedDataParallel torch.nn.DataParallel
    torch.profiler.profile torch.utils.benchmark.Timer torch.distributed.fsdp.FullyShardedDataParallel
    torch.autograd.Function torch.distributions.Distribution torch.distributed.Work
""".split()
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
    signatures: list[tuple[list[str], str]] = field(default_factory=list)
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
    entries, aliases, modules = collect()
    for words, names in hand["tags"].items():
        for name in names:
            entries[name].tags += words.split(",")
    aliases.update(hand["aliases"])
    modules.update(hand["modules"])
    effects = Effects(hand)
    data = {
        "torch": torch.__version__.partition("+")[0],
        "source": "scripts/make_torch_api.py and scripts/torch_api.toml",
        "aliases": {name: aliases[name] for name in sorted(aliases) if name not in entries},
        "modules": dict(sorted(modules.items())),
        "entries": dict(sorted(({name: effects.line(name, entry) for name, entry in entries.items()} | hand["entries"]).items())),
    }
    effects.check_used()
    return json.dumps(data, indent=0, ensure_ascii=False) + "\n"


def collect() -> tuple[dict[str, Entry], dict[str, str], dict[str, str]]:
    """All entries, the aliases of single names, and the private modules whose names are public elsewhere."""
    entries: dict[str, Entry] = {}
    aliases: dict[str, str] = {}
    modules: dict[str, str] = {}
    seen: dict[int, str] = {}
    stubs = Stubs()
    for space in NAMESPACES:
        try:
            namespace = importlib.import_module(space)
        except ImportError:
            continue
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
            home = getattr(thing, "__module__", None)
            if isinstance(home, str) and home.startswith("torch.") and not home.startswith("torch._C") and home not in NAMESPACES:
                if modules.setdefault(home, space) != space:
                    aliases.setdefault(f"{home}.{short}", name)
    entries["torch.Tensor"] = Entry("class", [(["*data"], "tensor")])
    for short, overloads in stubs.tensor.items():
        entries[f"torch.Tensor.{short}"] = Entry("method", overloads)
    for short in dir(torch.Tensor):
        thing = inspect.getattr_static(torch.Tensor, short)
        if callable(thing) and (not short.startswith("_") or (is_dunder(short) and (short not in dir(object) or short in ("__repr__", "__format__")))):
            entries.setdefault(f"torch.Tensor.{short}", Entry("method", stubs.signature(short, thing)))
    for short, returns in TENSOR_PROPERTIES.items():
        entries[f"torch.Tensor.{short}"] = Entry("property", [([], returns)])
    for owner in METHODS_OF:
        entries.update(methods(owner, stubs))
    return entries, aliases, modules


def public(space: str, namespace: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names that belong to a namespace, not those that it happens to import."""
    listed = set(getattr(namespace, "__all__", ()))
    for short in sorted(dir(namespace)):
        thing = getattr(namespace, short)
        if (short.startswith("_") and not (space == "torch" and short.startswith("_foreach_"))) or short.endswith("Storage"):
            continue
        if inspect.ismodule(thing) or (thing is torch.Tensor and space != "torch") or is_internal(short, thing):
            continue
        home = getattr(thing, "__module__", None) or ""
        ours = home == space or home.startswith((f"{space}.", "torch._C._")) or home in ("torch", "torch._C")
        if isinstance(thing, (torch.dtype, torch.memory_format, torch.layout)):
            yield short, thing
        elif callable(thing) and (short in listed or (ours and "_jit_internal" not in home)):
            yield short, thing


def is_internal(short: str, thing: Any) -> bool:
    """Classes of the compiled core (the JIT's types and the like) and what `__torch_function__` needs."""
    home = getattr(thing, "__module__", None) or ""
    core = isinstance(thing, type) and home in ("torch", "torch._C") and short not in CORE_CLASSES and type(thing) is type
    return (core and not issubclass(thing, torch.Tensor)) or "overrides" in home or short.startswith("has_torch_func")


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


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class Stubs:
    """Signatures: from the stub files, from `inspect`, from docstrings."""

    def __init__(self) -> None:
        self.functions = stub_functions(ast.parse((TORCH / "_C" / "_VariableFunctions.pyi").read_text("utf-8")).body)
        self.builtin_nn = stub_functions(ast.parse((TORCH / "_C" / "_nn.pyi").read_text("utf-8")).body)
        self.nn = stub_functions(ast.parse((TORCH / "nn" / "functional.pyi").read_text("utf-8")).body)
        body = ast.parse((TORCH / "_C" / "__init__.pyi").read_text("utf-8")).body
        tensor = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == "TensorBase")
        self.tensor = {
            name: overloads
            for name, overloads in stub_functions(tensor.body, method=True).items()
            if not name.startswith("_") or is_dunder(name)
        }

    def function(self, name: str, thing: Any) -> list[tuple[list[str], str]]:
        space, _, short = name.rpartition(".")
        pools = {"torch": (self.functions,), "torch.nn.functional": (self.nn, self.builtin_nn, self.functions)}
        stubs = next((pool[short] for pool in pools.get(space, ()) if short in pool), [])
        found = self.signature(name, thing)
        written = inspect.isfunction(thing) and any(not param.startswith("*") for param in found[0][0])
        if stubs and not written:
            return stubs
        if stubs and found[0][1] == "unknown":
            return [(params, stubs[0][1]) for params, _ in found]
        return found

    def signature(
        self, name: str, thing: Any, *, of_class: bool = False, own: str | None = None
    ) -> list[tuple[list[str], str]]:
        """What `inspect` says; nothing for builtins."""
        try:
            found = inspect.signature(thing)
        except (TypeError, ValueError):
            return documented(name.rpartition(".")[2], thing)
        params: list[str] = []
        starred = False
        for index, param in enumerate(found.parameters.values()):
            if index == 0 and param.name in ("self", "cls") and not of_class:
                continue
            if param.kind is param.KEYWORD_ONLY and not starred:
                params.append("*")
                starred = True
            text = {param.VAR_POSITIONAL: "*", param.VAR_KEYWORD: "**"}.get(param.kind, "") + param.name
            starred = starred or param.kind is param.VAR_POSITIONAL
            annotation = annotation_text(param.annotation)
            if annotation in ("Tensor", "torch.Tensor"):
                text += ": Tensor"
            if param.default is not param.empty:
                text += f"={default_text(param.default)}"
            params.append(text)
        returns = result_of(annotation_text(found.return_annotation))
        if returns == "unknown":
            documentation = re.search(r"->\s*([\w.]+)", (inspect.getdoc(thing) or "")[:400])
            returns = result_of(documentation.group(1)) if documentation else "unknown"
        if returns == "self" and own is None:
            returns = "unknown"
        return [(params, returns)]


def stub_functions(body: list[ast.stmt], *, method: bool = False) -> dict[str, list[tuple[list[str], str]]]:
    """The functions of a stub with their overloads, doubles left out."""
    nodes: dict[str, list[ast.FunctionDef]] = defaultdict(list)
    for node in body:
        if isinstance(node, ast.FunctionDef) and (method or not node.name.startswith("__")):
            nodes[node.name].append(node)
    found = {}
    for name, overloads in nodes.items():
        kept = [node for node in overloads if method or not is_deprecated(node)] or overloads
        in_place = name.endswith("_") and not is_dunder(name)
        signatures = [signature_of(node, method=method, in_place=in_place) for node in kept]
        found[name] = merged(signatures)
    return found


def is_deprecated(node: ast.FunctionDef) -> bool:
    """Overloads such as `add(self, alpha, other)`, which warn."""
    return bool(node.args.args) and node.args.args[0].arg == "self"


def signature_of(node: ast.FunctionDef, *, method: bool, in_place: bool) -> tuple[list[str], str]:
    args = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [*[None] * (len(args) - len(node.args.defaults)), *node.args.defaults]
    params = [stub_param(arg, default) for arg, default in zip(args, defaults, strict=True)]
    if method and params:
        params = params[1:]
    if node.args.vararg is not None:
        params.append(f"*{node.args.vararg.arg}")
    elif node.args.kwonlyargs:
        params.append("*")
    params += [stub_param(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    if node.args.kwarg is not None:
        params.append(f"**{node.args.kwarg.arg}")
    returns = result_of(ast.unparse(node.returns) if node.returns is not None else "")
    return params, "self" if in_place and returns == "tensor" else returns


def stub_param(arg: ast.arg, default: ast.expr | None) -> str:
    annotation = ast.unparse(arg.annotation) if arg.annotation is not None else ""
    mark = ""
    if annotation in ("Tensor", "Tensor | None"):
        mark = ": Tensor"
    elif annotation and "Tensor" not in annotation:
        mark = ": plain"
    name = "input" if arg.arg == "self" else arg.arg
    return f"{name}{mark}" + (f"={ast.unparse(default)}".replace(", ", ",") if default is not None else "")


def merged(signatures: list[tuple[list[str], str]]) -> list[tuple[list[str], str]]:
    """Without signatures that another with the same result covers; `plain` is said only where results differ."""
    mixed = len({returns for _, returns in signatures}) > 1
    if not mixed:
        signatures = [([p.replace(": plain", "") for p in params], returns) for params, returns in signatures]
    kept: list[tuple[list[str], str]] = []
    for params, returns in sorted(signatures, key=lambda one: (-len(set(one[0]) - {"*"}), "*size" not in one[0])):
        bare = {bare_name(param) for param in params}
        for other, other_returns in kept:
            if returns == other_returns and bare <= {bare_name(param) for param in other}:
                optional = [bare_name(p) not in bare and "=" not in p and not p.startswith("*") for p in other]
                other[:] = [f"{p}=..." if free else p for p, free in zip(other, optional, strict=True)]
                break
        else:
            kept.append((list(params), returns))
    return kept


def bare_name(param: str) -> str:
    return re.split("[:=]", param)[0].lstrip("*")


def documented(short: str, thing: Any) -> list[tuple[list[str], str]]:
    """The signature that a builtin's docstring begins with."""
    match = re.match(rf"(?:\w+\.)*{re.escape(short)}\((.*?)\)\s*->\s*([^\n]+)", inspect.getdoc(thing) or "", re.DOTALL)
    if match is None:
        return []
    try:
        node = ast.parse(f"def f({match.group(1)}): ...").body[0]
    except SyntaxError:
        return []
    if not isinstance(node, ast.FunctionDef):
        return []
    params, _ = signature_of(node, method=False, in_place=False)
    if params and re.split("[:=]", params[0])[0] in ("input", "A", "x"):
        params[0] = re.sub(r"^\w+", lambda m: f"{m.group()}: Tensor", params[0])
    return [(params, result_of(match.group(2).strip()))]


def annotation_text(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", None) or str(annotation)


def default_text(default: Any) -> str:
    plain = default is None or isinstance(default, (bool, int, float, str, tuple))
    text = repr(default).replace(", ", ",")
    return text if plain and len(text) <= 40 and " " not in text and "object at" not in text else "..."


def result_of(annotation: str) -> str:
    """`Api.returns` of an annotation."""
    text = annotation.replace("torch.", "").strip("'\"").replace("_", "") if "return_types" not in annotation else ""
    if "return_types" in annotation or re.fullmatch(r"\(?(tuple|list|Sequence|List|Tuple)\b.*Tensor.*|\(Tensor.*", text):
        return "tensors"
    known = {
        "Tensor": "tensor", "LongTensor": "tensor", "BoolTensor": "tensor", "bool": "bool", "Bool": "bool",
        "int": "number", "float": "number", "Number": "number", "complex": "number", "int|SymInt": "number",
        "None": "none", "NoneType": "none", "Self": "self", "S": "self", "T": "self", "dtype": "dtype",
        "device": "device", "Size": "size", "list": "list", "numpy.ndarray": "ndarray", "str": "other",
        "Module": "module", "Generator": "other", "Storage": "other", "UntypedStorage": "other", "nn.Module": "module",
    }  # fmt: skip
    return known.get(text.replace(" ", ""), "unknown")


class Effects:
    """What a call does, by torch_api.toml; keeps count of which of its lines were used."""

    def __init__(self, hand: dict[str, Any]) -> None:
        self.hand = hand
        self.used: set[tuple[str, str]] = set()

    def has(self, section: str, names: list[str], name: str) -> bool:
        """Whether a name is listed: itself, or, for the short-named spaces, its last word with or without `_`."""
        space, _, short = name.rpartition(".")
        wanted = [name] + ([short, short[:-1]] if space in SHORT_NAMES and short.endswith("_") else [])
        wanted += [short] if space in SHORT_NAMES else []
        for one in wanted:
            if one in names and not (is_dunder(short) and one != short and one != name):
                self.used.add((section, one))
                return True
        return False

    def line(self, name: str, entry: Entry) -> str:
        signatures = " | ".join(f"({', '.join(params)}) -> {self.returns(name, result)}" for params, result in entry.signatures)
        words = self.words(name, entry)
        text = f"{entry.kind} {signatures}" if signatures else entry.kind
        return f"{text}; {' '.join(words)}" if words else text

    def returns(self, name: str, result: str) -> str:
        """The result by hand where no stub tells it, or where a dotted name corrects one."""
        for kind, names in self.hand["returns"].items():
            if (result == "unknown" or name in names) and self.has(f"returns.{kind}", names, name):
                return str(kind)
        return result

    def words(self, name: str, entry: Entry) -> list[str]:
        hand = self.hand
        space, _, short = name.rpartition(".")
        if entry.kind not in ("function", "method", "class", "property"):
            return []
        results = {self.returns(name, result) for _, result in entry.signatures}
        tensor = bool(results & {"tensor", "tensors", "self"}) and (space in SHORT_NAMES or "tensor" in results)
        words = []
        in_place = short.endswith("_") and not is_dunder(short) and space in {*SHORT_NAMES, "torch.nn.init", "torch.nn.utils"}
        makes = self.has("makes", hand["makes"], name)
        makes = makes and space != "torch.Tensor"
        words += ["makes"] if makes else []
        words += ["of_data"] if self.has("of_data", hand["of_data"], name) else []
        words += ["random"] if self.has("random", hand["random"], name) else []
        words += ["inplace"] if in_place or re.fullmatch(r"__i(?!nt|ndex|nvert|ter)\w+__|__setitem__", short) else []
        for state in ("always", "maybe"):
            if self.has(f"syncs_{state}", hand[f"syncs_{state}"], name):
                words.append(f"syncs={state}")
                break
        words += [f"moves={to}" for to, names in hand["moves"].items() if self.has(f"moves.{to}", names, name)]
        kind = self.dtype(name, in_place=in_place) if tensor and entry.kind != "property" else None
        words += [f"dtype={kind}"] if kind else []
        detached = kind in ("int64", "bool", "int32", "uint8") or makes or self.has("detached", hand["detached"], name)
        words += ["detached"] if tensor and not in_place and detached else []
        return words + ([f"tags={','.join(entry.tags)}"] if entry.tags else [])

    def dtype(self, name: str, *, in_place: bool) -> str | None:
        if in_place:
            return "same"
        for kind, names in self.hand["dtype"].items():
            if kind != "same" and self.has(f"dtype.{kind}", names, name):
                return None if kind == "unknown" else str(kind)
        return "same" if name.rpartition(".")[0] in SHORT_NAMES or self.has("dtype.same", self.hand["dtype"]["same"], name) else None

    def check_used(self) -> None:
        """Every hand-kept name must have matched an entry, so that the file holds no dead lines."""
        hand = self.hand
        listed = {(section, name) for section in ("makes", "of_data", "random", "syncs_always", "syncs_maybe", "detached")
                  for name in hand[section]}  # fmt: skip
        for section in ("moves", "dtype", "returns"):
            listed |= {(f"{section}.{kind}", name) for kind, names in hand[section].items() for name in names}
        dead = sorted(listed - self.used)
        if dead:
            raise SystemExit(f"{HAND.name}: these match no entry: {dead}")


if __name__ == "__main__":
    sys.exit(main())

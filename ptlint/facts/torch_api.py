"""What the calls of PyTorch and of the libraries around it return and do: two data files, read when first asked.

`data/torch_api.json` is made by `scripts/make_torch_api.py` from the stubs and signatures of the PyTorch release that
it names; `data/libraries.json` is kept by hand. An entry is one line of text, parsed on its first lookup:

    function (input: Tensor, dim=None, *, out=None) -> tensor | (input: Tensor, other: Tensor) -> tensor; detached

that is a kind, one signature or several, and after the semicolon what the call does (see `Api`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")
SOURCES = ("torch_api.json", "libraries.json")

BASES = {
    "module": "torch.nn.Module",
    "optimizer": "torch.optim.Optimizer",
    "scheduler": "torch.optim.lr_scheduler.LRScheduler",
    "dataset": "torch.utils.data.Dataset",
    "sampler": "torch.utils.data.Sampler",
    "loader": "torch.utils.data.DataLoader",
    "scaler": "torch.amp.GradScaler",
    "tensor": "torch.Tensor",
}
"""Where the methods of what a class makes are kept when its own entry does not list them."""

GRAD_SWITCHES = {
    "torch.no_grad": "no_grad",
    "torch.inference_mode": "inference_mode",
    "torch.enable_grad": "enable_grad",
    "torch.set_grad_enabled": "set_grad_enabled",
}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter. `tensor`: it takes a tensor (True), none (False), either or not known (None).

    `default_repr` is None where there is no default or it has no short text; `variadic` is `""`, `"*"` or `"**"`.
    """

    name: str
    has_default: bool
    default_repr: str | None
    keyword_only: bool
    variadic: str = ""
    tensor: bool | None = None


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature and what it returns."""

    params: tuple[Param, ...]
    returns: str

    def accepts(self, positional: Sequence[bool | None], keywords: Collection[str]) -> bool:
        """Whether a call fits; `positional` says of each argument: a tensor, not a tensor, or not known."""
        places = [param for param in self.params if not param.keyword_only and param.variadic != "**"]
        rest = next((param for param in places if param.variadic == "*"), None)
        plain = [param for param in places if not param.variadic]
        if len(positional) > len(plain) and rest is None:
            return False
        for is_tensor, param in zip(positional, plain, strict=False):
            if is_tensor is not None and param.tensor is not None and is_tensor is not param.tensor:
                return False
        names = {param.name for param in self.params if not param.variadic}
        if any(name not in names for name in keywords) and not any(p.variadic == "**" for p in self.params):
            return False
        given = {param.name for param in plain[: len(positional)]} | set(keywords)
        return all(param.has_default or param.variadic or param.name in given for param in self.params)


@dataclass(frozen=True, slots=True)
class Api:
    """A function, method, class, property or module of a library.

    - `kind`: "function", "method", "class", "property" (constants and settings too) or "module".
    - `params`: of the signature with most parameters; `overloads` has them all. A method's do not hold `self`.
    - `returns`: "tensor", "tensors" (a tuple or list of them), "self" (the receiver or first argument), "number",
      "list", "ndarray", "bool", "none", "module", "optimizer", "scheduler", "scaler", "loader", "dataset", "sampler",
      "device", "dtype", "size", "context" (a context manager), "other", or "unknown": not known, or different from
      one overload to another (`result` decides by the arguments). For a class: what calling it makes.
    - `makes`: a factory; its result is a fresh tensor on the `device=` argument, else on the CPU.
    - `of_data`: what it makes holds Python or NumPy data that it was given; a tensor given to it keeps its device.
    - `random`: it draws from a random generator. `inplace`: it changes its receiver or first argument.
    - `syncs`: "always", "never" or "maybe" (it depends on the arguments): the host waits for the device, given
      device tensors.
    - `moves`: "host", "cuda", "argument" (the device argument decides) or None.
    - `dtype`: of the result: "float" (the default one), a torch dtype's name ("int64", "bool", "float64"), "same" (as
      the first tensor's, for floating ones) or None. A `dtype=` argument stands above it.
    - `detached`: the result never carries a graph (`requires_grad=True` given to a factory aside).
    - `tags`: of a module class: "loss", "recurrent", "cell", "conv", "linear", "norm", "container", "attention",
      "embedding", "dropout", "activation", "pool", "wrapper" (DataParallel and its like), "metric", "tensors" (its
      forward returns several); of a function that returns a module: "conv", "transformer"; of a dataset: "decodes"
      (work for each item), "memory" (items are only indexed), "wraps", "iterable"; of a sampler: "shards"; of what
      owns the training loop: "managed"; of a progress bar: "iterates"; of functions: "reads" (a whole file),
      "waits" (for a person); of what is called on an item: "transform".
    """

    qualname: str
    kind: str
    overloads: tuple[Overload, ...]
    params: tuple[Param, ...]
    returns: str
    makes: bool = False
    of_data: bool = False
    random: bool = False
    inplace: bool = False
    syncs: str = "never"
    moves: str | None = None
    dtype: str | None = None
    detached: bool = False
    tags: frozenset[str] = frozenset()

    def param(self, name: str) -> Param | None:
        """The parameter of that name, looked for in the widest signature first."""
        for params in (self.params, *(overload.params for overload in self.overloads)):
            for param in params:
                if param.name == name and not param.variadic:
                    return param
        return None

    def position(self, name: str) -> int | None:
        """The place of a parameter that may be given by position, in the widest signature; else None."""
        for index, param in enumerate(self.params):
            if param.keyword_only or param.variadic:
                return None
            if param.name == name:
                return index
        return None

    def result(self, positional: Sequence[bool | None], keywords: Collection[str] = ()) -> str:
        """What a call with these arguments returns (see `Overload.accepts`), "unknown" where that is not settled."""
        found = {overload.returns for overload in self.overloads if overload.accepts(positional, keywords)}
        if len(found) == 1:
            return found.pop()
        return "unknown" if found else self.returns


@dataclass(frozen=True, slots=True)
class _Table:
    entries: Mapping[str, str]
    aliases: Mapping[str, str]
    modules: Mapping[str, str]
    torch: str


@cache
def _table() -> _Table:
    entries: dict[str, str] = {}
    aliases: dict[str, str] = {}
    modules: dict[str, str] = {}
    version = ""
    for name in SOURCES:
        data: dict[str, Any] = json.loads((DATA / name).read_bytes())
        entries.update(data["entries"])
        aliases.update(data["aliases"])
        modules.update(data["modules"])
        version = version or data.get("torch", "")
    return _Table(entries, aliases, modules, version)


def torch_version() -> str:
    """The PyTorch release that the table was made from."""
    return _table().torch


def names() -> Collection[str]:
    """Every canonical name in the table."""
    return _table().entries.keys()


@cache
def canonical(qualname: str) -> str:
    """The one name under which the table keeps what `qualname` names; `qualname` itself where it knows no other."""
    table = _table()
    if qualname in table.entries:
        return qualname
    if qualname in table.aliases:
        return table.aliases[qualname]
    head, _, rest = qualname.rpartition(".")
    while head:
        moved = table.modules.get(head)
        if moved is not None:
            name = f"{moved}.{rest}"
            return table.aliases.get(name, name)
        if head in table.aliases:
            return f"{table.aliases[head]}.{rest}"
        head, _, last = head.rpartition(".")
        rest = f"{last}.{rest}"
    return qualname


@cache
def lookup(qualname: str) -> Api | None:
    """What is known of a name; a method is also found in the base of its class (`torch.nn.Linear.cuda`)."""
    name = canonical(qualname)
    text = _table().entries.get(name)
    if text is not None:
        return _parse(name, text)
    owner, _, method = name.rpartition(".")
    made = lookup(owner) if owner else None
    if made is None or made.kind != "class":
        return None
    base = BASES.get(made.returns)
    return lookup(f"{base}.{method}") if base is not None and base != made.qualname else None


def method(returns: str, name: str) -> Api | None:
    """The method `name` of what `Api.returns` calls "tensor", "module", "optimizer", …"""
    base = BASES.get(returns)
    return lookup(f"{base}.{name}") if base is not None else None


@cache
def public_names(module: str) -> frozenset[str]:
    """The names that `from module import *` may bring, as far as the table knows them."""
    prefix = f"{module}."
    return frozenset(
        name[len(prefix) :] for name in _table().entries if name.startswith(prefix) and "." not in name[len(prefix) :]
    )


def is_module_class(qualname: str) -> bool:
    """Whether it is a subclass of `torch.nn.Module` (losses and containers too)."""
    return _is_class(qualname, "module")


def is_optimizer(qualname: str) -> bool:
    return _is_class(qualname, "optimizer")


def is_scheduler(qualname: str) -> bool:
    return _is_class(qualname, "scheduler")


def is_dataset(qualname: str) -> bool:
    return _is_class(qualname, "dataset")


def is_sampler(qualname: str) -> bool:
    return _is_class(qualname, "sampler")


def is_loader(qualname: str) -> bool:
    return _is_class(qualname, "loader")


def tags(qualname: str) -> frozenset[str]:
    """`Api.tags`, empty for what the table does not know."""
    api = lookup(qualname)
    return api.tags if api is not None else frozenset()


def grad_switch(qualname: str) -> str | None:
    """ "no_grad", "inference_mode", "enable_grad" or "set_grad_enabled", for each of their names."""
    return GRAD_SWITCHES.get(canonical(qualname))


def _is_class(qualname: str, returns: str) -> bool:
    api = lookup(qualname)
    return api is not None and api.kind == "class" and api.returns == returns


def _parse(name: str, text: str) -> Api:
    text, _, effects = text.partition("; ")
    kind, _, signatures = text.partition(" ")
    overloads = tuple(_parse_overload(part) for part in signatures.split(" | ")) if signatures else ()
    results = {overload.returns for overload in overloads}
    words = effects.split()
    values = dict(word.split("=") for word in words if "=" in word)
    flags = {word for word in words if "=" not in word}
    return Api(
        qualname=name,
        kind=kind,
        overloads=overloads,
        params=max((overload.params for overload in overloads), key=len, default=()),
        returns=results.pop() if len(results) == 1 else "unknown",
        makes="makes" in flags,
        of_data="of_data" in flags,
        random="random" in flags,
        inplace="inplace" in flags,
        syncs=values.get("syncs", "never"),
        moves=values.get("moves"),
        dtype=values.get("dtype"),
        detached="detached" in flags,
        tags=frozenset(values["tags"].split(",")) if "tags" in values else frozenset(),
    )


def _parse_overload(text: str) -> Overload:
    params, _, returns = text.rpartition("-> ")
    return Overload(tuple(_parse_params(params.strip()[1:-1])), returns)


def _parse_params(text: str) -> list[Param]:
    params: list[Param] = []
    keyword_only = False
    for part in text.split(", ") if text else ():
        if part == "*":
            keyword_only = True
            continue
        declared, has_default, default = part.partition("=")
        name, _, annotation = declared.partition(": ")
        variadic = name[: len(name) - len(name.lstrip("*"))]
        params.append(
            Param(
                name=name[len(variadic) :],
                has_default=bool(has_default),
                default_repr=default if default not in ("", "...") else None,
                keyword_only=keyword_only and not variadic,
                variadic=variadic,
                tensor={"Tensor": True, "plain": False}.get(annotation),
            )
        )
        keyword_only = keyword_only or variadic == "*"
    return params

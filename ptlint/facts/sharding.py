"""Programs of several processes: which share of the data each of them sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import roles
from ptlint.facts.events import Call, Ctx
from ptlint.facts.program import MANAGED_PACKAGES, ProgramFacts
from ptlint.facts.scopes import dotted, target_names, walk
from ptlint.facts.values import Const, Instance, Lib, Loader, Module, Obj, ProjectClass, Value, options, pick

if TYPE_CHECKING:
    from ptlint.facts.loading import LoaderUse

_RANK_WORDS = ("rank", "world_size", "shard", "num_replicas", "process_index", "num_processes")
"""Parts of names by which code that gives each process a share of its own speaks of processes."""
_NUMBERS = frozenset({"int", "get", "getenv", "min", "max"})


def by_framework(facts: ProgramFacts) -> bool:
    """Whether a framework in the program may shard data and say when gradients are exchanged."""
    return bool(facts.packages & MANAGED_PACKAGES) or facts.uses_hf_trainer


def training_loops(facts: ProgramFacts, use: LoaderUse) -> Iterator[Ctx]:
    """The training loops that a loader feeds, also through generators."""
    for event in use.iterations:
        driven = event.loop is None or event.loop.pump
        loop = facts.roles.innermost(event.ctx, roles.TRAINING) if driven else event.loop
        if loop is not None and loop.role == roles.TRAINING:
            yield loop


def samplers(loader: Loader) -> list[Value]:
    """What chooses a loader's items, the sampler inside of a batch sampler too; nothing where it is the default."""
    if loader.call is None:
        return []
    found: list[Value] = []
    for name in ("sampler", "batch_sampler"):
        for option in options(loader.call.get(name, Const(None))):
            if isinstance(option, Const) and option.value is None:
                continue
            found.append(option)
            inner = option.call.get("sampler", Const(None)) if isinstance(option, Instance) and option.call else None
            found += [o for o in options(inner) if not isinstance(o, Const)] if inner is not None else []
    return found


def renewed(facts: ProgramFacts, sampler: Value) -> bool:
    """Whether something may call `set_epoch` of a sampler: silent only where each call is of another object."""
    if "set_epoch" not in facts.words:
        return False
    calls = [event for event in facts.events(Call) if event.name.rpartition(".")[2] == "set_epoch"]
    for call in calls:
        receivers = options(call.receiver) if call.receiver is not None else ()
        if not receivers or any(option is sampler or not _has_epochs(option) for option in receivers):
            return True
    return not calls


def _has_epochs(value: Value) -> bool:
    """Whether a value may be what its `set_epoch` is called on; a `RandomSampler` there is what another branch made."""
    if isinstance(value, Instance) and isinstance(value.cls, Lib):
        return not value.cls.name.startswith("torch.") or value.cls.name.endswith(".DistributedSampler")
    return isinstance(value, Obj)


def ddp_wraps(facts: ProgramFacts, loop: Ctx) -> list[Ctx]:
    """Where models that a loop calls are wrapped in DistributedDataParallel."""
    cores = {
        id(option.core) for event in facts.forwards(loop) for option in pick(event.module, Module)
    }  # by identity: the loop may call the model before or after it was wrapped
    return [
        made.ctx
        for made in facts.made(Module)
        if isinstance(made.value, Module) and made.value.wrapper == "ddp" and id(made.value.core) in cores
    ]


def speaks_of_ranks(facts: ProgramFacts, use: LoaderUse) -> bool:
    """Whether a loader's dataset, the code that makes it, or a seed may depend on the process."""
    names = frozenset(_names_of_ranks(facts))

    def mentions(node: cst.CSTNode) -> bool:
        return any(
            isinstance(part, cst.Name) and (part.value in names or _is_of_ranks(part.value))
            for part in walk(node, into_scopes=True)
        )

    for option in options(use.loader.dataset()):
        if isinstance(option, Obj) and isinstance(option.cls, ProjectClass):
            if any(mentions(node) for cls in option.cls.mro() for node in cls.code()):
                return True
        if isinstance(option, Obj) and option.place is not None and mentions(option.place.node):
            return True
    if mentions(use.site.node):
        return True
    function = use.ctx.frame().function
    if function is not None and any(
        isinstance(node, cst.Subscript) and any(map(mentions, node.slice)) for node in walk(function.node)
    ):
        return True
    return any(mentions(call.place.node) for call in facts.calls("torch.manual_seed", "torch.Generator.manual_seed"))


def _names_of_ranks(facts: ProgramFacts) -> Iterator[str]:
    """What the program's variables are called that are bound to a number of or from ranks."""
    for path in facts.program.files:
        file = facts.project.file(path)
        for statement in file.outline.statements:
            tree = facts.run.trees.whole(file, statement) if any(map(_is_of_ranks, statement.words)) else None
            for node in tree.nodes(cst.Assign) if tree is not None else ():
                if _is_number_of_ranks(node.value):
                    yield from (name for target in node.targets for name in target_names(target.target))


def _is_number_of_ranks(value: cst.BaseExpression) -> bool:
    """Whether an expression computes with ranks; `DistributedDataParallel(model, [rank])` is no number."""
    parts = list(walk(value))
    return any(isinstance(part, (cst.Name, cst.SimpleString)) and _is_of_ranks(part.value) for part in parts) and all(
        dotted(part.func).rpartition(".")[2] in _NUMBERS or _is_of_ranks(dotted(part.func))
        for part in parts
        if isinstance(part, cst.Call)
    )


def _is_of_ranks(word: str) -> bool:
    lower = word.lower()
    return any(known in lower for known in _RANK_WORDS)

"""PTL701 dataparallel-instead-of-ddp."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.facts.events import Backward, Call, Construct, Place
from ptlint.facts.occurrences import READ, occurrences
from ptlint.facts.program import ProgramFacts
from ptlint.facts.values import CallArgs, Const, Module, ProjectClass, Sequence, Tuple, options
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

FUNCTIONS = ("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")
CLASSES = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel.DataParallel")


class DataparallelInsteadOfDdp(Rule):
    """
    ## What it finds
    `nn.DataParallel(...)`, a subclass of it, or `nn.parallel.data_parallel(...)`.

    ## Why it is slow
    One process drives all GPUs: each forward copies the whole model to every one of them, scatters the batch and
    gathers the outputs on the first, and their Python threads wait for each other. `DistributedDataParallel` runs a
    process for each GPU, keeps the copies, and exchanges gradients while the backward still runs.

    ## When it stays silent
    - It stands in a branch that runs without CUDA, or the settings say that there is no GPU.
    - The model is wrapped for its keys only: all that follows takes its `state_dict()`.

    ## Example
    ```python
    parallel = nn.DataParallel(model)
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(parallel(x.to(device)), y.to(device)).backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    torch.distributed.init_process_group("nccl")
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[int(os.environ["LOCAL_RANK"])])
    sampler = torch.utils.data.DistributedSampler(dataset)
    for x, y in DataLoader(dataset, batch_size=64, sampler=sampler):
        optimizer.zero_grad()
        criterion(parallel(x.to(device)), y.to(device)).backward()
        optimizer.step()
    ```

    ## Fix safety
    No fix: DDP needs a launcher (`torchrun`), a sampler that shards the data, and code that logs and saves in one
    process only.

    ## How it is measured
    Steps of a model on two GPUs and more, each way.

    ## References
    - https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
    - https://pytorch.org/tutorials/intermediate/ddp_tutorial.html
    """

    code = "PTL701"
    name = "dataparallel-instead-of-ddp"
    message = "`DataParallel` copies the model to every GPU in each forward, and one process drives them all"
    impact = Impact.HIGH
    roots = (("DataParallel|data_parallel",),)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if program.config.device == "cpu":
            return
        evaluates = bool(program.evaluation_loops) and not program.events(Backward)
        for event, args in _uses(program):
            if program.off_path(event.ctx) or _only_for_its_keys(event.place):
                continue
            if evaluates or _single(args):
                few = "one GPU has nothing to share" if _single(args) else "nothing is trained here"
                advice = f"call the model itself: {few}"
            else:
                advice = "`DistributedDataParallel`, a process for each GPU, started with `torchrun`"
            yield self.finding(event.place, advice=advice)


def _uses(program: ProgramFacts) -> Iterator[tuple[Call | Construct, CallArgs | None]]:
    seen: set[tuple[str, int]] = set()
    for call in program.calls(*FUNCTIONS, *CLASSES):
        seen.add(call.place.key)
        yield call, call.args
    for made in program.made(Module):
        cls = made.value.cls if isinstance(made.value, Module) else None
        if isinstance(cls, ProjectClass) and _inherits(cls) and made.place.key not in seen:
            yield made, None


def _only_for_its_keys(place: Place) -> bool:
    """Whether all that a function does with what it wraps is to take or load its state."""
    tree = place.tree
    statement = tree.statement(place.node)
    around = list(tree.ancestors(place.node))
    if not isinstance(statement, cst.Assign) or statement.value is not place.node or len(statement.targets) != 1:
        return False
    name = statement.targets[0].target
    scope = next((up for up in around if isinstance(up, (cst.FunctionDef, cst.Module))), None)
    whole = isinstance(scope, cst.FunctionDef) or isinstance(tree.body[0], cst.If)
    if scope is None or not whole or not isinstance(name, cst.Name) or any(isinstance(up, _LOOPS) for up in around):
        return False
    end = tree.span(statement)[1]
    reads = [found.node for found in occurrences(tree, scope, name.value) if found.kind == READ]
    later = [tree.parent(node) for node in reads if tree.span(node)[0] >= end]
    return bool(later) and all(isinstance(up, cst.Attribute) and up.attr.value in _STATE for up in later)


_LOOPS = (cst.For, cst.While)
_STATE = frozenset({"state_dict", "load_state_dict"})


def _inherits(cls: ProjectClass) -> bool:
    return any(base in CLASSES for base in cls.lib_bases)


def _single(args: CallArgs | None) -> bool:
    """Whether `device_ids` is written as a list of one."""
    given = args.get("device_ids", Const(None)) if args is not None else Const(None)
    found = options(given)
    return all(
        (isinstance(option, Sequence) and option.items is not None and len(option.items) == 1)
        or (isinstance(option, Tuple) and len(option.items) == 1)
        for option in found
    )

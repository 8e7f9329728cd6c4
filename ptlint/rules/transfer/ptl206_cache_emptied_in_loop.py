"""PTL206 cache-emptied-in-loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, delete_statement, replace_statements
from ptlint.facts.memory import Emptied, emptied
from ptlint.facts.roles import TRAINING
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class CacheEmptiedInLoop(Rule):
    """
    ## What it finds
    `torch.cuda.empty_cache()`, `torch.cuda.ipc_collect()` or `gc.collect()` in every iteration of a training or
    evaluation loop. Once an epoch, or under a guard in the loop of an epoch, the impact is low. Calls that stand
    together are one finding.

    ## Why it is slow
    PyTorch keeps freed device memory to hand it out again at once. `empty_cache()` gives it back to the driver, for
    which it waits for the device, and the next step has to ask the driver for all of it anew. It cannot make room for
    a larger model: before PyTorch reports that memory ran out, it empties the cache itself. `gc.collect()` walks over
    every Python object of the program; tensors are freed without it, by their reference counts.

    ## When it stays silent
    - In an `except` block, or under a flag that one sets: memory ran out.
    - Under a test of the memory in use.
    - Between phases, right below a `del`; there the next phase may need the blocks in other sizes.
    - Outside of training and evaluation loops, and around whole trainings.
    - `gc.collect()` in a program that runs the collector by hand (`gc.disable()`, `gc.freeze()`).

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()
    ```

    Use instead:
    ```python
    loader = DataLoader(dataset, batch_size=64)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: the calls are removed. A run that is close to the limit, or shares the device with others, may then run
    out of memory. Against fragmentation set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.

    ## How it is measured
    Training steps with and without the calls; and how often the driver was asked for memory
    (`torch.cuda.memory_stats()["num_device_alloc"]`).

    ## References
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-memory-management
    - https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html
    """

    code = "PTL206"
    name = "cache-emptied-in-loop"
    message = "cached memory is given back to the driver in every step, and asked for again in the next"
    impact = Impact.HIGH
    fixable = "unsafe"
    roots = ("empty_cache", "ipc_collect", ("collect", "gc"))

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated:
            return
        for found in emptied(program):
            fix, withheld = _fix(found)
            yield self.finding(
                found.first.place,
                message=_message(found),
                impact=Impact.HIGH if found.hot else Impact.LOW,
                advice="nothing: remove it" if found.hot else "nothing, unless memory is short there",
                fix=fix,
                withheld=withheld,
                because=_because(found),
            )


def _message(found: Emptied) -> str:
    step = "step" if found.loop.role == TRAINING else "iteration"
    often = f"every {step}" if found.hot else "every epoch"
    if all(call.name == "gc.collect" for call in found.calls):
        return f"`gc.collect()` walks over all Python objects in {often}; tensors are freed without it"
    next_one = f"the next {step}" if found.hot else "the next epoch"
    return f"the cache is given back to the driver in {often}, and {next_one} asks for the memory again"


def _because(found: Emptied) -> list[str]:
    place = found.loop.place
    if place is None:
        return []
    return [f"it runs in the {found.loop.role} loop in {place.line(found.first.place.path)}"]


def _fix(found: Emptied) -> tuple[Fix | None, str]:
    tree = found.first.place.tree
    nodes = list({id(call.place.node): call.place.node for call in found.calls}.values())
    if not all(isinstance(tree.parent(node), cst.Expr) for node in nodes):
        return None, "the result of the call is used"
    edits: list[Edit] = []
    try:
        block = tree.parent(tree.body_statement(nodes[0]) or nodes[0])
        if isinstance(block, cst.IndentedBlock) and len(block.body) == len(nodes) > 1:
            edits += replace_statements(tree, nodes[0], nodes[-1], ["pass"])
        else:
            for node in nodes:
                edits += delete_statement(tree, node)
    except CannotEdit as refusal:
        return None, refusal.reason
    return Fix("Leave the memory to PyTorch's allocator", Safety.UNSAFE, tuple(edits)), ""

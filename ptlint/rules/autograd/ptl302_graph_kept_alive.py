"""PTL302 graph-kept-alive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, replace
from ptlint.facts.gradients import tracked
from ptlint.facts.keeping import Kept, kept_graphs
from ptlint.facts.scopes import walk
from ptlint.facts.values import Tensor, Tuple, Value, options
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class GraphKeptAlive(Rule):
    """
    ## What it finds
    A tensor that is added to a sum, put into a list or dict, or kept in an attribute in every iteration, together with
    the graph that autograd recorded for it, although no backward pass will ever go through what is kept.

    ## Why it is slow
    The kept tensor holds on to the graph of its iteration. Where a backward pass has gone through it before, the
    graph's nodes stay (tens of kilobytes of host memory a step, and a sum whose own graph grows with every step).
    Where none has, all activations of the iteration stay too, and the device runs out of memory in the end.

    ## When it stays silent
    - A backward pass runs on the sum, or on what is computed from the list.
    - `torch.no_grad()` is in force, the value is detached, a number, an index, or a metric object's own business.
    - What keeps it is made anew in each iteration.
    - The loop is one that PTL301 reports: there the graph should not be recorded at all.

    ## Example
    ```python
    total = 0
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        loss = criterion(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total += loss
    ```

    Use instead:
    ```python
    total = 0
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        loss = criterion(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total += loss.detach()
    ```

    `.item()` would let go of the graph too, but it makes the host wait for the device in every iteration.

    ## Fix safety
    Safe where the value is known to be a tensor: `.detach()` changes no number. Unsafe where it may be something else,
    or where it is printed as a tensor (the text loses its `grad_fn`).

    ## How it is measured
    The growth of the host's and the device's memory over the iterations of a loop, kept with and without the graph.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory
    """

    code = "PTL302"
    name = "graph-kept-alive"
    message = "the graph of every iteration is kept alive, and no backward pass will go through it"
    impact = Impact.HIGH
    fixable = "both"
    roots = ("backward", "eval")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in kept_graphs(program):
            fix: Fix | None = None
            withheld = ""
            try:
                fix = _fix(found)
            except CannotEdit as refusal:
                withheld = refusal.reason
            code = found.place.tree.code(found.kept) if found.kept is not None else "the tensor"
            state = "has gone through its graph already" if found.freed else "never goes through its graph"
            yield self.finding(
                found.place,
                message=f"`{found.name}` keeps the graph of every iteration alive" if found.name else None,
                impact=Impact.LOW if found.freed else None,
                advice=f"keep `{_detached(found.place.tree.outer_code(found.kept), found.kept)}`"
                if found.kept is not None
                else "keep the detached tensor",
                fix=fix,
                withheld=withheld,
                because=(
                    f"`{found.name}` outlives the iterations of the loop in {found.loop.line(found.place.path)}",
                    f"a backward pass {state}, and none can reach what `{found.name}` keeps",
                    *((f"`{code}` is a tensor with its graph",) if found.kept is not None else ()),
                ),
            )


_SHOWS = frozenset({"print", "str", "repr"})
_PRIMARY = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


def _detached(code: str, node: cst.BaseExpression) -> str:
    closed = isinstance(node, _PRIMARY) or bool(getattr(node, "lpar", ()))
    return f"{code}.detach()" if closed else f"({code}).detach()"


def _fix(found: Kept) -> Fix:
    tree, node = found.place.tree, found.kept
    if node is None:
        raise CannotEdit("the tensor is one of several values that one expression gives")
    if isinstance(node, (cst.List, cst.Dict)):
        raise CannotEdit("it is kept inside of a container that is written there")
    parts = _parts(node, found.value)
    if any(_is_detached(part) for part, _ in parts):
        raise CannotEdit("it is detached here, and the graph comes in another way")
    sure = all(isinstance(option, Tensor) for _, value in parts for option in options(value))
    safety = Safety.SAFE if sure and not _is_printed(found) else Safety.UNSAFE
    edits = [edit for part, _ in parts for edit in replace(tree, part, _detached(tree.outer_code(part), part))]
    return Fix("Keep the tensor without its graph", safety, tuple(edits))


def _parts(node: cst.BaseExpression, value: Value) -> list[tuple[cst.BaseExpression, Value]]:
    """The expressions that hold the graph: elements of a tuple that is written there."""
    if not isinstance(node, cst.Tuple):
        return [(node, value)]
    if not isinstance(value, Tuple) or len(value.items) != len(node.elements):
        raise CannotEdit("it is kept inside of a tuple that is written there")
    pairs = zip(node.elements, value.items, strict=True)
    return [(element.value, item) for element, item in pairs if tracked(item)]


def _is_detached(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "detach"


def _is_printed(found: Kept) -> bool:
    """Whether what keeps the tensor is given to `print` as it is."""
    for node in walk(found.place.tree.module, into_scopes=True):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in _SHOWS:
            if any(found.place.tree.code(arg.value) == found.name for arg in node.args):
                return True
    return False

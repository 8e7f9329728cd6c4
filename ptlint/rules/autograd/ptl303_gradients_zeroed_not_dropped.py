"""PTL303 gradients-zeroed-not-dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, remove_argument, replace
from ptlint.facts.events import Call, Ctx, Place
from ptlint.facts.iteration import sources
from ptlint.facts.scopes import target_names, walk
from ptlint.facts.values import Params
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_METHODS = ("torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad")


class GradientsZeroedNotDropped(Rule):
    """
    ## What it finds
    `zero_grad(set_to_none=False)`, or a loop of `p.grad.zero_()` over a model's parameters.

    ## Why it is slow
    Gradients are filled with zeros and the next backward adds to them, where it could write new ones: another pass over
    the memory of all gradients, and in a loop a kernel for each parameter. `zero_grad()` has dropped them since
    PyTorch 2.0.

    ## When it stays silent
    - The default, `set_to_none=True`, or a value that is not known.
    - The program captures CUDA graphs, which need gradients that stay at their addresses.
    - The loop does more than to zero.

    ## Example
    ```python
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad(set_to_none=False)
        criterion(model(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: a parameter that a backward pass does not reach has no gradient then, and its optimizer leaves it alone,
    where for zeros it still applies momentum and weight decay; code that reads `p.grad` finds None. The argument is
    removed; the loop becomes `model.zero_grad()` where its head names the model.

    ## How it is measured
    Steps of an optimizer over many small parameters, with gradients zeroed and dropped.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    """

    code = "PTL303"
    name = "gradients-zeroed-not-dropped"
    message = "gradients are filled with zeros where they could be dropped"
    impact = Impact.LOW
    torch = ">=1.7"
    fixable = "unsafe"
    roots = ("set_to_none", "zero_grad", ("grad", "zero_"))

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if any(
            name.startswith(("torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graph"))
            for name in program.dotted
        ):
            return
        for call in program.calls(*_METHODS):
            arg = _given(call)
            if arg is not None:
                edits = (
                    remove_argument(call.place.tree, call.place.node, arg)
                    if isinstance(call.place.node, cst.Call)
                    else ()
                )
                yield self.finding(
                    call.place, advice="leave `set_to_none` out", fix=Fix("Drop the gradients", Safety.UNSAFE, edits)
                )
        for ctx in program.run.root.down():
            call_node = _zeroing(ctx)
            if call_node is None or ctx.place is None:
                continue
            fix, withheld = None, ""
            try:
                fix = _fix(ctx.place)
            except CannotEdit as refusal:
                withheld = refusal.reason
            yield self.finding(
                ctx.place.at(call_node),
                message="a loop fills each parameter's gradient with zeros",
                advice="`model.zero_grad()` drops them all",
                fix=fix,
                withheld=withheld,
            )


def _given(call: Call) -> cst.Arg | None:
    """The argument of a `zero_grad` that is False in the text."""
    node = call.place.node
    args = node.args if isinstance(node, cst.Call) else ()
    for index, arg in enumerate(args):
        named = arg.keyword.value == "set_to_none" if arg.keyword is not None else index == 0 and not arg.star
        if named and isinstance(arg.value, cst.Name) and arg.value.value == "False":
            return arg
    return None


def _zeroing(ctx: Ctx) -> cst.Call | None:
    """The call in a loop over parameters that zeroes the gradient of each and does nothing else."""
    loop = ctx.place.node if ctx.kind == "loop" and ctx.place is not None else None
    if not isinstance(loop, cst.For) or not any(isinstance(s, Params) and not s.single for s in sources(ctx.items)):
        return None
    targets = set(target_names(loop.target))
    calls = [node for node in walk(loop.body) if isinstance(node, cst.Call)]
    effects = [node for node in walk(loop.body) if isinstance(node, (cst.Assign, cst.AugAssign, cst.For, cst.While))]
    zeroes = [call for call in calls if _is_zeroing(call, targets)]
    others = [
        c
        for c in calls
        if c not in zeroes and not (isinstance(c.func, cst.Attribute) and c.func.attr.value == "detach_")
    ]
    return zeroes[0] if len(zeroes) == 1 and not others and not effects else None


def _is_zeroing(call: cst.Call, targets: set[str]) -> bool:
    """`p.grad.zero_()`, also through `data` or `detach_()`."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "zero_":
        return False
    node: cst.BaseExpression = call.func.value
    while isinstance(node, cst.Attribute) and node.attr.value != "grad":
        node = node.value
    return isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value in targets


def _fix(place: Place) -> Fix:
    loop = place.node
    head = loop.iter if isinstance(loop, cst.For) else None
    func = head.func if isinstance(head, cst.Call) and not head.args else None
    if not isinstance(func, cst.Attribute) or func.attr.value not in ("parameters", "named_parameters"):
        raise CannotEdit("the loop does not name the model whose parameters it goes over")
    text = f"{place.tree.code(func.value)}.zero_grad()"
    return Fix("Drop the gradients", Safety.UNSAFE, replace(place.tree, loop, text))

"""PTL307 target-network-tracks-gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, replace, wrap_with
from ptlint.facts.events import Forward
from ptlint.facts.imported import name_of
from ptlint.facts.precision import autocast
from ptlint.facts.untrained import DROPPED, GENERATED, TARGET, Tracked
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_MESSAGES = {
    TARGET: "autograd records this forward of a network that no optimizer holds",
    GENERATED: "the step of this network runs backward into the one that made its input",
    DROPPED: "autograd records this forward, and all that is used of its result is detached",
}
_PLACES = frozenset({"gather", "index_select", "view", "reshape", "expand", "to"})
"""Methods whose arguments are indices, sizes or devices: nothing that has a gradient."""
_PRIMARY = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


class TargetNetworkTracksGradients(Rule):
    """
    ## What it finds
    A module call in a training loop that autograd records although its gradients train nothing.

    - The forward of a target network, a teacher, an averaged copy or a loss network, on inputs that nothing trains.
    - In a GAN, the generator's output given to the discriminator's own step with its graph: that step's backward runs
      through the generator too, and what it leaves there is zeroed.
    - A forward of which only `.detach()` is used.

    ## Why it is slow
    The graph and the activations of the whole network are kept for a backward that, where it comes at all, computes
    gradients for weights that no step reads: two thirds of the cost of training that network, for nothing.

    ## When it stays silent
    - `torch.no_grad()` or its like is in force, or the network's parameters are frozen.
    - The result is differentiated through to something trained: the generator's step through the discriminator, a loss
      network behind a trained one.
    - An optimizer holds a part of the network, or what an optimizer of the program holds is not known.
    - A trained head takes the result: PTL308 names that at the optimizer.
    - A framework owns the step.

    ## Example
    ```python
    import copy

    target = copy.deepcopy(model)
    for images, labels in DataLoader(dataset, batch_size=64):
        wanted = target(images.to(device))
        loss = F.mse_loss(model(images.to(device)), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    import copy

    target = copy.deepcopy(model)
    for images, labels in DataLoader(dataset, batch_size=64):
        with torch.no_grad():
            wanted = target(images.to(device))
        loss = F.mse_loss(model(images.to(device)), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    Safe: all that is trained gets the same bits. The call is put under `with torch.no_grad():`, or the input of the
    discriminator is detached. Unsafe under autocast where the network is trained as well: autocast would keep the
    weights that it cast without gradients. Withheld where the statement holds more than the call, which may need its
    gradients.

    ## How it is measured
    Time and peak memory of a training step with a target network, recorded and not.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation
    """

    code = "PTL307"
    name = "target-network-tracks-gradients"
    message = _MESSAGES[TARGET]
    impact = Impact.MEDIUM
    fixable = "both"
    roots = ("backward",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in program.untrained.tracked:
            fix: Fix | None = None
            withheld = ""
            try:
                fix = _fix(program, found)
            except CannotEdit as refusal:
                withheld = refusal.reason
            loop = found.loop.line(found.place.path)
            yield self.finding(
                found.place,
                message=_MESSAGES[found.kind],
                advice="detach its input: `.detach()`"
                if found.kind == GENERATED
                else "call it under `torch.no_grad()`",
                fix=fix,
                withheld=withheld,
                because=(f"the training loop in {loop} runs it in each iteration with gradients on",),
            )


def _fix(program: ProgramFacts, found: Tracked) -> Fix:
    tree = found.place.tree
    if found.given is not None:
        code = tree.outer_code(found.given)
        closed = isinstance(found.given, _PRIMARY) or bool(getattr(found.given, "lpar", ()))
        text = f"{code}.detach()" if closed else f"({code}).detach()"
        return Fix("Detach the input", Safety.SAFE, replace(tree, found.given, text))
    statement = tree.statement(found.place.node)
    if not isinstance(statement, cst.Assign) or not _leads_to(statement.value, found.place.node):
        raise CannotEdit("the statement does more than the call; give it one of its own under `with torch.no_grad():`")
    torch = name_of(found.place.file, "torch") or "torch"
    safety = Safety.SAFE
    if found.kind == DROPPED and any(
        autocast(event) is not None for event in program.events(Forward) if event.place.node is found.place.node
    ):
        safety = Safety.UNSAFE
    edits = wrap_with(tree, statement, statement, f"with {torch}.no_grad():")
    return Fix("Call it under `torch.no_grad()`", safety, edits, ("import torch",) if torch == "torch" else ())


def _leads_to(value: cst.BaseExpression, call: cst.CSTNode) -> bool:
    """Whether an expression is a call, or methods and items of its result."""
    node: cst.BaseExpression = value
    while node is not call:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value not in _PLACES and not all(_is_literal(arg.value) for arg in node.args):
                return False
            node = node.func.value
        elif isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        else:
            return False
    return True


def _is_literal(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.UnaryOperation):
        node = node.expression
    return isinstance(node, (cst.Integer, cst.Float, cst.SimpleString)) or (
        isinstance(node, cst.Name) and node.value in ("True", "False", "None")
    )

"""PTL306 graph-retained-needlessly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptlint.facts.events import Backward, Forward
from ptlint.facts.values import ANYWHERE, Const, Tokens, came_of
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class GraphRetainedNeedlessly(Rule):
    """
    ## What it finds
    `backward(retain_graph=True)` in a training loop where nothing else goes through that graph: the only backward pass
    of an iteration.

    ## Why it is slow
    The activations that the backward pass has used stay in memory until the loss is gone, so that those of two
    iterations may be there at once.

    ## When it stays silent
    - Another backward pass, or `torch.autograd.grad`, in the loop.
    - `create_graph=True`, or a value that is not known.
    - Something of the graph is carried into the next iteration, or what the loss came through is not known.

    ## Example
    ```python
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(images.to(device)), labels.to(device)).backward(retain_graph=True)
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
    There is no fix: a second pass through the graph that is out of sight would raise.

    ## How it is measured
    Peak memory of training steps with the graph retained and not.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html
    """

    code = "PTL306"
    name = "graph-retained-needlessly"
    message = "this keeps the graph for another backward pass, and the iteration has none"
    impact = Impact.MEDIUM
    preview = True
    roots = ("retain_graph",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if program.calls("torch.autograd.grad", "torch.autograd.backward"):
            return
        backwards = program.events(Backward)
        for event in backwards:
            loop = program.hot(event)
            if loop is None or loop.role != "training" or program.managed(loop) or not _retains(event):
                continue
            tokens = came_of(event.value)
            if not tokens or tokens & ANYWHERE or any(e is not event and e.ctx.inside(loop) for e in backwards):
                continue
            if any(call.ctx.inside(loop) for call in program.calls(".backward")) or _is_carried(program, tokens):
                continue
            yield self.finding(event.place, advice="leave `retain_graph` out")


def _is_carried(program: ProgramFacts, tokens: Tokens) -> bool:
    """Whether a module of the graph gets what an earlier iteration computed: a state that goes on."""
    return any(event.token in tokens and event.token in came_of(*event.args) for event in program.events(Forward))


def _retains(event: Backward) -> bool:
    """Whether a backward pass is told, in the text, to keep the graph and no more."""
    retain, create = event.args.get("retain_graph", Const(False)), event.args.get("create_graph", Const(False))
    return isinstance(retain, Const) and retain.value is True and isinstance(create, Const) and not create.value

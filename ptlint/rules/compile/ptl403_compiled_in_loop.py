"""PTL403 compiled-in-loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptlint.facts import roles
from ptlint.facts.events import Call, Ctx
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class CompiledInLoop(Rule):
    """
    ## What it finds
    `torch.compile` or `Module.compile` called in each iteration of a training or evaluation loop, in each epoch, or
    in a function (a `forward`) that one of these calls.

    ## Why it is slow
    Compiled code is kept by the code that it was made of, so that most calls find it again; but each makes a new
    wrapper, and its guards are checked anew. What closes over a value that changes, or differs in structure, is
    compiled again each time, for seconds, until the limit of eight is reached and it runs in eager mode for good.

    ## When it stays silent
    - The loop is around whole trainings (folds, a sweep): each model is compiled once.
    - The call stands under a test, such as `if self.compiled is None`.

    ## Example
    ```python
    for epoch in range(epochs):
        fast = torch.compile(model)
        for images, labels in DataLoader(dataset, batch_size=64):
            optimizer.zero_grad()
            criterion(fast(images.to(device)), labels.to(device)).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    fast = torch.compile(model)
    for epoch in range(epochs):
        for images, labels in DataLoader(dataset, batch_size=64):
            optimizer.zero_grad()
            criterion(fast(images.to(device)), labels.to(device)).backward()
            optimizer.step()
    ```

    ## Fix safety
    There is no fix: where the compiled function shall live is a question of the program's structure.

    ## How it is measured
    Iterations a second, and the compilations that `torch._dynamo` counts, with the call in and before the loop.

    ## References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    """

    code = "PTL403"
    name = "compiled-in-loop"
    message = "this compiles anew in every iteration of the loop"
    impact = Impact.HIGH
    torch = ">=2.0"
    roots = ("compile",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for call in program.calls("torch.compile", "torch.nn.Module.compile"):
            loop = _loop(program, call)
            if loop is None or loop.place is None:
                continue
            kind = "epoch" if loop.role == roles.EPOCH else "iteration"
            yield self.finding(
                call.place,
                message=f"this compiles anew in every {kind}",
                advice="compile once, before the loop, and call what comes back",
                because=(f"the loop in {loop.line(call.place.path)} leads to it",),
            )


def _loop(program: ProgramFacts, call: Call) -> Ctx | None:
    """The training, evaluation or epoch loop in whose every iteration a call runs."""
    for up in call.ctx.up():
        if up.kind == "guard":
            return None
        if up.kind == "loop" and not up.pump:
            return up if up.role == roles.EPOCH or program.hot(call) is up else None
    return None

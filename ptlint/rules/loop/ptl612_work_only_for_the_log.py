"""PTL612 work-only-for-the-log."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.log_only import log_only
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class WorkOnlyForTheLog(Rule):
    """
    ## What it finds
    In every iteration of a training or evaluation loop: a model called, or a metric worked out, whose result only a
    branch uses that is taken in few iterations (`if step % 100 == 0:`, a flag that is off by default).

    ## Why it is slow
    The work is done each time, and thrown away nearly each time: a whole forward pass for a picture that is saved every
    thousand steps, some kernels for an accuracy that is printed every hundred.

    ## When it stays silent
    - Anything else reads the result: a loss, a running sum, code after the loop.
    - The expression may change something: it trains, stores, draws on what ptlint cannot look into.
    - The branch is taken often, or steps an optimizer.
    - Only a read makes it slow, which PTL201 reports, and one small operation.

    ## Example
    ```python
    for step, (x, y) in enumerate(DataLoader(dataset, batch_size=64)):
        scores = model(x.to(device))
        loss = criterion(scores, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits = (scores.argmax(dim=1) == y.to(device)).float().mean()
        if step % 100 == 0:
            print(step, hits.item())
    ```

    Use instead:
    ```python
    for step, (x, y) in enumerate(DataLoader(dataset, batch_size=64)):
        scores = model(x.to(device))
        loss = criterion(scores, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            hits = (scores.argmax(dim=1) == y.to(device)).float().mean()
            print(step, hits.item())
    ```

    ## Fix safety
    There is no fix: a model in training mode updates its statistics and draws random numbers when it is called, and
    what the expression reads may have changed where the branch stands.

    ## How it is measured
    Training steps with a second model called in each, and in one of a hundred.

    ## References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code = "PTL612"
    name = "work-only-for-the-log"
    message = "this is worked out in every iteration for a branch that is seldom taken"
    impact = Impact.MEDIUM
    preview = True
    roots = (("For|While", "If"),)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in log_only(program):
            loop = found.loop.place
            because = [f"only the branch in line {found.guard.row} uses the result"]
            if loop is not None:
                because.append(f"the {found.loop.role} loop in line {loop.row} of {loop.path.name} runs it each time")
            yield self.finding(
                found.place,
                message="a model is called in every iteration for a branch that is seldom taken"
                if found.forward
                else None,
                advice=f"move it under the `if` in line {found.guard.row}",
                because=because,
            )

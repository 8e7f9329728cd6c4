"""PTL608 checkpoint-every-step."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.checkpoints import frequent_checkpoints
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class CheckpointEveryStep(Rule):
    """
    ## What it finds
    `torch.save` of a model's state, `save_pretrained` or `copy.deepcopy(model.state_dict())` in every iteration of a
    training loop.

    ## Why it is slow
    All weights are copied to the host, which waits for the device, are pickled and written to disk; the step that
    follows starts when that is done. A deep copy duplicates all weights, entry by entry.

    ## When it stays silent
    - It happens once an epoch, every so many steps, or when a result has become better.
    - What is saved is no model: features, pictures, a log.
    - The loop is known to have a hundred iterations or less, or nothing in the program calls the function.

    ## Example
    ```python
    for x, y in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        torch.save(model.state_dict(), "last.pt")
    ```

    Use instead:
    ```python
    for step, (x, y) in enumerate(DataLoader(dataset, batch_size=64)):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        if step % 1000 == 0:
            torch.save(model.state_dict(), "last.pt")
    ```

    ## Fix safety
    There is no fix: how much work may be lost is for you to decide.

    ## How it is measured
    Training steps of a small network with and without a `torch.save` behind each.

    ## References
    - https://pytorch.org/tutorials/beginner/saving_loading_models.html
    """

    code = "PTL608"
    name = "checkpoint-every-step"
    message = "every step waits until all weights are copied to the host and written to disk"
    impact = Impact.HIGH
    roots = ("save", "save_pretrained", ("deepcopy", "state_dict"))

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for checkpoint in frequent_checkpoints(program):
            loop = checkpoint.loop.place
            yield self.finding(
                checkpoint.call.place,
                message="every step copies all weights" if checkpoint.copies else None,
                advice="`if step % 1000 == 0:` around it, or do it once an epoch",
                because=(f"the training loop in {loop.line(checkpoint.call.place.path)} runs it each time",)
                if loop
                else (),
            )

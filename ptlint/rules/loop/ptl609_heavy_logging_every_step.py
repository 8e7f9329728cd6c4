"""PTL609 heavy-logging-every-step."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.heavy_logging import heavy_logs
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class HeavyLoggingEveryStep(Rule):
    """
    ## What it finds
    `add_histogram`, `add_image` and their like of a TensorBoard writer, figures of `matplotlib.pyplot`, or `wandb`'s
    images, histograms and tables in every iteration of a training loop.

    ## Why it is slow
    The tensors are copied to the host, which waits for the device, and are sorted into bins, drawn or compressed there
    before the next step begins.

    ## When it stays silent
    - It is done every so many steps, on some condition, once an epoch, or in the evaluation.
    - Only numbers are logged.
    - The loop is known to have a hundred iterations or less.

    ## Example
    ```python
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter()
    for step, (x, y) in enumerate(DataLoader(dataset, batch_size=64)):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        writer.add_histogram("weights", model[1].weight, step)
    ```

    Use instead:
    ```python
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter()
    for step, (x, y) in enumerate(DataLoader(dataset, batch_size=64)):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        if step % 500 == 0:
            writer.add_histogram("weights", model[1].weight, step)
    ```

    ## Fix safety
    There is no fix: how often you want to look is for you to decide.

    ## How it is measured
    Training steps of a small network with and without a histogram of its weights behind each.

    ## References
    - https://pytorch.org/docs/stable/tensorboard.html
    """

    code = "PTL609"
    name = "heavy-logging-every-step"
    message = "every step waits until a picture, histogram or figure is made"
    impact = Impact.MEDIUM
    preview = True
    roots = ("add_histogram|add_image|add_images|add_figure|add_video|add_embedding|add_pr_curve|pyplot|wandb",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in heavy_logs(program):
            loop = found.loop.place
            yield self.finding(
                found.call.place,
                advice="`if step % 500 == 0:` around it",
                because=(f"the training loop in {loop.line(found.call.place.path)} runs it each time",) if loop else (),
            )

"""PTL611 loop-invariant-forward."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.program import ProgramFacts
from ptlint.facts.repeated_forwards import repeated_forwards
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class LoopInvariantForward(Rule):
    """
    ## What it finds
    In every iteration of a training loop: a call of a module that is not trained, with arguments that no iteration
    changes. The features of the content and style images in style transfer, a teacher that is asked about the same
    full batch, the encoding of a fixed prompt.

    ## Why it is slow
    Every iteration works out the same again: a whole forward pass, for a result that is there already.

    ## When it stays silent
    - An optimizer holds the module, or something in the loop goes over its parameters or loads a state into it.
    - An argument depends on the batch, on the loop's numbers, or is itself what is trained; also where that is not
      known.
    - The module has dropout and was not put into `eval()`, draws random numbers, or keeps something of a call.
    - It is called every so many steps.

    ## Example
    ```python
    teacher = nn.Linear(784, 10).to(device).eval()
    pixels = torch.rand(512, 784, device=device)
    for step in range(1000):
        wanted = teacher(pixels).detach()
        loss = F.mse_loss(model(pixels), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    teacher = nn.Linear(784, 10).to(device).eval()
    pixels = torch.rand(512, 784, device=device)
    with torch.no_grad():
        wanted = teacher(pixels)
    for step in range(1000):
        loss = F.mse_loss(model(pixels), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    There is no fix: a result that still has its graph cannot be used by the backward of a second step, so that the call
    has to move under `torch.no_grad()`, and whether its gradients are wanted is for you to say.

    ## How it is measured
    Steps of a style transfer with the features of the fixed images worked out in each, and once.

    ## References
    - https://docs.pytorch.org/tutorials/advanced/neural_style_tutorial.html
    """

    code = "PTL611"
    name = "loop-invariant-forward"
    message = "an untrained module is called with the same input in every iteration"
    impact = Impact.HIGH
    preview = True
    roots = ("backward",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in repeated_forwards(program):
            loop = found.loop.place
            yield self.finding(
                found.place,
                advice="call it once, before the loop, under `torch.no_grad()`",
                because=(f"no iteration of the training loop in line {loop.row} of {loop.path.name} changes its input",)
                if loop
                else (),
            )

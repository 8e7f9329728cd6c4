"""PTL308 frozen-weights-collect-gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.events import Place
    from ptlint.facts.program import ProgramFacts


class FrozenWeightsCollectGradients(Rule):
    """
    ## What it finds
    An optimizer that trains an input, a head or another network through a model that no optimizer holds, while the
    weights of that model still require gradients: a loss network, a backbone that only gives features.

    ## Why it is slow
    Each backward pass also computes the gradient of every weight of that model, keeps the activations that this takes,
    and adds it to a `.grad` that nobody reads or drops: for a convolution or a linear layer that is about half of its
    backward, and as much memory again as the weights take.

    ## When it stays silent
    - The model is frozen, by hand or in its own class, or runs under `torch.no_grad()`.
    - Any optimizer of the program holds a part of it (the two networks of adversarial training), or code that is not
      understood is given its parameters.
    - What an optimizer of the program holds is not known.
    - The model is of a library other than PyTorch, torchvision and timm, which may freeze it itself.

    ## Example
    ```python
    network = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
    image = torch.randn(1, 784, device=device, requires_grad=True)
    painter = torch.optim.Adam([image], lr=0.1, fused=True)
    for step in range(2000):
        painter.zero_grad()
        loss = (network(image) ** 2).mean()
        loss.backward()
        painter.step()
    ```

    Use instead:
    ```python
    network = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
    network.requires_grad_(False)
    image = torch.randn(1, 784, device=device, requires_grad=True)
    painter = torch.optim.Adam([image], lr=0.1, fused=True)
    for step in range(2000):
        painter.zero_grad()
        loss = (network(image) ** 2).mean()
        loss.backward()
        painter.step()
    ```

    ## Fix safety
    There is no fix: whether the model shall be frozen, or the optimizer was meant to hold it, only its author knows.

    ## How it is measured
    Time and peak memory of a step that optimizes an image through a convolutional net, frozen and not.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad
    """

    code = "PTL308"
    name = "frozen-weights-collect-gradients"
    message = "this optimizer's loss runs backward into the weights of a model that no optimizer holds"
    impact = Impact.HIGH
    roots = ("backward",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in program.untrained.idle:
            name = called(found.forward)
            path = found.place.path
            forward = f"`{name or found.forward.brief}` in {found.forward.line(path)}"
            yield self.finding(
                found.place,
                advice=f"`{name}.requires_grad_(False)` where it is made"
                if name
                else "freeze it: `requires_grad_(False)`",
                because=(
                    f"the training loop in {found.loop.line(path)} runs {forward}",
                    "its weights require gradients, and no optimizer of the program holds one of them",
                ),
            )


def called(place: Place) -> str:
    """The name of the module that a call calls."""
    func = place.node.func if isinstance(place.node, cst.Call) else None
    if isinstance(func, cst.Attribute) and func.attr.value == "forward":
        func = func.value
    return place.tree.code(func) if isinstance(func, (cst.Name, cst.Attribute)) else ""

"""PTL509 cudnn-not-tuned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptlint.edits import CannotEdit, insert_before
from ptlint.facts.imported import name_of
from ptlint.facts.models import CONV, MODEL
from ptlint.facts.precision import FEW_STEPS, steps
from ptlint.facts.tuning import fixed_size, outermost
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.events import Ctx
    from ptlint.facts.program import ProgramFacts

_CHOSEN = frozenset({"benchmark", "deterministic", "use_deterministic_algorithms", "cudnn_benchmark"})


class CudnnNotTuned(Rule):
    """
    ## What it finds
    A training loop of a convolutional model on images of one fixed size, in a program that does not say whether cuDNN
    may measure its algorithms.

    ## Why it is slow
    By default cuDNN chooses the algorithm of each convolution by a rule of thumb. With `benchmark` on it measures them
    the first time that it meets a size, and keeps the fastest.

    ## When it stays silent
    - The program sets `benchmark` or asks for deterministic algorithms, whatever to.
    - Nothing shows that the images have one size: each new size would be measured again.
    - The architecture is chosen at run time, or has no convolution that is known.
    - A framework owns the step, or the loop runs a few times only.

    ## Example
    ```python
    from torchvision import datasets, transforms


    net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 10, 30), nn.Flatten()).to(device)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    photos = datasets.CIFAR10("data", transform=transforms.ToTensor())
    for epoch in range(epochs):
        for images, labels in DataLoader(photos, batch_size=64, num_workers=4):
            sgd.zero_grad()
            criterion(net(images.to(device)), labels.to(device)).backward()
            sgd.step()
    ```

    Use instead:
    ```python
    from torchvision import datasets, transforms


    torch.backends.cudnn.benchmark = True
    net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 10, 30), nn.Flatten()).to(device)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    photos = datasets.CIFAR10("data", transform=transforms.ToTensor())
    for epoch in range(epochs):
        for images, labels in DataLoader(photos, batch_size=64, num_workers=4):
            sgd.zero_grad()
            criterion(net(images.to(device)), labels.to(device)).backward()
            sgd.step()
    ```

    ## Fix safety
    Unsafe: the algorithm chosen may differ between runs, and with it the last bits; its workspace may take more memory.
    The setting is written in front of the outermost loop.

    ## How it is measured
    Training steps of a convolutional net in float32 and in mixed precision, after a warm-up, with and without.

    ## References
    - https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.torch.backends.cudnn.benchmark
    """

    code = "PTL509"
    name = "cudnn-not-tuned"
    message = "cuDNN chooses the algorithms of these convolutions without measuring them"
    impact = Impact.MEDIUM
    preview = True
    fixable = "unsafe"
    roots = ("backward",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if not program.accelerated or program.words & _CHOSEN or not fixed_size(program):
            return
        for loop in program.training_loops:
            if loop.place is None or program.managed(loop) or program.off_path(loop) or steps(loop) <= FEW_STEPS:
                continue
            if not _convolves(program, loop):
                continue
            fix, withheld = None, ""
            torch = name_of(loop.place.file, "torch") or "torch"
            try:
                edits = insert_before(loop.place.tree, outermost(loop), [f"{torch}.backends.cudnn.benchmark = True"])
                imports = ("import torch",) if torch == "torch" else ()
                fix = Fix("Let cuDNN measure", Safety.UNSAFE, edits, imports)
            except CannotEdit as refusal:
                withheld = refusal.reason
            yield self.finding(
                loop.place, advice="`torch.backends.cudnn.benchmark = True` before the loop", fix=fix, withheld=withheld
            )
            return


def _convolves(program: ProgramFacts, loop: Ctx) -> bool:
    """Whether a model of a loop is known to hold convolutions."""
    return any(
        layer.kind == CONV or (layer.kind == MODEL and layer.name.startswith("torchvision.models."))
        for module in program.precision.modules(loop)
        for layer in program.makeup(module).layers
    )

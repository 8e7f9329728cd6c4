"""PTL508 tf32-not-enabled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptlint.edits import CannotEdit, insert_before
from ptlint.facts.imported import name_of
from ptlint.facts.tuning import outermost, without_tf32
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class Tf32NotEnabled(Rule):
    """
    ## What it finds
    A program that evaluates a model of large linear layers or attention in float32 on a GPU, and in which nothing lets
    matrix products use TF32.

    ## Why it is slow
    In full float32 the products run past the tensor cores of GPUs since Ampere. TF32 rounds the factors to ten bits of
    mantissa and runs them on those, several times faster.

    ## When it stays silent
    - `set_float32_matmul_precision`, `allow_tf32` or `fp32_precision` is used anywhere, whatever the value.
    - The program trains: there PTL501 names mixed precision, which does more, or the precision is chosen.
    - Autocast, half or double precision, an option that chooses a precision.
    - Convolutional models, for which cuDNN uses TF32 by default; small models; unknown sizes; few iterations.

    ## Example
    ```python
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda().eval()
    with torch.no_grad():
        for images, labels in DataLoader(dataset, batch_size=64):
            print(net(images.cuda()).argmax(1))
    ```

    Use instead:
    ```python
    torch.set_float32_matmul_precision("high")
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda().eval()
    with torch.no_grad():
        for images, labels in DataLoader(dataset, batch_size=64):
            print(net(images.cuda()).argmax(1))
    ```

    ## Fix safety
    Unsafe: products lose bits. `torch.set_float32_matmul_precision("high")` is written in front of the loop, not
    the newer `fp32_precision`: the two do not mix, and parts of PyTorch 2.13 still read the older one.

    ## How it is measured
    An evaluation pass of a model of large linear layers, with and without the setting.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
    """

    code = "PTL508"
    name = "tf32-not-enabled"
    message = "the matrix products of this loop run in full float32, past the GPU's tensor cores"
    impact = Impact.MEDIUM
    torch = ">=1.12"
    fixable = "unsafe"
    roots = ("eval", "no_grad", "inference_mode")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        loop = without_tf32(program)
        if loop is None or loop.place is None:
            return
        fix, withheld = None, ""
        torch = name_of(loop.place.file, "torch") or "torch"
        try:
            line = f'{torch}.set_float32_matmul_precision("high")'
            edits = insert_before(loop.place.tree, outermost(loop), [line])
            fix = Fix(
                "Let matrix products use TF32", Safety.UNSAFE, edits, ("import torch",) if torch == "torch" else ()
            )
        except CannotEdit as refusal:
            withheld = refusal.reason
        yield self.finding(
            loop.place,
            advice='`torch.set_float32_matmul_precision("high")` before the loop',
            fix=fix,
            withheld=withheld,
            because=("nothing in the program says how exact float32 products shall be",),
        )

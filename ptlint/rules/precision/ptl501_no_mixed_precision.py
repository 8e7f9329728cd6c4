"""PTL501 no-mixed-precision."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.edits import CannotEdit
from ptlint.edits.autocast import under_autocast
from ptlint.facts.imported import name_of
from ptlint.facts.precision import Fault
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class NoMixedPrecision(Rule):
    """
    ## What it finds
    A training loop that runs on the GPU in float32, in a program that says nothing of precision: no autocast, no cast
    to bfloat16 or float16, no `GradScaler`, no apex, no option for any of it. Once a program, at its first training
    loop.

    ## Why it is slow
    Tensor cores multiply half-precision matrices several times as fast as the GPU's float32 units do, and half the
    bytes go through its memory. `torch.autocast` uses them where that is safe and keeps float32 where it is needed
    (norms, softmax, losses); parameters and optimizer stay as they are. bfloat16 has float32's range and needs no
    scaling of the loss; it wants a GPU of compute capability 8.0 (Ampere) or newer. float16 with a `GradScaler` is fast
    from 7.0 (Volta, Turing) on: set `amp-dtype = "float16"` for those.

    ## When it stays silent
    - An option for precision exists, even if it is off: that is a choice.
    - The code is not for CUDA, or its models are left on the host.
    - Double precision is asked for.
    - A framework owns the loop (Lightning, Accelerate, HF Trainer, DeepSpeed): the precision is its option.
    - The models are small: linear layers up to 256 wide, convolutions up to 64 channels, recurrent layers up to 128; or
      a convolutional net for tiny images, such as LeNet. They wait for kernel launches, not for arithmetic.
    - The work is sparse products, as in graph networks.
    - The run is one of few steps, or a search for a learning rate.

    ## Example
    ```python
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 10)).to(device)
    for x, y in DataLoader(dataset, batch_size=64):
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    Use instead:
    ```python
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 10)).to(device)
    for x, y in DataLoader(dataset, batch_size=64):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: the numbers change. The fix wraps the statements from the forward pass to the loss. `BCELoss` and
    `binary_cross_entropy` raise under autocast, so such a loss stays outside, on float32; so does what goes to NumPy,
    which has no bfloat16. With `amp-dtype = "float16"` the fix also makes a `GradScaler` and its calls.

    Withheld where the loss is computed inside `forward`, where several optimizers or several backward passes make one
    step, where the forward pass is in another file, and with custom CUDA operations, custom autograd functions,
    penalties on gradients or L-BFGS. On a machine without CUDA autocast warns and does nothing.

    ## How it is measured
    Training steps of a small transformer and a small convolutional net, with and without autocast.

    ## References
    - https://pytorch.org/docs/stable/amp.html
    - https://pytorch.org/tutorials/recipes/recipes/amp_recipe.html
    """

    code = "PTL501"
    name = "no-mixed-precision"
    message = "this training loop runs in float32, which leaves the GPU's tensor cores idle"
    impact = Impact.HIGH
    roots = ("backward", "minimize")
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        fault = program.precision.fault
        if fault is None or fault.loop.place is None:
            return
        fix, withheld = None, ""
        dtype = program.config.amp_dtype
        try:
            torch = name_of(fault.loop.place.file, "torch") or "torch"
            edits = under_autocast(program, fault, torch)
            imports = ("import torch",) if torch == "torch" else ()
            fix = Fix("Run the forward pass and the loss under autocast", Safety.UNSAFE, edits, imports)
        except CannotEdit as error:
            withheld = error.reason
        yield self.finding(
            fault.loop.place,
            advice=f'`with torch.autocast("cuda", dtype=torch.{dtype}):` around the forward pass and the loss, not '
            "around `backward`" + ("; scale the loss by a `torch.amp.GradScaler`" if dtype == "float16" else ""),
            fix=fix,
            withheld=withheld,
            because=_because(fault),
        )


def _because(fault: Fault) -> list[str]:
    names = dict.fromkeys(name for module in fault.modules if (name := getattr(module.core.cls, "name", "")))
    shown = ", ".join(f"`{name.removeprefix('torch.')}`" for name in list(names)[:3])
    found = [f"it trains {shown}" if shown else "it trains a model made elsewhere"]
    found.append("nothing in the program asks for autocast, bfloat16, float16 or a `GradScaler`, and no option does")
    return found

"""PTL604 optimizer-not-fused."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit, add_keyword
from ptlint.facts.events import Placed, Step
from ptlint.facts.optimizers import FUSED_SINCE, PlainOptimizer, plain_optimizers
from ptlint.facts.program import ProgramFacts
from ptlint.facts.values import Module, options
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class OptimizerNotFused(Rule):
    """
    ## What it finds
    `torch.optim.Adam`, `AdamW`, `SGD` or `Adagrad` over parameters on a GPU, made with none of `fused`, `foreach`,
    `capturable` and `differentiable`. Over parameters on a CPU it is shown with `--preview`: there the default is a
    Python loop over the parameters, and fusing pays more.

    ## Why it is slow
    By default the update of all parameters is some ten kernels, each of which reads and writes all of them (`foreach`);
    on a CPU it is as many for every parameter. The fused form reads and writes each parameter once, in one kernel. With
    a `GradScaler` the fused form also unscales by itself, and the host no longer waits in `scaler.step`.

    ## When it stays silent
    - The parameters get to the device only after the optimizer was made, or it is not known that they do.
    - At most two tensors are trained: there is nothing to fuse.
    - Gradients are sparse (`nn.Embedding(..., sparse=True)`), which no fused form takes.
    - The call may make an optimizer that has no fused form (`getattr(torch.optim, name)(...)`), or its arguments come
      from a `**mapping` that cannot be read.
    - DeepSpeed and other packages that bring their own optimizers own the step.

    ## Example
    ```python
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ```

    Use instead:
    ```python
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ```

    ## Fix safety
    Unsafe: results differ in the last bits, and the fused form refuses what it does not support (complex parameters,
    XLA devices) with an error at the first step. `load_state_dict` of a checkpoint saved without it switches it off
    again: set `group["fused"] = True` in the optimizer's `param_groups` after loading. There is no fix where the
    project allows a PyTorch without the fused form (before 2.0, for SGD 2.3, for Adagrad on a GPU 2.9).

    ## How it is measured
    Steps of Adam over the parameters of a small transformer, with and without `fused=True`.

    ## References
    - https://pytorch.org/docs/stable/optim.html
    - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code = "PTL604"
    name = "optimizer-not-fused"
    message = "this optimizer updates the parameters in many small kernels; it has a fused form"
    impact = Impact.LOW
    roots = (*(name.rpartition(".")[2] for name in FUSED_SINCE), "optim")
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for plain in plain_optimizers(program):
            fix, withheld = _fix(program, plain)
            yield self.finding(
                plain.event.place,
                impact=self.impact if plain.on_device else Impact.MEDIUM,
                preview=not plain.on_device,
                advice="`fused=True`",
                fix=fix,
                withheld=withheld,
                because=_because(program, plain),
            )


def _fix(program: ProgramFacts, plain: PlainOptimizer) -> tuple[Fix | None, str]:
    place, since = plain.event.place, plain.fused_since()
    if program.config.torch_version < since:
        version = ".".join(map(str, since))
        return None, f"the project allows a PyTorch older than {version}, which brought this fused form"
    if not isinstance(place.node, cst.Call):
        return None, "the optimizer is not made by a call here"
    # The path without a GPU has a fused form only in later releases.
    everywhere = program.config.torch_version >= max(FUSED_SINCE[plain.name])
    value = "True" if everywhere or not plain.on_device else "torch.cuda.is_available()"
    try:
        edits = add_keyword(place.tree, place.node, "fused", value)
    except CannotEdit as error:
        return None, error.reason
    return Fix("Use the fused optimizer", Safety.UNSAFE, edits, ("import torch",) if value != "True" else ()), ""


def _because(program: ProgramFacts, plain: PlainOptimizer) -> list[str]:
    found = []
    cores = [module.core for module in plain.optimizer.modules]
    for placed in program.events(Placed):
        moved = [option.core for option in options(placed.module) if isinstance(option, Module)]
        if plain.on_device and any(module is core for module in moved for core in cores):
            place = placed.place
            found.append(f"`{place.brief}` in {place.line(plain.event.place.path)} puts its parameters on the device")
            break
    steps = [event for event in program.events(Step) if any(o is plain.optimizer for o in options(event.optimizer))]
    if plain.on_device and any(event.scaler is not None for event in steps):
        found.append("a `GradScaler` steps it, which makes the host wait in every step; fused, it does not")
    return found

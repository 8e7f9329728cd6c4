"""PTL204 constant-moved-every-step."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit
from ptlint.edits.hoisting import hoist
from ptlint.facts.constants import LITERAL, MODULE, Resent, resent
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class ConstantMovedEveryStep(Rule):
    """
    ## What it finds
    In training and evaluation loops and in `forward`: a tensor that is made before and stays on the host, but is copied
    to the device each time (`weights.to(device)`); a list of constants that is uploaded each time
    (`torch.tensor([0.1, 0.9], device=device)`, `x.new_tensor([0.485, 0.456, 0.406])`); a module made before the loop
    that is moved in it (`model.to(device)`).

    ## Why it is slow
    Each upload comes from pageable memory: the host waits until it is done, and can queue no kernels meanwhile. A
    `model.to(device)` that has nothing to do still visits every parameter.

    ## When it stays silent
    - The result is stored back (`x = x.to(device)`), so that the next iteration finds it on the device, or it is kept
      under a test that says when it no longer fits.
    - The values change: they come from the batch, from the loop's numbers, or something is written into the tensor.
    - The tensor is fresh in every iteration, which PTL203 reports, or a buffer, which moves with its module.
    - The module is also moved away again in the loop.

    ## Example
    ```python
    weights = torch.tensor([0.1, 0.9, 0.5])
    for x, y in train_loader:
        scale = weights.to(device)
        loss = criterion(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True)) * scale.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    Use instead:
    ```python
    weights = torch.tensor([0.1, 0.9, 0.5])
    scale = weights.to(device)
    for x, y in train_loader:
        loss = criterion(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True)) * scale.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    Safe: the assignment moves in front of the loop where it is a statement of the loop's own block, nothing that it
    needs is bound in the loop, and its name is used nowhere else. Elsewhere a person has to say where the tensor
    should live: in front of the loop, or in a buffer of the module (`register_buffer(…, persistent=False)` keeps the
    keys of checkpoints).

    ## How it is measured
    A training step that uploads a list of constants, and one that finds it on the device.

    ## References
    - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device
    - https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer
    """

    code = "PTL204"
    name = "constant-moved-every-step"
    message = "the same values are copied from the host to the device each time"
    impact = Impact.MEDIUM
    fixable = "safe"
    roots = ("to", "cuda", "new_tensor", ("tensor|as_tensor", "device"))

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for item in resent(program):
            fix, withheld = self._fix(item)
            yield self.finding(
                item.place,
                message=_message(item),
                advice=_advice(item),
                fix=fix,
                withheld=withheld,
                because=_because(item),
            )

    @staticmethod
    def _fix(item: Resent) -> tuple[Fix | None, str]:
        if item.what == MODULE:
            return None, "where the module should be moved is for a person to say"
        loop = item.within.place.node if item.within.kind == "loop" and item.within.place is not None else None
        if loop is None or item.within.place is None or item.within.place.tree is not item.place.tree:
            return None, "no loop of this function repeats it"
        assert isinstance(item.place.node, cst.BaseExpression)
        try:
            edits = hoist(item.place.tree, item.place.node, loop)
        except CannotEdit as error:
            return None, error.reason
        return Fix("Copy it once, before the loop", Safety.SAFE, edits), ""


def _message(item: Resent) -> str:
    if item.what == LITERAL:
        return "a list of constants is uploaded to the device each time"
    if item.what == MODULE:
        return "a module that is on the device already is moved there in every iteration"
    return "a tensor that does not change is copied from the host to the device each time"


def _advice(item: Resent) -> str:
    if item.what == MODULE:
        return "move it once, before the loop"
    if item.within.kind == "frame":
        return "`register_buffer(…, persistent=False)` in `__init__`"
    return "copy it once, before the loop, or keep it in a buffer of the module"


def _because(item: Resent) -> list[str]:
    in_loop = item.within.kind == "loop"
    where = f"the loop in {item.within.line(item.place.path)}" if in_loop else "every forward pass"
    found = [f"`{item.place.brief}` runs in {where}"]
    if item.made is not None:
        found.append(f"the tensor is made in {item.made.line(item.place.path)} and stays on the host")
    return found

"""PTL305 volatile-has-no-effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, remove_keyword
from ptlint.facts.events import Call, Place
from ptlint.facts.values import Const
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class VolatileHasNoEffect(Rule):
    """
    ## What it finds
    `Variable(x, volatile=True)`, which until PyTorch 0.4 kept autograd from recording what is computed from `x`.

    ## Why it is slow
    It does nothing any more but to warn: the evaluation that it was written for records its graph, and keeps every
    activation until its outputs are gone.

    ## When it stays silent
    - `volatile=False`, or a value that is not known.
    - The branch is one for PyTorch before 0.4: an arm of a test of the version.

    ## Example
    ```python
    from torch.autograd import Variable

    image = Variable(dataset[0][0], volatile=True)
    ```

    Use instead:
    ```python
    from torch.autograd import Variable

    with torch.no_grad():
        image = Variable(dataset[0][0])
        output = model(image)
    ```

    ## Fix safety
    Safe: the argument, which has no effect, is removed, and with it the warning. What it was meant for is to put the
    evaluation under `torch.no_grad()`, which PTL301 finds and does.

    ## How it is measured
    Peak memory of an evaluation with `volatile=True` and under `torch.no_grad()`.

    ## References
    - https://pytorch.org/blog/pytorch-0_4_0-migration-guide/
    """

    code = "PTL305"
    name = "volatile-has-no-effect"
    message = "`volatile=True` has had no effect since PyTorch 0.4: autograd records what is computed from this"
    impact = Impact.HIGH
    torch = ">=0.4"
    fixable = "safe"
    roots = ("volatile",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for call in program.calls("torch.autograd.Variable"):
            value = call.args.get("volatile")
            node = call.place.node
            if not (isinstance(value, Const) and value.value is True) or not isinstance(node, cst.Call):
                continue
            if _for_old_versions(call):
                continue
            fix, withheld = None, ""
            try:
                fix = Fix("Remove `volatile`", Safety.SAFE, _edits(call.place, node))
            except CannotEdit as refusal:
                withheld = refusal.reason
            yield self.finding(
                call.place,
                advice="compute what comes from it under `with torch.no_grad():`",
                fix=fix,
                withheld=withheld,
            )


def _edits(place: Place, node: cst.Call) -> tuple[Edit, ...]:
    if not any(arg.keyword is not None and arg.keyword.value == "volatile" for arg in node.args):
        raise CannotEdit("the argument is not written at the call")
    return remove_keyword(place.tree, node, "volatile")


def _for_old_versions(call: Call) -> bool:
    """Whether a test of the version stands around a call."""
    tree = call.place.tree
    return any(
        isinstance(above, (cst.If, cst.IfExp)) and "version" in tree.code(above.test)
        for above in tree.ancestors(call.place.node)
    )

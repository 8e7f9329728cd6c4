"""PTL506 backward-under-autocast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, delete_statement, insert_after
from ptlint.facts.events import Backward, Place
from ptlint.facts.precision import autocast
from ptlint.facts.values import Const
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class BackwardUnderAutocast(Rule):
    """
    ## What it finds
    A call of `.backward()` inside of an autocast block.

    ## Why it is slow
    It gains nothing: each operation runs backward in the dtype that its forward chose. What the forward kept out of
    autocast on purpose (a block with `enabled=False`, a custom function) runs backward in half precision here, and less
    exactly. PyTorch advises against it.

    ## When it stays silent
    - The autocast is off, or a flag that is off by default switches it.
    - The gradient is made to be differentiated again (`create_graph=True`): what follows needs autocast.
    - A framework owns the step.

    ## Example
    ```python
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: gradients of what stands outside of autocast become more exact. The backward pass and what follows it in the
    block move behind the block. Withheld where that is more than plain statements, where a comment would be lost, and
    where the block is a decorator or stands around the loop.

    ## How it is measured
    It costs no time: the gradients of a model with a part outside of autocast, inside and outside of the block.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.autocast
    """

    code = "PTL506"
    name = "backward-under-autocast"
    message = "this backward pass runs under autocast, which gains nothing and may cost exactness"
    impact = Impact.LOW
    fixable = "unsafe"
    roots = (("autocast", "backward"), "autocast")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for event in program.events(Backward):
            mode = autocast(event)
            if mode is None or not isinstance(mode.enabled, Const) or not mode.enabled.value:
                continue
            again = event.args.get("create_graph", Const(False))
            if program.managed(event.ctx) or not isinstance(again, Const) or again.value:
                continue
            fix, withheld = None, ""
            try:
                fix = Fix("Move it behind the block", Safety.UNSAFE, _edits(event.place))
            except CannotEdit as refusal:
                withheld = refusal.reason
            yield self.finding(
                event.place,
                advice="call `.backward()` behind the `with` block",
                fix=fix,
                withheld=withheld,
                because=(f"the autocast in {mode.place.line(event.place.path)} is in force here",)
                if mode.place is not None
                else (),
            )


def _edits(place: Place) -> tuple[Edit, ...]:
    tree = place.tree
    standing = tree.body_statement(place.node)
    block = tree.parent(standing) if standing is not None else None
    around = tree.parent(block) if block is not None else None
    if standing is None or not isinstance(block, cst.IndentedBlock) or not isinstance(around, cst.With):
        raise CannotEdit("the block does not hold the backward pass itself")
    if len(around.items) != 1 or "autocast" not in tree.code(around.items[0].item):
        raise CannotEdit("the block around it does more than autocast")
    statements = list(block.body)
    moved = statements[next(index for index, other in enumerate(statements) if other is standing) :]
    if len(moved) == len(statements):
        raise CannotEdit("nothing else stands in the block")
    lines: list[str] = []
    edits: list[Edit] = []
    for statement in moved:
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            raise CannotEdit("what follows it in the block is more than plain statements")
        if statement.trailing_whitespace.comment or any(line.comment for line in statement.leading_lines):
            raise CannotEdit("a comment stands among the statements to move")
        lines.append(tree.code(statement.body[0]))
        edits.extend(delete_statement(tree, statement.body[0]))
    return (*edits, *insert_after(tree, around, lines))

"""PTL603 tensor-grown-by-cat."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit, insert_after, replace_statements
from ptlint.facts.events import Forward
from ptlint.facts.growing import ARRAY_JOINS, Growth, growths, starts_with
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class TensorGrownByCat(Rule):
    """
    ## What it finds
    `out = torch.cat([out, x])` in a loop, or `stack`, `vstack`, `np.append`, `np.concatenate` in its place, whose
    result is only needed behind the loop.

    ## Why it is slow
    Each pass copies all that was collected so far, so that the work grows with the square of the number of passes, and
    for the backward every intermediate length is kept.

    ## When it stays silent
    - The loop reads what has grown: dense blocks, caches, decoding token by token.
    - The passes are known to be few: short literal ranges, layers of a module, entries of a dict.

    ## Example
    ```python
    def predict(loader):
        outputs = torch.empty(0, 10)
        with torch.no_grad():
            for x, _ in loader:
                outputs = torch.cat([outputs, model(x.to(device)).cpu()])
        return outputs

    predict(DataLoader(dataset, batch_size=64))
    ```

    Use instead:
    ```python
    def predict(loader):
        outputs = []
        with torch.no_grad():
            for x, _ in loader:
                outputs.append(model(x.to(device)).cpu())
        return torch.cat(outputs)

    predict(DataLoader(dataset, batch_size=64))
    ```

    ## Fix safety
    The fix turns the variable into a list that begins with the first value, appends to it, and joins it once behind the
    loop: the same values, types and gradients, also for no pass at all. Safe where each piece is the fresh result of a
    module call or an operator; else unsafe, because a piece that is changed in place later on is no longer a copy.
    There is none where the variable starts as None, where pieces are put in front, for `stack` and for arrays.

    ## How it is measured
    A thousand batches of predictions collected both ways.

    ## References
    - https://pytorch.org/docs/stable/generated/torch.cat.html
    """

    code = "PTL603"
    name = "tensor-grown-by-cat"
    message = "every pass of the loop copies all that was collected so far"
    impact = Impact.MEDIUM
    roots = (("For|While", "cat|concat|concatenate|stack|vstack|hstack|row_stack|column_stack|append"),)
    fixable = "both"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        fresh = {id(event.place.node) for event in program.events(Forward)}
        for growth in growths(program):
            join = "np.concatenate" if growth.call.name in ARRAY_JOINS else "torch.cat"
            fix, withheld = _fix(growth, fresh)
            yield self.finding(
                growth.place,
                advice=f"append to a list, and `{join}` it once behind the loop",
                fix=fix,
                withheld=withheld,
            )


def _fix(growth: Growth, fresh: set[int]) -> tuple[Fix | None, str]:
    tree, call = growth.place.tree, growth.call.place.node
    start = starts_with(growth)
    assert isinstance(call, cst.Call)
    if growth.call.name not in ("torch.cat", "torch.concat", "torch.concatenate"):
        return None, "other functions than `torch.cat` join along new or other axes: check the shape"
    if start is None or (isinstance(start.value, cst.Name) and start.value.value == "None"):
        return None, "what the variable starts with is not written right in front of the loop"
    first, *pieces = growth.pieces
    if not isinstance(first, cst.Name) or first.value != growth.name or len(pieces) != 1 or growth.loop.orelse:
        return None, "the pieces are not simply put behind one another"
    piece = pieces[0]
    begin, end = tree.outer_span(start.value)
    rest = "".join(
        f", {arg.keyword.value + '=' if arg.keyword else ''}{tree.outer_code(arg.value)}" for arg in call.args[1:]
    )
    try:
        edits = (
            Edit(begin, begin, "["),
            Edit(end, end, "]"),
            *replace_statements(
                tree, growth.statement, growth.statement, [f"{growth.name}.append({tree.code(piece)})"]
            ),
            *insert_after(tree, growth.loop, [f"{growth.name} = {tree.code(call.func)}({growth.name}{rest})"]),
        )
    except CannotEdit as error:
        return None, error.reason
    sure = isinstance(piece, cst.BinaryOperation) or id(piece) in fresh
    return Fix("Collect in a list and join once", Safety.SAFE if sure else Safety.UNSAFE, edits), ""

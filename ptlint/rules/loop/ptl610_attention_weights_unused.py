"""PTL610 attention-weights-unused."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit, add_keyword
from ptlint.facts.attention import weights_unused
from ptlint.facts.events import Place
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class AttentionWeightsUnused(Rule):
    """
    ## What it finds
    A call of an `nn.MultiheadAttention` without `need_weights=False`, of whose two results only the first is used.

    ## Why it is slow
    To return the attention weights PyTorch must write the whole matrix of them, every position by every other, and
    averages it over the heads. Without them it may use the fused kernels of `scaled_dot_product_attention`, which never
    hold that matrix in memory.

    ## When it stays silent
    - The weights are read, kept in an attribute or returned.
    - `need_weights` is given, or may be (`*args`, `**kwargs`).

    ## Example
    ```python
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(256, 8, batch_first=True)

        def forward(self, x):
            attended, _ = self.attention(x, x, x)
            return x + attended
    ```

    Use instead:
    ```python
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(256, 8, batch_first=True)

        def forward(self, x):
            attended, _ = self.attention(x, x, x, need_weights=False)
            return x + attended
    ```

    ## Fix safety
    Unsafe: the fused kernels round differently, where a row is fully masked they may give zeros instead of NaN, and
    the dropped second result becomes None, also for a forward hook that reads it.

    ## How it is measured
    Forward and backward passes of self-attention over 1024 positions, with and without the weights.

    ## References
    - https://pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    - https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """

    code = "PTL610"
    name = "attention-weights-unused"
    message = "attention works out its weights, which nothing uses, and so cannot use the fused kernels"
    impact = Impact.MEDIUM
    roots = ("MultiheadAttention",)
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for event in weights_unused(program):
            fix, withheld = _fix(event.place)
            yield self.finding(event.place, advice="`need_weights=False`", fix=fix, withheld=withheld)


def _fix(place: Place) -> tuple[Fix | None, str]:
    assert isinstance(place.node, cst.Call)
    try:
        edits = add_keyword(place.tree, place.node, "need_weights", "False")
    except CannotEdit as error:
        return None, error.reason
    return Fix("Do not ask for the weights", Safety.UNSAFE, edits), ""

"""PTL606 hand-written-attention."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.attention import written_by_hand
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class HandWrittenAttention(Rule):
    """
    ## What it finds
    Scaled dot-product attention written out: the softmax of the scaled product of queries and transposed keys, masked
    or not, whose result is multiplied with the values and used for nothing else.

    ## Why it is slow
    The scores and the weights, every position by every other for each head, are written to memory and read again by
    each of the operations, and are kept for the backward. `scaled_dot_product_attention` works through them in blocks
    that never leave the chip, where the device and the types allow.

    ## When it stays silent
    - The weights are used elsewhere: returned, kept, logged.
    - The code also knows `scaled_dot_product_attention` or another fused attention and chooses between them.
    - Nothing scales the product, or keys and values are the same tensor: the attention of a recurrent decoder.

    ## Example
    ```python
    class Attention(nn.Module):
        def forward(self, q, k, v):
            weights = torch.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1)
            return weights @ v

    q = torch.randn(8, 4, 1024, 64, device=device)
    out = Attention()(q, q + 1, q + 2)
    ```

    Use instead:
    ```python
    class Attention(nn.Module):
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v)

    q = torch.randn(8, 4, 1024, 64, device=device)
    out = Attention()(q, q + 1, q + 2)
    ```

    ## Fix safety
    There is no fix. Beware: a boolean `attn_mask` says what to keep, the inverse of what `masked_fill` is given; a row
    that is masked out gives zeros, not NaN; `dropout_p` applies in evaluation too, so pass 0.0 there; results round
    differently; and `scale=` takes a scale other than one over the root of the head's width.

    ## How it is measured
    Forward and backward passes of self-attention over 1024 positions, written out and by the fused function.

    ## References
    - https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    - https://pytorch.org/tutorials/intermediate/scaled_dot_product_attention_tutorial.html
    """

    code = "PTL606"
    name = "hand-written-attention"
    message = "attention written out keeps the scores of every position with every other in memory"
    impact = Impact.HIGH
    roots = ("softmax|Softmax",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for event in written_by_hand(program):
            yield self.finding(event.place, advice="`F.scaled_dot_product_attention(q, k, v)`")

"""PTL613 cell-called-in-a-loop."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.cells import cell_loops
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule


class CellCalledInALoop(Rule):
    """
    ## What it finds
    `nn.LSTMCell`, `nn.GRUCell` or `nn.RNNCell` called once a time step in a Python loop whose input is all there before
    the loop begins, and which goes on from just the state that the cell returned: the first such cell of a loop.

    ## Why it is slow
    Each step costs a Python call and its own small kernels, forward and backward. `nn.LSTM` and its like run all steps
    in one call: the products with the input are one large product, and cuDNN runs the recurrence itself.

    ## When it stays silent
    - The input of a step needs what a step before has given: decoders that eat their own output, attention over the
      state, environments.
    - The state is changed between the steps: masked, reset, cut to shorter sequences.
    - The loop may end early, takes up to three steps, or the weights change in it.
    - Anything in the input comes from code that is not PyTorch's own.

    ## Example
    ```python
    cell = nn.LSTMCell(32, 64).to(device)
    sequence = torch.randn(100, 16, 32, device=device)
    h = torch.zeros(16, 64, device=device)
    c = torch.zeros(16, 64, device=device)
    outputs = []
    for x in sequence.unbind(0):
        h, c = cell(x, (h, c))
        outputs.append(h)
    ```

    Use instead:
    ```python
    recurrent = nn.LSTM(32, 64).to(device)
    sequence = torch.randn(100, 16, 32, device=device)
    outputs, (h, c) = recurrent(sequence)
    ```

    ## Fix safety
    There is no fix: the parameters of `nn.LSTM` have other names (`weight_ih_l0`), so that checkpoints have to be
    converted, and sums are rounded in another order. Layers on top of each other are `num_layers=2`.

    ## How it is measured
    A hundred steps of an `nn.LSTMCell` in a loop, and the same in one call of `nn.LSTM`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTMCell.html
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
    """

    code = "PTL613"
    name = "cell-called-in-a-loop"
    message = "a recurrent cell is called step by step over an input that is all there before the loop"
    impact = Impact.HIGH
    preview = True
    roots = ("LSTMCell|GRUCell|RNNCell",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in cell_loops(program):
            yield self.finding(
                found.place,
                advice=f"`{found.whole}`, which runs all steps in one call, before the loop",
                because=(f"the loop in line {found.loop.row} calls it once a step",),
            )

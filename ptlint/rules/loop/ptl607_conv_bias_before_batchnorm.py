"""PTL607 conv-bias-before-batchnorm."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit, set_keyword
from ptlint.facts.layers import BiasedConv, convs_before_norms
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class ConvBiasBeforeBatchnorm(Rule):
    """
    ## What it finds
    An `nn.Conv1d` to `3d` or `nn.ConvTranspose1d` to `3d` with a bias, of which every use is directly followed by an
    `nn.BatchNorm` or `nn.InstanceNorm`: in an `nn.Sequential` or a list of layers, in `forward`, through a project's
    own module around the convolution.

    ## Why it is slow
    The norm subtracts every channel's mean, and with it whatever the bias added. Adding it is one more pass over the
    output, its gradient one more reduction over all of it, and the optimizer keeps up a parameter that does nothing.

    ## When it stays silent
    - Something stands between the two: an activation, a dropout, a concatenation.
    - The result of the convolution is also used otherwise, or some use of it has no norm, or has one only on a
      condition.
    - `bias=` is given, other than a literal True: somebody decides.
    - The norm works along other axes, which leaves the bias an effect: `nn.GroupNorm`, `nn.LayerNorm`.

    ## Example
    ```python
    block = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
    ```

    Use instead:
    ```python
    block = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    ```

    ## Fix safety
    Unsafe: checkpoints lose the key `bias`, so that older ones no longer load strictly; layers made afterwards start
    from other random numbers; the results differ in the last bits, and in evaluation until the running mean has
    settled. Code that initialises `conv.bias` must allow for None.

    ## How it is measured
    Training steps of a stack of convolutions and norms, with and without the bias.

    ## References
    - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code = "PTL607"
    name = "conv-bias-before-batchnorm"
    message = "the norm behind this convolution takes out again what its bias adds"
    impact = Impact.LOW
    roots = ("Conv1d|Conv2d|Conv3d|ConvTranspose1d|ConvTranspose2d|ConvTranspose3d",)
    fixable = "unsafe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for found in convs_before_norms(program):
            fix, withheld = _fix(found)
            norm = found.norm
            given = f"`{norm.code.splitlines()[0]}` in row {norm.row} of {norm.path.name} takes its result as it is"
            yield self.finding(
                found.conv.place,
                advice="`bias=False`",
                fix=fix,
                withheld=withheld,
                because=(given,),
            )


def _fix(found: BiasedConv) -> tuple[Fix | None, str]:
    place = found.conv.place
    if not isinstance(place.node, cst.Call):
        return None, "the convolution is not made by a call here"
    try:
        edits = set_keyword(place.tree, place.node, "bias", "False")
    except CannotEdit as error:
        return None, error.reason
    return Fix("Leave out the bias", Safety.UNSAFE, edits), ""

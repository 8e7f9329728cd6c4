"""PTL607 conv-bias-before-batchnorm."""

from __future__ import annotations

import ast
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
    settled. Withheld where the program uses the bias of convolutions without asking for None first, as many
    functions that initialise weights do.

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
        found_all = list(convs_before_norms(program))
        reader = _bias_reader(program) if found_all else ""
        for found in found_all:
            fix, withheld = (None, f"{reader} takes a bias for granted") if reader else _fix(found)
            norm = found.norm
            given = f"`{norm.brief}` in {norm.line(found.conv.place.path)} takes its result as it is"
            yield self.finding(
                found.conv.place,
                advice="`bias=False`",
                fix=fix,
                withheld=withheld,
                because=(given,),
            )


def _bias_reader(program: ProgramFacts) -> str:
    """Where code of the program uses the bias of a convolution and does not ask for None first."""
    for path in program.program.files:
        source = program.project.file(path).source
        if source is None or ".bias" not in source.text:
            continue
        try:
            stack: list[tuple[ast.AST, str]] = [(ast.parse(source.text), "")]
        except (SyntaxError, ValueError, RecursionError):
            continue
        while stack:
            node, tests = stack.pop()
            if isinstance(node, ast.Attribute) and node.attr == "bias":
                code = ast.unparse(node)
                if code not in tests and "conv" in (tests + code).lower():
                    return f"`{code}` in line {node.lineno} of {path.name}"
            if isinstance(node, ast.If):
                inner = f"{tests} {ast.unparse(node.test)}"
                stack += [(child, inner) for child in node.body] + [(child, tests) for child in node.orelse]
            else:
                stack += [(child, tests) for child in ast.iter_child_nodes(node)]
    return ""


def _fix(found: BiasedConv) -> tuple[Fix | None, str]:
    place = found.conv.place
    if not isinstance(place.node, cst.Call):
        return None, "the convolution is not made by a call here"
    try:
        edits = set_keyword(place.tree, place.node, "bias", "False")
    except CannotEdit as error:
        return None, error.reason
    return Fix("Leave out the bias", Safety.UNSAFE, edits), ""

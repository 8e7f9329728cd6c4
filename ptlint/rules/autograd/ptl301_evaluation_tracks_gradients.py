"""PTL301 evaluation-tracks-gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, add_decorator, wrap_with
from ptlint.facts.evaluation import Evaluation, says_that_it_evaluates, speaks_of_gradients
from ptlint.facts.scopes import walk
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class EvaluationTracksGradients(Rule):
    """
    ## What it finds
    A loop or function that only evaluates a model (validation, testing, sampling, decoding) while autograd records
    every operation, although no gradient is ever asked for.

    ## Why it is slow
    With gradients on, each operation also makes a node of the graph, and the activations that a backward pass would
    need stay in memory until the outputs are gone: evaluation takes longer, and far more memory, than it has to.
    `model.eval()` does not change that: it only switches dropout and batch normalisation.

    ## When it stays silent
    - `torch.no_grad()`, `torch.inference_mode()` or `torch.set_grad_enabled(False)` is in force: around the loop, as a
      decorator (of the project's own making too), around every call in the program, or for the whole program.
    - All parameters of the model are frozen, or a backward pass goes through its outputs: attacks, saliency maps,
      features that a loss is computed from, also in a caller.
    - A framework runs the step: Lightning's `validation_step`, `test_step` and `predict_step`, Hugging Face's Trainer.
    - A library method that nothing in the program calls, and a call whose result is only asked for its shape.

    Choosing actions in the training loop of reinforcement learning is reported with `--preview` only.

    ## Example
    ```python
    def validate(loader):
        model.eval()
        correct = 0
        for images, labels in loader:
            output = model(images.to(device))
            correct += (output.argmax(1) == labels.to(device)).sum()
        return correct.item()


    print(validate(DataLoader(dataset, batch_size=64)))
    ```

    Use instead:
    ```python
    @torch.no_grad()
    def validate(loader):
        model.eval()
        correct = 0
        for images, labels in loader:
            output = model(images.to(device))
            correct += (output.argmax(1) == labels.to(device)).sum()
        return correct.item()


    print(validate(DataLoader(dataset, batch_size=64)))
    ```

    ## Fix safety
    Safe. A function that on every path of calls only evaluates gets the decorator `@torch.no_grad()`; else the loop is
    put under `with torch.no_grad():`. Outputs are the same, except that kernels for inference may be chosen, which can
    differ in the last bit (`nn.LSTM`, `nn.MultiheadAttention`, `nn.TransformerEncoder` in evaluation mode).
    Withheld where the same loop also trains, where it yields to code that would then run without gradients too, and
    where other programs use the file and the function does not say that it only evaluates.
    With `no-grad-style = "inference_mode"` in the configuration the fix is unsafe: tensors made in inference mode may
    never enter autograd again.

    ## How it is measured
    One pass over a validation set with and without `torch.no_grad()`: time, and peak memory.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation
    """

    code = "PTL301"
    name = "evaluation-tracks-gradients"
    message = "autograd records this evaluation, and no gradient is ever asked for"
    impact = Impact.HIGH
    fixable = "both"
    roots = ("torch",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        style = program.config.no_grad_style
        for found in program.evaluations:
            fix: Fix | None = None
            withheld = ""
            try:
                fix = _fix(program, found, style)
            except CannotEdit as refusal:
                withheld = refusal.reason
            yield self.finding(
                found.place,
                message=self._message(found),
                preview=found.acts,
                advice=_advice(program, found, style),
                fix=fix,
                withheld=withheld,
                because=_because(program, found),
            )

    def _message(self, found: Evaluation) -> str:
        if found.acts:
            return "autograd records the choice of actions, and no gradient is ever asked for"
        if found.loop is None:
            return "autograd records this inference, and no gradient is ever asked for"
        return self.message


def _definition(program: ProgramFacts, found: Evaluation) -> cst.FunctionDef | None:
    """The function that the decorator belongs on: one that on no path of calls needs a gradient."""
    function = found.frame.function if found.frame.kind == "frame" else None
    node = function.node if function is not None else None
    if not isinstance(node, cst.FunctionDef) or node.asynchronous is not None or node.name.value == "forward":
        return None
    if function is None or function.tree is not found.place.tree or program.gradients.needed_in(node):
        return None
    # Branches that this program never takes may still need gradients.
    return None if program.run.scope(node).has_yield or speaks_of_gradients(node) else node


def _fix(program: ProgramFacts, found: Evaluation, style: str) -> Fix:
    safety = Safety.UNSAFE if style == "inference_mode" else Safety.SAFE
    tree = found.place.tree
    imports = () if _torch_is_bound(program, found) else ("import torch",)
    if not says_that_it_evaluates(program, found) and len(program.project.programs_of(found.place.path)) > 1:
        raise CannotEdit("other programs use this file, and may need gradients here: turn them off around the call")
    node = _definition(program, found)
    if node is not None:
        edits = add_decorator(tree, node, f"@torch.{style}()")
        return Fix(f"Decorate `{node.name.value}` with `@torch.{style}()`", safety, edits, imports)
    first, last = _run(program, found)
    edits = wrap_with(tree, first, last, f"with torch.{style}():")
    return Fix(f"Evaluate under `with torch.{style}():`", safety, edits, imports)


def _run(program: ProgramFacts, found: Evaluation) -> tuple[cst.CSTNode, cst.CSTNode]:
    """The statements to put under `with`: the loop, or those from the first module call to the last."""
    tree = found.place.tree
    if found.loop is not None:
        node = found.place.node
        if not isinstance(node, (cst.For, cst.While)):
            node = tree.statement(node) or node
        if program.gradients.needed_in(found.place.node):
            raise CannotEdit("the same loop also trains: `torch.set_grad_enabled(training)` can tell the two apart")
        if any(isinstance(inner, cst.Yield) for inner in walk(node)):
            raise CannotEdit("the loop yields, and its consumer would run without gradients too")
        return node, node
    needed = [place for place in program.gradients.needed_at(found.frame) if place.tree is tree]
    first = tree.body_statement(found.place.node)
    if first is None or isinstance(first, cst.BaseCompoundStatement):
        raise CannotEdit("the call stands in the header of a block")
    last: cst.CSTNode = first
    stop = min((place.start for place in needed if place.start > found.place.start), default=None)
    for call in found.calls:
        other = tree.body_statement(call.node) if call.tree is tree else None
        if other is None or tree.parent(other) is not tree.parent(first) or tree.span(other) <= tree.span(last):
            continue
        if stop is None or tree.span(other)[1] <= stop:
            last = other
    return first, last


def _torch_is_bound(program: ProgramFacts, found: Evaluation) -> bool:
    return any(
        item.top and item.module.partition(".")[0] == "torch" and item.name is None and item.asname is None
        for item in found.place.file.outline.imports
    )


def _advice(program: ProgramFacts, found: Evaluation, style: str) -> str:
    node = _definition(program, found)
    if node is not None:
        return f"decorate `{node.name.value}` with `@torch.{style}()`"
    return f"put {'the loop' if found.loop is not None else 'the call'} under `with torch.{style}():`"


def _because(program: ProgramFacts, found: Evaluation) -> tuple[str, ...]:
    call = found.calls[0]
    said = f"`{call.brief}` in {call.line(found.place.path)} runs parameters that require gradients"
    caller = next(program.callers(found.frame), None)
    if found.frame.kind != "frame" or caller is None or isinstance(caller.node, cst.FunctionDef):
        return (said, "nothing around it turns gradients off")
    return (said, f"the call in {caller.line(found.place.path)} runs it with gradients on")

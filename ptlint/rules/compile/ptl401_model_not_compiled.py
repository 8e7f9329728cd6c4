"""PTL401 model-not-compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, insert_after
from ptlint.facts.events import Place
from ptlint.facts.trained import UsedModel, UsedModels, runs_as_torchs_own
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class ModelNotCompiled(Rule):
    """
    ## What it finds
    A model that a training loop runs on a GPU in eager mode, in a program that compiles nothing: one finding a
    program, where the first model is placed before an optimizer takes it. Programs that only evaluate in a loop are
    reported with `--preview`.

    ## Why it is slow
    Eager mode launches a kernel for each operation, and each reads and writes device memory. `torch.compile` fuses
    chains of them, and leaves less for Python to do in every step.

    ## When it stays silent
    - Something is compiled already, also by a flag: `torch.compile`, `Module.compile`, CUDA graphs, TensorRT, XLA,
      DeepSpeed; or a framework runs the training.
    - `nn.LSTM`, `nn.GRU` or `nn.RNN` does the work (cuDNN runs them as one kernel already), the data is sparse, or the
      model is one literal small layer.
    - The program differentiates twice (`create_graph=True`), which compiled code does not support.
    - A `forward` reads tensors on the host, calls NumPy or loops over a tensor's size: it would be cut in pieces.
    - The model is scripted or traced, or the run is known to take few steps.

    ## Example
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 64, 3)
            self.conv2 = nn.Conv2d(64, 64, 3)

        def forward(self, images):
            return F.relu(self.conv2(F.relu(self.conv1(images)))).mean((2, 3))


    net = Net().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(epochs):
        for images, labels in DataLoader(dataset, batch_size=64):
            optimizer.zero_grad()
            criterion(net(images.to(device)), labels.to(device)).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 64, 3)
            self.conv2 = nn.Conv2d(64, 64, 3)

        def forward(self, images):
            return F.relu(self.conv2(F.relu(self.conv1(images)))).mean((2, 3))


    net = Net().to(device)
    net.compile()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(epochs):
        for images, labels in DataLoader(dataset, batch_size=64):
            optimizer.zero_grad()
            criterion(net(images.to(device)), labels.to(device)).backward()
            optimizer.step()
    ```

    ## Fix safety
    Unsafe: fused kernels round otherwise, the first steps take long, and a C++ compiler and Triton must be there. The
    fix compiles in place, so that the keys of checkpoints stay as they are; DistributedDataParallel around it still
    splits the graph at its buckets. It is withheld where compiling in place has no effect or breaks something:
    `nn.DataParallel`, models pickled for other processes or traced later, models run through other methods than a
    call, classes of `torch.nn` itself (there `torch.compile(model)` is the way).

    ## How it is measured
    Steps a second of the training loop after a warm-up, compile time apart; losses are compared.

    ## References
    - https://docs.pytorch.org/tutorials/intermediate/torch_compile_tutorial.html
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile
    """

    code = "PTL401"
    name = "model-not-compiled"
    message = "this model runs in eager mode: nothing in the program compiles it"
    impact = Impact.HIGH
    fixable = "unsafe"
    torch = ">=2.0"
    roots = ("backward", "eval", "zero_grad")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        models = program.used_models
        if not program.accelerated or program.uses_hf_trainer or models.compiles() or models.differentiates_twice():
            return
        trained = models.trained()
        fit = [used for used in trained or models.evaluated() if not models.unfit(used)]
        if fit and not any(program.managed(used.loop) for used in fit):
            yield self._found(program, models, fit[0], fit[1:], preview=not trained)

    def _found(
        self, program: ProgramFacts, models: UsedModels, used: UsedModel, others: list[UsedModel], *, preview: bool
    ) -> Finding:
        fix: Fix | None = None
        withheld = ""
        try:
            fix = _fix(program, models, used)
        except CannotEdit as refusal:
            withheld = refusal.reason
        verb = "evaluates" if preview else "trains"
        named = _name(used.place)
        name = named[1] if named is not None else "model"
        written = f"{name} = torch.compile({name})" if runs_as_torchs_own(used.module) else f"{name}.compile()"
        named_too = [found[1] for other in others if (found := _name(other.place)) is not None]
        likewise = [f"`{other}`" for other in dict.fromkeys(named_too) if other != name]
        return self.finding(
            used.place,
            preview=preview,
            advice=f"`{written}` after this" + (f", and likewise for {', '.join(likewise)}" if likewise else ""),
            fix=fix,
            withheld=withheld,
            because=(f"the loop in {used.loop.line(used.place.path)} {verb} it",),
        )


def _name(place: Place) -> tuple[cst.CSTNode, str] | None:
    """The statement at a place and the name that stands for the model after it; None when there is none."""
    statement = place.tree.statement(place.node)
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, (cst.Name, cst.Attribute)) and place.node in (target, *_chain(statement.value)):
            return statement, place.tree.code(target)
    if isinstance(statement, cst.Expr) and statement.value is place.node and isinstance(place.node, cst.Call):
        func = place.node.func
        if isinstance(func, cst.Attribute) and isinstance(func.value, (cst.Name, cst.Attribute)):
            return statement, place.tree.code(func.value)
    return None


def _chain(node: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """An expression and what its methods are called on: `Net().to(device).train()`, `Net().to(device)`, `Net()`."""
    yield node
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        node = node.func.value
        yield node


def _fix(program: ProgramFacts, models: UsedModels, used: UsedModel) -> Fix:
    if program.config.torch_version < (2, 2):
        raise CannotEdit("`Module.compile` needs PyTorch 2.2")
    wrappers = models.wrappers(used.module)
    if "dataparallel" in wrappers:
        raise CannotEdit("`nn.DataParallel` copies the model in each step; compile with DistributedDataParallel")
    if "fsdp" in wrappers:
        raise CannotEdit("with FSDP the blocks are compiled one by one before they are wrapped")
    if models.sent_to_processes(used.module):
        raise CannotEdit("the model is sent to other processes, and what compiled it does not go with it")
    if models.traced(used.module):
        raise CannotEdit("the model is traced or exported later, which fails for a compiled one")
    if runs_as_torchs_own(used.module):
        raise CannotEdit("compiling in place captures nothing of a class of `torch.nn` itself")
    if not models.called_itself(used):
        raise CannotEdit("the loop runs it through other methods, and `compile` covers only a call of the model")
    found = _name(used.place)
    if found is None:
        raise CannotEdit("no name stands for the model here")
    statement, name = found
    return Fix(
        f"Compile it in place: `{name}.compile()`",
        Safety.UNSAFE,
        insert_after(used.place.tree, statement, [f"{name}.compile()"]),
    )

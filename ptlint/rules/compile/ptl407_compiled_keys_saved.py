"""PTL407 compiled-keys-saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, replace
from ptlint.facts.events import Call, Construct, Place
from ptlint.facts.trained import runs_as_torchs_own
from ptlint.facts.values import Mapping, Module, StateDict, Tuple, Value, options
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_LIGHTNING = ("pytorch_lightning", "lightning")


class CompiledKeysSaved(Rule):
    """
    ## What it finds
    A checkpoint made from what `torch.compile(model)` returned: `torch.save(compiled.state_dict(), ...)`, also inside
    of a dict. In a `LightningModule`, whose checkpoints hold every submodule: a compiled one that is assigned to it.

    ## Why it is slow
    It is not; it costs the one who loads it. Every key carries the prefix `_orig_mod.`, so that the checkpoint does not
    load into the model itself, and each place that reads it has to take the prefix off.

    ## When it stays silent
    - The model is compiled in place (`model.compile()`), which leaves the keys alone.
    - What is saved is the state of the model under the wrapper (`model`, `compiled._orig_mod`).
    - The program takes the prefix off before it saves.

    ## Example
    ```python
    compiled = torch.compile(model)
    torch.save(compiled.state_dict(), "model.pt")
    ```

    Use instead:
    ```python
    model.compile()
    torch.save(model.state_dict(), "model.pt")
    ```

    ## Fix safety
    Unsafe: checkpoints that were saved before keep their old keys, and the code that loads them may expect the prefix.
    `model = torch.compile(model)` becomes `model.compile()`. Withheld where the compiled copy has a name of its own,
    and for classes of `torch.nn` itself, of which compiling in place captures nothing.

    ## How it is measured
    It costs no time: the keys of a saved state are compared with the model's.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile
    """

    code = "PTL407"
    name = "compiled-keys-saved"
    message = "the keys of this checkpoint carry the prefix `_orig_mod.` of the compiled wrapper"
    impact = Impact.LOW
    torch = ">=2.0"
    fixable = "unsafe"
    roots = ("compile",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        made = {id(event.value): event.place for event in program.events(Construct)}
        for place, module in self._found(program):
            origin = made.get(id(module))
            fix, withheld = None, ""
            try:
                fix = _fix(place, origin, module)
            except CannotEdit as refusal:
                withheld = refusal.reason
            yield self.finding(
                place,
                advice="compile in place: `model.compile()` leaves the keys as they are",
                fix=fix,
                withheld=withheld,
                because=(f"`torch.compile` in {origin.line(place.path)} wrapped the model",)
                if origin is not None
                else (),
            )

    @staticmethod
    def _found(program: ProgramFacts) -> Iterator[tuple[Place, Module]]:
        stripped = any("_orig_mod" in word for word in program.words)
        for call in program.calls("torch.save"):
            if not stripped or not _strips(call):
                for module in _compiled_states(call.args.get("obj")):
                    yield call.place, module
                    break
        for event in program.made(Module):
            if isinstance(event.value, Module) and _is_wrapped(event.value) and _is_kept_by_lightning(event):
                yield event.place.at(event.place.tree.statement(event.place.node) or event.place.node), event.value


def _is_kept_by_lightning(event: Construct) -> bool:
    """Whether a method of a LightningModule makes the wrapper an attribute of it."""
    statement = event.place.tree.statement(event.place.node)
    target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
    function = event.ctx.frame().function
    owner = function.owner if function is not None else None
    return (
        owner is not None
        and any(base.startswith(_LIGHTNING) for base in owner.lib_bases)
        and isinstance(target, cst.Attribute)
        and isinstance(target.value, cst.Name)
        and target.value.value == "self"
    )


def _strips(call: Call) -> bool:
    """Whether the function that saves speaks of the prefix."""
    tree = call.place.tree
    scope = next((up for up in tree.ancestors(call.place.node) if isinstance(up, cst.FunctionDef)), None)
    return "_orig_mod" in tree.code(scope if scope is not None else tree.statement(call.place.node) or call.place.node)


def _compiled_states(value: Value, depth: int = 3) -> Iterator[Module]:
    """The compiled wrappers whose state a value is or holds."""
    for option in options(value):
        if isinstance(option, StateDict):
            yield from (
                module for module in options(option.module) if isinstance(module, Module) and _is_wrapped(module)
            )
        elif isinstance(option, Mapping) and depth:
            for held in option.entries.values():
                yield from _compiled_states(held, depth - 1)
        elif isinstance(option, Tuple) and depth:
            for held in option.items:
                yield from _compiled_states(held, depth - 1)


def _is_wrapped(module: Module) -> bool:
    return module.wrapper == "compile"


def _fix(place: Place, origin: Place | None, module: Module) -> Fix:
    if origin is None or not isinstance(origin.node, cst.Call) or origin.path != place.path:
        raise CannotEdit("the model is compiled in another file")
    call, tree = origin.node, origin.tree
    if runs_as_torchs_own(module):
        raise CannotEdit("compiling in place captures nothing of a class of `torch.nn` itself")
    statement = tree.statement(call)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1 or statement.value is not call:
        raise CannotEdit("no statement of its own compiles the model")
    if not call.args or call.args[0].star or call.args[0].keyword is not None:
        raise CannotEdit("the model is not an argument that is written there")
    name = tree.code(statement.targets[0].target)
    if tree.code(call.args[0].value) != name:
        raise CannotEdit("the compiled copy has a name of its own; compile the model in place and save that")
    rest = ", ".join(tree.code(arg) for arg in call.args[1:])
    return Fix(
        f"Compile it in place: `{name}.compile({rest})`",
        Safety.UNSAFE,
        replace(tree, statement, f"{name}.compile({rest})"),
    )

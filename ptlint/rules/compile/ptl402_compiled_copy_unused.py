"""PTL402 compiled-copy-unused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, replace
from ptlint.facts.events import Call, Construct, Forward, Place
from ptlint.facts.scopes import walk
from ptlint.facts.trained import runs_as_torchs_own, wraps
from ptlint.facts.values import Module, options
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


class CompiledCopyUnused(Rule):
    """
    ## What it finds
    A call of `torch.compile(model)` whose result is dropped, or given a name that the loop does not call: the loop
    goes on with the model itself, in eager mode. With `--preview` also a method called on what `torch.compile`
    returned (`compiled.generate(x)`): it is bound to the model, and so is each `self(...)` inside.

    ## Why it is slow
    `torch.compile` leaves the model as it is and returns a wrapper around it. Only what is called through the wrapper
    is compiled, so the program believes itself compiled and gains nothing.

    ## When it stays silent
    - A loop calls the wrapper, or something around it, on some path.
    - The wrapper is handed to a library, which may call it.
    - No loop calls the model either.

    ## Example
    ```python
    torch.compile(model)
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    model = torch.compile(model)
    for images, labels in DataLoader(dataset, batch_size=64):
        optimizer.zero_grad()
        criterion(model(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: now the model is compiled, with other rounding, a slow first step and the need for a C++ compiler and
    Triton. The fix compiles in place, so that the keys of checkpoints stay; a class of `torch.nn` itself is given its
    wrapper as the new value of its name, as in the example, because compiling in place captures nothing there.

    ## How it is measured
    Steps a second of the loop after a warm-up, before and after.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """

    code = "PTL402"
    name = "compiled-copy-unused"
    message = "the result of `torch.compile` is not what the loop calls"
    impact = Impact.HIGH
    fixable = "unsafe"
    torch = ">=2.0"
    roots = ("torch.compile", "compile")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for event in program.made(Module):
            compiled = event.value
            if not isinstance(compiled, Module) or compiled.wrapper != "compile" or compiled.inner is None:
                continue
            statement = event.place.tree.parent(event.place.node)
            dropped = isinstance(statement, cst.Expr)
            if not isinstance(statement, (cst.Expr, cst.Assign)):
                continue
            call = _call_of_original(program, event, compiled)
            loop = program.hot(call) if call is not None else None
            if call is None or loop is None or (not dropped and _is_handed_on(program, compiled)):
                continue
            method = _method_of_copy(event.place, call, compiled)
            fix: Fix | None = None
            withheld = ""
            try:
                fix = _fix(event.place, compiled, dropped=dropped)
            except CannotEdit as refusal:
                withheld = refusal.reason
            message = "the result of `torch.compile` is dropped" if dropped else None
            if method:
                message = f"`{method}` is a method of the model, which runs past its compiled copy"
            yield self.finding(
                event.place,
                message=message,
                preview=bool(method),
                advice=("" if method else "call what `torch.compile` returns, or ")
                + "compile in place: `model.compile()`",
                fix=fix,
                withheld=withheld,
                because=(
                    f"the loop in {loop.line(event.place.path)} calls the model that was given to `torch.compile`",
                ),
            )


def _call_of_original(program: ProgramFacts, event: Construct, compiled: Module) -> Forward | None:
    """The first hot call of the model past its compiled copy; None when anything calls the copy."""
    found: Forward | None = None
    for call in program.events(Forward):
        for option in options(call.module):
            if not isinstance(option, Module):
                continue
            if wraps(option, compiled):
                return None
            if option.core is compiled.core and call.outer and call.order > event.order and program.hot(call):
                found = found or call
    return found


def _method_of_copy(place: Place, call: Forward, compiled: Module) -> str:
    """The name of a method of the model that was called on the compiled copy, and in which the model is called."""
    statement = place.tree.statement(place.node)
    assigned = statement.targets if isinstance(statement, cst.Assign) else ()
    targets = [place.tree.code(target.target) for target in assigned]
    for up in call.ctx.up():
        function = up.function if up.kind == "frame" else None
        if function is None or up.place is None or not isinstance(up.place.node, cst.Call):
            continue
        func = up.place.node.func
        receiver = function.self_value
        if isinstance(receiver, Module) and receiver.core is compiled.core and isinstance(func, cst.Attribute):
            if up.place.tree.code(func.value) in targets:
                return func.attr.value
    return ""


def _is_handed_on(program: ProgramFacts, compiled: Module) -> bool:
    """Whether a library is given the compiled copy."""
    return any(
        isinstance(option, Module) and wraps(option, compiled)
        for call in program.events(Call)
        for value in (*call.args.bound.values(), *call.args.extra)
        for option in options(value)
        if call.name != "torch.compile"
    )


def _fix(place: Place, compiled: Module, *, dropped: bool) -> Fix:
    tree, call = place.tree, place.node
    if not isinstance(call, cst.Call) or not call.args or call.args[0].star:
        raise CannotEdit("the model is not an argument that is written here")
    model = call.args[0].value
    if not isinstance(model, (cst.Name, cst.Attribute)):
        raise CannotEdit("no name stands for the model here")
    name = tree.code(model)
    if runs_as_torchs_own(compiled):
        if not dropped:
            raise CannotEdit("the name of the compiled copy is the one to call in the loop")
        edits = replace(tree, tree.statement(call) or call, f"{name} = {tree.code(call)}")
        return Fix("Call what `torch.compile` returns", Safety.UNSAFE, edits)
    rest = ", ".join(tree.code(arg) for arg in call.args[1:])
    text = f"{name}.compile({rest})"
    if dropped:
        return Fix(f"Compile it in place: `{text}`", Safety.UNSAFE, replace(tree, call, text))
    statement = tree.statement(call)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        raise CannotEdit("the compiled copy has several names")
    target = statement.targets[0].target
    if tree.code(target) != name and (not isinstance(target, cst.Name) or _is_read(place, target.value)):
        raise CannotEdit("the compiled copy is used elsewhere")
    return Fix(f"Compile it in place: `{text}`", Safety.UNSAFE, replace(tree, statement, text))


def _is_read(place: Place, name: str) -> bool:
    """Whether a name stands anywhere else in its function or file."""
    scope = next((above for above in place.tree.ancestors(place.node) if isinstance(above, cst.FunctionDef)), None)
    if scope is not None:
        return sum(isinstance(node, cst.Name) and node.value == name for node in walk(scope, into_scopes=True)) > 1
    statements = place.file.outline.statements
    return sum(name in statement.words for statement in statements) > 1 or (
        sum(isinstance(node, cst.Name) and node.value == name for node in place.tree.walk()) > 1
    )

"""PTL404 debug-backend-left-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, remove_keyword
from ptlint.facts.events import Call
from ptlint.facts.values import Const, options
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_BACKENDS = frozenset({"eager", "aot_eager", "aot_eager_decomp_partition", "eager_noexcept"})
_MODES = frozenset({"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite"})


class DebugBackendLeftIn(Rule):
    """
    ## What it finds
    A call of `torch.compile` or `Module.compile` that generates no code: `backend="eager"` or `"aot_eager"`,
    `disable=True`, or a `mode` that does not exist.

    ## Why it is slow
    The backends named `eager` run the captured graph operation by operation: all the cost of capturing and guarding,
    and nothing fused. `disable=True` returns the model as it was. An unknown mode raises at the first call.

    ## When it stays silent
    - A flag or a setting chooses the value, or the call stands under a test that is off by default.
    - The value is not written in the program.

    ## Example
    ```python
    fast = torch.compile(model, backend="eager")
    ```

    Use instead:
    ```python
    fast = torch.compile(model)
    ```

    ## Fix safety
    Unsafe: with code generated, kernels round otherwise, the first call takes long, and a C++ compiler and Triton must
    be there. The argument is removed.

    ## How it is measured
    Calls of a model, eager and compiled with each backend.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """

    code = "PTL404"
    name = "debug-backend-left-in"
    message = "this compiles for debugging: no code is generated"
    impact = Impact.HIGH
    torch = ">=2.0"
    fixable = "unsafe"
    roots = ("compile",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for call in program.calls("torch.compile", "torch.nn.Module.compile"):
            wrong = _wrong(call)
            if wrong is None or any(up.kind == "guard" for up in call.ctx.up()):
                continue
            name, message = wrong
            fix, withheld = None, ""
            node = call.place.node
            try:
                if not isinstance(node, cst.Call) or not any(
                    arg.keyword and arg.keyword.value == name for arg in node.args
                ):
                    raise CannotEdit("the argument is not written at the call")
                fix = Fix(f"Remove `{name}`", Safety.UNSAFE, remove_keyword(call.place.tree, node, name))
            except CannotEdit as refusal:
                withheld = refusal.reason
            yield self.finding(call.place, message=message, advice=f"leave `{name}` out", fix=fix, withheld=withheld)


def _wrong(call: Call) -> tuple[str, str] | None:
    """The argument that keeps a call from compiling, and what it does."""
    given = {name: _given(call, name) for name in ("backend", "disable", "mode")}
    if given["backend"] in _BACKENDS:
        return "backend", f'`backend="{given["backend"]}"` captures the graph and runs it operation by operation'
    if given["disable"] is True:
        return "disable", "`disable=True` makes this compile nothing"
    mode = given["mode"]
    if isinstance(mode, str) and mode not in _MODES:
        return "mode", f'`torch.compile` has no mode "{mode}": it raises'
    return None


def _given(call: Call, name: str) -> object:
    """The value of an argument that is fixed in the text; None for all others."""
    node = call.place.node
    written = next(
        (arg.value for arg in getattr(node, "args", ()) if arg.keyword is not None and arg.keyword.value == name), None
    )
    if isinstance(written, (cst.IfExp, cst.BooleanOperation, cst.Comparison)):
        return None
    value = call.args.get(name)
    if len(options(value)) != 1 or not isinstance(value, Const) or value.soft:
        return None
    return value.value

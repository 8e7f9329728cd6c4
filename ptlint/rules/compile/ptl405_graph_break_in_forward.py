"""PTL405 graph-break-in-forward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptlint.facts import guards
from ptlint.facts.events import Call, Construct, Ctx, Event, Place, Read
from ptlint.facts.models import parts
from ptlint.facts.roles import in_forward
from ptlint.facts.values import Const, Module, options
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

_READS = frozenset({"item", "tolist"})
_CALLS = frozenset(
    "print breakpoint time.time time.perf_counter time.monotonic logging.info logging.debug logging.warning "
    "warnings.warn".split()
)
_TAMED = frozenset({"capture_scalar_outputs", "reorderable_logging_functions", "is_compiling", "disable"})


class GraphBreakInForward(Rule):
    """
    ## What it finds
    What `torch.compile` cannot put into a graph, in the `forward` of a module that the program compiles or in a
    function that it calls: `print`, logging, a clock, `breakpoint`, `.item()`, `.tolist()`.

    ## Why it is slow
    The graph ends there. What breaks it runs as Python, the rest is a graph of its own: nothing is fused across, its
    inputs and outputs go through memory, and `.item()` makes the host wait for the device besides.

    ## When it stays silent
    - The module is compiled with `fullgraph=True`, which raises instead, and captures `.item()`.
    - The statement stands under any test, or outside of what is compiled.
    - The program tells the compiler about it: `capture_scalar_outputs`, `reorderable_logging_functions`,
      `torch.compiler.disable`, a test of `is_compiling()`.
    - NumPy calls, `assert`, `.cpu()` and `.detach()`, which are traced.

    ## Example
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(784, 10)

        def forward(self, x):
            x = self.layer(x)
            print(x.shape)
            return x.relu()


    fast = torch.compile(Net().to(device))
    print(fast(torch.rand(64, 784, device=device)))
    ```

    Use instead:
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(784, 10)

        def forward(self, x):
            x = self.layer(x)
            return x.relu()


    fast = torch.compile(Net().to(device))
    print(fast(torch.rand(64, 784, device=device)))
    ```

    ## Fix safety
    There is no fix: what is printed or read is there for a reason that only the author knows.

    ## How it is measured
    Calls of a compiled model with a break in each layer and without, and the number of graphs that
    `torch._dynamo.explain` counts.

    ## References
    - https://docs.pytorch.org/docs/stable/torch.compiler_faq.html#graph-breaks
    """

    code = "PTL405"
    name = "graph-break-in-forward"
    message = "this breaks the compiled graph in two"
    impact = Impact.MEDIUM
    torch = ">=2.0"
    roots = ("compile",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if program.words & _TAMED:
            return
        compiled = _compiled(program)
        events: list[Event] = [e for e in program.events(Call) if e.name.removeprefix("builtins.") in _CALLS]
        events += [event for event in program.events(Read) if event.how in _READS]
        for event in events:
            made = _place_of_compiled(event.ctx, compiled)
            if made is not None:
                yield self.finding(
                    event.place,
                    message=f"`{event.place.brief}` breaks the compiled graph in two",
                    advice="take it out of what is compiled",
                    because=(f"the module is compiled in {made.line(event.place.path)}",),
                )


def _compiled(program: ProgramFacts) -> dict[int, Place]:
    """The modules that are compiled, those below them too, and the places where they are."""
    found: dict[int, Place] = {}
    for event in program.made(Module):
        if isinstance(event.value, Module) and event.value.wrapper == "compile":
            call = next((c for c in program.calls_at(event.place.node) if c.name == "torch.compile"), None)
            _note(found, event, event.value, call)
    for call in program.calls("torch.nn.Module.compile"):
        for option in options(call.receiver) if call.receiver is not None else ():
            if isinstance(option, Module):
                _note(found, call, option, call)
    return found


def _note(found: dict[int, Place], event: Construct | Call, module: Module, call: Call | None) -> None:
    whole = call.args.get("fullgraph", Const(False)) if call is not None else Const(True)
    if isinstance(whole, Const) and not whole.value and (call is None or not call.args.open):
        found.update((id(part), event.place) for part in parts(module))


def _place_of_compiled(ctx: Ctx, compiled: dict[int, Place]) -> Place | None:
    """Where the module is compiled whose forward an event always runs in; None for none."""
    for up in ctx.up():
        if up.kind == "guard" and up.rarity != guards.ALWAYS:
            return None
        function = up.function if up.kind == "frame" else None
        if function is not None and in_forward(function):
            receiver = function.self_value
            return compiled.get(id(receiver.core)) if isinstance(receiver, Module) else None
    return None

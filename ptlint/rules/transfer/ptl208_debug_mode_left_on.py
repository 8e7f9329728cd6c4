"""PTL208 debug-mode-left-on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits import CannotEdit, delete_statement, unwrap
from ptlint.facts.debugging import ANOMALY, BLOCKING, DETERMINISTIC, PROFILER, debug_modes
from ptlint.facts.events import Place
from ptlint.facts.scopes import target_names, walk
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.rule import Rule

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

MESSAGES = {
    ANOMALY: "anomaly detection looks for NaN after every operation of every backward pass, and keeps its stack traces",
    BLOCKING: "with `CUDA_LAUNCH_BLOCKING=1` the host waits for every kernel that it launches",
    PROFILER: "the profiler records every operation of the whole training",
    DETERMINISTIC: "deterministic algorithms are slower, and without a seed no run can be repeated anyway",
}


class DebugModeLeftOn(Rule):
    """
    ## What it finds
    Switches for debugging that a program sets for good:

    - `torch.autograd.set_detect_anomaly(True)` and `detect_anomaly()`;
    - `CUDA_LAUNCH_BLOCKING=1`, set from Python;
    - `emit_nvtx()` or `profile()` around a whole training, with no `schedule`;
    - `torch.backends.cudnn.deterministic = True` or `torch.use_deterministic_algorithms(True)` in a program that sets
      no seed (impact medium).

    ## Why it is slow
    Anomaly detection looks at the result of every operation of the backward pass, each time waiting for the device,
    and records a stack trace for every operation of the forward pass. With `CUDA_LAUNCH_BLOCKING=1` the host cannot
    run ahead of the device. A profiler records every operation and keeps all records in memory. Deterministic
    algorithms rule out the fastest kernels; they serve repeatable runs, for which a seed must be set too.

    ## When it stays silent
    - A flag decides (`if args.debug:`, a parameter, `set_detect_anomaly(args.debug)`); a test whether there is a GPU is
      no flag.
    - Anomaly detection is switched off again; no backward pass is made.
    - The profiler has a schedule, or the profiled loop ends after some steps.
    - The program sets a seed, with any function.

    ## Example
    ```python
    torch.autograd.set_detect_anomaly(True)
    for x, y in DataLoader(dataset, batch_size=64):
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    for x, y in DataLoader(dataset, batch_size=64):
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    Removing anomaly detection is safe: it only looks. The other removals are unsafe: another kernel may be chosen,
    and errors of the device are reported at another line.

    ## How it is measured
    Training steps with and without the mode.

    ## References
    - https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection
    - https://docs.pytorch.org/docs/stable/notes/randomness.html
    - https://docs.pytorch.org/docs/stable/profiler.html
    """

    code = "PTL208"
    name = "debug-mode-left-on"
    message = "a debug mode is switched on for good"
    impact = Impact.HIGH
    fixable = "both"
    roots = (
        "set_detect_anomaly",
        "detect_anomaly",
        "CUDA_LAUNCH_BLOCKING",
        "emit_nvtx",
        ("profile", "profiler"),
        "deterministic",
        "use_deterministic_algorithms",
    )

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for mode in debug_modes(program):
            fix, withheld = _fix(mode.kind, mode.place)
            yield self.finding(
                _statement(mode.place),
                message=MESSAGES[mode.kind],
                impact=Impact.MEDIUM if mode.kind == DETERMINISTIC else Impact.HIGH,
                advice=_advice(mode.kind),
                fix=fix,
                withheld=withheld,
            )


def _advice(kind: str) -> str:
    if kind == PROFILER:
        return "`schedule=torch.profiler.schedule(wait=1, warmup=1, active=3)` and `prof.step()`, or a flag"
    if kind == DETERMINISTIC:
        return "`torch.manual_seed(…)` as well, or nothing"
    return "nothing, or a flag that switches it on"


def _statement(place: Place) -> Place:
    """The simple statement; of a `with` or a decorator the call, since the statement is long."""
    statement = place.tree.statement(place.node)
    return place.at(statement) if isinstance(statement, cst.BaseSmallStatement) else place


def _fix(kind: str, place: Place) -> tuple[Fix | None, str]:
    safety = Safety.SAFE if kind == ANOMALY else Safety.UNSAFE
    try:
        return Fix("Remove the debug mode", safety, _removal(place)), ""
    except CannotEdit as refusal:
        return None, refusal.reason


def _removal(place: Place) -> tuple[Edit, ...]:
    tree, node = place.tree, place.node
    parent = tree.parent(node)
    statement = tree.statement(node)
    if isinstance(statement, cst.With) and isinstance(parent, cst.WithItem):
        if len(statement.items) > 1:
            raise CannotEdit("the `with` has other items")
        name = parent.asname.name if parent.asname is not None else None
        names = set(target_names(name)) if name is not None else set()
        scope = next((up for up in tree.ancestors(statement) if isinstance(up, cst.FunctionDef)), tree.module)
        uses = sum(isinstance(inner, cst.Name) and inner.value in names for inner in walk(scope, into_scopes=True))
        if uses > len(names):
            raise CannotEdit("what it records is used")
        return unwrap(tree, statement)
    if isinstance(statement, cst.Expr) and statement.value is node:
        return delete_statement(tree, statement)
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1 and statement.value is not node:
        return delete_statement(tree, statement)
    raise CannotEdit("it is part of a longer statement")

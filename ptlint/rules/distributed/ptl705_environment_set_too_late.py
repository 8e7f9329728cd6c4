"""PTL705 environment-set-too-late."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit, insert_before
from ptlint.edits.layout import next_row, row_start
from ptlint.facts.environment import IMPORT
from ptlint.facts.loads import Load
from ptlint.facts.program import ProgramFacts
from ptlint.facts.settings import Setting, reaches_children, set_by_call
from ptlint.findings import Edit, Finding, Fix, Impact, Safety
from ptlint.paths import shown
from ptlint.rule import Rule


class EnvironmentSetTooLate(Rule):
    """
    ## What it finds
    An environment variable that PyTorch or OpenMP reads while it is loaded (`OMP_NUM_THREADS`, `MKL_NUM_THREADS`,
    `TORCH_CPP_LOG_LEVEL`, `TORCH_LOGS`, the `backend:` of the allocator), set after `import torch` or after the import
    of a package that imports it.

    ## Why it is slow
    The setting is not read any more: the number of threads, or whatever it was to change, stays as it was.

    ## When it stays silent
    - The variable is read later: `CUDA_VISIBLE_DEVICES` when CUDA starts, `CUBLAS_WORKSPACE_CONFIG` at the first matrix
      product, `MASTER_ADDR` when the process group is made.
    - The program starts processes afterwards, which load PyTorch anew and see it, or also makes the call that has the
      same effect (`torch.set_num_threads`).
    - It is set under a switch that is off.

    ## Example
    ```python
    import torch

    os.environ["OMP_NUM_THREADS"] = "8"
    ```

    Use instead:
    ```python
    import torch

    torch.set_num_threads(8)
    ```

    ## Fix safety
    Safe: a literal assigned at module level, in the file whose import loads PyTorch first, moves above that import.
    Else a person must find the place.

    ## How it is measured
    Not at all: it is a setting without effect.

    ## References
    - https://pytorch.org/docs/stable/threading_environment_variables.html
    """

    code = "PTL705"
    name = "environment-set-too-late"
    message = "set too late to be read"
    impact = Impact.MEDIUM
    roots = (("environ|putenv",),)
    fixable = "safe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for setting in program.settings:
            variable, event = setting.variable, setting.event
            if variable.read_when(setting.value) != IMPORT or "torch" not in variable.modules:
                continue
            load = program.loads.before(("torch",), event.place, event.ctx)
            if load is None or reaches_children(program, setting) or set_by_call(program, setting):
                continue
            advice = f"move it above line {load.row} of {shown(load.path)}"
            if variable.instead is not None:
                advice += f", or call `{variable.instead}`"
            fix, withheld = _fix(program, setting, load)
            yield self.finding(
                event.place,
                message=f"`{variable.name}` is read while PyTorch is loaded, which is done: it has no effect here",
                advice=advice,
                fix=fix,
                withheld=withheld,
                because=[f"line {load.row} of {shown(load.path)} loads PyTorch", f"it sets {variable.effect}"],
            )


def _fix(program: ProgramFacts, setting: Setting, load: Load) -> tuple[Fix | None, str]:
    place = setting.event.place
    assignment = place.tree.statement(place.node)
    if load.path != place.path:
        return None, f"PyTorch is loaded in {shown(load.path)}, line {load.row}: it must be set before that"
    first = place.tree.body[0]
    alone = len(place.tree.body) == 1 and isinstance(first, cst.SimpleStatementLine) and len(first.body) == 1
    if not (alone and isinstance(assignment, cst.Assign) and setting.value is not None and load.top):
        return None, "it is not a plain assignment of a literal at module level"
    outline = place.file.outline
    target = outline.statement_at(load.row)
    tree = program.run.trees.tree(place.file, target) if target is not None else None
    knows_os = any(item.module == "os" and item.name is None and item.row < load.row for item in outline.imports)
    if tree is None or not knows_os:
        return None, "`os` is imported below"
    try:
        start, end = place.tree.span(assignment)
        row = Edit(row_start(place.source, start), next_row(place.source, end), "")
        text = place.source.text[row.start : row.end].strip()
        edits = (*insert_before(tree, tree.body[0], [text]), row)
    except CannotEdit as error:
        return None, error.reason
    return Fix(f"Set it before line {load.row} loads PyTorch", Safety.SAFE, edits), ""

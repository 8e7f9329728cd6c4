"""PTL703 find-unused-parameters."""

from __future__ import annotations

from collections.abc import Iterator

from ptlint.facts.program import ProgramFacts
from ptlint.facts.values import Const, options
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

DDP = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")


class FindUnusedParameters(Rule):
    """
    ## What it finds
    `DistributedDataParallel(..., find_unused_parameters=True)`.

    ## Why it is slow
    Before each backward DDP walks the whole graph to find parameters that no gradient will reach, in every process.

    ## When it stays silent
    - The argument is absent, an option that is off, or not known.
    - `static_graph=True` stands beside it: the graph is then walked once.

    ## Example
    ```python
    parallel = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    ```

    Use instead:
    ```python
    parallel = nn.parallel.DistributedDataParallel(model)
    ```

    ## Fix safety
    No fix: where some parameters really get no gradient in some step, DDP raises or hangs without it. A run that prints
    "did not find any unused parameters" does not need it.

    ## How it is measured
    Steps of a model in two processes, with and without it.

    ## References
    - https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    code = "PTL703"
    name = "find-unused-parameters"
    message = "DDP walks the graph of every step to look for parameters that get no gradient"
    impact = Impact.LOW
    preview = True
    roots = ("find_unused_parameters",)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for call in program.calls(*DDP):
            given = options(call.args.get("find_unused_parameters"))
            static = options(call.args.get("static_graph", Const(False)))
            certain = all(isinstance(option, Const) and option.value is True and not option.soft for option in given)
            if certain and all(isinstance(option, Const) and not option.value for option in static):
                yield self.finding(
                    call.place,
                    advice="remove it where every parameter is used, else try `static_graph=True`",
                )

"""PTL706 environment-variable-without-effect."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import replace
from ptlint.facts.program import ProgramFacts
from ptlint.facts.settings import Setting, mentions, name_node, value_node
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule


class EnvironmentVariableWithoutEffect(Rule):
    """
    ## What it finds
    An environment variable that the program sets for nothing, or to its harm:

    - one that was renamed (`NCCL_ASYNC_ERROR_HANDLING` is `TORCH_NCCL_ASYNC_ERROR_HANDLING` since PyTorch 2.2);
    - one of a library that the program never imports (`TF_ENABLE_ONEDNN_OPTS` without TensorFlow; `KMP_*`, which is for
      Intel's OpenMP, where PyTorch's wheels link GCC's);
    - a value that raises (`expandable_segments:true`), or is the default;
    - a value that slows the program, left over from debugging or copied from a machine that needed it
      (`NCCL_P2P_DISABLE=1`, `NCCL_DEBUG=INFO`).

    ## Why it is slow
    What was meant to help does nothing, or a debugging aid works on in every step.

    ## When it stays silent
    - Something in the program imports the library, or the value is chosen under a switch that is off.
    - The variable is not in ptlint's table, or its value cannot be read.
    - `CUDA_LAUNCH_BLOCKING=1` is PTL208's; what is set too late is PTL705's.

    ## Example
    ```python
    os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"
    ```

    Use instead:
    ```python
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1"
    ```

    ## Fix safety
    Safe for a name that was renamed, where nothing else in the program speaks of the old one, and for a value that is
    only misspelt. What slows is left to a person: some hardware needs it.

    ## How it is measured
    Not at all: what a variable costs depends on the machine.

    ## References
    - https://pytorch.org/docs/stable/torch_nccl_environment_variables.html
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """

    code = "PTL706"
    name = "environment-variable-without-effect"
    message = "the environment variable has no effect"
    impact = Impact.LOW
    roots = (("environ|putenv",),)
    fixable = "safe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        if "torch" not in program.packages and not program.accelerated:
            return
        for setting in program.settings:
            found = self._judge(program, setting)
            if found is not None:
                yield found

    def _judge(self, program: ProgramFacts, setting: Setting) -> Finding | None:
        variable, value, place = setting.variable, setting.value, setting.event.place
        name = variable.name
        if variable.renamed_to is not None and program.config.torch_version >= (variable.since or (0, 0)):
            release = ".".join(map(str, variable.since or ()))
            fix = _rename(program, setting, variable.renamed_to)
            return self.finding(
                place,
                message=f"`{name}` was renamed in PyTorch {release}: the old name only makes it warn",
                advice=f"`{variable.renamed_to}`",
                fix=fix,
                withheld="" if fix is not None else f"other code speaks of `{name}` too",
                because=_harm(setting),
            )
        if not variable.has_reader(program.packages):
            return self.finding(
                place,
                message=f"nothing in this program reads `{name}`",
                advice="remove it",
                because=[f"it sets {variable.effect}"],
            )
        if value is None:
            return None
        error, idle = variable.error(value), variable.idleness(value)
        if error is not None:
            return self.finding(
                place,
                message=f"PyTorch refuses `{value}` for `{name}`: {error}",
                advice=f"`{variable.corrected(value)}`" if variable.corrected(value) else "a value that it reads",
                fix=_correct(setting, variable.corrected(value)),
            )
        if idle is not None:
            return self.finding(place, message=f"`{name}={value}` changes nothing: {idle}", advice="remove it")
        if variable.harm(value) is not None and variable.rule is None:
            return self.finding(
                place,
                message=f"`{name}={value}` slows the program: {variable.harm(value)}",
                advice="remove it where the machine does not need it",
                # What the allocator is told may be the only way to fit into memory.
                preview=variable.import_values is not None,
            )
        return None


def _harm(setting: Setting) -> list[str]:
    harm = setting.variable.harm(setting.value) if setting.value is not None else None
    return [harm] if harm is not None else []


def _rename(program: ProgramFacts, setting: Setting, new: str) -> Fix | None:
    node = name_node(setting)
    if node is None or mentions(program, setting.variable.name) != 1:
        return None
    return Fix(f"Use the name `{new}`", Safety.SAFE, replace(setting.event.place.tree, node, _quoted(node, new)))


def _correct(setting: Setting, corrected: str | None) -> Fix | None:
    node = value_node(setting)
    if node is None or corrected is None:
        return None
    return Fix(f"Write `{corrected}`", Safety.SAFE, replace(setting.event.place.tree, node, _quoted(node, corrected)))


def _quoted(node: cst.SimpleString, text: str) -> str:
    return f"{node.quote}{text}{node.quote}"

"""How a program starts: behind a main guard or not, in one process or several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Ctx
from ptlint.facts.scopes import walk
from ptlint.facts.values import Module

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts


def runs_at_import(ctx: Ctx) -> bool:
    """Whether a context runs when its file is imported: from top level, with no main guard on the way."""
    for up in ctx.up():
        if is_main_guard(up):
            return False
        if up.kind == "module":
            return up.home is not None and up is up.home.ctx
    return False


def is_main_guard(ctx: Ctx) -> bool:
    """Whether a branch is `if __name__ == "__main__":`."""
    node = ctx.place.node if ctx.kind == "guard" and ctx.place is not None else None
    return isinstance(node, cst.If) and any(
        isinstance(part, cst.Name) and part.value == "__name__" for part in walk(node.test)
    )


def world_size(facts: ProgramFacts, ctx: Ctx) -> str:
    """An expression for the number of processes that share the machine, as code in `ctx` knows it; "" for one."""
    starts = facts.calls("torch.distributed.init_process_group")
    modules = [made.value for made in facts.made(Module)]
    wrapped = any(isinstance(module, Module) and module.wrapper in ("ddp", "fsdp") for module in modules)
    if not starts and not wrapped:
        return ""
    for start in starts:
        given = start.args.nodes.get("world_size")
        if given is not None and isinstance(given.value, cst.Name) and start.ctx.frame() is ctx.frame():
            return given.value.value
    if any(not any(up.kind == "guard" and not is_main_guard(up) for up in start.ctx.up()) for start in starts):
        return "torch.distributed.get_world_size()"
    return 'int(os.environ.get("WORLD_SIZE", "1"))'

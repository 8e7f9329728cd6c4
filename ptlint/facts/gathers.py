"""Operations on device tensors whose result has a size that only the values tell, and indexing by Python lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Call, Ctx
from ptlint.facts.values import DEVICE, Array, Const, Items, Num, Sequence, Tensor, Tuple, Value, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

ITEM = "torch.Tensor.__getitem__"
_ALWAYS = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"})


def data_dependent(program: ProgramFacts) -> Iterator[tuple[Call, Ctx, str]]:
    """Hot operations with data-dependent shapes, with the loop and what is done."""
    seen: set[tuple[object, ...]] = set()
    for call in program.events(Call):
        what = _what(call)
        loop = program.hot(call) if what is not None else None
        if what is None or loop is None or program.off_path(call.ctx) or program.timing.measured(call):
            continue
        # One wait for a statement, and one for what is picked by the same mask.
        statement = (id(loop), id(call.place.tree.statement(call.place.node)))
        picked = (id(loop), id(call.ctx.frame()), what, _mask_code(call))
        if statement not in seen and (picked not in seen or not picked[-1]):
            yield call, loop, what
        seen |= {statement, picked}


def _mask_code(call: Call) -> str:
    node = call.place.node
    if not isinstance(node, cst.Subscript):
        return ""
    return ", ".join(call.place.tree.code(element) for element in node.slice)


def _what(call: Call) -> str | None:
    if call.name == ITEM:
        masked = call.receiver is not None and _on_device(call.receiver)
        return "a boolean mask" if masked and any(_is_mask(part) for part in parts(call.args.extra[0])) else None
    owner, _, short = call.name.rpartition(".")
    if owner not in ("torch", "torch.Tensor"):
        return None
    given = [*([call.receiver] if call.receiver is not None else []), *call.args.bound.values(), *call.args.extra]
    if not any(_on_device(value) for value in given):
        return None
    if short in _ALWAYS:
        return f"`{short}`"
    if short == "where" and call.receiver is None and len(given) == 1 and not call.args.open:
        return "`where` with one argument"
    if (
        short == "repeat_interleave"
        and _on_device(call.args.get("repeats"))
        and call.args.state("output_size") == "absent"
    ):
        return "`repeat_interleave` without `output_size`"
    return None


def listed(program: ProgramFacts) -> Iterator[tuple[Call, Ctx]]:
    """Hot reads of device tensors by a Python list or range."""
    for call in program.calls(ITEM):
        loop = program.hot(call)
        if loop is None or program.off_path(call.ctx) or program.timing.measured(call):
            continue
        if call.receiver is None or not _on_device(call.receiver):
            continue
        if any(_is_list(part) for part in parts(call.args.extra[0])):
            yield call, loop


def parts(index: Value) -> Iterator[Value]:
    """The parts of an index."""
    for option in options(index):
        if isinstance(option, Tuple):
            for item in option.items:
                yield from options(item)
        else:
            yield option


def _is_mask(value: Value) -> bool:
    return isinstance(value, Tensor) and value.dtype == "bool" and value.where == DEVICE


def _is_list(value: Value) -> bool:
    if isinstance(value, Items):
        return value.kind == "range" or (value.kind == "list" and isinstance(value.item, (Num, Const)))
    return isinstance(value, Sequence) and all(isinstance(o, (Num, Const, Array)) for o in options(value.element()))


def _on_device(value: Value) -> bool:
    return any(isinstance(option, Tensor) and option.where == DEVICE for option in options(value))


__all__ = ["data_dependent", "listed"]

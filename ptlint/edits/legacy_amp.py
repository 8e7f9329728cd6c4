"""From `torch.cuda.amp` and `torch.cpu.amp` to `torch.amp`, so that the same objects are made.

The old `autocast(enabled, dtype, cache_enabled)` has float16 (on the CPU bfloat16) for its dtype wherever it stands;
the new one takes that of an autocast around it. So the dtype is written out. Positional arguments get their names,
since the new order is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.arguments import add_keyword
from ptlint.edits.layout import CannotEdit
from ptlint.facts.imported import Imported, imported, importers, name_of, uses
from ptlint.findings import Edit
from ptlint.torch_version import Version

if TYPE_CHECKING:
    from ptlint.facts.events import Place
    from ptlint.facts.program import ProgramFacts

Change = tuple[tuple[Edit, ...], tuple[str, ...]]
"""Edits and wanted imports."""

SINCE: dict[str, Version] = {"autocast": (1, 10), "GradScaler": (2, 3), "custom_fwd": (2, 4), "custom_bwd": (2, 4)}
"""What `torch.amp` holds, and since when."""

_AUTOCAST_PARAMS = ("enabled", "dtype", "cache_enabled")
_DTYPES = {"cuda": "float16", "cpu": "bfloat16"}
_MODULES = {"cuda": "torch.cuda.amp", "cpu": "torch.cpu.amp"}


def modernise(program: ProgramFacts, place: Place, name: str, device: str) -> Change:
    """The change of one use of `torch.{device}.amp.{name}`, a call or a decorator.

    Where the use goes by a name that the file imports, the import is changed, with every use of what it imports.
    """
    callee = place.node.func if isinstance(place.node, cst.Call) else place.node
    assert isinstance(callee, cst.BaseExpression)
    root = _root(callee)
    if root is None:
        raise CannotEdit("it is called by another name: change that")
    dotted = place.tree.code(callee).replace(" ", "").split(".")
    found = imported(program, place.file, root)
    if found is None or found.item.level:
        raise CannotEdit(f"`{root}` is not simply an import of this file: change it where it is made")
    meaning = _meaning(found, dotted)
    if meaning != f"{_MODULES[device]}.{name}":
        raise CannotEdit("it is called by another name: change that")
    if found.item.name is None and (found.item.asname is None or found.item.module == "torch"):
        return _one(program, place, name, device, root)
    torch = name_of(place.file, "torch") or "torch"
    try:
        return _all(program, found, device, torch)
    except CannotEdit:
        return _one(program, place, name, device, torch)


def _root(node: cst.BaseExpression) -> str | None:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else None


def _meaning(found: Imported, dotted: list[str]) -> str:
    item = found.item
    if item.name is not None:
        head = f"{item.module}.{item.name}"
    else:
        head = item.module if item.asname is not None else dotted[0]
    return ".".join([head, *dotted[1:]])


def _one(program: ProgramFacts, place: Place, name: str, device: str, torch: str) -> Change:
    node = place.node
    start, end = place.tree.outer_span(node.func if isinstance(node, cst.Call) else node)
    callee = f"{torch}.amp.{name}"
    edits = _arguments(program, place, name, device, torch)
    if edits and edits[0].start == end:
        edits = [Edit(start, end, callee + edits[0].text)]
    else:
        edits = [Edit(start, end, callee), *edits]
    return tuple(edits), _wanted(torch)


def _wanted(torch: str) -> tuple[str, ...]:
    return ("import torch",) if torch == "torch" else ()


def _all(program: ProgramFacts, found: Imported, device: str, torch: str) -> Change:
    """Change an import and all uses of what it imports."""
    statement = found.place.node
    edits = [_import(found, statement, device)]
    file = found.place.file
    wants_torch = False
    for item in found.items:
        name = item.asname or item.name
        assert name is not None
        if any(importers(program, file, name)):
            raise CannotEdit(f"another file takes `{name}` from here")
        places = uses(program, file, name)
        if places is None:
            raise CannotEdit(f"`{name}` means something else in places")
        for use in places:
            more = _use(program, use, item.name or "", device, torch)
            wants_torch = wants_torch or any(f"{torch}." in edit.text for edit in more)
            edits.extend(more)
    return tuple(edits), _wanted(torch) if wants_torch else ()


def _import(found: Imported, statement: cst.CSTNode, device: str) -> Edit:
    tree = found.place.tree
    if isinstance(statement, cst.ImportFrom) and statement.module is not None:
        if found.item.module == _MODULES[device] and all(item.name in SINCE for item in found.items):
            return Edit(*tree.span(statement.module), "torch.amp")
        if found.item.module == f"torch.{device}" and len(found.items) == 1:
            return Edit(*tree.span(statement.module), "torch")
    if isinstance(statement, cst.Import) and len(statement.names) == 1 and found.item.module == _MODULES[device]:
        return Edit(*tree.span(statement.names[0].name), "torch.amp")
    raise CannotEdit("the import brings other things too")


def _use(program: ProgramFacts, use: Place, item: str, device: str, torch: str) -> list[Edit]:
    """The change at one use of an imported name, or of an imported module `amp`."""
    tree, node = use.tree, use.node
    if any(mark in use.source.line(use.row) for mark in ("noqa", "ptlint:")):
        raise CannotEdit("one of the uses is left alone on purpose")
    name = item
    if item not in SINCE:
        node = tree.parent(node) or node
        if not isinstance(node, cst.Attribute) or node.attr.value not in SINCE:
            raise CannotEdit("the module is used for other things too")
        name = node.attr.value
    parent = tree.parent(node)
    if isinstance(parent, cst.Call) and parent.func is node:
        return _arguments(program, use.at(parent), name, device, torch)
    if isinstance(parent, cst.Decorator):
        return _arguments(program, use.at(node), name, device, torch)
    if name != "GradScaler":  # the new GradScaler is the old one's base: it serves in annotations and `isinstance`
        raise CannotEdit(f"`{name}` is passed on")
    return []


def _arguments(program: ProgramFacts, place: Place, name: str, device: str, torch: str) -> list[Edit]:
    if program.config.torch_version < SINCE[name]:
        wanted = ".".join(map(str, SINCE[name]))
        raise CannotEdit(f"the project works with PyTorch older than {wanted}, which has no `torch.amp.{name}`")
    call = place.node
    if name in ("custom_fwd", "custom_bwd"):
        if not isinstance(call, cst.Call):
            end = place.tree.outer_span(call)[1]
            return [Edit(end, end, f'(device_type="{device}")')]
        return list(add_keyword(place.tree, call, "device_type", f'"{device}"'))
    if not isinstance(call, cst.Call):
        raise CannotEdit(f"`{name}` is used without a call")
    first = f'"{device}"'
    named: list[Edit] = []
    if name == "autocast":
        first, named = _autocast(program, place, call, first, device, torch)
    if not call.args:
        close = place.tree.span(call)[1] - 1
        return [Edit(close, close, first)]
    start = place.tree.span(call.args[0])[0]
    # One edit where the first argument gets its name too.
    lead = next((edit.text for edit in named if edit.start == start), "")
    return [Edit(start, start, f"{first}, {lead}"), *(edit for edit in named if edit.start != start)]


def _autocast(
    program: ProgramFacts, place: Place, call: cst.Call, first: str, device: str, torch: str
) -> tuple[str, list[Edit]]:
    """What goes in front of an autocast's arguments, and the names that its positional ones get."""
    given: set[str] = set()
    named: list[Edit] = []
    for index, arg in enumerate(call.args):
        if arg.star:
            raise CannotEdit(f"`{place.tree.code(arg)}` may hold the dtype")
        if arg.keyword is not None:
            given.add(arg.keyword.value)
            continue
        name = _AUTOCAST_PARAMS[index]
        given.add(name)
        start = place.tree.outer_span(arg.value)[0]
        named.append(Edit(start, start, f"{name}="))
    if "dtype" not in given:
        first += f", dtype={torch}.{_DTYPES[device]}"
    if "cache_enabled" not in given and "cache_enabled" in program.words:
        first += ", cache_enabled=True"
    return first, named

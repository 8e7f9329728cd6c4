"""Imports under other names, and names from imports read from their modules instead."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import libcst as cst

from metamorphic.names import File, Program, Unit, dotted
from metamorphic.project import Files, bound_by, import_statements

Edit = tuple[int, int, str]


def aliased(program: Program) -> Program:
    """`import torch` as `import torch as t0`, `from a import b` as `from a import b as t1`, and so on."""
    files = Files(program)
    return {name: file.edited(_alias_edits(file, files)) for name, file in files.all.items()}


def from_modules(program: Program) -> Program:
    """`from a.b import c` as `import a.b as m0` with `m0.c` for `c`; `import a.b as c` as `from a import b as m1`."""
    files = Files(program)
    return {name: file.edited(_module_edits(file, files)) for name, file in files.all.items()}


def _alias_edits(file: File, files: Files) -> Iterator[Edit]:
    new = count()
    for unit in file.units:
        if not unit.imports or unit.is_fixed or files.is_shared(unit) or _is_from_future(unit):
            continue
        name = f"t{next(new)}_"
        yield from file.renamed(unit.nodes, name)
        for assignment in unit.imports:
            statement = assignment.node
            assert isinstance(statement, cst.Import | cst.ImportFrom)
            assert not isinstance(statement.names, cst.ImportStar)
            for alias in statement.names:
                if bound_by(alias) == unit.name:
                    yield _renamed_alias(file, alias, name)


def _renamed_alias(file: File, alias: cst.ImportAlias, name: str) -> Edit:
    if alias.asname is not None:
        return (*file.span(alias.asname.name), name)
    _, end = file.span(alias.name)
    if isinstance(alias.name, cst.Attribute):
        return (end, end, f", {dotted(alias.name).partition('.')[0]} as {name}")
    return (end, end, f" as {name}")


def _is_from_future(unit: Unit) -> bool:
    return any(
        isinstance(each.node, cst.ImportFrom) and dotted(each.node.module) == "__future__" for each in unit.imports
    )


def _module_edits(file: File, files: Files) -> Iterator[Edit]:
    units = {
        (unit.imports[0].node, unit.name): unit
        for unit in file.units
        if unit.is_import and len(unit.imports) == 1 and not unit.is_fixed and not files.is_shared(unit)
    }
    new = count()
    for statement in import_statements(file):
        if isinstance(statement.names, cst.ImportStar):
            continue
        found = [(alias, units.get((statement, bound_by(alias)))) for alias in statement.names]
        if isinstance(statement, cst.ImportFrom):
            yield from _from_module(file, statement, found, files, f"m{next(new)}_")
        elif len(found) == 1:
            yield from _from_parent(file, statement, *found[0], f"m{next(new)}_")


def _from_module(
    file: File,
    statement: cst.ImportFrom,
    found: list[tuple[cst.ImportAlias, Unit | None]],
    files: Files,
    name: str,
) -> Iterator[Edit]:
    module = dotted(statement.module)
    # What is a file of the package is no attribute of it before somebody imports it.
    taken = [(alias, unit) for alias, unit in found if unit is not None and dotted(alias.name) not in files.modules]
    start, end = file.span(statement)
    text = file.text.encode()[start:end]
    if not taken or not module or module == "__future__" or b"#" in text:
        return
    level = "." * len(statement.relative)
    parent, _, last = module.rpartition(".")
    written = [f"from {level}{parent} import {last} as {name}" if level else f"import {module} as {name}"]
    rest = [_written(alias) for alias, _ in found if all(alias is not other for other, _ in taken)]
    if rest:
        written.append(f"from {level}{module} import {', '.join(rest)}")
    # Later rows stay where they are.
    yield (start, end, "; ".join(written) + "\n" * text.count(b"\n"))
    for alias, unit in taken:
        yield from file.renamed(unit.nodes, f"{name}.{dotted(alias.name)}")


def _from_parent(
    file: File, statement: cst.Import, alias: cst.ImportAlias, unit: Unit | None, name: str
) -> Iterator[Edit]:
    parent, _, last = dotted(alias.name).rpartition(".")
    if unit is None or alias.asname is None or not parent:
        return
    yield (*file.span(statement), f"from {parent} import {last} as {name}")
    yield from file.renamed(unit.nodes, name)


def _written(alias: cst.ImportAlias) -> str:
    name = dotted(alias.name)
    return name if alias.asname is None else f"{name} as {bound_by(alias)}"

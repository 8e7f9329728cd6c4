"""Every name that a program defines under another one.

Local variables have a new name in each scope; module-level names, attributes and parameters that are passed by keyword
have one each in the whole program, and keep theirs where a library may know it: hooks and overridden methods, options
of a command line, keys of `**`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import libcst as cst
from libcst.metadata import ClassScope

from metamorphic.attributes import Attributes
from metamorphic.names import File, Program, Unit, dotted, leftmost
from metamorphic.parameters import Parameters
from metamorphic.project import Files, bound_by, import_statements

Edit = tuple[int, int, str]


def renamed(program: Program) -> Program:
    files = Files(program)
    if any(dotted(call.func) in ("exec", "eval", "globals", "locals", "vars") for call in _calls(files)):
        return program  # such a program may know its names as strings
    shared = _shared(files)
    attributes = Attributes(files)
    new_attributes = {name: f"a{number}_" for number, name in enumerate(sorted(attributes.free))}
    parameters = Parameters(files, attributes)
    by_keyword = {name: f"k{number}_" for number, name in enumerate(sorted(parameters.by_keyword))}
    changed = {}
    for name, file in files.all.items():
        edits = [
            *_unit_edits(file, files, shared, new_attributes, parameters, by_keyword),
            *_import_edits(file, files, shared),
            *_attribute_edits(file, files, shared, new_attributes),
            *_keyword_edits(file, parameters, by_keyword),
        ]
        changed[name] = file.edited(edits)
    return changed


def _calls(files: Files) -> Iterator[cst.Call]:
    for file in files.all.values():
        for node in file.nodes:
            if isinstance(node, cst.Call):
                yield node


def _shared(files: Files) -> dict[str, str]:
    """The new names of what stands at the top level of the program's files."""
    free: set[str] = set()
    kept = set(files.modules)
    for file in files.all.values():
        for unit in file.units:
            if unit.is_global and not unit.imports:
                free.add(unit.name)
                if unit.is_fixed or files.has_star:
                    kept.add(unit.name)
            elif any(_own_alias(files, unit)):
                if unit.is_fixed or not unit.is_import:
                    kept.add(unit.name)
            elif unit.is_global:
                kept.add(unit.name)
        kept |= file.strings  # `__all__`, and what `getattr` may ask for
    return {name: f"g{number}_" for number, name in enumerate(sorted(free - kept))}


def _own_alias(files: Files, unit: Unit) -> Iterator[cst.ImportAlias]:
    """The aliases of `from … import` that bind a unit to something of the program's own files."""
    for assignment in unit.imports:
        statement = assignment.node
        if isinstance(statement, cst.ImportFrom) and files.reads_own(statement):
            assert not isinstance(statement.names, cst.ImportStar)
            yield from (alias for alias in statement.names if bound_by(alias) == unit.name)


def _unit_edits(
    file: File,
    files: Files,
    shared: dict[str, str],
    new_attributes: dict[str, str],
    parameters: Parameters,
    by_keyword: dict[str, str],
) -> Iterator[Edit]:
    new = count()
    for unit in file.units:
        if unit.is_global:
            name = shared.get(unit.name) if not unit.imports else _of_import(files, unit, shared)
        elif unit.imports:
            name = _of_import(files, unit, shared)
        elif isinstance(unit.scope, ClassScope):
            name = new_attributes.get(unit.name)
        elif unit.params:
            name = by_keyword.get(unit.name) or (f"v{next(new)}_" if parameters.is_free(unit) else None)
        else:
            name = f"v{next(new)}_"
        if name is not None and not unit.is_fixed and not (unit.params and not parameters.is_free(unit)):
            yield from file.renamed(unit.nodes, name)


def _of_import(files: Files, unit: Unit, shared: dict[str, str]) -> str | None:
    names = {dotted(alias.name) for alias in _own_alias(files, unit) if alias.asname is None}
    return shared.get(names.pop()) if len(names) == 1 else None


def _import_edits(file: File, files: Files, shared: dict[str, str]) -> Iterator[Edit]:
    for statement in import_statements(file):
        if isinstance(statement.names, cst.ImportStar):
            continue
        if isinstance(statement, cst.ImportFrom) and files.reads_own(statement):
            for alias in statement.names:
                if dotted(alias.name) in shared:
                    yield (*file.span(alias.name), shared[dotted(alias.name)])


def _attribute_edits(
    file: File, files: Files, shared: dict[str, str], new_attributes: dict[str, str]
) -> Iterator[Edit]:
    for node in file.nodes:
        if not isinstance(node, cst.Attribute):
            continue
        root = file.unit_of.get(leftmost(node))
        if root is None or not root.imports:
            name = new_attributes.get(node.attr.value)
        elif not files.is_own(root):
            continue  # of a library
        elif _names_something(node.value, root, shared):
            name = new_attributes.get(node.attr.value)
        else:
            name = shared.get(node.attr.value)
        if name is not None:
            yield (*file.span(node.attr), name)


def _names_something(node: cst.BaseExpression, root: Unit, shared: dict[str, str]) -> bool:
    """Whether a chain that begins in the program's own module has already come to one of the names in it."""
    imported = {
        dotted(alias.name)
        for assignment in root.imports
        if isinstance(statement := assignment.node, cst.ImportFrom) and not isinstance(statement.names, cst.ImportStar)
        for alias in statement.names
        if bound_by(alias) == root.name
    }
    return bool(imported & shared.keys()) or any(part in shared for part in dotted(node).split(".")[1:])


def _keyword_edits(file: File, parameters: Parameters, by_keyword: dict[str, str]) -> Iterator[Edit]:
    for argument in parameters.renamed_keywords(file):
        assert argument.keyword is not None
        yield (*file.span(argument.keyword), by_keyword[argument.keyword.value])

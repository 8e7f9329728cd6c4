"""What the files of a program know of one another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

import libcst as cst
from libcst.metadata import ImportAssignment

from metamorphic.names import File, Program, Unit, dotted, leftmost


class Files:
    """A program's files, parsed, with what passes between them by imports."""

    def __init__(self, program: Program) -> None:
        self.all = {name: File(name, text) for name, text in program.items()}
        self.modules = {part for name in program for part in PurePosixPath(name).with_suffix("").parts}
        self.exported: set[str] = set()
        """Names that files take from one another; a change of them concerns several files."""
        self.has_star = False
        for file in self.all.values():
            for node in file.nodes:
                if isinstance(node, cst.ImportFrom) and self.reads_own(node):
                    if isinstance(node.names, cst.ImportStar):
                        self.has_star = True
                    else:
                        self.exported.update(dotted(alias.name) for alias in node.names)
                elif isinstance(node, cst.Assign) and any(dotted(each.target) == "__all__" for each in node.targets):
                    self.exported |= file.strings
                elif isinstance(node, cst.Attribute) and (unit := file.unit_of.get(leftmost(node))) is not None:
                    if self.is_own(unit):
                        self.exported.add(node.attr.value)

    def reads_own(self, statement: cst.Import | cst.ImportFrom) -> bool:
        """Whether an import may be one of the program's own files."""
        if isinstance(statement, cst.ImportFrom):
            return bool(statement.relative) or dotted(statement.module).partition(".")[0] in self.modules
        return any(dotted(alias.name).partition(".")[0] in self.modules for alias in statement.names)

    def is_own(self, unit: Unit) -> bool:
        """Whether an import of the program's own files binds a unit."""
        return any(self._is_own_binding(each) for each in unit.imports)

    def is_shared(self, unit: Unit) -> bool:
        """Whether other files may use the unit."""
        return unit.is_global and (self.has_star or unit.name in self.exported)

    def _is_own_binding(self, assignment: ImportAssignment) -> bool:
        node = assignment.node
        if isinstance(node, cst.ImportFrom):
            return self.reads_own(node)
        assert isinstance(node, cst.Import)
        return any(
            dotted(alias.name).partition(".")[0] in self.modules
            and bound_by(alias) == assignment.name.partition(".")[0]
            for alias in node.names
        )


def bound_by(alias: cst.ImportAlias) -> str:
    """The name that an alias of an import binds."""
    if alias.asname is not None:
        return cst.ensure_type(alias.asname.name, cst.Name).value
    return dotted(alias.name).partition(".")[0]


def import_statements(file: File) -> Iterator[cst.Import | cst.ImportFrom]:
    for node in file.nodes:
        if isinstance(node, cst.Import | cst.ImportFrom):
            yield node

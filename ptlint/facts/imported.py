"""A name that a file imports: the statement that binds it, and every place that uses it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Place

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.outline.project import ProjectFile
    from ptlint.outline.shape import Import


@dataclass(frozen=True)
class Imported:
    """An import at a file's top level. `place`: the statement; `items`: all that it imports; `item`: the name's own."""

    place: Place
    items: tuple[Import, ...]
    item: Import


def imported(program: ProgramFacts, file: ProjectFile, name: str) -> Imported | None:
    """The import that alone binds `name` in a file; None where there is none, or something else binds it too."""
    binders = [statement for statement in file.outline.statements if name in statement.binds]
    if len(binders) != 1 or binders[0].kind != "import":
        return None
    statement = binders[0]
    items = tuple(
        item for item in file.outline.imports if item.top and statement.first_row <= item.row <= statement.last_row
    )
    own = [item for item in items if (item.asname or item.name or item.module.partition(".")[0]) == name]
    tree = program.run.trees.whole(file, statement)
    if len(own) != 1 or tree is None:
        return None
    nodes = [node for line in tree.body if isinstance(line, cst.SimpleStatementLine) for node in line.body]
    if len(nodes) != 1:
        return None
    return Imported(Place(file, tree, nodes[0]), items, own[0])


def name_of(file: ProjectFile, module: str) -> str | None:
    """The name by which a file's top level knows a module that it imports; None where it imports it by none."""
    for item in file.outline.imports:
        if item.top and item.name is None and not item.level:
            if item.asname is None and "." not in module and item.module.partition(".")[0] == module:
                return module
            if item.asname is not None and item.module == module:
                return item.asname
    return None


def uses(program: ProgramFacts, file: ProjectFile, name: str) -> list[Place] | None:
    """The places that read a global name of a file; None where some scope of the file gives it another meaning."""
    found: list[Place] = []
    for statement in file.outline.statements:
        if name not in statement.words or statement.kind == "import":
            continue
        tree = program.run.trees.tree(file, statement)
        if tree is None:
            return None
        for node in tree.nodes(cst.Name):
            if node.value != name:
                continue
            role = _role(node, tree.parent(node))
            if role == "binds":
                return None
            if role == "reads":
                found.append(Place(file, tree, node))
    return found


def _role(node: cst.Name, parent: cst.CSTNode | None) -> str:
    """Whether a name node binds the name, reads it, or is only spelled like it."""
    if isinstance(parent, cst.Attribute):
        return "reads" if parent.value is node else ""
    if isinstance(parent, cst.Arg):
        return "" if parent.keyword is node else "reads"
    if isinstance(parent, cst.Param):
        return "binds" if parent.name is node else "reads"
    if isinstance(parent, (cst.AssignTarget, cst.AsName, cst.ImportAlias, cst.NameItem, cst.Global, cst.Nonlocal)):
        return "binds"
    if isinstance(parent, (cst.AugAssign, cst.AnnAssign, cst.For, cst.CompFor, cst.NamedExpr)):
        return "binds" if parent.target is node else "reads"
    if isinstance(parent, (cst.FunctionDef, cst.ClassDef)):
        return "binds" if parent.name is node else "reads"
    if isinstance(parent, (cst.Element, cst.StarredElement, cst.Tuple, cst.List, cst.MatchAs, cst.MatchStar, cst.Del)):
        return "binds"  # an unpacking target, as far as can be told here
    return "reads"


def importers(program: ProgramFacts, file: ProjectFile, name: str) -> Iterator[ProjectFile]:
    """The program's other files that take a name from a file, by `from` or as an attribute of it."""
    for path in program.program.files:
        other = program.project.file(path)
        if path == file.path:
            continue
        for item in other.outline.imports:
            target = program.project.resolve(path, item.module, item.level, entry=program.program.entry)
            if target == file.path and (item.name in (name, "*") or item.name is None):
                yield other
                break

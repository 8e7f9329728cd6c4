"""Which files of a project an import statement reads, as Python would find them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

from ptlint.outline.shape import Import
from ptlint.source.ignored import is_within

Found = tuple[tuple[str, ...], bool]
"""The files that importing a module runs, packages first, and whether the module itself is the last of them."""

_NOTHING: Found = ((), False)


class Resolver:
    """Answers from the list of the project's files alone: it never touches the disk. Paths are absolute strings.

    A module is looked for in the folder of the program's entry (`sys.path[0]` of a script), in the root, in its `src`,
    and then, for programs that extend the path themselves, in the folders between the importing file and the root.
    """

    def __init__(self, root: str, files: Iterable[str]) -> None:
        self._root = root
        self._files = frozenset(files)
        self._folders: set[str] = set()
        self._names_in: dict[str, set[str]] = {}
        for path in self._files:
            folder, name = os.path.split(path)
            self._names_in.setdefault(folder, set()).add(name.removesuffix(".py"))
            while folder not in self._folders:
                self._folders.add(folder)
                above, name = os.path.split(folder)
                if above == folder or folder == root:
                    break
                self._names_in.setdefault(above, set()).add(name)
                folder = above
        self._names = frozenset().union(*self._names_in.values())
        self._found: dict[tuple[str, str], Found] = {}
        self._absolute: dict[tuple[str, str, str], Found] = {}

    def module(self, importer: str, module: str, level: int, entry: str) -> Found:
        """What importing `module` in the file `importer` of the program of `entry` runs."""
        folder = os.path.dirname(importer)
        if level:
            return self._relative(folder, module, level)
        if not self.is_known(module):
            return _NOTHING
        entry_folder = os.path.dirname(entry)
        key = (folder, entry_folder if self.sways(entry_folder, module) else "", module)
        found = self._absolute.get(key)
        if found is None:
            found = self._absolute[key] = self._search(*key)
        return found

    def is_known(self, module: str) -> bool:
        """Whether anything in the project could be meant by an absolute import of `module`."""
        return module.partition(".")[0] in self._names

    def sways(self, folder: str, module: str) -> bool:
        """Whether an entry in `folder` can make an absolute import of `module` mean something else."""
        return module.partition(".")[0] in self._names_in.get(folder, ())

    def names_in(self, folder: str) -> Iterable[str]:
        """The modules and folders in a folder: what an import can begin with there."""
        return self._names_in.get(folder, ())

    def members(self, importer: str, package: str, entry: str) -> list[str]:
        """The names of the modules in a package, as the file `importer` of the program of `entry` would find it."""
        for base in dict.fromkeys(self._bases(os.path.dirname(importer), os.path.dirname(entry))):
            folder = os.path.join(base, *package.split("."))
            if folder in self._folders:
                return sorted(self._names_in.get(folder, set()) - {"__init__"})
        return []

    def targets(self, importer: str, statement: Import, entry: str) -> tuple[str, ...]:
        """All files that an import statement runs, in the order in which it runs them."""
        files, _ = self.module(importer, statement.module, statement.level, entry)
        if statement.name is None or statement.name == "*":
            return files
        dot = "." if statement.module else ""
        deeper, complete = self.module(importer, statement.module + dot + statement.name, statement.level, entry)
        return deeper if complete else files

    def _search(self, folder: str, entry_folder: str, module: str) -> Found:
        best = _NOTHING
        if module.partition(".")[0] in sys.stdlib_module_names:
            # Only a script's own folder comes before the standard library.
            if not entry_folder or os.path.join(entry_folder, "__init__.py") in self._files:
                return _NOTHING
            return self._in_folder(entry_folder, module)
        for base in dict.fromkeys(self._bases(folder, entry_folder)):
            found = self._in_folder(base, module)
            if found[1]:
                return found
            if len(found[0]) > len(best[0]):
                best = found
        return best

    def _bases(self, folder: str, entry_folder: str) -> Iterator[str]:
        if entry_folder:
            yield entry_folder
        yield self._root
        yield os.path.join(self._root, "src")
        while folder != self._root and is_within(folder, self._root):
            yield folder
            folder = os.path.dirname(folder)

    def _relative(self, folder: str, module: str, level: int) -> Found:
        for _ in range(level - 1):
            if folder == self._root:
                return _NOTHING
            folder = os.path.dirname(folder)
        packages: list[str] = []
        package = os.path.join(folder, "__init__.py")
        above = folder
        while package in self._files:
            packages.append(package)
            above = os.path.dirname(above)
            package = os.path.join(above, "__init__.py")
        packages.reverse()
        if not module:
            return (tuple(packages), bool(packages))
        files, complete = self._in_folder(folder, module)
        return ((*packages, *files), complete)

    def _in_folder(self, base: str, module: str) -> Found:
        key = (base, module)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._follow(base, module.split("."))
        return found

    def _follow(self, place: str, names: list[str]) -> Found:
        files: list[str] = []
        complete = False
        for count, name in enumerate(names, 1):
            place = os.path.join(place, name)
            package, module = os.path.join(place, "__init__.py"), place + ".py"
            if package in self._files:
                files.append(package)
                complete = count == len(names)
            elif module in self._files:
                files.append(module)
                complete = count == len(names)
                break
            elif place not in self._folders:
                break
        return (tuple(files), complete)

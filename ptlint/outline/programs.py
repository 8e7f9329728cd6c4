"""The programs of a project: entry files, and what each reaches by imports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from ptlint.outline.resolve import Resolver
from ptlint.outline.shape import Import

# Bounds the exact searches of all entries together; entries beyond it go by the files' own view of their imports.
MAX_VISITS = 1_000_000

_Statements = list[tuple[Import, list[int]]]


class ImportGraph:
    """Who imports whom, and what each entry reaches. Files are numbers, sets of them the bits of an integer.

    An import can mean another file in another program, since an entry's own folder comes first in the search. Each file
    has its targets as if it were the entry itself; where an entry's folder would change those of a file that it
    reaches, its program is searched for again, exactly.
    """

    def __init__(
        self,
        files: Sequence[str],
        imports: Callable[[str], Iterable[Import]],
        has_main_guard: Callable[[str], bool],
        is_test: Callable[[str], bool],
        resolver: Resolver,
    ) -> None:
        self._files = files
        self._numbers = {path: number for number, path in enumerate(files)}
        self._resolver = resolver
        self._importers_of: dict[str, int] = {}
        # For each file its imports of the project's files, with the files that they mean to it by itself.
        self._by_statement = [self._read(number, list(imports(path))) for number, path in enumerate(files)]
        self._targets = [self._joined(number, found) for number, found in enumerate(self._by_statement)]
        self._is_test = [is_test(path) for path in files]
        self._exact: set[int] = set()
        self._visits = 0
        self._last_folder = ""
        self._last_found: dict[int, list[int]] = {}
        self._reach = self._entries(has_main_guard)
        self._first: dict[int, int] = {}

    @property
    def entries(self) -> list[str]:
        return [self._files[number] for number in self._reach]

    def entries_reaching(self, paths: Iterable[str]) -> list[str]:
        """The entries whose programs hold any of these files."""
        numbers = [self._numbers[path] for path in paths]
        wanted = sum(1 << number for number in set(numbers))
        # A test is nobody's program but its own.
        found = {number for number in numbers if self._is_test[number]}
        found.update(entry for entry, reached in self._reach.items() if reached & wanted)
        return [self._files[entry] for entry in sorted(found)]

    def first_reaching(self, path: str) -> str | None:
        """The first entry whose program holds a file."""
        if not self._first:
            known = 0
            for entry, reached in self._reach.items():
                self._first.update((number, entry) for number in _bits(reached & ~known))
                known |= reached
        first = self._first.get(self._numbers[path])
        return self._files[first] if first is not None else None

    def order(self, entry: str) -> list[str]:
        """The files of an entry's program, breadth first in the order of its imports."""
        return [self._files[number] for number in self._breadth_first(self._numbers[entry])]

    def _read(self, number: int, statements: Iterable[Import]) -> _Statements:
        path = self._files[number]
        found: _Statements = []
        for statement in statements:
            if not statement.level and self._resolver.is_known(statement.module):
                top = statement.module.partition(".")[0]
                self._importers_of[top] = self._importers_of.get(top, 0) | 1 << number
                found.append((statement, self._resolved(path, statement, path)))
            elif statement.level:
                found.append((statement, self._resolved(path, statement, path)))
        return found

    def _resolved(self, path: str, statement: Import, entry: str) -> list[int]:
        return [self._numbers[target] for target in self._resolver.targets(path, statement, entry)]

    def _joined(self, number: int, found: _Statements) -> list[int]:
        joined = dict.fromkeys(target for _, targets in found for target in targets)
        joined.pop(number, None)
        return list(joined)

    def _swayed(self, entry: int) -> int:
        """The files whose imports may mean something else in this entry's program."""
        mask = 0
        for name in self._resolver.names_in(os.path.dirname(self._files[entry])):
            mask |= self._importers_of.get(name, 0)
        return mask

    def _targets_for(self, number: int, folder: str) -> list[int]:
        """The targets of a file in a program whose entry lies in `folder`."""
        path = self._files[number]
        if os.path.dirname(path) == folder:
            return self._targets[number]
        # Entries of a folder come one after another: what was found for the last folder is enough to keep.
        if self._last_folder != folder:
            self._last_folder, self._last_found = folder, {}
        known = self._last_found.get(number)
        if known is None:
            entry = os.path.join(folder, "__main__.py")
            found = [
                (statement, self._resolved(path, statement, entry))
                if not statement.level and self._resolver.sways(folder, statement.module)
                else (statement, targets)
                for statement, targets in self._by_statement[number]
            ]
            same = found == self._by_statement[number]
            known = self._last_found[number] = self._targets[number] if same else self._joined(number, found)
        return known

    def _breadth_first(self, entry: int) -> list[int]:
        swayed = self._swayed(entry) if entry in self._exact else 0
        folder = os.path.dirname(self._files[entry])
        order = [entry]
        seen = {entry}
        for number in order:
            targets = self._targets_for(number, folder) if swayed >> number & 1 else self._targets[number]
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    order.append(target)
        return order

    def _reach_of(self, entry: int, rough: int) -> int:
        """What an entry reaches, where `rough` is what it reaches if its folder changes nothing."""
        folder = os.path.dirname(self._files[entry])
        if self._visits < MAX_VISITS and any(
            self._targets_for(number, folder) is not self._targets[number]
            for number in _bits(rough & self._swayed(entry))
        ):
            self._exact.add(entry)
            order = self._breadth_first(entry)
            self._visits += len(order)
            return sum(1 << number for number in order)
        return rough

    def _entries(self, has_main_guard: Callable[[str], bool]) -> dict[int, int]:
        """Each entry with what it reaches."""
        rough, components = self._rough_reach()
        imported = 0
        for number, targets in enumerate(self._targets):
            if not self._is_test[number]:
                for target in targets:
                    imported |= 1 << target
        guarded = [has_main_guard(path) for path in self._files]
        found = {
            number: self._reach_of(number, rough[number])
            for number in range(len(self._files))
            if not self._is_test[number] and (guarded[number] or not imported >> number & 1)
        }
        for number in sorted(self._exact):
            for other in _bits(found.get(number, 0)):
                if other != number and other in found and not guarded[other]:
                    del found[other]
        covered = 0
        for reached in found.values():
            covered |= reached
        # What is left is imported in circles, or by nobody in the entries' programs: importers come first here.
        for number in (number for component in components for number in component):
            if not covered >> number & 1 and not self._is_test[number]:
                found[number] = self._reach_of(number, rough[number])
                covered |= found[number]
        return dict(sorted(found.items()))

    def _rough_reach(self) -> tuple[list[int], list[list[int]]]:
        """What each file reaches, and the strongly connected components, each sorted, importers before imported."""
        reach = [0] * len(self._files)
        components = _components(self._targets)
        for component in components:
            reached = 0
            for number in component:
                reached |= 1 << number
                for target in self._targets[number]:
                    reached |= reach[target]
            for number in component:
                reach[number] = reached
        return reach, [sorted(component) for component in reversed(components)]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _components(targets: Sequence[Sequence[int]]) -> list[list[int]]:
    """Tarjan's strongly connected components without recursion: what a component reaches comes before it."""
    found: list[list[int]] = []
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    for start in range(len(targets)):
        if start in index:
            continue
        work = [(start, iter(targets[start]))]
        index[start] = low[start] = len(index)
        open_nodes.append(start)
        is_open.add(start)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    open_nodes.append(target)
                    is_open.add(target)
                    work.append((target, iter(targets[target])))
                    break
                if target in is_open:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[int] = []
                    while not component or component[-1] != node:
                        component.append(open_nodes.pop())
                        is_open.discard(component[-1])
                    found.append(component)
    return found

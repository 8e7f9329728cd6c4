"""The programs of a project: entry files, and what each reaches by imports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from ptlint.outline.resolve import Resolver
from ptlint.outline.shape import Import


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
        self._imports = imports
        self._resolver = resolver
        self._importers_of: dict[str, int] = {}
        self._targets = [self._targets_of(number, path) for number, path in enumerate(files)]
        self._exact: dict[tuple[int, str], list[int]] = {}
        self._is_test = [is_test(path) for path in files]
        self._reach = self._entries(has_main_guard)

    @property
    def entries(self) -> list[str]:
        return [self._files[number] for number in self._reach]

    def entries_reaching(self, path: str) -> list[str]:
        number = self._numbers[path]
        found = [self._files[entry] for entry, reached in self._reach.items() if reached >> number & 1]
        # A test is nobody's program but its own.
        return [path, *found] if self._is_test[number] else found

    def order(self, entry: str) -> list[str]:
        """The files of an entry's program, breadth first in the order of its imports."""
        return [self._files[number] for number in self._breadth_first(self._numbers[entry])]

    def _targets_of(self, number: int, path: str) -> list[int]:
        for statement in self._imports(path):
            if not statement.level:
                top = statement.module.partition(".")[0]
                self._importers_of[top] = self._importers_of.get(top, 0) | 1 << number
        return self._resolved(number, path)

    def _resolved(self, number: int, entry: str) -> list[int]:
        path = self._files[number]
        numbers = self._numbers
        found = dict.fromkeys(
            numbers[target]
            for statement in self._imports(path)
            for target in self._resolver.targets(path, statement, entry)
        )
        found.pop(number, None)
        return list(found)

    def _swayed(self, entry: int) -> int:
        """The files whose imports may mean something else in this entry's program."""
        folder = os.path.dirname(self._files[entry])
        mask = 0
        for name in self._resolver.names_in.get(folder, ()):
            mask |= self._importers_of.get(name, 0)
        return mask

    def _exact_targets(self, number: int, entry: int) -> list[int]:
        folder = os.path.dirname(self._files[entry])
        if os.path.dirname(self._files[number]) == folder:
            return self._targets[number]
        key = (number, folder)
        found = self._exact.get(key)
        if found is None:
            found = self._exact[key] = self._resolved(number, self._files[entry])
        return found

    def _breadth_first(self, entry: int) -> list[int]:
        swayed = self._swayed(entry)
        order = [entry]
        seen = {entry}
        for number in order:
            targets = self._exact_targets(number, entry) if swayed >> number & 1 else self._targets[number]
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    order.append(target)
        return order

    def _entries(self, has_main_guard: Callable[[str], bool]) -> dict[int, int]:
        """Each entry with what it reaches."""
        rough, components = self._rough_reach()
        imported = 0
        for number, targets in enumerate(self._targets):
            if not self._is_test[number]:
                for target in targets:
                    imported |= 1 << target
        guarded = [has_main_guard(path) for path in self._files]
        found: dict[int, int] = {}
        changed: list[int] = []
        for number in range(len(self._files)):
            if not self._is_test[number] and (guarded[number] or not imported >> number & 1):
                reached = rough[number]
                if any(
                    self._exact_targets(other, number) != self._targets[other]
                    for other in _bits(reached & self._swayed(number))
                ):
                    reached = sum(1 << other for other in self._breadth_first(number))
                    changed.append(number)
                found[number] = reached
        for number in changed:
            for other in _bits(found.get(number, 0)):
                if other != number and other in found and not guarded[other]:
                    del found[other]
        covered = 0
        for reached in found.values():
            covered |= reached
        # What is left is imported in circles, or in the entries' programs by nobody: importers come first here.
        for component in components:
            number = component[0]
            if not covered >> number & 1 and not self._is_test[number]:
                found[number] = rough[number]
                covered |= rough[number]
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

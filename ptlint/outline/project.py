"""A project: its files, read and outlined on demand, and the programs that their imports make of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from weakref import WeakValueDictionary, ref

from ptlint.config import DEFAULT_TESTS
from ptlint.outline.programs import ImportGraph
from ptlint.outline.resolve import Resolver
from ptlint.outline.shape import Import
from ptlint.outline.statements import Outline, OutlineError, outline
from ptlint.source.discover import exclude_globs
from ptlint.source.patterns import is_test_file
from ptlint.source.project import too_wide
from ptlint.source.text import SourceError, SourceFile, read_source, source_from_text
from ptlint.source.walk import Walk

MAX_FILES = 20_000


class ProjectFile:
    """A file with its outline. `error` says what is wrong with it, if anything is."""

    def __init__(self, path: Path, outline: Outline, source: SourceFile | None) -> None:
        self.path = path
        self.outline = outline
        self._form = None if source is None else (source.encoding, source.bom, source.exact)
        self._source = None if source is None else ref(source)

    @property
    def error(self) -> OutlineError | None:
        return self.outline.error

    @property
    def source(self) -> SourceFile | None:
        """The text; None where the file could not be read. Kept only while somebody else holds it."""
        if self._form is None or self._source is None:
            return None
        found = self._source()
        if found is None:
            found = SourceFile(self.path, self.outline.text, *self._form)
            self._source = ref(found)
        return found


class Program:
    """An entry file and what it imports: `files` has the entry first, then breadth first in the order of imports."""

    def __init__(self, entry: Path, order: Callable[[], tuple[Path, ...]]) -> None:
        self.entry = entry
        self._order = order

    @cached_property
    def files(self) -> tuple[Path, ...]:
        return self._order()

    def __repr__(self) -> str:
        return f"Program({str(self.entry)!r})"


class Project:
    """All Python files below a root that the excludes leave, and those `extra` that a user named besides.

    `overlay` gives the text of files that differs from the disk's: an editor's buffer, stdin, a fix not yet written.
    Excludes count from `exclude_root`, which is the root unless said otherwise. Tests (by their path below the root)
    are never an entry and make no import count, so that what a test does with a file does not colour its findings. A
    root that holds the home folder is not searched below its own files unless it is `wide` on purpose.
    """

    def __init__(
        self,
        root: Path,
        *,
        exclude: Sequence[str] | None = None,
        extend_exclude: Iterable[str] = (),
        exclude_root: Path | None = None,
        tests: Sequence[str] = DEFAULT_TESTS,
        overlay: Mapping[Path, str | SourceFile] | None = None,
        extra: Iterable[Path] = (),
        wide: bool = False,
    ) -> None:
        self.root = Path(os.path.abspath(root))
        self.tests = tuple(tests)
        self._globs = exclude_globs(exclude, extend_exclude)
        self._exclude_root = os.path.abspath(exclude_root or root)
        self._overlay = {_absolute(path): text for path, text in (overlay or {}).items()}
        self._extra = frozenset(map(_absolute, extra)) | self._overlay.keys()
        self._deep = wide or not too_wide(self.root)
        self._read: dict[Path, ProjectFile] = {}

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file of the project, sorted."""
        return tuple(self._known.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about how the project was searched."""
        return self._listing[1]

    def file(self, path: Path) -> ProjectFile:
        """A file's text and outline, read once."""
        found = self._read.get(path)
        if found is None:
            found = self._read[path] = self._load(_absolute(path))
        return found

    def is_test(self, path: Path) -> bool:
        return is_test_file(path, self.root, self.tests)

    def resolve(self, from_file: Path, module: str, level: int = 0, entry: Path | None = None) -> Path | None:
        """The project's file that `module` is when `from_file` imports it in the program of `entry`, if any.

        A name after `from` may be a module too: ask for `module.name`.
        """
        files, complete = self._resolver.module(str(from_file), module, level, str(entry or from_file))
        return self._known[files[-1]] if complete else None

    def loaded(self, path: Path, entry: Path | None = None) -> Iterator[Import]:
        """What the calls of `import_module` in a file may load in the program of `entry`, as imports in their rows."""
        for load in self.file(path).outline.loads:
            package = load.name.removesuffix(".")
            names = self._resolver.members(str(path), package, str(entry or path)) if package != load.name else [""]
            for name in names:
                yield Import(load.name + name, None, None, 0, load.row, False)

    def programs(self) -> tuple[Program, ...]:
        """The programs of the project by entry, those that begin in a test left out."""
        return tuple(map(self._program, self._graph.entries))

    def programs_of(self, *paths: Path) -> tuple[Program, ...]:
        """The programs that hold any of these files, by entry: at least one for each file."""
        names = [os.path.abspath(path) for path in paths]
        if not self._known.keys() >= set(names):
            self._extra |= set(map(Path, names))
            self._forget_listing()
        return tuple(map(self._program, self._graph.entries_reaching(names)))

    def begins_with(self, path: Path, program: Program) -> bool:
        """Whether a program is the first, by entry, of those that hold a file (a test is its own)."""
        return self._graph.first_reaching(str(path)) in (str(program.entry), None)

    def with_overlay(self, overlay: Mapping[Path, str | SourceFile]) -> Project:
        """The same project with other texts on top of this one's; what does not change is not read again."""
        added = {_absolute(path): text for path, text in overlay.items()}
        other = object.__new__(Project)
        other.__dict__.update(self.__dict__)
        other._overlay = {**self._overlay, **added}
        other._extra = self._extra | added.keys()
        other._read = {path: file for path, file in self._read.items() if path not in added}
        for name in ("_graph", "_programs"):
            other.__dict__.pop(name, None)
        if not self._known.keys() >= set(map(str, added)):
            other._forget_listing()
        return other

    @cached_property
    def _listing(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        walk = Walk(str(self.root), self._exclude_root, self._globs, deep=self._deep)
        # A text from stdin may be a project by itself, without a folder.
        found = list(islice(walk.files(), MAX_FILES + 1)) if self.root.is_dir() else []
        notes = list(walk.warnings)
        if len(found) > MAX_FILES:
            found.pop()
            notes.append(
                f"{self.root}: the project has more than {MAX_FILES} Python files; the rest is not read as part of it"
                " (`--root` and `exclude` narrow it)"
            )
        return tuple(sorted({*found, *map(str, self._extra)})), tuple(notes)

    @cached_property
    def _known(self) -> dict[str, Path]:
        """The project's files, each path one object for all programs: there may be hundreds that share it."""
        return {path: Path(path) for path in self._listing[0]}

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver(str(self.root), self._known)

    @cached_property
    def _graph(self) -> ImportGraph:
        known = self._known
        return ImportGraph(
            self._listing[0],
            lambda path: (*self.file(known[path]).outline.imports, *self.loaded(known[path])),
            lambda path: self.file(known[path]).outline.has_main_guard,
            lambda path: self.is_test(known[path]),
            self._resolver,
        )

    @cached_property
    def _programs(self) -> WeakValueDictionary[str, Program]:
        return WeakValueDictionary()

    def _program(self, entry: str) -> Program:
        graph, known = self._graph, self._known
        found = self._programs.get(entry)
        if found is None:
            found = Program(known[entry], lambda: tuple(known[path] for path in graph.order(entry)))
            self._programs[entry] = found
        return found

    def _forget_listing(self) -> None:
        for name in ("_listing", "_known", "_resolver", "_graph", "_programs"):
            self.__dict__.pop(name, None)

    def _load(self, path: Path) -> ProjectFile:
        try:
            source = self._source(path)
        except SourceError as error:
            return ProjectFile(path, Outline(error=OutlineError(error.message, error.row, error.column)), None)
        return ProjectFile(path, outline(source.text), source)

    def _source(self, path: Path) -> SourceFile:
        text = self._overlay.get(path)
        if text is None:
            return read_source(path)
        if isinstance(text, SourceFile):
            return text
        try:
            # A changed text is still written in the encoding of the file that it stands for.
            return read_source(path).with_text(text)
        except SourceError:
            return source_from_text(path, text)


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))

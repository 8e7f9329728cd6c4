"""What a run will read: every file with the project and the config that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ptlint import config as configs
from ptlint import engine, registry
from ptlint.config import Config
from ptlint.findings import Finding
from ptlint.outline.project import Project
from ptlint.paths import shown
from ptlint.source.discover import discover, exclude_globs
from ptlint.source.ignored import is_excluded
from ptlint.source.project import find_root
from ptlint.source.text import SourceError, SourceFile, source_from_bytes


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    paths: tuple[Path, ...]
    stdin: bytes | None = None
    stdin_filename: Path | None = None
    override: Callable[[Config], Config] = field(default=lambda config: config)
    """What options say on top of a config file."""
    config_file: Path | None = None
    isolated: bool = False
    root: Path | None = None
    diff: bool = False
    add_ignores: bool = False
    explain: bool = False


@dataclass(frozen=True)
class Group:
    """Files of one project under one config."""

    project: Project
    config: Config
    files: tuple[Path, ...]
    is_stdin: bool = False


@dataclass(frozen=True)
class Plan:
    """What to do, and what could already be said."""

    groups: tuple[Group, ...]
    config: Config
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unread: tuple[Finding, ...] = ()


def plan(request: Request) -> Plan:
    """Find the files, projects and configs; `ConfigError` where a config is wrong."""
    governing = _Configs(request)
    if request.stdin is not None:
        return _plan_stdin(request, governing)
    notes: list[str] = []
    errors: list[str] = []
    files: dict[tuple[Path, Path | None], list[Path]] = {}
    found: dict[Path, None] = {}
    for path in request.paths:
        config = governing.of(path)
        discovery = discover(
            [path],
            root=config.root,
            exclude=config.exclude,
            extend_exclude=config.extend_exclude,
            force_exclude=config.force_exclude,
        )
        notes += discovery.warnings
        errors += [f"{shown(missing)}: no such file or folder" for missing in discovery.missing]
        is_named = path.is_file()
        found.update(
            dict.fromkeys(each for each in discovery.files if is_named or not governing.excludes(each, config))
        )
    if not (found or notes or errors):
        notes.append(f"no Python file in {', '.join(shown(path) or '.' for path in request.paths)}")
    for path in found:
        files.setdefault((governing.root_of(path), governing.of(path).source), []).append(path)
    groups = [_group(root, governing.of(members[0]), members) for (root, _), members in files.items()]
    return Plan(tuple(groups), governing.of(request.paths[0]), tuple(notes), tuple(errors))


def _group(
    root: Path, config: Config, files: Iterable[Path], overlay: Mapping[Path, SourceFile] | None = None
) -> Group:
    registry.select(config)  # an unknown rule must end the run before anything is done
    project = Project(
        root,
        exclude=config.exclude,
        extend_exclude=config.extend_exclude,
        exclude_root=config.root,
        tests=config.test_globs,
        overlay=overlay,
        extra=tuple(files),
    )
    return Group(project, config, tuple(files))


def _plan_stdin(request: Request, governing: _Configs) -> Plan:
    assert request.stdin is not None
    path = Path(os.path.abspath(request.stdin_filename or "-"))
    config = governing.of(path)
    if request.stdin_filename and is_excluded(str(path), str(config.root), _globs(config)):
        return Plan((), config, (f"{shown(path)} is excluded",))
    # Without a name the text is a project of its own: a folder that cannot be, so that it holds nothing else.
    root = governing.root_of(path) if request.stdin_filename else path
    try:
        source = source_from_bytes(path, request.stdin)
    except SourceError as problem:
        unread = engine.not_parsed(path, problem)
        return Plan((), config, unread=(unread,) if engine.is_wanted(unread, config) else ())
    group = _group(root, config, (path,), {path: source})
    return Plan((replace(group, is_stdin=True),), config)


class _Configs:
    """The config that governs each folder, read once."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._files: dict[Path, Path | None] = {}
        self._configs: dict[tuple[Path | None, Path], Config] = {}
        self._roots: dict[Path, Path] = {}

    def of(self, path: Path) -> Config:
        """The config of a file or folder."""
        absolute = Path(os.path.abspath(path))
        folder = absolute if absolute.is_dir() else absolute.parent
        file = self._file(folder)
        root = self.root_of(absolute)
        known = self._configs.get((file, root))
        if known is None:
            base = root if self._request.config_file else None
            known = self._configs[file, root] = self._request.override(configs.load(file, root, base))
        return known

    def root_of(self, path: Path) -> Path:
        folder = path if path.is_dir() else path.parent
        known = self._roots.get(folder)
        if known is None:
            known = self._roots[folder] = find_root(path, self._request.root)
        return known

    def excludes(self, path: Path, walked_under: Config) -> bool:
        """Whether a config further down excludes a file that a walk under another one found."""
        config = self.of(path)
        return config is not walked_under and is_excluded(str(path), str(config.root), _globs(config))

    def _file(self, folder: Path) -> Path | None:
        if self._request.isolated:
            return None
        if self._request.config_file is not None:
            return Path(os.path.abspath(self._request.config_file))
        if folder not in self._files:
            here = configs.in_folder(folder)
            above = None if folder == folder.parent else self._file(folder.parent)
            self._files[folder] = here or above
        return self._files[folder]


def _globs(config: Config) -> tuple[str, ...]:
    return exclude_globs(config.exclude, config.extend_exclude)

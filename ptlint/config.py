"""`[tool.ptlint]` of pyproject.toml, or ptlint.toml, as one frozen value.

This module knows strings, not rules: whether a code exists is the registry's to say.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from ptlint import torch_version as versions
from ptlint.findings import Impact
from ptlint.torch_version import Version

Device = Literal["auto", "cuda", "cpu"]
AmpDtype = Literal["bfloat16", "float16"]
NoGradStyle = Literal["no_grad", "inference_mode"]

OUTPUT_FORMATS = ("full", "concise", "grouped", "json", "json-lines", "github", "sarif")
IMPACTS = tuple(impact.label for impact in sorted(Impact, reverse=True))
DEVICES: tuple[Device, ...] = ("auto", "cuda", "cpu")
DEFAULT_TESTS = ("test_*.py", "*_test.py", "conftest.py", "tests/")
DEFAULT_NUM_WORKERS = "min(8, os.cpu_count() or 1)"

_ONLY_OPTIONS = (
    "add-ignores",
    "config",
    "diff",
    "exit-zero",
    "explain-finding",
    "isolated",
    "no-cache",
    "output-file",
    "root",
    "statistics",
    "stdin-filename",
    "version",
)


class ConfigError(Exception):
    """A mistake in a config file or an option's value, said in one line."""


@dataclass(frozen=True)
class Config:
    """What a run was asked to do; globs are relative to `root`."""

    select: tuple[str, ...] = ()
    """Codes, prefixes or names; none stands for every rule that is on by default."""
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    preview: bool = False
    min_impact: Impact | None = None
    exclude: tuple[str, ...] | None = None
    """Replaces the default excludes; None keeps them."""
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    tests: tuple[str, ...] | None = None
    """Globs of files that get only PTL0; None stands for `DEFAULT_TESTS`."""
    device: Device = "auto"
    torch_version: Version = versions.DEFAULT
    torch_below: Version | None = None
    """The lowest PyTorch that the project says it does not work with."""
    num_workers: str = DEFAULT_NUM_WORKERS
    amp_dtype: AmpDtype = "bfloat16"
    no_grad_style: NoGradStyle = "no_grad"
    rules: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Per-rule tables, keyed by code or name as written."""
    fix: bool = False
    unsafe_fixes: bool = False
    output_format: str = "full"
    root: Path = Path()
    source: Path | None = None
    """The file that this was read from."""

    @property
    def test_globs(self) -> tuple[str, ...]:
        return DEFAULT_TESTS if self.tests is None else self.tests


def in_folder(folder: Path) -> Path | None:
    """The config file that stands in `folder`: ptlint.toml before a pyproject.toml with our table."""
    path = folder / "ptlint.toml"
    if path.is_file():
        return path
    path = folder / "pyproject.toml"
    # Most projects' file has nothing for us: looking for the name costs less than reading TOML.
    if path.is_file() and b"ptlint" in _read(path) and _table(path) is not None:
        return path
    return None


def load(path: Path | None, project: Path, base: Path | None = None) -> Config:
    """The config that `path` holds, or the defaults, for the project at `project`; its globs count from `base`."""
    table = {} if path is None else _table(path)
    if table is None:
        raise ConfigError(f"{path}: there is no [tool.ptlint] table")
    config = parse(table, str(path))
    if "torch-version" not in table:
        lowest, below = versions.bounds(project)
        config = replace(config, torch_version=lowest, torch_below=below)
    return replace(config, root=base or (project if path is None else path.parent), source=path)


def parse(table: Mapping[str, object], where: str) -> Config:
    """Check every key and value of a config table."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        reader = _READERS.get(key)
        if reader is None:
            raise ConfigError(f"{where}: {_unknown_key(key)}")
        try:
            values[key.replace("-", "_")] = reader(value)
        except ValueError as error:
            raise ConfigError(f"{where}: `{key}` {error}") from None
    return Config(**values)


def nearest(wrong: str, right: Iterable[str], likeness: float = 0.6) -> str:
    """`, did you mean …?` where something is near, for the end of an error message."""
    found = difflib.get_close_matches(wrong, list(right), n=1, cutoff=likeness)
    return f"; did you mean `{found[0]}`?" if found else ""


def read_version(value: object) -> Version:
    version = versions.parse(value) if isinstance(value, str) else None
    if version is None:
        raise ValueError(f'must be a version such as "2.4", not {_shown(value)}')
    return version


def read_impact(value: object) -> Impact:
    return Impact[_choice(*IMPACTS)(value).upper()]


def _unknown_key(key: str) -> str:
    if key in _ONLY_OPTIONS:
        return f"`{key}` is an option of the command line, not a key of the config"
    dashed = key.replace("_", "-")
    near = f"; did you mean `{dashed}`?" if dashed in _READERS else nearest(key, _READERS)
    return f"unknown key `{key}`{near or '; known keys: ' + ', '.join(sorted(_READERS))}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def _table(path: Path) -> Mapping[str, object] | None:
    """The table that is ours; None where a pyproject.toml has none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document = tomllib.loads(_read(path).decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    if path.name != "pyproject.toml":
        return document
    tool = document.get("tool")
    table = tool.get("ptlint") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{path}: [tool.ptlint] must be a table")
    return table


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= 60 else text[:57] + "..."


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_shown(value)}")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"must be a list of strings, not {_shown(value)}")
    return tuple(value)


def _choice(*choices: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in choices:
            near = nearest(value, choices) if isinstance(value, str) else ""
            raise ValueError(f"must be one of {', '.join(choices)}, not {_shown(value)}{near}")
        return str(value)

    return read


def _per_file_ignores(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table of globs and lists of codes, not {_shown(value)}")
    found = []
    for glob, codes in value.items():
        try:
            found.append((glob, _strings(codes)))
        except ValueError as error:
            raise ValueError(f"of `{glob}` {error}") from None
    return tuple(found)


def _expression(value: object) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError(f"must be a Python expression in a string, or a number, not {_shown(value)}")
    text = str(value).strip()
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"must be a Python expression, not {_shown(value)}") from None
    return text


def _rule_tables(value: object) -> dict[str, dict[str, object]]:
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise ValueError("must hold one table a rule, as [tool.ptlint.rules.PTL101]")
    return value


_READERS: dict[str, Callable[[object], object]] = {
    "select": _strings,
    "ignore": _strings,
    "extend-select": _strings,
    "per-file-ignores": _per_file_ignores,
    "preview": _boolean,
    "min-impact": read_impact,
    "exclude": _strings,
    "extend-exclude": _strings,
    "force-exclude": _boolean,
    "tests": _strings,
    "device": _choice(*DEVICES),
    "torch-version": read_version,
    "num-workers": _expression,
    "amp-dtype": _choice("bfloat16", "float16"),
    "no-grad-style": _choice("no_grad", "inference_mode"),
    "rules": _rule_tables,
    "fix": _boolean,
    "unsafe-fixes": _boolean,
    "output-format": _choice(*OUTPUT_FORMATS),
}

KEYS = tuple(_READERS)
if {key.replace("-", "_") for key in KEYS} != {item.name for item in fields(Config)} - {
    "root",
    "source",
    "torch_below",
}:
    raise AssertionError("the config's keys and fields differ")

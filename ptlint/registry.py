"""Which rules there are, and which of them a run asks for."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ptlint import torch_version
from ptlint.config import Config, ConfigError, nearest, read_impact
from ptlint.findings import Impact
from ptlint.rule import Rule
from ptlint.rules import Entry
from ptlint.rules.index import RULES

INTERNAL_ERROR = "PTL000"
UNUSED_SUPPRESSION = "PTL001"
FILE_NOT_PARSED = "PTL002"
MALFORMED_SUPPRESSION = "PTL003"

BY_CODE = {entry.code: entry for entry in RULES}
BY_NAME = {entry.name: entry for entry in RULES}
MOST_LISTED = 3
"""So many codes are named where a prefix was given for one."""


class Selection(NamedTuple):
    """The codes that a run asks for, and what its config says of them."""

    codes: frozenset[str]
    ignored: frozenset[str]
    """Codes that are switched off by name: also PTL002, which is else always on."""
    impacts: dict[str, Impact]

    def rules(self, config: Config) -> tuple[Entry, ...]:
        """The selected rules that have something to check with a PyTorch that the project may run with."""
        lowest, below = config.torch_version, config.torch_below
        return tuple(
            entry
            for entry in RULES
            if entry.code in self.codes and entry.roots and torch_version.overlaps(entry.torch, lowest, below)
        )


def discover() -> Iterator[type[Rule]]:
    """Every rule class, by importing every `ptl*.py` under `ptlint/rules`; for renderings and tests."""
    package = importlib.import_module("ptlint.rules")
    for info in sorted(pkgutil.walk_packages(package.__path__, "ptlint.rules."), key=lambda info: info.name):
        if info.name.rpartition(".")[2].startswith("ptl"):
            yield _class_in(info.name)


def load(entry: Entry) -> Rule:
    """An instance of the rule."""
    return _class_in(entry.module)()


def documentation(entry: Entry) -> str:
    """The rule's docstring; its message where Python was told to drop docstrings."""
    return inspect.cleandoc(type(load(entry)).__doc__ or entry.message)


def find(word: str) -> Entry | None:
    """The rule with this code or name."""
    return BY_CODE.get(word.upper()) or BY_NAME.get(word.lower())


def matching(selector: str) -> tuple[Entry, ...]:
    """The rules that a code, a prefix of codes, a name or `ALL` stands for; none where it stands for nothing."""
    code = selector.upper()
    if code == "ALL":
        return RULES
    if code.startswith("PTL"):
        return tuple(entry for entry in RULES if entry.code.startswith(code))
    named = BY_NAME.get(selector.lower())
    return (named,) if named else ()


def unknown(selector: str) -> str:
    """What is wrong with a selector that stands for nothing, or for several rules where one must be named."""
    upper = selector.upper()
    begun = [f"`{entry.code}`" for entry in matching(selector)] if upper.startswith("PTL") else []
    if begun:
        listed = ", ".join(begun[:MOST_LISTED]) + ", …" * (len(begun) > MOST_LISTED)
        return f"unknown rule `{selector}`; one rule has to be named: {listed}"
    near = nearest(upper, BY_CODE, 0.8) if upper.startswith("PTL") else nearest(selector.lower(), BY_NAME)
    return f"unknown rule `{selector}`{near}"


def select(config: Config) -> Selection:
    """What `config` asks for; the more precise of two selectors wins, and of equals the one that ignores."""
    where = f"{config.source}: " if config.source else ""
    wanted = _precision(config.select, f"{where}`select`") if config.select else {e.code: 0 for e in RULES}
    extended = _precision(config.extend_select, f"{where}`extend-select`")
    ignored = _precision(config.ignore, f"{where}`ignore`")
    for _, codes in config.per_file_ignores:
        _precision(codes, f"{where}`per-file-ignores`")
    chosen = frozenset(
        code
        for code in {*wanted, *extended}
        if max(wanted.get(code, -1), extended.get(code, -1)) > ignored.get(code, -1)
    )
    return Selection(chosen | {INTERNAL_ERROR}, frozenset(ignored) - chosen, _impacts(config, where))


def codes_of(selectors: Iterable[str]) -> frozenset[str]:
    """All codes that any of these selectors stands for."""
    return frozenset(entry.code for selector in selectors for entry in matching(selector))


def _precision(selectors: Iterable[str], where: str) -> dict[str, int]:
    """How precisely each code is named by one of `selectors`: the length of the longest that stands for it."""
    found: dict[str, int] = {}
    for selector in selectors:
        entries = matching(selector)
        if not entries:
            raise ConfigError(f"{where}: {unknown(selector)}")
        exact = find(selector) is not None
        precision = 0 if selector.upper() == "ALL" else len(entries[0].code) if exact else len(selector)
        for entry in entries:
            found[entry.code] = max(found.get(entry.code, 0), precision)
    return found


def _impacts(config: Config, where: str) -> dict[str, Impact]:
    """The impacts that the per-rule tables set; their keys are checked here, where the rules are known."""
    impacts = {}
    for word, table in config.rules.items():
        entry = find(word)
        if entry is None:
            raise ConfigError(f"{where}[rules.{word}]: {unknown(word)}")
        for key, value in table.items():
            allowed = ("impact", *entry.options)
            if key not in allowed:
                near = nearest(key, allowed) or f"; {entry.code} knows: {', '.join(allowed)}"
                raise ConfigError(f"{where}[rules.{word}]: unknown key `{key}`{near}")
            if key == "impact":
                try:
                    impacts[entry.code] = read_impact(value)
                except ValueError as error:
                    raise ConfigError(f"{where}[rules.{word}]: `impact` {error}") from None
    return impacts


def _class_in(module: str) -> type[Rule]:
    found = [
        value
        for value in vars(importlib.import_module(module)).values()
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module
    ]
    if len(found) != 1:
        raise ConfigError(f"{module} holds {len(found)} rules; a rule file holds one")
    return found[0]

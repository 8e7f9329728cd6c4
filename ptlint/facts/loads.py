"""When library modules are loaded: the order in which a program's files import them, from outlines alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Ctx, Place

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.outline.statements import Import

LOADS_TORCH = frozenset(
    {"torch", "torchvision", "torchaudio", "torchtext", "torchdata", "torchmetrics", "torch_geometric", "torch_xla"}
    | {"pytorch_lightning", "lightning", "lightning_fabric", "accelerate", "timm", "kornia", "fastai", "ignite", "peft"}
    | {"trl", "deepspeed", "apex", "sentence_transformers", "monai", "mmcv", "mmengine", "mmdet", "detectron2"}
    | {"ultralytics", "tensordict", "torchrl", "xformers", "bitsandbytes", "flash_attn", "gpytorch", "pyro", "captum"}
    | {"segmentation_models_pytorch", "torchtitan", "vllm", "clip", "open_clip", "whisper", "e3nn", "botorch", "dgl"}
)
"""Packages that import torch when they are imported themselves."""

LAZY = frozenset({"transformers", "diffusers"})
"""Packages that do so only once a name is imported from them."""


@dataclass(frozen=True, slots=True)
class Load:
    """An import that loads a package of a library, the first one to do so; `time` orders loads and statements."""

    package: str
    path: Path
    row: int
    time: int
    top: bool


class Loads:
    """The imports of a program in the order in which they run."""

    def __init__(self, facts: ProgramFacts) -> None:
        self._facts = facts
        self._time = 0
        self._first: dict[str, Load] = {}
        self._rows: dict[Path, list[tuple[int, int]]] = {}
        self._run(facts.program.entry)
        for path in facts.program.files:
            self._run(path)

    def before(self, modules: Collection[str], place: Place, ctx: Ctx) -> Load | None:
        """The import that had loaded one of some packages when something happened at a place, in a context."""
        time = self._when(place, ctx)
        found = [load for load in self._first.values() if load.package in modules and load.time <= time]
        first = min(found, key=lambda load: load.time, default=None)
        return first if first is not None else self._inside(modules, place)

    def _run(self, path: Path) -> None:
        """Import a file: what it imports runs in the order of its rows."""
        if path in self._rows:
            return
        rows = self._rows[path] = [(0, self._time)]
        outline = self._facts.project.file(path).outline
        for item in outline.imports:
            statement = outline.statement_at(item.row)
            if statement is None or statement.kind in ("def", "class"):
                continue
            if statement.kind == "compound" and {"__name__", "__main__"} <= statement.words:
                if path != self._facts.program.entry:
                    continue
            self._load(path, item)
            rows.append((item.row, self._time))

    def _load(self, path: Path, item: Import) -> None:
        names = [item.module]
        if item.name is not None and item.name != "*":
            names.append(f"{item.module}.{item.name}" if item.module else item.name)
        inside = False
        for name in names:
            target = self._facts.project.resolve(path, name, item.level, entry=self._facts.program.entry)
            if target is not None and target in self._facts.program.files:
                inside = True
                self._run(target)
        if inside or item.level:
            return
        for package in loaded_by(item):
            if package not in self._first:
                self._time += 1
                self._first[package] = Load(package, path, item.row, self._time, item.top)

    def _when(self, place: Place, ctx: Ctx) -> int:
        """The time at which the top-level statement runs that led to a context."""
        row, path = place.row, place.path
        for up in ctx.up():
            if up.kind == "frame" and up.place is not None:
                row, path = up.place.row, up.place.path
            if up.kind == "module":
                if up.home is None or up is not up.home.ctx:
                    return self._time  # nothing calls the function: it runs after all imports
                path = up.home.file.path
                break
        rows = self._rows.get(path, [(0, 0)])
        return rows[max(0, bisect_left(rows, (row, -1)) - 1)][1]

    def _inside(self, modules: Collection[str], place: Place) -> Load | None:
        """An import in the same function, in a row above."""
        above = next((node for node in place.tree.ancestors(place.node) if isinstance(node, cst.FunctionDef)), None)
        if above is None:
            return None
        start = place.at(above).row
        for item in place.file.outline.imports:
            packages = set(modules) & set(loaded_by(item))
            if packages and start <= item.row < place.row:
                return Load(packages.pop(), place.path, item.row, self._time, False)
        return None


def loaded_by(item: Import) -> tuple[str, ...]:
    """The packages that an import of a library loads: its own, and torch."""
    package = item.module.partition(".")[0]
    brings_torch = package in LOADS_TORCH or (package in LAZY and item.name is not None)
    return (package, "torch") if brings_torch and package != "torch" else (package,)

"""Which attributes are a program's own, so that it may call them as it likes."""

from __future__ import annotations

import builtins
import json
import types
from functools import cache

import libcst as cst
from libcst.metadata import ClassScope

from metamorphic.names import File, Unit, dotted, is_dunder, leftmost
from metamorphic.project import Files
from ptlint.facts.torch_api import DATA, SOURCES

# What these call by itself, and else nothing that a subclass could define by accident.
HOOKS = {
    "Module": frozenset({"forward", "training", "dump_patches", "call_super_init"}),
    "Dataset": frozenset[str](),
    "IterableDataset": frozenset[str](),
    "Sampler": frozenset[str](),
    "Function": frozenset({"forward", "backward", "setup_context", "vjp", "jvp"}),
    "object": frozenset[str](),
    "ABC": frozenset[str](),
    "Exception": frozenset({"args", "with_traceback", "add_note"}),
}
FIELDS = ("NamedTuple", "TypedDict", "dataclass")


class Attributes:
    """What the classes of a program define, and which of it no library can mean."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.classes: dict[str, list[cst.ClassDef]] = {}
        for file in files.all.values():
            for node in file.nodes:
                if isinstance(node, cst.ClassDef):
                    self.classes.setdefault(node.name.value, []).append(node)
        self.methods: dict[str, list[cst.FunctionDef]] = {}
        self.defined: set[str] = set()
        self._kept: set[str] = set()
        self._open: set[str] = set()
        for file in files.all.values():
            self._read(file)
        self.free = frozenset(
            name
            for name in self.defined - self._kept
            if not (name in self._open and name in _known_names()) and not is_dunder(name)
        )

    def is_closed(self, node: cst.ClassDef) -> bool:
        """Whether all that the class inherits is known."""
        return self._hooks(node) is not None

    def owner(self, file: File, function: cst.CSTNode) -> cst.ClassDef | None:
        """The class whose method a function is."""
        scope = file.scopes.get(function)
        if isinstance(function, cst.FunctionDef) and isinstance(scope, ClassScope):
            return cst.ensure_type(scope.node, cst.ClassDef)
        return None

    def _read(self, file: File) -> None:
        words = {part for text in file.strings for part in text.split(".")}
        self._kept |= words
        # An option `--batch-size` is read as `args.batch_size`.
        options = {word.lstrip("-").replace("-", "_") for word in words}
        for unit in file.units:
            if isinstance(unit.scope, ClassScope):
                self._define(unit.name, cst.ensure_type(unit.scope.node, cst.ClassDef), unit)
        receivers = {}
        for node in file.nodes:
            if isinstance(node, cst.FunctionDef) and (owner := self.owner(file, node)) is not None:
                self.methods.setdefault(node.name.value, []).append(node)
                if node.params.params and not _is_static(node):
                    receivers[file.unit_of[node.params.params[0].name]] = owner
        for node in file.nodes:
            if isinstance(node, cst.Attribute):
                name = node.attr.value
                root = file.unit_of.get(leftmost(node))
                if root is not None and root in receivers and isinstance(node.value, cst.Name):
                    if node in file.stored:
                        self._define(name, receivers[root])
                elif root is None or not root.imports or self._files.is_own(root):
                    self._open.add(name)
                    if name in options:
                        self._kept.add(name)
            elif isinstance(node, cst.Call):
                # A namespace may be made of them.
                self._kept.update(each.keyword.value for each in node.args if each.keyword is not None)

    def _define(self, name: str, owner: cst.ClassDef, unit: Unit | None = None) -> None:
        hooks = self._hooks(owner)
        self.defined.add(name)
        fields = any(dotted(_called(each.decorator)).rpartition(".")[2] in FIELDS for each in owner.decorators)
        if hooks is None or name in hooks or fields or (unit is not None and (unit.is_fixed or unit.imports)):
            self._kept.add(name)

    def _hooks(self, node: cst.ClassDef, depth: int = 0) -> frozenset[str] | None:
        found = frozenset[str]()
        if node.keywords:
            return None
        for base in node.bases:
            name = dotted(base.value).rpartition(".")[2]
            known = HOOKS.get(name)
            if known is None and depth < 9 and len(self.classes.get(name, ())) == 1:
                known = self._hooks(self.classes[name][0], depth + 1)
            if known is None:
                return None
            found |= known | (_module_names() if name == "Module" else frozenset())
        return found


def _is_static(node: cst.FunctionDef) -> bool:
    return any(dotted(each.decorator) == "staticmethod" for each in node.decorators)


def _called(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.func if isinstance(node, cst.Call) else node


@cache
def _entries() -> tuple[str, ...]:
    found: list[str] = []
    for name in SOURCES:
        found += json.loads((DATA / name).read_text(encoding="utf-8"))["entries"]
    return tuple(found)


@cache
def _known_names() -> frozenset[str]:
    """What anything of a library may be called."""
    kinds = [each for each in vars(builtins).values() if isinstance(each, type)]
    kinds += [types.FunctionType, types.MethodType, types.ModuleType, types.GeneratorType]
    hooks = frozenset[str]().union(*HOOKS.values())
    return hooks | {name.rpartition(".")[2] for name in _entries()} | {name for kind in kinds for name in dir(kind)}


@cache
def _module_names() -> frozenset[str]:
    prefix = "torch.nn.Module."
    return frozenset(name.removeprefix(prefix) for name in _entries() if name.startswith(prefix))

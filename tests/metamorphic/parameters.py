"""Which parameters a program's functions may call as they like, and which arguments name them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from metamorphic.attributes import Attributes
from metamorphic.names import File, Unit, dotted, leftmost
from metamorphic.project import Files

PLAIN_DECORATORS = frozenset({"staticmethod", "classmethod", "property", "setter", "wraps", "contextmanager"})

Function = cst.FunctionDef | cst.Lambda


class Parameters:
    """`by_keyword` names parameters that calls of the program's functions pass by keyword: they are renamed alike."""

    def __init__(self, files: Files, attributes: Attributes) -> None:
        self._files = files
        self._attributes = attributes
        self._kept: set[str] = set()
        self._renamed: dict[str, list[cst.Arg]] = {name: [] for name in files.all}
        self._bound: set[cst.Param] = set()
        self._functions: dict[str, list[cst.FunctionDef]] = {}
        named: dict[str, list[tuple[str, cst.Arg]]] = {}
        for file in files.all.values():
            for node in file.nodes:
                if isinstance(node, cst.FunctionDef):
                    self._functions.setdefault(node.name.value, []).append(node)
                    if self._is_bound(file, node):
                        self._bound.update(_params(node))
        for file in files.all.values():
            for node in file.nodes:
                if isinstance(node, cst.Call):
                    for argument in self._named(file, node):
                        assert argument.keyword is not None
                        named.setdefault(argument.keyword.value, []).append((file.name, argument))
        self._kept |= {param.name.value for param in self._bound} & named.keys()
        self.by_keyword = named.keys() - self._kept
        for name in self.by_keyword:
            for where, argument in named[name]:
                self._renamed[where].append(argument)

    def is_free(self, unit: Unit) -> bool:
        """Whether the unit, a parameter, may have another name."""
        return unit.name not in self._kept and not any(param in self._bound for param in unit.params)

    def renamed_keywords(self, file: File) -> Iterator[cst.Arg]:
        """The arguments that pass such a parameter by its name."""
        yield from self._renamed[file.name]

    def _is_bound(self, file: File, node: cst.FunctionDef) -> bool:
        """Whether somebody else may know the names of its parameters."""
        owner = self._attributes.owner(file, node)
        if owner is not None and not self._attributes.is_closed(owner):
            return True
        return any(not self._is_plain(file, each.decorator) for each in node.decorators)

    def _is_plain(self, file: File, node: cst.BaseExpression) -> bool:
        called = node.func if isinstance(node, cst.Call) else node
        root = file.unit_of.get(leftmost(called))
        if root is not None and root.imports and dotted(called).partition(".")[0] in ("torch", "functools"):
            return True
        return dotted(called).rpartition(".")[2] in PLAIN_DECORATORS | self._functions.keys()

    def _named(self, file: File, call: cst.Call) -> Iterator[cst.Arg]:
        """The arguments that pass a parameter of the program's own functions by name."""
        keywords = [each for each in call.args if each.keyword is not None]
        candidates = self._candidates(file, call.func)
        if any(self._is_own_callable(file, each.value) for each in call.args):
            self._kept.update(each.keyword.value for each in keywords if each.keyword)
        if any(each.star == "**" or (each.keyword and each.keyword.value == "kwargs") for each in call.args):
            if candidates is None or candidates:
                self._keep_all_keys()
        for argument in keywords:
            assert argument.keyword is not None
            name = argument.keyword.value
            if candidates is None:
                self._kept.add(name)
            elif candidates and all(name in {each.name.value for each in _params(node)} for node in candidates):
                yield argument
            elif candidates:
                self._kept.add(name)

    def _candidates(self, file: File, func: cst.BaseExpression) -> list[cst.FunctionDef] | None:
        """What of the program a call may run: nothing (a library's), or not known (None)."""
        root = file.unit_of.get(leftmost(func))
        if isinstance(func, cst.Name):
            if root is None:
                return []
            if root.imports:
                return self._called(func.value) if self._files.is_own(root) else []
            if root.definitions and not root.is_plain:
                return self._called(func.value)
            return None
        if isinstance(func, cst.Attribute):
            name = func.attr.value
            if root is not None and root.imports:
                return self._called(name) if self._files.is_own(root) else []
            if name in self._attributes.methods:
                return list(self._attributes.methods[name]) if name in self._attributes.free else None
            # An attribute may hold a module or a function.
            return None if name in self._attributes.defined else []
        return None

    def _called(self, name: str) -> list[cst.FunctionDef] | None:
        found = list(self._functions.get(name, ()))
        for node in self._attributes.classes.get(name, ()):
            made = self._maker(node)
            if made is None:
                return None
            found.append(made)
        return found or None

    def _maker(self, node: cst.ClassDef, depth: int = 0) -> cst.FunctionDef | None:
        for statement in node.body.body:
            if isinstance(statement, cst.FunctionDef) and statement.name.value == "__init__":
                return statement
        for base in node.bases:
            for known in self._attributes.classes.get(dotted(base.value).rpartition(".")[2], ()):
                if depth < 9 and (found := self._maker(known, depth + 1)) is not None:
                    return found
        return None

    def _is_own_callable(self, file: File, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name):
            return node.value in self._functions or node.value in self._attributes.classes
        return isinstance(node, cst.Attribute) and node.attr.value in self._attributes.methods

    def _keep_all_keys(self) -> None:
        for file in self._files.all.values():
            self._kept |= {text.lstrip("-").replace("-", "_") for text in file.strings}
            for node in file.nodes:
                if isinstance(node, cst.Call) and dotted(node.func) == "dict":
                    self._kept |= {each.keyword.value for each in node.args if each.keyword is not None}


def _params(node: Function) -> Iterator[cst.Param]:
    found = node.params
    yield from (*found.posonly_params, *found.params, *found.kwonly_params)

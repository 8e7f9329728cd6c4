"""Layers one behind the other: convolutions whose every use goes straight into a norm that takes the bias out again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Call, Construct, Forward, Place
from ptlint.facts.occurrences import BIND, occurrences
from ptlint.facts.scopes import dotted, walk
from ptlint.facts.values import Lib, Module, ProjectClass, Value, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

SEQUENTIAL = "torch.nn.Sequential"
CONVS = frozenset(f"torch.nn.Conv{kind}{n}d" for kind in ("", "Transpose") for n in (1, 2, 3))
NORMS = frozenset(
    [f"torch.nn.{kind}Norm{n}d" for kind in ("Batch", "Instance") for n in (1, 2, 3)] + ["torch.nn.SyncBatchNorm"]
)
"""Norms that subtract the mean of every channel."""

_Suites = (cst.IndentedBlock, cst.Module)


@dataclass(frozen=True)
class BiasedConv:
    """A convolution whose bias the norm at `norm` takes out again."""

    conv: Construct
    norm: Place


def convs_before_norms(program: ProgramFacts) -> Iterator[BiasedConv]:
    """The convolutions with a bias of which every use is directly followed by a norm."""
    layers = _Layers(program)
    for constructs in layers.made.values():
        if not all(_is_biased_conv(event.value) for event in constructs):
            continue
        norm = layers.next_in_text(constructs) or layers.next_in_forward(constructs)
        if norm is not None:
            yield BiasedConv(constructs[0], norm)


def _is_biased_conv(value: Value) -> bool:
    """Whether it is a convolution whose bias nobody chose, or chose to have with a literal."""
    if _class_of(value) not in CONVS or not isinstance(value, Module) or value.call is None:
        return False
    if value.call.state("bias") == "absent":
        return True
    written = value.call.nodes.get("bias")
    return written is not None and isinstance(written.value, cst.Name) and written.value.value == "True"


def _class_of(value: Value) -> str:
    return value.cls.name if isinstance(value, Module) and isinstance(value.cls, Lib) else ""


class _Layers:
    def __init__(self, program: ProgramFacts) -> None:
        self._program = program
        self.made: dict[int, list[Construct]] = {}
        for event in program.made(Module):
            self.made.setdefault(id(event.place.node), []).append(event)

    # As written: in a `Sequential`, in a list, one `append` after the other

    def next_in_text(self, constructs: Sequence[Construct]) -> Place | None:
        """The norm that stands behind a convolution where layers are listed in order."""
        place = constructs[0].place
        tree, node = place.tree, place.node
        parent = tree.parent(node)
        following: cst.CSTNode | None = None
        if isinstance(parent, cst.Arg) and not parent.star:
            call = tree.parent(parent)
            if isinstance(call, cst.Call) and self._is_sequence(call, constructs):
                following = _after(call.args, parent)
            elif isinstance(call, cst.Call) and call.args[-1] is parent:
                following = self._next_added(call, place)
        elif isinstance(parent, cst.Element):
            above = tree.parent(parent)
            if isinstance(above, cst.List) and not _goes_elsewhere(above, place):
                following = _after(above.elements, parent)
            elif isinstance(above, cst.Tuple):
                following = _next_pair(above, place)
        layer = following.value if isinstance(following, (cst.Arg, cst.Element)) else None
        made = self.made.get(id(layer), ())
        return made[0].place if made and all(_class_of(event.value) in NORMS for event in made) else None

    def _is_sequence(self, call: cst.Call, constructs: Sequence[Construct]) -> bool:
        """Whether a call lists layers that run in order: `Sequential(...)`, `super().__init__(...)` of a subclass."""
        made = self.made.get(id(call), ())
        if made:
            return all(_is_sequential(event.value) for event in made)
        function = constructs[0].ctx.frame().function
        is_init = isinstance(call.func, cst.Attribute) and call.func.attr.value == "__init__"
        return is_init and function is not None and function.owner is not None and function.owner.lib_base == SEQUENTIAL

    def _next_added(self, call: cst.Call, place: Place) -> cst.CSTNode | None:
        """What the next statement adds to the same list or `Sequential`."""
        added = _added(call)
        line = place.tree.parent(call)
        line = place.tree.parent(line) if isinstance(line, cst.Expr) else None
        block = place.tree.parent(line) if isinstance(line, cst.SimpleStatementLine) else None
        if added is None or not isinstance(block, _Suites) or not isinstance(line, cst.SimpleStatementLine):
            return None
        receivers = [event.receiver for event in self._program.calls_at(call)]
        if not all(_is_sequential(receiver) for receiver in receivers):
            return None
        if not receivers and ("." in added or _goes_into_module_list(added, place)):
            return None
        index = list(block.body).index(line)
        following = block.body[index + 1] if index + 1 < len(block.body) else None
        if not isinstance(following, cst.SimpleStatementLine) or not isinstance(following.body[0], cst.Expr):
            return None
        then = following.body[0].value
        return then.args[-1] if isinstance(then, cst.Call) and _added(then) == added else None

    # As run: the result of one module call is what the next one gets

    def next_in_forward(self, constructs: Sequence[Construct]) -> Place | None:
        """The norm that every call of a convolution is given to, and nothing else."""
        convs = [event.value for event in constructs]
        uses = [use for conv in convs for use in self._uses.get(id(conv), ())]
        norms = [self._norm_of(use) for use in uses]
        found = [norm for norm in norms if norm is not None]
        return found[0].place if found and len(found) == len(norms) else None

    @cached_property
    def _uses(self) -> dict[int, list[Forward]]:
        """The calls of every library module."""
        found: dict[int, list[Forward]] = {}
        for event in self._program.events(Forward):
            for module in options(event.module):
                if isinstance(module, Module) and isinstance(module.core.cls, Lib):
                    found.setdefault(id(module.core), []).append(event)
        return found

    @cached_property
    def _given(self) -> dict[int, list[Forward]]:
        """The calls of norms by what they are given."""
        found: dict[int, list[Forward]] = {}
        for event in self._program.events(Forward):
            if event.args and all(_class_of(module) in NORMS for module in options(event.module)):
                for value in options(event.args[0]):
                    found.setdefault(id(value), []).append(event)
        return found

    @cached_property
    def _changed(self) -> set[int]:
        """The tensors that a method changes in place."""
        return {id(event.receiver) for event in self._program.events(Call) if event.name.endswith("_")}

    def _norm_of(self, use: Forward) -> Forward | None:
        """The norm that takes a call's result as it is, in every pass in which the call runs."""
        for norm in self._given.get(id(use.result), ()):
            if use.ctx.inside(norm.ctx) and id(use.result) not in self._changed and _only_use(norm):
                return norm
        return None


def _is_sequential(value: Value | None) -> bool:
    if not isinstance(value, Module):
        return False
    cls = value.cls
    return (cls.lib_base if isinstance(cls, ProjectClass) else _class_of(value)) == SEQUENTIAL


def _next_pair(pair: cst.Tuple, place: Place) -> cst.CSTNode | None:
    """The layer of the next `(name, layer)` in an `OrderedDict([...])`."""
    element = place.tree.parent(pair)
    above = place.tree.parent(element) if isinstance(element, cst.Element) else None
    if not isinstance(above, cst.List) or len(pair.elements) != 2 or not isinstance(element, cst.Element):
        return None
    following = _after(above.elements, element)
    then = following.value if isinstance(following, cst.Element) else None
    return then.elements[1] if isinstance(then, cst.Tuple) and len(then.elements) == 2 else None


def _goes_elsewhere(display: cst.List, place: Place) -> bool:
    """Whether a list of layers is not, or may not be, run in order: it is unpacked, or goes into a `ModuleList`."""
    parent = place.tree.parent(display)
    if isinstance(parent, cst.Arg):
        call = place.tree.parent(parent)
        return isinstance(call, cst.Call) and dotted(call.func).rpartition(".")[2] == "ModuleList"
    statement = place.tree.statement(display)
    if isinstance(statement, cst.Assign):
        target = statement.targets[0].target
        return not isinstance(target, cst.Name) or _goes_into_module_list(target.value, place)
    if isinstance(statement, cst.AugAssign) and isinstance(statement.target, cst.Name):
        return _goes_into_module_list(statement.target.value, place)
    return False


def _goes_into_module_list(name: str, place: Place) -> bool:
    function = next((n for n in place.tree.ancestors(place.node) if isinstance(n, cst.FunctionDef)), None)
    for node in walk(function if function is not None else place.tree.module):
        if isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] == "ModuleList":
            if any(isinstance(arg.value, cst.Name) and arg.value.value == name for arg in node.args):
                return True
    return False


def _after(items: Sequence[cst.CSTNode], item: cst.CSTNode) -> cst.CSTNode | None:
    following = next((b for a, b in pairwise(items) if a is item), None)
    return following if isinstance(following, (cst.Arg, cst.Element)) and not getattr(following, "star", "") else None


def _added(call: cst.Call) -> str | None:
    """What `x.append(layer)` or `x.add_module(name, layer)` adds to."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("append", "add_module") and call.args:
        return dotted(call.func.value)
    return None


def _only_use(norm: Forward) -> bool:
    """Whether a call's argument goes nowhere else: it is a call, or a name that is read only there before it is bound
    anew."""
    tree, node = norm.place.tree, norm.place.node
    argument = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    if not isinstance(argument, cst.Name):
        return isinstance(argument, cst.Call)
    function = next((above for above in tree.ancestors(node) if isinstance(above, cst.FunctionDef)), None)
    if function is None:
        return False
    names = occurrences(tree, function, argument.value)
    here = next((index for index, name in enumerate(names) if name.node is argument), 0)
    return here > 0 and names[here - 1].kind == BIND and all(n.kind == BIND for n in names[here + 1 : here + 2])

"""Attention: weights that nobody looks at, and attention written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Call, Event, Forward, Place
from ptlint.facts.occurrences import BIND, READ, UPDATE, occurrences
from ptlint.facts.scopes import dotted
from ptlint.facts.values import Lib, Module, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

MULTIHEAD = "torch.nn.MultiheadAttention"
_NEED_WEIGHTS = 4
"""The place of `need_weights` among the arguments of the call."""


def weights_unused(program: ProgramFacts) -> Iterator[Forward]:
    """The calls of `nn.MultiheadAttention` that work out weights and drop them."""
    for event in program.events(Forward):
        modules = options(event.module)
        if not all(
            isinstance(m, Module) and isinstance(m.core.cls, Lib) and m.core.cls.name == MULTIHEAD for m in modules
        ):
            continue
        call = event.place.node
        if isinstance(call, cst.Call) and _by_default(call) and _drops_second(event.place, call):
            yield event


def _by_default(call: cst.Call) -> bool:
    """Whether nothing says if weights are needed."""
    if any(arg.star or (arg.keyword is not None and arg.keyword.value == "need_weights") for arg in call.args):
        return False
    return sum(arg.keyword is None for arg in call.args) <= _NEED_WEIGHTS


def _drops_second(place: Place, call: cst.Call) -> bool:
    """Whether only the first of the two results is kept: `[0]`, or a name for the second that nothing reads."""
    tree = place.tree
    parent = tree.parent(call)
    if isinstance(parent, cst.Subscript):
        index = parent.slice[0].slice if len(parent.slice) == 1 else None
        return isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) and index.value.value == "0"
    if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return False
    target = parent.targets[0].target
    if not isinstance(target, (cst.Tuple, cst.List)) or len(target.elements) != 2:
        return False
    second = target.elements[1]
    if isinstance(second, cst.StarredElement) or not isinstance(second.value, cst.Name):
        return False
    function = next((node for node in tree.ancestors(call) if isinstance(node, cst.FunctionDef)), None)
    return function is not None and all(o.kind == BIND for o in occurrences(tree, function, second.value.value))


SOFTMAX = ("torch.softmax", "torch.nn.functional.softmax", "torch.Tensor.softmax", "torch.special.softmax", ".softmax")
_FUSED = frozenset({"scaled_dot_product_attention", "flex_attention", "memory_efficient_attention", "flash_attn_func"})
_MATMUL = frozenset({"matmul", "bmm"})
_TRANSPOSED = frozenset({"transpose", "permute", "t", "swapaxes", "transpose_", "mT", "T", "rearrange"})
_KEEPS_SCORES = frozenset("masked_fill masked_fill_ float to type type_as contiguous half add add_ div mul sub".split())
_SCALES = frozenset({"div", "mul", "div_", "mul_"})
_KEEPS_WEIGHTS = frozenset("to type type_as float half contiguous dropout".split())
_DROPOUTS = frozenset({"torch.nn.Dropout", "torch.nn.AlphaDropout", "torch.nn.Identity"})
_MAX_HOPS = 12


def written_by_hand(program: ProgramFacts) -> Iterator[Event]:
    """The softmaxes of `softmax(q @ k.transpose(-2, -1) * s) @ v`, where nothing else reads the weights."""
    calls: list[Event] = [*program.calls(*SOFTMAX)]
    calls += (
        event
        for event in program.events(Forward)
        if any(
            isinstance(m, Module) and isinstance(m.core.cls, Lib) and m.core.cls.name == "torch.nn.Softmax"
            for m in options(event.module)
        )
    )
    drops = frozenset(_dropouts(program)) if calls else frozenset()
    seen: set[int] = set()
    for event in calls:
        node = event.place.node
        if id(node) in seen or not isinstance(node, cst.Call):
            continue
        seen.add(id(node))
        method = isinstance(event, Call) and event.name in (".softmax", "torch.Tensor.softmax")
        if _ByHand(event.place, drops).holds(node, method=method):
            yield event


def _dropouts(program: ProgramFacts) -> Iterator[int]:
    """The nodes of calls that drop some of what they are given."""
    for forward in program.events(Forward):
        modules = [m.core.cls for m in options(forward.module) if isinstance(m, Module)]
        if modules and all(isinstance(cls, Lib) and cls.name in _DROPOUTS for cls in modules):
            yield id(forward.place.node)
    for call in program.calls("torch.nn.functional.dropout", "torch.dropout"):
        yield id(call.place.node)


class _ByHand:
    """The text of one function around a softmax; `drops`: the nodes of calls of dropout."""

    def __init__(self, place: Place, drops: frozenset[int]) -> None:
        self._tree = place.tree
        self._drops = drops
        found = (node for node in place.tree.ancestors(place.node) if isinstance(node, cst.FunctionDef))
        self._function = next(found, None)
        self._scaled = False

    def holds(self, softmax: cst.Call, *, method: bool) -> bool:
        if self._function is None or any(
            isinstance(node, (cst.Name, cst.Attribute)) and dotted(node).rpartition(".")[2] in _FUSED
            for node in self._tree.walk()
        ):
            return False
        scores = softmax.func.value if method and isinstance(softmax.func, cst.Attribute) else _first(softmax)
        values = self._weighed(softmax)
        keys = self._keys(scores, softmax) if scores is not None and values is not None else None
        # Attention of a decoder's step over what is key and value in one is another thing.
        if keys is None or values is None or not self._scaled:
            return False
        return self._tree.code(keys) != self._tree.code(values)

    # From the softmax back to the product of queries and keys

    def _keys(self, scores: cst.BaseExpression, before: cst.CSTNode) -> cst.BaseExpression | None:
        node: cst.BaseExpression | None = scores
        for _ in range(_MAX_HOPS):
            if isinstance(node, cst.Name):
                before, node = self._bound(node, before)
            elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
                return self._transposed(node.left, node.right, node)
            elif isinstance(node, cst.BinaryOperation):
                self._scaled = self._scaled or isinstance(node.operator, (cst.Multiply, cst.Divide))
                left = self._holds_product(node.left, before)
                node = node.left if left else node.right
            elif isinstance(node, cst.Call):
                name, args = _called(node), [arg.value for arg in node.args if arg.keyword is None]
                if name in _MATMUL:
                    operands = args if len(args) == 2 else [*_receiver(node), *args]
                    return self._transposed(operands[0], operands[1], node) if len(operands) == 2 else None
                if name not in _KEEPS_SCORES or not isinstance(node.func, cst.Attribute):
                    return None
                self._scaled = self._scaled or name in _SCALES
                node = node.func.value
            else:
                return None
        return None

    def _holds_product(self, node: cst.BaseExpression, before: cst.CSTNode) -> bool:
        """Whether a factor or summand is the one that leads to a matrix product."""
        for _ in range(_MAX_HOPS):
            if isinstance(node, cst.BinaryOperation):
                if isinstance(node.operator, cst.MatrixMultiply):
                    return True
                node = node.left
            elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                if _called(node) in _MATMUL:
                    return True
                node = node.func.value
            elif isinstance(node, cst.Name):
                before, found = self._bound(node, before)
                if found is None:
                    return False
                node = found
            else:
                return False
        return False

    def _transposed(
        self, queries: cst.BaseExpression, keys: cst.BaseExpression, product: cst.CSTNode
    ) -> cst.BaseExpression | None:
        """The keys, where they are transposed for the product."""
        if isinstance(keys, cst.Name):
            _, found = self._bound(keys, product)
            keys = found if found is not None else keys
        name = (
            _called(keys) if isinstance(keys, cst.Call) else keys.attr.value if isinstance(keys, cst.Attribute) else ""
        )
        if name not in _TRANSPOSED:
            return None
        self._scaled = self._scaled or self._is_scaled(queries, product)
        inner = keys.func if isinstance(keys, cst.Call) else keys
        return inner.value if isinstance(inner, cst.Attribute) else keys

    def _is_scaled(self, queries: cst.BaseExpression, before: cst.CSTNode) -> bool:
        if isinstance(queries, cst.Name) and self._function is not None:
            start = self._tree.span(before)[0]
            for found in occurrences(self._tree, self._function, queries.value):
                if self._tree.span(found.node)[0] < start and found.value is not None:
                    if found.kind == UPDATE or self._is_product(found.value):
                        return True
        return self._is_product(queries)

    @staticmethod
    def _is_product(node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Multiply, cst.Divide))

    def _bound(self, name: cst.Name, before: cst.CSTNode) -> tuple[cst.CSTNode, cst.BaseExpression | None]:
        """The last assignment to a name in front of a place, updates looked through."""
        assert self._function is not None
        statement = self._tree.statement(before)
        start = self._tree.span(statement if statement is not None else before)[0]
        for found in reversed(occurrences(self._tree, self._function, name.value)):
            if self._tree.span(found.node)[0] >= start:
                continue
            if found.kind == UPDATE:
                above = self._tree.statement(found.node)
                operator = above.operator if isinstance(above, cst.AugAssign) else None
                self._scaled = self._scaled or isinstance(operator, (cst.MultiplyAssign, cst.DivideAssign))
            elif found.kind != READ:
                return found.node, found.value
        return before, None

    # From the softmax on to the product with the values

    def _weighed(self, softmax: cst.Call) -> cst.BaseExpression | None:
        """The values, where the product with them is all that becomes of the weights."""
        node: cst.CSTNode = softmax
        for _ in range(_MAX_HOPS):
            parent = self._tree.parent(node)
            if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.MatrixMultiply):
                return parent.right if parent.left is node else None
            if isinstance(parent, cst.Attribute) and parent.value is node:
                call = self._tree.parent(parent)
                if not isinstance(call, cst.Call) or call.func is not parent:
                    return None
                if parent.attr.value in _MATMUL:
                    return _first(call)
                if parent.attr.value not in _KEEPS_WEIGHTS:
                    return None
                node = call
            elif isinstance(parent, cst.Arg):
                call = self._tree.parent(parent)
                if not isinstance(call, cst.Call) or call.args[0] is not parent:
                    return None
                if _called(call) in _MATMUL:
                    return call.args[1].value if len(call.args) == 2 else None
                if id(call) not in self._drops:
                    return None
                node = call
            elif isinstance(parent, cst.Assign) and len(parent.targets) == 1:
                use = self._only_use(parent.targets[0].target)
                if use is None:
                    return None
                node = use
            else:
                return None
        return None

    def _only_use(self, target: cst.BaseExpression) -> cst.Name | None:
        """The one read of a name before it is bound anew."""
        if not isinstance(target, cst.Name) or self._function is None:
            return None
        names = occurrences(self._tree, self._function, target.value)
        here = next(index for index, found in enumerate(names) if found.node is target)
        after = names[here + 1 :]
        if not after or after[0].kind != READ or (len(after) > 1 and after[1].kind != BIND):
            return None
        return after[0].node


def _called(call: cst.Call) -> str:
    return dotted(call.func).rpartition(".")[2] or (
        call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    )


def _receiver(call: cst.Call) -> list[cst.BaseExpression]:
    return [call.func.value] if isinstance(call.func, cst.Attribute) else []


def _first(call: cst.Call) -> cst.BaseExpression | None:
    return call.args[0].value if call.args and not call.args[0].star and call.args[0].keyword is None else None

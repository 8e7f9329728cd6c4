"""Whether an expression has the same value each time: in all iterations of a loop, for all items of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Assign, Ctx, Place
from ptlint.facts.occurrences import READ, occurrences
from ptlint.facts.scopes import bound_names, dotted, target_names, walk
from ptlint.facts.values import Function

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.syntax.tree import Tree

MAX_DEPTH = 8

_PURE = frozenset(
    "len range min max int float str bool abs round list tuple dict set sorted zip enumerate reversed isinstance sum "
    "os.path.join os.path.expanduser os.path.abspath os.path.dirname os.path.basename os.cpu_count os.listdir "
    "glob.glob glob.iglob open os.path.exists os.path.isfile os.path.isdir pathlib.Path "
    "torch.cuda.is_available torch.cuda.device_count "
    "torch.device torch.utils.data.Subset torch.utils.data.TensorDataset torch.utils.data.ConcatDataset "
    "torch.utils.data.DistributedSampler torch.utils.data.distributed.DistributedSampler "
    "torch.utils.data.SequentialSampler torch.utils.data.RandomSampler torch.utils.data.SubsetRandomSampler "
    "torch.utils.data.BatchSampler torch.utils.data.DataLoader functools.partial".split()
)
_PURE_PACKAGES = ("torchvision.transforms.", "torchvision.datasets.", "albumentations.", "transformers.", "torch.nn.")
_PURE_METHODS = frozenset(
    "join format replace split strip lower upper startswith endswith joinpath with_suffix rglob get".split()
)
_LEAVES = (cst.Integer, cst.Float, cst.SimpleString, cst.Lambda, cst.Ellipsis)
_JOINTS = (
    cst.Comparison, cst.BooleanOperation, cst.BinaryOperation, cst.UnaryOperation, cst.IfExp, cst.Tuple, cst.List,
    cst.Dict, cst.Set, cst.FormattedString, cst.FormattedStringExpression, cst.FormattedStringText, cst.Subscript,
    cst.ConcatenatedString, cst.Element, cst.StarredElement, cst.DictElement, cst.StarredDictElement,
    cst.ComparisonTarget, cst.SubscriptElement, cst.Index, cst.Slice, cst.Arg,
)  # fmt: skip


class Invariance:
    """What stays the same from one run of a region to the next.

    `region` is a loop, or the frame of a function such as `__getitem__`, all parameters of which but `self` vary.
    What cannot be told varies.
    """

    def __init__(self, facts: ProgramFacts, region: Ctx) -> None:
        self._facts = facts
        self._region = region
        self._assigned = {
            event.target for event in facts.events(Assign) if event.holder is not None and event.ctx.inside(region)
        }

    def holds(self, node: cst.CSTNode, place: Place, ctx: Ctx, depth: int = 0) -> bool:
        """Whether the expression `node`, in the tree of `place`, run in `ctx`, is the same each time."""
        if depth > MAX_DEPTH:
            return False
        if isinstance(node, cst.Name):
            return self._name(node, place, ctx, depth)
        if isinstance(node, cst.Attribute):
            if f".{node.attr.value}" in self._assigned:
                return False
            root = chain_root(node)
            if root is not None:
                kept = all(f".{part}" not in self._assigned for part in dotted(node).split(".")[1:])
                return kept and self._name(root, place, ctx, depth, dotted(node))
            return self.holds(node.value, place, ctx, depth)
        if isinstance(node, cst.Call):
            return self._call(node, place, ctx, depth)
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            clause = node.for_in
            own = set(target_names(clause.target))
            parts = [node.elt, *(test.test for test in clause.ifs)]
            inner = [part for top in parts for part in walk(top) if isinstance(part, (cst.Name, cst.Call))]
            simple = all(isinstance(part, cst.Name) and part.value in own for part in inner)
            return simple and clause.inner_for_in is None and self.holds(clause.iter, place, ctx, depth)
        if isinstance(node, _LEAVES):
            return True
        if isinstance(node, _JOINTS):
            return all(self.holds(part, place, ctx, depth) for part in _values_in(place.tree, node))
        return False

    def _call(self, node: cst.Call, place: Place, ctx: Ctx, depth: int) -> bool:
        events = self._facts.calls_at(node)
        names = {event.name for event in events}
        func = node.func
        if names:
            pure = all(name in _PURE or name.startswith(_PURE_PACKAGES) for name in names)
            if not pure and not all(name.rpartition(".")[2] in _PURE_METHODS for name in names):
                return False
        elif not (isinstance(func, cst.Attribute) and func.attr.value in _PURE_METHODS):
            return False
        if isinstance(func, cst.Attribute) and not self.holds(func.value, place, ctx, depth):
            return False
        return all(self.holds(arg.value, place, ctx, depth) for arg in node.args)

    def _name(self, node: cst.Name, place: Place, ctx: Ctx, depth: int, chain: str = "") -> bool:
        """Whether a name, or the chain of attributes that begins with it, is the same each time."""
        frame = ctx.frame()
        function = frame.function
        loop = self._region.place if self._region.kind == "loop" else None
        same_frame = self._region.frame() is frame
        if function is None or not isinstance(function.node, cst.FunctionDef):
            if not (same_frame and loop is not None):
                return True
            return self._in_loop(node.value, place.tree, loop.node, place, ctx, depth, chain)
        if same_frame and loop is not None:
            return self._in_loop(node.value, place.tree, loop.node, place, ctx, depth, chain)
        parameters = _parameters(function.node)
        if node.value in parameters:
            if changed(place.tree, function.node, node.value, chain):
                return False
            if parameters[0] == node.value and function.self_value is not None:
                return True
            return frame is not self._region and self._argument(node.value, function, frame, depth)
        bound = [found for found in occurrences(place.tree, function.node, node.value) if found.kind != READ]
        if not bound:  # a global, or a name of a function around
            return not self._is_outside(place, function.node) or self._outside(node.value, depth, chain)
        return not changed(place.tree, function.node, node.value, chain) and all(
            (value := found.value or _opened(place.tree, found.node)) is not None
            and self.holds(value, place, ctx, depth + 1)
            for found in bound
        )

    def _in_loop(
        self, name: str, tree: Tree, loop: cst.CSTNode, place: Place, ctx: Ctx, depth: int, chain: str
    ) -> bool:
        """Whether a name of the function (or file) that a loop stands in is the same in all its iterations."""
        if not isinstance(loop, (cst.For, cst.While)):
            return False
        if isinstance(loop, cst.For) and name in set(target_names(loop.target)):
            return False
        if changed(tree, loop, name, chain):
            return False
        if name not in bound_names(loop.body):
            return True
        inside = {id(node) for node in walk(loop, into_scopes=True)}
        holder = next((n for n in tree.ancestors(loop) if isinstance(n, cst.FunctionDef)), tree.module)
        bound = [found for found in occurrences(tree, holder, name) if found.kind != READ and id(found.node) in inside]
        return all(found.value is not None and self.holds(found.value, place, ctx, depth + 1) for found in bound)

    def _is_outside(self, place: Place, function: cst.FunctionDef) -> bool:
        """Whether a function looks up in the region's own function (or file) what it does not bind itself."""
        loop = self._region.place if self._region.kind == "loop" else None
        if loop is None:
            return False
        holder = _holder(loop)
        if holder is None:
            return loop.path == place.path
        return holder is not function and any(above is holder for above in place.tree.ancestors(function))

    def _outside(self, name: str, depth: int, chain: str) -> bool:
        loop = self._region.place
        assert loop is not None and self._region.parent is not None
        return self._in_loop(name, loop.tree, loop.node, loop, self._region, depth, chain)

    def _argument(self, name: str, function: Function, frame: Ctx, depth: int) -> bool:
        """Whether what a caller gives for a parameter is the same each time."""
        call, caller = frame.place, frame.parent
        if call is None or caller is None or not isinstance(call.node, cst.Call) or not caller.inside(self._region):
            return False
        args = call.node.args
        if any(arg.star for arg in args):
            return False
        given = next((arg for arg in args if arg.keyword is not None and arg.keyword.value == name), None)
        if given is None:
            assert isinstance(function.node, cst.FunctionDef)
            position = _parameters(function.node).index(name) - (function.self_value is not None)
            plain = [arg for arg in args if arg.keyword is None]
            if position >= len(plain):
                return True  # its default
            given = plain[position]
        return self.holds(given.value, call, caller, depth + 1)


def _holder(place: Place) -> cst.FunctionDef | None:
    """The function in which something stands."""
    return next((node for node in place.tree.ancestors(place.node) if isinstance(node, cst.FunctionDef)), None)


def _parameters(function: cst.FunctionDef) -> list[str]:
    params = function.params
    return [param.name.value for param in (*params.posonly_params, *params.params, *params.kwonly_params)]


def _opened(tree: Tree, node: cst.Name) -> cst.BaseExpression | None:
    """What `with ... as name:` enters."""
    label = tree.parent(node)
    item = tree.parent(label) if isinstance(label, cst.AsName) else None
    return item.item if isinstance(item, cst.WithItem) else None


def _values_in(tree: Tree, node: cst.CSTNode) -> list[cst.CSTNode]:
    """The expressions (and what holds some) right below a node."""
    return [
        child
        for child in tree.children(node)
        if isinstance(child, (cst.BaseExpression, *_JOINTS))
        and not isinstance(child, cst.BaseParenthesizableWhitespace)
    ]


def changed(tree: Tree, body: cst.CSTNode, name: str, chain: str = "") -> bool:
    """Whether statements change what a name holds: `name.append(x)`, `name[0] = x`, `shuffle(name)`.

    `chain`: an attribute of the name (`self.rows`) that counts alone: what is done to others does not change it.
    """
    for node in walk(body, into_scopes=True):
        if isinstance(node, cst.AugAssign):
            targets: list[cst.BaseExpression] = [node.target]
        elif isinstance(node, cst.Assign):
            targets = [t.target for t in node.targets if isinstance(t.target, (cst.Subscript, cst.Attribute))]
        elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            func = node.value.func
            targets = [func.value] if isinstance(func, cst.Attribute) else []
            if (func.attr if isinstance(func, cst.Attribute) else func).deep_equals(cst.Name("shuffle")):
                targets += [arg.value for arg in node.value.args]
        else:
            continue
        if any(_root(target) == name and _concerns(target, chain) for target in targets):
            return True
    return False


def _concerns(target: cst.BaseExpression, chain: str) -> bool:
    """Whether a change of a target changes a chain of attributes, or what it holds."""
    while isinstance(target, cst.Subscript):
        target = target.value
    text = dotted(target)
    return not chain or not text or f"{text}.".startswith(f"{chain}.") or f"{chain}.".startswith(f"{text}.")


def chain_root(node: cst.Attribute) -> cst.Name | None:
    """The name that a plain chain of attributes begins with."""
    base: cst.BaseExpression = node
    while isinstance(base, cst.Attribute):
        base = base.value
    return base if isinstance(base, cst.Name) else None


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""

"""All parameters of a model at once, in the place of a loop over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.layout import CannotEdit
from ptlint.edits.statements import replace_statements
from ptlint.facts.occurrences import READ, occurrences
from ptlint.facts.parameter_loops import CLAMP, NORM
from ptlint.facts.scopes import bound_names, dotted, target_names, walk
from ptlint.facts.values import UNKNOWN, Const, Num, Options, options
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.facts.events import Place
    from ptlint.facts.parameter_loops import ParameterLoop
    from ptlint.facts.program import ProgramFacts
    from ptlint.syntax.tree import Tree

_BOUNDS = ("min", "max")


def group(program: ProgramFacts, found: ParameterLoop) -> tuple[Edit, ...]:
    """`torch._foreach_clamp_min_` and `…max_`, or `torch._foreach_norm`, for a loop that does just that."""
    place, loop = found.place, found.place.node
    assert isinstance(loop, cst.For)
    if found.kind not in (CLAMP, NORM):
        raise CannotEdit("the lists of tensors are best made once, outside of the loop")
    if loop.orelse is not None or not _has_torch(found):
        raise CannotEdit("`torch` is not imported by that name")
    statements, test = _body(place.tree, loop)
    _check_names(place.tree, loop)
    given = _Given(place.tree, loop, test)
    if found.kind == CLAMP:
        return replace_statements(place.tree, loop, loop, _clamped(program, place, given, statements))
    return replace_statements(place.tree, loop, loop, [_norm(given, statements)])


class _Given:
    """What a loop goes over, as the comprehension of one expression."""

    def __init__(self, tree: Tree, loop: cst.For, test: cst.BaseExpression | None) -> None:
        self.tree = tree
        self.names = set(target_names(loop.target))
        tail = f" if {tree.code(test)}" if test is not None else ""
        self._rest = f"for {tree.code(loop.target)} in {tree.code(loop.iter)}{tail}"

    def each(self, expression: str) -> str:
        return f"[{expression} {self._rest}]"


def _has_torch(found: ParameterLoop) -> bool:
    outline = found.place.file.outline
    return any(item.module == "torch" and item.name is None and item.asname is None for item in outline.imports)


def _body(tree: Tree, loop: cst.For) -> tuple[list[cst.BaseSmallStatement], cst.BaseExpression | None]:
    """The statements of a loop, and the `is not None` that all of them stand under."""
    block, test = loop.body, None
    if len(block.body) == 1 and isinstance(block.body[0], cst.If) and block.body[0].orelse is None:
        test = block.body[0].test
        part = test.comparisons[0] if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 else None
        if part is None or not isinstance(part.operator, cst.IsNot):
            raise CannotEdit("the loop does not treat all parameters alike")
        block = block.body[0].body
    statements: list[cst.BaseSmallStatement] = []
    for line in block.body:
        if not isinstance(line, cst.SimpleStatementLine):
            raise CannotEdit("the loop does more than one thing")
        statements.extend(line.body)
    return statements, test


def _check_names(tree: Tree, loop: cst.For) -> None:
    """The names that the loop binds are not read behind it, where a comprehension leaves nothing."""
    start, end = tree.span(loop)
    holder = next((node for node in tree.ancestors(loop) if isinstance(node, cst.FunctionDef)), None)
    bound = set(target_names(loop.target)) | {
        name
        for node in walk(loop.body)
        if isinstance(node, cst.Assign)
        for target in node.targets
        for name in target_names(target.target)
    }
    for name in bound:
        for each in occurrences(tree, holder if holder is not None else tree.module, name):
            at = tree.span(each.node)[0]
            if each.kind == READ and not start <= at < end and not _is_bound_anew(tree, each.node, name):
                raise CannotEdit(f"`{name}` is read behind the loop")


def _is_bound_anew(tree: Tree, node: cst.CSTNode, name: str) -> bool:
    for above in tree.ancestors(node):
        if isinstance(above, cst.For) and name in set(target_names(above.target)):
            return True
        if isinstance(above, cst.BaseSimpleComp) and name in set(target_names(above.for_in.target)):
            return True
    return False


def _clamped(program: ProgramFacts, place: Place, given: _Given, statements: list[cst.BaseSmallStatement]) -> list[str]:
    call = statements[0].value if len(statements) == 1 and isinstance(statements[0], cst.Expr) else None
    func = call.func if isinstance(call, cst.Call) else None
    if not isinstance(call, cst.Call) or not isinstance(func, cst.Attribute):
        raise CannotEdit("the loop does more than clip")
    bounds: dict[str, str] = {}
    for number, arg in enumerate(call.args):
        name = arg.keyword.value if arg.keyword is not None else _BOUNDS[number] if number < 2 else ""
        if arg.star or name not in _BOUNDS or _root(arg.value) in given.names:
            raise CannotEdit("the bounds are not the same for all parameters")
        bounds[name] = given.tree.code(arg.value)
    if not bounds or not all(_is_number(program, place, arg.value) for arg in call.args):
        raise CannotEdit("the bounds may be tensors")
    tensors = given.each(_plain(given, func.value))
    return [f"torch._foreach_clamp_{name}_({tensors}, {bound})" for name, bound in bounds.items()]


def _is_number(program: ProgramFacts, place: Place, node: cst.BaseExpression) -> bool:
    """Whether a bound is a number: a literal, or an option or name of the file that is known to be one."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return _is_number(program, place, node.expression)
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    name, _, attribute = dotted(node).partition(".")
    holder = next((above for above in place.tree.ancestors(place.node) if isinstance(above, cst.FunctionDef)), None)
    if not name or (holder is not None and name in bound_names(holder)):
        return False
    found = options(program.run.home(place.path).globals.get(name, UNKNOWN))
    if attribute:
        found = tuple(o.attrs.get(attribute, UNKNOWN) if isinstance(o, Options) else UNKNOWN for o in found)
    values = [option for value in found for option in options(value)]
    return all(
        isinstance(value, Num) or (isinstance(value, Const) and isinstance(value.value, (int, float)))
        for value in values
    )


def _norm(given: _Given, statements: list[cst.BaseSmallStatement]) -> str:
    """`total += torch.stack(torch._foreach_norm([…])).square().sum()` for a sum of squared norms."""
    held: dict[str, cst.BaseExpression] = {}
    for statement in statements[:-1]:
        target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
        if not isinstance(statement, cst.Assign) or not isinstance(target, cst.Name) or len(statement.targets) > 1:
            raise CannotEdit("the loop does more than add norms up")
        held[target.value] = statement.value
    last = statements[-1] if statements else None
    if not isinstance(last, cst.AugAssign) or not isinstance(last.operator, cst.AddAssign):
        raise CannotEdit("the loop does more than add norms up")
    power = last.value
    if not isinstance(power, cst.BinaryOperation) or not isinstance(power.operator, cst.Power):
        raise CannotEdit("it is not the sum of squares that it makes")
    node, reads = _read(power.left, held)
    two = given.tree.code(power.right) in ("2", "2.0")
    func = node.func if isinstance(node, cst.Call) else None
    if not two or not isinstance(node, cst.Call) or not isinstance(func, cst.Attribute) or func.attr.value != "norm":
        raise CannotEdit("it is not the sum of squares that it makes")
    if any(given.tree.code(arg.value) not in ("2", "2.0") or len(node.args) > 1 for arg in node.args):
        raise CannotEdit("it is another norm")
    tensors = given.each(_plain(given, func.value))
    end = ".item()" if reads else ""
    return f"{given.tree.code(last.target)} += torch.stack(torch._foreach_norm({tensors})).square().sum(){end}"


def _read(node: cst.BaseExpression, held: dict[str, cst.BaseExpression]) -> tuple[cst.BaseExpression, bool]:
    """What a term reads, through the names that hold parts of it, and whether it takes the number."""
    reads = False
    for _ in range(len(held) + 2):
        if isinstance(node, cst.Name) and node.value in held:
            node = held[node.value]
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "item":
            node, reads = node.func.value, True
    return node, reads


def _plain(given: _Given, node: cst.BaseExpression) -> str:
    """A parameter, its data or its gradient, as text."""
    if _root(node) not in given.names or any(isinstance(part, (cst.Call, cst.Subscript)) for part in walk(node)):
        raise CannotEdit("the loop does more than go over the parameters")
    return given.tree.code(node)


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""

"""Counting over the samples of a batch at once, in the place of a loop over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.layout import CannotEdit
from ptlint.edits.statements import replace_statements
from ptlint.facts.occurrences import READ, occurrences
from ptlint.facts.scopes import target_names, walk
from ptlint.facts.values import DEVICE, HOST, Num, Tensor, Value, options
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.facts.samples import SampleLoop
    from ptlint.syntax.tree import Tree

_SIMPLE = (cst.Name, cst.Attribute)
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
_SIGNS: dict[type[cst.BaseCompOp], str] = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
}


@dataclass(frozen=True)
class Counted:
    """The edits, the first row that they write, and whether both sides are known to lie on one device."""

    edits: tuple[Edit, ...]
    text: str
    same_device: bool


@dataclass(frozen=True)
class _Rows:
    """What stands for a row in the loop: `y[j]` by the index, or names from `zip`; and how many rows there are."""

    tree: Tree
    index: str
    names: dict[str, cst.BaseExpression]
    length: str | None


def count_at_once(found: SampleLoop) -> Counted:
    """`correct += (prediction.argmax(dim=1) == y).sum().item()` for a loop that is exactly that."""
    tree, loop = found.place.tree, found.node
    rows = _rows(tree, loop)
    statements = [statement for line in loop.body.body for statement in _small(line)]
    if not statements or len(statements) > 2:
        raise CannotEdit("the loop does more than count")
    target, comparison = _counter(statements[0])
    text = _whole_comparison(rows, comparison)
    lines = [f"{tree.code(target)} += ({text}).sum().item()"]
    for extra in statements[1:]:
        lines.append(_total(tree, rows, extra))
    _check_names(tree, loop)
    edits = replace_statements(tree, loop, loop, lines)
    compared = found.compared
    same = compared is not None and _same_device(compared.left, compared.right)
    return Counted(edits, lines[0], same)


def _small(line: cst.CSTNode) -> Sequence[cst.CSTNode]:
    return line.body if isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else (line,)


def _rows(tree: Tree, loop: cst.For) -> _Rows:
    call = loop.iter
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Name):
        raise CannotEdit("the loop does not go over a range or `zip`")
    if call.func.value == "range" and isinstance(loop.target, cst.Name) and len(call.args) == 1:
        return _Rows(tree, loop.target.value, {}, tree.code(call.args[0].value))
    if call.func.value == "zip" and isinstance(loop.target, cst.Tuple):
        names = [element.value for element in loop.target.elements]
        if len(names) == len(call.args) and all(isinstance(name, cst.Name) for name in names):
            plain = not any(arg.star or arg.keyword is not None for arg in call.args)
            if plain and all(isinstance(arg.value, _ATOMS) for arg in call.args):
                pairs = zip(names, call.args, strict=True)
                wholes = {name.value: arg.value for name, arg in pairs if isinstance(name, cst.Name)}
                first = call.args[0].value
                return _Rows(tree, "", wholes, f"len({tree.code(first)})" if isinstance(first, cst.Name) else None)
    raise CannotEdit("the loop does not go over a range or `zip`")


def _counter(statement: cst.CSTNode) -> tuple[cst.BaseExpression, cst.Comparison]:
    """What is counted up, and the comparison that says when."""
    if isinstance(statement, cst.If) and statement.orelse is None:
        inner = [part for line in statement.body.body for part in _small(line)]
        if len(inner) == 1 and isinstance(statement.test, cst.Comparison) and _is_one_more(inner[0]):
            assert isinstance(inner[0], cst.AugAssign)
            return inner[0].target, statement.test
    if isinstance(statement, cst.AugAssign) and isinstance(statement.operator, cst.AddAssign):
        value = statement.value
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "item":
            value = value.func.value
        elif isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "int":
            value = value.args[0].value if len(value.args) == 1 else value
        if isinstance(value, cst.Comparison):
            return statement.target, value
    raise CannotEdit("the loop does more than count")


def _is_one_more(statement: cst.CSTNode) -> bool:
    return (
        isinstance(statement, cst.AugAssign)
        and isinstance(statement.operator, cst.AddAssign)
        and isinstance(statement.target, _SIMPLE)
        and isinstance(statement.value, cst.Integer)
        and statement.value.value == "1"
    )


def _whole_comparison(rows: _Rows, comparison: cst.Comparison) -> str:
    part = comparison.comparisons[0]
    sign = _SIGNS.get(type(part.operator))
    if len(comparison.comparisons) > 1 or sign is None:
        raise CannotEdit("it is not one comparison")
    sides = (comparison.left, part.comparator)
    argmax = any(_argmax_of(_bare(side)) is not None for side in sides)
    texts = [_whole(rows, side, flat=not argmax) for side in sides]
    if not any(texts):
        raise CannotEdit("what is compared are not rows")
    left, right = (text or rows.tree.code(side) for text, side in zip(texts, sides, strict=True))
    return f"{left} {sign} {right}"


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Without `.item()`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "item":
        return node.func.value
    return node


def _argmax_of(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`x` of `x.argmax()`, `torch.argmax(x)`; a row has one dimension, so that naming it changes nothing."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "argmax":
        return None
    given = [arg for arg in node.args if arg.keyword is None or arg.keyword.value != "dim"]
    if isinstance(node.func.value, cst.Name) and node.func.value.value == "torch":
        return given[0].value if given and len(given) <= 2 and len(node.args) <= 2 else None
    return node.func.value if len(node.args) <= 1 else None


def _whole(rows: _Rows, side: cst.BaseExpression, *, flat: bool) -> str | None:
    """The expression over all rows that stands for one over a row; None for a plain number."""
    node = _bare(side)
    if isinstance(node, (cst.Integer, cst.Float)):
        return None
    inner = _argmax_of(node)
    base = _base(rows, _bare(inner) if inner is not None else node)
    if base is None:
        raise CannotEdit("what is compared is worked out for each sample")
    if inner is not None:
        return f"{base}.argmax(dim=1)"
    # A column and a row would be compared each with each.
    return f"{base}.flatten()" if flat else base


def _base(rows: _Rows, node: cst.BaseExpression) -> str | None:
    if isinstance(node, cst.Name) and node.value in rows.names:
        return rows.tree.code(rows.names[node.value])
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.value, _SIMPLE):
        part = node.slice[0].slice
        if isinstance(part, cst.Index) and isinstance(part.value, cst.Name) and part.value.value == rows.index:
            return rows.tree.code(node.value)
    return None


def _total(tree: Tree, rows: _Rows, statement: cst.CSTNode) -> str:
    """`total += 1` in each pass."""
    if not _is_one_more(statement) or rows.length is None:
        raise CannotEdit("the loop does more than count")
    assert isinstance(statement, cst.AugAssign)
    return f"{tree.code(statement.target)} += {rows.length}"


def _check_names(tree: Tree, loop: cst.For) -> None:
    """Nothing may read the loop's own names later on."""
    scope = next((up for up in tree.ancestors(loop) if isinstance(up, cst.FunctionDef)), tree.module)
    inside = {id(node) for node in walk(loop)}
    for name in target_names(loop.target):
        others = [found for found in occurrences(tree, scope, name) if id(found.node) not in inside]
        if others and others[0].kind == READ:
            raise CannotEdit(f"`{name}` is used in other places too")


def _same_device(left: Value, right: Value) -> bool:
    found: set[str] = set()
    for option in (*options(left), *options(right)):
        if isinstance(option, Tensor):
            found.add(option.where)
        elif not isinstance(option, Num) and not hasattr(option, "value"):
            return False
    return len(found) == 1 and found <= {DEVICE, HOST}

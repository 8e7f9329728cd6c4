"""Taking reads out of a loop: sums that stay on the device, and reads moved to where their value is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.expressions import replace
from ptlint.edits.layout import CannotEdit
from ptlint.edits.statements import delete_statement, insert_after, insert_before
from ptlint.facts import guards
from ptlint.facts.events import Added, Ctx, Place, Read
from ptlint.facts.scopes import bound_names, walk
from ptlint.facts.values import ATTACHED, DETACHED, FLOATING, Const, Num, Tensor, Value, options
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts
    from ptlint.facts.reads import ReadGroup
    from ptlint.syntax.tree import Tree

_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
_NO_FLOAT64 = frozenset({"mps", "xla", "xm", "torch_xla"})
_ANY_DEVICE = frozenset({"accelerate", "lightning", "pytorch_lightning"})


@dataclass(frozen=True)
class _Term:
    """`total += read * n`: the statement, the call that reads, and the tensor that it reads."""

    statement: cst.AugAssign
    call: cst.Call
    tensor: cst.BaseExpression
    value: Value


@dataclass(frozen=True)
class Rewrite:
    """Edits, and what they write, in short."""

    edits: tuple[Edit, ...]
    text: str


def sum_on_device(program: ProgramFacts, group: ReadGroup) -> Rewrite:
    """Leave running sums on the device and read them once, after the loop.

    A sum starts as a Python number; adding the first tensor moves it to that tensor's device. Losses are added in
    float64, in which Python counts too, and counts in int64, so that the sums are the same to the last bit.
    """
    place = group.first.place
    terms = [_term(read, place.tree) for read in _once(group.reads)]
    _check_neighbours(place.tree, terms)
    added = {id(event.place.node): event for event in program.events(Added)}
    edits: list[Edit] = []
    numbers: dict[str, list[_Term]] = {}
    for term in terms:
        event = added.get(id(term.statement))
        if event is None:
            raise CannotEdit("what it is added to is not known")
        if all(isinstance(option, Tensor) and option.on_device for option in options(event.total)):
            edits += _detached(place.tree, term)
        else:
            _check_number(term, event)
            numbers.setdefault(_name_of(term), []).append(term)
    if not numbers:
        return Rewrite(tuple(edits), f"`{place.tree.code(terms[0].tensor)}.detach()`")
    loop = _loop_of(group, place.tree, terms)
    after: list[str] = []
    text = ""
    for name, its in numbers.items():
        whole = {_is_whole(program, term) for term in its}
        if len(whole) > 1:
            raise CannotEdit(f"`{name}` sums whole numbers and others")
        convert = "int" if whole.pop() else "float"
        edits += _sum_edits(_Sum(program, group.loop, place, loop, name, its), convert)
        if _is_read_elsewhere(program, place, loop, name):
            after.append(f"{name} = {convert}({name})")
        text = text or f"`{_rewritten(place.tree, its[0], convert)}`"
    if after:
        edits += insert_after(place.tree, loop, after)
    return Rewrite(tuple(edits), f"{text}{f', and `{after[0]}` after the loop' if after else ''}")


def _check_neighbours(tree: Tree, terms: Sequence[_Term]) -> None:
    """Nothing is won where another read of the same results stays: of a value of which less is known."""
    calls = {id(term.call) for term in terms}
    block = tree.parent(tree.body_statement(terms[0].statement) or terms[0].statement)
    for line in getattr(block, "body", ()):
        if isinstance(line, cst.SimpleStatementLine):
            for node in walk(line):
                if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and id(node) not in calls:
                    if node.func.attr.value == "item" and not node.args:
                        raise CannotEdit(f"`{_short(tree.code(node))}` would still be read")


def _once(reads: Iterable[Read]) -> list[Read]:
    """One read for each place."""
    return list({id(read.place.node): read for read in reads}.values())


def _term(read: Read, tree: Tree) -> _Term:
    if read.place.tree is not tree:
        raise CannotEdit("the values are read in several places of the program")
    node = read.place.node
    statement = tree.statement(node)
    call, tensor = _reading_call(node, tree)
    if call is None or tensor is None or not isinstance(statement, cst.AugAssign):
        raise CannotEdit(f"`{_short(tree.code(node))}` is used for more than a running sum")
    inner: cst.CSTNode = call
    while inner is not statement.value:
        parent = tree.parent(inner)
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Divide):
            raise CannotEdit("a division on the device is rounded otherwise")
        if not isinstance(parent, cst.BinaryOperation) or not isinstance(parent.operator, cst.Multiply):
            raise CannotEdit("what is added is more than the value that is read, times a number")
        inner = parent
    return _Term(statement, call, tensor, read.value)


def _reading_call(node: cst.CSTNode, tree: Tree) -> tuple[cst.Call | None, cst.BaseExpression | None]:
    """`t.item()` or `float(t)`, and `t`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "item":
        return (node, node.func.value) if not node.args else (None, None)
    arg = tree.parent(node)
    call = tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value in ("float", "int"):
        return (call, node) if isinstance(node, cst.BaseExpression) and len(call.args) == 1 else (None, None)
    return None, None


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 40 else f"{line[:37]}..."


def _detached(tree: Tree, term: _Term) -> tuple[Edit, ...]:
    """`losses[k] += loss.item()` of a tensor on the device needs no read."""
    if term.call is not term.statement.value:
        raise CannotEdit("a product of float32 tensors is rounded otherwise than one of Python floats")
    return replace(tree, term.call, f"{tree.outer_code(term.tensor)}.detach()")


def _check_number(term: _Term, event: Added) -> None:
    if not all(_is_number(option) for option in options(event.total)):
        raise CannotEdit("whether the sum is a number when the loop begins is not known")
    if not all(isinstance(option, Num) for option in options(event.value)):
        raise CannotEdit("what the value is multiplied by is not known to be a number")


def _is_number(value: Value) -> bool:
    if isinstance(value, Num):
        return value.type in ("int", "float", "any")
    return isinstance(value, Const) and isinstance(value.value, (int, float))


def _name_of(term: _Term) -> str:
    if not isinstance(term.statement.target, cst.Name):
        raise CannotEdit("the sum is kept in an object that other code may read at any time")
    return term.statement.target.value


def _is_whole(program: ProgramFacts, term: _Term) -> bool:
    """Whether a term is a count (int64) or a floating number."""
    value = term.value
    if isinstance(value, Tensor) and value.dtype in ("int64", "long", "bool"):
        return True
    floating = isinstance(value, Tensor) and (value.dtype in FLOATING or value.graph == ATTACHED)
    if not floating:
        raise CannotEdit("whether the values are whole numbers is not known")
    if may_lack_float64(program):
        raise CannotEdit("the device may be one without float64 (MPS, XLA)")
    return False


def may_lack_float64(program: ProgramFacts) -> bool:
    """Whether the program may run on MPS or XLA: it says so, or takes what accelerator there is."""
    if program.words & _NO_FLOAT64 or program.packages & _ANY_DEVICE:
        return True
    return any(name.startswith("torch.accelerator.") for name in program.dotted)


def _loop_of(group: ReadGroup, tree: Tree, terms: Sequence[_Term]) -> cst.For | cst.While:
    loop = group.loop.place.node if group.loop.place is not None else None
    for term in terms:
        nearest = next((up for up in tree.ancestors(term.statement) if isinstance(up, (cst.For, cst.While))), None)
        if nearest is None or nearest is not loop:
            raise CannotEdit("the sum is made in a function or loop inside of the loop")
    assert isinstance(loop, (cst.For, cst.While))
    if loop.orelse is not None or (isinstance(loop, cst.For) and loop.asynchronous is not None):
        raise CannotEdit("the loop has an `else` or is asynchronous")
    return loop


@dataclass(frozen=True)
class _Sum:
    program: ProgramFacts
    ctx: Ctx
    place: Place
    loop: cst.For | cst.While
    name: str
    terms: Sequence[_Term]


def _sum_edits(total: _Sum, convert: str) -> Iterator[Edit]:
    tree, name = total.place.tree, total.name
    _check_scope(total)
    targets = {id(term.statement.target) for term in total.terms}
    rare = _rare_arms(total.ctx)
    for use in uses(tree, total.loop, name):
        if id(use) in targets:
            continue
        if not _is_rare(tree, use, total.loop, rare):
            raise CannotEdit(f"`{name}` is used in every iteration")
        parent = tree.parent(use)
        if isinstance(parent, cst.AssignTarget):
            assigned = tree.parent(parent)
            if not isinstance(assigned, cst.Assign) or not isinstance(assigned.value, (cst.Integer, cst.Float)):
                raise CannotEdit(f"`{name}` is set to something else in the loop")
        elif isinstance(parent, (cst.AugAssign, cst.For, cst.NamedExpr, cst.Element, cst.Del)):
            raise CannotEdit(f"`{name}` is changed in the loop in other ways too")
        else:
            yield from replace(tree, use, f"{convert}({name})")
    for term in total.terms:
        yield from replace(tree, term.call, _on_device(tree, term, convert))


def _rewritten(tree: Tree, term: _Term, convert: str) -> str:
    """The statement as it will be, on one row."""
    start, end = tree.span(term.call)
    first, last = tree.span(term.statement)
    text = tree.source.text
    return " ".join(f"{text[first:start]}{_on_device(tree, term, convert)}{text[end:last]}".split())


def _on_device(tree: Tree, term: _Term, convert: str) -> str:
    """What is added instead of the number that was read."""
    text = tree.outer_code(term.tensor)
    if convert == "int":
        return text
    detach = "" if isinstance(term.value, Tensor) and term.value.graph == DETACHED else ".detach()"
    return f"{text}{detach}.double()"


def uses(tree: Tree, node: cst.CSTNode, name: str) -> Iterator[cst.Name]:
    """Where a name is used under a node, not counting attributes and keywords of that name."""
    for inner in walk(node, into_scopes=True):
        if isinstance(inner, cst.Name) and inner.value == name:
            parent = tree.parent(inner)
            if isinstance(parent, cst.Attribute) and parent.attr is inner:
                continue
            if isinstance(parent, cst.Arg) and parent.keyword is inner:
                continue
            yield inner


def _rare_arms(loop: Ctx) -> set[tuple[int, bool]]:
    """The arms of tests in a loop that seldom run: the `if`, and whether it is its body."""
    found: set[tuple[int, bool]] = set()
    for ctx in loop.down():
        if ctx.kind == "guard" and ctx.place is not None and ctx.test is not None and not ctx.step:
            yes, no = guards.arms(ctx.test)
            if yes == guards.RARE:
                found.add((id(ctx.place.node), True))
            if no == guards.RARE:
                found.add((id(ctx.place.node), False))
    return found


def _is_rare(tree: Tree, node: cst.CSTNode, loop: cst.CSTNode, rare: set[tuple[int, bool]]) -> bool:
    inner: cst.CSTNode = node
    for up in tree.ancestors(node):
        if up is loop:
            return False
        if isinstance(up, cst.If):
            if inner is up.body and (id(up), True) in rare:
                return True
            if inner is up.orelse and (id(up), False) in rare:
                return True
        inner = up
    return False


def _check_scope(total: _Sum) -> None:
    """Nobody else may see the sum while it lies on the device."""
    tree, name = total.place.tree, total.name
    scope = next((up for up in tree.ancestors(total.loop) if isinstance(up, _SCOPES)), None)
    if isinstance(scope, (cst.ClassDef, cst.Lambda)):
        raise CannotEdit("the loop does not stand in a function")
    for up in tree.ancestors(total.loop):
        if isinstance(up, (cst.Try, cst.TryStar)):
            rest = [*up.handlers, *([up.finalbody] if up.finalbody is not None else [])]
            if any(True for part in rest for _ in uses(tree, part, name)):
                raise CannotEdit(f"`{name}` is used where an exception leaves the loop")
    for inner in walk(scope if scope is not None else tree.module, into_scopes=True):
        if isinstance(inner, (cst.Global, cst.Nonlocal)) and any(item.name.value == name for item in inner.names):
            raise CannotEdit(f"`{name}` is a variable of other functions too")
        if isinstance(inner, _SCOPES) and inner is not scope and any(True for _ in uses(tree, inner, name)):
            if scope is not None or not isinstance(inner, cst.FunctionDef) or name not in bound_names(inner):
                raise CannotEdit(f"a function inside of this one uses `{name}`")
    if scope is None:
        file = total.program.project.file(total.place.path)
        if any(s.kind in ("def", "class") and name in s.words for s in file.outline.statements):
            raise CannotEdit(f"`{name}` is global, and functions use that name")


def _is_read_elsewhere(program: ProgramFacts, place: Place, loop: cst.CSTNode, name: str) -> bool:
    """Whether a sum is read outside of the loop."""
    tree = place.tree
    scope = next((up for up in tree.ancestors(loop) if isinstance(up, cst.FunctionDef)), None)
    inside = {id(use) for use in uses(tree, loop, name)}
    for use in uses(tree, scope if scope is not None else tree.module, name):
        if id(use) not in inside and not _is_literal_store(tree, use):
            return True
    if scope is not None:
        return False
    first = program.project.file(place.path).outline.statements
    row = tree.row(tree.body[0])
    return any(name in s.words and not s.first_row <= row <= s.last_row for s in first if s.kind != "simple") or any(
        name in s.words and s.first_row > row for s in first
    )


def _is_literal_store(tree: Tree, use: cst.Name) -> bool:
    target = tree.parent(use)
    assigned = tree.parent(target) if isinstance(target, cst.AssignTarget) else None
    return isinstance(assigned, cst.Assign) and isinstance(assigned.value, (cst.Integer, cst.Float))


def move_into_guard(group: ReadGroup) -> Rewrite:
    """Move reads into the seldom taken `if` behind them that is the only one to use their values."""
    place = group.first.place
    tree = place.tree
    rare = _rare_arms(group.loop)
    edits: list[Edit] = []
    lines: list[str] = []
    target: cst.If | None = None
    for read in _once(group.reads):
        statement = tree.statement(read.place.node) if read.place.tree is tree else None
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            raise CannotEdit("the value is used in every iteration")
        name = statement.targets[0].target
        if not isinstance(name, cst.Name):
            raise CannotEdit("the value is kept in an object that other code may read at any time")
        guard = _only_reader(tree, statement, name.value, rare)
        if target is not None and guard is not target:
            raise CannotEdit("the values are used in different places")
        target = guard
        edits += delete_statement(tree, statement)
        lines.append(tree.code(statement))
    if target is None or not isinstance(target.body, cst.IndentedBlock):
        raise CannotEdit("the `if` that uses the value stands on one row")
    edits += insert_before(tree, target.body.body[0], lines)
    return Rewrite(tuple(edits), f"`{_short(lines[0])}` below `if {_short(tree.code(target.test))}:`")


def _only_reader(tree: Tree, statement: cst.Assign, name: str, rare: set[tuple[int, bool]]) -> cst.If:
    line = tree.parent(statement)
    block = tree.parent(line) if line is not None else None
    if not isinstance(block, cst.IndentedBlock) or not isinstance(line, cst.SimpleStatementLine):
        raise CannotEdit("the value is used in every iteration")
    scope = next((up for up in tree.ancestors(statement) if isinstance(up, _SCOPES)), tree.module)
    following = list(block.body)[list(block.body).index(line) + 1 :]
    users = [node for node in following if any(True for _ in uses(tree, node, name))]
    if len(users) != 1 or not isinstance(users[0], cst.If) or (id(users[0]), True) not in rare:
        raise CannotEdit("the value is used in every iteration")
    guard = users[0]
    inside = sum(1 for _ in uses(tree, guard.body, name))
    if inside != sum(1 for _ in uses(tree, scope, name)) - 1:
        raise CannotEdit(f"`{name}` is used in other places too")
    between = following[: following.index(guard)]
    needed = {inner.value for inner in walk(statement.value, into_scopes=True) if isinstance(inner, cst.Name)}
    if any(needed & bound_names(node) for node in between):
        raise CannotEdit("what is read changes before the value is used")
    return guard

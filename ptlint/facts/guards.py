"""Tests: which arm runs, how often, and what a test says of the names in it."""

from __future__ import annotations

import re

import libcst as cst

from ptlint.facts.events import Clock, Ctx, Read
from ptlint.facts.scopes import leaves_loop
from ptlint.facts.values import (
    OFTEN_PERIOD,
    Array,
    Const,
    Device,
    FileRef,
    Function,
    Items,
    Join,
    Lib,
    Mapping,
    Num,
    Obj,
    Partial,
    ProjectClass,
    Sequence,
    Tensor,
    Tuple,
    Value,
    join_all,
    options,
    reads_of,
)

NEVER, RARE, MAYBE, ALWAYS, OFF_PATH, EXCEPT = "never", "rare", "maybe", "always", "off-path", "except"


def arms(test: Value) -> tuple[str, str]:
    """How often the `if` arm and the `else` arm run."""
    results = {_arms(option) for option in options(test)}
    if len(results) == 1:
        return results.pop()
    if all(no == NEVER for _, no in results):
        return ALWAYS, NEVER
    if all(yes == NEVER for yes, _ in results):
        return NEVER, ALWAYS
    if all(yes in (RARE, NEVER) for yes, _ in results):
        return RARE, ALWAYS
    if all(no in (OFF_PATH, NEVER) for _, no in results):
        return ALWAYS, OFF_PATH
    return MAYBE, MAYBE


def _arms(value: Value) -> tuple[str, str]:
    if isinstance(value, Const):
        if value.value:
            return (ALWAYS, OFF_PATH) if value.soft else (ALWAYS, NEVER)
        return (RARE, ALWAYS) if value.soft else (NEVER, ALWAYS)
    if isinstance(value, Num):
        if value.rare:
            return RARE, ALWAYS
        if value.often:
            return ALWAYS, RARE
        if value.period is not None:  # the truth of `i % n` itself
            return ALWAYS, MAYBE if 0 < value.period <= OFTEN_PERIOD else RARE
        return MAYBE, MAYBE
    known = truth(value)
    if known is None:
        return MAYBE, MAYBE
    return (ALWAYS, NEVER) if known else (NEVER, ALWAYS)


def truth(value: Value) -> bool | None:
    """Whether a value is true, where that is known for good."""
    if isinstance(value, Const):
        return None if value.soft else bool(value.value)
    if isinstance(value, Tuple):
        return bool(value.items)
    if isinstance(value, (Sequence, Mapping, Items)):
        return None
    if isinstance(value, Obj):
        return None if value.open else True
    if isinstance(value, (Function, ProjectClass, Lib, FileRef, Device, Partial)):
        return True
    return None


def chooses(guard: Ctx) -> bool:
    """Whether a branch is one of several that a name chooses among, which names no device."""
    node = guard.place.node if guard.place is not None else None
    test = node.test if isinstance(node, (cst.If, cst.IfExp)) else None
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    part = test.comparisons[0]
    if isinstance(part.operator, cst.Equal):
        names: list[cst.BaseExpression] = [part.comparator]
    elif isinstance(part.operator, cst.In) and isinstance(part.comparator, (cst.List, cst.Tuple, cst.Set)):
        names = [element.value for element in part.comparator.elements]
    else:
        return False
    texts = [name.evaluated_value for name in names if isinstance(name, cst.SimpleString)]
    return bool(texts) and len(texts) == len(names) and not any(_DEVICE_NAME.match(str(text)) for text in texts)


_DEVICE_NAME = re.compile(r"(cuda|cpu|gpu|mps|xla|xpu|tpu|npu|hpu|meta|accelerator)(:\d+)?$", re.IGNORECASE)


def negate(value: Value) -> Value:
    """`not value`."""
    results: list[Value] = []
    for option in options(value):
        if isinstance(option, Const):
            results.append(Const(not option.value, option.soft))
        elif isinstance(option, Num):
            rare = option.often or (option.period is not None and not 0 < option.period <= OFTEN_PERIOD)
            counted = option.counter or option.period is not None
            results.append(Num("bool", counted, rare=rare, often=option.rare, reads=option.reads))
        else:
            known = truth(option)
            results.append(Num("bool") if known is None else Const(not known))
    return join_all(results)


def period_test(value: Num, *, equal: bool) -> Num:
    """`i % n == k` or `!= k`."""
    rare = not (value.period is not None and 0 < value.period <= OFTEN_PERIOD)
    return Num("bool", True, rare=rare and equal, often=rare and not equal, reads=value.reads)


def decide(run: object, test: Value) -> None:
    """The test's outcome decides how the loop goes on: what was read for it had to be read."""
    for read in reads_of(test):
        if isinstance(read, (Read, Clock)):
            read.decides = True


def mark_deciding(run: object, test: Value, body: cst.BaseSuite, orelse: cst.If | cst.Else | None) -> None:
    """Note reads whose value decides a break, continue, return or raise."""
    if not reads_of(test):
        return
    if leaves_loop(body) or (isinstance(orelse, cst.Else) and leaves_loop(orelse.body)):
        decide(run, test)


def refine(names: dict[str, Value], test: cst.BaseExpression, holds: bool) -> None:
    """Drop the alternatives of names that contradict a test's outcome."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        refine(names, test.expression, not holds)
        return
    if isinstance(test, cst.BooleanOperation):
        if isinstance(test.operator, cst.And) == holds:
            refine(names, test.left, holds)
            refine(names, test.right, holds)
        return
    if isinstance(test, cst.Name):
        _keep(names, test.value, lambda value: truth(value) is not (not holds))
        return
    if isinstance(test, cst.Call) and len(test.args) == 2 and _is_name(test.func, "isinstance"):
        name, classes = test.args[0].value, test.args[1].value
        if isinstance(name, cst.Name):
            parts = [item.value for item in classes.elements] if isinstance(classes, cst.Tuple) else [classes]
            kinds = [part.attr if isinstance(part, cst.Attribute) else part for part in parts]
            wanted = [kind.value if isinstance(kind, cst.Name) else "" for kind in kinds]
            _keep(names, name.value, lambda value: is_a(value, wanted) is not (not holds))
        return
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 and isinstance(test.left, cst.Name):
        part = test.comparisons[0]
        if isinstance(part.comparator, cst.Name) and part.comparator.value == "None":
            if isinstance(part.operator, (cst.Is, cst.Equal)):
                wants_none = holds
            elif isinstance(part.operator, (cst.IsNot, cst.NotEqual)):
                wants_none = not holds
            else:
                return
            _keep(names, test.left.value, lambda value: _may_be_none(value) if wants_none else not _is_none(value))


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (Tensor, "Tensor"),
    (Tuple, "tuple"),
    (Mapping, "dict"),
    (Array, "ndarray"),
)
_PLAIN = frozenset({"list", "tuple", "dict", "str", "int", "float", "bool", "Tensor", "ndarray", "NoneType"})


def is_a(value: Value, names: list[str]) -> bool | None:
    """Whether a value is an instance of one of some classes, by their last names; None where that is not known."""
    actual: str | None = None
    if isinstance(value, Const):
        actual = type(value.value).__name__
    elif isinstance(value, Num):
        actual = value.type if value.type in ("int", "float", "str", "bool") else None
    elif isinstance(value, Sequence):
        actual = "list"
    else:
        actual = next((name for kind, name in _KINDS if isinstance(value, kind)), None)
    if actual is None or actual not in _PLAIN:
        return None
    if actual in names or (actual == "bool" and "int" in names):
        return True
    return False if all(name in _PLAIN for name in names) else None


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _may_be_none(value: Value) -> bool:
    return _is_none(value) or not (isinstance(value, Const) or truth(value) is True)


def _keep(names: dict[str, Value], name: str, accept: object) -> None:
    value = names.get(name)
    if not isinstance(value, Join):
        return
    kept = [option for option in value.options if accept(option)]  # type: ignore[operator]
    if kept and len(kept) < len(value.options):
        names[name] = join_all(kept)

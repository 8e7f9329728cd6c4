"""Expressions: the value of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from ptlint.facts import guards, iteration
from ptlint.facts.arguments import Arguments
from ptlint.facts.attributes import attribute, with_attributes
from ptlint.facts.displays import comprehension, dict_display, list_display, subscript, tuple_display
from ptlint.facts.events import Compared, Event, Test
from ptlint.facts.freshness import kept
from ptlint.facts.homes import Frame
from ptlint.facts.operations import both, compare, operate, read, soften_choice, tensor_of, text_from
from ptlint.facts.run import Run
from ptlint.facts.store import assign
from ptlint.facts.values import (
    NONE,
    UNKNOWN,
    Array,
    Const,
    Function,
    Imported,
    Lib,
    Mapping,
    Num,
    Obj,
    ProjectClass,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
    join_all,
    options,
    type_of,
)

_CONSTANTS = {"True": Const(True), "False": Const(False), "None": NONE, "Ellipsis": Const(...)}

MAX_NESTING = 170
"""Expressions evaluated inside one another, over all running functions: keeps far from Python's recursion limit."""


def evaluate(run: Run, node: cst.BaseExpression, frame: Frame) -> Value:
    """The value of an expression."""
    run.work += 1
    handler = HANDLERS.get(type(node))
    if handler is None or run.nesting > MAX_NESTING:
        return UNKNOWN
    run.nesting += 1
    value = handler(run, node, frame)
    run.nesting -= 1
    return value


def lookup(run: Run, name: str, frame: Frame) -> Value:
    """The value of a name: local, enclosing, global, builtin."""
    current: Frame | None = frame
    while current is not None:
        if current.at_top:
            break
        if name in current.locals and (current is frame or current.cls is None):
            if name not in current.globals_declared:
                return current.locals[name]
        current = current.outer
    home = frame.home
    found = frame.locals.get(name) if frame.at_top else None
    if found is None:
        found = home.globals.get(name)
    if found is not None:
        return found.look_up() if isinstance(found, Imported) else found
    if name in home.binders or home.stars:
        value = run.global_value(home, name)
        if name in home.globals:
            return value
        if name in home.binders:
            return UNKNOWN
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if name == "__name__":
        return Const("__main__") if home.file.path == run.program.entry else Const("module")
    if name == "__file__":
        return Const(str(home.file.path))
    return Lib(f"builtins.{name}") if name in BUILTINS else UNKNOWN


BUILTINS = frozenset(
    "abs all any bin bool bytes callable chr dict dir divmod enumerate eval exec exit filter float format frozenset "
    "getattr globals hasattr hash hex id input int isinstance issubclass iter len list locals map max min next object "
    "open ord pow print property quit range repr reversed round set setattr slice sorted staticmethod classmethod str "
    "sum super tuple type vars zip Exception RuntimeError ValueError StopIteration".split()
)


def _name(run: Run, node: cst.Name, frame: Frame) -> Value:
    return lookup(run, node.value, frame)


def _literal(run: Run, node: cst.Integer | cst.Float | cst.SimpleString, frame: Frame) -> Value:
    return run.trees.constant(node)


def _concatenated(run: Run, node: cst.ConcatenatedString, frame: Frame) -> Value:
    for part in (node.left, node.right):
        evaluate(run, part, frame)
    value = node.evaluated_value
    return Const(value) if value is not None else Num("str")


def _formatted(run: Run, node: cst.FormattedString, frame: Frame) -> Value:
    reads: frozenset[Event] = frozenset()
    constant: list[str] | None = []
    for part in node.parts:
        if not isinstance(part, cst.FormattedStringExpression):
            if constant is not None and isinstance(part, cst.FormattedStringText):
                constant.append(part.value)
            continue
        value = evaluate(run, part.expression, frame)
        reads |= read(run, value, part.expression, "format", frame)
        for inner in part.format_spec or ():
            if isinstance(inner, cst.FormattedStringExpression):
                evaluate(run, inner.expression, frame)
        if constant is not None and isinstance(value, Const) and isinstance(value.value, (str, int)):
            constant.append(str(value.value))
        else:
            constant = None
    if constant is not None:
        return Const("".join(constant))
    first = node.parts[0]
    return text_from(first.value if isinstance(first, cst.FormattedStringText) else "", reads)


def _attribute(run: Run, node: cst.Attribute, frame: Frame) -> Value:
    base = evaluate(run, node.value, frame)
    return attribute(run, base, node.attr.value, frame.place(node), frame)


def _call(run: Run, node: cst.Call, frame: Frame) -> Value:
    from ptlint.facts import library

    func = node.func
    place = frame.place(node)
    if isinstance(func, cst.Attribute):
        if _is_super(func.value):
            return _super_call(run, node, func.attr.value, frame)
        base = evaluate(run, func.value, frame)
        args = arguments(run, node, frame)
        holders = with_attributes(base)
        results = [library.call_attribute(run, option, func.attr.value, args, place, frame) for option in holders]
        return join_all(results)
    function = evaluate(run, func, frame)
    args = arguments(run, node, frame)
    return run.call(function, args, place, frame)


def _is_super(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "super"


def _super_call(run: Run, node: cst.Call, name: str, frame: Frame) -> Value:
    from ptlint.facts import classes, library

    args = arguments(run, node, frame)
    current: Frame | None = frame
    while current is not None and (current.function is None or current.function.owner is None):
        current = current.outer
    if current is None or current.function is None or current.function.owner is None:
        return UNKNOWN
    owner = current.function.owner
    receiver = current.function.self_value
    if receiver is None:
        return UNKNOWN
    if name == "__init__":
        return classes.super_init(run, owner, receiver, args, frame.place(node), frame)
    start = receiver.cls if isinstance(receiver, Obj) else receiver
    member = start.find(name, after=owner) if isinstance(start, ProjectClass) else None
    if isinstance(member, Function):
        return run.call(member.bind(receiver), args, frame.place(node), frame)
    return library.call_method(run, receiver, name, args, frame.place(node), frame)


def arguments(run: Run, node: cst.Call, frame: Frame) -> Arguments:
    """Evaluate a call's arguments."""
    args = Arguments()
    for arg in node.args:
        value = evaluate(run, arg.value, frame)
        if arg.star == "*":
            _spread(args, value)
        elif arg.star == "**":
            _spread_keywords(args, value)
        elif arg.keyword is not None:
            args.keywords[arg.keyword.value] = value
            args.keyword_nodes[arg.keyword.value] = arg
        else:
            args.add(value, arg)
    return args


def _spread(args: Arguments, value: Value) -> None:
    if isinstance(value, Tuple):
        for item in value.items:
            args.add(item)
    elif isinstance(value, Sequence) and value.items is not None:
        for item in value.items:
            args.add(item)
    else:
        if isinstance(value, Sequence):
            args.add(value.element())
        args.open = True


def _spread_keywords(args: Arguments, value: Value) -> None:
    known = [option for option in options(value) if isinstance(option, Mapping)]
    if not known or len(known) < len(options(value)):
        args.open = True
    for mapping in known:
        for name, item in mapping.entries.items():
            if isinstance(name, str):
                args.keywords[name] = item if name not in args.keywords else join(args.keywords[name], item)
                if name in mapping.origins:
                    args.origins[name] = mapping.origins[name]
        if mapping.rest is not None or mapping.open:
            args.open = True


def _binary(run: Run, node: cst.BinaryOperation, frame: Frame) -> Value:
    left = evaluate(run, node.left, frame)
    right = evaluate(run, node.right, frame)
    return operate(run, left, right, type(node.operator).__name__, frame, node)


def _unary(run: Run, node: cst.UnaryOperation, frame: Frame) -> Value:
    value = evaluate(run, node.expression, frame)
    if isinstance(node.operator, cst.Not):
        run.emit(Test(frame.place(node.expression), frame.ctx, value, "not"))
        return guards.negate(value)
    if isinstance(value, Const) and isinstance(node.operator, cst.Minus) and type_of(value.value) in ("int", "float"):
        return Const(-value.value, value.soft)
    if isinstance(value, Tensor):
        return kept(tensor_of(run, (value,), frame, dtype=value.dtype), (value,))
    return value if isinstance(value, (Num, Unknown, Array)) else Num("any")


def _boolean(run: Run, node: cst.BooleanOperation, frame: Frame) -> Value:
    left = evaluate(run, node.left, frame)
    word = "and" if isinstance(node.operator, cst.And) else "or"
    run.emit(Test(frame.place(node.left), frame.ctx, left, word))
    yes, no = guards.arms(left)
    if word == "and" and yes == guards.NEVER:
        return left
    if word == "or" and no == guards.NEVER:
        return left
    right = evaluate(run, node.right, frame)
    if word == "or" and yes == guards.NEVER:
        return right
    if word == "and" and no == guards.NEVER:
        return right
    return both(left, right, word)


def _comparison(run: Run, node: cst.Comparison, frame: Frame) -> Value:
    left = evaluate(run, node.left, frame)
    result: Value = UNKNOWN
    for index, part in enumerate(node.comparisons):
        right = evaluate(run, part.comparator, frame)
        value = compare(run, left, right, part.operator, frame)
        if any(isinstance(option, Tensor) for side in (left, right) for option in options(side)):
            run.emit(Compared(frame.place(node), frame.ctx, left, right))
        result = value if index == 0 else Num("bool")
        left = right
    return result


def _if_exp(run: Run, node: cst.IfExp, frame: Frame) -> Value:
    test = evaluate(run, node.test, frame)
    run.emit(Test(frame.place(node.test), frame.ctx, test, "if"))
    yes, no = guards.arms(test)
    ctx = frame.ctx
    results: list[Value] = []
    for arm, rarity, part in (("yes", yes, node.body), ("no", no, node.orelse)):
        if rarity == guards.NEVER:
            continue
        guard = ctx.child("guard", (id(node), arm), frame.place(node))
        guard.rarity = rarity
        guard.test = test
        frame.ctx = guard
        value = evaluate(run, part, frame)
        frame.ctx = ctx
        if rarity != guards.OFF_PATH:
            results.append(value)
    return soften_choice(test, join_all(results))


def _lambda(run: Run, node: cst.Lambda, frame: Frame) -> Value:
    from ptlint.facts.classes import defaults_of

    function = Function(node, frame.home, None if frame.at_top else frame, frame.tree)
    function.defaults = defaults_of(run, node.params, frame)
    return function


def _named(run: Run, node: cst.NamedExpr, frame: Frame) -> Value:
    value = evaluate(run, node.value, frame)
    assign(run, node.target, value, frame, node.value)
    return value


def _await(run: Run, node: cst.Await, frame: Frame) -> Value:
    return evaluate(run, node.expression, frame)


def _yield(run: Run, node: cst.Yield, frame: Frame) -> Value:
    frame.yield_modes.append(frame.ctx)
    if node.value is None:
        frame.yielded.append(NONE)
    elif isinstance(node.value, cst.From):
        value = evaluate(run, node.value.item, frame)
        frame.yielded.append(iteration.item_of(run, value, frame.place(node), frame) or UNKNOWN)
    else:
        frame.yielded.append(evaluate(run, node.value, frame))
    return UNKNOWN


HANDLERS: dict[type, Callable[[Run, Any, Frame], Value]] = {
    cst.Name: _name,
    cst.Integer: _literal,
    cst.Float: _literal,
    cst.SimpleString: _literal,
    cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted,
    cst.Attribute: _attribute,
    cst.Call: _call,
    cst.BinaryOperation: _binary,
    cst.UnaryOperation: _unary,
    cst.BooleanOperation: _boolean,
    cst.Comparison: _comparison,
    cst.IfExp: _if_exp,
    cst.Tuple: tuple_display,
    cst.List: list_display,
    cst.Set: list_display,
    cst.Dict: dict_display,
    cst.Subscript: subscript,
    cst.Lambda: _lambda,
    cst.NamedExpr: _named,
    cst.Await: _await,
    cst.Yield: _yield,
    cst.ListComp: comprehension,
    cst.SetComp: comprehension,
    cst.GeneratorExp: comprehension,
    cst.DictComp: comprehension,
}

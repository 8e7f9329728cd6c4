"""Expressions: the value of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from ptlint.facts import arrays, guards, iteration
from ptlint.facts.arguments import Arguments
from ptlint.facts.attributes import attribute, with_attributes
from ptlint.facts.calls import derived
from ptlint.facts.events import Call, Clock, Elapsed, Event, Test
from ptlint.facts.freshness import kept
from ptlint.facts.homes import Frame
from ptlint.facts.run import Run
from ptlint.facts.store import assign
from ptlint.facts.values import (
    ATTACHED,
    DETACHED,
    DEVICE,
    FLOATING,
    HOST,
    NONE,
    NOWHERE,
    UNKNOWN,
    UNSURE,
    Array,
    CallArgs,
    Const,
    Function,
    Items,
    Lib,
    Mapping,
    Module,
    Num,
    Obj,
    Options,
    Params,
    ProjectClass,
    Sequence,
    StateDict,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
    join_all,
    options,
    reads_of,
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
    try:
        return handler(run, node, frame)
    finally:
        run.nesting -= 1


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
    if frame.at_top and name in frame.locals:
        return frame.locals[name]
    home = frame.home
    if name in home.globals:
        return home.globals[name]
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


def text_from(beginning: str, reads: frozenset[Event] = frozenset()) -> Value:
    """A text of which only the beginning is known; a CUDA device is one whatever its number."""
    return Const("cuda:0", soft=True) if beginning.startswith("cuda:") else Num("str", reads=reads)


def read(run: Run, value: Value, node: cst.CSTNode, how: str, frame: Frame) -> frozenset[Event]:
    """Note that the host reads a value, if that is known to be a tensor on the device; the reads so far."""
    found = reads_of(value)
    for option in options(value):
        if isinstance(option, Tensor) and option.where == DEVICE:
            found |= {run.note_read(option, how, frame.place(node), frame.ctx)}
    return found


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
    return library.call_method(run, receiver, name, args, frame.place(node), frame, inherited=True)


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


def operate(run: Run, left: Value, right: Value, operator: str, frame: Frame, node: cst.CSTNode) -> Value:
    """A binary operation by the name of its operator node (Add, Modulo, ...)."""
    results = [
        _operate(run, a, b, operator, frame, node) for a in options(left)[:4] for b in options(right)[:4]
    ]
    return join_all(results)


def _operate(run: Run, a: Value, b: Value, operator: str, frame: Frame, node: cst.CSTNode) -> Value:
    if operator == "Modulo" and not isinstance(a, Tensor):
        return _modulo(run, a, b, frame, node)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return kept(tensor_of(run, (a, b), frame, dtype=_promoted(a, b, operator)), (a, b))
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(a, b, operator)
    if operator == "Add" and isinstance(a, Const) and isinstance(a.value, str):
        return text_from(a.value, reads_of(b))
    if isinstance(a, Array) or isinstance(b, Array):
        reads = frozenset().union(*(v.reads for v in (a, b) if isinstance(v, (Array, Num))))
        return Array(None, reads=reads, solid=any(isinstance(v, Array) and v.solid for v in (a, b)))
    if operator == "Add" and isinstance(a, (Sequence, Tuple)) and isinstance(b, (Sequence, Tuple)):
        return _concatenate(run, a, b, frame, node)
    if operator == "Add" and (isinstance(a, Params) or isinstance(b, Params)):
        return _with_parameters(run, a, b, frame, node)
    if operator == "Multiply" and (isinstance(a, (Sequence, Tuple)) or isinstance(b, (Sequence, Tuple))):
        return _repeated(run, a if isinstance(a, (Sequence, Tuple)) else b, frame, node)
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return derived((a, b))
    if isinstance(a, (Num, Const)) and isinstance(b, (Num, Const)):
        reads = reads_of(a, b)
        if operator == "Subtract":
            _note_elapsed(run, a, b, frame, node)
        counter = any(isinstance(v, Num) and v.counter for v in (a, b)) and operator in ("Add", "Subtract", "Multiply")
        kinds = {v.type if isinstance(v, Num) else type_of(v.value) for v in (a, b)}
        kind = "float" if operator == "Divide" or "float" in kinds else "str" if "str" in kinds else "int"
        return Num(kind if "any" not in kinds else "any", counter=counter, reads=reads)
    return UNKNOWN


_BITWISE = frozenset({"BitAnd", "BitOr", "BitXor"})


def _promoted(a: Value, b: Value, operator: str) -> str | None:
    """The dtype of an operation's result, where the operands say it."""
    dtypes = [value.dtype for value in (a, b) if isinstance(value, Tensor)]
    if operator in _BITWISE and dtypes == ["bool", "bool"]:
        return "bool"
    floating = next((dtype for dtype in dtypes if dtype in FLOATING), None)
    return floating or ("float" if operator == "Divide" else None)


def _modulo(run: Run, a: Value, b: Value, frame: Frame, node: cst.CSTNode) -> Value:
    if (isinstance(a, Const) and isinstance(a.value, str)) or (isinstance(a, Num) and a.type == "str"):
        reads: frozenset[Event] = frozenset()
        for part in _format_parts(b):
            reads |= read(run, part, node, "format", frame)
        return text_from(str(a.value) if isinstance(a, Const) else "", reads)
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(a, b, "Modulo")
    if isinstance(a, (Num, Const)):
        period = b.value if isinstance(b, Const) and isinstance(b.value, int) else 0
        return Num("int", period=period, reads=a.reads if isinstance(a, Num) else frozenset())
    number = isinstance(b, Num) or (isinstance(b, Const) and isinstance(b.value, int)) or b is UNKNOWN
    if isinstance(a, Unknown) and a.where == UNSURE and a.batch is None and number:
        # `state["step"] % n`: a counter out of a checkpoint or an object that cannot be read
        return Num("int", period=b.value if isinstance(b, Const) else 0)
    return derived((a, b))


def _format_parts(value: Value) -> list[Value]:
    parts: list[Value] = []
    for option in options(value):
        if isinstance(option, Tuple):
            parts.extend(option.items)
        elif isinstance(option, Sequence):
            parts.append(option.element())
        elif isinstance(option, Items):
            parts.append(option.item)
        else:
            parts.append(option)
    return parts


_FOLD: dict[str, Callable[[object, object], object]] = {
    "Add": lambda a, b: a + b,  # type: ignore[operator]
    "Subtract": lambda a, b: a - b,  # type: ignore[operator]
    "Multiply": lambda a, b: a * b,  # type: ignore[operator]
    "Divide": lambda a, b: a / b,  # type: ignore[operator]
    "FloorDivide": lambda a, b: a // b,  # type: ignore[operator]
    "Modulo": lambda a, b: a % b,  # type: ignore[operator]
    "Equal": lambda a, b: a == b,
    "NotEqual": lambda a, b: a != b,
    "LessThan": lambda a, b: a < b,  # type: ignore[operator]
    "LessThanEqual": lambda a, b: a <= b,  # type: ignore[operator]
    "GreaterThan": lambda a, b: a > b,  # type: ignore[operator]
    "GreaterThanEqual": lambda a, b: a >= b,  # type: ignore[operator]
    "In": lambda a, b: a in b,  # type: ignore[operator]
    "NotIn": lambda a, b: a not in b,  # type: ignore[operator]
}


def _fold(a: Const, b: Const, operator: str) -> Value:
    fold = _FOLD.get(operator)
    if fold is None or not all(isinstance(v.value, (int, float, str, bool)) for v in (a, b)):
        return Num("any") if operator not in ("Equal", "NotEqual") else _same(a, b, operator)
    if operator == "Multiply" and any(isinstance(v.value, str) for v in (a, b)):
        return Num("str")
    try:
        return Const(fold(a.value, b.value), a.soft or b.soft)
    except (TypeError, ZeroDivisionError, OverflowError, ValueError):
        return UNKNOWN


def _same(a: Const, b: Const, operator: str) -> Value:
    return Const((a.value == b.value) == (operator == "Equal"), a.soft or b.soft)


def _concatenate(run: Run, a: Sequence | Tuple, b: Sequence | Tuple, frame: Frame, node: cst.CSTNode) -> Value:
    left, right = (list(v.items) if v.items is not None else None for v in (a, b))
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return Tuple((*a.items, *b.items))
    made = run.make(Sequence, frame.place(node), frame.ctx)
    if left is not None and right is not None:
        made.items = [*left, *right]
    else:
        made.items = None
        made.item = join(
            a.element() if isinstance(a, Sequence) else join_all(a.items),
            b.element() if isinstance(b, Sequence) else join_all(b.items),
        )
    return made


def _with_parameters(run: Run, a: Value, b: Value, frame: Frame, node: cst.CSTNode) -> Value:
    """Lists of parameters joined: `list(a.parameters()) + list(b.parameters())`."""
    if isinstance(a, Sequence) and a.items == []:
        return b
    if isinstance(a, Params) and isinstance(b, Params):
        return Params(tuple(dict.fromkeys((*a.modules, *b.modules))))
    made = run.make(Sequence, frame.place(node), frame.ctx)
    made.items = None
    made.item = join_all([iteration.item_of(run, value, frame.place(node), frame) or UNKNOWN for value in (a, b)])
    return made


def _note_elapsed(run: Run, end: Value, start: Value, frame: Frame, node: cst.CSTNode) -> None:
    """`now - then`, where both are readings of a clock."""
    ends, starts = (frozenset(e for e in reads_of(value) if isinstance(e, Clock)) for value in (end, start))
    if ends and starts:
        run.emit(Elapsed(frame.place(node), frame.ctx, starts, ends))


def _repeated(run: Run, value: Value, frame: Frame, node: cst.CSTNode) -> Value:
    """`[x] * n`: a list of its own, of no known length."""
    made = run.make(Sequence, frame.place(node), frame.ctx)
    made.items = None
    made.item = value.element() if isinstance(value, Sequence) else join_all(getattr(value, "items", ()))
    return made


def tensor_of(run: Run, values: object, frame: Frame, *, dtype: str | None = None) -> Tensor:
    """The tensor that an operation on tensors makes."""
    where, graph, batch, module = HOST, DETACHED, None, None
    unsure = False
    came = NOWHERE
    reads: frozenset[Event] = frozenset()
    for value in values:  # type: ignore[attr-defined]
        reads = reads | reads_of(value)
        for option in options(value):
            if isinstance(option, (Tensor, Unknown)):
                came = came | option.came
                if option.where == DEVICE:
                    where = DEVICE
                elif option.where == UNSURE and where != DEVICE:
                    where = UNSURE
                if option.graph == ATTACHED:
                    graph = ATTACHED
                unsure = unsure or option.graph == UNSURE
                batch = batch or option.batch
            if isinstance(option, Tensor):
                module = module or option.module
    if not run.grad_enabled(frame.ctx):
        graph = DETACHED
    elif graph != ATTACHED and unsure:
        graph = UNSURE
    came = came if graph != DETACHED else NOWHERE
    return Tensor(where, graph, dtype, batch, module=module, came=came, reads=reads)


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
    return _both(left, right, word)


def _both(left: Value, right: Value, word: str) -> Value:
    """`a and b`, `a or b` where neither is settled."""
    if not _is_test(left) or not _is_test(right):
        if word == "or":
            return join(left, right)
        if any(_is_test(side) and guards.arms(side)[0] == guards.RARE for side in (left, right)):
            return Num("bool", rare=True, reads=reads_of(left, right))
        # `flag and value`: the value is what matters, on the path where the flag holds
        return right if isinstance(left, Const) and left.soft and left.value else join(left, right)
    (yes_a, no_a), (yes_b, no_b) = guards.arms(left), guards.arms(right)
    reads = reads_of(left, right)
    if isinstance(left, Const) and isinstance(right, Const):
        value = (left.value and right.value) if word == "and" else (left.value or right.value)
        return Const(bool(value), True)
    rare_a, rare_b = yes_a == guards.RARE, yes_b == guards.RARE
    often_a, often_b = no_a in (guards.RARE, guards.OFF_PATH), no_b in (guards.RARE, guards.OFF_PATH)
    counted = any(isinstance(side, Num) and side.counter for side in (left, right))
    if word == "and":
        return Num("bool", counted, rare=rare_a or rare_b, often=often_a and often_b, reads=reads)
    rare = rare_a and rare_b
    if rare_a != rare_b and not (often_a or often_b):
        # `done or step % n == 0`: who counts steps as well does so because the rest is seldom true
        seldom, other = (left, right) if rare_a else (right, left)
        rare = isinstance(seldom, Num) and seldom.counter and _is_plain(other)
    return Num("bool", counted, rare=rare, often=often_a or often_b, reads=reads)


def _is_plain(value: Value) -> bool:
    """Whether nothing is known of how often a test holds."""
    if any(isinstance(o, Num) and (o.period is not None or o.counter) for o in options(value)):
        return False
    return guards.arms(value) == (guards.MAYBE, guards.MAYBE)


def _is_test(value: Value) -> bool:
    return all(isinstance(o, Num) or (isinstance(o, Const) and isinstance(o.value, (bool, int))) for o in options(value))


def _comparison(run: Run, node: cst.Comparison, frame: Frame) -> Value:
    left = evaluate(run, node.left, frame)
    result: Value = UNKNOWN
    for index, part in enumerate(node.comparisons):
        right = evaluate(run, part.comparator, frame)
        value = compare(run, left, right, part.operator, frame)
        result = value if index == 0 else Num("bool")
        left = right
    return result


def compare(run: Run, left: Value, right: Value, operator: cst.BaseCompOp, frame: Frame) -> Value:
    results = [_compare(run, a, b, operator, frame) for a in options(left)[:4] for b in options(right)[:4]]
    return join_all(results)


def _compare(run: Run, a: Value, b: Value, operator: cst.BaseCompOp, frame: Frame) -> Value:
    name = type(operator).__name__
    if name in ("Is", "IsNot"):
        return _identity(a, b, name == "Is")
    if any(_names_another_device(v) for v in (a, b)) and any(isinstance(v, Unknown) for v in (a, b)):
        return Const(name in ("NotEqual", "NotIn"), soft=True)
    if name in ("In", "NotIn"):
        if isinstance(a, Const) and isinstance(b, Mapping) and b.rest is None and not b.open:
            return Num("bool") if b.attr_ctx else Const((a.value in b.entries) == (name == "In"), True)
        if isinstance(a, Const) and isinstance(b, Const):
            return _fold(a, b, name)
        if isinstance(a, Const) and isinstance(b, (Tuple, Sequence)) and b.items is not None:
            if all(isinstance(item, Const) for item in b.items):
                holds = any(a.value == item.value for item in b.items if isinstance(item, Const))
                return Const(holds == (name == "In"), a.soft)
        return Num("bool")
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        made = tensor_of(run, (a, b), frame, dtype="bool")
        result = Tensor(made.where, DETACHED, "bool", made.batch, module=made.module, reads=made.reads)
        return kept(result, (a, b))
    if isinstance(a, Num) and a.period is not None and name in ("Equal", "NotEqual"):
        return guards.period_test(a, equal=name == "Equal")
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(a, b, name)
    if isinstance(a, Array) or isinstance(b, Array):
        return Array("bool")
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return derived((a, b))
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        made_of = derived((a, b))
        if made_of is not UNKNOWN:
            return made_of
    reads = frozenset().union(*(v.reads for v in (a, b) if isinstance(v, (Num, Array))))
    rare = often = False
    for counter, other, mirrored in ((a, b, False), (b, a, True)):
        if isinstance(counter, Num) and counter.counter and not (isinstance(other, Num) and other.counter):
            if name == "Equal":
                rare = True
            elif name == "NotEqual":
                often = True
            elif isinstance(other, (Const, Num)):
                less = name in ("LessThan", "LessThanEqual")
                rare = less != mirrored
                often = not rare
            break
    return Num("bool", rare or often, rare=rare, often=often, reads=reads)


def _names_another_device(value: Value) -> bool:
    """Whether a text names a kind of device that is not CUDA: what is asked about is not there on the path we judge."""
    return isinstance(value, Const) and isinstance(value.value, str) and value.value in ("mps", "xla", "npu", "hpu")


def _identity(a: Value, b: Value, wanted: bool) -> Value:
    if isinstance(a, Const) and isinstance(b, Const):
        return Const((a.value is b.value) == wanted, a.soft)
    known = (a, b) if isinstance(b, Const) else (b, a)
    if isinstance(known[1], Const) and not isinstance(known[0], (Unknown, Num, Const)):
        return Const(not wanted)
    return Num("bool")


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


def soften_choice(test: Value, value: Value) -> Value:
    """A constant or device chosen at run time may be another one."""
    from ptlint.facts.values import Device

    if isinstance(test, Const) and not test.soft:
        return value
    if isinstance(value, Const) and not value.soft:
        return Const(value.value, True)
    if isinstance(value, Device):
        return Device(value.type, True)
    return value


def _tuple(run: Run, node: cst.Tuple, frame: Frame) -> Value:
    if any(isinstance(element, cst.StarredElement) for element in node.elements):
        return Items(join_all([_element(run, element, frame) for element in node.elements]), "tuple")
    return Tuple(tuple(evaluate(run, element.value, frame) for element in node.elements))


def _element(run: Run, element: cst.BaseElement, frame: Frame) -> Value:
    value = evaluate(run, element.value, frame)
    if isinstance(element, cst.StarredElement):
        return iteration.item_of(run, value, frame.place(element), frame) or UNKNOWN
    return value


def _list(run: Run, node: cst.List | cst.Set, frame: Frame) -> Value:
    made = run.make(Sequence, frame.place(node), frame.ctx)
    values = [_element(run, element, frame) for element in node.elements]
    if any(isinstance(element, cst.StarredElement) for element in node.elements):
        made.items, made.item = None, join_all(values)
    else:
        made.items, made.item = values, None
    return made


def _dict(run: Run, node: cst.Dict, frame: Frame) -> Value:
    made = run.make(Mapping, frame.place(node), frame.ctx)
    made.entries.clear()
    made.rest = None
    for element in node.elements:
        value = evaluate(run, element.value, frame)
        if isinstance(element, cst.DictElement):
            key = evaluate(run, element.key, frame)
            if isinstance(key, Const):
                made.entries[key.value] = value
                made.origins[key.value] = frame.place(element)
            else:
                made.rest = value if made.rest is None else join(made.rest, value)
        elif isinstance(value, Mapping):
            made.entries.update(value.entries)
            made.origins.update(value.origins)
            made.rest = value.rest if made.rest is None else made.rest
        else:
            made.rest = UNKNOWN
    return made


def _subscript(run: Run, node: cst.Subscript, frame: Frame) -> Value:
    base = evaluate(run, node.value, frame)
    index = index_of(run, node, frame)
    return join_all([_item(run, option, index, node, frame) for option in options(base)])


def index_of(run: Run, node: cst.Subscript, frame: Frame) -> Value:
    """The value of a subscript; slices are Num("slice")."""
    values: list[Value] = []
    for element in node.slice:
        part = element.slice
        if isinstance(part, cst.Index):
            values.append(evaluate(run, part.value, frame))
        elif isinstance(part, cst.Slice):
            for bound in (part.lower, part.upper, part.step):
                if bound is not None:
                    evaluate(run, bound, frame)
            values.append(Num("slice"))
    return values[0] if len(values) == 1 else Tuple(tuple(values))


def _item(run: Run, base: Value, index: Value, node: cst.Subscript, frame: Frame) -> Value:
    if isinstance(base, Mapping):
        if isinstance(index, Const) and index.value in base.entries:
            return base.entries[index.value]
        return join_all([*base.entries.values(), *([base.rest] if base.rest is not None else [])]) if not isinstance(
            index, Const
        ) else (base.rest or UNKNOWN)
    if isinstance(base, (Tuple, Sequence)):
        return _sequence_item(run, base, index, node, frame)
    if isinstance(base, Tensor):
        if base.where == DEVICE and _gathers(index):
            args = CallArgs(extra=[index])
            run.emit(Call(frame.place(node), frame.ctx, "torch.Tensor.__getitem__", args, UNKNOWN, base))
        return tensor_of(run, (base,), frame, dtype=base.dtype)
    if isinstance(base, Array):
        return arrays.item(base, index)
    if isinstance(base, Obj) and base.lib_base in ("h5py.File", "h5py.Group"):
        return Array(None, "h5py", solid=True)
    if isinstance(base, Num) and base.type == "any":  # a shape
        return Num("any", reads=base.reads)
    if isinstance(base, Options) and isinstance(index, Const):
        return base.attrs.get(str(index.value), UNKNOWN)
    if isinstance(base, Module):
        if isinstance(index, Const) and isinstance(index.value, int) and -len(base.children) <= index.value < len(base.children):
            return base.children[index.value]
        return join_all(base.children[:8]) if base.children else UNKNOWN
    if isinstance(base, StateDict):
        return Tensor(UNSURE, DETACHED)
    if isinstance(base, Lib):
        return run.lib_item(base, index)
    if isinstance(base, Unknown):
        return Unknown(base.where, base.graph, base.batch, came=base.came, reads=base.reads)
    method = run.member(base, "__getitem__")
    if method is not None:
        return run.call(method, Arguments().add(index), frame.place(node), frame)
    return UNKNOWN


def _gathers(index: Value) -> bool:
    """Whether an index holds a list, a range or a boolean mask, for which more than a view is made."""
    return any(
        _gathers_all(option.items)
        if isinstance(option, Tuple)
        else isinstance(option, (Sequence, Items)) or (isinstance(option, Tensor) and option.dtype == "bool")
        for option in options(index)
    )


def _gathers_all(parts: tuple[Value, ...]) -> bool:
    return any(not isinstance(part, Tuple) and _gathers(part) for part in parts)


def _sequence_item(run: Run, base: Tuple | Sequence, index: Value, node: cst.Subscript, frame: Frame) -> Value:
    items = base.items
    if items is None:
        return base.element() if isinstance(base, Sequence) and not _is_slice(index) else base
    if isinstance(index, Const) and isinstance(index.value, int):
        return items[index.value] if -len(items) <= index.value < len(items) else UNKNOWN
    if _is_slice(index):
        return Items(join_all(items), "list", base)
    return join_all(items) if items else UNKNOWN


def _is_slice(index: Value) -> bool:
    return isinstance(index, Num) and index.type == "slice"


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


def _comprehension(
    run: Run, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp, frame: Frame
) -> Value:
    inner = Frame(frame.home, frame.tree, frame.ctx, frame.scope, frame)
    inner.function = frame.function if frame.function is not None else _HERE
    inner.yielded = frame.yielded
    found: list[Value] = []
    _comp_for(run, node.for_in, node, inner, found)
    if isinstance(node, cst.DictComp):
        mapping = run.make(Mapping, frame.place(node), frame.ctx)
        mapping.rest = join_all(found) if found else UNKNOWN
        return mapping
    if isinstance(node, cst.GeneratorExp):
        return Items(join_all(found), "generator-expression")
    made = run.make(Sequence, frame.place(node), frame.ctx)
    made.items, made.item = None, join_all(found)
    return made


_HERE = Function(cst.Lambda(cst.Parameters(), cst.Name("None")), None, None, None)


def _comp_for(
    run: Run,
    part: cst.CompFor,
    node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp,
    frame: Frame,
    found: list[Value],
) -> None:
    iterable = evaluate(run, part.iter, frame)
    outside = frame.ctx
    loop = frame.ctx.child("loop", id(part), frame.place(part))
    loop.items = iterable
    iteration.note(run, iterable, frame.place(part.iter), frame.ctx, loop)
    frame.ctx = loop
    item = iteration.item_of(run, iterable, frame.place(part.iter), frame)
    if item is not None:
        assign(run, part.target, item, frame, None)
        for number, condition in enumerate(part.ifs):
            test = evaluate(run, condition.test, frame)
            run.emit(Test(frame.place(condition.test), frame.ctx, test, "if"))
            guard = frame.ctx.child("guard", (id(condition), number), frame.place(condition))
            guard.rarity = guards.arms(test)[0]
            frame.ctx = guard
        if part.inner_for_in is not None:
            _comp_for(run, part.inner_for_in, node, frame, found)
        elif isinstance(node, cst.DictComp):
            evaluate(run, node.key, frame)
            found.append(evaluate(run, node.value, frame))
        else:
            found.append(evaluate(run, node.elt, frame))
    frame.ctx = outside


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
    cst.Tuple: _tuple,
    cst.List: _list,
    cst.Set: _list,
    cst.Dict: _dict,
    cst.Subscript: _subscript,
    cst.Lambda: _lambda,
    cst.NamedExpr: _named,
    cst.Await: _await,
    cst.Yield: _yield,
    cst.ListComp: _comprehension,
    cst.SetComp: _comprehension,
    cst.GeneratorExp: _comprehension,
    cst.DictComp: _comprehension,
}

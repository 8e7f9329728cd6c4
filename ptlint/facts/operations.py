"""Operations on values: arithmetic, comparison, formatting, and the host reads that they make."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from ptlint.facts import guards, iteration
from ptlint.facts.calls import derived
from ptlint.facts.events import Clock, Elapsed, Event
from ptlint.facts.freshness import kept
from ptlint.facts.homes import Frame
from ptlint.facts.run import Run
from ptlint.facts.values import (
    ATTACHED,
    DETACHED,
    DEVICE,
    FLOATING,
    HOST,
    NOWHERE,
    UNKNOWN,
    UNSURE,
    Array,
    Const,
    Items,
    Mapping,
    Num,
    Params,
    Sequence,
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


def operate(run: Run, left: Value, right: Value, operator: str, frame: Frame, node: cst.CSTNode) -> Value:
    """A binary operation by the name of its operator node (Add, Modulo, ...)."""
    results = [_operate(run, a, b, operator, frame, node) for a in options(left)[:4] for b in options(right)[:4]]
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
    number = isinstance(b, Num) or (isinstance(b, Const) and isinstance(b.value, int)) or b == UNKNOWN
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
    "Power": lambda a, b: _power(a, b),
}


def _power(a: object, b: object) -> object:
    """A power such as sizes are written with; others could be too large to work out."""
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)) or abs(a) > 1024 or not -64 <= b <= 64:
        raise ValueError
    return a**b


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


def both(left: Value, right: Value, word: str) -> Value:
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
    return all(
        isinstance(o, Num) or (isinstance(o, Const) and isinstance(o.value, (bool, int))) for o in options(value)
    )


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

"""Statements: how control and names flow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import libcst as cst

from ptlint.facts import classes, guards, iteration
from ptlint.facts.events import Added, Ctx, Enter, Test
from ptlint.facts.homes import Frame, LoopState
from ptlint.facts.run import Run
from ptlint.facts.scopes import bound_names, skips_rest, target_names, walk
from ptlint.facts.store import assign, keep
from ptlint.facts.values import (
    NONE,
    UNKNOWN,
    Const,
    Imported,
    Num,
    Value,
    came_of,
    join,
    join_all,
    options,
    reads_of,
    through,
    type_of,
    widen,
)

MAX_PASSES = 3

Locals = dict[str, Value]


def execute_block(run: Run, body: Sequence[cst.CSTNode], frame: Frame) -> None:
    """Execute statements in order until control leaves them."""
    before = frame.ctx
    for statement in body:
        if frame.dead:
            break
        execute(run, statement, frame)
    frame.ctx = before


def execute_suite(run: Run, suite: cst.BaseSuite, frame: Frame) -> None:
    execute_block(run, suite.body, frame)


def execute(run: Run, node: cst.CSTNode, frame: Frame) -> None:
    handler = HANDLERS.get(type(node))
    if handler is not None:
        handler(run, node, frame)


def merge(states: Iterable[Locals]) -> Locals | None:
    """The join of the states of branches that go on; None when none does."""
    result: Locals | None = None
    for state in states:
        if result is None:
            result = dict(state)
            continue
        for name, value in state.items():
            old = result.get(name)
            if old is not value:
                result[name] = value if old is None else join(old, value)
    return result


def set_locals(frame: Frame, state: Locals) -> None:
    """Replace the frame's names in place (a file's globals are shared with its home)."""
    if state is not frame.locals:
        frame.locals.clear()
        frame.locals.update(state)


def _simple_line(run: Run, node: cst.SimpleStatementLine | cst.SimpleStatementSuite, frame: Frame) -> None:
    for statement in node.body:
        if frame.dead:
            return
        execute(run, statement, frame)


def _expr(run: Run, node: cst.Expr, frame: Frame) -> None:
    run.evaluate(node.value, frame)


def _assign(run: Run, node: cst.Assign, frame: Frame) -> None:
    value = run.evaluate(node.value, frame)
    for target in node.targets:
        assign(run, target.target, value, frame, node.value)


def _ann_assign(run: Run, node: cst.AnnAssign, frame: Frame) -> None:
    if node.value is None:
        return
    assign(run, node.target, run.evaluate(node.value, frame), frame, node.value)


def _aug_assign(run: Run, node: cst.AugAssign, frame: Frame) -> None:
    from ptlint.facts.operations import operate

    old = run.evaluate(node.target, frame)
    new = run.evaluate(node.value, frame)
    result = operate(run, old, new, type(node.operator).__name__.replace("Assign", ""), frame, node)
    if isinstance(node.operator, cst.AddAssign) and reads_of(new):
        run.emit(Added(frame.place(node), frame.ctx, old, new))
    kept = keep(run, frame, node, new, "add", node.target, old)
    for token in came_of(kept) - came_of(new):
        result = through(result, token)
    assign(run, node.target, result, frame, node.value, augmented=True)


def _return(run: Run, node: cst.Return, frame: Frame) -> None:
    frame.returned.append(run.evaluate(node.value, frame) if node.value is not None else NONE)
    frame.dead = True


def _raise(run: Run, node: cst.Raise, frame: Frame) -> None:
    if node.exc is not None:
        run.evaluate(node.exc, frame)
    frame.dead = True


def _break(run: Run, node: cst.Break, frame: Frame) -> None:
    if frame.loops:
        frame.loops[-1].breaks.append(dict(frame.locals))
    frame.dead = True


def _continue(run: Run, node: cst.Continue, frame: Frame) -> None:
    if frame.loops:
        frame.loops[-1].continues.append(dict(frame.locals))
    frame.dead = True


def _assert(run: Run, node: cst.Assert, frame: Frame) -> None:
    value = run.evaluate(node.test, frame)
    run.emit(Test(frame.place(node.test), frame.ctx, value, "assert"))
    guards.refine(frame.locals, node.test, True)


def _del(run: Run, node: cst.Del, frame: Frame) -> None:
    for name in target_names(node.target):
        frame.locals.pop(name, None)


def _global(run: Run, node: cst.Global, frame: Frame) -> None:
    frame.globals_declared.update(item.name.value for item in node.names)


def _import(run: Run, node: cst.Import, frame: Frame) -> None:
    for alias in node.names:
        asname = _alias_name(alias)
        run.bind_import(frame.home, frame.locals, _dotted(alias.name), asname)


def _import_from(run: Run, node: cst.ImportFrom, frame: Frame) -> None:
    module = _dotted(node.module) if node.module is not None else ""
    level = len(node.relative)
    if isinstance(node.names, cst.ImportStar):
        run.import_star(frame.home, module, level)
        return
    # A package's own file may import a thousand names, of which a program uses three.
    path = run.resolve(frame.home, module, level) if frame.at_top else None
    if path is not None:
        run.imported(path)
    for alias in node.names:
        name = _dotted(alias.name)
        find = partial(run.import_from, frame.home, module, level, name)
        frame.locals[_alias_name(alias) or name] = Imported(find) if path is not None else find()


def _dotted(node: cst.BaseExpression) -> str:
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    parts.append(node.value if isinstance(node, cst.Name) else "?")
    return ".".join(reversed(parts))


def _alias_name(alias: cst.ImportAlias) -> str | None:
    if alias.asname is None or not isinstance(alias.asname.name, cst.Name):
        return None
    return alias.asname.name.value


def _function_def(run: Run, node: cst.FunctionDef, frame: Frame) -> None:
    frame.locals[node.name.value] = classes.define_function(run, node, frame)


def _class_def(run: Run, node: cst.ClassDef, frame: Frame) -> None:
    frame.locals[node.name.value] = classes.define_class(run, node, frame)


def _branch(run: Run, frame: Frame, node: cst.CSTNode, arm: str, rarity: str, test: Value) -> Ctx:
    ctx = frame.ctx.child("guard", (id(node), arm), frame.place(node))
    ctx.rarity = rarity
    ctx.test = test
    return ctx


def _if(run: Run, node: cst.If, frame: Frame) -> None:
    test = run.evaluate(node.test, frame)
    run.emit(Test(frame.place(node.test), frame.ctx, test, "if"))
    guards.mark_deciding(run, test, node.body, node.orelse)
    yes, no = guards.arms(test)
    ctx = frame.ctx
    before = dict(frame.locals)
    outcomes: list[Locals] = []
    alive_yes = False
    if yes != guards.NEVER:
        frame.ctx = _branch(run, frame, node, "yes", yes, test)
        guards.refine(frame.locals, node.test, True)
        execute_suite(run, node.body, frame)
        alive_yes = not frame.dead
        if alive_yes:
            outcomes.append(dict(frame.locals))
    frame.ctx = ctx
    frame.dead = False
    set_locals(frame, before)
    alive_no = False
    if no != guards.NEVER:
        frame.ctx = _branch(run, frame, node, "no", no, test)
        guards.refine(frame.locals, node.test, False)
        if isinstance(node.orelse, cst.Else):
            execute_suite(run, node.orelse.body, frame)
        elif node.orelse is not None:
            execute(run, node.orelse, frame)
        alive_no = not frame.dead
        if alive_no and not (no == guards.OFF_PATH and alive_yes and node.orelse is not None):
            outcomes.append(dict(frame.locals))
    frame.ctx = ctx
    state = merge(outcomes)
    frame.dead = state is None
    if state is not None:
        set_locals(frame, state)
        if (
            not alive_yes
            and alive_no
            and no in (guards.RARE, guards.OFF_PATH)
            and skips_rest(node.body, in_loop=bool(frame.loops))
        ):
            # `if step % n: continue`: what follows is as rare as the arm that goes on
            frame.ctx = _branch(run, frame, node, "rest", no, test)


def _loop_entry(run: Run, frame: Frame, body: cst.CSTNode) -> Locals:
    """The names as a loop head may see them: counters that the body changes are numbers, not constants."""
    entry = dict(frame.locals)
    for name in run.trees.bound(body):
        value = entry.get(name)
        if value is None:
            continue
        numbers = [o for o in options(value) if isinstance(o, Const) and type_of(o.value) in ("int", "float")]
        if numbers:
            rest = [o for o in options(value) if not any(o is n for n in numbers)]
            counts = name in run.trees.counters(body)
            entry[name] = join_all([*(Num(type_of(n.value), counter=counts) for n in numbers), *rest])
    return entry


def _same(a: Locals, b: Locals) -> bool:
    return a.keys() == b.keys() and all(a[name] is b[name] or a[name].key() == b[name].key() for name in a)


def _run_loop(run: Run, node: cst.For | cst.While, frame: Frame, ctx: Ctx, begin: Callable[[], bool]) -> None:
    """Run a loop body until its head's state settles; `begin` starts an iteration and says whether there is one."""
    outside = frame.ctx
    entry = _loop_entry(run, frame, node.body)
    first = dict(frame.locals)
    back: Locals | None = None
    breaks: list[Locals] = []
    for _ in range(MAX_PASSES):
        set_locals(frame, dict(entry))
        changes = run.changes
        frame.ctx = ctx
        frame.dead = False
        state = LoopState()
        frame.loops.append(state)
        ran = begin()
        if ran:
            execute_suite(run, node.body, frame)
        frame.loops.pop()
        ends = list(state.continues)
        if ran and not frame.dead:
            ends.append(dict(frame.locals))
        back = merge(ends)
        breaks = state.breaks
        ctx.once = back is None and ran
        if back is None:
            break
        again = {name: widen(value, back[name]) if name in back else value for name, value in entry.items()}
        if _same(again, entry) and run.changes == changes:
            break
        entry = again
    frame.ctx = outside
    frame.dead = False
    # A loop is taken to run at least once: what it leaves is what its last iteration leaves.
    after = merge([state for state in (back, *breaks) if state is not None])
    if after is None:
        after = first if not ctx.once else merge([first])
        frame.dead = ctx.once and not breaks
    set_locals(frame, after if after is not None else first)
    if node.orelse is not None and not frame.dead:
        execute_suite(run, node.orelse.body, frame)


def _for(run: Run, node: cst.For, frame: Frame) -> None:
    iterable = run.evaluate(node.iter, frame)
    ctx = frame.ctx.child("loop", id(node), frame.place(node))
    ctx.items = iterable
    ctx.pump = frame.scope.has_yield and any(isinstance(n, cst.Yield) for n in walk(node.body))
    iteration.note(run, iterable, frame.place(node.iter), frame.ctx, ctx)

    def begin() -> bool:
        item = iteration.item_of(run, iterable, frame.place(node.iter), frame)
        if item is None:
            return False
        assign(run, node.target, item, frame, None)
        return True

    _run_loop(run, node, frame, ctx, begin)


def _while(run: Run, node: cst.While, frame: Frame) -> None:
    ctx = frame.ctx.child("loop", id(node), frame.place(node))
    ctx.pump = frame.scope.has_yield and any(isinstance(n, cst.Yield) for n in walk(node.body))

    def begin() -> bool:
        test = run.evaluate(node.test, frame)
        run.emit(Test(frame.place(node.test), frame.ctx, test, "while"))
        guards.decide(run, test)
        return not (isinstance(test, Const) and not test.soft and not test.value)

    _run_loop(run, node, frame, ctx, begin)


def _try(run: Run, node: cst.Try | cst.TryStar, frame: Frame) -> None:
    before = dict(frame.locals)
    ctx = frame.ctx
    execute_suite(run, node.body, frame)
    outcomes: list[Locals] = []
    if not frame.dead:
        middle = dict(frame.locals)
        if node.orelse is not None:
            execute_suite(run, node.orelse.body, frame)
        if not frame.dead:
            outcomes.append(dict(frame.locals))
    else:
        middle = dict(frame.locals)
    entered = merge([before, middle]) or before
    handlers: list[cst.ExceptHandler | cst.ExceptStarHandler] = list(node.handlers)
    for number, handler in enumerate(handlers):
        frame.dead = False
        set_locals(frame, dict(entered))
        guard = ctx.child("guard", (id(node), f"except{number}"), frame.place(handler))
        guard.rarity = guards.EXCEPT
        frame.ctx = guard
        if handler.name is not None:
            for name in target_names(handler.name.name):
                frame.locals[name] = UNKNOWN
        execute_suite(run, handler.body, frame)
        if not frame.dead:
            outcomes.append(dict(frame.locals))
        frame.ctx = ctx
    state = merge(outcomes)
    frame.dead = False
    set_locals(frame, state if state is not None else dict(entered))
    if node.finalbody is not None:
        execute_suite(run, node.finalbody.body, frame)
    if state is None:
        frame.dead = True


def _with(run: Run, node: cst.With, frame: Frame) -> None:
    outside = frame.ctx
    for number, item in enumerate(node.items):
        value = run.evaluate(item.item, frame)
        modes, entered = classes.enter(run, value, frame.place(item.item), frame)
        if item.asname is not None:
            assign(run, item.asname.name, entered, frame, None)
        for index, mode in enumerate(modes):
            ctx = frame.ctx.child("mode", (id(node), number, index, mode.site), frame.place(item.item))
            ctx.mode = mode
            run.emit(Enter(frame.place(item.item), frame.ctx, mode, ctx), str(index))
            frame.ctx = ctx
    execute_suite(run, node.body, frame)
    frame.ctx = outside


def _match(run: Run, node: cst.Match, frame: Frame) -> None:
    run.evaluate(node.subject, frame)
    before = dict(frame.locals)
    ctx = frame.ctx
    outcomes = [before]
    for number, case in enumerate(node.cases):
        frame.dead = False
        set_locals(frame, dict(before))
        for name in bound_names(case.pattern):
            frame.locals[name] = UNKNOWN
        for capture in walk(case.pattern):
            if isinstance(capture, (cst.MatchAs, cst.MatchStar)) and capture.name is not None:
                frame.locals[capture.name.value] = UNKNOWN
        frame.ctx = _branch(run, frame, node, f"case{number}", guards.MAYBE, UNKNOWN)
        execute_suite(run, case.body, frame)
        frame.ctx = ctx
        if not frame.dead:
            outcomes.append(dict(frame.locals))
    frame.dead = False
    set_locals(frame, merge(outcomes) or before)


HANDLERS: dict[type, Callable[[Run, Any, Frame], None]] = {
    cst.SimpleStatementLine: _simple_line,
    cst.SimpleStatementSuite: _simple_line,
    cst.Expr: _expr,
    cst.Assign: _assign,
    cst.AnnAssign: _ann_assign,
    cst.AugAssign: _aug_assign,
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Break: _break,
    cst.Continue: _continue,
    cst.Assert: _assert,
    cst.Del: _del,
    cst.Global: _global,
    cst.Nonlocal: _global,
    cst.Import: _import,
    cst.ImportFrom: _import_from,
    cst.FunctionDef: _function_def,
    cst.ClassDef: _class_def,
    cst.If: _if,
    cst.For: _for,
    cst.While: _while,
    cst.Try: _try,
    cst.TryStar: _try,
    cst.With: _with,
    cst.Match: _match,
}

"""Calls: of project functions (followed), classes, modules, and of everything outside the project (modelled)."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from ptlint.facts import classes, torch_api
from ptlint.facts.arguments import Arguments
from ptlint.facts.events import Call, Ctx, Event, Forward, Place
from ptlint.facts.homes import Frame, Home
from ptlint.facts.run import MAX_DEPTH, MAX_WORK, Followed, Run
from ptlint.facts.values import (
    ATTACHED,
    DETACHED,
    DEVICE,
    NONE,
    NOWHERE,
    UNKNOWN,
    UNSURE,
    Const,
    FileRef,
    Function,
    Instance,
    Items,
    Join,
    Lib,
    Loader,
    Mapping,
    Method,
    Mode,
    Module,
    Obj,
    Other,
    Partial,
    ProjectClass,
    Sequence,
    Tensor,
    Tuple,
    Unknown,
    Value,
    came_of,
    join,
    join_all,
    options,
    reads_of,
    through,
)

MAX_PATHS = 12
"""Calls of one function that are followed in a loop (see `_may_follow`)."""
MAX_FOLLOWED_WORK = 5_000
"""Expressions evaluated for the calls of one function in a loop, before a call on another path is followed."""
MAX_REPEATED_WORK = 20_000
"""The same, before another pass of a loop takes what the call did in the last one."""
MAX_FORWARD_WORK = 5_000
"""Expressions evaluated in one call of a module from outside any module."""
MAX_RECURSION = 2


def call(run: Run, function: Value, args: Arguments, place: Place, frame: Frame) -> Value:
    """Call a value."""
    results = [_call(run, option, args, place, frame) for option in options(function)]
    return join_all(results)


def _call(run: Run, function: Value, args: Arguments, place: Place, frame: Frame) -> Value:
    if isinstance(function, Function):
        return call_function(run, function, args, place, frame)
    if isinstance(function, Lib):
        from ptlint.facts import library

        return library.call(run, function.name, args, place, frame)
    if isinstance(function, ProjectClass):
        return classes.instantiate(run, function, args, place, frame)
    if isinstance(function, Module):
        return call_module(run, function, args, place, frame)
    if isinstance(function, Method):
        from ptlint.facts import library

        return library.call_method(run, function.receiver, function.name, args, place, frame)
    if isinstance(function, Partial):
        merged = Arguments(
            [*function.args, *args.positional],
            [*(None for _ in function.args), *args.nodes],
            {**dict(function.keywords), **args.keywords},
            args.keyword_nodes,
            args.open,
        )
        return call(run, function.function, merged, place, frame)
    if isinstance(function, Instance) and isinstance(function.cls, ProjectClass):
        method = function.cls.find("__call__")
        if isinstance(method, Function):
            return call_function(run, method.bind(function), args, place, frame)
        return derived(args.all())
    if isinstance(function, Mode):  # a context manager used as a decorator: `no_grad()(fn)`
        return classes.apply_decorator(run, function, args.first(), place, frame)
    if isinstance(function, Other) and function.kind == "compile":
        return classes.apply_decorator(run, function, args.first(), place, frame)
    if isinstance(function, Other) and function.kind in ("runtime", "tokenizer"):
        from ptlint.facts import library

        return library.call_method(run, function, "__call__", args, place, frame)
    if isinstance(function, FileRef):
        return UNKNOWN
    return derived([function, *args.all()] if isinstance(function, Unknown) else args.all())


def derived(values: object) -> Value:
    """The result of code that cannot be read: unknown, but computed from these."""
    where = graph = UNSURE
    batch: Value | None = None
    wraps: list[Value] = []
    came = NOWHERE
    reads: frozenset[Event] = frozenset()
    for value in values:  # type: ignore[attr-defined]
        for option in options(value):
            came = came | came_of(option)
            reads = reads | reads_of(option)
            if isinstance(option, (Tensor, Unknown)):
                if option.where == DEVICE:
                    where = DEVICE
                if option.graph == ATTACHED:
                    graph = ATTACHED
                batch = batch or option.batch
            elif isinstance(option, Tuple):
                inner = derived(option.items)
                if isinstance(inner, Unknown):
                    where = DEVICE if inner.where == DEVICE else where
                    graph = ATTACHED if inner.graph == ATTACHED else graph
                    batch = batch or inner.batch
            elif isinstance(option, (Loader, Items)) and len(wraps) < 4:
                wraps.append(option)
    if where == UNSURE and graph == UNSURE and batch is None and not wraps and not came and not reads:
        return UNKNOWN
    return Unknown(where, graph, batch, tuple(wraps), came, reads)


def call_function(run: Run, function: Function, args: Arguments, place: Place, frame: Frame) -> Value:
    """Follow a call into a project function."""
    node = function.node
    if isinstance(node, cst.Lambda):
        return _call_lambda(run, function, args, place, frame)
    if function.self_value is not None and "static" not in function.flags:
        if node.name.value == "step" and _is_environment(function.self_value):
            run.emit(Call(place, frame.ctx, ".step", args.bind(()), UNKNOWN, function.self_value), "environment")
        args = args.prepend(function.self_value)
    too_deep = frame.ctx.depth > 160 or len(run.active) > MAX_DEPTH
    if too_deep or run.work > MAX_WORK or run.active.count(id(node)) >= MAX_RECURSION:
        return derived(args.all())
    run.called.add(id(function.head))
    if run.scope(node).has_yield and "contextmanager" not in function.flags:
        return _generator(function, args)
    ctx = frame.ctx.child("frame", _call_key(function, place), place)
    return _run_function(run, function, args, ctx, place, frame)


def _is_environment(receiver: Value) -> bool:
    """Whether an object of the project is one that agents act in: it is stepped, and can be set back."""
    cls = receiver.cls if isinstance(receiver, Instance) else None
    if not isinstance(cls, ProjectClass):
        return False
    return cls.find("reset") is not None or any(base.startswith(("gym.", "gymnasium.")) for base in cls.lib_bases)


def _call_key(function: Function, place: Place) -> object:
    """What tells calls apart in the context tree; a closure's scope does not, it is new in every pass of a loop."""
    receiver = function.self_value.key() if function.self_value is not None else 0
    return (id(place.node), id(function.node), receiver)


def _generator(function: Function, args: Arguments) -> Items:
    source = Tuple((function, *args.positional))
    return Items(UNKNOWN, "generator", _Pending(function, args, source))


class _Pending(Obj):
    """A generator that has not run: its function and arguments."""

    __slots__ = ("args", "function", "source")

    def __init__(self, function: Function, args: Arguments, source: Value) -> None:
        super().__init__(None)
        self.function = function
        self.args = args
        self.source = source

    def key(self) -> object:
        return ("gen", self.function.key(), self.args.key())


def run_generator(run: Run, value: Items, place: Place, frame: Frame) -> Value:
    """Run a generator's body in the loop that consumes it; what it yields."""
    pending = value.source
    assert isinstance(pending, _Pending)
    function, node = pending.function, pending.function.node
    if run.work > MAX_WORK or run.active.count(id(node)) >= MAX_RECURSION:
        return UNKNOWN
    ctx = frame.ctx.child("frame", _call_key(function, place), place)
    ctx.function = function
    inner = _new_frame(run, function, pending.args, _under_decorators(function, ctx, place))
    if inner is None:
        return UNKNOWN
    _execute(run, inner, function)
    return join_all(inner.yielded)


def _under_decorators(function: Function, ctx: Ctx, place: Place) -> Ctx:
    """The context of a function's body: under the modes that its decorators put around it."""
    for number, mode in enumerate(function.modes):
        ctx = ctx.child("mode", ("decorator", number, mode.site), place)
        ctx.mode = mode
    return ctx


def _run_function(run: Run, function: Function, args: Arguments, ctx: Ctx, place: Place, frame: Frame) -> Value:
    memo = (id(ctx), id(function.scope), args.key(), run.grad_off, run.changes)
    found = run.memo.get(memo)
    if found is not None:
        run.trace.repeat(ctx)
        return found[0]
    ctx.sealed = run.forwards > 0
    if not _may_follow(run, function, ctx):
        return derived(args.all())
    known = run.followed.get((id(function.head), id(ctx.zone)))
    if known is not None and id(ctx) in known.done and known.work > MAX_REPEATED_WORK:
        run.trace.repeat(ctx)
        return ctx.returned
    ctx.function = function
    inner = _new_frame(run, function, args, _under_decorators(function, ctx, place))
    if inner is None:
        return derived(args.all())
    if "contextmanager" in function.flags:
        return _manage(run, inner, function, place, ctx)
    before = run.work
    result = ctx.returned = _execute(run, inner, function)
    if known is not None:
        known.work += run.work - before
        known.done.add(id(ctx))
    # What the key names by id is kept, so that the ids stay theirs.
    run.memo[memo] = (result, (args, function.scope))
    return result


def _may_follow(run: Run, function: Function, ctx: Ctx) -> bool:
    """Whether one more call of a function tells enough: a model of many layers calls some of them on thousands of
    paths. Constructors are always followed, since what they make is unknown without."""
    node = function.head
    if isinstance(node, cst.FunctionDef) and node.name.value == "__init__":
        return True
    if ctx.sealed and run.work - run.forward_began > MAX_FORWARD_WORK:
        return False
    known = run.followed.setdefault((id(node), id(ctx.zone)), Followed())
    if len(known.paths) < MAX_PATHS and known.work < MAX_FOLLOWED_WORK:
        known.paths.add(id(ctx))
    return id(ctx) in known.paths


def _manage(run: Run, inner: Frame, function: Function, place: Place, ctx: Ctx) -> Value:
    """A function under `@contextmanager`: the modes in force where it yields."""
    _execute(run, inner, function)
    managed = run.make(Other, place, ctx, "managed")
    managed.attrs.clear()
    for number, at in enumerate(inner.yield_modes):
        for level, up in enumerate(at.up()):
            if up is inner.root:
                break
            if up.kind == "mode" and up.mode is not None:
                managed.attrs[f"mode{number}.{level}"] = up.mode
    managed.attrs["entered"] = join_all(inner.yielded)
    return managed


def _execute(run: Run, inner: Frame, function: Function) -> Value:
    from ptlint.facts import statements

    node = function.node
    assert isinstance(node, cst.FunctionDef)
    run.active.append(id(node))
    try:
        statements.execute_suite(run, node.body, inner)
    finally:
        run.active.pop()
    if not inner.dead:
        inner.returned.append(NONE)
    return join_all(inner.returned)


def _new_frame(run: Run, function: Function, args: Arguments, ctx: Ctx) -> Frame | None:
    home: Home = function.home
    tree = function.tree
    if tree is None:
        return None
    outer = function.scope if isinstance(function.scope, Frame) else None
    inner = Frame(home, tree, ctx, run.scope(function.node), outer)
    inner.function = function
    inner.globals_declared = set(inner.scope.global_names)
    bind_parameters(run, function, args, inner)
    return inner


def bind_parameters(run: Run, function: Function, args: Arguments, inner: Frame) -> None:
    """Bind a call's arguments to the parameters of a function."""
    from ptlint.facts.infer import by_annotation, by_use

    params = function.node.params
    names = [param.name.value for param in (*params.posonly_params, *params.params)]
    only = [param.name.value for param in params.kwonly_params]
    values: dict[str, Value] = dict(zip(names, args.positional, strict=False))
    surplus = args.positional[len(names) :]
    keywords = dict(args.keywords)
    for name in (*names, *only):
        if name in keywords:
            values[name] = keywords.pop(name)
    for name in (*names, *only):
        if name not in values:
            default = function.defaults.get(name)
            if args.open:
                values[name] = run.soften(default) if default is not None else UNKNOWN
            elif default is not None:
                values[name] = default
            else:
                values[name] = UNKNOWN
    if isinstance(params.star_arg, cst.Param):
        from ptlint.facts.values import Sequence

        place = inner.place(params.star_arg)
        rest = run.make(Sequence, place, inner.ctx)
        rest.items = None if args.open and not surplus else list(surplus)
        rest.item = UNKNOWN if args.open else None
        values[params.star_arg.name.value] = rest if args.open or not surplus else Tuple(tuple(surplus))
    if params.star_kwarg is not None:
        place = inner.place(params.star_kwarg)
        mapping = run.make(Mapping, place, inner.ctx)
        mapping.entries = dict(keywords)
        called = inner.ctx.frame().place
        mapping.origins = dict(args.origins)
        if called is not None:
            mapping.origins.update({key: called.at(node) for key, node in args.keyword_nodes.items()})
        mapping.rest = UNKNOWN if args.open else None
        values[params.star_kwarg.name.value] = mapping
    for name, value in values.items():
        param = _param(function, name)
        place = inner.place(param if param is not None else function.node)
        shown = by_use(run, value, name, inner, place)
        inner.locals[name] = by_annotation(run, shown, param.annotation if param is not None else None, inner, place)
        inner.bound[name] = inner.root


def _param(function: Function, name: str) -> cst.Param | None:
    params = function.node.params
    for param in (*params.posonly_params, *params.params, *params.kwonly_params):
        if param.name.value == name:
            return param
    return None


def _call_lambda(run: Run, function: Function, args: Arguments, place: Place, frame: Frame) -> Value:
    node = function.node
    assert isinstance(node, cst.Lambda)
    if run.active.count(id(node)) >= MAX_RECURSION or run.work > MAX_WORK:
        return derived(args.all())
    ctx = frame.ctx.child("frame", (id(place.node), id(node)), place)
    ctx.function = function
    inner = _new_frame(run, function, args, ctx)
    if inner is None:
        return UNKNOWN
    run.active.append(id(node))
    try:
        return run.evaluate(node.body, inner)
    finally:
        run.active.pop()


def call_module(run: Run, module: Module, args: Arguments, place: Place, frame: Frame, method: str = "") -> Value:
    """`model(x)`: the forward of the project's class is followed; a library's gives a tensor."""
    outer = not any(up.function is not None and _is_forward(up.function) for up in frame.ctx.up() if up.kind == "frame")
    event = Forward(place, frame.ctx, module, list(args.all()), outer=outer, method=method)
    before = run.trace.find(Forward, place, frame.ctx)
    run.emit(event)
    if not run.forwards:
        run.forward_began = run.work
    run.forwards += 1
    try:
        result = _forward(run, module, args, place, frame)
    finally:
        run.forwards -= 1
    if outer and event.grad:
        result = in_lists(run, result, lambda item: through(item, event.token), place, frame)
    event.result = result
    if before is not None and not any(option is module for option in options(before.module)):
        # One place calls several modules: alternatives, or the items of a list.
        several = join(before.module, module)
        if isinstance(several, Join):
            event.module, event.result = several, join(before.result, result)
    return result


def _is_forward(function: Function) -> bool:
    return isinstance(function.self_value, Module) and (
        isinstance(function.node, cst.FunctionDef) and function.node.name.value == "forward"
    )


def _forward(run: Run, module: Module, args: Arguments, place: Place, frame: Frame) -> Value:
    core = module.core
    if isinstance(core.cls, ProjectClass):
        found = core.cls.find("forward") or core.cls.find("__call__")
        results: list[Value] = []
        for method in options(found) if found is not None else ():
            if isinstance(method, Function):
                result = call_function(run, method.bind(core), args, place, frame)
                grad = not any(map(_turns_off, method.modes))

                def settle(value: Value, *, grad: bool = grad) -> Value:
                    return _settle(run, core, module, value, args, frame, grad=grad)

                results.append(in_lists(run, result, settle, place, frame))
        if results:
            return join_all(results)
    for child in core.children:
        for option in options(child):
            if isinstance(option, Module):
                call_child(run, option, args, place, frame)
    return output_of(run, core, module, args, frame)


def call_child(run: Run, module: Module, args: Arguments, place: Place, frame: Frame) -> None:
    """Run a container's child, for what its own forward does."""
    core = module.core
    if id(core) in run.containers:  # a container that was put into itself (`layers[-1] = layers`)
        return
    if isinstance(core.cls, ProjectClass) or core.children:
        run.containers.add(id(core))
        _forward(run, module, args, place, frame)
        run.containers.discard(id(core))


def _turns_off(mode: Mode) -> bool:
    return mode.kind == "grad" and isinstance(mode.enabled, Const) and not mode.enabled.value


def in_lists(run: Run, value: Value, change: Callable[[Value], Value], place: Place, frame: Frame) -> Value:
    """A change made to a value, and to what the lists among its alternatives hold."""
    found: list[Value] = []
    for option in options(value):
        if not isinstance(option, Sequence):
            found.append(change(option))
            continue
        made = run.make(Sequence, place, frame.ctx, tag=str(id(option)))
        made.items = [change(item) for item in option.items] if option.items is not None else None
        made.item = change(option.item) if option.item is not None else None
        found.append(made)
    return join_all(found)


def _settle(
    run: Run, core: Module, module: Module, result: Value, args: Arguments, frame: Frame, *, grad: bool
) -> Value:
    """What a followed forward returns, with what is known of the module where the result is not."""
    settled: list[Value] = []
    for option in options(result):
        if isinstance(option, Unknown) and not option.wraps:
            output = output_of(run, core, module, args, frame)
            assert isinstance(output, Tensor)
            if grad:
                settled.append(Unknown(output.where, output.graph, option.batch, came=came_of(option, output)))
            else:
                settled.append(Unknown(output.where, DETACHED, option.batch))
        else:
            settled.append(option)
    return join_all(settled)


def output_of(run: Run, core: Module, module: Module, args: Arguments, frame: Frame) -> Tensor:
    """The tensor that a library module returns."""
    where = module.where if module.where == DEVICE else core.where
    attached = False
    for value in args.all():
        for option in options(value):
            if isinstance(option, (Tensor, Unknown)):
                if option.where == DEVICE:
                    where = DEVICE
                attached = attached or option.graph == ATTACHED
    if where != DEVICE and not any(isinstance(o, Tensor) for value in args.all() for o in options(value)):
        where = UNSURE
    loss = isinstance(core.cls, Lib) and "loss" in torch_api.tags(core.cls.name)
    graph = UNSURE
    if not run.grad_enabled(frame.ctx):
        graph = DETACHED
    elif attached or (not loss and not run.is_frozen(core)):
        graph = ATTACHED
    came = came_of(*args.all()) if graph != DETACHED else NOWHERE
    return Tensor(where, graph, "float" if loss else None, module=core, came=came)

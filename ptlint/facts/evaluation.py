"""Module calls whose gradients nobody uses, grouped by the loop or function that evaluates (CATALOGUE.md, PTL301)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts import roles
from ptlint.facts.events import Call, Ctx, Forward, Place
from ptlint.facts.gradients import tracked
from ptlint.facts.scopes import is_terminal, target_names, walk
from ptlint.facts.trained import EXPORTS
from ptlint.facts.values import Batches, Const, Instance, Loader, Module, Unknown, options

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

EVAL, TRAIN = "eval", "train"
_SIZES = frozenset("shape size dtype ndim dim device numel type".split())
_SIMULATOR_CALLS = frozenset({".step", ".reset"})


@dataclass(frozen=True)
class Evaluation:
    """A loop (`loop`), or without one the first module call of a function or script, that tracks gradients in vain.

    `place` is the loop or that call; `frame` the function (or file) in which it stands; `calls` the module calls, as
    that function sees them; `acts`: it chooses actions in a reinforcement-learning loop.
    """

    place: Place
    ctx: Ctx
    frame: Ctx
    calls: tuple[Place, ...]
    loop: Ctx | None = None
    acts: bool = False


@dataclass(frozen=True)
class _Site:
    """A module call as it is seen from outside of the module's own methods; `inner`, from inside the outermost."""

    forward: Forward
    place: Place
    ctx: Ctx
    inner: _Site | None = None


def evaluations(program: ProgramFacts) -> Iterator[Evaluation]:
    """Every evaluation that tracks gradients, in the order of execution; one for each place and calling context."""
    loops: dict[int, list[_Site]] = {}
    frames: dict[int, list[_Site]] = {}
    for site in _sites(program):
        loop = program.roles.innermost(site.ctx, roles.TRAINING, roles.EVALUATION)
        if loop is not None and loop.role == roles.EVALUATION:
            loops.setdefault(id(loop), []).append(site)
        else:
            site = _in_its_function(program, site)
            frames.setdefault(id(site.ctx.frame()), []).append(site)
    covered: set[int] = set()
    found_in_loops = [found for sites in loops.values() if (found := _of_loop(program, sites)) is not None]
    for found in found_in_loops:
        covered.add(id(found.frame))
        if found is _first_in_its_function(program, found, found_in_loops):
            yield found
    for key, sites in frames.items():
        if key not in covered:
            found = _of_frame(program, sites)
            if found is not None:
                yield found


def says_that_it_evaluates(program: ProgramFacts, found: Evaluation) -> bool:
    """Whether no program can want a gradient from the function: it sets evaluation mode, and returns no graph."""
    if found.frame.kind != "frame" or tracked(found.frame.returned):
        return False
    frame = found.frame
    return any(call.ctx.frame() is frame for call in program.calls("torch.nn.Module.eval", ".eval"))


def _sites(program: ProgramFacts) -> Iterator[_Site]:
    for event in program.events(Forward):
        if not event.outer or not event.grad or not tracked(event.result) or program.gradients.reach(event):
            continue
        modules = [option for option in options(event.module) if isinstance(option, Module)]
        if modules and all(program.makeup(module).weightless or module.core.frozen for module in modules):
            continue
        if any(module.core.wrapper == "compile" for module in modules):
            continue  # around what cannot be read, which may be a function that trains
        if program.hooked(event.ctx):
            continue
        site = _from_outside(program, event)
        if site is not None:
            yield site


def _from_outside(program: ProgramFacts, event: Forward) -> _Site | None:
    """The call that entered the module's own methods (`model.generate(x)`); None while the module is being made."""
    site = _Site(event, event.place, event.ctx)
    while True:
        frame = site.ctx.frame()
        function = frame.function if frame.kind == "frame" else None
        if function is None or frame.parent is None or frame.place is None:
            return site
        if not isinstance(function.self_value, Module):
            # A helper that hands its graph on does not evaluate: who calls it may.
            looped = any(up.role == roles.EVALUATION and up.inside(frame) for up in site.ctx.loops())
            if looped or not tracked(frame.returned) or (frame.parent.kind == "module" and program.alone(frame)):
                return site
            site = _Site(event, frame.place, frame.parent)
            continue
        if isinstance(function.node, cst.FunctionDef) and function.node.name.value == "__init__":
            return None
        if _runs_whole_model(program, event, site.ctx, frame, function.self_value):
            return site
        if frame.parent.kind == "module" and program.alone(frame):
            return site
        site = _Site(event, frame.place, frame.parent, site)


def _first_in_its_function(program: ProgramFacts, found: Evaluation, others: list[Evaluation]) -> Evaluation:
    """The first loop of a function that only evaluates stands for all of them."""
    function = found.frame.function
    if function is None or program.gradients.needed_in(function.node):
        return found
    return min((other for other in others if other.frame is found.frame), key=lambda other: other.place.start)


def _in_its_function(program: ProgramFacts, site: _Site) -> _Site:
    """A method such as `predict`, called by code that also trains, is itself what evaluates."""
    inner = site.inner
    if inner is None or program.roles.hot_loop(site.ctx) is not None or not _is_mixed(program, site.ctx.frame()):
        return site
    function = inner.ctx.frame().function
    return site if function is None or program.gradients.needed_in(function.node) else inner


def _is_mixed(program: ProgramFacts, frame: Ctx) -> bool:
    """Whether a function also trains, or speaks of it. A file's top level may do anything."""
    if frame.kind == "module" or program.gradients.trains(frame):
        return True
    return frame.function is not None and speaks_of_gradients(frame.function.node)


_GRADIENT_WORDS = frozenset(
    "backward autograd enable_grad requires_grad requires_grad_ set_grad_enabled zero_grad".split()
)


def speaks_of_gradients(node: cst.FunctionDef | cst.Lambda) -> bool:
    """Whether the text of a function uses words of training."""
    return any(isinstance(inner, cst.Name) and inner.value in _GRADIENT_WORDS for inner in walk(node, into_scopes=True))


def _runs_whole_model(program: ProgramFacts, event: Forward, ctx: Ctx, frame: Ctx, owner: Module) -> bool:
    """Whether a method of a module loops over batches, or calls the module itself in a loop: not one over layers."""
    for loop in ctx.loops():
        if not loop.inside(frame):
            return False
        if loop.role == roles.EVALUATION:
            if any(option is owner for option in options(event.module)):
                return True
            return any(isinstance(source, (Loader, Batches, Instance)) for source in program.gone_over(loop))
    return False


def _of_loop(program: ProgramFacts, sites: list[_Site]) -> Evaluation | None:
    ctx = sites[0].ctx
    loop = program.roles.innermost(ctx, roles.EVALUATION)
    assert loop is not None and loop.place is not None
    below = [event for event in program.forwards(loop) if program.gradients.reach(event)]
    if below:
        return None
    frame = loop.frame()
    if not any(_is_used(site) for site in sites):
        return None
    calls = tuple(site.place for site in sites)
    modes = {_mode_before(program, site, frame) for site in sites}
    if TRAIN in modes or (program.alone(loop) and EVAL not in modes):
        return None  # what trains here cannot be read, or who calls this
    if isinstance(loop.place.node, cst.While) and all(_is_a_retry(site, loop.place.node) for site in sites):
        return None
    acts = _acts(program, loop) and _around_training(program, loop)
    return Evaluation(loop.place, loop, frame, calls, loop, acts)


def _of_frame(program: ProgramFacts, sites: list[_Site]) -> Evaluation | None:
    frame = sites[0].ctx.frame()
    if program.alone(frame) or any(call.ctx.inside(frame) for call in program.calls(*EXPORTS)):
        return None
    mixed = _is_mixed(program, frame)
    acts = False
    chosen: list[_Site] = []
    for site in sites:
        if not _is_used(site):
            continue
        hot = program.roles.hot_loop(site.ctx)
        mode = _mode_before(program, site, hot or frame)
        if mode != EVAL:
            if mixed or mode == TRAIN:
                continue
            if hot is not None and hot.role == roles.TRAINING:
                if not _held(program, site.forward):
                    continue  # a target or teacher network: PTL307
                acts = True
        chosen.append(site)
    if not chosen:
        return None
    first = min(chosen, key=lambda site: site.place.start)
    calls = tuple(site.place for site in chosen)
    return Evaluation(first.place, first.ctx, frame, calls, acts=acts)


def _is_a_retry(site: _Site, loop: cst.While) -> bool:
    """Whether the loop only goes on where the call fails."""
    for up in site.ctx.up():
        place = up.place if up.kind == "frame" else None
        tree, node = (site.place.tree, site.place.node) if place is None else (place.tree, place.node)
        above = list(tree.ancestors(node))
        if loop in above:
            inside = above[: above.index(loop)]
            return any(isinstance(part, cst.Try) and part.handlers and is_terminal(part.body) for part in inside)
    return False


def _held(program: ProgramFacts, event: Forward) -> bool:
    called = [option.core for option in options(event.module) if isinstance(option, Module)]
    return any(core is module for core in called for module in program.trained)


def _mode_before(program: ProgramFacts, site: _Site, within: Ctx) -> str:
    """The mode into which the module was put before the call, below a context: by the functions that led to it."""
    frames = [up for up in site.ctx.up() if up.kind in ("frame", "module")]
    modules = {id(option.core) for option in options(site.forward.module) if isinstance(option, Module)}
    last: Call | None = None
    for call in program.events(Call):
        receiver = call.receiver
        if not call.name.endswith((".eval", ".train")):
            continue
        if isinstance(receiver, Module):
            same = id(receiver.core) in modules or _holds(program, receiver, modules)
        else:
            same = f"{_called_on(site.place)}.".startswith(f"{_called_on(call.place)}.")
        before = call.order < site.forward.order and call.ctx.inside(within)
        if same and before and any(call.ctx.frame() is frame for frame in frames):
            last = call if last is None or call.order > last.order else last
    if last is None:
        return ""
    given = [*last.args.bound.values(), *last.args.extra]
    off = any(isinstance(value, Const) and not value.value for value in given)
    return EVAL if last.name.endswith(".eval") or off else TRAIN


def _called_on(place: Place) -> str:
    """The source text of what a call calls, or calls a method of."""
    func = place.node.func if isinstance(place.node, cst.Call) else place.node
    if isinstance(func, cst.Attribute) and func.attr.value in ("eval", "train", "forward"):
        func = func.value
    return place.tree.code(func)


def _holds(program: ProgramFacts, module: Module, ids: set[int]) -> bool:
    from ptlint.facts.models import parts

    return any(id(part) in ids for part in parts(module))


def _around_training(program: ProgramFacts, loop: Ctx) -> bool:
    return any(program.gradients.trains(up) for up in loop.loops())


def _acts(program: ProgramFacts, loop: Ctx) -> bool:
    """Whether a loop steps something that is no optimizer, as agents do with their environment."""
    return any(
        call.name in _SIMULATOR_CALLS and isinstance(call.receiver, (Unknown, Instance)) and call.ctx.inside(loop)
        for call in program.events(Call)
    )


def _is_used(site: _Site) -> bool:
    """Whether the result of a call is used, other than for its sizes: a warm-up or a count of operations is not."""
    tree, node = site.place.tree, site.place.node
    parent = tree.parent(node)
    if isinstance(parent, cst.Expr):
        return False
    if isinstance(parent, cst.Attribute) and parent.attr.value in _SIZES:
        return False
    statement = tree.statement(node)
    if not isinstance(statement, cst.Assign) or site.ctx.frame().kind == "module":
        return True
    names = {name for target in statement.targets for name in target_names(target.target)}
    holders = [target.target for target in statement.targets if not isinstance(target.target, (cst.Name, cst.Tuple))]
    if holders or not names:
        return True
    function = next((above for above in tree.ancestors(node) if isinstance(above, cst.FunctionDef)), None)
    return function is None or any(_reads(function, name, statement, site.place) for name in names)


def _reads(function: cst.FunctionDef, name: str, assigned: cst.CSTNode, place: Place) -> bool:
    """Whether a name is read in a function other than for sizes."""
    tree = place.tree
    after = tree.span(assigned)[1]
    for node in walk(function.body, into_scopes=True):
        if isinstance(node, cst.Name) and node.value == name and tree.span(node)[0] >= after:
            parent = tree.parent(node)
            if isinstance(parent, cst.Attribute) and (parent.attr is node or parent.attr.value in _SIZES):
                continue
            if isinstance(parent, cst.Arg) and parent.keyword is node:
                continue
            return True
    return False

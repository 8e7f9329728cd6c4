"""Putting a GradScaler's calls where they belong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.expressions import replace
from ptlint.edits.layout import CannotEdit
from ptlint.edits.statements import insert_after, insert_before
from ptlint.facts.events import Step
from ptlint.facts.paths import as_often, exclusive
from ptlint.facts.scaling import AGAIN, NO_UPDATE, UNSCALED
from ptlint.facts.values import Module, Optimizer, Params, Scaler, options
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.facts.events import Backward, Ctx, Event, Place
    from ptlint.facts.program import ProgramFacts
    from ptlint.facts.scaling import EarlyClip, Incomplete


def unscale_before(program: ProgramFacts, early: EarlyClip) -> tuple[Edit, ...]:
    """`scaler.unscale_(optimizer)` in front of a clip."""
    clip, step = early.clip, _step_of_clip(program, early)
    if not as_often(step, clip, early.loop):
        raise CannotEdit("gradients are clipped in passes that take no step: clip where the step is, behind `unscale_`")
    _same_scope(clip, step, "the clip")
    scaler, optimizer = names_of(step)
    return insert_before(clip.place.tree, clip.place.node, [f"{scaler}.unscale_({optimizer})"])


def _step_of_clip(program: ProgramFacts, early: EarlyClip) -> Step:
    """The step that the clipped gradients are for."""
    steps = [
        step
        for step in program.events(Step)
        if step.scaler is not None and step.ctx.inside(early.loop) and not exclusive(step, early.clip)
    ]
    if len({step.place.key for step in steps}) == 1:
        return steps[-1]
    clipped = {
        id(module)
        for option in options(early.clip.args.get("parameters"))
        if isinstance(option, Params)
        for module in option.modules
    }
    own = [step for step in steps if clipped and clipped <= _modules_of(step)]
    if len({step.place.key for step in own}) == 1:
        return own[-1]
    raise CannotEdit("several optimizers step here: `unscale_` the one whose gradients are clipped")


def _modules_of(step: Step) -> set[int]:
    held = [option for option in options(step.optimizer) if isinstance(option, Optimizer)]
    return {id(module) for optimizer in held for module in optimizer.modules if isinstance(module, Module)}


def complete(program: ProgramFacts, fault: Incomplete) -> tuple[Edit, ...]:
    """The missing part of a scaler's protocol at a step, where that is one line."""
    tree, node = fault.step.place.tree, fault.step.place.node
    if fault.kind == UNSCALED:
        return _step_by_scaler(program, fault)
    if fault.kind == NO_UPDATE:
        scaler, _ = names_of(fault.step)
        return insert_after(tree, node, [f"{scaler}.update()"])
    if fault.kind == AGAIN:
        raise CannotEdit("move `unscale_`, with the clip behind it, under the test that the step stands under")
    raise CannotEdit("move `update` to the step, so that one follows the other")


def _step_by_scaler(program: ProgramFacts, fault: Incomplete) -> tuple[Edit, ...]:
    tree, node = fault.step.place.tree, fault.step.place.node
    scaler = scaler_of(program, fault)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.args:
        raise CannotEdit("the optimizer is given a closure, which a GradScaler cannot call")
    text = f"{scaler}.step({tree.outer_code(node.func.value)})"
    updates = [call for call in program.scaling.calls("update") if call.ctx.inside(fault.loop)]
    edits = replace(tree, node, text)
    if updates:
        return edits
    return (*edits, *insert_after(tree, node, [f"{scaler}.update()"]))


def scaler_of(program: ProgramFacts, fault: Incomplete) -> str:
    """The text of the scaler in the scope of a step."""
    for call in program.scaling.calls("scale"):
        func = call.place.node.func if isinstance(call.place.node, cst.Call) else None
        if call.ctx.inside(fault.loop) and isinstance(func, cst.Attribute):
            _same_scope(fault.step, call, "the step")
            return call.place.tree.outer_code(func.value)
    raise CannotEdit("the loss is scaled in another function")


def names_of(step: Step) -> tuple[str, str]:
    """The texts of the scaler and the optimizer in `scaler.step(optimizer)`."""
    node = step.place.node
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args and not node.args[0].star:
        return step.place.tree.outer_code(node.func.value), step.place.tree.outer_code(node.args[0].value)
    raise CannotEdit("the step is taken in an unusual way")


def _same_scope(here: Event, there: Event, what: str) -> None:
    if here.ctx.frame() is not there.ctx.frame():
        raise CannotEdit(f"the scaler and the optimizer have no name where {what} is: pass them there")


@dataclass(frozen=True)
class NewScaler:
    """A GradScaler yet to be made: its name, the edit that makes it, and where that name is known."""

    name: str
    edits: tuple[Edit, ...]
    frame: Ctx | None  # None: in the whole file, or for all methods of a class


def scaler_beside(program: ProgramFacts, step: Step, torch: str) -> NewScaler:
    """A GradScaler made behind the optimizer that takes a step."""
    for event in program.made(Scaler):
        raise CannotEdit(f"a `GradScaler` is made in line {event.place.row} of {event.place.path.name}: use it here")
    made = [option for option in options(step.optimizer) if isinstance(option, Optimizer) and option.cls is not None]
    if len(made) != 1 or made[0].place is None or len(options(step.optimizer)) != 1:
        raise CannotEdit("make a `GradScaler` where the optimizer is made, and pass it along with it")
    place, text = made[0].place, _receiver(step)
    statement = place.tree.statement(place.node)
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    if place.path != step.place.path or len(targets) != 1 or place.tree.code(targets[0].target) != text:
        raise CannotEdit(f"make a `GradScaler` beside the optimizer, in line {place.row} of {place.path.name}")
    frame = _known_in(place, made[0], step)
    words = frozenset[str]().union(*(statement.words for statement in place.file.outline.statements))
    name = "grad_scaler" if "scaler" in words else "scaler"
    if "grad_scaler" in words and name == "grad_scaler":
        raise CannotEdit("`scaler` is the name of something else in this file")
    name = f"self.{name}" if text.startswith("self.") else name
    modern = program.config.torch_version >= (2, 3)
    maker = f'{torch}.amp.GradScaler("cuda")' if modern else f"{torch}.cuda.amp.GradScaler()"
    assert statement is not None
    return NewScaler(name, insert_after(place.tree, statement, [f"{name} = {maker}"]), frame)


def _known_in(place: Place, optimizer: Optimizer, step: Step) -> Ctx | None:
    """Where a name bound beside an optimizer is known: everywhere in the file, or in one running function."""
    owners = [node for node in place.tree.ancestors(place.node) if isinstance(node, (cst.FunctionDef, cst.ClassDef))]
    if not owners:
        return None
    if _receiver(step).startswith("self."):
        classes = [node for node in step.place.tree.ancestors(step.place.node) if isinstance(node, cst.ClassDef)]
        # A method's tree holds a class of its own around it.
        names = {owner.name.value for owner in owners if isinstance(owner, cst.ClassDef)}
        if step.place.path == place.path and any(cls.name.value in names for cls in classes):
            return None
    if optimizer.ctx is None or optimizer.ctx.frame() is not step.ctx.frame():
        raise CannotEdit(f"make a `GradScaler` beside the optimizer, in line {place.row}, and pass it here")
    return step.ctx.frame()


def _receiver(step: Step) -> str:
    node = step.place.node
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
        return step.place.tree.outer_code(node.func.value)
    raise CannotEdit("the step is given a closure, which a `GradScaler` cannot call")


def scale_pass(program: ProgramFacts, loop: Ctx, backward: Backward, torch: str) -> tuple[Edit, ...]:
    """A new GradScaler that scales the one loss of a loop: its making, backward, clips, step and update."""
    steps = [e for e in program.events(Step) if e.ctx.inside(loop) and e.scaler is None]
    if len({step.place.key for step in steps}) != 1 or steps[-1].by_hand:
        raise CannotEdit("the step is not taken at one place by one optimizer")
    step = steps[-1]
    new = scaler_beside(program, step, torch)
    if new.frame is not None and backward.ctx.frame() is not new.frame:
        raise CannotEdit("the backward pass and the step are in different functions: pass a `GradScaler` to both")
    if step.place.path != backward.place.path:
        raise CannotEdit(f"the step is taken in {step.place.path.name}")
    tree, node = step.place.tree, step.place.node
    optimizer = _receiver(step)
    edits = [*new.edits, *_scale(backward, new.name), *replace(tree, node, f"{new.name}.step({optimizer})")]
    edits += insert_after(tree, node, [f"{new.name}.update()"])
    for clip in {clip.place.key: clip for clip in program.scaling.clips if clip.ctx.inside(loop)}.values():
        if clip.ctx.frame() is not step.ctx.frame() or not as_often(step, clip, loop):
            raise CannotEdit("gradients are clipped in another place than the step: unscale them there first")
        edits += insert_before(clip.place.tree, clip.place.node, [f"{new.name}.unscale_({optimizer})"])
    return tuple(edits)


def _scale(backward: Backward, scaler: str) -> tuple[Edit, ...]:
    """`loss.backward()` of the scaled loss."""
    tree, node = backward.place.tree, backward.place.node
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "backward":
        raise CannotEdit("the backward pass is started in an unusual way")
    return replace(tree, node.func.value, f"{scaler}.scale({tree.code(node.func.value)})")


__all__ = ["NewScaler", "complete", "names_of", "scale_pass", "scaler_of", "unscale_before"]

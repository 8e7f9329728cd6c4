"""Which events can happen in one pass of a loop, and which of two happens more seldom."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.facts import guards
from ptlint.facts.events import Ctx, Event, Place
from ptlint.facts.scopes import is_terminal

YES, NO, REST = "yes", "no", "rest"


def arm(ctx: Ctx) -> tuple[object, str] | None:
    """The test that a guard stands under and its arm; None for other contexts."""
    if ctx.kind != "guard" or ctx.parent is None or ctx.place is None:
        return None
    for (kind, key), child in ctx.parent.children.items():
        if child is ctx and kind == "guard" and isinstance(key, tuple) and isinstance(key[1], str):
            return key[0], key[1]
    return None


def arms(ctx: Ctx) -> Iterator[tuple[str, object, str]]:
    """Tests around a context: the text of each, which test it is, and the arm ("yes" where it holds)."""
    for up in ctx.up():
        found = arm(up)
        if found is None or up.place is None:
            continue
        node, side = found[0], NO if found[1] == REST else found[1]
        test = up.place.node.test if isinstance(up.place.node, (cst.If, cst.IfExp)) else None
        if test is None:
            yield "", node, side
            continue
        while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test = test.expression
            side = {YES: NO, NO: YES}.get(side, side)
        yield up.place.tree.code(test), node, side


def exclusive(a: Event, b: Event) -> bool:
    """Whether no pass through the code has both: they stand in different arms of a test, or of the same test again."""
    sides: dict[object, str] = {}
    for text, node, side in arms(a.ctx):
        sides[node] = side
        if text:
            sides[text] = side
    for text, node, side in arms(b.ctx):
        if sides.get(node, side) != side or (text and sides.get(text, side) != side):
            return True
    return _leaves_before(a, b) or _leaves_before(b, a)


def _leaves_before(a: Event, b: Event) -> bool:
    """Whether one event stands in an arm that leaves (`continue`, `return`) and the other behind its `if`."""
    for ctx in a.ctx.up():
        found = arm(ctx)
        node = ctx.place.node if ctx.place is not None else None
        if found is None or not isinstance(node, cst.If) or ctx.place is None:
            continue
        body = node.body if found[1] == YES else getattr(node.orelse, "body", None)
        if isinstance(body, cst.BaseSuite) and is_terminal(body) and _is_behind(b, ctx.place):
            return True
    return False


def _is_behind(event: Event, test: Place) -> bool:
    """Whether an event happens in a statement that follows an `if` in its block."""
    whole = test.node
    while isinstance(above := test.tree.parent(whole), cst.If):  # `elif`
        whole = above
    block, end = above, test.tree.span(whole)[1]
    calls = (ctx.place for ctx in event.ctx.up() if ctx.kind == "frame" and ctx.place is not None)
    return any(
        place.tree is test.tree
        and place.start >= end
        and any(above is block for above in place.tree.ancestors(place.node))
        for place in (event.place, *calls)
    )


def shared_loop(*events: Event) -> Ctx | None:
    """The innermost loop around all of some events; without one the function (or file) that has them all itself."""
    first, *rest = events
    own: Ctx | None = None
    for ctx in first.ctx.up():
        if ctx.kind == "loop" and not ctx.pump and all(event.ctx.inside(ctx) for event in rest):
            return ctx
        if own is None and ctx.kind in ("frame", "module") and all(event.ctx.frame() is ctx for event in rest):
            own = ctx
    return own


def guards_of(event: Event, within: Ctx) -> list[Ctx]:
    """The guards and inner loops between a loop and an event, innermost first, that do not always let it happen."""
    found: list[Ctx] = []
    for ctx in event.ctx.up():
        if ctx is within:
            break
        if ctx.kind == "loop" and not ctx.pump:
            found.append(ctx)
        elif ctx.kind == "guard" and ctx.rarity != guards.ALWAYS:
            found.append(ctx)
    return found


def as_often(often: Event, seldom: Event, within: Ctx) -> bool:
    """Whether, in a loop, one event happens in every pass in which the other does."""
    held = guards_of(seldom, within)
    texts = {(text, side) for text, _, side in arms(seldom.ctx) if text}
    for guard in guards_of(often, within):
        if any(guard is other for other in held):
            continue
        if not any(_says(guard, text, side) for text, side in texts):
            return False
    return True


def _says(guard: Ctx, text: str, side: str) -> bool:
    own = next(arms(guard), None)
    return own is not None and own[0] == text and own[2] == side

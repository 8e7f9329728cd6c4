"""Where the value of a call's argument was chosen: at the call, at a caller, as a default, an option, a dict's item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.facts.events import Call, Ctx, Place
from ptlint.facts.scopes import walk
from ptlint.facts.values import CallArgs, Const, Function, Obj

if TYPE_CHECKING:
    from ptlint.facts.program import ProgramFacts

ABSENT, DEFAULT, OWN_DEFAULT, LITERAL, CONSTANT, ITEM, OPTION, OTHER = (
    "absent", "default", "own-default", "literal", "constant", "item", "option", "other",
)  # fmt: skip

MAX_HOPS = 12

_LITERALS = (cst.Integer, cst.Float, cst.SimpleString)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was chosen: `place` is what one would change, `site` the call nearest to it, `name` its argument.

    - `ABSENT`: nothing gives it; `site` is the call that could.
    - `DEFAULT`: the call `site` of a project function or class leaves it at the default of the parameter `name`.
    - `OWN_DEFAULT`: as `DEFAULT`, but nothing calls the function; `place` is the default.
    - `LITERAL`: a literal at the call `site`. `CONSTANT`: a literal bound to a name or attribute.
    - `ITEM`: in a dict that is spread into the call; `place` is the item, the keyword of `dict(...)` or the subscript.
    - `OPTION`: a command-line option; `place` is the call that adds it.
    - `OTHER`: an expression of some other kind.
    """

    kind: str
    place: Place
    site: Place
    name: str


class Origins:
    """Traces arguments back through the callers of a program."""

    def __init__(self, facts: ProgramFacts) -> None:
        self._facts = facts
        self._library = {id(event.place.node) for event in facts.events(Call)}
        self._options: dict[str, list[Place]] = {}
        for event in facts.calls("parser.add_argument"):
            if isinstance(event.result, Const):
                self._options.setdefault(str(event.result.value), []).append(event.place)

    def of(self, args: CallArgs, name: str, site: Place, ctx: Ctx) -> Origin:
        """Where the argument `name` of the call at `site`, which ran in `ctx`, was chosen."""
        if name in args.nodes:
            return self._trace(args.nodes[name].value, name, site, ctx, 0)
        if name in args.bound:
            place = args.origins.get(name)
            return self._item(name, place, site, ctx) if place is not None else Origin(OTHER, site, site, name)
        return self._absent(name, site, ctx, 0)

    def _absent(self, name: str, site: Place, ctx: Ctx, hops: int) -> Origin:
        """A call that lacks an argument but passes its caller's `**kwargs` on leaves the choice to that."""
        frame = ctx.frame()
        function = frame.function
        if function is not None and function.node.params.star_kwarg is not None and hops < MAX_HOPS:
            passed = function.node.params.star_kwarg.name.value
            if any(arg.star == "**" and _is_name(arg.value, passed) for arg in _args(site)):
                outer = self._caller(frame)
                if outer is not None and frame.parent is not None:
                    return self._absent(name, outer, frame.parent, hops + 1)
        return Origin(ABSENT, site, site, name)

    def _item(self, name: str, place: Place, site: Place, ctx: Ctx) -> Origin:
        if isinstance(place.node, cst.Arg) and isinstance(_call_of(place), cst.Call):
            call = place.at(_call_of(place) or place.node)
            for up in ctx.up():
                if up.kind == "frame" and up.place is not None and up.place.node is call.node and up.parent is not None:
                    # The keyword of a project function's call that its `**kwargs` passed on.
                    return self._trace(place.node.value, name, call, up.parent, 1)
        value = item_value(place)
        if value is None:
            return Origin(OTHER, place, site, name)
        if isinstance(value, _LITERALS) or _is_constant_name(value):
            return Origin(ITEM, place, site, name)
        where = self._context_of(place, site, ctx)
        return self._trace(value, name, place, where, 1) if where is not None else Origin(OTHER, place, site, name)

    def _context_of(self, place: Place, site: Place, ctx: Ctx) -> Ctx | None:
        """The context in which something at `place` ran: that of `site` in the same function, or a file's own."""
        function = _function_around(place)
        if function is None:
            home = self._facts.run.homes.get(place.path)
            return home.ctx if home is not None else None
        return ctx if function is _function_around(site) else None

    def _trace(self, node: cst.BaseExpression, name: str, site: Place, ctx: Ctx, hops: int) -> Origin:
        here = site.at(node)
        if hops > MAX_HOPS:
            return Origin(OTHER, here, site, name)
        if isinstance(node, _LITERALS) or _is_constant_name(node):
            return Origin(LITERAL, here, site, name)
        if isinstance(node, cst.Name):
            return self._trace_name(node, name, site, ctx, hops)
        if isinstance(node, cst.Attribute):
            return self._trace_attribute(node, name, site, ctx, hops)
        return Origin(OTHER, here, site, name)

    def _trace_name(self, node: cst.Name, name: str, site: Place, ctx: Ctx, hops: int) -> Origin:
        frame = ctx.frame()
        function = frame.function
        if function is not None:
            scope = self._facts.run.scope(function.node)
            if node.value not in scope.binds and _parameter(function, node.value) is not None:
                return self._trace_parameter(function, node.value, frame, site.at(node), hops)
            if node.value in scope.binds:
                return self._bound(list(_bindings(function.node, node.value)), node, name, site, ctx, hops)
        return self._trace_global(node, name, site, hops)

    def _bound(
        self, values: list[cst.BaseExpression], node: cst.Name, name: str, site: Place, ctx: Ctx, hops: int
    ) -> Origin:
        if len(values) != 1:
            return Origin(OTHER, site.at(node), site, name)
        found = self._trace(values[0], name, site, ctx, hops + 1)
        return Origin(CONSTANT, found.place, site, name) if found.kind == LITERAL and found.site is site else found

    def _trace_global(self, node: cst.Name, name: str, site: Place, hops: int) -> Origin:
        home = self._facts.run.homes.get(site.path)
        statements = home.binders.get(node.value, []) if home is not None else []
        if home is None or len(statements) != 1:
            return Origin(OTHER, site.at(node), site, name)
        tree = self._facts.run.trees.tree(home.file, statements[0])
        values = list(_bindings(tree.module, node.value)) if tree is not None else []
        if tree is None or len(values) != 1:
            return Origin(OTHER, site.at(node), site, name)
        there = Place(home.file, tree, values[0])
        found = self._trace(values[0], name, there, home.ctx, hops + 1)
        return Origin(CONSTANT, found.place, site, name) if found.kind == LITERAL else found

    def _trace_parameter(self, function: Function, parameter: str, frame: Ctx, use: Place, hops: int) -> Origin:
        site = self._caller(frame)
        default = _default(function, parameter)
        if site is None or frame.parent is None:
            if default is not None and frame.place is not None and function.tree is not None:
                there = Place(function.home.file, function.tree, default)
                return Origin(OWN_DEFAULT, there, use, parameter)
            return Origin(OTHER, use, use, parameter)
        given = _given(function, parameter, site)
        if given is not None:
            return self._trace(given.value, parameter, site, frame.parent, hops + 1)
        stars = [arg for arg in _args(site) if arg.star]
        if default is None or any(arg.star == "*" for arg in stars):
            return Origin(OTHER, site, site, parameter)
        if stars:
            absent = self._absent(parameter, site, frame.parent, hops + 1)
            if absent.site.node is site.node:
                return Origin(OTHER, site, site, parameter)
            return Origin(DEFAULT, absent.site, absent.site, parameter)
        return Origin(DEFAULT, site, site, parameter)

    def _trace_attribute(self, node: cst.Attribute, name: str, site: Place, ctx: Ctx, hops: int) -> Origin:
        attr = node.attr.value
        function = ctx.frame().function
        receiver = function.self_value if function is not None else None
        if isinstance(receiver, Obj) and function is not None and _is_name(node.value, _first_parameter(function)):
            where = receiver.attr_ctx.get(attr)
            setter = where.frame().function if where is not None else None
            if where is not None and setter is not None and setter.tree is not None:
                values = list(_attribute_bindings(setter.node, attr))
                if len(values) == 1:
                    there = Place(setter.home.file, setter.tree, values[0])
                    found = self._trace(values[0], name, there, where, hops + 1)
                    return Origin(CONSTANT, found.place, site, name) if found.kind == LITERAL else found
        places = self._options.get(attr, [])
        if len(places) == 1:
            return Origin(OPTION, places[0], site, name)
        return Origin(OTHER, site.at(node), site, name)

    def _caller(self, frame: Ctx) -> Place | None:
        """The project's own call that made a frame; None where a library (or nothing) called the function."""
        place = frame.place
        if place is None or not isinstance(place.node, cst.Call) or id(place.node) in self._library:
            return None
        return place


def item_value(place: Place) -> cst.BaseExpression | None:
    """The expression of a dict's item, of a keyword argument, or of what is assigned to a subscript."""
    node = place.node
    if isinstance(node, (cst.DictElement, cst.Arg)):
        return node.value
    statement = place.tree.statement(node)
    return statement.value if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None


def _function_around(place: Place) -> cst.CSTNode | None:
    return next((node for node in place.tree.ancestors(place.node) if isinstance(node, cst.FunctionDef)), None)


def _args(site: Place) -> tuple[cst.Arg, ...]:
    return tuple(site.node.args) if isinstance(site.node, cst.Call) else ()


def _call_of(place: Place) -> cst.CSTNode | None:
    return place.tree.parent(place.node)


def _is_name(node: cst.CSTNode, name: str | None) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _is_constant_name(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value in ("True", "False", "None")


def _positional(function: Function) -> list[cst.Param]:
    params = function.node.params
    return [*params.posonly_params, *params.params]


def _first_parameter(function: Function) -> str | None:
    found = _positional(function)
    return found[0].name.value if found else None


def _parameter(function: Function, name: str) -> cst.Param | None:
    params = [*_positional(function), *function.node.params.kwonly_params]
    return next((param for param in params if param.name.value == name), None)


def _default(function: Function, name: str) -> cst.BaseExpression | None:
    param = _parameter(function, name)
    return param.default if param is not None else None


def _given(function: Function, name: str, site: Place) -> cst.Arg | None:
    """The argument of a call that is bound to a parameter."""
    args = _args(site)
    for arg in args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg
    names = [param.name.value for param in _positional(function)]
    if name not in names:
        return None
    bound = function.self_value is not None and "static" not in function.flags
    index = names.index(name) - (1 if bound else 0)
    plain = [arg for arg in args if arg.keyword is None]
    if any(arg.star for arg in plain[: index + 1]):
        return None
    return plain[index] if 0 <= index < len(plain) else None


def _bindings(node: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression]:
    """What a scope binds to a name; twice over where it also does so in a way that has no expression."""
    for inner in walk(node):
        if isinstance(inner, cst.Assign):
            for target in inner.targets:
                if _is_name(target.target, name):
                    yield inner.value
                elif any(_is_name(part, name) for part in walk(target.target)):
                    yield inner.value
                    yield inner.value
        elif isinstance(inner, (cst.AnnAssign, cst.NamedExpr)) and _is_name(inner.target, name):
            if inner.value is not None:
                yield inner.value
        elif isinstance(inner, (cst.AugAssign, cst.For)) and any(_is_name(part, name) for part in walk(inner.target)):
            value = inner.value if isinstance(inner, cst.AugAssign) else inner.iter
            yield value
            yield value


def _attribute_bindings(node: cst.CSTNode, attr: str) -> Iterator[cst.BaseExpression]:
    for inner in walk(node):
        if isinstance(inner, cst.Assign):
            targets = [target.target for target in inner.targets]
        elif isinstance(inner, cst.AnnAssign):
            targets = [inner.target]
        else:
            continue
        if inner.value is not None and any(isinstance(t, cst.Attribute) and t.attr.value == attr for t in targets):
            yield inner.value

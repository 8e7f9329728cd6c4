"""Loops over the same things, counted or with a progress bar around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from metamorphic.names import File, Program

Edit = tuple[int, int, str]


def counted(program: Program) -> Program:
    """`for x in xs` as `for i, x in enumerate(xs)`."""
    return _with_loops(program, _count)


def shown(program: Program) -> Program:
    """`for x in xs` as `for x in tqdm(xs)`."""
    return _with_loops(program, _show)


def _with_loops(program: Program, change: Callable[[File], Iterator[Edit]]) -> Program:
    files = (File(name, text) for name, text in program.items())
    return {file.name: file.edited(change(file)) for file in files}


def _count(file: File) -> Iterator[Edit]:
    for number, loop in enumerate(_loops(file)):
        start, end = file.span(loop.target)
        if isinstance(loop.target, cst.Tuple):
            # Parentheses of its own may stand outside of what counts as the tuple's place.
            start, end = (start - 1, end + 1) if loop.target.lpar else (start, end)
            yield (start, start, f"i{number}_, " if loop.target.lpar else f"i{number}_, (")
            if not loop.target.lpar:
                yield (end, end, ")")
        else:
            yield (start, start, f"i{number}_, ")
        yield from _called(file, loop, "enumerate")


def _show(file: File) -> Iterator[Edit]:
    loops = list(_loops(file))
    place = _first_statement(file)
    if loops and place is not None:
        yield (place, place, "from tqdm import tqdm as w0_; ")
        for loop in loops:
            yield from _called(file, loop, "w0_")


def _called(file: File, loop: cst.For, function: str) -> Iterator[Edit]:
    start, end = file.span(loop.iter)
    if isinstance(loop.iter, cst.Tuple):
        yield (start, start, f"{function}((")
        yield (end, end, "))")
    else:
        yield (start, start, f"{function}(")
        yield (end, end, ")")


def _loops(file: File) -> Iterator[cst.For]:
    for node in file.nodes:
        if isinstance(node, cst.For) and node.asynchronous is None:
            yield node


def _first_statement(file: File) -> int | None:
    """Where the first simple statement stands that is neither a docstring nor from the future."""
    for line in file.module.body:
        if not isinstance(line, cst.SimpleStatementLine):
            return None
        statement = line.body[0]
        is_docstring = isinstance(statement, cst.Expr) and isinstance(statement.value, cst.BaseString)
        is_future = (
            isinstance(statement, cst.ImportFrom)
            and isinstance(statement.module, cst.Name)
            and statement.module.value == "__future__"
        )
        if not (is_docstring or is_future):
            return file.start(statement)
    return None

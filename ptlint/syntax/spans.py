"""Where each node of a module stands, in characters, from one code generation that only counts.

Gives the spans of libcst's `PositionProvider` at an eighth of its cost. It leans on names that are private to libcst:
a differential test holds it against the provider, and the provider itself is the way out where they are gone.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

CodegenState: Any
try:
    from libcst._nodes.internal import CodegenState
except ImportError:  # pragma: no cover - a libcst later than those we know
    CodegenState = None

Spans = dict[cst.CSTNode, tuple[int, int]]
_Result = TypeVar("_Result")

# Python's line ends: form feeds and Unicode's separators are none.
NEWLINE = re.compile(r"\r\n?|\n")

_DEEP_STACK = 256 << 20
_DEEP_LIMIT = 200_000


class _Recorder:
    """The context manager in which a node writes its own tokens, without the white space that it owns."""

    __slots__ = ("first", "last", "node", "start", "state")

    def __init__(
        self, state: _CountingState, node: cst.CSTNode, first: cst.CSTNode | None, last: cst.CSTNode | None
    ) -> None:
        self.state = state
        self.node = node
        self.first = first
        self.last = last
        self.start = 0

    def __enter__(self) -> None:
        self.start = self.state.position

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        spans = self.state.spans
        start = spans[self.first][0] if self.first is not None else self.start
        end = spans[self.last][1] if self.last is not None else self.state.position
        spans[self.node] = (start, end)


class _CountingState:
    """Stands in for libcst's `CodegenState`: counts characters where that one collects tokens."""

    def __init__(self, module: cst.Module, offset: int) -> None:
        self.default_indent = module.default_indent
        self.default_newline = module.default_newline
        # An empty module asks whether anything was written before it adds its newline.
        self.tokens = [""]
        self.position = offset
        self.spans: Spans = {}
        self._indents: list[int] = []
        self._open: list[int] = []

    def increase_indent(self, value: str) -> None:
        self._indents.append(len(value))

    def decrease_indent(self) -> None:
        self._indents.pop()

    def add_indent_tokens(self) -> None:
        self.position += sum(self._indents)

    def add_token(self, value: str) -> None:
        self.position += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._open.append(self.position)

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._open.pop()
        if node not in self.spans:
            self.spans[node] = (start, self.position)

    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _Recorder:
        return _Recorder(self, node, start_node, end_node)

    def pop_trailing_newline(self) -> None:
        """Left to `count_spans`: the newline was counted, and the text does not have it."""


def with_deep_stack(work: Callable[[], _Result]) -> _Result:
    """Run `work` where recursion as deep as any tree is safe."""
    results: list[_Result] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001  raised again in the caller's thread
            errors.append(error)

    limit = sys.getrecursionlimit()
    stack = threading.stack_size(_DEEP_STACK)
    try:
        sys.setrecursionlimit(max(limit, _DEEP_LIMIT))
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(stack)
    if errors:
        raise errors[0]
    return results[0]


def count_spans(module: cst.Module, text: str, offset: int) -> Spans:
    """The spans by counting; `text`, the module's source, starts at `offset`."""
    state = _CountingState(module, offset)
    generate: Callable[[_CountingState], None] = getattr(module, "_codegen")  # noqa: B009  private to libcst
    generate(state)
    limit = offset + len(text)
    if state.position > limit:
        return {node: (min(start, limit), min(end, limit)) for node, (start, end) in state.spans.items()}
    return state.spans


def provided_spans(module: cst.Module, text: str, offset: int) -> Spans:
    """The same from libcst's public provider."""
    limit = offset + len(text)
    # Without a last newline the provider ends what it ends there on a row that does not exist.
    starts = [offset, *(offset + end.end() for end in NEWLINE.finditer(text)), limit]
    ranges = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    spans: Spans = {}
    for node, value in ranges.items():
        place: Any = value() if callable(value) else value
        first = starts[place.start.line - 1] + place.start.column
        last = starts[place.end.line - 1] + place.end.column
        spans[node] = (min(first, limit), min(last, limit))
    return spans


def spans_of(module: cst.Module, text: str, offset: int) -> Spans:
    """Start and end of every node of `module`, whose source is `text`, counted from `offset`."""

    def work() -> Spans:
        return provided_spans(module, text, offset) if CodegenState is None else count_spans(module, text, offset)

    try:
        return work()
    except RecursionError:
        return with_deep_stack(work)

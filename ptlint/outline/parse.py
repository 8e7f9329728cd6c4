"""`ast.parse` made safe for any text: every way in which it can fail becomes one exception."""

from __future__ import annotations

import ast
import sys
import threading
import warnings

# Python 3.10 builds the tree by recursion without a limit: a long chain of calls would overflow the C stack.
_UNBOUNDED = sys.version_info < (3, 11)
_SHORT = 50_000
_DEEP_STACK = 512 * 1024 * 1024

_TOO_DEEP = ("too many nested parentheses", "too many statically nested blocks", "too many levels of indentation")


class ParseError(Exception):
    """Why a text has no tree, and where. `nested` says that it nests too deeply for any parser."""

    def __init__(self, message: str, row: int = 1, column: int = 1, *, nested: bool) -> None:
        super().__init__(message)
        self.message = message
        self.row = row
        self.column = column
        self.nested = nested


def parse(text: str) -> ast.Module:
    """The tree of a module's text, or `ParseError`."""
    if _UNBOUNDED and len(text) > _SHORT:
        return _parse_on_a_deep_stack(text)
    return _parse(text)


def _parse(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # Invalid escapes and the like are the user's to hear from Python, not from a linter for speed.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        nested = error.msg.startswith(_TOO_DEEP)
        row, column = max(error.lineno or 1, 1), max(error.offset or 1, 1)
        raise ParseError(f"syntax error: {error.msg}", row, column, nested=nested) from error
    except (RecursionError, MemoryError) as error:
        raise ParseError("the code nests too deeply to be parsed", nested=True) from error
    except ValueError as error:
        raise ParseError(f"the code cannot be parsed: {error}", nested=True) from error


def _parse_on_a_deep_stack(text: str) -> ast.Module:
    done: list[ast.Module | ParseError] = []

    def work() -> None:
        try:
            done.append(_parse(text))
        except ParseError as error:
            done.append(error)

    before = threading.stack_size(_DEEP_STACK)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    except (RuntimeError, MemoryError):
        return _parse(text)
    finally:
        threading.stack_size(before)
    thread.join()
    if isinstance(done[0], ParseError):
        raise done[0]
    return done[0]

"""What an outline is made of: plain frozen data, picklable, without syntax nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ptlint.outline.rows import row_groups


@dataclass(frozen=True)
class Statement:
    """A top-level statement, or several that `;` joins on a row.

    `kind` is "def", "class", "import", "simple", "compound" or "whole" (a file that the running Python cannot parse,
    in one piece). Rows count from 1 and include decorators. `binds` holds the names that the statement binds in the
    module ("*" for a star import); `words` every identifier, attribute, keyword and short string in it; `dotted` every
    longest chain of attributes on a name, such as "torch.cuda.is_available"; `nodes` the names of `ast` classes. What
    an import binds stands in `words` and `dotted` also by its full name, however the file calls it.
    """

    index: int
    kind: str
    name: str
    first_row: int
    last_row: int
    binds: frozenset[str]
    words: frozenset[str]
    dotted: frozenset[str]
    nodes: frozenset[str]
    methods: tuple[Method, ...] = ()
    """Of a class: the functions directly in its body, in order."""


@dataclass(frozen=True)
class Method:
    """A function in the body of a class: its first row (decorators included), the row of its first statement, its
    last row; `one_line` where the body does not begin on a row of its own."""

    first_row: int
    body_row: int
    last_row: int
    one_line: bool


@dataclass(frozen=True)
class Import:
    """One imported name: `import MODULE as ASNAME`, or `from MODULE import NAME as ASNAME`.

    `name` is None for the first form and "*" for a star import; `level` counts the leading dots; `top` says that the
    statement stands at the top level of the file itself, in no block.
    """

    module: str
    name: str | None
    asname: str | None
    level: int
    row: int
    top: bool


@dataclass(frozen=True)
class Loaded:
    """What a call of `import_module` loads: the module `name`; where that ends in a dot, any module of the package."""

    name: str
    row: int


@dataclass(frozen=True)
class OutlineError:
    """Why a file, or one statement of it, has no outline: a row and column that count from 1."""

    message: str
    row: int
    column: int


@dataclass(frozen=True)
class Outline:
    """A file's top-level statements in order, and all of its imports by row, those inside functions too.

    With an `error`, `statements` may still hold one of kind "whole", which libcst may be able to read, or what is left
    after a statement too deep for any reader.
    """

    statements: tuple[Statement, ...] = ()
    imports: tuple[Import, ...] = ()
    error: OutlineError | None = None
    has_main_guard: bool = False
    loads: tuple[Loaded, ...] = ()
    utf8: bytes = field(default=b"", repr=False, compare=False)
    """The text, as bytes: a string with one emoji in it takes four times the memory."""

    @property
    def text(self) -> str:
        return self.utf8.decode("utf-8", "surrogatepass")

    def statement_at(self, row: int) -> Statement | None:
        """The statement that holds a row."""
        low, high = 0, len(self.statements)
        while low < high:
            middle = (low + high) // 2
            if self.statements[middle].last_row < row:
                low = middle + 1
            else:
                high = middle
        if low < len(self.statements) and self.statements[low].first_row <= row:
            return self.statements[low]
        return None

    def rows_of(self, row: int) -> range:
        """The rows that one comment speaks for when it stands on `row`.

        Those of the innermost statement there: of a simple one all, of a compound one its header and decorators.
        """
        return self._row_groups.get(row, range(row, row + 1))

    @cached_property
    def _row_groups(self) -> dict[int, range]:
        return row_groups(self.text)

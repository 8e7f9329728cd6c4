"""PTL105 whole-file-read-per-item."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit, set_keyword
from ptlint.facts import items
from ptlint.facts.events import Call
from ptlint.facts.program import ProgramFacts
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

READS = frozenset(
    "numpy.load numpy.loadtxt numpy.genfromtxt torch.load json.load pickle.load pandas.read_csv pandas.read_json "
    "pandas.read_parquet pandas.read_pickle pandas.read_excel pandas.read_hdf pandas.read_table pandas.read_feather "
    "scipy.io.loadmat .readlines".split()
)
OPENS = "h5py.File"
ROWS = "pandas.DataFrame.iloc"
COPIES = frozenset({"torch.tensor", "numpy.array", "float", "int"})


class WholeFileReadPerItem(Rule):
    """
    ## What it finds
    In the `__getitem__` of a map-style dataset, or a function that it calls: a whole file read whose path is the same
    for every item (`np.load`, `torch.load`, `pd.read_csv`, `json.load`, `pickle.load`, `readlines()`), one
    `h5py.File` opened for each item, or a row of a pandas DataFrame looked up with `iloc` for each item.

    ## Why it is slow
    The file is read and decoded once an item, where once is enough: an epoch takes the number of items times as long.
    `iloc` makes a Series of one row, with an index and a common type for all its columns: tens of microseconds where a
    list or an array takes a tenth of one.

    ## When it stays silent
    - The path depends on the item, on random numbers, or on anything that is not known.
    - The read stands under a test (`if self.data is None:`), its result is kept, or the function has a cache.

    ## Example
    ```python
    class Rows(Dataset):
        def __getitem__(self, index):
            return torch.tensor(np.load("rows.npy")[index])
    ```

    Use instead:
    ```python
    class Rows(Dataset):
        def __init__(self):
            self.rows = np.load("rows.npy", mmap_mode="r")

        def __getitem__(self, index):
            return torch.tensor(self.rows[index])
    ```

    ## Fix safety
    Safe for `np.load` of a literal `.npy` file that is only indexed, and whose rows are copied at once:
    `mmap_mode="r"` reads the rows that are asked for. No fix for all else: what is held needs memory in every worker,
    and an HDF5 handle must be opened in the worker that uses it, never before workers are forked.

    ## How it is measured
    Items a second of a dataset in one file, read per item and held.

    ## References
    - https://numpy.org/doc/stable/reference/generated/numpy.load.html
    - https://docs.h5py.org/en/stable/faq.html
    """

    code = "PTL105"
    name = "whole-file-read-per-item"
    message = "the same file is read for every item"
    impact = Impact.HIGH
    roots = (("__getitem__",),)
    fixable = "safe"

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        looked_up: set[tuple[str, object]] = set()
        for call in program.events(Call):
            if call.name == ROWS and items.picked(program, call):
                function = call.ctx.frame().function
                what = (call.place.tree.code(call.place.node), function and function.head)
                if what not in looked_up:
                    looked_up.add(what)
                    yield self.finding(
                        call.place,
                        message="a row of a DataFrame is looked up for every item",
                        advice='the columns as arrays or lists, made once in `__init__` (`frame["x"].to_numpy()`)',
                    )
                continue
            if (call.name not in READS and call.name != OPENS) or call.args.state("mmap_mode") == "set":
                continue
            if items.repeated(program, call) is None:
                continue
            opens = call.name == OPENS
            yield self.finding(
                call.place,
                message="the same HDF5 file is opened for every item" if opens else None,
                advice=_OPEN_LATE if opens else "read it once and keep it",
                fix=_map(program, call),
            )


_OPEN_LATE = (
    "open it at the first item and keep it, once in each worker: not in `__init__`, whose handle would be forked"
)


def _map(program: ProgramFacts, call: Call) -> Fix | None:
    """`mmap_mode="r"`, where rows of a plain array are taken and copied."""
    tree, node = call.place.tree, call.place.node
    if call.name != "numpy.load" or not isinstance(node, cst.Call) or len(node.args) != 1:
        return None
    path = node.args[0].value
    if not (isinstance(path, cst.SimpleString) and str(path.evaluated_value).endswith(".npy")):
        return None
    rows = tree.parent(node)
    arg = tree.parent(rows) if isinstance(rows, cst.Subscript) and rows.value is node else None
    outer = tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if outer is None or not any(event.name in COPIES for event in program.calls_at(outer)):
        return None
    try:
        edits = set_keyword(tree, node, "mmap_mode", '"r"')
    except CannotEdit:
        return None
    return Fix("Map the file instead of reading it", Safety.SAFE, edits)

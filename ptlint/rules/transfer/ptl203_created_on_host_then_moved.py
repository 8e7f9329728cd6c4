"""PTL203 created-on-host-then-moved."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.edits import CannotEdit
from ptlint.edits.factories import make_on_device
from ptlint.facts.constants import made_outside, repeats
from ptlint.facts.freshness import FACTORIES
from ptlint.facts.program import ProgramFacts
from ptlint.facts.scopes import walk
from ptlint.facts.uploads import Upload, is_cached, uploads
from ptlint.facts.values import ATTACHED, Const, Lib, Num, Tensor, Value, options, pick
from ptlint.findings import Finding, Fix, Impact, Safety
from ptlint.rule import Rule

_EXACT = frozenset({"zeros", "ones", "empty", "full", "eye", "tensor", "as_tensor", "scalar_tensor", "arange"})
_KEEP = frozenset(
    "view reshape expand repeat unsqueeze squeeze transpose permute t flatten contiguous fill_ zero_ detach to type "
    "long int short bool float double half bfloat16 type_as".split()
)
"""Methods that give the same bits on any device."""


class CreatedOnHostThenMoved(Rule):
    """
    ## What it finds
    `.to(device)`, `.cuda()` or `.type_as(other)` of a tensor that holds no data: the result of `torch.zeros`, `ones`,
    `full`, `arange`, `eye`, `rand`, `randn`, … or of `torch.tensor` of constants, also after casts, views and
    arithmetic with numbers, through a name, or out of a function that only returns one. A CUDA constructor over a NumPy
    factory (`torch.cuda.FloatTensor(np.random.normal(…))`) counts too. Outside of training and evaluation loops and
    of `forward` it is shown with `--preview` only.

    ## Why it is slow
    The values are written on the CPU and sent over the bus, from pageable memory, so that the host waits for the copy.
    With `device=` the GPU writes them itself, in a kernel that the host only queues.

    ## When it stays silent
    - The tensor carries data: it comes from Python or NumPy values, or something was written into it.
    - It is made on the device: `device=`, `with torch.device(…)`, a default device, `new_zeros`, `zeros_like`, the
      sizes given to a CUDA constructor.
    - The factory is told to stay on the host: pinned memory, a generator of the host's, `out=`.
    - The code runs on a CPU.

    ## Example
    ```python
    for x, y in train_loader:
        noise = torch.zeros(x.size(0), 10).to(device)
        loss = criterion(model(x.to(device, non_blocking=True)) + noise, y.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    Use instead:
    ```python
    for x, y in train_loader:
        noise = torch.zeros(x.size(0), 10, device=device)
        loss = criterion(model(x.to(device, non_blocking=True)) + noise, y.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    Safe where the values are the same on any device: zeros, ones, constants, whole numbers, and their casts and views.
    Unsafe for random numbers, which the device draws from a generator of its own, and where rounding may differ
    (`linspace`, arithmetic). Withheld where the tensor has a name or comes out of a function, which others may use;
    for constructors such as `torch.FloatTensor`, which take no CUDA device; and where it requires gradients, since it
    would become a leaf.

    ## How it is measured
    A training step that makes a mask on the host and moves it, and one that makes it on the device.

    ## References
    - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device
    - https://pytorch.org/docs/stable/tensor_attributes.html#torch.device
    """

    code = "PTL203"
    name = "created-on-host-then-moved"
    message = "a tensor without data is made on the host and copied to the GPU"
    impact = Impact.MEDIUM
    fixable = "both"
    roots = ("to", "cuda", "type_as", "type", "torch.cuda.FloatTensor|torch.cuda.LongTensor|torch.cuda.DoubleTensor")

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        for upload in uploads(program):
            within = repeats(program, upload)
            if within is not None and made_outside(program, upload.made, within):
                continue  # PTL204
            fix, withheld = self._fix(program, upload)
            yield self.finding(
                upload.place,
                message=f"what `{_short(upload)}` makes holds no data, but is made on the host and copied to the GPU",
                preview=within is None or is_cached(upload.place),
                advice=_advice(upload),
                fix=fix,
                withheld=withheld,
                because=[f"`{upload.made.brief}` in {upload.made.line(upload.place.path)} makes it"],
            )

    @staticmethod
    def _fix(program: ProgramFacts, upload: Upload) -> tuple[Fix | None, str]:
        move, made, call = upload.move, upload.made, upload.place.node
        if move is None:
            return None, "NumPy's factory and PyTorch's differ in types and random numbers"
        assert isinstance(made.node, cst.Call)
        receiver = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
        if receiver is None or not any(node is made.node for node in walk(receiver)):
            return None, f"it is made in line {made.row}, where others may use it"
        if upload.factory not in FACTORIES:
            return None, f"`{_short(upload)}` takes no CUDA device"
        if any(tensor.graph == ATTACHED for tensor in pick(upload.value, Tensor)):
            return None, "it requires gradients, and would become a leaf"
        assert isinstance(call, cst.Call)
        to_tensor = move.how == "type_as" or (move.how == "to" and bool(pick(move.args.get("device"), Tensor)))
        try:
            edits = make_on_device(upload.place.tree, call, made.node, move.how, to_tensor=to_tensor)
        except CannotEdit as error:
            return None, error.reason
        return Fix("Make it on the device", _safety(program, upload, receiver), edits), ""


def _short(upload: Upload) -> str:
    return upload.factory.replace("numpy.", "np.")


def _advice(upload: Upload) -> str:
    if upload.move is None:
        return "a factory of PyTorch with `device=`, such as `torch.randn(…, device=device)`"
    if upload.factory in FACTORIES:
        return f"`{upload.factory}(…, device=…)`"
    return "a factory with `device=`, such as `torch.zeros(…, device=device)`"


def _safety(program: ProgramFacts, upload: Upload, receiver: cst.BaseExpression) -> Safety:
    """Safe where only casts and views stand around a factory that gives the same bits on any device."""
    made = upload.made
    if upload.factory.rpartition(".")[2] not in _EXACT:
        return Safety.UNSAFE
    if upload.factory == "torch.arange" and not all(
        _is_whole(option)
        for call in program.calls_at(made.node)
        for v in call.args.bound.values()
        for option in options(v)
    ):
        return Safety.UNSAFE
    node: cst.CSTNode | None = made.node
    while node is not None and node is not receiver:
        node = made.tree.parent(node)
        plain = isinstance(node, (cst.Attribute, cst.Arg, cst.Name)) or (isinstance(node, cst.Call) and _keeps(node))
        if not plain:
            return Safety.UNSAFE
    return Safety.SAFE


def _keeps(call: cst.Call) -> bool:
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(name, cst.Name) and (name.value in _KEEP or name.value == "Variable")


def _is_whole(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, int) or value.value is None
    return isinstance(value, Lib) or (isinstance(value, Num) and value.type != "float" and not value.reads)

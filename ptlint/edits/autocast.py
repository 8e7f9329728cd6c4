"""Putting a training step's forward pass and loss under autocast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ptlint.edits.layout import CannotEdit, leading, newline_at
from ptlint.edits.scaling import scale_pass
from ptlint.edits.statements import wrap_with
from ptlint.facts.events import Call, Step
from ptlint.facts.losses import LossPass, NoPass, loss_pass
from ptlint.facts.scopes import target_names
from ptlint.facts.values import Optimizer, options
from ptlint.findings import Edit

if TYPE_CHECKING:
    from ptlint.facts.events import Ctx
    from ptlint.facts.precision import Fault
    from ptlint.facts.program import ProgramFacts

Walk = Callable[[cst.CSTNode], Iterable[cst.CSTNode]]

_EXACT = frozenset(
    "argmax argmin argsort eq ne gt ge lt le long int bool float double item tolist size shape numel dim".split()
)
_FULL = frozenset(
    f"torch{owner}.{name}"
    for owner in ("", ".Tensor")
    for name in "inverse pinverse svd cholesky qr lu slogdet logdet det quantile histc lobpcg triangular_solve".split()
)
"""What has no half precision and is not run in float32 by autocast."""
_EXTENSIONS = frozenset({"cpp_extension", "CUDAExtension", "CppExtension", "load_inline"})


def under_autocast(program: ProgramFacts, fault: Fault, torch: str) -> tuple[Edit, ...]:
    """Wrap the forward pass and the loss of a loop; with float16 also scale the loss. `torch`: that module's name."""
    if program.words & _EXTENSIONS:
        raise CannotEdit("custom C++ or CUDA operations must be told what to do with half precision")
    if _custom_functions(program):
        raise CannotEdit("a custom `autograd.Function` needs `torch.amp.custom_fwd` first")
    if _searches_lines(program, fault):
        raise CannotEdit("L-BFGS searches along lines, which needs full precision")
    exact = _only_in_full(program, fault)
    if exact:
        raise CannotEdit(f"`{exact}` has no half precision: keep it outside, on `.float()`")
    if _second_order(program, fault):
        raise CannotEdit("a penalty on gradients must be computed outside of autocast")
    try:
        found = loss_pass(program, fault.loop)
    except NoPass as error:
        raise CannotEdit(error.reason) from None
    dtype = program.config.amp_dtype
    tree = found.place.tree
    first, last = found.statement(found.first), found.statement(found.last)
    (wrapped,) = wrap_with(tree, first, last, f'with {torch}.autocast("cuda", dtype={torch}.{dtype}):')
    casts = _casts(found, fault.loop, dtype)
    if casts:
        source = tree.source
        start = tree.span(first)[0]
        line = f"{', '.join(casts)} = {', '.join(f'{name}.float()' for name in casts)}"
        wrapped = Edit(
            wrapped.start, wrapped.end, f"{wrapped.text}{leading(source, start)}{line}{newline_at(source, start)}"
        )
    if dtype == "float16":
        return (wrapped, *scale_pass(program, fault.loop, found.backward, torch))
    return (wrapped,)


def _custom_functions(program: ProgramFacts) -> bool:
    return any(name.endswith("autograd.Function") for name in program.dotted) or any(
        item.name == "Function" and item.module == "torch.autograd"
        for path in program.program.files
        for item in program.project.file(path).outline.imports
    )


def _searches_lines(program: ProgramFacts, fault: Fault) -> bool:
    steps = (event for event in program.roles.under(fault.loop) if isinstance(event, Step))
    return any(
        isinstance(option, Optimizer) and option.lib_base == "torch.optim.LBFGS"
        for step in steps
        for option in options(step.optimizer)
    )


def _only_in_full(program: ProgramFacts, fault: Fault) -> str:
    """A function that the loop calls and that raises on bfloat16 and float16; "" for none."""
    for event in program.events(Call):
        is_algebra = event.name.startswith("torch.linalg.") and not event.name.endswith("norm")
        if is_algebra or event.name in _FULL:
            if event.ctx.inside(fault.loop) and event.grad:
                return event.name
    return ""


def _second_order(program: ProgramFacts, fault: Fault) -> bool:
    grads = program.calls("torch.autograd.grad")
    return any(event.ctx.inside(fault.loop) for event in grads)


def _casts(found: LossPass, loop: Ctx, dtype: str) -> list[str]:
    """Names that go back to float32 behind the pass: for a loss outside of it, and for NumPy, which has no bfloat16."""
    later = [found.statement(index) for index in range(found.last + 1, len(found.block.body))]
    used = _names(found, later)
    wanted = [name for name in found.tensors if name in used]
    if found.bare:
        before_backward = _names(found, [found.statement(i) for i in range(found.last + 1, found.end + 1)])
        missing = (before_backward & found.derived) - set(found.tensors)
        if missing or not wanted:
            raise CannotEdit("`BCELoss` raises under autocast: compute it outside, on `output.float()`")
        return wanted
    if dtype == "bfloat16" and _reaches_numpy(found, loop):
        if not wanted:
            raise CannotEdit("what the model returns goes to NumPy, which has no bfloat16: add `.float()` there")
        return wanted
    return []


def _names(found: LossPass, statements: list[cst.CSTNode]) -> set[str]:
    return {
        node.value
        for statement in statements
        for node in found.place.tree.walk(statement)
        if isinstance(node, cst.Name)
    }


def _reaches_numpy(found: LossPass, loop: Ctx) -> bool:
    """Whether something that the pass computes is made a NumPy array, in the loop or, once kept there, behind it."""
    tree = found.place.tree
    inside = loop.place.node if loop.place is not None else None
    if inside is None or not any(above is inside for above in tree.ancestors(found.block)):
        inside = found.block
    nodes = list(tree.walk(inside))
    flows, kept = set(found.derived), set[str]()
    for _ in range(3):
        for node in nodes:
            kept.update(_kept(tree.walk, node, flows))
            flows.update(_flow(tree.walk, node, flows))
    scope = next((a for a in tree.ancestors(found.block) if isinstance(a, cst.FunctionDef)), tree.module)
    return any(_to_numpy(tree.walk, node, flows) for node in nodes) or any(
        _to_numpy(tree.walk, node, kept) for node in tree.walk(scope)
    )


def _to_numpy(walk: Walk, node: cst.CSTNode, names: set[str]) -> bool:
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "numpy"
        and _mentions(walk, node.func.value, names)
    )


def _kept(walk: Walk, node: cst.CSTNode, flows: set[str]) -> Iterator[str]:
    """The lists to which something of `flows` is appended."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        keeps = node.func.attr.value in ("append", "extend") and isinstance(node.func.value, cst.Name)
        if keeps and any(_mentions(walk, arg.value, flows) for arg in node.args):
            yield from target_names(node.func.value)


def _flow(walk: Walk, node: cst.CSTNode, flows: set[str]) -> Iterator[str]:
    """The names to which a statement gives something computed from others."""
    if isinstance(node, cst.Assign) and _mentions(walk, node.value, flows):
        for target in node.targets:
            yield from target_names(target.target)
    elif isinstance(node, cst.AugAssign) and _mentions(walk, node.value, flows):
        yield from target_names(node.target)


def _mentions(walk: Walk, node: cst.CSTNode, names: set[str]) -> bool:
    if _is_exact(node):
        return False
    return any(isinstance(part, cst.Name) and part.value in names for part in walk(node))


def _is_exact(node: cst.CSTNode) -> bool:
    """Whether an expression ends in what has a dtype of its own: `x.argmax(1)`, `x.max(1)[1]`, `x.float()`."""
    while True:
        if isinstance(node, cst.Call):
            node = node.func
        elif isinstance(node, cst.Attribute):
            if node.attr.value in _EXACT:
                return True
            node = node.value
        elif isinstance(node, cst.Subscript):
            called = node.value.func if isinstance(node.value, cst.Call) else None
            if isinstance(called, cst.Attribute) and called.attr.value in ("max", "min", "sort", "topk"):
                return _index_of(node) == "1"
            node = node.value
        else:
            return False


def _index_of(node: cst.Subscript) -> str:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    return index.value.value if isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) else ""

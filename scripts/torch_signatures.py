"""Signatures of PyTorch's functions and methods, as the text that the API table keeps."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

TORCH = Path(torch.__file__).parent
Signature = tuple[list[str], str]
"""The parameters' texts and what `Api.returns` says."""


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class Stubs:
    """Signatures: from the stub files, from `inspect`, from docstrings."""

    def __init__(self) -> None:
        self.functions = stub_functions(ast.parse((TORCH / "_C" / "_VariableFunctions.pyi").read_text("utf-8")).body)
        self.builtin_nn = stub_functions(ast.parse((TORCH / "_C" / "_nn.pyi").read_text("utf-8")).body)
        self.nn = stub_functions(ast.parse((TORCH / "nn" / "functional.pyi").read_text("utf-8")).body)
        body = ast.parse((TORCH / "_C" / "__init__.pyi").read_text("utf-8")).body
        tensor = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == "TensorBase")
        self.tensor = {
            name: overloads
            for name, overloads in stub_functions(tensor.body, method=True).items()
            if not name.startswith("_") or is_dunder(name)
        }

    def function(self, name: str, thing: Any) -> list[Signature]:
        space, _, short = name.rpartition(".")
        pools = {"torch": (self.functions,), "torch.nn.functional": (self.nn, self.builtin_nn, self.functions)}
        stubs = next((pool[short] for pool in pools.get(space, ()) if short in pool), [])
        found = self.signature(name, thing)
        written = inspect.isfunction(thing) and any(not param.startswith("*") for param in found[0][0])
        if stubs and not written:
            return stubs
        if stubs and found[0][1] == "unknown":
            return [(params, stubs[0][1]) for params, _ in found]
        return found

    def signature(self, name: str, thing: Any, *, of_class: bool = False, own: str | None = None) -> list[Signature]:
        """What `inspect` says; nothing for builtins."""
        try:
            found = inspect.signature(thing)
        except (TypeError, ValueError):
            return documented(name.rpartition(".")[2], thing)
        params: list[str] = []
        starred = False
        for index, param in enumerate(found.parameters.values()):
            if index == 0 and param.name in ("self", "cls") and not of_class:
                continue
            if param.kind is param.KEYWORD_ONLY and not starred:
                params.append("*")
                starred = True
            text = str(param).partition(":")[0].partition("=")[0]
            starred = starred or param.kind is param.VAR_POSITIONAL
            annotation = annotation_text(param.annotation)
            if annotation in ("Tensor", "torch.Tensor"):
                text += ": Tensor"
            if param.default is not param.empty:
                text += f"={default_text(param.default)}"
            params.append(text)
        returns = result_of(annotation_text(found.return_annotation))
        if returns == "unknown":
            documentation = re.search(r"->\s*([\w.]+)", (inspect.getdoc(thing) or "")[:400])
            returns = result_of(documentation.group(1)) if documentation else "unknown"
        if returns == "self" and own is None:
            returns = "unknown"
        return [(params, returns)]


def stub_functions(body: list[ast.stmt], *, method: bool = False) -> dict[str, list[Signature]]:
    """The functions of a stub with their overloads, doubles left out."""
    nodes: dict[str, list[ast.FunctionDef]] = defaultdict(list)
    for node in body:
        if isinstance(node, ast.FunctionDef) and (method or not node.name.startswith("__")):
            nodes[node.name].append(node)
    found = {}
    for name, overloads in nodes.items():
        kept = [node for node in overloads if method or not is_deprecated(node)] or overloads
        in_place = name.endswith("_") and not is_dunder(name)
        signatures = [signature_of(node, method=method, in_place=in_place) for node in kept]
        found[name] = merged(signatures)
    return found


def is_deprecated(node: ast.FunctionDef) -> bool:
    """Overloads such as `add(self, alpha, other)`, which warn."""
    return bool(node.args.args) and node.args.args[0].arg == "self"


def signature_of(node: ast.FunctionDef, *, method: bool, in_place: bool) -> Signature:
    args = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [*[None] * (len(args) - len(node.args.defaults)), *node.args.defaults]
    params = [stub_param(arg, default) for arg, default in zip(args, defaults, strict=True)]
    if method and params:
        params = params[1:]
    if node.args.vararg is not None:
        params.append(f"*{node.args.vararg.arg}")
    elif node.args.kwonlyargs:
        params.append("*")
    params += [stub_param(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    if node.args.kwarg is not None:
        params.append(f"**{node.args.kwarg.arg}")
    returns = result_of(ast.unparse(node.returns) if node.returns is not None else "")
    return params, "self" if in_place and returns == "tensor" else returns


def stub_param(arg: ast.arg, default: ast.expr | None) -> str:
    annotation = ast.unparse(arg.annotation) if arg.annotation is not None else ""
    mark = ""
    if annotation in ("Tensor", "Tensor | None"):
        mark = ": Tensor"
    elif annotation and "Tensor" not in annotation:
        mark = ": plain"
    name = "input" if arg.arg == "self" else arg.arg
    return f"{name}{mark}" + (f"={ast.unparse(default)}".replace(", ", ",") if default is not None else "")


def merged(signatures: list[Signature]) -> list[Signature]:
    """Without signatures that another with the same result covers; `plain` is said only where results differ."""
    mixed = len({returns for _, returns in signatures}) > 1
    if not mixed:
        signatures = [([p.replace(": plain", "") for p in params], returns) for params, returns in signatures]
    kept: list[Signature] = []
    for params, returns in sorted(signatures, key=lambda one: (-len(set(one[0]) - {"*"}), "*size" not in one[0])):
        bare = {bare_name(param) for param in params}
        for other, other_returns in kept:
            if returns == other_returns and bare <= {bare_name(param) for param in other}:
                optional = [bare_name(p) not in bare and "=" not in p and not p.startswith("*") for p in other]
                other[:] = [f"{p}=..." if free else p for p, free in zip(other, optional, strict=True)]
                break
        else:
            kept.append((list(params), returns))
    return kept


def bare_name(param: str) -> str:
    return re.split("[:=]", param)[0].lstrip("*")


def documented(short: str, thing: Any) -> list[Signature]:
    """The signature that a builtin's docstring begins with."""
    match = re.match(rf"(?:\w+\.)*{re.escape(short)}\((.*?)\)\s*->\s*([^\n]+)", inspect.getdoc(thing) or "", re.DOTALL)
    if match is None:
        return []
    try:
        node = ast.parse(f"def f({match.group(1)}): ...").body[0]
    except SyntaxError:
        return []
    if not isinstance(node, ast.FunctionDef):
        return []
    params, _ = signature_of(node, method=False, in_place=False)
    if params and re.split("[:=]", params[0])[0] in ("input", "A", "x"):
        params[0] = re.sub(r"^\w+", lambda m: f"{m.group()}: Tensor", params[0])
    return [(params, result_of(match.group(2).strip()))]


def annotation_text(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", None) or str(annotation)


def default_text(default: Any) -> str:
    plain = default is None or isinstance(default, (bool, int, float, str, tuple))
    text = repr(default).replace(", ", ",")
    return text if plain and len(text) <= 40 and " " not in text and "object at" not in text else "..."


def result_of(annotation: str) -> str:
    """`Api.returns` of an annotation."""
    text = annotation.replace("torch.", "").strip("'\"").replace("_", "") if "return_types" not in annotation else ""
    several = r"\(?(tuple|list|Sequence|List|Tuple)\b.*Tensor.*|\(Tensor.*"
    if "return_types" in annotation or re.fullmatch(several, text):
        return "tensors"
    known = {
        "Tensor": "tensor", "LongTensor": "tensor", "BoolTensor": "tensor", "bool": "bool", "Bool": "bool",
        "int": "number", "float": "number", "Number": "number", "complex": "number", "int|SymInt": "number",
        "None": "none", "NoneType": "none", "Self": "self", "S": "self", "T": "self", "dtype": "dtype",
        "device": "device", "Size": "size", "list": "list", "numpy.ndarray": "ndarray", "str": "other",
        "Module": "module", "Generator": "other", "Storage": "other", "UntypedStorage": "other", "nn.Module": "module",
    }  # fmt: skip
    return known.get(text.replace(" ", ""), "unknown")

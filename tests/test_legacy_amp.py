"""What PTL507 writes makes the objects that the old names made, by PyTorch's own account."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from ptlint.runner import Request, run

torch = pytest.importorskip("torch")

OLD = [
    "torch.cuda.amp.autocast()",
    "torch.cuda.amp.autocast(False)",
    "torch.cuda.amp.autocast(False, torch.bfloat16)",
    "torch.cuda.amp.autocast(False, torch.bfloat16, False)",
    "torch.cuda.amp.autocast(enabled=False)",
    "torch.cuda.amp.autocast(dtype=torch.bfloat16, enabled=False)",
    "torch.cuda.amp.autocast(cache_enabled=False, enabled=False)",
    "torch.cpu.amp.autocast()",
    "torch.cpu.amp.autocast(True, torch.float16)",
    "torch.cuda.amp.GradScaler(2.0, enabled=False)",
    "torch.cuda.amp.GradScaler(2.0, 3.0, 0.25, 100, False)",
    "torch.cpu.amp.GradScaler(init_scale=2.0)",
]


@pytest.mark.parametrize("around", ["", "torch.autocast('cpu', dtype=torch.bfloat16, cache_enabled=True)"])
@pytest.mark.parametrize("old", OLD)
def test_the_same_object_is_made(old: str, around: str, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(f"import torch\n\nmade = {old}\n", encoding="utf-8")
    request = Request(
        (path,),
        isolated=True,
        root=tmp_path,
        override=lambda config: replace(config, select=("PTL507",), fix=True, torch_version=(2, 4)),
    )
    assert not run(request).report.findings
    new = path.read_text(encoding="utf-8")
    assert ".amp.autocast" not in new.replace("torch.amp.autocast", "")
    assert _made(new, around) == _made(f"import torch\nmade = {old}\n", around)


def _made(text: str, around: str) -> dict[str, object]:
    names: dict[str, object] = {"torch": torch}
    body = f"with {around}:\n" + "".join(f"    {row}\n" for row in text.splitlines()) if around else text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(body, names)
    made = names["made"]
    found = {key: value for key, value in vars(made).items() if key not in ("prev", "prev_cache_enabled")}
    found.pop("_per_optimizer_states", None)
    return found

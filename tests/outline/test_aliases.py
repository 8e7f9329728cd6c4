"""Statements know imported names in full, whatever the file calls them."""

from __future__ import annotations

import pytest

from ptlint.outline.statements import outline


@pytest.mark.parametrize(
    ("text", "dotted", "word"),
    [
        ("import torch as t\nt.cuda.is_available()", "torch.cuda.is_available", "torch"),
        ("import torch.backends.cudnn as c\nc.benchmark = True", "torch.backends.cudnn.benchmark", "backends"),
        ("from torch import cuda as c\nc.amp.autocast()", "torch.cuda.amp.autocast", "cuda"),
        ("from torch.utils.data import DataLoader as D\nD([])", "torch.utils.data.DataLoader", "DataLoader"),
        ("from torch.cuda.amp import autocast\nautocast()", "torch.cuda.amp.autocast", "amp"),
        ("def f():\n    import torch.nn as n\n    n.Linear(1, 2)", "torch.nn.Linear", "nn"),
        ("try:\n    import a as x\nexcept ImportError:\n    import torch as x\nx.compile", "torch.compile", "torch"),
    ],
)
def test_full_names(text: str, dotted: str, word: str) -> None:
    last = outline(text).statements[-1]
    assert dotted in last.dotted
    assert word in last.words


def test_what_stays_as_it_is() -> None:
    text = "import torch\nimport torch.nn\nfrom .net import Net as N\nfrom lib import *\nx = torch.nn.Linear(N())\n"
    assert outline(text).statements[-1].dotted == {"torch.nn.Linear"}
    imported = outline("from torch import cuda as c\n").statements[0]
    assert imported.words == {"torch", "cuda", "c"}
    assert imported.dotted == frozenset()

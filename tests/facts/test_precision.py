"""What programs do about precision: the loop that lacks it, what silences it, and which events share a pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.paths import as_often, exclusive, shared_loop
from ptlint.facts.scaling import AGAIN, NO_UPDATE, SKIPPED, UNSCALED

HEAD = """
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader
import probe

device = torch.device("cuda")
loader = DataLoader(probe.dataset())
"""
BODY = """
net = {net}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(net(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
WIDE = "nn.Linear(4096, 4096).to(device)"

NETS = {
    "wide": (WIDE, True),
    "narrow": ("nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)", True),
    "small": ("nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)", False),
    "of sizes that are the environment's": (
        "nn.Sequential(nn.Linear(probe.n, 64), nn.Linear(64, probe.m)).to(device)",
        False,
    ),
    "of words, with few classes": (
        "nn.Sequential(nn.EmbeddingBag(probe.words, 64), nn.Linear(64, probe.classes)).to(device)",
        False,
    ),
    "with a vocabulary": ("nn.Sequential(nn.Embedding(probe.n, 64), nn.Linear(64, probe.n)).to(device)", True),
    "a small LSTM": ("nn.LSTM(28, 128).to(device)", False),
    "a large LSTM": ("nn.LSTM(28, 512).to(device)", True),
    "two small convolutions": (
        "nn.Sequential(nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5), nn.Linear(400, 84)).to(device)",
        False,
    ),
    "convolutions alone": ("nn.Sequential(nn.Conv2d(1, 64, 5), nn.Conv2d(64, 64, 5)).to(device)", True),
}


@pytest.mark.parametrize("name", NETS)
def test_sizes(name: str, tmp_path: Path) -> None:
    net, fault = NETS[name]
    facts = facts_of(tmp_path, main=HEAD + BODY.format(net=net))
    assert (facts.precision.fault is not None) is fault


SILENT = {
    "autocast": "with torch.autocast('cuda'):\n    pass\n",
    "a cast of the model": "nn.Linear(2, 2).half()\n",
    "bfloat16": "x = torch.zeros(2, dtype=torch.bfloat16)\n",
    "an option": "p = argparse.ArgumentParser()\np.add_argument('--amp', action='store_true')\n",
    "an option's name in words": "p = argparse.ArgumentParser()\np.add_argument('--mixed-precision')\n",
    "apex": "import apex\n",
    "a scaler": "scaler = torch.amp.GradScaler('cuda')\n",
    "double precision": "torch.set_default_dtype(torch.float64)\n",
    "sparse products": "torch.sparse.mm(probe.a, probe.b)\n",
    "a graph library": "import torch_geometric\n",
    "DeepSpeed": "import deepspeed\n",
    "Fabric": "from lightning.fabric import Fabric\nfabric = Fabric()\n",
}


@pytest.mark.parametrize("name", SILENT)
def test_what_says_that_precision_was_chosen(name: str, tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=HEAD + SILENT[name] + BODY.format(net=WIDE))
    assert facts.precision.fault is None


LOUD = {
    "half of something": "half = 3 // 2\n",
    "precision and recall": "from sklearn.metrics import precision_score\nprecision = precision_score([1], [1])\n",
    "an escaped text": "text = 'a &amp; b'\n",
    "an example": "example = 'sample amplitude'\n",
    "a count in double precision": "total = torch.zeros(1, dtype=torch.float64, device='cuda')\n",
}


@pytest.mark.parametrize("name", LOUD)
def test_what_only_looks_like_it(name: str, tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=HEAD + LOUD[name] + BODY.format(net=WIDE))
    assert facts.precision.fault is not None


def test_the_first_loop_of_two_is_the_place(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=HEAD + BODY.format(net=WIDE) * 2)
    fault = facts.precision.fault
    assert fault is not None
    assert fault.loop.place is not None
    assert fault.loop.place.row == HEAD.count("\n") + 4


PASSES = {
    "in one row": ("a()\n    b()", False, True),
    "in two arms": ("if t:\n        a()\n    else:\n        b()", True, None),
    "in two arms of an elif": ("if t:\n        a()\n    elif u:\n        b()", True, None),
    "by the same test again": ("if t:\n        a()\n    if not t:\n        b()", True, None),
    "by another test": ("if t:\n        a()\n    if u:\n        b()", False, False),
    "by the same test twice": ("if t:\n        a()\n    if t:\n        b()", False, True),
    "behind a continue": ("if t:\n        a()\n        continue\n    b()", True, None),
    "b more seldom": ("a()\n    if t:\n        b()", False, True),
    "a more seldom": ("if t:\n        a()\n    b()", False, False),
}


@pytest.mark.parametrize("name", PASSES)
def test_what_shares_a_pass(name: str, tmp_path: Path) -> None:
    text, apart, often = PASSES[name]
    text = text.replace("a()", "probe.a()").replace("b()", "probe.b()")
    main = f"import probe\ndef f(t, u):\n  for x in probe.items():\n    {text}\nf(probe.t(), probe.u())\n"
    facts = facts_of(tmp_path, main=main)
    (a,), (b,) = facts.calls("probe.a"), facts.calls("probe.b")
    assert exclusive(a, b) is apart
    assert exclusive(b, a) is apart
    loop = shared_loop(a, b)
    assert loop is not None
    assert loop.kind == "loop"
    if often is not None:
        assert as_often(a, b, loop) is often


def test_two_functions_share_no_pass(tmp_path: Path) -> None:
    main = "import probe\ndef f():\n    probe.a()\ndef g():\n    probe.b()\nf()\ng()\n"
    facts = facts_of(tmp_path, main=main)
    assert shared_loop(facts.calls("probe.a")[0], facts.calls("probe.b")[0]) is None


STEPS = {
    "whole": ("scaler.scale(loss).backward()\n    scaler.step(o)\n    scaler.update()", []),
    "a plain step": ("scaler.scale(loss).backward()\n    o.step()\n    scaler.update()", [UNSCALED]),
    "no update": ("scaler.scale(loss).backward()\n    scaler.step(o)", [NO_UPDATE]),
    "an update now and then": (
        "scaler.scale(loss).backward()\n    scaler.step(o)\n    if probe.now():\n        scaler.update()",
        [SKIPPED],
    ),
    "unscaled too often": (
        (
            "scaler.scale(loss).backward()\n    scaler.unscale_(o)\n    if probe.now():\n        scaler.step(o)\n"
            "        scaler.update()"
        ),
        [AGAIN],
    ),
    "a step by the gradients": (
        (
            "scaler.scale(loss).backward()\n    scaler.unscale_(o)\n    if probe.fine():\n        scaler.step(o)\n"
            "    scaler.update()"
        ),
        [],
    ),
    "a loss that is not scaled": ("loss.backward()\n    o.step()", []),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_a_scaler(name: str, tmp_path: Path) -> None:
    text, kinds = STEPS[name]
    main = f"""{HEAD}
net = nn.Linear(9, 9).cuda()
o = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    loss = net(x.cuda()).sum()
    {text}
    o.zero_grad()
"""
    facts = facts_of(tmp_path, main=main)
    assert [fault.kind for fault in facts.scaling.incomplete] == kinds

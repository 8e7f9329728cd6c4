"""What models are made of, and which of them loops train."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.models import Makeup
from ptlint.facts.values import Module

HEAD = """
import torch
import torchvision
from torch import nn


class Plain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(20, width), nn.Linear(width, 1)
        self.drop = nn.Dropout()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.norm, self.out = nn.Embedding(9, 8), nn.LSTM(8, 8), nn.LayerNorm(8), nn.Linear(8, 1)
        for module in self.modules():
            pass


class Weights(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
        self.register_buffer("mean", torch.zeros(3))


class Given(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.config = body, body.config

    def forward(self, x):
        return self.body(x)


class Derived(nn.Linear):
    pass


class Blocks(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Conv2d(8, 8, 3) for _ in range(depth)])
        self.table = {"head": nn.Linear(8, 2)}
        self.act = nn.ReLU()
"""


def makeup_of(expression: str, folder: Path) -> Makeup:
    facts = facts_of(folder, main=f"{HEAD}\nmodel = {expression}\n")
    home = facts.run.home(facts.program.entry)
    model = home.globals["model"]
    assert isinstance(model, Module)
    return facts.makeup(model)


KINDS = {
    "nn.Linear(20, 1)": ({"linear"}, True),
    "nn.Sequential(nn.Flatten(), nn.Conv2d(3, 8, 3), nn.ReLU())": ({"conv"}, True),
    "nn.DataParallel(nn.Linear(20, 1))": ({"linear"}, True),
    "Plain(64)": ({"linear"}, True),
    "Recurrent()": ({"embedding", "recurrent", "linear"}, True),
    "Weights()": ({"parameter"}, True),
    "Given(open_model())": (set(), False),
    "Given(nn.Linear(20, 1))": ({"linear"}, True),
    "Derived(3, 4)": ({"linear"}, True),
    "Blocks(3)": ({"conv", "linear"}, True),
    "torchvision.models.resnet18()": ({"model"}, True),
    "nn.Sequential(torchvision.models.resnet18(), open_model())": ({"model"}, False),
    "nn.CrossEntropyLoss()": (set(), False),
}


@pytest.mark.parametrize("expression", KINDS)
def test_kinds_of_layers(expression: str, tmp_path: Path) -> None:
    found = makeup_of(expression, tmp_path)
    assert (set(found.kinds), found.complete) == KINDS[expression]


WIDTHS = {
    "Plain(64)": [64, 64],
    "Plain(width_of_the_user())": [None, None],
    "nn.Sequential(nn.Linear(20, 300), nn.Linear(300, 1))": [300, 300],
    "nn.Sequential()": [],
}


@pytest.mark.parametrize("expression", WIDTHS)
def test_widths(expression: str, tmp_path: Path) -> None:
    assert [layer.width for layer in makeup_of(expression, tmp_path).of("linear")] == WIDTHS[expression]


def test_what_is_small_recurrent_or_without_weights(tmp_path: Path) -> None:
    assert makeup_of("nn.Linear(20, 1)", tmp_path).one_small_layer
    assert not makeup_of("nn.Linear(20, 100_000)", tmp_path).one_small_layer
    assert not makeup_of("Plain(4)", tmp_path).one_small_layer
    assert makeup_of("Recurrent()", tmp_path).recurrent_body
    assert not makeup_of("nn.Sequential(nn.Conv2d(3, 8, 3), nn.LSTM(8, 8))", tmp_path).recurrent_body
    assert makeup_of("nn.CrossEntropyLoss()", tmp_path).weightless
    assert not makeup_of("Given(open_model())", tmp_path).weightless


TRAIN = """
loader = torch.utils.data.DataLoader([1])
for x in loader:
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
"""

TRAINED = {
    "held": ("net = Plain(4)\noptimizer = torch.optim.SGD(net.parameters(), 0.1)", "net(x).sum()", ["net = Plain(4)"]),
    "placed": (
        "net = Plain(4)\nnet.cuda()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\nnet.cpu()",
        "net(x).sum()",
        ["net.cuda()"],
    ),
    "a part is held": (
        "net = Plain(4)\noptimizer = torch.optim.SGD(net.second.parameters(), 0.1)",
        "net(x).sum()",
        ["net = Plain(4)"],
    ),
    "in the order of making": (
        "a, b = Plain(4), Recurrent()\noptimizer = torch.optim.SGD([*b.parameters(), *a.parameters()], 0.1)",
        "b(a(x)).sum()",
        ["a, b = Plain(4), Recurrent()"] * 2,
    ),
    "not the one that is only used": (
        "a, b = Plain(4), Plain(8)\noptimizer = torch.optim.SGD(b.parameters(), 0.1)",
        "b(a(x)).sum()",
        ["a, b = Plain(4), Plain(8)"],
    ),
    "through what cannot be read": (
        "net = Plain(4)\noptimizer = torch.optim.SGD(gathered(net), 0.1)",
        "net(x).sum()",
        ["net = Plain(4)"],
    ),
    "an input is what is held": (
        "net = Plain(4)\nimage = torch.rand(3, requires_grad=True)\noptimizer = torch.optim.SGD([image], 0.1)",
        "net(image).sum()",
        [],
    ),
}


@pytest.mark.parametrize("case", TRAINED)
def test_trained_models(case: str, tmp_path: Path) -> None:
    before, loss, expected = TRAINED[case]
    facts = facts_of(tmp_path, main=f"{HEAD}\n{before}\n{TRAIN.format(loss=loss)}")
    found = [used.place for used in facts.used_models.trained()]
    assert [place.tree.code(place.tree.statement(place.node) or place.node) for place in found] == expected

"""What loops are for, and what is hot in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.events import Ctx
from ptlint.facts.program import ProgramFacts

HEAD = """
import argparse
import itertools
import torch
from torch import nn
from torch.utils.data import DataLoader
import probe

net = nn.Linear(3, 3).cuda()
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(probe.dataset())


def step(x, y):
    optimizer.zero_grad()
    criterion(net(x.cuda()), y.cuda()).backward()
    optimizer.step()


"""


def roles_by_row(facts: ProgramFacts) -> dict[int, str]:
    """The role of each loop of the main file, by its row below the head."""
    first = HEAD.count("\n")
    return {loop.place.row - first: loop.role for loop in facts.roles.loops() if loop.place is not None}


LOOPS = {
    "epochs around batches": (
        "for epoch in range(9):\n    for x, y in loader:\n        step(x, y)\n",
        {1: "epoch", 2: "training"},
    ),
    "a sweep around epochs": (
        "for lr in (1, 2):\n    for epoch in range(9):\n        for x, y in loader:\n            step(x, y)\n",
        {1: "outer", 2: "epoch", 3: "training"},
    ),
    "enumerate and zip": (
        "for i, ((x, y), _) in enumerate(zip(loader, itertools.count())):\n    step(x, y)\n",
        {1: "training"},
    ),
    "an iterator that is asked for the next": (
        "it = iter(loader)\nwhile True:\n    x, y = next(it)\n    step(x, y)\n",
        {2: "training"},
    ),
    "a generator of the project": (
        "def batches():\n    while True:\n        yield from loader\nfor x, y in batches():\n    step(x, y)\n",
        {4: "training"},
    ),
    "an update in place": (
        (
            "for x, y in loader:\n    criterion(net(x), y).backward()\n    with torch.no_grad():\n"
            "        for p in net.parameters():\n            p.sub_(p.grad)\n"
        ),
        {1: "training"},
    ),
    "accumulation": (
        (
            "for i, (x, y) in enumerate(loader):\n    criterion(net(x.cuda()), y.cuda()).backward()\n"
            "    if (i + 1) % 16 == 0:\n        optimizer.step()\n"
        ),
        {1: "training"},
    ),
    "all of the step now and then": (
        "for i in range(100000):\n    if i % 10 == 0:\n        step(torch.rand(3), torch.rand(3))\n",
        {1: "training"},
    ),
    "evaluation": (
        "with torch.no_grad():\n    for x, y in loader:\n        net(x.cuda())\n",
        {2: "evaluation"},
    ),
    "layers are no batches": (
        "x = torch.rand(3).cuda()\nfor layer in [net, nn.ReLU()]:\n    x = layer(x)\n",
        {},
    ),
    "a body that ends in break": (
        "for x, y in loader:\n    net(x.cuda())\n    break\n",
        {},
    ),
    "a body that waits for a person": (
        "for x, y in loader:\n    net(x.cuda())\n    input()\n",
        {},
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_roles(name: str, tmp_path: Path) -> None:
    text, roles = LOOPS[name]
    assert roles_by_row(facts_of(tmp_path, main=HEAD + text)) == roles


def test_a_step_in_another_file(tmp_path: Path) -> None:
    main = "from other import train\nfrom torch import nn, optim\nnet = nn.Linear(3, 3).cuda()\n"
    main += "for epoch in range(9):\n    train(net, optim.SGD(net.parameters()))\n"
    other = "def train(net, optimizer):\n    for x in unknown():\n        net(x.cuda()).sum().backward()\n"
    other += "        optimizer.step()\n"
    facts = facts_of(tmp_path, main=main, other=other)
    assert {(_file(loop), loop.role) for loop in facts.roles.loops()} == {("main", "epoch"), ("other", "training")}


def _file(loop: Ctx) -> str:
    return loop.place.path.stem if loop.place is not None else ""


HOT = {
    "in the body": ("{probe}", True),
    "on a test of data": ("if (x > 0).any():\n    {probe}", True),
    "in one iteration of four": ("if i % 4 == 0:\n    {probe}", True),
    "in one of a hundred": ("if i % 100 == 0:\n    {probe}", False),
    "by a modulo in a name": ("log = i % 100 == 0\nif log:\n    {probe}", False),
    "by a modulo of an option": ("if i % options.every == 0:\n    {probe}", False),
    "after the first steps": ("if i > 10:\n    {probe}", True),
    "in the first steps": ("if i < 10:\n    {probe}", False),
    "in the other branch of a rare test": ("if i % 100 == 0:\n    pass\nelse:\n    {probe}", True),
    "behind a rare continue": ("if i % 100 == 0:\n    continue\n{probe}", True),
    "behind a frequent continue": ("if i % 100 != 0:\n    continue\n{probe}", False),
    "under a flag that is off": ("if options.debug:\n    {probe}", False),
    "under a flag that is on": ("if options.fast:\n    {probe}", True),
    "in except": ("try:\n    pass\nexcept RuntimeError:\n    {probe}", False),
    "in the last iteration": ("if i == len(loader) - 1:\n    {probe}", False),
    "in an inner loop": ("for part in x.chunk(2):\n    {probe}", True),
    "in a function that is called": ("def f():\n    {probe}\nf()", True),
    "in a lambda that is called": ("(lambda: {probe})()", True),
    "under a guard that holds a step": ("if i % 100 == 0:\n    {probe}\n    optimizer.step()", True),
}


@pytest.mark.parametrize("name", HOT)
def test_hot(name: str, tmp_path: Path) -> None:
    text, hot = HOT[name]
    body = text.format(probe="probe.see()").replace("\n", "\n    ")
    main = f"""{HEAD}
p = argparse.ArgumentParser()
p.add_argument("--every", type=int, default=50)
p.add_argument("--debug", action="store_true")
p.add_argument("--fast", action="store_false", default=True)
options = p.parse_args()
for i, (x, y) in enumerate(loader):
    step(x, y)
    {body}
"""
    facts = facts_of(tmp_path, main=main)
    (event,) = facts.calls("probe.see")
    assert (facts.hot(event) is not None) is hot


def test_what_runs_once_an_epoch_is_not_hot(tmp_path: Path) -> None:
    text = "for epoch in range(9):\n    probe.see()\n    for x, y in loader:\n        step(x, y)\n"
    facts = facts_of(tmp_path, main=HEAD + text)
    assert facts.hot(facts.calls("probe.see")[0]) is None


def test_a_forward_is_hot_where_its_module_is_called_in_a_loop(tmp_path: Path) -> None:
    text = """
class Net(nn.Module):
    def forward(self, x):
        probe.see()
        return x
own = Net()
own(torch.rand(3))
with torch.no_grad():
    for x, y in loader:
        own(x.cuda())
"""
    facts = facts_of(tmp_path, main=HEAD + text)
    assert [facts.hot(event) is not None for event in facts.calls("probe.see")] == [False, True]

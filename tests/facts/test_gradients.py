"""Which module calls and which stores a backward goes through."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.events import Forward, Store

HEAD = """
import torch
from torch import nn
from torch.distributions import Categorical

net, other = nn.Linear(3, 3).cuda(), nn.Linear(3, 3).cuda()
x = torch.rand(3, 3).cuda()
"""

USED = {
    "net(x).sum().backward()": True,
    "y = net(x)\ny.backward()": True,
    "net(x).detach().sum().backward()": False,
    "net(x).data.sum().backward()": False,
    "with torch.no_grad():\n    y = net(x)\n(y * other(x)).sum().backward()": False,
    "y = net(x)\nother(x).sum().backward()": False,
    "y, z = net(x), other(x)\n(y[0] + z.T).relu().view(-1).mean().backward()": True,
    "kept = []\nfor i in range(9):\n    kept.append(net(x))\ntorch.stack(kept).sum().backward()": True,
    "kept = {}\nkept['a'] = net(x)\nsum(kept.values()).backward()": True,
    "total = 0\nfor i in range(9):\n    total += net(x).sum()\ntotal.backward()": True,
    "nn.functional.mse_loss(net(x), x).backward()": True,
    "unknown_loss(net(x)).backward()": True,
    "Categorical(logits=net(x)).log_prob(x).sum().backward()": True,
    "net(x).argmax(1).sum().backward()": False,
    "net(x).max(1).indices.sum().backward()": False,
    "net(x).max(1)[0].sum().backward()": True,
    "torch.autograd.grad(net(x).sum(), x)": True,
    "torch.autograd.backward([net(x).sum()])": True,
    "scaler = torch.amp.GradScaler('cuda')\nscaler.scale(net(x).sum()).backward()": True,
    "def f(a):\n    return net(a)\nf(x).sum().backward()": True,
    "class A:\n    def go(self):\n        self.y = net(x)\n        self.y.sum().backward()\nA().go()": True,
    "print(net(x).sum().item())": False,
}


@pytest.mark.parametrize("text", USED)
def test_module_calls_that_a_backward_goes_through(text: str, tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=f"{HEAD}\n{text}\n")
    (call,) = [event for event in facts.events(Forward) if "net(" in event.place.code]
    assert facts.gradients.reach(call) is USED[text]


KEPT = {
    "total = 0\nfor i in range(9):\n    loss = net(x).sum()\n    loss.backward()\n    total += loss": False,
    "total = 0\nfor i in range(9):\n    total += net(x).sum()\ntotal.backward()": True,
    "kept = []\nfor i in range(9):\n    kept.append(net(x).sum())\nsum(kept).backward()": True,
    "kept = []\nfor i in range(9):\n    kept.append(net(x).sum())\nprint(len(kept))": False,
}


@pytest.mark.parametrize("text", KEPT)
def test_stores_that_a_backward_goes_through(text: str, tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=f"{HEAD}\n{text}\n")
    (store,) = facts.events(Store)
    assert facts.gradients.reach(store) is KEPT[text]

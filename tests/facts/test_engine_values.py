"""What abstract execution knows of values: `probe.see(...)` shows one."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.values import (
    ATTACHED,
    DETACHED,
    DEVICE,
    HOST,
    UNSURE,
    Const,
    Device,
    Loader,
    Module,
    Num,
    Optimizer,
    Scaler,
    Tensor,
    Unknown,
    Value,
    options,
)

HEAD = """
import argparse
import functools
import torch
from torch import nn
from torch.utils.data import DataLoader
import probe
"""


def seen(folder: Path, text: str, **files: str) -> list[Value]:
    """What each `probe.see(value)` of a program was given, in the order of the program."""
    facts = facts_of(folder, main=HEAD + text, **files)
    return [event.args.extra[0] for event in facts.calls("probe.see")]


CONSTANTS = {
    "a literal": ("x = 3\nprobe.see(x)", 3, False),
    "arithmetic": ("probe.see(2 ** 3 + 1)", 9, False),
    "a file's switch may be changed": ("FLAG = True\nprobe.see(FLAG)", True, True),
    "the default of an option": (
        "p = argparse.ArgumentParser()\np.add_argument('--n', type=int, default='4')\nprobe.see(p.parse_args().n)",
        4,
        True,
    ),
    "a flag that is off": (
        "p = argparse.ArgumentParser()\np.add_argument('--amp', action='store_true')\nprobe.see(p.parse_args().amp)",
        False,
        True,
    ),
    "what a call site passes": ("def f(n=1):\n    probe.see(n)\nf(7)", 7, False),
    "what a call site leaves": ("def f(n=1):\n    probe.see(n)\nf()", 1, False),
    "a dict's item by **": ("k = dict(n=5)\ndef f(n=1):\n    probe.see(n)\nf(**k)", 5, False),
    "a partial's argument": ("def f(a, n):\n    probe.see(n)\nfunctools.partial(f, n=6)(1)", 6, False),
    "an attribute set in __init__": (
        "class A:\n    def __init__(self):\n        self.n = 2\n    def go(self):\n        probe.see(self.n)\nA().go()",
        2,
        False,
    ),
    "an f-string": ("n = 1\nprobe.see(f'cuda:{n}')", "cuda:1", False),
    "a tuple taken apart": ("a, (b, c) = 1, (2, 3)\nprobe.see(c)", 3, False),
    "a closure's name": (
        "def f():\n    n = 8\n    def g():\n        return n\n    return g\nprobe.see(f()())",
        8,
        False,
    ),
    "a name of another file": ("from other import N\nprobe.see(N)", 11, False),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str, tmp_path: Path) -> None:
    text, value, soft = CONSTANTS[name]
    (found,) = seen(tmp_path, text, other="N = 11\n")
    assert isinstance(found, Const)
    assert (found.value, found.soft) == (value, soft)


def test_branches_join(tmp_path: Path) -> None:
    (found,) = seen(tmp_path, "import random\nif random.random() < 0.5:\n    x = 1\nelse:\n    x = 'a'\nprobe.see(x)")
    assert {option.value for option in options(found) if isinstance(option, Const)} == {1, "a"}


def test_a_branch_that_no_call_takes_is_not_run(tmp_path: Path) -> None:
    assert seen(tmp_path, "def f(x=None):\n    if x is None:\n        probe.see(1)\nf(2)") == []


def test_a_loop_makes_numbers_of_its_counters(tmp_path: Path) -> None:
    (found,) = seen(tmp_path, "n = 0\nwhile unknown():\n    n += 1\nprobe.see(n)")
    assert all(isinstance(option, (Num, Const)) for option in options(found))
    assert any(isinstance(option, Num) for option in options(found))


def test_isinstance_tells_alternatives_apart(tmp_path: Path) -> None:
    text = (
        "def f(x):\n    if isinstance(x, str):\n        probe.see(x)\nimport random\nf(random.choice([1, 'a']))\nf('b')"
    )
    assert [option.value for value in seen(tmp_path, text) for option in options(value) if isinstance(option, Const)][
        -1:
    ] == ["b"]


DEVICES = {
    "torch.device('cuda')": ("cuda", False),
    "torch.device('cuda:1')": ("cuda", False),
    "torch.device('cpu')": ("cpu", False),
    "torch.device('cuda' if torch.cuda.is_available() else 'cpu')": ("cuda", True),
    "torch.device('mps')": ("mps", False),
}


@pytest.mark.parametrize("text", DEVICES)
def test_devices(text: str, tmp_path: Path) -> None:
    (found,) = seen(tmp_path, f"probe.see({text})")
    assert isinstance(found, Device)
    assert (found.type, found.soft) == DEVICES[text]


TENSORS = {
    "torch.zeros(3)": (HOST, DETACHED),
    "torch.zeros(3).cuda()": (DEVICE, DETACHED),
    "torch.zeros(3, device='cuda')": (DEVICE, DETACHED),
    "torch.zeros(3, requires_grad=True)": (HOST, ATTACHED),
    "net(torch.zeros(3).cuda())": (DEVICE, ATTACHED),
    "net(torch.zeros(3).cuda()).detach()": (DEVICE, DETACHED),
    "net(torch.zeros(3).cuda()).cpu()": (HOST, ATTACHED),
    "net(torch.zeros(3).cuda()) * 2 + 1": (DEVICE, ATTACHED),
    "torch.cat([net(torch.zeros(3).cuda()), torch.zeros(3).cuda()])": (DEVICE, ATTACHED),
}


@pytest.mark.parametrize("text", TENSORS)
def test_where_tensors_are_and_whether_they_carry_a_graph(text: str, tmp_path: Path) -> None:
    (found,) = seen(tmp_path, f"net = nn.Linear(3, 3).cuda()\nprobe.see({text})")
    assert isinstance(found, Tensor)
    assert (found.where, found.graph) == TENSORS[text]


def test_the_device_of_a_parameter_is_not_known(tmp_path: Path) -> None:
    (found,) = seen(tmp_path, "def f(x, d):\n    probe.see(x.to(d))\nf(unknown(), unknown())")
    assert getattr(found, "where", None) == UNSURE


def test_objects_keep_their_identity(tmp_path: Path) -> None:
    text = """
def make():
    return DataLoader([1, 2])
a = make()
b = a
c = make()
probe.see(a); probe.see(b); probe.see(c)
"""
    a, b, c = seen(tmp_path, text)
    assert isinstance(a, Loader)
    assert a is b
    assert a is not c


def test_wrappers_are_looked_through(tmp_path: Path) -> None:
    (found,) = seen(tmp_path, "net = nn.Linear(3, 3)\nprobe.see(torch.compile(nn.DataParallel(net)))")
    assert isinstance(found, Module)
    assert found.wrapper == "compile"
    assert found.core.cls is not None
    assert found.core.cls.name == "torch.nn.Linear"


def test_an_optimizer_knows_its_modules(tmp_path: Path) -> None:
    text = "net = nn.Linear(3, 3)\nprobe.see(torch.optim.SGD([{'params': net.parameters()}]))\nprobe.see(net)"
    optimizer, module = seen(tmp_path, text)
    assert isinstance(optimizer, Optimizer)
    assert optimizer.modules == (module,)


USES = {
    "x.zero_grad(); x.step()": Optimizer,
    "x.train(); x.eval()": Module,
    "x.scale(1); x.step(2); x.update()": Scaler,
    "x.append(1)": Unknown,
}


@pytest.mark.parametrize("text", USES)
def test_use_says_what_a_parameter_is(text: str, tmp_path: Path) -> None:
    (found,) = seen(tmp_path, f"def f(x):\n    {text}\n    probe.see(x)\nf(unknown())")
    assert isinstance(found, USES[text])


def test_use_says_what_an_attribute_scales(tmp_path: Path) -> None:
    text = """
class Trainer:
    def __init__(self, scaler):
        self.scaler = scaler
    def step(self, loss, optimizer):
        probe.see(self.scaler.scale(loss))
        self.scaler.step(optimizer)
Trainer(unknown()).step(torch.zeros(1), unknown())
"""
    (found,) = seen(tmp_path, text)
    assert isinstance(found, Tensor)
    assert found.dtype == "scaled"


def test_a_generator_yields_what_its_body_does(tmp_path: Path) -> None:
    text = """
def batches(loader):
    for x, y in loader:
        yield x.cuda(), y
for x, y in batches(DataLoader(unknown())):
    probe.see(x)
"""
    found = seen(tmp_path, text)[-1]
    assert getattr(found, "where", None) == DEVICE
    assert isinstance(getattr(found, "batch", None), Loader)


def test_an_iterator_that_makes_another_of_its_kind_ends(tmp_path: Path) -> None:
    text = """
class Samples:
    def __init__(self, data):
        self.data = data
    def __iter__(self):
        return Samples(self.data)
    def __next__(self):
        return self.data
for x in Samples(3):
    probe.see(x)
"""
    found = seen(tmp_path, text)
    assert [option.value for option in options(found[-1]) if isinstance(option, Const)] == [3]


def test_files_that_import_from_one_another(tmp_path: Path) -> None:
    found = seen(tmp_path, "from a import f\nprobe.see(f)", a="from b import f\n", b="from a import f\n")
    assert isinstance(found[0], Unknown)


def test_an_embedding_of_given_weights_is_frozen_unless_told_otherwise(tmp_path: Path) -> None:
    text = """
weights = torch.zeros(4, 2)
probe.see(torch.nn.Embedding.from_pretrained(weights))
probe.see(torch.nn.Embedding.from_pretrained(weights, freeze=False))
"""
    found = seen(tmp_path, text)
    assert [value.frozen for value in found if isinstance(value, Module)] == [True, False]


def test_packed_tensors_stay_where_they_are(tmp_path: Path) -> None:
    text = """
import einops
packed, shapes = einops.pack([torch.zeros(2).cuda()], "* c")
probe.see(packed)
(back,) = einops.unpack(packed, shapes, "* c")
probe.see(back)
"""
    assert [getattr(value, "where", None) for value in seen(tmp_path, text)] == [DEVICE, DEVICE]

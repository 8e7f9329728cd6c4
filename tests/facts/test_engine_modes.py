"""Which modes are in force: by `with`, decorators, helpers of the project, and callers."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.events import Call

HEAD = """
import contextlib
import functools
import torch
from torch import nn
import probe
"""

GRAD = {
    "nothing": ("probe.see()", True),
    "with no_grad": ("with torch.no_grad():\n    probe.see()", False),
    "with inference_mode": ("with torch.inference_mode():\n    probe.see()", False),
    "inference_mode that is off": ("with torch.inference_mode(False):\n    probe.see()", True),
    "enable_grad inside": ("with torch.no_grad(), torch.enable_grad():\n    probe.see()", True),
    "set_grad_enabled as a context": ("with torch.set_grad_enabled(False):\n    probe.see()", False),
    "set_grad_enabled for good": ("torch.set_grad_enabled(False)\nprobe.see()", False),
    "a decorator": ("@torch.no_grad()\ndef f():\n    probe.see()\nf()", False),
    "a decorator without parentheses": ("@torch.no_grad\ndef f():\n    probe.see()\nf()", False),
    "a function wrapped by hand": ("def f():\n    probe.see()\ntorch.no_grad()(f)()", False),
    "the caller's": ("def f():\n    probe.see()\nwith torch.no_grad():\n    f()", False),
    "a caller's caller": ("def f():\n    probe.see()\ndef g():\n    f()\nwith torch.no_grad():\n    g()", False),
    "behind the block": ("with torch.no_grad():\n    pass\nprobe.see()", True),
    "a context manager of the project": (
        (
            "@contextlib.contextmanager\ndef quiet():\n    with torch.no_grad():\n        yield\n"
            "with quiet():\n    probe.see()"
        ),
        False,
    ),
    "a decorator of the project that chooses one": (
        (
            "def smart(new=True):\n    def decorate(fn):\n"
            "        return (torch.inference_mode if new else torch.no_grad)()(fn)\n    return decorate\n"
            "@smart()\ndef f():\n    probe.see()\nf()"
        ),
        False,
    ),
    "a decorator of the project that wraps": (
        (
            "def quiet(fn):\n    @functools.wraps(fn)\n    def inner(*args, **kwargs):\n        with torch.no_grad():\n"
            "            return fn(*args, **kwargs)\n    return inner\n@quiet\ndef f():\n    probe.see()\nf()"
        ),
        False,
    ),
    "a context kept in a name": ("quiet = torch.no_grad()\nwith quiet:\n    probe.see()", False),
    "a context kept in an attribute": (
        (
            "class A:\n    def __init__(self):\n        self.quiet = torch.no_grad()\n    def go(self):\n"
            "        with self.quiet:\n            probe.see()\nA().go()"
        ),
        False,
    ),
    "a decorated forward": (
        "class Net(nn.Module):\n    @torch.no_grad()\n    def forward(self):\n        probe.see()\nNet()()",
        False,
    ),
}


@pytest.mark.parametrize("name", GRAD)
def test_whether_gradients_are_tracked(name: str, tmp_path: Path) -> None:
    text, grad = GRAD[name]
    facts = facts_of(tmp_path, main=HEAD + text)
    assert [event.grad for event in facts.calls("probe.see")] == [grad]


def test_each_path_has_its_own_modes(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=f"{HEAD}def f():\n    probe.see()\nf()\nwith torch.no_grad():\n    f()\n")
    assert [event.grad for event in facts.calls("probe.see")] == [True, False]


def test_modes_reach_into_other_files(tmp_path: Path) -> None:
    modes = "import contextlib\nimport torch\n@contextlib.contextmanager\ndef quiet():\n    with torch.no_grad():\n"
    modes += "        yield\n"
    work = "import probe\ndef work():\n    probe.see()\n"
    main = "from modes import quiet\nfrom work import work\nwith quiet():\n    work()\n"
    facts = facts_of(tmp_path, main=main, modes=modes, work=work)
    assert [event.grad for event in facts.calls("probe.see")] == [False]


def test_a_function_that_nothing_calls_runs_in_no_mode(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=f"{HEAD}def f(loss):\n    loss.backward()\n    probe.see()\n")
    assert [event.grad for event in facts.calls("probe.see")] == [True]


AUTOCAST = {
    "torch.autocast('cuda')": ("cuda", "float16", True),
    "torch.autocast('cuda', torch.bfloat16)": ("cuda", "bfloat16", True),
    "torch.autocast(device_type='cpu')": ("cpu", "bfloat16", True),
    "torch.amp.autocast('cuda', dtype=torch.half)": ("cuda", "float16", True),
    "torch.cuda.amp.autocast()": ("cuda", "float16", True),
    "torch.cuda.amp.autocast(False)": ("cuda", "float16", False),
    "torch.autocast('cuda', enabled=False)": ("cuda", "float16", False),
    "torch.autocast('cuda', dtype=getattr(torch, 'bfloat16'))": ("cuda", "bfloat16", True),
    "torch.autocast('cuda', dtype=probe.dtype())": ("cuda", None, True),
}


@pytest.mark.parametrize("text", AUTOCAST)
def test_autocast(text: str, tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main=f"{HEAD}with {text}:\n    probe.see()\n")
    (event,) = facts.calls("probe.see")
    (mode,) = _modes(event)
    assert (mode.device, mode.dtype, getattr(mode.enabled, "value", None)) == AUTOCAST[text]


def test_the_innermost_autocast_comes_first(tmp_path: Path) -> None:
    text = "with torch.autocast('cuda'):\n    with torch.autocast('cuda', enabled=False):\n        probe.see()\n"
    facts = facts_of(tmp_path, main=HEAD + text)
    assert [getattr(mode.enabled, "value", None) for mode in _modes(facts.calls("probe.see")[0])] == [False, True]


def _modes(event: Call) -> list:  # type: ignore[type-arg]
    return [mode for mode in event.ctx.modes() if mode.kind == "autocast"]

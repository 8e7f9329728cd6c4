"""The chain of facts behind a finding: true, short, in plain sentences."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from programs import facts_of

from ptlint.facts.reasons import Reasons

TRAIN = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader([], batch_size=4)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item())
    """

TRAINS = "the loop in line 11 trains: `loss.backward()` in line 14, `optimizer.step()` in line 15"
GPU = 'the program may run on a GPU: `"cuda"` in line 6'


def chain(folder: Path, code: str, text: str = TRAIN, /, **others: str) -> list[str]:
    """The chain for the first place of `code` in the main file."""
    reasons = Reasons(facts_of(folder, main=text, **others))
    start = textwrap.dedent(text).index(code)
    return reasons.chain(folder / "main.py", start, start + len(code))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(
            "loss.item()",
            [
                TRAINS,
                (
                    "`loss` is on the device: `model(x.to(device))` in line 12 computes it there, "
                    "and `nn.Linear(8, 2).to(device)` in line 7 puts the model there"
                ),
                GPU,
            ],
            id="a read",
        ),
        pytest.param("for x, y in loader:", [TRAINS, GPU], id="a training loop"),
        pytest.param(
            "for epoch in range(3):",
            ["the loop in line 10 counts epochs: the training loop in line 11 runs inside it", GPU],
            id="an epoch loop",
        ),
        pytest.param("DataLoader([], batch_size=4)", [TRAINS, GPU], id="a loader"),
        pytest.param("x.to(device)", [TRAINS, GPU], id="a move"),
        pytest.param(
            "torch.optim.SGD(model.parameters(), lr=0.1)",
            [TRAINS, "it steps the parameters of the model made in line 7", GPU],
            id="an optimizer",
        ),
        pytest.param("nn.Linear(8, 2)", [TRAINS, "`nn.Linear(8, 2).to(device)` in line 7 puts the model there", GPU]),
        pytest.param("import torch", [], id="nothing happens there"),
    ],
)
def test_chains(tmp_path: Path, code: str, expected: list[str]) -> None:
    assert chain(tmp_path, code) == expected


def test_a_call_from_the_loop_is_named_and_other_files_too(tmp_path: Path) -> None:
    text = TRAIN.replace("print(loss.item())", "report(loss)").replace(
        "import torch\n", "import torch\n    import shown\n", 1
    )
    text = text.replace("report(", "shown.report(")
    facts = facts_of(tmp_path, main=text, shown="def report(value):\n    print(value.item())\n")
    start = len("def report(value):\n    print(")
    assert Reasons(facts).chain(tmp_path / "shown.py", start, start + len("value.item()")) == [
        "`shown.report(loss)` in line 17 of main.py leads here",
        "the loop in line 12 of main.py trains: `loss.backward()` in line 15, `optimizer.step()` in line 16",
        (
            "`value` is on the device: `model(x.to(device))` in line 13 of main.py computes it there, "
            "and `nn.Linear(8, 2).to(device)` in line 8 of main.py puts the model there"
        ),
        'the program may run on a GPU: `"cuda"` in line 7 of main.py',
    ]


def test_an_evaluation_loop_says_what_it_calls(tmp_path: Path) -> None:
    text = """
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(8, 2).cuda()
        for x, y in DataLoader([]):
            x = x.cuda()
            print(model(x).argmax(1).tolist(), x.sum().item())
        """
    assert chain(tmp_path, "x.sum().item()", text) == [
        "the loop in line 5 evaluates: `model(x)` in line 7, and no `backward` in it",
        "`x.sum()` is on the device: `x.cuda()` in line 6 moves it there",
        "the program may run on a GPU: `cuda` in line 4",
    ]


def test_a_loss_has_no_place_of_its_own(tmp_path: Path) -> None:
    text = TRAIN.replace("nn.functional.mse_loss(", "nn.MSELoss().to(device)(")
    assert chain(tmp_path, "loss.item()", text)[1].endswith(
        "and `nn.Linear(8, 2).to(device)` in line 7 puts the model there"
    )


def test_a_tensor_that_is_made_on_the_device(tmp_path: Path) -> None:
    text = TRAIN.replace("print(loss.item())", "noise = torch.rand(3, device='cuda')\n            print(noise.item())")
    assert "`noise` is on the device: `torch.rand(3, device='cuda')` in line 16 makes it there" in chain(
        tmp_path, "noise.item()", text
    )


def test_what_makes_a_program_one_for_a_gpu(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, main="import torch\nx = torch.ones(3)\n")
    assert Reasons(facts).accelerated(tmp_path / "main.py") == "nothing in the program asks for a GPU"
    facts.config = replace(facts.config, device="cpu")
    assert Reasons(facts).accelerated(tmp_path / "main.py") == "the option `device` says that it runs on `cpu`"
    facts = facts_of(tmp_path, main="from accelerate import Accelerator\n")
    assert Reasons(facts).accelerated(tmp_path / "main.py").endswith("it imports `accelerate`")

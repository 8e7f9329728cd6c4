"""Which reads of device tensors hold up a loop, and which of them are one wait."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from programs import facts_of

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x, y) in enumerate(DataLoader([], batch_size=4)):
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BODIES: dict[str, tuple[str, list[list[str]]]] = {
    "in one list": ("a = loss.item()\nb = y.sum()\nc = float(loss)", [["item", "float"]]),
    "with a forward between": ("a = loss.item()\nb = model(x.cuda()).sum().item()", [["item"], ["item"]]),
    "with a loss module between": ("a = loss.item()\nb = nn.MSELoss()(loss, loss).item()", [["item", "item"]]),
    "by loggers": (
        (
            "import logging\nfrom loguru import logger\nlogging.getLogger('x').info('%s', loss)\nlogger.info(loss)\n"
            "logging.getLogger('x').debug('%s', loss)"
        ),
        [["print", "print"]],
    ),
    "in a nested block": ("a = loss.item()\nwith torch.no_grad():\n    b = loss.sqrt().item()", [["item"], ["item"]]),
    "in the arms of a test": (
        "if step.bit_length() == x.ndim:\n    loss.item()\nelse:\n    loss.tolist()",
        [["item"], ["tolist"]],
    ),
    "behind a test of the tensor": ("if loss > 3:\n    print(loss)", []),
    "behind a test of what was read": ("if loss.item() > 3:\n    print(loss)", [["item"]]),
    "that decide": ("a = loss.item()\nif a != a:\n    break\nprint(loss)", []),
    "under a modulo": ("if step % 100 == 0:\n    print(loss)", []),
    "under a modulo that is often true": ("if step % 4 == 0:\n    print(loss)", [["print"]]),
    "done, or every so often": ("if step.bit_length() == 99 or step % 100 == 0:\n    print(loss)", []),
    "behind a continue": ("if step % 100:\n    continue\nprint(loss)", []),
    "before a break": ("if step > 100:\n    break\nprint(loss)", [["print"]]),
    "by a text": ("print('%.3f' % loss, f'{loss:.3f}', '{}'.format(loss))", [["format", "format", "format"]]),
    "by unpacking": ("print('%s %s' % (step, *torch.stack([loss, loss])))", [["format"]]),
    "as a number that is asked for": ("loss.add_(loss, alpha=loss)", [["argument"]]),
    "of a host tensor": ("print(y.sum().item(), torch.zeros(3).tolist())", []),
    "by a library": ("import torchvision.utils as u\nu.save_image(loss.detach(), 'a.png')", [["sink"]]),
}


@pytest.mark.parametrize("name", BODIES)
def test_reads(name: str, tmp_path: Path) -> None:
    body, wanted = BODIES[name]
    facts = facts_of(tmp_path, main=HEAD + textwrap.indent(body, "    "))
    assert [[read.how for read in group.reads] for group in facts.reads.groups] == wanted


def test_results_of_an_evaluation_are_one_group_beside_its_sums(tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path,
        main="""
        import torch
        from torch import nn
        from torch.utils.data import DataLoader

        model = nn.Linear(8, 2).cuda().eval()
        found, total = [], 0.0
        with torch.no_grad():
            for x in DataLoader([], batch_size=4):
                output = model(x.cuda())
                total += output.mean().item()
                for row in output:
                    found.append(row.tolist())
                if len(found) > x.ndim:
                    print(output.cpu())
        """,
    )
    assert [([read.how for read in g.reads], g.results) for g in facts.reads.groups] == [
        (["item"], False),
        (["tolist", "cpu"], True),
    ]


def test_a_callees_reads_are_the_callees(tmp_path: Path) -> None:
    text = HEAD.replace("model =", "def report(t):\n    return t.item(), t.tolist()\n\n\nmodel =", 1)
    facts = facts_of(tmp_path, main=text + "    report(loss)\n    print(loss)\n")
    assert [len(group.reads) for group in facts.reads.groups] == [2, 1]

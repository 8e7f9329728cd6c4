"""Small training projects of several files, made up from a seed: entries share modules and differ in their use."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

LOADERS = (
    """
def make_loader(root, train=True, **options):
    return DataLoader(ImageFolder(root, ToTensor()), shuffle=train, **options)
""",
    """
def make_loader(root, train=True, batch_size=32, num_workers=0):
    dataset = ImageFolder(root, ToTensor())
    return DataLoader(dataset, batch_size=batch_size, shuffle=train, num_workers=num_workers)
""",
    """
class Folders:
    def __init__(self, root, batch_size=32):
        self.dataset = ImageFolder(root, ToTensor())
        self.options = dict(batch_size=batch_size, num_workers=2)

    def loader(self, train):
        return DataLoader(self.dataset, shuffle=train, **self.options)


def make_loader(root, train=True, batch_size=32):
    return Folders(root, batch_size).loader(train)
""",
)

TRAIN_STEPS = (
    """
def train_epoch(model, loader, optimizer, device):
    total = 0.0
    for images, targets in loader:
        images, targets = images.to(device), targets.to(device)
        loss = F.cross_entropy(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)
""",
    """
def step(model, batch, optimizer, device):
    images, targets = (part.to(device, non_blocking=True) for part in batch)
    loss = F.cross_entropy(model(images), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def train_epoch(model, loader, optimizer, device):
    losses = []
    for index, batch in enumerate(loader):
        losses.append(step(model, batch, optimizer, device))
        if index % 50 == 0:
            print(losses[-1].item())
    return sum(losses)
""",
)

EVALUATIONS = (
    """
def evaluate(model, loader, device):
    model.eval()
    correct = 0
    for images, targets in loader:
        output = model(images.to(device))
        correct += (output.argmax(1).cpu() == targets).sum().item()
    return correct
""",
    """
@without_gradients()
def evaluate(model, loader, device):
    model.eval()
    results = [model(images.to(device)).cpu() for images, _ in loader]
    return torch.cat(results)
""",
)

HELPERS = """
import torch


def without_gradients():
    def decorate(function):
        return torch.no_grad()(function)

    return decorate


def pick_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Meter:
    def __init__(self):
        self.total = 0.0

    def add(self, value):
        self.total += value.item()
"""

MODEL = """
import torch.nn as nn

{use}

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, classes, 3))

    def forward(self, images):
        return self.body(images).mean((2, 3))


def build():
    return Net().to({device})
"""

TRAIN = """
def main():
    device = pick_device()
    model = build()
    loader = make_loader("train"{options})
    held_out = make_loader("test", train=False)
    optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.1)
    for epoch in range(10):
        train_epoch(model, loader, optimizer, device)
        {evaluation}
    torch.save(model.state_dict(), "model.pt")
"""

TEST = """
def main():
    device = pick_device()
    model = build()
    model.load_state_dict(torch.load("model.pt"))
    {evaluation}
"""

OLD = """
from torch.cuda.amp import GradScaler, autocast


def scaled(model, optimizer, batches):
    scaler = GradScaler()
    for images, targets in batches:
        with autocast():
            loss = ((model(images) - targets) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def generated(seed: int) -> Mapping[str, str]:
    """The files of a project; the same for the same seed."""
    draw = random.Random(seed)
    package, entries = draw.choice(
        (("", ""), ("lib/", ""), ("src/lib/", "scripts/"), ("lib/", "lib/"), ("lib/", "scripts/"))
    )
    inside = package and not entries.startswith("lib")

    def module(name: str) -> str:
        return f"lib.{name}" if inside else name

    def sibling(name: str) -> str:
        if not inside:
            return name
        return draw.choice((f".{name}", f"lib.{name}"))

    files = {
        f"{package}helpers.py": HELPERS,
        f"{package}data.py": (
            "from torch.utils.data import DataLoader\nfrom torchvision.datasets import ImageFolder\n"
            f"from torchvision.transforms import ToTensor\n{draw.choice(LOADERS)}"
        ),
        f"{package}loops.py": (
            f"import torch\nimport torch.nn.functional as F\nfrom {sibling('helpers')} import without_gradients\n"
            f"{draw.choice(TRAIN_STEPS)}\n{draw.choice(EVALUATIONS)}"
        ),
        f"{package}model.py": MODEL.format(**_device(draw, sibling)),
        f"{package}old.py": OLD,
    }
    if inside:
        files[f"{package}__init__.py"] = draw.choice(("", "from .model import Net, build\n", "from .loops import *\n"))
    uses = [f"from {module('data')} import make_loader", f"from {module('helpers')} import pick_device"]
    uses.append(f"from {module('model')} import build")
    for name in draw.sample(("train.py", "finetune.py", "evaluate.py", "sweep.py"), draw.randint(1, 3)):
        files[f"{entries}{name}"] = _entry(draw, name, uses, module("loops"))
    if draw.random() < 0.5:
        # A module of the same name in the entries' folder comes first there.
        files.setdefault(f"{entries}helpers.py", HELPERS.replace("torch.no_grad()", "torch.enable_grad()"))
    if draw.random() < 0.5:
        files["tests/test_loops.py"] = f"import torch\n{TRAIN_STEPS[0]}"
    return files


def _device(draw: random.Random, sibling: Callable[[str], str]) -> dict[str, str]:
    if draw.random() < 0.5:
        return {"use": "", "device": '"cuda"'}
    return {"use": f"from {sibling('helpers')} import pick_device\n", "device": "pick_device()"}


def _entry(draw: random.Random, name: str, uses: list[str], loops: str) -> str:
    called = draw.choice(("loops.evaluate", "evaluate"))
    imported = f"from {loops} import evaluate, train_epoch"
    if called == "loops.evaluate":
        imported += f"\nimport {loops} as loops"
    evaluation = f'{called}(model, make_loader("test", train=False), device)'
    if draw.random() < 0.4:
        evaluation = f"with torch.no_grad():\n            {evaluation}"
    options = draw.choice(("", ", batch_size=64", ", batch_size=draw_size()"))
    helper = "\n\ndef draw_size():\n    return 16 * 4\n" if "draw_size" in options else ""
    body = TRAIN.format(options=options, optimizer=draw.choice(("SGD", "Adam")), evaluation=evaluation)
    if name == "evaluate.py":
        body = TEST.format(evaluation=evaluation.replace("\n    ", "\n"))
    call = "main()\n" if draw.random() < 0.3 else 'if __name__ == "__main__":\n    main()\n'
    return "\n".join(["import torch", *uses, imported, helper, body, "", call])

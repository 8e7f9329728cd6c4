"""A training script that works, and does almost everything the slow way.

A small convolutional network learns the direction of stripes. The images are drawn once and kept compressed, so that
every item costs real work: it is unpacked, cropped, shrunk and coloured. What an item becomes depends on its index
alone, so the results do not depend on who loads it. On two CPU cores it takes well under a minute; with a GPU it
uses the GPU. Results go to stdout, times to stderr.

    python examples/slow_train.py [--images 480] [--epochs 3] [--batch-size 32]

What `ptlint examples/slow_train.py` finds, each once:

    line  code    what
    ----  ------  ----
     109  PTL101  items are prepared in the training process, while the device waits
     109  PTL102  batches lie in pageable memory, which the driver copies once more
     113  PTL202  the copy to the device holds up the host
     126  PTL501  everything is computed in float32
     132  PTL201  every step waits for the device to report its loss
     141  PTL301  validation records a graph for a backward that never comes
     144  PTL601  the hits are counted one by one, with a wait for each
     158  PTL901  the clock is read before the device is done: it shows the launches
     172  PTL401  the model runs operator by operator, never compiled
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import zlib

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

CLASSES = 8
STORED = 192
SHOWN = 64


class Stripes(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Noisy stripes in one of eight directions, kept as compressed bytes."""

    def __init__(self, images: int, seed: int) -> None:
        self.seed = seed
        self.labels = [index % CLASSES for index in range(images)]
        self.packed = [self.draw(index) for index in range(images)]

    def draw(self, index: int) -> bytes:
        generator = torch.Generator().manual_seed(self.seed + index)
        angle = math.pi * self.labels[index] / CLASSES
        shift = 2 * math.pi * torch.rand((), generator=generator)
        steps = torch.linspace(0, 6 * math.pi, STORED)
        waves = torch.sin(math.cos(angle) * steps[None, :] + math.sin(angle) * steps[:, None] + shift)
        colours = torch.rand(3, 1, 1, generator=generator)
        noise = torch.randn(3, STORED, STORED, generator=generator)
        pixels = (127 + 60 * colours * waves + 25 * noise).clamp(0, 255).to(torch.uint8)
        return zlib.compress(bytes(pixels.flatten().tolist()))

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.frombuffer(bytearray(zlib.decompress(self.packed[index])), dtype=torch.uint8)
        image = pixels.reshape(3, STORED, STORED).float() / 255
        generator = torch.Generator().manual_seed(self.seed + index)
        top, left = torch.randint(0, STORED // 8, (2,), generator=generator).tolist()
        size = STORED - STORED // 8
        image = image[:, top : top + size, left : left + size]
        image = functional.interpolate(image[None], size=(SHOWN, SHOWN), mode="bilinear", antialias=True)[0]
        brightness, contrast = (0.8 + 0.4 * torch.rand(2, generator=generator)).tolist()
        image = (image - image.mean()) * contrast + brightness / 2
        image = functional.avg_pool2d(image, 3, stride=1, padding=1)
        return image, torch.tensor(self.labels[index])


class Net(nn.Module):
    """Four convolutions, up to 128 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1, bias=False),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.Conv2d(128, 128, 3, padding=1, bias=False),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.classify = nn.Linear(128, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.classify(self.features(images).flatten(1))
        return logits


def make_loader(dataset: Stripes, batch_size: int, shuffle: bool) -> DataLoader[tuple[torch.Tensor, torch.Tensor]]:
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, pin_memory=torch.cuda.is_available())


def place(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor.to(device, non_blocking=True)


def train_epoch(
    model: nn.Module,
    loader: DataLoader[tuple[torch.Tensor, torch.Tensor]],
    criterion: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> float:
    model.train()
    total = 0.0
    seen = 0
    for images, labels in loader:
        images, labels = place(images, device), place(labels, device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.detach().double() * len(labels)
        seen += len(labels)
    total = float(total)
    return total / seen


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader[tuple[torch.Tensor, torch.Tensor]], device: torch.device) -> float:
    model.eval()
    correct = 0
    seen = 0
    for images, labels in loader:
        images, labels = place(images, device), place(labels, device)
        predicted = model(images).argmax(dim=1)
        correct += (predicted.flatten() == labels.flatten()).sum()
        seen += len(labels)
    correct = int(correct)
    return correct / seen


@torch.no_grad()
def time_inference(model: nn.Module, device: torch.device, batches: int) -> float:
    model.eval()
    images = torch.rand(32, 3, SHOWN, SHOWN, device=device)
    start = time.perf_counter()
    for _ in range(batches):
        model(images)
    return (time.perf_counter() - start) / batches


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network the slow way.")
    parser.add_argument("--images", type=int, default=480, help="training images; a quarter as many to validate")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = make_loader(Stripes(args.images, seed=0), args.batch_size, shuffle=True)
    valid_loader = make_loader(Stripes(args.images // 4, seed=1_000_000), args.batch_size, shuffle=False)
    model = Net().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-4)

    for epoch in range(args.epochs):
        start = time.perf_counter()
        loss = train_epoch(model, train_loader, criterion, optimizer, device)
        accuracy = evaluate(model, valid_loader, device)
        print(f"epoch {epoch + 1}: loss {loss:.6f}, accuracy {accuracy:.4f}")
        print(f"epoch {epoch + 1}: {time.perf_counter() - start:.2f} s", file=sys.stderr)
    print(f"inference: {1000 * time_inference(model, device, batches=10):.2f} ms a batch", file=sys.stderr)


if __name__ == "__main__":
    main()

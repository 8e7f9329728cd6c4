"""What stands above every example of a rule's docstring when it is tested (see test_fixtures.py).

An example may use these names and define them anew.
"""

import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        pixels = np.asarray(Image.open(self.paths[index]), dtype=np.float32)
        return torch.from_numpy(pixels), index % 10


device = torch.device("cuda")
dataset = Images(["a.png", "b.png"])
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
epochs = 10

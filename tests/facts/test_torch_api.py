"""The API table: what it must know, and that it says what PyTorch does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptlint.facts import torch_api
from ptlint.facts.torch_api import Param, canonical, lookup

ROOT = Path(__file__).resolve().parents[2]


def test_every_entry_parses() -> None:
    known = {
        "tensor", "tensors", "self", "number", "list", "ndarray", "bool", "none", "module", "optimizer", "scheduler",
        "scaler", "loader", "dataset", "sampler", "device", "dtype", "size", "context", "other", "unknown",
    }  # fmt: skip
    for name in torch_api.names():
        api = lookup(name)
        assert api is not None
        assert api.kind in {"function", "method", "class", "property", "module"}, name
        assert {overload.returns for overload in api.overloads} <= known, name
        assert api.syncs in {"always", "never", "maybe"}
        assert api.moves in {None, "host", "cuda", "argument"}


def test_entries_are_sorted_one_a_line() -> None:
    for source in torch_api.SOURCES:
        text = (torch_api.DATA / source).read_text("utf-8")
        data = json.loads(text)
        for section in ("aliases", "modules", "entries"):
            assert list(data[section]) == sorted(data[section]), (source, section)
        assert text.count("\n") >= len(data["entries"])


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("torch.nn.modules.linear.Linear", "torch.nn.Linear"),
        ("torch.nn.modules.module.Module.train", "torch.nn.Module.train"),
        ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler"),
        ("torch.optim.adamw.AdamW", "torch.optim.AdamW"),
        ("torch.autograd.no_grad", "torch.no_grad"),
        ("torch.autograd.grad_mode.inference_mode", "torch.inference_mode"),
        ("torch.autograd.variable.Variable", "torch.autograd.Variable"),
        ("torch.nn.parallel.distributed.DistributedDataParallel", "torch.nn.parallel.DistributedDataParallel"),
        ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.autocast", "torch.amp.autocast"),
        ("torch.cuda.amp.autocast", "torch.cuda.amp.autocast"),
        ("torch.cuda.amp.autocast_mode.autocast", "torch.cuda.amp.autocast"),
        ("torch.cuda.amp.grad_scaler.GradScaler", "torch.cuda.amp.GradScaler"),
        ("torch.amp.grad_scaler.GradScaler.step", "torch.amp.GradScaler.step"),
        ("torch.random.manual_seed", "torch.manual_seed"),
        ("torch.float", "torch.float32"),
        ("torch.half", "torch.float16"),
        ("torch.functional.norm", "torch.norm"),
        ("torch.nn.utils.clip_grad.clip_grad_norm_", "torch.nn.utils.clip_grad_norm_"),
        ("torch.cuda.memory.empty_cache", "torch.cuda.empty_cache"),
        ("torchvision.models.resnet.resnet50", "torchvision.models.resnet50"),
        ("tqdm.std.tqdm", "tqdm.tqdm"),
        ("nobody.knows.this", "nobody.knows.this"),
    ],
)
def test_canonical(alias: str, name: str) -> None:
    assert canonical(alias) == name
    assert canonical(name) == name


def test_parameters() -> None:
    linear = lookup("torch.nn.Linear")
    assert linear is not None
    assert linear.params[0] == Param("in_features", False, None, False)
    assert linear.param("bias") == Param("bias", True, "True", False)
    loader = lookup("torch.utils.data.DataLoader")
    assert loader is not None
    assert [param.name for param in loader.params[:8]] == [
        "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    ]  # fmt: skip
    assert loader.position("num_workers") == 5
    assert loader.position("persistent_workers") is None
    assert loader.param("persistent_workers") == Param("persistent_workers", True, "False", True)
    to = lookup("torch.Tensor.to")
    assert to is not None
    assert (to.position("device"), to.position("non_blocking"), to.moves, to.returns) == (0, 2, "argument", "tensor")
    cuda = lookup("torch.Tensor.cuda")
    assert cuda is not None
    assert (cuda.position("non_blocking"), cuda.moves) == (1, "cuda")


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("torch.zeros", {"makes": True, "random": False, "returns": "tensor", "dtype": "float", "detached": True}),
        ("torch.randn", {"makes": True, "random": True}),
        ("torch.zeros_like", {"makes": False, "detached": True, "dtype": "same"}),
        ("torch.tensor", {"makes": True, "of_data": True}),
        ("torch.Tensor.item", {"returns": "number", "syncs": "always", "moves": "host"}),
        ("torch.Tensor.tolist", {"returns": "list", "syncs": "always"}),
        ("torch.Tensor.numpy", {"returns": "ndarray", "syncs": "always"}),
        ("torch.Tensor.add_", {"returns": "self", "inplace": True, "syncs": "never"}),
        ("torch.Tensor.normal_", {"returns": "self", "inplace": True, "random": True}),
        ("torch.argmax", {"dtype": "int64", "detached": True, "syncs": "never"}),
        ("torch.Tensor.eq", {"dtype": "bool", "detached": True}),
        ("torch.Tensor.detach", {"dtype": "same", "detached": True}),
        ("torch.Tensor.double", {"dtype": "float64", "detached": False}),
        ("torch.nonzero", {"syncs": "always", "dtype": "int64"}),
        ("torch.where", {"syncs": "maybe"}),
        ("torch.nn.functional.one_hot", {"syncs": "maybe"}),
        ("torch.nn.functional.cross_entropy", {"returns": "tensor", "syncs": "never", "detached": False}),
        ("torch.nn.Module.to", {"returns": "self", "moves": "argument"}),
        ("torch.optim.AdamW", {"returns": "optimizer", "kind": "class"}),
        ("torch.optim.lr_scheduler.StepLR", {"returns": "scheduler"}),
        ("torch.no_grad", {"returns": "context"}),
        ("torch.device", {"returns": "device"}),
        ("torch.nn.utils.clip_grad_norm_", {"syncs": "maybe", "returns": "tensor"}),
        ("torch.cuda.LongTensor", {"makes": True, "moves": "cuda", "dtype": "int64"}),
        ("torchvision.models.resnet18", {"returns": "module", "tags": frozenset({"conv"})}),
        ("torchvision.datasets.CIFAR10", {"returns": "dataset", "tags": frozenset({"decodes"})}),
        ("sklearn.metrics.accuracy_score", {"returns": "number", "syncs": "always"}),
        ("numpy.random.rand", {"returns": "ndarray", "random": True}),
        ("accelerate.Accelerator", {"tags": frozenset({"managed"})}),
    ],
)
def test_effects(name: str, flags: dict[str, object]) -> None:
    api = lookup(name)
    assert api is not None
    assert {flag: getattr(api, flag) for flag in flags} == flags


def test_overloads_decide_by_the_arguments() -> None:
    largest, where = lookup("torch.max"), lookup("torch.where")
    assert largest is not None
    assert where is not None
    assert largest.result([True]) == "tensor"
    assert largest.result([True, False]) == "tensors"
    assert largest.result([True, True]) == "tensor"
    assert largest.result([True], ["dim"]) == "tensors"
    assert largest.result([True, None]) == "unknown"
    assert where.result([True]) == "tensors"
    assert where.result([True, None, None]) == "tensor"


def test_classes() -> None:
    assert torch_api.is_module_class("torch.nn.modules.conv.Conv2d")
    assert torch_api.is_module_class("torch.nn.CrossEntropyLoss")
    assert not torch_api.is_module_class("torch.nn.functional.conv2d")
    assert not torch_api.is_module_class("torchvision.models.resnet18")
    assert torch_api.tags("torch.nn.Conv2d") == {"conv"}
    assert torch_api.tags("torch.nn.LSTM") == {"recurrent", "tensors"}
    assert torch_api.tags("torch.nn.CrossEntropyLoss") == {"loss"}
    assert torch_api.tags("nobody.knows.this") == frozenset()
    assert torch_api.is_optimizer("torch.optim.sgd.SGD")
    assert torch_api.is_scheduler("torch.optim.lr_scheduler.OneCycleLR")
    assert torch_api.is_dataset("torch.utils.data.TensorDataset")
    assert torch_api.is_sampler("torch.utils.data.RandomSampler")
    assert torch_api.is_loader("torch.utils.data.DataLoader")


def test_methods_are_found_in_the_base() -> None:
    inherited = lookup("torch.nn.Linear.cuda")
    assert inherited is not None
    assert inherited.qualname == "torch.nn.Module.cuda"
    assert torch_api.method("optimizer", "zero_grad") is lookup("torch.optim.AdamW.zero_grad")
    assert torch_api.method("number", "item") is None
    assert lookup("torch.nn.functional.relu.cuda") is None


def test_grad_switches() -> None:
    assert torch_api.grad_switch("torch.autograd.no_grad") == "no_grad"
    assert torch_api.grad_switch("torch.inference_mode") == "inference_mode"
    assert torch_api.grad_switch("torch.nn.Linear") is None


def test_star_import_names() -> None:
    assert {"Linear", "Module", "functional"} <= torch_api.public_names("torch.nn")
    assert "functional.relu" not in torch_api.public_names("torch.nn")


def test_loading_takes_milliseconds() -> None:
    torch_api.lookup("torch.zeros")
    best = 1.0
    for _ in range(5):
        torch_api._table.cache_clear()
        start = time.process_time()
        torch_api._table()
        best = min(best, time.process_time() - start)
    assert best < 0.05


def test_the_table_is_what_the_script_makes() -> None:
    torch = pytest.importorskip("torch")
    if torch.__version__.partition("+")[0] != torch_api.torch_version():
        pytest.skip(f"the table was made from torch {torch_api.torch_version()}")
    command = [sys.executable, str(ROOT / "scripts" / "make_torch_api.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_slice_of_the_table_does_what_it_says() -> None:
    torch = pytest.importorskip("torch")
    if torch.__version__.partition("+")[0] != torch_api.torch_version():
        pytest.skip(f"the table was made from torch {torch_api.torch_version()}")
    short = [
        "item", "tolist", "detach", "add_", "normal_", "argmax", "eq", "nonzero", "masked_select", "sum", "max",
        "double", "cpu", "unique", "where", "masked_fill", "cumsum_", "topk", "view", "isnan", "uniform_", "new_zeros",
        "softmax",
    ]  # fmt: skip
    plain = ["zeros", "randn_like", "rand", "randperm", "stack", "cat", "where", "allclose", "bincount", "linspace"]
    neural = ["cross_entropy", "one_hot", "dropout", "relu_", "gumbel_softmax", "mse_loss", "layer_norm"]
    names = [f"torch.Tensor.{name}" for name in short] + [f"torch.{name}" for name in plain]
    names += [f"torch.nn.functional.{name}" for name in neural]
    command = [sys.executable, str(ROOT / "scripts" / "check_torch_api.py"), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[0] == str(len(names))

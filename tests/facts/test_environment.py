"""The table of environment variables, against what PyTorch does with them where it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from ptlint.facts import environment
from ptlint.facts.environment import lookup


def known(name: str) -> environment.Variable:
    variable = lookup(name)
    assert variable is not None, name
    return variable


def test_every_entry_is_whole() -> None:
    times = {"import", "cuda start", "process group", "compile", "use", "never"}
    for name in environment.names():
        variable = known(name)
        assert variable.read in times, name
        assert variable.effect
        assert not variable.effect.endswith("."), name
        assert variable.source
        assert bool(variable.modules) or variable.read != "import", name
        for values in (*variable.harmful, *variable.raises, *variable.idle):
            re.compile(values.pattern)
            assert values.why[0].islower() or values.why[0].isdigit(), name
        for other in (variable.renamed_to, variable.alias_of):
            assert other is None or lookup(other) is not None, name
        assert variable.renamed_to is None or variable.since is not None, name


def test_unknown_names_are_unknown() -> None:
    assert lookup("MY_SETTING") is None


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCH_CPP_LOG_LEVEL"])
def test_read_when_torch_loads(name: str) -> None:
    assert known(name).read_when("1") == environment.IMPORT
    assert "torch" in known(name).modules


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG", "KINETO_LOG_LEVEL"])
def test_read_late(name: str) -> None:
    assert known(name).read_when("1") != environment.IMPORT


def test_allocator_settings() -> None:
    variable = known("PYTORCH_CUDA_ALLOC_CONF")
    assert variable.read_when("expandable_segments:True") == environment.CUDA_START
    assert variable.read_when("backend:cudaMallocAsync") == environment.IMPORT
    assert variable.read_when(None) == environment.CUDA_START
    assert variable.harm("max_split_size_mb:512") is not None
    assert variable.harm("expandable_segments:True") is None


def test_renamed() -> None:
    variable = known("NCCL_ASYNC_ERROR_HANDLING")
    assert variable.renamed_to == "TORCH_NCCL_ASYNC_ERROR_HANDLING"
    assert variable.since == (2, 2)
    assert variable.harm("0") is not None
    assert variable.harm("1") is None
    assert known("NCCL_DEBUG").renamed_to is None


def test_no_reader() -> None:
    variable = known("TF_ENABLE_ONEDNN_OPTS")
    assert not variable.has_reader({"torch", "numpy"})
    assert variable.has_reader({"torch", "tensorflow.keras"})
    assert known("OMP_NUM_THREADS").has_reader(set())
    assert not known("KMP_AFFINITY").has_reader({"torch"})


def test_idle_and_harmful_values() -> None:
    variable = known("NCCL_P2P_DISABLE")
    assert variable.idleness("0") is not None
    assert variable.harm("0") is None
    assert variable.harm("1") is not None
    assert known("NCCL_DEBUG").harm("INFO") is not None
    assert known("NCCL_DEBUG").harm("WARN") is None
    assert known("CUDA_LAUNCH_BLOCKING").rule == "PTL208"


ALLOCATOR_VALUES = [
    "expandable_segments:True", "expandable_segments:False", "expandable_segments: True", "expandable_segments:true",
    "expandable_segments:1", "max_split_size_mb:512", "max_split_size_mb:20", "max_split_size_mb:19",
    "max_split_size_mb:5",
    "max_split_size_mb:128,expandable_segments:True", "max_split_size_mb:128,expandable_segments:true",
    "garbage_collection_threshold:0.8", "garbage_collection_threshold:1.5",
    "garbage_collection_threshold:0.8,max_split_size_mb:64",
    "garbage_collection_threshold:0", "garbage_collection_threshold:1", "expandable_segments=True",
    "backend:cudaMallocAsync", "roundup_power2_divisions:8",
]  # fmt: skip


def test_what_raises_is_what_pytorch_refuses() -> None:
    pytest.importorskip("torch")
    code = (
        "import torch, sys\n"
        "for value in sys.argv[1:]:\n"
        "    try:\n"
        "        torch._C._accelerator_setAllocatorSettings(value)\n"
        "        print('ok')\n"
        "    except (ValueError, RuntimeError):\n"
        "        print('raises')\n"
    )
    command = [sys.executable, "-c", code, *ALLOCATOR_VALUES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    variable = known("PYTORCH_ALLOC_CONF")
    said = ["raises" if variable.error(value) else "ok" for value in ALLOCATOR_VALUES]
    assert dict(zip(ALLOCATOR_VALUES, said, strict=True)) == dict(
        zip(ALLOCATOR_VALUES, done.stdout.split(), strict=True)
    )


def test_corrections() -> None:
    variable = known("PYTORCH_CUDA_ALLOC_CONF")
    assert variable.corrected("expandable_segments:true") == "expandable_segments:True"
    assert variable.corrected("max_split_size_mb:64,expandable_segments:true") == (
        "max_split_size_mb:64,expandable_segments:True"
    )
    assert variable.corrected("expandable_segments:True") is None
    assert variable.corrected("max_split_size_mb:5") is None


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("OMP_NUM_THREADS", "1", "torch.get_num_threads() == 1"),
        ("MKL_NUM_THREADS", "1", "torch.get_num_threads() == 1"),
        ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1", "torch.get_float32_matmul_precision() == 'high'"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "torch.distributed.get_debug_level().name == 'DETAIL'"),
        ("PYTORCH_JIT", "0", "not torch.jit._state._enabled.enabled"),
        ("TORCH_COMPILE_DISABLE", "1", "__import__('torch._dynamo.config')._dynamo.config.disable"),
        ("TORCHINDUCTOR_MAX_AUTOTUNE", "1", "__import__('torch._inductor.config')._inductor.config.max_autotune"),
    ],
)
def test_the_time_of_reading_is_right(name: str, value: str, shown: str) -> None:
    torch = pytest.importorskip("torch")
    if name.endswith("NUM_THREADS") and torch.get_num_threads() == 1:
        pytest.skip("one core shows no difference")
    setting = f"os.environ[{name!r}] = {value!r}"
    clean = {key: text for key, text in os.environ.items() if key != name}
    results = []
    for order in (f"{setting}; import torch", f"import torch; {setting}"):
        code = f"import os; {order}; import torch.distributed; print({shown})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=clean)
        results.append(done.stdout.strip() == "True")
    assert results[0]
    assert results[1] == (known(name).read != environment.IMPORT)

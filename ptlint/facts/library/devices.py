"""Devices: what an argument says of where something goes."""

from __future__ import annotations

from ptlint.facts.values import Const, Device, Num, Value, options


def device_of(value: Value) -> Device | None:
    """The device that a value names; None when it names none. An integer is a CUDA ordinal."""
    found: list[Device] = []
    for option in options(value):
        if isinstance(option, Device):
            found.append(option)
        elif isinstance(option, Const) and isinstance(option.value, str):
            found.append(named(option.value, option.soft))
        elif isinstance(option, Const) and isinstance(option.value, int) and not isinstance(option.value, bool):
            found.append(Device("cuda", option.soft))
        elif isinstance(option, Num) and option.type == "int":
            found.append(Device("cuda", True))
        elif isinstance(option, Num) and option.type in ("str", "any"):
            found.append(Device("unknown", True))
    if not found:
        return None
    ranked = sorted(found, key=lambda device: {"cuda": 0, "accelerator": 1, "unknown": 2}.get(device.type, 3))
    return ranked[0] if len(found) == 1 else Device(ranked[0].type, True)


def named(name: str, soft: bool = False) -> Device:
    """The device of a string such as "cuda:1"."""
    kind = name.partition(":")[0].strip()
    if kind.isdigit() or "," in kind:
        kind = "cuda"
    if kind not in ("cuda", "cpu", "mps", "xla", "meta", "xpu", "hpu", "npu"):
        return Device("unknown", True)
    return Device({"xpu": "accelerator", "hpu": "xla", "npu": "accelerator"}.get(kind, kind), soft)

"""Which GPUs of this host a recording uses, and a machine for each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evidence.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.device import Device
    from evidence.machine import Machine

ALL = "all"
_FIX = "see nvidia-smi --list-gpus, and give numbers: --gpus 0,1"


def choose(devices: Sequence[Device], wanted: str, visible: str = "") -> tuple[Device, ...]:
    """Return the GPUs that are asked for.

    Args:
        devices: All GPUs of this host, as the driver counts them.
        wanted: `all`, or numbers and identifiers separated by commas.
        visible: `CUDA_VISIBLE_DEVICES`; empty if nothing is hidden.

    Raises:
        ToolchainError: One is not there, hidden, named twice, or not like the others.
    """
    shown = [_find(devices, name, "CUDA_VISIBLE_DEVICES") for name in _names(visible)]
    shown = shown or list(devices)
    if not shown:
        raise ToolchainError("there is no GPU here", fix=_FIX)
    names = _names(wanted)
    found = shown if names == [ALL] else [_find(devices, name, "--gpus") for name in names]
    if not found:
        raise ToolchainError(f"--gpus {wanted!r} names no GPU", fix=_FIX)
    for name, device in zip(names, found, strict=False):
        if device not in shown:
            raise ToolchainError(
                f"--gpus {wanted}: GPU {name} is hidden by CUDA_VISIBLE_DEVICES={visible}",
                fix=f"unset CUDA_VISIBLE_DEVICES, or give --gpus {visible}",
            )
        if found.count(device) > 1:
            raise ToolchainError(f"--gpus {wanted} names GPU {name} twice", fix=_FIX)
    _alike(devices, found)
    return tuple(found)


def machines(first: Machine, devices: Sequence[Device]) -> list[Machine]:
    """Return a machine for each GPU, alike but for the GPU."""
    made = []
    for device in devices:
        environment = {**first.environment, "CUDA_VISIBLE_DEVICES": device.uuid}
        made.append(replace(first, device=device, environment=environment))
    return made


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _find(devices: Sequence[Device], name: str, where: str) -> Device:
    if name.isdigit() and int(name) < len(devices):
        return devices[int(name)]
    # CUDA takes the beginning of an identifier too.
    named = [device for device in devices if device.uuid.startswith(name)]
    if name.startswith("GPU-") and len(named) == 1:
        return named[0]
    last = len(devices) - 1
    there = f"are GPUs 0 to {last}" if last > 0 else "is only GPU 0" if last == 0 else "is none"
    raise ToolchainError(f"{where} names GPU {name}, and there {there}", fix=_FIX)


def _alike(devices: Sequence[Device], found: Sequence[Device]) -> None:
    """Refuse GPUs of which the records would not be of one device."""
    first = found[0]
    for other in found[1:]:
        one, two = first.document({}), other.document({})
        differ = [name for name in one if one[name] != two[name] and name != "label"]
        if differ:
            name = "name" if "name" in differ else differ[0]
            numbers = [devices.index(device) for device in (first, other)]
            raise ToolchainError(
                f"a recording takes GPUs of one kind: {name} of GPU {numbers[0]} is "
                f"{one[name]}, of GPU {numbers[1]} {two[name]}",
                fix=f"one after the other: evidence record --gpus {numbers[0]}",
            )

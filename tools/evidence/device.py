"""The GPU of this machine: asked through NVML, libcuda or nvidia-smi.

Unless more are asked for, one GPU is used: the first that `CUDA_VISIBLE_DEVICES`
names, else the first.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from evidence.errors import ToolchainError
from evidence.toolchain import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Words of a product name that do not tell one model from another.
_BRANDS = {"nvidia", "tesla", "geforce", "quadro", "graphics", "device"}
_SM_COUNT = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_SMI_FIELDS = "name,compute_cap,driver_version,memory.total,uuid"
_INSTALL = "run this on a machine with an NVIDIA GPU, or: evidence accept BUNDLE"


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU.

    Attributes:
        name: As the driver gives it, `NVIDIA H200`.
        compute_capability: `9.0`.
        driver: The driver's version.
        memory_mib: Total memory.
        sm_count: Streaming multiprocessors; 0 if nothing could tell.
        uuid: The driver's identifier; used to select the GPU, never stored.
    """

    name: str
    compute_capability: str
    driver: str
    memory_mib: int
    sm_count: int
    uuid: str = ""

    @property
    def architecture(self) -> str:
        """Return the compiler's name for this device, `sm_90`."""
        return "sm_" + self.compute_capability.replace(".", "")

    def label(self, labels: Mapping[str, str]) -> str:
        """Return the short label: the configured one, else made from the name."""
        return labels.get(self.name) or derived_label(self.name)

    def document(self, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return the device as it stands in a record."""
        return {
            "compute_capability": self.compute_capability,
            "driver": self.driver,
            "label": self.label(labels),
            "memory_mib": self.memory_mib,
            "name": self.name,
            "sm_count": self.sm_count,
        }


class Gpu(Protocol):
    """Whoever can say which GPU this machine has."""

    def query(self) -> Device:
        """Return the GPU that programs run on.

        Raises:
            ToolchainError: There is none.
        """

    def every(self) -> list[Device]:
        """Return all GPUs of this host, as the driver counts them."""


def derived_label(name: str) -> str:
    """Make a label from a product name: `Tesla T4` → `t4`."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    kept = [word for word in words if word not in _BRANDS]
    return "-".join(kept or words) or "gpu"


class LocalGpu:
    """This machine's GPU."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def query(self) -> Device:
        """Ask NVML, and nvidia-smi where its Python package is missing."""
        wanted = self._environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
        device = from_nvml(wanted) or from_smi(ask_smi(wanted))
        if device is None:
            raise ToolchainError(
                "no NVIDIA GPU: neither NVML nor nvidia-smi finds one", fix=_INSTALL
            )
        return device

    def every(self) -> list[Device]:
        """Ask for all of them, whatever is visible."""
        lines = ask_smi().strip().split("\n")
        return every_from_nvml() or [d for line in lines if (d := from_smi(line)) is not None]


def from_nvml(wanted: str = "") -> Device | None:
    """Ask the driver's own library; None if it or its Python package is missing."""
    found = _with_nvml(lambda pynvml: [_nvml_handle(pynvml, wanted)])
    return found[0] if found else None


def every_from_nvml() -> list[Device]:
    """Ask the driver's own library for all GPUs; none if it is missing."""
    return _with_nvml(
        lambda pynvml: [
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        ]
    )


def _with_nvml(handles: Callable[[Any], list[Any]]) -> list[Device]:
    try:
        import pynvml  # noqa: PLC0415
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return [_nvml_device(pynvml, handle) for handle in handles(pynvml)]
    except pynvml.NVMLError:
        return []
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _nvml_device(pynvml: Any, handle: Any) -> Device:
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
    return Device(
        name=_text(pynvml.nvmlDeviceGetName(handle)),
        compute_capability=f"{major}.{minor}",
        driver=_text(pynvml.nvmlSystemGetDriverVersion()),
        memory_mib=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) // 2**20,
        sm_count=sm_count(uuid),
        uuid=uuid,
    )


def _nvml_handle(pynvml: Any, wanted: str) -> Any:
    if wanted.startswith("GPU-"):
        return pynvml.nvmlDeviceGetHandleByUUID(wanted)
    return pynvml.nvmlDeviceGetHandleByIndex(int(wanted) if wanted.isdigit() else 0)


def _text(value: str | bytes) -> str:
    # Older NVML packages return bytes.
    return value.decode() if isinstance(value, bytes) else value


def sm_count(uuid: str = "") -> int:
    """Return the number of multiprocessors, which only libcuda tells; 0 without it."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    for index in range(count.value):
        device, found, raw = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if cuda.cuDeviceGet(ctypes.byref(device), index) != 0:
            continue
        cuda.cuDeviceGetUuid(ctypes.byref(raw), device)
        if uuid and bytes(raw).hex() != uuid.removeprefix("GPU-").replace("-", ""):
            continue
        if cuda.cuDeviceGetAttribute(ctypes.byref(found), _SM_COUNT, device) == 0:
            return found.value
    return 0


def ask_smi(wanted: str = "") -> str:
    """Return nvidia-smi's line about one GPU; "" without nvidia-smi."""
    name = shutil.which("nvidia-smi")
    if name is None:
        return ""
    command = [name, f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader,nounits"]
    return ask([*command, f"--id={wanted}"] if wanted else command)


def from_smi(text: str) -> Device | None:
    """Read a line of `nvidia-smi --query-gpu`; None if it is no such line."""
    fields = [field.strip() for field in text.strip().split("\n")[0].split(",")]
    if len(fields) != len(_SMI_FIELDS.split(",")) or not fields[3].isdigit():
        return None
    name, capability, driver, memory, uuid = fields
    return Device(name, capability, driver, int(memory), sm_count(uuid), uuid)

"""The GPU: labels, architectures, and the two ways to ask for it."""

import sys
import types

import pytest

from evidence import device
from evidence.device import Device, LocalGpu
from evidence.errors import ToolchainError


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("NVIDIA H200", "h200"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA", "nvidia"),
        ("???", "gpu"),
    ],
)
def test_a_label_made_from_a_name(name, label):
    assert device.derived_label(name) == label


def test_a_configured_label_wins():
    card = Device("NVIDIA A100-SXM4-80GB", "8.0", "580.1", 81920, 108, "GPU-1")
    assert card.label({"NVIDIA A100-SXM4-80GB": "a100"}) == "a100"
    assert card.architecture == "sm_80"
    assert card.document({"NVIDIA A100-SXM4-80GB": "a100"}) == {
        "compute_capability": "8.0", "driver": "580.1", "label": "a100", "memory_mib": 81920,
        "name": "NVIDIA A100-SXM4-80GB", "sm_count": 108,
    }  # fmt: skip


def test_a_line_of_nvidia_smi(monkeypatch):
    monkeypatch.setattr(device, "sm_count", lambda uuid: 132 if uuid == "GPU-00b0" else 0)
    text = "NVIDIA H200, 9.0, 580.159.04, 143771, GPU-00b0\nNVIDIA H200, 9.0, 580.159.04, 143771, GPU-11\n"
    assert device.from_smi(text) == Device(
        "NVIDIA H200", "9.0", "580.159.04", 143771, 132, "GPU-00b0"
    )


@pytest.mark.parametrize("text", ["", "No devices were found\n", "a, b, c, d, e\n"])
def test_no_line_of_nvidia_smi(text):
    assert device.from_smi(text) is None


def fake_nvml(**changes):
    class NVMLError(Exception):
        pass

    def initialise():
        if changes.get("fails"):
            raise NVMLError

    module = types.ModuleType("pynvml")
    module.NVMLError = NVMLError
    module.nvmlInit = initialise
    module.nvmlShutdown = lambda: None
    module.nvmlDeviceGetHandleByIndex = lambda index: f"index {index}"
    module.nvmlDeviceGetHandleByUUID = lambda uuid: f"uuid {uuid}"
    module.nvmlDeviceGetCudaComputeCapability = lambda handle: (7, 5)
    module.nvmlDeviceGetUUID = lambda handle: b"GPU-2"
    module.nvmlDeviceGetName = lambda handle: f"Tesla T4 {handle}"
    module.nvmlSystemGetDriverVersion = lambda: "550.1"
    module.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(total=16 * 2**30)
    return module


@pytest.mark.parametrize(
    ("visible", "name"),
    [("", "Tesla T4 index 0"), ("2,3", "Tesla T4 index 2"), ("GPU-9", "Tesla T4 uuid GPU-9")],
)
def test_nvml_is_asked_for_the_visible_gpu(monkeypatch, visible, name):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.setattr(device, "sm_count", lambda uuid: 40)
    found = LocalGpu({"CUDA_VISIBLE_DEVICES": visible}).query()
    assert found == Device(name, "7.5", "550.1", 16384, 40, "GPU-2")


def test_without_nvml_nvidia_smi_is_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(fails=True))
    monkeypatch.setattr(device, "sm_count", lambda uuid: 0)
    monkeypatch.setattr(device, "ask_smi", lambda wanted: "Tesla T4, 7.5, 550.1, 15360, GPU-1\n")
    assert LocalGpu({}).query().memory_mib == 15360


def test_no_gpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(device, "ask_smi", lambda wanted: "")
    with pytest.raises(ToolchainError) as caught:
        LocalGpu({}).query()
    assert str(caught.value) == (
        "no NVIDIA GPU: neither NVML nor nvidia-smi finds one"
        " — run this on a machine with an NVIDIA GPU, or: evidence accept BUNDLE"
    )


def test_a_machine_without_libcuda_knows_no_sm_count(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(device.ctypes, "CDLL", missing)
    assert device.sm_count() == 0


@pytest.mark.gpu
def test_this_machines_gpu():
    try:
        found = LocalGpu().query()
    except ToolchainError as error:
        pytest.skip(error.message)
    assert found.sm_count > 0
    assert found.memory_mib > 1000
    assert found.architecture.startswith("sm_")

"""What this machine offers to a recording: GPU, compiler, tools, a way to run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evidence import profiler, runner, sanitizer, toolchain
from evidence.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from evidence.device import Device, Gpu
    from evidence.runner import RunResult, Task
    from evidence.sandbox import Sandbox
    from evidence.toolchain import Nvcc


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that can record.

    Attributes:
        device: The GPU that programs run on.
        nvcc: The compiler; None if there is none.
        nvcc_missing: Why there is none.
        sanitizer: compute-sanitizer, if it is there.
        ncu: Nsight Compute, if it is there.
        ncu_version: Its version.
        environment: Variables that tie a process to the device.
        run: Runs a task; tests put their own here.
        sandbox: What everything runs and is compiled in; None for nothing.
    """

    device: Device
    nvcc: Nvcc | None
    nvcc_missing: str = ""
    sanitizer: Path | None = None
    ncu: Path | None = None
    ncu_version: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    run: Callable[[Task], RunResult] = runner.run
    sandbox: Sandbox | None = None

    @property
    def isolation(self) -> str:
        """Return what kept programs away from the machine, as a record says it."""
        return self.sandbox.isolation if self.sandbox else "none"


def probe(gpu: Gpu, environ: Mapping[str, str] | None = None) -> Machine:
    """Look what this machine offers.

    Raises:
        ToolchainError: There is no GPU.
    """
    env = os.environ if environ is None else environ
    nvcc: Nvcc | None = None
    missing = ""
    try:
        nvcc = toolchain.find_nvcc(env)
    except ToolchainError as error:
        missing = str(error)
    ncu = toolchain.find_tool(profiler.TOOL, nvcc, env)
    visible = env.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"
    return Machine(
        device=gpu.query(),
        nvcc=nvcc,
        nvcc_missing=missing,
        sanitizer=toolchain.find_tool(sanitizer.TOOL, nvcc, env),
        ncu=ncu,
        ncu_version=toolchain.tool_version(ncu) if ncu else "",
        # NVML counts in the order of the bus; CUDA must count alike.
        environment={"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    )

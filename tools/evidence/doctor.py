"""What this machine can do, and what to install for the rest.

Compiler, sanitizer and profiler are tried on a small program, because a tool
that is there and does not work is the common case on rented GPUs.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evidence import (
    notebookrun,
    notebooks,
    profiler,
    runner,
    sandbox,
    sanitizer,
    toolchain,
)
from evidence.build import find_ninja
from evidence.errors import ToolchainError
from evidence.model import Profile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from evidence.config import Config
    from evidence.device import Device, Gpu
    from evidence.runner import RunResult
    from evidence.toolchain import Nvcc

State = Literal["ok", "missing", "warning"]

# What every command needs, what the site needs, and what is good to have.
NEEDED = (("click", "commands"), ("rich", "progress"))
OPTIONAL = (
    ("mkdocs", "the site"),
    ("mkdocs-material", "the site"),
    ("pymdown-extensions", "the site"),
    ("nvidia-ml-py", "GPU queries without nvidia-smi"),
    ("torch", "Python programs that use it"),
)

_NOTEBOOKS = "notebooks run"
_METRIC = "gpu__time_duration.sum"
_PROGRAM = """#include <cstdio>
__global__ void one(int *x) { *x = 1; }
int main() {
    int *x = nullptr;
    cudaMalloc(&x, sizeof(int));
    one<<<1, 1>>>(x);
    const cudaError_t error = cudaDeviceSynchronize();
    std::printf("%s\\n", cudaGetErrorString(error));
    return error == cudaSuccess ? 0 : 1;
}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was looked for.

    Attributes:
        name: What.
        state: `warning` is for what is optional or not as it should be.
        found: What there is, or what is wrong.
        fix: What to do about it; empty if nothing.
    """

    name: str
    state: State
    found: str
    fix: str = ""


def examine(
    config: Config, gpu: Gpu, *, try_tools: bool = True, environ: Mapping[str, str] | None = None
) -> list[Row]:
    """Look at everything, and try the tools if there is a GPU."""
    env = os.environ if environ is None else environ
    rows = [_python()]
    nvcc, row = _nvcc(config, env)
    rows += [row, *_home(env, nvcc), _host(nvcc, env), _ninja()]
    device, row = _gpu(config, gpu)
    rows.append(row)
    ready = device is not None and nvcc is not None and try_tools
    with tempfile.TemporaryDirectory(prefix=runner.folder_prefix()) as folder:
        binary = _compile(nvcc, Path(folder), device) if ready and nvcc and device else None
        if ready:
            rows.append(_trial(binary))
        rows.append(_sanitizer(toolchain.find_tool(sanitizer.TOOL, nvcc, env), binary))
        rows.append(_profiler(toolchain.find_tool(profiler.TOOL, nvcc, env), binary))
    for tool in ("cuobjdump", "nvdisasm"):
        rows.append(_optional_tool(tool, nvcc, env))
    rows += [_notebooks(try_tools=try_tools), _git(), _sandbox()]
    return [*rows, *_packages()]


def able(rows: list[Row]) -> dict[str, bool]:
    """Return which commands work here."""
    state = {row.name: row.state != "missing" for row in rows}
    build = all(state[name] for name in ("nvcc", "host compiler", "ninja"))
    record = build and state["GPU"] and state.get("a program runs", True)
    return {"check": True, "build": build, "record": record}


def _python() -> Row:
    return Row("python", "ok", toolchain.python_version())


def _nvcc(config: Config, env: Mapping[str, str]) -> tuple[Nvcc | None, Row]:
    try:
        nvcc = toolchain.find_nvcc(env)
    except ToolchainError as error:
        return None, Row("nvcc", "missing", error.message, error.fix or "")
    found = f"{nvcc.version} at {nvcc.path} (from {nvcc.source})"
    if not toolchain.pin_holds(config.nvcc, nvcc.version):
        fix = f"install nvcc {config.nvcc}, or change nvcc in [tool.evidence]"
        return nvcc, Row("nvcc", "warning", f"{found}; the pin is {config.nvcc}", fix)
    return nvcc, Row("nvcc", "ok", found)


def _home(env: Mapping[str, str], nvcc: Nvcc | None) -> Iterator[Row]:
    home = env.get("CUDA_HOME")
    if home and (nvcc is None or nvcc.source != "CUDA_HOME"):
        yield Row(
            "CUDA_HOME", "warning", f"{home} has no bin/nvcc, so it was passed over",
            "correct CUDA_HOME, or unset it",
        )  # fmt: skip


def _host(nvcc: Nvcc | None, env: Mapping[str, str]) -> Row:
    host = nvcc.host if nvcc else toolchain.host_compiler(env)
    if host:
        return Row("host compiler", "ok", host)
    return Row("host compiler", "missing", "no g++ on PATH", "install it: apt install g++")


def _ninja() -> Row:
    try:
        path = find_ninja()
    except ToolchainError as error:
        return Row("ninja", "missing", error.message, error.fix or "")
    return Row("ninja", "ok", f"{toolchain.tool_version(path)} at {path}")


def _gpu(config: Config, gpu: Gpu) -> tuple[Device | None, Row]:
    try:
        device = gpu.query()
    except ToolchainError as error:
        return None, Row("GPU", "missing", error.message, error.fix or "")
    text = (
        f"{device.name} (label {device.label(config.labels)}), {device.architecture}, "
        f"{device.sm_count} SMs, {device.memory_mib} MiB, driver {device.driver}"
    )
    return device, Row("GPU", "ok", text)


def _compile(nvcc: Nvcc, folder: Path, device: Device) -> Path | None:
    source, binary = folder / "one.cu", folder / "one"
    source.write_text(_PROGRAM, encoding="utf-8")
    words = [str(nvcc.path), f"-arch={device.architecture}", "-o", str(binary), str(source)]
    toolchain.ask([*words, *nvcc.link])
    return binary if binary.is_file() else None


def _run(words: tuple[str, ...], binary: Path, keep: Mapping[str, Path] | None = None) -> RunResult:
    return runner.run(runner.task(words, {"one": binary}, timeout=60, keep=keep))


def _trial(binary: Path | None) -> Row:
    name = "a program runs"
    if binary is None:
        return Row(
            name, "missing", "a small program does not compile", "try: nvcc on a file of yours"
        )
    run = _run(("./one",), binary)
    if run.exit_status == 0:
        return Row(name, "ok", "compiled and run")
    said = (run.stdout or run.stderr or (run.ended(),))[-1]
    return Row(name, "missing", said, "see that driver and compiler fit together")


def _sanitizer(path: Path | None, binary: Path | None) -> Row:
    if path is None:
        return Row(sanitizer.TOOL, "warning", "not found", sanitizer.INSTALL)
    found = f"{toolchain.tool_version(path)} at {path}"
    if binary is None:
        return Row(sanitizer.TOOL, "ok", f"{found}; not tried")
    words = ("./one",)
    result = sanitizer.judge(
        "memcheck", words, _run(sanitizer.command(path, "memcheck", words), binary)
    )
    if result.status == "clean":
        return Row(sanitizer.TOOL, "ok", f"{found}; it works")
    reason = result.reason or f"{result.errors} errors on a program without any"
    return Row(
        sanitizer.TOOL, "warning", f"{found}; {reason}", "record on a machine where it works"
    )


def _profiler(path: Path | None, binary: Path | None) -> Row:
    if path is None:
        return Row(profiler.TOOL, "warning", "not found", profiler.INSTALL)
    found = f"{toolchain.tool_version(path)} at {path}"
    if binary is None:
        return Row(profiler.TOOL, "ok", f"{found}; its counters were not tried")
    profile = Profile(metrics=(_METRIC,), runs=1)
    log = binary.with_name(profiler.LOG)
    run = _run(profiler.command(path, profile, ("./one",)), binary, {profiler.LOG: log})
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    result = profiler.judge(profile, text, run)
    if result.status == "recorded":
        return Row(profiler.TOOL, "ok", f"{found}; its counters work")
    return Row(
        profiler.TOOL, "warning", f"{found}; {result.reason}",
        "as root, or with NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module",
    )  # fmt: skip


def _optional_tool(name: str, nvcc: Nvcc | None, env: Mapping[str, str]) -> Row:
    path = toolchain.find_tool(name, nvcc, env)
    if path is None:
        return Row(name, "warning", "not found", "install it: pip install '.[cuda]'")
    return Row(name, "ok", f"{toolchain.tool_version(path)} at {path}")


def _notebooks(*, try_tools: bool) -> Row:
    lacks = notebookrun.missing()
    if lacks:
        return Row(_NOTEBOOKS, "warning", lacks, notebookrun.INSTALL)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in notebookrun.PACKAGES)
    if not try_tools or not hasattr(os, "killpg"):  # programs are run on POSIX alone
        return Row(_NOTEBOOKS, "ok", f"{versions}; not tried")
    with tempfile.TemporaryDirectory(prefix=runner.folder_prefix()) as folder:
        path = Path(folder) / "one.ipynb"
        path.write_text(notebooks.made("print(1 + 1)"), encoding="utf-8")
        words = notebookrun.head(path.name, max_bytes=1000)
        run = runner.run(runner.task(words, {path.name: path}, timeout=60))
    if run.exit_status == 0 and run.stdout == ("2",):
        return Row(_NOTEBOOKS, "ok", f"{versions}; one was run")
    said = (run.stderr or run.stdout or (run.ended(),))[-1]
    return Row(
        _NOTEBOOKS, "warning", f"{versions}; {said}", "run: pip install --upgrade '.[notebook]'"
    )


def _git() -> Row:
    path = shutil.which("git")
    if path is None:
        fix = "install it, or give the commit: evidence record --commit"
        return Row("git", "warning", "not found", fix)
    return Row("git", "ok", toolchain.tool_version(Path(path)))


def _sandbox() -> Row:
    try:
        found = sandbox.find()
    except ToolchainError as error:
        return Row("sandbox", "warning", error.message, error.fix or "")
    return Row("sandbox", "ok", f"{found.isolation}; record --untrusted works")


def _packages() -> Iterator[Row]:
    absent: tuple[tuple[tuple[tuple[str, str], ...], State], ...] = (
        (NEEDED, "missing"),
        (OPTIONAL, "warning"),
    )
    for packages, state in absent:
        for name, use in packages:
            try:
                yield Row(name, "ok", f"{importlib.metadata.version(name)} ({use})")
            except importlib.metadata.PackageNotFoundError:
                fix = f"install it: pip install {name}"
                yield Row(name, state, f"not installed ({use})", fix)

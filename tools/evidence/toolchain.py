"""The compiler and the other tools of this machine, found and described.

nvcc is looked for in `CUDA_HOME`, then on PATH, then among the PyPI wheels.
The wheels keep their libraries in `lib`, where nvcc looks in `lib64`, so that
the static runtime is only found with an explicit library path.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evidence.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Source = Literal["CUDA_HOME", "PATH", "wheel"]

INSTALL_NVCC = "install one: pip install '.[cuda]', or set CUDA_HOME"
# Variables through which nvcc takes flags that no Build: line shows.
HIDDEN_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")

_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)+")
_PIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([\w.+!-]+)")


@dataclass(frozen=True, slots=True)
class Nvcc:
    """A CUDA compiler.

    Attributes:
        path: The executable.
        version: Such as `13.0.88`.
        source: Where it was found.
        link: Words that a link needs besides the program's own.
        host: The host compiler behind it, such as `g++ 13.3.0`.
    """

    path: Path
    version: str
    source: Source
    link: tuple[str, ...]
    host: str

    @property
    def home(self) -> Path:
        """Return the folder that holds `bin/nvcc`."""
        return self.path.parent.parent


def find_nvcc(
    environ: Mapping[str, str] | None = None, packages: Iterable[str] | None = None
) -> Nvcc:
    """Find the compiler and ask it for its version.

    Args:
        environ: Environment to look in; this process's by default.
        packages: Folders that may hold wheels; `sys.path` by default.

    Raises:
        ToolchainError: There is none, or it does not run.
    """
    env = os.environ if environ is None else environ
    for source, path in candidates(env, sys.path if packages is None else packages):
        version = nvcc_version(path)
        if version is None:
            raise ToolchainError(
                f"{path} (from {source}) does not say its version", fix="repair or remove it"
            )
        return Nvcc(path, version, source, _link(path), host_compiler(env))
    home = env.get("CUDA_HOME")
    looked = f"CUDA_HOME ({home or 'not set'}), PATH and the nvidia wheels"
    raise ToolchainError(f"no CUDA compiler: nvcc is in none of {looked}", fix=INSTALL_NVCC)


def candidates(environ: Mapping[str, str], packages: Iterable[str]) -> list[tuple[Source, Path]]:
    """Return every nvcc of this machine, in the order of preference."""
    found: list[tuple[Source, Path]] = []
    home = environ.get("CUDA_HOME")
    if home and _runs(path := Path(home) / "bin" / "nvcc"):
        found.append(("CUDA_HOME", path))
    on_path = shutil.which("nvcc", path=environ.get("PATH", ""))
    if on_path:
        found.append(("PATH", Path(on_path)))
    for folder in packages:
        wheels = sorted(Path(folder or ".").glob("nvidia/cu*/bin/nvcc"))
        found.extend(("wheel", path.resolve()) for path in reversed(wheels) if _runs(path))
    return found


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _link(nvcc: Path) -> tuple[str, ...]:
    top = nvcc.parent.parent
    if not (top / "lib64").exists() and (top / "lib" / "libcudart_static.a").is_file():
        return (f"-L{top / 'lib'}",)
    return ()


def nvcc_version(path: Path) -> str | None:
    """Return `13.0.88`, or None if the compiler does not run."""
    match = _VERSION.search(ask([str(path), "--version"]))
    return match.group(1) if match else None


def host_compiler(environ: Mapping[str, str] | None = None) -> str:
    """Return the host compiler's name and version, `g++ 13.3.0`; "" if there is none."""
    env = os.environ if environ is None else environ
    name = shutil.which("g++", path=env.get("PATH", ""))
    if name is None:
        return ""
    # The distribution's own suffix in the first line says less than this.
    version = ask([name, "-dumpfullversion"]).strip()
    return f"g++ {version}" if version else "g++"


def ask(command: list[str]) -> str:
    """Return what a short command prints; "" if it cannot run."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=60, check=False, encoding="utf-8",
            errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def build_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for compiling: no flags from outside the Build: line."""
    env = dict(os.environ if environ is None else environ)
    for name in HIDDEN_FLAGS:
        env.pop(name, None)
    return {**env, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb"}


def find_tool(
    name: str,
    nvcc: Nvcc | None,
    environ: Mapping[str, str] | None = None,
    packages: Iterable[str] | None = None,
) -> Path | None:
    """Find a CUDA tool: PATH, `CUDA_HOME`, beside nvcc, the wheels, Nsight's own folders."""
    env = os.environ if environ is None else environ
    on_path = shutil.which(name, path=env.get("PATH", ""))
    if on_path:
        return Path(on_path)
    homes = [Path(home)] if (home := env.get("CUDA_HOME")) else []
    homes += [nvcc.home] if nvcc is not None else []
    places = [home / "bin" / name for home in homes]
    for folder in sys.path if packages is None else packages:
        places += sorted(Path(folder or ".").glob(f"nvidia/cu*/bin/{name}"), reverse=True)
    if name == "ncu":
        places += sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True)
    return next((path for path in places if _runs(path)), None)


def tool_version(path: Path) -> str:
    """Return the last version number that a tool's `--version` prints."""
    numbers = _NUMBER.findall(ask([str(path), "--version"]))
    return numbers[-1] if numbers else ""


def pin_holds(pin: str, version: str) -> bool:
    """Return whether `13.0.88` satisfies the pin `13.0`."""
    return version == pin or version.startswith(f"{pin}.")


def python_version() -> str:
    """Return the version of the Python that runs Python programs."""
    return platform.python_version()


def package_versions(requires: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Look up the packages that a Python program names.

    Args:
        requires: Names or pins, `torch` or `torch==2.11.0`.

    Returns:
        Name → installed version, and a sentence for every package that is
        missing or is not the pinned version.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    for text in requires:
        match = _PIN_NAME.match(text)
        name = match.group() if match else text
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"package {name} is not installed")
            continue
        pin = _PIN.fullmatch(text)
        # A local label such as +cu130 names a build of the same version.
        if pin and pin.group(2) not in (found[name], found[name].split("+")[0]):
            wrong.append(f"package {name} is {found[name]}, the pin is {pin.group(2)}")
    return found, wrong

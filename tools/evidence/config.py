"""The project's own configuration: `[tool.evidence]` in `pyproject.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evidence.errors import ConfigError

FILE = "pyproject.toml"

_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "roots": (list, "a list of folders"),
    "docs": (str, "a folder"),
    "reviewed": (str, "a folder, or empty for none"),
    "sources": (str, "a folder of the pages, or empty for none"),
    "device": (str, "a device label"),
    "architectures": (list, "a list of numbers such as 90"),
    "runs": (int, "a whole number"),
    "timeout": ((int, float), "a number of seconds"),
    "nvcc": (str, "a version such as 13.0"),
    "labels": (dict, "a table of GPU name = label"),
    "slurm": (dict, "a table of device label = how Slurm gives it out"),
    "allowed_signers": (str, "a file, or empty for none"),
    "verbatim": (list, "a list of names such as CUDA_CHECK"),
}


@dataclass(frozen=True, slots=True)
class Config:
    """What `[tool.evidence]` says; every field has a default.

    Attributes:
        root: The project's folder.
        roots: Folders whose subfolders hold programs.
        docs: Folder of the pages.
        reviewed: Folder that keeps what each section was last read against;
            empty for none.
        sources: Folder of the pages that list whole programs, relative to
            `docs`; empty for none.
        device: Label of the device that prose binds to.
        architectures: Compute capabilities to build for, as two-digit numbers.
        runs: Process runs of each program.
        timeout: Seconds one process run may take.
        nvcc: Version prefix of the compiler that evidence is recorded with.
        labels: GPU name as the driver gives it → short label.
        slurm: Device's label → how Slurm gives it out; see `slurmconfig`.
        verbatim: Names of the macros, functions and structs of which every
            program's copy must be the same.
        allowed_signers: OpenSSH's file of who may sign bundles, relative to
            `root`; empty for none.
    """

    root: Path
    roots: tuple[str, ...] = ("kernels", "snippets")
    docs: str = "docs"
    reviewed: str = "reviewed"
    sources: str = "sources"
    device: str = "h200"
    architectures: tuple[int, ...] = (75, 80, 90, 100)
    runs: int = 5
    timeout: float = 120.0
    nvcc: str = "13.0"
    labels: dict[str, str] = field(default_factory=dict)
    slurm: dict[str, Any] = field(default_factory=dict)
    verbatim: tuple[str, ...] = ()
    allowed_signers: str = ""


def load(start: Path | None = None) -> Config:
    """Find and read the configuration.

    Args:
        start: Folder to look in and above; the current one by default.

    Raises:
        ConfigError: There is no project here, or its table is wrong.
    """
    here = Path.cwd() if start is None else start
    here = here.resolve()
    for folder in (here, *here.parents):
        path = folder / FILE
        if not path.is_file():
            continue
        table = _table(path)
        if table is not None:
            return _config(folder, path, table)
    raise ConfigError(
        f"no {FILE} with a [tool.evidence] table here or above",
        path=here,
        fix="run inside the project, or give its folder: evidence --project DIR …",
    )


def _table(path: Path) -> dict[str, Any] | None:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"not readable as TOML: {error}", path=path, fix="mend the file"
        ) from None
    table = document.get("tool", {}).get("evidence")
    return table if isinstance(table, dict) else None


def _config(root: Path, path: Path, table: dict[str, Any]) -> Config:
    wrong = []
    for name, value in table.items():
        if name not in _TYPES:
            wrong.append(f"unknown setting {name!r} (known: {', '.join(sorted(_TYPES))})")
        elif not isinstance(value, _TYPES[name][0]) or isinstance(value, bool):
            wrong.append(f"{name} = {value!r}, but it must be {_TYPES[name][1]}")
    names = table.get("verbatim", [])
    wrong += [
        f"verbatim has {name!r}, which is no identifier"
        for name in (names if isinstance(names, list) else ())
        if not (isinstance(name, str) and name.isidentifier())
    ]
    if isinstance(runs := table.get("runs", 1), int) and runs < 1:
        wrong.append(f"runs = {runs}, but a program must run at least once")
    if wrong:
        raise ConfigError("[tool.evidence]: " + "; ".join(wrong), path=path, fix="mend the table")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
    return Config(root=root, **values)

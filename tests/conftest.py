"""Projects and records made for tests; nothing here is evidence of anything."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import browsing
import fake_cuda
from evidence import key, locking, project, store

CUDA = """\
// SPDX-License-Identifier: MIT
// Day 1: a program.
//
// Build: nvcc -O3 -std=c++17 -arch=native -o {stem} {stem}.cu
// Run: ./{stem}
#include <cstdio>

int main() {{
    // snippet: greeting
    std::printf("hello\\n");
    // end snippet
    return 0;
}}
"""

STDOUT = ["GPU: NVIDIA H200 (compute capability 9.0)", "case n = 256", "  time (ms)   1.25"]


@dataclass
class Tree:
    """A project in a temporary folder."""

    root: Path

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    def program(self, folder: str = "001-add", stem: str = "add", text: str | None = None) -> Path:
        return self.write(f"kernels/{folder}/{stem}.cu", text or CUDA.format(stem=stem))

    def load(self) -> project.Project:
        return project.load(self.root)

    def record(self, name: str = "001-add/add", **changes: Any) -> Path:
        """Store a made record for a program, with some of its fields replaced."""
        found = self.load()
        document = made_record(found, name, **changes)
        program = found.get(name)
        path = program.evidence_path(document["device"]["label"])
        store.write(path, store.dump(document))
        return path


def made_record(found: project.Project, name: str, **changes: Any) -> dict[str, Any]:
    program = found.get(name)
    inputs = key.inputs_of(program)
    stdout = changes.pop("stdout", None) or [STDOUT] * 5
    document: dict[str, Any] = {
        "build": None
        if program.build is None
        else {
            "architecture": "sm_90",
            "command": [w.replace("native", "sm_90") for w in program.build.words],
            "exit_status": 0,
            "kernels": {
                "addKernel": {
                    "registers": 40,
                    "stack": 128,
                    "spill_stores": 0,
                    "spill_loads": 0,
                    "shared": 32896,
                    "constant": 0,
                }
            },
            "output": [],
            "seconds": 1.0,
            "warnings": [],
        },
        "device": {
            "compute_capability": "9.0",
            "driver": "580.1",
            "label": "h200",
            "memory_mib": 143771,
            "name": "NVIDIA H200",
            "sm_count": 132,
        },
        "drift": [],
        "inputs": key.to_json(inputs),
        "key": key.key_of(inputs),
        "key_version": key.KEY_VERSION,
        "measured": [],
        "mutants": {},
        "outcome": {"passed": True, "reasons": []},
        "profile": {
            "status": "not-requested",
            "reason": "",
            "args": [],
            "command": [],
            "tool": "",
            "launches": {},
        },
        "program": program.name,
        "recorded": {
            "commit": "0123456789abcdef0123456789abcdef01234567",
            "date": "2026-12-01",
            "dirty": False,
            "tool": "0.1.0",
            "isolation": "none",
        },
        "run_command": list(program.run.words),
        "runs": [
            {
                "exit_status": 0,
                "signal": None,
                "timed_out": False,
                "seconds": 0.5,
                "stdout": lines,
                "stderr": [],
                "problems": [],
            }
            for lines in stdout
        ],
        "sanitizers": {
            tool: {
                "status": "clean",
                "errors": 0,
                "reason": "",
                "command": ["compute-sanitizer", "--tool", tool],
                "seconds": 1.0,
                "output": [],
            }
            for tool in program.plan.sanitizers
        },
        "schema": store.SCHEMA,
        "toolchain": {
            "nvcc": "13.0.88",
            "host_compiler": "g++ 13.3.0",
            "python": "3.12.3",
            "packages": {},
        },
    }
    unknown = changes.keys() - document.keys()
    assert not unknown, f"no such field: {unknown}"
    return {**document, **changes}


PYPROJECT = """\
[tool.evidence]
roots = ["kernels", "snippets"]
device = "h200"
nvcc = "13.0"
runs = 5
# The tests that are about these turn them on.
reviewed = ""
sources = ""
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty project."""
    root = tmp_path / "project"
    made = Tree(root)
    made.write("pyproject.toml", PYPROJECT)
    (root / "docs").mkdir()
    return made


@pytest.fixture(scope="session")
def real_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site itself, built once."""
    return browsing.built(tmp_path_factory.mktemp("real") / "site")


def pytest_sessionfinish() -> None:
    """Remove the lock files of GPUs that were made up, unless somebody holds one."""
    import fcntl

    for path in locking.path_of(fake_cuda.H200).parent.glob("evidence-GPU-*-*.lock"):
        if "GPU-of-test" not in path.name and not re.search(r"GPU-(\w)\1{7}-|GPU-t4-", path.name):
            continue
        with contextlib.suppress(OSError), path.open("r+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()

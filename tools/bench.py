"""Measure the tool's own speed on generated projects: `make bench`.

Prints a table and writes it to `docs/guide/speed.md` with the machine it came
from, so that the page about the tool's speed is measured like every other.
Programs, records and the compiler of these projects are generated; they say
nothing about any GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evidence import key, lexing, project, store

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/guide/speed.md"
REPEATS = 5

PYPROJECT = """\
[tool.evidence]
roots = ["kernels"]
device = "h200"
nvcc = "13.0"
architectures = [75, 80, 90, 100]
"""

BODY = """\
// Adds row {i} of a matrix to a vector. Memory: a warp reads 32 floats in one
// transaction of 128 bytes. Launch assumption: one thread for each element.
__global__ void add{i}(const float *__restrict__ a, const float *__restrict__ b,
                       float *__restrict__ out, size_t n)
{{
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {{
        out[i] = a[i] + {i}.0f * b[i];  // guarded
    }}
}}

"""

# What a compiler does as far as ninja can see: reads its source, writes the
# output and the dependencies. In sh, because it is started 4,000 times.
FAKE_NVCC = """\
#!/bin/sh
for word; do
    case "$last" in -o) out=$word ;; -MF) deps=$word ;; esac
    case "$word" in
        --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit ;;
        *.cu) source=$word ;;
    esac
    last=$word
done
printf '#!/bin/sh\\nsleep 1\\necho GPU: none\\n' > "$out"
chmod +x "$out"
[ -z "$deps" ] || echo "$out: $source" > "$deps"
"""


def source(number: int, stem: str, kernels: int = 16) -> str:
    """Return a program of a usual length (about 9 KB, 190 lines)."""
    parts = [
        "// SPDX-License-Identifier: MIT\n"
        f"// Day {number}: a generated program.\n//\n"
        f"// Build: nvcc -O3 -std=c++17 -arch=native -o {stem} {stem}.cu\n// Run: ./{stem}\n"
        "#include <cstdio>\n\n"
    ]
    parts += [BODY.format(i=i) for i in range(kernels)]
    parts.append("// snippet: main\nint main()\n{\n    return 0;\n}\n// end snippet\n")
    return "".join(parts)


def output(run: int) -> list[str]:
    """Return the output of a usual program: nine cases, a table in each."""
    lines = ["GPU: NVIDIA H200 (compute capability 9.0)"]
    for case in range(9):
        lines += [
            f"case n = {256 << case}",
            "  path      max abs err   gate frac   time (ms)",
            f"  naive       1.230e-06      0.0123      {1.2 + run / 100:.4f}",
            f"  online      1.110e-06      0.0345      {2.4 + run / 100:.4f}",
            f"  naive/online time ratio   {0.5 + run / 1000:.4f}",
            "  floor                     1048576 B",
            "",
        ]
    return [*lines, "all 9 cases passed their gates"]


def record(program: project.Program) -> dict[str, object]:
    """Return a made record of a usual size."""
    inputs = key.inputs_of(program)
    run = {"exit_status": 0, "problems": [], "seconds": 1.0, "signal": None, "stderr": [],
           "timed_out": False}  # fmt: skip
    kernel = {"constant": 0, "registers": 32, "shared": 0, "spill_loads": 0, "spill_stores": 0,
              "stack": 0}  # fmt: skip
    clean = {"command": [], "errors": 0, "output": [], "reason": "", "seconds": 1.0,
             "status": "clean"}  # fmt: skip
    return {
        "build": {
            "architecture": "sm_90", "command": ["nvcc"], "exit_status": 0,
            "kernels": {f"add{i}": kernel for i in range(16)}, "output": [], "seconds": 1.0,
            "warnings": [],
        },
        "device": {"compute_capability": "9.0", "driver": "1", "label": "h200", "memory_mib": 1,
                   "name": "NVIDIA H200", "sm_count": 132},
        "drift": [], "inputs": key.to_json(inputs), "key": key.key_of(inputs),
        "key_version": key.KEY_VERSION, "measured": [], "mutants": {},
        "outcome": {"passed": True, "reasons": []},
        "profile": {"args": [], "command": [], "launches": {}, "reason": "",
                    "status": "not-requested", "tool": ""},
        "program": program.name,
        "recorded": {"commit": "", "date": "2026-01-01", "dirty": False, "isolation": "none",
                     "tool": "0.1.0"},
        "run_command": list(program.run.words),
        "runs": [{**run, "stdout": output(i)} for i in range(5)],
        "sanitizers": dict.fromkeys(program.plan.sanitizers, clean),
        "schema": store.SCHEMA,
        "toolchain": {"host_compiler": "", "nvcc": "13.0.88", "packages": {}, "python": ""},
    }  # fmt: skip


def generate(root: Path, count: int, *, pages: bool = True) -> None:
    """Write a project of `count` programs, each with evidence and a page."""
    root.mkdir(parents=True)
    (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (root / "docs/days").mkdir(parents=True)
    for number in range(count):
        stem = f"p{number:04d}"
        folder = root / f"kernels/{number:04d}-day"
        folder.mkdir(parents=True)
        text = source(number, stem)
        if not pages:  # nothing shows the region
            text = "\n".join(line for line in text.split("\n") if "snippet" not in line)
        (folder / f"{stem}.cu").write_text(text, encoding="utf-8")
        if pages:
            page = PAGE_TEXT.format(number=number, stem=stem)
            (root / f"docs/days/{number:04d}-day.md").write_text(page, encoding="utf-8")
    found = project.load(root)
    for program in found.programs:
        store.write(program.evidence_path("h200"), store.dump(record(program)))
    evidence(root, "readme")
    if pages:
        evidence(root, "reviewed", "--all")


PAGE_TEXT = """\
---
title: A generated page
programs: [{number:04d}-day/{stem}]
values:
  naive: case-n-256/naive/time
  online: case-n-256/online/time
---

# Page {number}

A paragraph with a bound number: [= naive ].

/// code | {stem}.cu:main
///

/// output | {number:04d}-day/{stem}
///

/// claim
    expect: online > naive

The online path is slower here.
///
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall seconds and peak memory of one command."""

    seconds: float
    mebibytes: float


def evidence(root: Path, *arguments: str, env: dict[str, str] | None = None) -> Cost:
    """Run a command of the tool and return what it cost."""
    start = time.perf_counter()
    env = {**(env or os.environ)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed tool has its bytecode
    process = subprocess.Popen(
        [sys.executable, "-m", "evidence", "--project", str(root), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
    )  # fmt: skip
    assert process.stdout is not None
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode != 0:
        sys.exit(f"evidence {' '.join(arguments)} failed:\n{text.decode()[-2000:]}")
    return Cost(time.perf_counter() - start, usage.ru_maxrss / 1024)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    seconds: tuple[float, ...]
    mebibytes: float | None
    bound: str


def repeat(what: str, bound: str, root: Path, *arguments: str, repeats: int,
           env: dict[str, str] | None = None) -> Row:  # fmt: skip
    """Run a command several times."""
    costs = [evidence(root, *arguments, env=env) for _ in range(repeats)]
    return Row(what, tuple(c.seconds for c in costs), max(c.mebibytes for c in costs), bound)


def fake_toolkit(folder: Path) -> dict[str, str]:
    """Install a compiler that only copies, and return the environment to use it."""
    nvcc = folder / "bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(FAKE_NVCC, encoding="utf-8")
    nvcc.chmod(0o755)
    return {**os.environ, "CUDA_HOME": str(folder)}


def measure(folder: Path, sizes: list[int], repeats: int) -> list[Row]:
    """Measure everything; return the table's rows."""
    rows = []
    for count in sizes:
        root = folder / f"p{count}"
        # Without pages: the bound is about programs and their evidence.
        generate(root, count, pages=False)
        limit = "≤ 1.5 s, < 200 MiB" if count == 1000 else "linear"  # noqa: PLR2004
        rows += [
            repeat(f"{name}, {count} programs", limit, root, name, repeats=repeats)
            for name in ("check", "list")
        ]
    root = folder / "pages"
    generate(root, 100)
    rows.append(repeat("check, 100 programs and 100 pages", "—", root, "check", repeats=repeats))
    root = folder / "build"
    generate(root, 1000, pages=False)
    env = fake_toolkit(folder / "toolkit")
    evidence(root, "build", env=env)
    rows.append(
        repeat("build with nothing to do, 1000 programs", "< 1 s", root, "build",
               repeats=repeats, env=env)
    )  # fmt: skip
    rows.append(key_row(repeats))
    rows.append(overhead_row(folder / "record", repeats))
    return rows


def overhead_row(folder: Path, repeats: int) -> Row:
    """Time `record` beyond the processes it starts, as a share of their time.

    Three programs that sleep for a second each, compiled beforehand: five runs and
    four sanitizers make 27 processes. What they took is read from the records.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    import fake_cuda  # noqa: PLC0415 - a fake toolkit is the tests' business
    import recording  # noqa: PLC0415
    from conftest import PYPROJECT as SMALL  # noqa: PLC0415
    from conftest import Tree  # noqa: PLC0415

    tree = Tree(folder)
    tree.write("pyproject.toml", SMALL)
    (folder / "docs").mkdir()
    stems = ("one", "two", "three")
    for stem in stems:
        text = fake_cuda.source("sleep 1", "echo 'case n = 256'", stem=stem)
        tree.program("001-sleep", stem, text)
    kit = fake_cuda.install(folder.parent / "record-toolkit")
    names = [f"001-sleep/{stem}" for stem in stems]
    recording.record(tree, kit, *names)  # compiles, too
    own, share = [], []
    for _ in range(repeats):
        for stem in stems:
            recording.path_of(tree, "001-sleep", stem).unlink()
        start = time.perf_counter()
        recording.record(tree, kit, *names)
        wall = time.perf_counter() - start
        records = [recording.stored(tree, name) for name in names]
        spent = sum(
            part["seconds"]
            for record in records
            for part in (*record["runs"], *record["sanitizers"].values())
        )
        own.append(wall - spent)
        share.append((wall - spent) / spent)
    return Row(
        f"record beyond its 27 processes of a second each, {100 * max(share):.1f} % of their time",
        tuple(own), None, "< 5 %",
    )  # fmt: skip


def key_row(repeats: int) -> Row:
    """Time the key of the largest source of this project, lexing included."""
    found = project.load(ROOT)
    program = max(found.programs, key=lambda p: p.path.stat().st_size)
    seconds = []
    for _ in range(4 * repeats):
        lexing.code_text.cache_clear()
        start = time.perf_counter()
        key.key_of(key.inputs_of(program))
        seconds.append(time.perf_counter() - start)
    kib = len(lexing.to_lf(program.path.read_bytes())) / 1024
    return Row(f"key of {program.path.name} ({kib:.0f} KiB), lexed", tuple(seconds), None, "—")


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| what | median | smallest to largest | peak memory | bound |",
        "|---|---:|---:|---:|---|",
    ]
    for row in rows:
        low, high = min(row.seconds), max(row.seconds)
        memory = "—" if row.mebibytes is None else f"{row.mebibytes:.0f} MiB"
        lines.append(
            f"| {row.what} | {show(statistics.median(row.seconds))} | {show(low)} to {show(high)} "
            f"| {memory} | {row.bound} |"
        )
    return "\n".join(lines)


def show(seconds: float) -> str:
    """Return seconds with a fitting unit."""
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"  # noqa: PLR2004


def machine() -> str:
    """Name the machine by what matters here: cores, system, Python."""
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )


def page(rows: list[Row], repeats: int) -> str:
    """Return the page about the tool's speed, with a hash of its table."""
    body = table(rows)
    digest = hashlib.sha256(body.encode("utf-8")).hexdigest()
    raw = json.dumps({row.what: [round(s, 5) for s in row.seconds] for row in rows}, indent=1)
    return (
        "---\ntitle: How fast the tool is\ngenerated: make bench\n---\n\n"
        "# How fast the tool is\n\n"
        f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}; {machine()}; each command ran "
        f"{repeats} times as its own process, start-up included. Projects, records and the "
        "compiler are generated for this: each program has about 190 lines, a record of five "
        "runs, and a page with a region, an output, a number and a claim. Of the sites in the last "
        "rows half the pages are lessons and half are listings; each is built beside its "
        "counterpart for plain MkDocs in the order A B B A, and a share is that of the processor "
        "time.\n\n"
        f"{body}\n\n"
        f'??? note "Every measurement, in seconds"\n\n    ```json\n'
        + "\n".join(f"    {line}" for line in raw.splitlines())
        + f"\n    ```\n\n<!-- table sha256 {digest} -->\n"
    )


def main() -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 4000])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--pages", type=int, nargs="*", default=[10, 100, 400],
                        help="sizes of sites, none to leave them out")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=1, help="A B B A rounds of each site")
    parser.add_argument("--no-page", action="store_true", help="print only")
    arguments = parser.parse_args()
    # Imported here: it needs this module.
    from bench_site import build_rows, serve_rows  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="evidence-bench-") as name:
        folder = Path(name)
        rows = measure(folder, arguments.sizes, arguments.repeats)
        if arguments.pages:
            lines = build_rows(folder / "sites", arguments.rounds, tuple(arguments.pages))
            lines += serve_rows(folder / "served", arguments.repeats)
            rows += [Row(*line) for line in lines]
    print(table(rows))
    if not arguments.no_page:
        store.write(PAGE, page(rows, arguments.repeats))
        print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

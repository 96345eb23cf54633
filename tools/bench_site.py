"""Measure what evidence costs a site: its build against plain MkDocs, and save to reload.

Both sites of a pair have the same pages, theme and Markdown extensions. What
the one shows from programs and their evidence, the other has as ordinary
fences, tables and words, as they would be pasted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import bench
from evidence import project, store

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = (10, 100, 400)  # pages: half of them lessons, half of them listings
SHARE = 0.10  # of a build: the most that evidence may cost
SERVED = 100  # pages of the site on which save to reload is measured

Line = tuple[str, tuple[float, ...], float | None, str]
"""What, seconds, peak memory, bound: the fields of `bench.Row`."""

CONFIG = """\
site_name: generated
site_url: http://127.0.0.1/
docs_dir: docs
theme:
  name: material
  font: false
  features: [content.code.copy, navigation.footer, search.highlight, toc.follow]
extra_css: [assets/evidence.css]
plugins: [{plugins}]
markdown_extensions:
  - admonition
  - attr_list
  - def_list
  - footnotes
  - md_in_html
  - tables
  - toc: {{permalink: true}}
  - pymdownx.details
  - pymdownx.highlight: {{anchor_linenums: true}}
  - pymdownx.inlinehilite
  - pymdownx.superfences
  - pymdownx.tabbed: {{alternate_style: true}}
{extension}\
validation:
  links: {{anchors: warn, not_found: warn}}
not_in_nav: |
  /sources/*.md
nav:
  - Front page: index.md
{nav}\
"""

# Markdown of a usual lesson; what differs between the two sites is in braces.
LESSON = """\
---
{front}title: Lesson {number}
---

# Lesson {number}

Each block of this program takes one tile of its input, and a thread takes one element of
the tile. On this device a call takes {naive} one way and {online} the other way, which is
{ratio} times as long; the [program](../sources/{folder}.md) prints both.

## The code

The guard on the last line keeps the threads of a block that hangs over the end from writing
behind it. It is *the same* comparison for every thread but those of one block, so the warps
do not diverge on it:

{region}

A few words about each of the parts:

- `blockIdx.x` is the number of the block, and `blockDim.x` the number of its threads;
- the product is computed in `size_t`, because it leaves the range of an `int` before the
  memory of a large device is full;
- the accesses of a warp lie side by side, so the hardware makes one transaction of them.

{other}

!!! note "Where the time goes"
    The kernel waits for memory nearly all of the time, and what it computes is free. Doing
    more arithmetic on what has been read costs nothing until the two are in balance.

## What it printed

{output}

The rows are cases, from the smallest that fills the device to the largest that fits in its
memory, and each of them is compared with a result computed on the host.

## Reading the evidence

{claim}

| case | one way | other way |
|------|--------:|----------:|
| n = 256 | {naive} | {online} |
| n = 512 | {naive_512} | {online_512} |

1. Predict what happens for a tile of twice the size, and write it down.
2. Run the program with it, and compare.
3. Say which of the two limits it reached first, and how the counters show it.

What follows from this is used in [the next lesson](lesson-{other_number:04d}.md).
"""

FRONT = """\
programs: [{folder}/{stem}]
values:
  naive: case-n-256/naive/time
  online: case-n-256/online/time
  naive_512: case-n-512/naive/time
  online_512: case-n-512/online/time
"""
REGION = "    // snippet: guard\n    if (i < n) {"
PASTED = {"naive": "1.22 ms", "online": "2.42 ms", "ratio": "1.98", "naive_512": "1.22 ms",
          "online_512": "2.42 ms"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall and processor seconds of one command."""

    wall: float
    processor: float


def _names(number: int) -> tuple[str, str]:
    return f"{number:04d}-lesson", f"p{number:04d}"


def generate(root: Path, pages: int, *, evident: bool, language: str = "cuda") -> None:
    """Write a site of a number of pages besides its front page.

    Args:
        root: Its folder, which is made.
        pages: How many; every lesson has one that lists its program.
        evident: Whether it shows evidence, or the same pasted.
        language: Of pasted code: `text` for code without colours.
    """
    lessons = pages // 2
    (root / "docs/days").mkdir(parents=True)
    (root / "docs/sources").mkdir()
    (root / "docs/assets").mkdir()
    styles = (bench.ROOT / "docs/assets/evidence.css").read_text(encoding="utf-8")
    _write(root / "docs/assets/evidence.css", styles)
    _write(root / "docs/index.md", "# Front page\n\nAll lessons.\n")
    for number in range(lessons):
        folder, stem = _names(number)
        source = _source(number, stem)
        _write(
            root / f"docs/days/lesson-{number:04d}.md",
            _lesson(number, lessons, None if evident else language),
        )
        if evident:
            _write(root / f"kernels/{folder}/{stem}.cu", source)
        else:
            title = f"---\ntitle: Source of {folder}\n---\n\n# Source of {folder}\n\n"
            numbers = f'```{language} linenums="1"'
            _write(root / f"docs/sources/{folder}.md", f"{title}{numbers}\n{source}```\n")
    nav = "".join(f"  - days/lesson-{number:04d}.md\n" for number in range(lessons))
    if not evident:
        _write(root / "mkdocs.yml", CONFIG.format(plugins="search", extension="", nav=nav))
        return
    text = CONFIG.format(plugins="search, evidence", extension="  - evidence\n", nav=nav)
    _write(root / "mkdocs.yml", text)
    _write(root / "pyproject.toml", bench.PYPROJECT)
    for program in project.load(root).programs:
        store.write(program.evidence_path("h200"), store.dump(bench.record(program)))
    bench.evidence(root, "readme")
    bench.evidence(root, "reviewed", "--all")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _source(number: int, stem: str) -> str:
    text = bench.source(number, stem)
    return text.replace("    if (i < n) {", REGION, 1).replace(
        "// guarded\n    }\n", "// guarded\n    }\n    // end snippet\n", 1
    )


def _lesson(number: int, lessons: int, pasted: str | None) -> str:
    folder, stem = _names(number)
    if pasted is None:
        parts = {name: f"[= {name} ]" for name in PASTED} | {
            "ratio": "[= online / naive | .2f ]",
            "front": FRONT.format(folder=folder, stem=stem),
            "region": f"/// code | {stem}.cu:guard\n///",
            "other": f"/// code | {stem}.cu:main\n///",
            "output": f"/// output | {folder}/{stem}\n///",
            "claim": "/// claim\n    expect: online > naive\n\nThe online path is slower.\n///",
        }
    else:
        printed = "\n".join(bench.output(0))
        guard = f"if (i < n) {{\n    out[i] = a[i] + {number}.0f * b[i];  // guarded\n}}"
        parts = PASTED | {
            "front": "",
            "region": f'```{pasted} linenums="1"\n{guard}\n```',
            "other": f'```{pasted} linenums="1"\nint main()\n{{\n    return 0;\n}}\n```',
            "output": f"```text\n{printed}\n```",
            "claim": "The online path is slower.",
        }
    other = (number + 1) % lessons
    return LESSON.format(number=number, folder=folder, other_number=other, **parts)


def build(root: Path) -> Cost:
    """Build a site strictly in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"],
        cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment(),
    )  # fmt: skip
    assert process.stdout is not None
    said = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode != 0:
        sys.exit(f"mkdocs build in {root} failed:\n{said[-2000:]}")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime)


def _environment() -> dict[str, str]:
    tools = str(Path(__file__).resolve().parent)
    path = os.pathsep.join(filter(None, (tools, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"}


def pair(
    folder: Path, pages: int, repeats: int, language: str = "cuda"
) -> tuple[list[Cost], list[Cost]]:
    """Build a site with evidence and one without, in the order A B B A.

    Returns:
        What the builds with evidence cost, and those without.
    """
    ours, plain = folder / f"evident-{pages}", folder / f"plain-{pages}-{language}"
    if not ours.exists():
        generate(ours, pages, evident=True)
    generate(plain, pages, evident=False, language=language)
    costs: dict[Path, list[Cost]] = {ours: [], plain: []}
    for root in (ours, plain, plain, ours) * repeats:
        costs[root].append(build(root))
    return costs[ours], costs[plain]


def share(ours: list[Cost], plain: list[Cost]) -> float:
    """Return our share of the processor time of a build: neighbours compared, the median."""
    pairs = zip(ours, plain, strict=True)
    return statistics.median((a.processor - b.processor) / a.processor for a, b in pairs)


def build_rows(folder: Path, repeats: int, sizes: tuple[int, ...] = SIZES) -> list[Line]:
    """Measure the build time against plain MkDocs.

    Plain code is coloured by Pygments, whose CUDA takes longer than ours; so a
    site whose code has no colours at all is compared too. Shares and what a
    page costs are in processor time, which other work disturbs less.
    """
    rows: list[Line] = []
    for pages in sizes:
        ours, plain = pair(folder, pages, repeats)
        bare_ours, bare = pair(folder, pages, repeats, "text")
        for what, a, b, bound in (
            ("ordinary fences", ours, plain, f"≤ {100 * SHARE:.0f} %"),
            ("fences without colours", bare_ours, bare, "colours included"),
        ):
            each = 1000 * statistics.median(c.processor for c in a) / pages
            said = f"our share {100 * share(a, b):.0f} % ({bound}); {each:.0f} ms a page"
            walls = (tuple(c.wall for c in a), tuple(c.wall for c in b))
            rows.append((f"strict build, {pages} pages, evidence", walls[0], None, said))
            rows.append((f"strict build, {pages} pages, {what}", walls[1], None, "—"))
    return rows


@contextlib.contextmanager
def serving(root: Path) -> Iterator[tuple[str, int]]:
    """Serve a site; yields its address and its process once it is built."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [sys.executable, "-m", "mkdocs", "serve", "--quiet", "--dev-addr", address],
        cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment(),
    )  # fmt: skip
    try:
        while True:
            if process.poll() is not None:
                sys.exit(f"mkdocs serve in {root} ended")
            with contextlib.suppress(OSError):
                _get(f"http://{address}/")
                break
            time.sleep(0.1)
        yield f"http://{address}", process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=120) as answer:
        text: str = answer.read().decode("utf-8")
        return text


def reload_seconds(site: str, page: str, path: Path, edit: tuple[str, str], seen: str) -> float:
    """Save a file and return the seconds until the page's browser has the page with the edit.

    The browser asks the server, as its script does, whether there is anything
    new, and loads the page when there is.
    """
    epoch = int(_get(f"{site}/{page}").rpartition("livereload(")[2].partition(",")[0])
    text = path.read_text(encoding="utf-8")
    assert edit[0] in text
    time.sleep(0.37)  # anywhere between two looks of the host at its files
    start = time.perf_counter()
    path.write_text(text.replace(*edit), encoding="utf-8")
    while True:
        newer = int(_get(f"{site}/livereload/{epoch}/1"))
        if newer > epoch:
            epoch = newer
            if seen in _get(f"{site}/{page}"):
                return time.perf_counter() - start


def _processor(process: int) -> float:
    """Return the processor seconds that a process has used, from what Linux says."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve_rows(folder: Path, repeats: int, pages: int = SERVED) -> list[Line]:
    """Measure the time from a save to the page that shows it.

    The processor time of the server is given too: on a busy machine it says
    more than the time on the clock.
    """
    root = folder / f"served-{pages}"
    generate(root, pages, evident=True)
    # The file, what stands there first and what then, and what the page shows of it.
    files = {
        "a program": (
            root / "kernels/0001-lesson/p0001.cu",
            "b[i];  // guarded",
            "b[i] / {0}.0f;  // guarded {0}",
            "// guarded {0}",
        ),
        "a page": (
            root / "docs/days/lesson-0001.md",
            "*the same* comparison",
            "comparison {0}",
            "comparison {0}",
        ),
    }
    wall: dict[str, list[float]] = {what: [] for what in files}
    processor: dict[str, list[float]] = {what: [] for what in files}
    with serving(root) as (site, process):
        for number in range(1, 2 * repeats + 1):
            for what, (path, first, later, seen) in files.items():
                old = first if number == 1 else later.format(number - 1)
                edit = (old, later.format(number))
                before, page = _processor(process), "days/lesson-0001/"
                wall[what].append(reload_seconds(site, page, path, edit, seen.format(number)))
                processor[what].append(_processor(process) - before)
    bound = "about 1 s; the host looks for changes every 0.5 s and waits 0.1 s more"
    return [
        row
        for what in files
        for row in (
            (f"save of {what} to the page reloaded, {pages} pages", tuple(wall[what]), None, bound),
            ("the same, processor time of the server", tuple(processor[what]), None, "—"),
        )
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evidence-bench-") as name:
        rows = serve_rows(Path(name), arguments.repeats)
        rows += build_rows(Path(name), arguments.repeats, tuple(arguments.sizes))
    print(bench.table([bench.Row(*row) for row in rows]))


if __name__ == "__main__":
    main()

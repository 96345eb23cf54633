"""`mkdocs serve`, end to end: what an author sees who edits, breaks and mends pages."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fake_cuda
from recording import stored
from served import served

if TYPE_CHECKING:
    from conftest import Tree

CONFIG = """\
site_name: test
theme: mkdocs
strict: true
plugins:
  - evidence{options}
markdown_extensions: [toc, evidence]
"""
PAGE = """\
---
programs: [001-add]
values:
  time: case-n-256/time
---

# Day 1

It takes [= time ].

/// code | add.cu:greeting
///

/// output | 001-add
///

/// claim
    expect: time < 2
It is fast.
///
"""
SOURCE = """\
// Build: nvcc -O3 -std=c++17 -arch=native -o add add.cu
// Run: ./add
// snippet: greeting
#pragma sh echo 'case n = 256'
#pragma sh echo '  time    1.25 ms'
// end snippet
"""


@pytest.fixture
def site(tree: Tree) -> Tree:
    tree.program(text=SOURCE)
    tree.record(stdout=[["case n = 256", "  time    1.25 ms"]] * 5)
    tree.write("docs/index.md", PAGE)
    tree.write("docs/other.md", "# Other\n\nNothing is measured here.\n")
    tree.write("mkdocs.yml", CONFIG.format(options=""))
    from evidence import readme

    readme.write_all(tree.load())
    return tree


def edit(site: Tree, old: str, new: str, name: str = "docs/index.md") -> None:
    path = site.root / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def edit_source(site: Tree, old: str, new: str) -> None:
    edit(site, old, new, "kernels/001-add/add.cu")


def test_an_edited_program_is_on_the_page_with_a_banner_and_goes_with_the_edit(site: Tree) -> None:
    with served(site) as server:
        assert "ev-banner" not in server.get()
        edit_source(site, "1.25 ms", "1.15 ms")
        assert server.until(lambda html: "1.15 ms" in html) < 10
        html = server.get()
        assert (
            "<strong>Recorded before your last edit.</strong><ul><li>001-add/add: code of add.cu, "
            "line 5: <code>#pragma sh echo &#x27;  time    1.25 ms&#x27;</code> → "
            "<code>#pragma sh echo &#x27;  time    1.15 ms&#x27;</code></li></ul>"
            "<p>run: <code>evidence record 001-add/add</code></p>"
        ) in html
        assert "A build would fail" not in html
        assert "ev-banner" not in server.get("other/")
        edit_source(site, "1.15 ms", "1.25 ms")
        server.until(lambda html: "ev-banner" not in html)
        # A comment is no change of the program.
        edit_source(site, "// snippet", "// A comment.\n// snippet")
        edit_source(site, "echo 'case", "  echo 'case")
        server.until(lambda html: "  echo &#39;case" in html or "  echo 'case" in html)
        assert "ev-banner" not in server.get()


BREAKING = {
    "directive": ("/// output | 001-add", "/// outptu | 001-add", "no block is named `outptu`"),
    "claim": ("time < 2", "time < 1", "claim-fails: `time &lt; 1` does not hold on h200"),
    "region": ("add.cu:greeting", "add.cu:greting", "has no region `greting`"),
    "yaml": ("programs: [001-add]", "programs: [001-add", "index.md:3: page-syntax: "),
    "format": ("[= time ]", "[= time | .9f ]", "bad-format"),
    "unclosed": ("It is fast.\n///\n", "It is fast.\n", "`/// claim` is not closed"),
    "link": ("It takes", "[It](nowhere.md) takes", 'href="nowhere.md"'),
    "anchor": ("It takes", "[It](other.md#nowhere) takes", 'href="other/#nowhere"'),
}


def test_a_broken_page_says_so_and_is_mended(site: Tree) -> None:
    with served(site) as server:
        for old, new, said in BREAKING.values():
            edit(site, old, new)
            server.until(lambda html, said=said: said in html)
            edit(site, new, old)
            server.until(lambda html: "ev-banner" not in html and "ev-error" not in html)
        text = (site.root / "docs/index.md").read_bytes()
        (site.root / "docs/index.md").write_bytes(text + b"\xff\n")
        server.until(lambda html: "index.md:1: cannot be read: invalid start byte" in html)
        (site.root / "docs/index.md").write_bytes(text)
        server.until(lambda html: "1.25 ms" in html and "ev-banner" not in html)
        settings = site.write("kernels/001-add/evidence.toml", "runs = ")
        server.until(lambda html: "evidence.toml:1: bad-settings: not readable as TOML" in html)
        settings.unlink()
        server.until(lambda html: "1.25 ms" in html and "ev-banner" not in html)
        assert server.process.poll() is None


@pytest.mark.parametrize("kind", BREAKING)
def test_a_server_starts_on_a_broken_page(site: Tree, kind: str) -> None:
    old, new, said = BREAKING[kind]
    edit(site, old, new)
    with served(site) as server:
        assert said in server.get()


def test_the_same_under_properdocs(site: Tree) -> None:
    pytest.importorskip("properdocs", reason="ProperDocs is not installed: pip install properdocs")
    config = CONFIG.format(options="").replace("theme: mkdocs", "theme: material")
    site.write("mkdocs.yml", config)  # MkDocs' own themes are another package there
    edit(site, "It takes", "[It](nowhere.md) takes")
    with served(site, host="properdocs") as server:
        edit_source(site, "1.25 ms", "1.15 ms")
        server.until(lambda html: "1.15 ms" in html and "ev-stale" in html)
        edit_source(site, "1.15 ms", "1.25 ms")
        server.until(lambda html: "ev-stale" not in html)
        edit(site, "time < 2", "time < 1")
        server.until(lambda html: "claim-fails" in html)
        assert server.log().count("contains a link 'nowhere.md'") >= server.builds()


def test_a_build_causes_no_other(site: Tree) -> None:
    with served(site) as server:
        edit(site, "It takes", "One call takes")
        server.until(lambda html: "One call takes" in html)
        edit_source(site, "1.25 ms", "1.15 ms")
        server.until(lambda html: "ev-stale" in html)
        time.sleep(1)
        before = server.builds()
        assert before >= 3
        time.sleep(5)
        assert server.builds() == before


# -- Recording again -------------------------------------------------------------

SMI = """\
#!/bin/sh
echo "NVIDIA H200, 9.0, 580.1, 143771, GPU-{name}"
"""


@pytest.fixture
def rerun(site: Tree, tmp_path) -> dict[str, str]:
    """The environment of a machine with a compiler and a GPU; both are fake."""
    kit = fake_cuda.install(tmp_path / "cuda", tools=False)
    # The identifier names the lock: tests do not share a GPU.
    kit.script("nvidia-smi", SMI.format(name=f"of-test-{os.getpid()}-{time.monotonic_ns()}"))
    site.write("mkdocs.yml", CONFIG.format(options=": {rerun: true}"))
    path = os.pathsep.join([str(kit.home / "bin"), kit.environ["PATH"]])
    return {**kit.environ, "PATH": path, "CUDA_VISIBLE_DEVICES": "0"}


def without_sanitizers(site: Tree) -> None:
    site.write("kernels/001-add/evidence.toml", "[add]\nsanitizers = []\nruns = 2\n")


def alive(text: str) -> list[int]:
    """Return the processes whose command line holds a text."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in words:
            found.append(int(name))
    return found


def number(html: str) -> str:
    """Return what the page's sentence is bound to."""
    return re.search(r">([0-9.]+)\s*ms</a>", html)[1]


def test_an_edited_program_is_recorded_and_the_page_shows_it(site: Tree, rerun) -> None:
    without_sanitizers(site)
    with served(site, rerun) as server:
        assert "<i>1.15" not in server.get()
        edit_source(site, "1.25 ms", "1.15 ms")
        server.until(lambda html: "ev-stale" in html and "being recorded now" in html)
        server.until(lambda html: "ev-banner" not in html and "It takes" in html)
        assert number(server.get()) == "1.15"
        assert stored(site)["runs"][1]["stdout"][1] == "  time    1.15 ms"
        assert "recorded: 001-add/add: " in server.log()


def test_the_latest_edit_is_what_is_recorded(site: Tree, rerun) -> None:
    without_sanitizers(site)
    with served(site, rerun) as server:
        edit_source(site, "1.25 ms'\n", "1.15 ms'\n#pragma sh sleep 600\n")
        server.until(lambda html: "being recorded now" in html)
        deadline = time.monotonic() + 20
        while not alive("sleep\x00600") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert alive("sleep\x00600")
        edit_source(site, "1.15 ms'\n#pragma sh sleep 600\n", "1.05 ms'\n")
        server.until(lambda html: "ev-banner" not in html and number(html) == "1.05")
        assert stored(site)["runs"][1]["stdout"][1] == "  time    1.05 ms"
        assert not alive("sleep\x00600")


def test_what_fails_when_recorded_again_is_a_banner(site: Tree, rerun) -> None:
    without_sanitizers(site)
    with served(site, rerun) as server:
        edit_source(site, "// end snippet", "#error no\n// end snippet")
        edit_source(site, "#error no", "#pragma error expected a semicolon")
        server.until(lambda html: "it does not compile" in html)
        assert "expected a semicolon" in server.get()
        edit_source(site, "#pragma error expected a semicolon\n", "")
        server.until(lambda html: "ev-banner" not in html and "It takes" in html)


def test_without_a_gpu_nothing_is_recorded_and_the_log_says_why(site: Tree, rerun) -> None:
    Path(rerun["CUDA_HOME"], "bin/nvidia-smi").unlink()
    with served(site, rerun) as server:
        edit_source(site, "1.25 ms", "1.15 ms")
        server.until(lambda html: "ev-stale" in html)
        deadline = time.monotonic() + 10
        while "no NVIDIA GPU" not in server.log() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "programs are not recorded again: no NVIDIA GPU" in server.log()
        assert server.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_server_that_stops_takes_its_recording_with_it(site: Tree, rerun, number: int) -> None:
    without_sanitizers(site)
    with served(site, rerun) as server:
        edit_source(site, "1.25 ms'\n", "1.15 ms'\n#pragma sh sleep 601\n")
        server.until(lambda html: "being recorded now" in html)
        deadline = time.monotonic() + 20
        while not alive("sleep\x00601") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert alive("sleep\x00601")
        assert server.stop(number) == 0
        assert not alive("sleep\x00601")
        assert not alive(f"--project\x00{site.root}")


def test_a_recording_ends_whatever_ended_its_server(site: Tree, rerun) -> None:
    without_sanitizers(site)
    with served(site, rerun) as server:
        edit_source(site, "1.25 ms'\n", "1.15 ms'\n#pragma sh sleep 602\n")
        deadline = time.monotonic() + 30
        while not alive("sleep\x00602") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert alive("sleep\x00602")
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        while alive("sleep\x00602") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not alive("sleep\x00602")


def test_nothing_is_recorded_that_nobody_asked_for(site: Tree, rerun) -> None:
    without_sanitizers(site)
    site.write("mkdocs.yml", CONFIG.format(options=""))
    with served(site, rerun) as server:
        edit_source(site, "1.25 ms", "1.15 ms")
        server.until(lambda html: "ev-stale" in html)
        time.sleep(1.5)
        html = server.get()
        assert "being recorded" not in html
        assert "ev-stale" in html

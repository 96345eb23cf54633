"""One site under MkDocs, ProperDocs and Zensical, each as a person starts it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import markdown
import pytest
import yaml
from markdown.preprocessors import Preprocessor

import browsing
from browsing import missing
from conftest import PYPROJECT, Tree
from evidence import notebooks, readme
from evidence.errors import ConfigError
from evidence.pages import host
from evidence.pages.extension import EvidenceExtension

ROOT = Path(__file__).parent.parent
BUILD = {
    "mkdocs": ["build", "--strict", "-f", "mkdocs.yml"],
    "properdocs": ["build", "--strict", "-f", "mkdocs.yml"],
    "zensical": ["build", "--strict", "-f", "mkdocs.yml"],
}
REPOSITORY = "repo_url: https://github.com/o/r\nedit_uri: edit/dev/docs/\n"
CONFIG = f"""\
site_name: test
{REPOSITORY}theme:
  name: material
  font: false
plugins: [search, tags, evidence]
markdown_extensions:
  - admonition
  - attr_list
  - md_in_html
  - tables
  - toc
  - pymdownx.superfences
  - pymdownx.details
  - pymdownx.tabbed:
      alternate_style: true
  - evidence
watch:
  - kernels
  - docs
  - pyproject.toml
nav:
  - index.md
  - course.md
  - The days:  # evidence nav
      - 1 · First:
          - days/001-add.md
          - days/002-two.md
  - walk.md
  - glossary.md
  - tags.md
  - reference/status.md
  - reference/claims.md
  - reference/devices.md
  - reference/ledger.md
not_in_nav: /sources/*.md
"""
WATCH = "watch:\n  - kernels\n  - docs\n  - pyproject.toml\n"
SOURCE = """\
// SPDX-License-Identifier: MIT
// Day {day}: a program.
//
// Build: nvcc -O3 -std=c++17 -arch=native -o {stem} {stem}.cu
// Run: ./{stem}
#include <cstdio>

int main() {{
    // snippet: sum
    float sum = 0.0f;  // of {stem}
    {step};
    std::printf("%g\\n", sum);
    // end snippet
    return 0;
}}
"""
DAY = """\
---
day: 1
title: "1 · Adding"
module: 1
tags: [adding]
programs: [001-add]
values:
  times: case-n-*/time
  time: case-n-256/time
  fast: 002-fast:case-n-256/time
---

# Adding

It takes [= time ], and no more than [! 50 ms | a guess ]: `[= time ]` in a page. On
[day 2](002-two.md) it takes [= fast ], a factor of [= time / fast ].

| quantity | value |
|---|---|
| *time* | [= time | .1f ] |

/// predict
    answer: time
How long does it take?
///

/// code | add.cu:sum
///

!!! note "In an admonition, [= time ]"

    === "In a tab"

        /// claim
            expect: fast < time
        It is faster, [= time ] against [= fast ].
        ///

/// plot
    title: Time over n
    x: n
    y: time
    log: x, y
    series:
        adding: times
Larger ones take longer.
///

/// diff
    old: add.cu:sum
    new: fast.cu:sum
    values:
        time: case-n-256/time
///

/// output | 001-add
///
"""
PAGES = {
    "index.md": "# Front\n\n[Day 1](days/001-add.md)\n\n/// map\n///\n",
    "course.md": '---\ntitle: Course\nplan:\n  First:\n    "1": Adding\n    "2": Faster\n---\n\n'
    "# Course\n\n/// days\n///\n",
    "glossary.md": "# Glossary\n\n## Warp\n\n32 threads.\n",
    "walk.md": "---\nprograms: [003-walk]\n---\n\n# Walk\n\n/// notebook | walk.ipynb\n///\n",
    "tags.md": "# Tags\n\n<!-- material/tags -->\n",
    "days/001-add.md": DAY,
    "days/002-two.md": "---\nday: 2\ntitle: 2 · Faster\nmodule: 1\nneeds: [1]\nprograms: [002-fast]\n"
    "---\n\n# Faster\n\nA [warp](../glossary.md#warp).\n\n/// output | 002-fast\n///\n",
    "reference/status.md": "# Status\n\n/// status\n///\n",
    "reference/claims.md": "# Claims\n\n/// claims\n///\n",
    "reference/devices.md": "# Devices\n\n/// devices\n///\n",
    "reference/ledger.md": "---\nvalues:\n  time: 001-add:case-n-256/time\n---\n\n# Ledger\n\n"
    "/// ledger | 2\n///\n\n/// ruling | 1\n    claim: It takes `9` ms.\n    kind: measurement\n"
    "    verdict: false\n    expect: time < 9\n    by: 002-fast\nIt takes [= time ].\n///\n\n"
    "/// ruling | 2\n    claim: It matters.\n    kind: source\n    verdict: true\n"
    "So says [! 2 | [a book](https://example.org) ].\n///\n",
}
WALK = ("## Both *sums*\n\nOf `a` and b.", "print('Result')\nprint('  sum  ', 3)", "40 + 2")
LEFT = [
    [{"kind": "stdout", "first": 0, "count": 2}],
    [{"kind": "result", "lines": ["42"]}],
]
# The parts that have to be on some page of the site, or nothing was compared.
PARTS = ["ev-bar", "ev-cell", "ev-hosted", "ev-notebook", "ev-claim", "ev-code", "ev-day-no",
         "ev-diff", "ev-ledger", "ev-map", "ev-output", "ev-plot", "ev-predict", "ev-record",
         "ev-ruling", "ev-sourced", "ev-term", "ev-value", "ev-whole",
         "ev-why"]  # fmt: skip


def start(name: str, tree: Tree, *more: str) -> subprocess.CompletedProcess[str]:
    """Build a site with a host; skip where it is not installed."""
    if importlib.util.find_spec(name) is None:
        reason = f"{name} is not installed: pip install '.[dev]'"
        if name == "zensical":
            pytest.skip(reason)
        missing(reason)
    return subprocess.run(
        [sys.executable, "-m", name, *BUILD[name], *more],
        cwd=tree.root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def site(tree: Tree) -> Tree:
    tree.write("pyproject.toml", PYPROJECT.replace('sources = ""\n', "").replace(
        'roots = ["kernels", "snippets"]', 'roots = ["kernels"]'))  # fmt: skip
    tree.write("mkdocs.yml", CONFIG)
    for day, stem, step in ((1, "add", "sum += 1.0f"), (2, "fast", "sum = fmaf(1, 1, sum)")):
        tree.program(f"00{day}-{stem}", stem, SOURCE.format(day=day, stem=stem, step=step))
        tree.write(f"kernels/00{day}-{stem}/evidence.toml", f"[{stem}]\nruns = 3\n")
        runs = [
            [
                line
                for n in (256, 1024)
                for line in (f"case n = {n}", f"  time  {n / 100 / day * scale:.3f} ms")
            ]
            for scale in (1.0, 1.1, 1.2)
        ]
        tree.record(f"00{day}-{stem}/{stem}", stdout=runs)
    walk = notebooks.made(*WALK).replace('"code"', '"markdown"', 1)
    tree.write("kernels/003-walk/walk.ipynb", notebooks.tidy(walk, "walk"))
    ran = {"exit_status": 0, "problems": [], "seconds": 1.0, "signal": None, "stderr": [],
           "stdout": ["Result", "  sum   3"], "timed_out": False, "cells": LEFT}  # fmt: skip
    tree.record("003-walk/walk", runs=[ran])
    for name, text in PAGES.items():
        tree.write(f"docs/{name}", text)
    readme.write_all(tree.load())
    return tree


class Parts(HTMLParser):
    """The parts of a page that are this tool's, tag by tag and word by word."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if not self.open and "ev-" not in (named.get("class") or ""):
            return
        self.open.append(tag)
        # What a host's search takes away again, and how a source is handed out.
        named.pop("data-search-exclude", None)
        if "download" in named:
            named.pop("href")
        self.found.append(f"<{tag} {sorted(named.items(), key=str)}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.open:
            self.found.append(f"<{tag} {sorted(dict(attrs).items(), key=str)}/>")

    def handle_endtag(self, tag: str) -> None:
        while tag in self.open and self.open.pop() != tag:
            pass  # an element that needs no end

    def handle_data(self, data: str) -> None:
        if self.open:
            self.found += data.split()


def pages(tree: Tree) -> dict[str, str]:
    """Return the HTML of each page of a built site, by its address."""
    folder = tree.root / "site"
    return {
        str(path.relative_to(folder).parent): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("index.html"))
    }


@pytest.mark.parametrize(
    ("name", "ci", "outcome"),
    [
        ("mkdocs", "", pytest.skip.Exception),
        ("properdocs", "", pytest.skip.Exception),
        ("zensical", "", pytest.skip.Exception),
        ("mkdocs", "true", pytest.fail.Exception),
        ("properdocs", "true", pytest.fail.Exception),
        ("zensical", "true", pytest.skip.Exception),  # no wheel for every machine
    ],
)
def test_what_is_not_installed_fails_in_ci(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, name: str, ci: str, outcome: type[Exception]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(outcome, match=rf"^{name} is not installed: pip install '\.\[dev\]'$"):
        start(name, tree)


@pytest.mark.parametrize("name", ["properdocs", "zensical"])
def test_the_same_parts_as_under_mkdocs(site: Tree, name: str) -> None:
    other = Tree(site.root.parent / "other")
    shutil.copytree(site.root, other.root)
    done = start("mkdocs", site)
    assert done.returncode == 0, done.stderr
    done = start(name, other)
    assert done.returncode == 0, done.stderr
    expected, got = pages(site), pages(other)
    assert expected.keys() == got.keys()
    assert len(expected) == len(PAGES) + 3  # and the sources of each folder
    for page, html in got.items():
        assert Parts(html).found == Parts(expected[page]).found, page
        headings = [re.findall(r'<h[1-6] id="[^"]+"', text) for text in (html, expected[page])]
        assert headings[0] == headings[1], page


@pytest.mark.parametrize("name", BUILD)
def test_a_page_has_everything_and_no_directive_is_left(site: Tree, name: str) -> None:
    done = start(name, site)
    assert done.returncode == 0, done.stderr
    built = pages(site)
    text = "".join(built.values())
    classes = {word for group in re.findall(r'class="([^"]*)"', text) for word in group.split()}
    assert set(PARTS) - classes == set()
    for page, html in built.items():
        for left in ("///", "\x02", "expect:"):
            assert left not in re.sub(
                r"<(script|style|details).*?</\1>", "", html, flags=re.DOTALL
            ), page
        assert re.sub(r"<code>\[= time \]</code>", "", html).count("[=") == 0, page
        assert re.findall(r'(?:href="|&quot;)[^"&]*\.md\b', html) == [], page
    day = built["days/001-add"]
    assert 'href="../../sources/001-add/#L10"' in day
    assert "&quot;places&quot;:{&quot;002-fast/fast&quot;:&quot;../002-two/&quot;}" in day
    words = re.sub(r"<[^>]+>", "", day).replace("\N{NO-BREAK SPACE}", " ")
    assert "In an admonition, 2.8 ms" in words
    assert "It is faster, 2.8 ms against 1.4 ms." in words
    assert "float sum = 0.0f;" in words
    walk = built["walk"]
    assert re.search(r'<h2 id="both-sums">Both sums', walk)
    assert re.search(r'href="#both-sums"[^>]*>\s*<span class="md-ellipsis">', walk)
    assert re.search(r'download="walk.ipynb"', walk)
    place = "https://colab.research.google.com/github/o/r/blob/dev/kernels/003-walk/walk.ipynb"
    assert f'href="{place}"' in walk
    assert "  sum   3" in walk


@pytest.mark.parametrize("name", BUILD)
def test_what_check_refuses_fails_a_build(site: Tree, name: str) -> None:
    site.write("docs/days/001-add.md", DAY.replace("fast < time", "fast > time"))
    done = start(name, site)
    assert done.returncode == 1
    assert "docs/days/001-add.md:35: claim-fails: " in done.stderr
    assert not (site.root / "site/days/001-add/index.html").exists()


# --- Zensical renders a page again only when its text or something it watches changed.


def later(path: Path, old: str, new: str) -> None:
    """Change a file, and let a second pass: Zensical compares whole ones."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    before = path.stat().st_mtime
    path.write_text(text.replace(old, new), encoding="utf-8")
    os.utime(path, (before + 2, before + 2))


def test_zensical_shows_a_changed_program(site: Tree) -> None:
    assert start("zensical", site).returncode == 0
    assert "of add" in pages(site)["days/001-add"]
    later(site.root / "kernels/001-add/add.cu", "of add", "of all that is added")
    assert start("zensical", site).returncode == 0
    for page in ("days/001-add", "sources/001-add"):
        assert "of all that is added" in pages(site)[page]
    later(site.root / "kernels/001-add/add.cu", "sum += 1.0f", "sum += 2.0f")
    done = start("zensical", site)
    assert done.returncode == 1
    assert "001-add/add: code of add.cu changed after its evidence was recorded" in done.stderr


def test_zensical_shows_what_another_page_changed(site: Tree) -> None:
    assert start("zensical", site).returncode == 0
    later(site.root / "docs/days/001-add.md", "It is faster", "It has become faster")
    later(site.root / "docs/glossary.md", "32 threads.", "32 threads that run together.")
    assert start("zensical", site).returncode == 0
    assert "It has become faster" in pages(site)["reference/claims"]
    assert "32 threads that run together." in pages(site)["days/002-two"]


def test_zensical_has_to_watch_what_pages_are_made_of(site: Tree) -> None:
    assert start("zensical", site).returncode == 0
    site.write("mkdocs.yml", CONFIG.replace("  - kernels\n  - docs\n", ""))
    done = start("zensical", site)
    assert done.returncode == 1
    line = CONFIG[: CONFIG.index(WATCH)].count("\n") + 1
    assert (
        f"mkdocs.yml:{line}: Zensical keeps a page until its own text or something under `watch` "
        "changes, and pages are made of kernels, docs too — write: watch: "
        '["pyproject.toml", "kernels", "docs"]\n'
    ) in done.stderr
    # The line that it asks for is what it needs.
    asked = re.search(r"write: (watch: .*)", done.stderr)
    site.write("mkdocs.yml", CONFIG.replace(WATCH, f"{asked[1]}\n"))
    assert start("zensical", site).returncode == 0


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore")
def test_search_works_under_zensical_too(site: Tree) -> None:
    """Its theme asks for its worker in another way than that of MkDocs."""
    shutil.copytree(ROOT / "docs/assets", site.root / "docs/assets")
    # The theme would ask GitHub how many stars a repository has.
    config = CONFIG.replace(REPOSITORY, "")
    site.write("mkdocs.yml", f"{config}extra:\n  polyfills:\n    - assets/lazysearch.js\n")
    done = start("zensical", site)
    assert done.returncode == 0, done.stderr
    with (
        browsing.launched() as browser,
        browsing.served(site.root / "site") as address,
        browsing.opened(browser, address) as page,
    ):
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.wait_for_load_state("networkidle")
        assert [url for url in asked if "/workers/" in url] == []
        page.locator("[for=__search]:visible, .md-search__button:visible").first.click()
        page.keyboard.type("warp")
        page.get_by_text("32 threads.").wait_for()
        assert len([url for url in asked if "/workers/search." in url]) == 1


def test_this_site_watches_what_its_pages_are_made_of() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    watched = yaml.safe_load(config[config.index("\nwatch:") :].split("\n\n")[0])["watch"]
    assert watched == ["kernels", "snippets", "reviewed", "docs", "pyproject.toml"]


def test_front_matter_of_this_site_has_only_keys_that_zensical_reads() -> None:
    def keys(node: object) -> list[object]:
        if isinstance(node, dict):
            return [*node, *(key for value in node.values() for key in keys(value))]
        return [key for value in node for key in keys(value)] if isinstance(node, list) else []

    looked_at = 0
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if text.startswith("---\n"):
            found = keys(yaml.safe_load(text.split("---\n")[1]))
            assert [key for key in found if not isinstance(key, str)] == [], path
            looked_at += 1
    assert looked_at > 20


# --- The same without Zensical: only what our code asks of it.


def rendered(tree: Tree, **settings: object) -> str:
    class Context(Preprocessor):
        page = type("Page", (), {"path": "days/001-add.md", "url": "days/001-add/"})()
        config = {"root_dir": str(tree.root), "docs_dir": "docs", **settings}  # noqa: RUF012

        def run(self, lines: list[str]) -> list[str]:
            return lines

    md = markdown.Markdown(extensions=["pymdownx.superfences", EvidenceExtension()])
    md.preprocessors.register(Context(md), "rendering_context", 0)
    assert host.of(md, "").path == tree.root / "docs/days/001-add.md"
    return md.convert("Text.\n")


@pytest.mark.parametrize(
    ("watch", "named", "asked"),
    [
        ([], "kernels, snippets, reviewed, docs, pyproject.toml",
         '"kernels", "snippets", "reviewed", "docs", "pyproject.toml"'),
        (None, "kernels, snippets, reviewed, docs, pyproject.toml",
         '"kernels", "snippets", "reviewed", "docs", "pyproject.toml"'),
        (["kernels", "docs", "reviewed", "pyproject.toml"], "snippets",
         '"kernels", "docs", "reviewed", "pyproject.toml", "snippets"'),
        (["kernels/001-add", "kernels/001-add/add.cu", "snippets", "docs", "reviewed",
          "pyproject.toml"], "kernels",
         '"kernels/001-add", "kernels/001-add/add.cu", "snippets", "docs", "reviewed", '
         '"pyproject.toml", "kernels"'),
        (["kernel", "./snippets/", "docs", "reviewed", "pyproject.toml"], "kernels",
         '"kernel", "./snippets/", "docs", "reviewed", "pyproject.toml", "kernels"'),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("file", "sign"), [("mkdocs.yml", ":"), ("zensical.toml", " =")])
def test_what_is_not_watched_is_named(
    site: Tree, file: str, sign: str, watch: object, named: str, asked: str
) -> None:
    full(site, file)
    with pytest.raises(ConfigError) as caught:
        rendered(site, watch=watch)
    assert str(caught.value) == (
        f"{file}:2: Zensical keeps a page until its own text or something under `watch` changes, "
        f"and pages are made of {named} too — write: watch{sign} [{asked}]"
    )


@pytest.mark.parametrize(
    "watch",
    [
        ["kernels", "snippets", "docs", "reviewed", "pyproject.toml"],
        ["./kernels/", "../project/snippets", "docs/.", "reviewed", "pyproject.toml", "other"],
        ["."],
    ],
)
def test_what_is_watched_is_covered(site: Tree, watch: list[str]) -> None:
    full(site, "mkdocs.yml")
    assert rendered(site, watch=watch).count("<p>Text.</p>") == 1
    (site.root / "snippets").rmdir()  # what is not there needs no watching
    assert rendered(site, watch=[name for name in watch if "snippets" not in name])


def test_an_absolute_path_is_watched_too(site: Tree) -> None:
    full(site, "mkdocs.yml")
    assert rendered(site, watch=[str(site.root)]).count("<p>Text.</p>") == 1


def full(tree: Tree, file: str) -> None:
    """Let a project have everything that pages can be made of."""
    tree.write("pyproject.toml", "[tool.evidence]\n")
    (tree.root / "snippets").mkdir()
    (tree.root / "reviewed").mkdir()
    (tree.root / "mkdocs.yml").unlink()
    tree.write(file, "# The site.\nwatch: here\n")


@pytest.mark.parametrize(
    ("page", "target", "with_folders", "with_files"),
    [
        ("days/1.md", "2.md", "../2/", "2.html"),
        ("days/1.md", "2.md#a", "../2/#a", "2.html#a"),
        ("days/1.md", "../index.md#a", "../../#a", "../index.html#a"),
        ("days/1.md", "../other/README.md", "../../other/", "../other/index.html"),
        ("days/index.md", "1.md", "1/", "1.html"),
        ("index.md", "days/1.md", "days/1/", "days/1.html"),
        ("index.md", "index.md", "./", "index.html"),
        ("days/1.md", "1.md", "./", "1.html"),
        ("days/1.md", "#a", "#a", "#a"),
        ("days/1.md", "picture.png", "picture.png", "picture.png"),
    ],
)
def test_addresses_that_zensical_does_not_rewrite(
    page: str, target: str, with_folders: str, with_files: str
) -> None:
    assert host.Resolver(page, folders=True)(target) == with_folders
    assert host.Resolver(page, folders=False)(target) == with_files

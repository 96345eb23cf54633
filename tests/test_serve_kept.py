"""What a server keeps: a build that uses it makes, byte for byte, what a clean one makes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

from conftest import CUDA, PYPROJECT
from evidence import cli, readme
from evidence.pages.serving import Serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Tree

CONFIG = """\
site_name: test
theme: {name: material, font: false}
plugins: [search, tags, evidence]
markdown_extensions:
  - admonition
  - attr_list
  - md_in_html
  - toc: {permalink: true}
  - pymdownx.superfences
  - pymdownx.tabbed: {alternate_style: true}
  - evidence
extra_css: [own.css]
"""
ADD = """\
---
title: "1 · Adding"
day: 1
module: 1
tags: [first]
programs: [001-add]
values:
  time: case-n-256/time
---

# Day 1 · Adding

It takes [= time ], see [a thread](glossary.md#thread) and day 2.

/// code | add.cu:greeting
///

/// output | 001-add
///

/// claim
    expect: time < 2
It is fast: [= time ].
///
"""
TWICE = """\
---
title: "2 · Twice"
day: 2
module: 1
needs: [1]
tags: [first, second]
programs: [002-twice]
values:
  time: case-n-256/time
---

# Day 2 · Twice

Twice takes [= time ], as [day 1](001-add.md) said.

/// code | twice.cu:greeting
///

/// output | 002-twice
///

/// diff
    old: add.cu:greeting
    new: twice.cu:greeting
    values:
        time: case-n-256/time
///

/// plot
    kind: bar
    series:
        time: time
Time of one call.
///

/// ledger | 1
///

/// ruling | 1
    claim: It takes 9 ms.
    kind: measurement
    verdict: false
    expect: time < 9
    by: 001-add
It takes [= time ].
///
"""
PAGES = {
    "index.md": "# Front page\n\nOf [day 1](001-add.md). [Nothing](nowhere.md) is there.\n\n/// map\n///\n",
    "course.md": "---\nplan:\n  First steps:\n    1: Adding\n    2: Twice\n    3: Thrice\n---\n\n# Course\n\n/// days\n///\n",
    "001-add.md": ADD,
    "002-twice.md": TWICE,
    "glossary.md": "# Glossary\n\n<span id=thread></span>\n\nThread\n{: #thread }\n\nA thread runs.\n",
    "status.md": "# Status\n\n/// status\n///\n\n/// claims\n///\n\n/// devices\n///\n",
    "tags.md": "# Tags\n\n<!-- material/tags -->\n",
    "prose.md": "# Prose\n\nNothing but words.\n",
    "own.css": "body { color: black }\n",
}
ALWAYS = ["index.md"]  # it has a broken link, of which every build tells
RECORDED = {"001-add/add": "1.25", "002-twice/twice": "1.75"}


def printed(time: str) -> list[list[str]]:
    return [["GPU: NVIDIA H200", "case n = 256", f"  time    {time} ms"]] * 5


@pytest.fixture
def site(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764547200")
    tree.write("pyproject.toml", PYPROJECT.split("# The tests")[0])
    tree.write("kernels/001-add/add.h", "#define HELLO 1\n")
    for name in RECORDED:
        folder, _, stem = name.partition("/")
        text = CUDA.format(stem=stem).replace(
            "#include <", '#include "../001-add/add.h"\n#include <'
        )
        tree.program(folder, stem, text)
    for name, time in RECORDED.items():
        tree.record(name, stdout=printed(time))
    for name, text in PAGES.items():
        tree.write(f"docs/{name}", text)
    tree.write("mkdocs.yml", CONFIG)
    readme.write_all(tree.load())
    done = CliRunner().invoke(cli.group, ["--project", str(tree.root), "reviewed", "--all"])
    assert done.exit_code == 0, done.output
    return tree


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """MkDocs leaves its handlers on the root of its loggers."""
    log = logging.getLogger("mkdocs")
    before = list(log.handlers)
    yield
    log.handlers[:] = before


class Session:
    """A server without its network: builds that keep what they may."""

    def __init__(self, site: Tree) -> None:
        self.site = site
        self.plugin: Any = None
        self.serving: Serving = Serving()

    def build(self, target: str, serving: Serving) -> dict[str, bytes]:
        folder = self.site.root / target
        config = load_config(str(self.site.root / "mkdocs.yml"), site_dir=str(folder))
        plugin: Any = config.plugins["evidence"]
        plugin.serving = serving
        build_command.build(config, serve_url="http://127.0.0.1:8000/")
        plugin.serving = None
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    def kept(self) -> dict[str, bytes]:
        return self.build("kept", self.serving)

    def clean(self) -> dict[str, bytes]:
        fresh = Serving()
        fresh.edits = self.serving.edits  # which lines were edited, only the server knows
        fresh.outputs._compiled = self.serving.outputs._compiled  # saves half of the time
        return self.build("clean", fresh)


def edit(site: Tree, name: str, old: str, new: str) -> None:
    path = site.root / name
    text = path.read_text(encoding="utf-8")
    assert old in text, (name, old)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


Edit = tuple[str, str, str]
EDITS: dict[str, Edit | Callable[[Tree], object]] = {
    "prose": ("docs/prose.md", "but words", "but more words"),
    "code": ("kernels/001-add/add.cu", "hello", "hallo"),
    "code back": ("kernels/001-add/add.cu", "hallo", "hello"),
    "comment": ("kernels/001-add/add.cu", "#include <", "// A comment.\n#include <"),
    "header": ("kernels/001-add/add.h", "HELLO 1", "HELLO 2"),
    "header back": ("kernels/001-add/add.h", "HELLO 2", "HELLO 1"),
    "recorded again": lambda site: site.record("001-add/add", stdout=printed("1.35")),
    "a name elsewhere": ("docs/002-twice.md", "values:\n", "values:\n  regs: 001-add:compile/add-kernel/registers\n"),
    "a number elsewhere": ("docs/002-twice.md", "Twice takes", "With [= regs ] twice takes"),
    "a heading": ("docs/001-add.md", "# Day 1 · Adding", "# Day 1 · Adding it"),
    "a title": ("docs/prose.md", "# Prose", "---\ntitle: Plain prose\n---\n\n# Prose"),
    "a new page": lambda site: site.write("docs/nowhere.md", "# Somewhere\n"),
    "a page less": lambda site: (site.root / "docs/nowhere.md").unlink(),
    "a term": ("docs/glossary.md", "A thread runs.", "A thread runs alone."),
    "the plan": ("docs/course.md", "3: Thrice", "3: Three times"),
    "a day's title": ("docs/001-add.md", '"1 · Adding"', '"1 · Adding up"'),
    "the plan's title": ("docs/course.md", "1: Adding", "1: Adding up"),
    "what a day needs": ("docs/002-twice.md", "needs: [1]\n", ""),
    "a claim that fails": ("docs/001-add.md", "time < 2", "time < 1"),
    "a claim that holds": ("docs/001-add.md", "time < 1", "time < 3"),
    "a directive that fails": ("docs/prose.md", "Nothing", "[= nothing ]"),
    "a directive mended": ("docs/prose.md", "[= nothing ]", "Nothing"),
    "another device": lambda site: site.record(
        "001-add/add", stdout=printed("5.25"),
        device={"compute_capability": "7.5", "driver": "580.1", "label": "t4", "memory_mib": 15360,
                "name": "Tesla T4", "sm_count": 40},
    ),
    "one device less": lambda site: (site.root / "kernels/001-add/evidence/add.t4.json").unlink(),
    "settings": lambda site: site.write("kernels/002-twice/evidence.toml", "[twice]\nruns = 3\n"),
    "settings broken": ("kernels/002-twice/evidence.toml", "runs = 3", "runs ="),
    "settings gone": lambda site: (site.root / "kernels/002-twice/evidence.toml").unlink(),
    "output moved away": ("docs/001-add.md", "/// output | 001-add\n///\n", ""),
    "output moved here": ("docs/prose.md", "# Prose\n", "# Prose\n\n/// output | 001-add\n///\n"),
    "tags": ("docs/002-twice.md", "tags: [first, second]", "tags: [second, third]"),
    "tags' page": ("docs/tags.md", "<!-- material/tags -->", "None."),
    "a region": ("kernels/002-twice/twice.cu", "    // end snippet\n    return 0;", "    return 0;\n    // end snippet"),
    "styles": ("docs/own.css", "black", "blue"),
    "navigation": ("mkdocs.yml", "site_name: test", "site_name: test\nnav: [prose.md, index.md, Days: [001-add.md, 002-twice.md]]"),
    "a section": ("mkdocs.yml", "Days:", "All days:"),
    "an extension": ("mkdocs.yml", "  - admonition\n", ""),
    "architectures": ("pyproject.toml", "runs = 5", "runs = 5\narchitectures = [80]"),
    "labels": ("pyproject.toml", "runs = 5", "runs = 4"),
    "not UTF-8": lambda site: (site.root / "docs/prose.md").write_bytes(b"# Prose\n\n\xff\n"),
    "UTF-8 again": lambda site: site.write("docs/prose.md", PAGES["prose.md"]),
    "evidence lost": lambda site: (site.root / "kernels/002-twice/evidence/twice.h200.json").unlink(),
    "a program less": lambda site: (site.root / "kernels/002-twice/twice.cu").unlink(),
    "a program more": lambda site: site.program("002-twice", "twice", CUDA.format(stem="twice")),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_build_that_uses_what_was_kept_equals_a_clean_one(site: Tree) -> None:
    session = Session(site)
    assert session.kept() == session.clean()
    assert session.kept() == session.clean()
    assert session.serving.kept.rendered == ALWAYS
    for name, change in EDITS.items():
        if callable(change):
            change(site)
        else:
            edit(site, *change)
        made, due = session.kept(), session.clean()
        assert sorted(made) == sorted(due), name
        wrong = [file for file in due if made[file] != due[file]]
        assert wrong == [], name


def test_only_what_shows_an_edit_is_rendered_again(site: Tree) -> None:
    session = Session(site)
    session.kept()
    edit(site, "docs/prose.md", "but words", "but more words")
    session.kept()
    assert session.serving.kept.rendered == ["index.md", "prose.md", "status.md"]  # all claims
    assert session.serving.outputs.made == ["prose.md"]
    edit(site, "kernels/001-add/add.cu", "hello", "hallo")
    session.kept()
    shows = ["001-add.md", "002-twice.md", "sources/001-add.md", "status.md"]
    assert sorted(session.serving.outputs.made) == shows
    assert sorted(session.serving.kept.rendered) == sorted([*ALWAYS, *shows])

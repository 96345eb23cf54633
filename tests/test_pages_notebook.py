"""A notebook on a page: what was recorded, cell by cell, and how to run it."""

from __future__ import annotations

import json
import re

import markdown
import pytest
from markdown.treeprocessors import Treeprocessor

from conftest import Tree
from evidence import check, notebooks, readme
from evidence.errors import EvidenceError
from evidence.pages import colours, hosted, nbpage
from evidence.pages.extension import EvidenceExtension

PAGE = """\
---
programs: [003-walk]
values:
  sum: Result/sum
  time: Result/time
---

# Walk

/// notebook | 003-walk/walk
///

It is [= sum ].
"""
TEXT = "# Its own title\n\nWith a [link](https://example.org/).\n\n## Two <b>sums</b>\n\n    a + b"
CODE = ("print('Result')\nprint('  sum   ', 3)", "# nothing", "40 + 2", "1 / 0")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LEFT = [
    [{"kind": "stdout", "first": 0, "count": 3}],
    [
        {
            "kind": "result",
            "lines": ["<a dot>"],
            "image": {"type": "image/png", "base64": [PNG[:96], PNG[96:]]},
        },
        {"kind": "stderr", "first": 0, "count": 1},
    ],
    [{"kind": "error", "name": "E", "value": "x", "lines": ["Traceback <2>", "E: x"]}],
]


def run(time: str = "1.25") -> dict:
    stdout = ["Result", "  sum    3", f"  time   {time} ms"]
    return {
        "exit_status": 0, "problems": [], "seconds": 1.0, "signal": None,
        "stderr": ["take care"], "stdout": stdout, "timed_out": False,
    }  # fmt: skip


@pytest.fixture
def site(tree: Tree) -> Tree:
    document = json.loads(notebooks.made(TEXT, *CODE))
    document["cells"][0]["cell_type"] = "markdown"
    tree.write("kernels/003-walk/walk.ipynb", notebooks.tidy(json.dumps(document), "walk"))
    tree.write("kernels/003-walk/evidence.toml", "[walk]\nruns = 2\n")
    tools = {"nvcc": "", "host_compiler": "", "python": "3.12.3", "packages": {}}
    runs = [{**run(), "cells": LEFT}, run("1.35")]
    tree.record("003-walk/walk", runs=runs, sanitizers={}, toolchain=tools)
    tree.write("docs/walk.md", PAGE)
    readme.write_all(tree.load())
    return tree


def rendered(site: Tree, **options: str) -> str:
    page = site.root / "docs/walk.md"
    extension = EvidenceExtension(page=str(page), **options)
    text = page.read_text(encoding="utf-8").partition("\n---\n")[2]
    return markdown.Markdown(extensions=["toc", extension]).convert(text)


def test_it_shows_text_code_and_what_was_recorded(site: Tree):
    html = rendered(site)
    assert html.count("<h1") == 1  # the page's, not the notebook's
    assert html.count('id="ev~003-walk~walk"') == 1  # where other pages lead to
    assert '<h2 id="two-sums">Two sums</h2>' in html
    assert '<a href="https://example.org/">link</a>' in html
    assert re.search(r'<pre tabindex="0"><code>a \+ b\n?</code></pre>', html)
    assert re.findall(r'<span class="ev-file">(\[\d\])</span>', html) == ["[1]", "[2]", "[3]"]
    assert "# nothing" not in html
    assert 'id="ev~003-walk~walk~Result~sum">3</b>' in html
    assert 'href="#ev~003-walk~walk~Result~sum"' in html
    assert f'<img src="data:image/png;base64,{PNG}" alt="&lt;a dot&gt;">' in html
    assert '<span class="ev-stderr">take care</span>' in html
    assert '<span class="ev-stderr">Traceback &lt;2&gt;\nE: x</span>' in html
    assert "NVIDIA H200 · driver 580.1 · Python 3.12.3 · jupyter execute walk.ipynb" in html
    assert "the first of 2 runs; what differs between them is dotted" in html
    assert 'data-runs="1.25\n1.35"' in html


def test_a_kernels_source_is_coloured_as_cuda():
    text = 'A = r"""\n__global__ void f() {}\n// why\n"""\nB = """\nno\n"""\nprint(A)'
    rows = nbpage._coloured(text)
    assert rows[1:3] == list(colours.lines("__global__ void f() {}\n// why", "cuda"))
    assert rows[5:] == list(colours.lines(text, "python"))[5:]
    assert [re.sub("<[^>]+>", "", row).replace("&quot;", '"') for row in rows] == text.split("\n")


def test_nothing_of_the_converters_own_styles_and_scripts_is_left(site: Tree):
    html = rendered(site)
    assert re.findall(r"<(?:style|script|link)\b|jp-|cdn|mathjax|clipboard", html) == []
    assert len(html) < 12_000


def test_text_that_is_edited_is_shown_and_needs_no_run(site: Tree):
    path = site.root / "kernels/003-walk/walk.ipynb"
    path.write_text(path.read_text("utf-8").replace("With a", "With another"), "utf-8")
    html = rendered(site)
    assert "With another" in html
    assert "3</b>" in html


def test_code_that_is_edited_fails_a_build_and_shows_no_old_output(site: Tree):
    path = site.root / "kernels/003-walk/walk.ipynb"
    path.write_text(path.read_text("utf-8").replace("40 + 2", "40 + 3"), "utf-8")
    with pytest.raises(EvidenceError, match=r"docs/walk\.md:10: stale: .* walk\.ipynb changed"):
        rendered(site)
    html = rendered(site, on_error="show")
    assert "<strong>Recorded before your last edit" in html
    assert "evidence record 003-walk/walk" in html
    assert "40</span> + " in html or "40 + " in re.sub(r"<[^>]+>", "", html)
    assert "take care" not in html


def test_evidence_that_is_missing_or_edited_fails_a_build(site: Tree):
    path = site.root / "kernels/003-walk/evidence/walk.h200.json"
    text = path.read_text("utf-8")
    path.write_text(text.replace("take care", "take heart"), "utf-8")
    with pytest.raises(EvidenceError, match="was edited after it was recorded"):
        rendered(site)
    path.unlink()
    with pytest.raises(EvidenceError, match="003-walk/walk has no evidence on h200"):
        rendered(site)
    assert "[1]" in rendered(site, on_error="show")


def test_what_is_no_notebook_is_said(site: Tree):
    site.program("001-add", "add")
    site.record("001-add/add")
    readme.write_all(site.load())
    site.write("docs/walk.md", PAGE.replace("003-walk/walk", "add.cu"))
    with pytest.raises(EvidenceError, match=r"kernels/001-add/add\.cu is no notebook — write"):
        rendered(site)
    site.write("docs/walk.md", PAGE.replace(" | 003-walk/walk", ""))
    with pytest.raises(EvidenceError, match=r"`/// notebook` lacks its argument — write"):
        rendered(site)


def test_what_was_converted_is_kept_and_checked(site: Tree, monkeypatch: pytest.MonkeyPatch):
    first = rendered(site)
    [kept] = (site.root / nbpage.FOLDER).glob("*.json")
    monkeypatch.setattr(nbpage, "_convert", lambda _: pytest.fail("converted again"))
    assert rendered(site) == first
    kept.write_text(kept.read_text("utf-8").replace("With a", "With no"), "utf-8")
    with pytest.raises(pytest.fail.Exception, match="converted again"):
        rendered(site)


def test_a_users_own_configuration_counts_for_nothing(site: Tree, monkeypatch: pytest.MonkeyPatch):
    own = site.write(
        "home/jupyter_nbconvert_config.py", "c.TemplateExporter.exclude_markdown = True"
    )
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(own.parent))
    assert "With a" in rendered(site)


# Where it runs


@pytest.mark.parametrize(
    ("url", "edit", "address"),
    [
        ("https://github.com/o/r", "edit/dev/docs/", "o/r/blob/dev/kernels/x%20y/a.ipynb"),
        ("https://github.com/o/r.git", "", "o/r/blob/main/kernels/x%20y/a.ipynb"),
        (
            "https://github.com/o/r/",
            "blob/v1/course/docs",
            "o/r/blob/v1/course/kernels/x%20y/a.ipynb",
        ),
    ],
)
def test_a_repository_on_github_is_opened_with_one_click(url: str, edit: str, address: str):
    found = hosted.Repository(url, edit).notebook("kernels/x y/a.ipynb")
    assert found == f"https://colab.research.google.com/github/{address}"


@pytest.mark.parametrize("url", ["", "https://gitlab.com/o/r", "https://github.com/o"])
def test_no_other_is(url: str):
    assert hosted.Repository(url, "edit/main/docs/").notebook("a.ipynb") is None


def text_of(html: str) -> str:
    [bar] = re.findall(r'<p class="ev-hosted"[^>]*>(.*?)</p>', html)
    return re.sub(r"<[^>]+>", "", bar)


def test_without_a_repository_the_page_says_how(site: Tree):
    html = rendered(site)
    assert text_of(html) == (
        "Download walk.ipynb. Or run it on a hosted GPU: download it, upload it to Colab, "
        "choose a runtime with a GPU, and run all cells."
    )
    assert 'href="https://colab.research.google.com/#upload=true"' in html
    # The file itself, not its code: no site serves it here.
    [data] = re.findall(r'href="data:[^,]*;base64,([^"]+)" download="walk.ipynb"', html)
    import base64

    whole = (site.root / "kernels/003-walk/walk.ipynb").read_bytes()
    assert base64.b64decode(data) == whole


def test_with_one_it_has_a_link(site: Tree):
    class Relpath(Treeprocessor):
        """What MkDocs registers, with what is asked of it here."""

        config = {"repo_url": "https://github.com/o/r", "edit_uri": "edit/dev/docs/",  # noqa: RUF012
                  "docs_dir": str(site.root / "docs")}  # fmt: skip
        file = type("File", (), {"abs_src_path": str(site.root / "docs/walk.md")})()

        def run(self, root):
            pass

    md = markdown.Markdown(extensions=["toc", EvidenceExtension()])
    md.treeprocessors.register(Relpath(md), "relpath", 0)
    html = md.convert(PAGE.partition("\n---\n")[2])
    assert text_of(html) == (
        "Download walk.ipynb. Open it in Colab, choose a runtime with a GPU, and run all cells."
    )
    place = "https://colab.research.google.com/github/o/r/blob/dev/kernels/003-walk/walk.ipynb"
    assert f'href="{place}"' in html


def test_a_region_of_a_notebook_is_shown_and_named_by_the_files_line(site: Tree):
    path = site.root / "kernels/003-walk/walk.ipynb"
    document = json.loads(path.read_text("utf-8"))
    document["cells"][1]["source"] = (
        "# snippet: sum\nprint('Result')\nprint('  sum   ', 3)\n# end snippet"
    )
    path.write_text(notebooks.dump(document), encoding="utf-8")
    lines = path.read_text("utf-8").split("\n")
    [unused] = [f for f in check.run(site.load()).findings if f.code == "region-unused"]
    assert "print('Result')" in lines[unused.line - 1]
    assert (unused.path, unused.severity) == ("kernels/003-walk/walk.ipynb", "error")
    site.write("docs/walk.md", PAGE.replace("It is", "/// code | walk.ipynb:sum\n///\n\nIt is"))
    html = rendered(site)
    assert '<span class="ev-region">sum</span>' in html
    assert 'class="language-python"' in html
    assert [f for f in check.run(site.load()).findings if f.code == "region-unused"] == []
    path.write_text(path.read_text("utf-8").replace("# end snippet", "# end snipet"), "utf-8")
    with pytest.raises(EvidenceError, match=r"walk\.ipynb:\d+: cell \[1\], line 4: "):
        rendered(site)

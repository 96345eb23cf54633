"""What a search plugin sees of a page, and that the page is whole again afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

from evidence import readme
from evidence.pages.shelf import Shelf

if TYPE_CHECKING:
    from conftest import Tree

CODE = (
    '<figure class="ev-code" id="r"><figcaption>add.cu</figcaption><div class="highlight"><pre>'
    '<code class="language-cuda"><a id="L1" href="#L1" tabindex="-1">1</a>'
    '<span class="k">if</span> (a &lt; 10)\n</code></pre></div></figure>'
)
WHOLE = CODE.replace('"ev-code"', '"ev-code ev-whole"')
OUTPUT = (
    '<figure class="ev-output"><pre>printed</pre><details class="ev-record">x</details></figure>'
)
WHY = '<details class="ev-why"><summary>holds</summary><table></table></details>'

DATA = '<details class="ev-data"><summary>The numbers</summary><table></table></details>'


@pytest.mark.parametrize(
    ("part", "seen"),
    [
        (CODE, "<pre><code>if (a &lt; 10)\n</code></pre>"),
        (WHOLE, ""),
        (OUTPUT, ""),
        (WHY, ""),
        (DATA, ""),
    ],
)
def test_what_search_sees_of_a_part(part: str, seen: str) -> None:
    shelf = Shelf()
    taken = shelf.take(f"<p>before</p>\n{part}\n<p>after</p>")
    assert taken == f"<p>before</p>\n<!--ev:0-->{seen}<!--/ev-->\n<p>after</p>"
    assert shelf.put_back(taken) == f"<p>before</p>\n{part}\n<p>after</p>"


@given(
    st.lists(
        st.sampled_from(
            [CODE, WHOLE, OUTPUT, WHY, DATA, "<p>text</p>", "\n", "<details>a</details>"]
        )
    )
)
def test_a_page_is_whole_again(parts: list[str]) -> None:
    shelf, html = Shelf(), "".join(parts)
    assert shelf.put_back(shelf.take(html)) == html


PAGE = """\
# Day 1

Lanes that want one bank wait for each other: a bank conflict.

/// code | add.cu:greeting
///

/// output | 001-add
///
"""


def test_the_index_of_a_site_holds_prose_and_regions(tree: Tree) -> None:
    tree.program()
    tree.record(stdout=[["case n = 256", "  printed-word    1.25 ms"]] * 5)
    tree.write("docs/index.md", PAGE)
    tree.write("docs/source.md", "# Source\n\n/// code | add.cu\n///\n")
    tree.write(
        "mkdocs.yml",
        "site_name: test\ntheme: material\nplugins: [search, evidence]\nmarkdown_extensions: [toc]\n",
    )
    readme.write_all(tree.load())
    build_command.build(load_config(str(tree.root / "mkdocs.yml")))
    text = (tree.root / "site/search/search_index.json").read_text(encoding="utf-8")
    texts = {entry["location"]: entry["text"] for entry in json.loads(text)["docs"]}
    assert "bank conflict" in texts[""]
    assert 'std::printf("hello\\n");' in texts[""]
    assert "printed-word" not in text
    assert "int main" not in text  # the whole source is listed, and not searched
    page = (tree.root / "site/index.html").read_text(encoding="utf-8")
    assert "printed-word" in page
    assert "<!--ev:" not in page
    source = (tree.root / "site/source/index.html").read_text(encoding="utf-8")
    assert '<span class="k">int</span> main()' in source

"""The site's build: green when `evidence check` is, red on the same things."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from mkdocs import __main__ as mkdocs
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

from conftest import Tree
from evidence import check
from evidence.errors import EvidenceError
from evidence.pages import host
from evidence.pages.extension import EvidenceExtension

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = """\
site_name: test
theme: mkdocs
use_directory_urls: true
plugins: [{plugins}]
markdown_extensions:
  - toc
  - pymdownx.superfences
  - evidence
validation:
  anchors: warn
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
It is fast: [= time ].
///
"""
INDEX = """\
---
values:
  time: 001-add:case-n-256/time
---

# Front page

[Day 1](days/001.md) takes [= time ].
"""


@pytest.fixture
def site(tree: Tree) -> Tree:
    tree.program()
    lines = ["case n = 256", "  time    1.25 ms"]
    tree.record(stdout=[lines] * 5)
    tree.write("docs/days/001.md", PAGE)
    tree.write("docs/index.md", INDEX)
    tree.write("mkdocs.yml", CONFIG.format(plugins="evidence"))
    from evidence import readme

    readme.write_all(tree.load())
    return tree


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """MkDocs leaves its handlers on the root of its loggers."""
    log = logging.getLogger("mkdocs")
    before = list(log.handlers)
    yield
    log.handlers[:] = before


def build(tree: Tree) -> tuple[int, str]:
    """Build the site as a person would; return the exit status and what was said."""
    file = str(tree.root / "mkdocs.yml")
    target = str(tree.root / "site")
    result = CliRunner().invoke(mkdocs.cli, ["build", "--strict", "-f", file, "-d", target])
    text = result.output
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        text += f"{type(result.exception).__name__}: {result.exception}"
    return result.exit_code, text


def page(tree: Tree, name: str = "days/001") -> str:
    return (tree.root / "site" / name / "index.html").read_text(encoding="utf-8")


def failing(tree: Tree) -> bool:
    return any(f.severity == "error" for f in check.run(tree.load()).findings)


@pytest.mark.parametrize("plugins", ["evidence", ""])
def test_a_build_is_green_when_check_is(site: Tree, plugins: str) -> None:
    site.write("mkdocs.yml", CONFIG.format(plugins=plugins))
    assert not failing(site)
    status, text = build(site)
    assert (status, "WARNING" in text) == (0, False), text
    html = page(site)
    assert "1.25" in html
    assert "///" not in html
    assert "[=" not in html
    assert "\x02" not in html
    # A link between Markdown files; the number's card reads it from there.
    place = "days/001/#ev~001-add~add~case-n-256~time"
    front = (site.root / "site/index.html").read_text(encoding="utf-8")
    assert f'href="{place}"' in front


def test_nothing_is_asked_of_anybody_else(site: Tree) -> None:
    assert build(site)[0] == 0
    for path in [*(site.root / "site/days").rglob("*.html")]:
        text = path.read_text(encoding="utf-8")
        ours = text[text.index("<figure") : text.rindex("</figure>")]
        assert re.findall(r'(?:src|data|srcset)="https?:', ours) == []


def break_region(site: Tree) -> None:
    site.write("docs/days/001.md", PAGE.replace("add.cu:greeting", "add.cu:greting"))


def break_program(site: Tree) -> None:
    site.write("docs/days/001.md", PAGE.replace("/// output | 001-add", "/// output | 002"))


def break_address(site: Tree) -> None:
    site.write("docs/days/001.md", PAGE.replace("  time: case-n-256", "  time: case-n-257"))


def break_claim(site: Tree) -> None:
    site.write("docs/days/001.md", PAGE.replace("time < 2", "time < 1"))


def break_expression(site: Tree) -> None:
    site.write("docs/days/001.md", PAGE.replace("takes [= time ]", "takes [= time + ]"))


def break_format(site: Tree) -> None:
    site.write("docs/days/001.md", PAGE.replace("takes [= time ]", "takes [= time | .5f ]"))


def break_syntax(site: Tree) -> None:
    site.write("docs/days/001.md", PAGE.replace("takes [= time ]", "takes [= time"))


def make_stale(site: Tree) -> None:
    source = site.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text().replace("return 0", "return 1 - 1"))


def lose(site: Tree) -> None:
    (site.root / "kernels/001-add/evidence/add.h200.json").unlink()


def edit(site: Tree) -> None:
    path = site.root / "kernels/001-add/evidence/add.h200.json"
    path.write_text(path.read_text().replace("1.25", "0.25", 1))


BROKEN = {
    break_program: "docs/days/001.md:14: unknown-program: ",
    break_region: "docs/days/001.md:11: unknown-region: ",
    break_address: "docs/days/001.md:4: unknown-address: ",
    break_claim: "docs/days/001.md:18: claim-fails: ",
    break_expression: "docs/days/001.md:9: bad-expression: ",
    break_format: "docs/days/001.md:9: bad-format: ",
    break_syntax: "docs/days/001.md:9: page-syntax: ",
    make_stale: "docs/days/001.md:9: stale: ",
    lose: "docs/days/001.md:9: missing: ",
    edit: "docs/days/001.md:9: edited: ",
}


@pytest.mark.parametrize("damage", BROKEN, ids=lambda f: f.__name__)
@pytest.mark.parametrize("plugins", ["evidence", ""])
def test_a_build_is_red_when_check_is(site: Tree, damage: object, plugins: str) -> None:
    site.write("mkdocs.yml", CONFIG.format(plugins=plugins))
    damage(site)
    assert failing(site)
    status, text = build(site)
    assert status == 1
    # Without the plugin, the first page that fails ends the build.
    first = BROKEN[damage].replace("days/001.md:9", "index.md:8")
    assert BROKEN[damage] in text or first in text
    # Nothing that is wrong is left to be published.
    assert not (site.root / "site/days/001/index.html").exists()


def test_the_plugin_says_everything_at_once(site: Tree) -> None:
    site.write("docs/days/001.md", PAGE.replace("time < 2", "time < 1"))
    site.write("docs/index.md", INDEX.replace("takes [= time ]", "takes [= tme ]"))
    site.write("docs/other.md", "/// output | 003\n///\n")
    status, text = build(site)
    assert status == 1
    for start in (
        "docs/days/001.md:18: claim-fails: ",
        "docs/index.md:8: unknown-name: ",
        "docs/other.md:1: unknown-program: ",
    ):
        assert f"\n{start}" in text


def test_a_warning_of_check_is_said_and_does_not_fail_a_build(
    site: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    site.write("docs/index.md", INDEX.replace("values:", "values:\n  unused: 001-add:runs/count"))
    assert build(site)[0] == 0
    assert "name-unused: name `unused` is used nowhere on the page" in caplog.text


def serve(tree: Tree) -> None:
    """Build as `mkdocs serve` does, with its plugins told so."""
    config = load_config(str(tree.root / "mkdocs.yml"), site_dir=str(tree.root / "site"))
    config.plugins.on_startup(command="serve", dirty=False)
    build_command.build(config)
    config.plugins.on_shutdown()


@pytest.mark.parametrize("damage", BROKEN.keys() - {make_stale}, ids=lambda f: f.__name__)
def test_under_serve_a_broken_page_is_a_banner(site: Tree, damage: object) -> None:
    damage(site)
    serve(site)
    html = page(site)
    assert '<div class="ev-banner" role="alert">' in html
    assert f"<li>{BROKEN[damage]}" in html
    assert "Day 1" in html


def test_under_serve_evidence_older_than_its_program_is_a_banner_of_its_own(site: Tree) -> None:
    make_stale(site)
    serve(site)
    html = page(site)
    assert (
        '<div class="ev-banner ev-stale" role="status"><strong>Recorded before your last edit.'
        "</strong><ul><li>001-add/add: code of add.cu: <code>b192f96e63df</code> → "
        "<code>32ec8e7ae815</code></li></ul><p>run: <code>evidence record 001-add/add</code></p>"
        "</div>"
    ) in html
    assert "A build would fail" not in html
    assert "1 - 1" not in html  # of the region, nothing changed
    assert "1.25" in html


def test_under_serve_a_mended_page_has_no_banner(site: Tree) -> None:
    break_claim(site)
    serve(site)
    site.write("docs/days/001.md", PAGE)
    serve(site)
    assert "ev-banner" not in page(site)


def test_serve_watches_the_programs(site: Tree) -> None:
    config = load_config(str(site.root / "mkdocs.yml"))
    config = config.plugins.on_config(config)
    assert str(site.root / "kernels") in config.watch


def test_the_plugin_adds_the_extension(site: Tree) -> None:
    site.write("mkdocs.yml", CONFIG.format(plugins="evidence").replace("  - evidence\n", ""))
    assert build(site)[0] == 0
    assert "ev-output" in page(site)


def test_without_a_project_the_plugin_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("text", encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(CONFIG.format(plugins="evidence"), encoding="utf-8")
    status, text = build(Tree(tmp_path))
    assert status == 1
    assert (
        f"{tmp_path}:1: no pyproject.toml with a [tool.evidence] table here or above — run inside "
        "the project, or give its folder: evidence --project DIR …"
    ) in text


def test_a_page_outside_of_mkdocs_is_known_by_zensical(site: Tree) -> None:
    """Zensical's context, without Zensical: only what our code asks of it."""
    import markdown
    from markdown.preprocessors import Preprocessor

    class Context(Preprocessor):
        page = type("Page", (), {"path": "days/001.md", "url": "days/001/"})()
        config = {"docs_dir": str(site.root / "docs"), "watch": [str(site.root)]}  # noqa: RUF012

        def run(self, lines: list[str]) -> list[str]:
            return lines

    body = PAGE.partition("---\n\n")[2]
    md = markdown.Markdown(extensions=["pymdownx.superfences", EvidenceExtension()])
    md.preprocessors.register(Context(md), "rendering_context", 0)
    assert host.of(md, "").path == site.root / "docs/days/001.md"
    assert "1.25" in md.convert(body)
    with pytest.raises(EvidenceError, match=r"^docs/days/001\.md:9: unknown-name"):
        md.convert(body.replace("takes [= time ]", "takes [= tme ]"))


def test_one_build_reads_the_project_once(site: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    from evidence import project

    for number in range(10):
        site.write(f"docs/days/page-{number}.md", PAGE)
    calls = []
    real = project.read
    monkeypatch.setattr(project, "read", lambda *args: calls.append(args) or real(*args))
    assert build(site)[0] == 0
    assert len(calls) <= 3  # the plugin's two checks of the whole, and the pages together


def test_the_site_of_the_project_itself_has_everything_it_links_to() -> None:
    """What the configuration names is in the repository, fonts and their licence too."""
    root = Path(__file__).parent.parent
    css = (root / "docs/assets/notebook.css").read_text(encoding="utf-8")
    fonts = re.findall(r'url\("(fonts/[^"]+)"\)', css)
    assert len(fonts) == 10
    for font in [*fonts, "fonts/LICENSE-serif.txt", "fonts/LICENSE-mono.txt"]:
        assert (root / "docs/assets" / font).is_file()
    for name in ("notebook.css", "evidence.css", "evidence.js"):
        text = (root / "docs/assets" / name).read_text(encoding="utf-8")
        assert re.findall(r"https?:", text) == []


# What a reader must never see: a block, a binding, or a mark of Markdown that nothing has read.
LEFT_OVER = re.compile(
    r"""\[[=!]\s                            # a number
      | ///                                # a block, its options or its end
      | (?:^|>)[ ]*(?:answer|device|expect|log|margin|series|unit|x|y):[ ]
      | <!--ev: | [\x02\x03] | wzxhzdk | klzzwxh  # what stands for something until the end
      | ^[ ]*(?:!!!|\?\?\?\+?|===)[ ]      # an admonition, a fold, a tab
      | \{:?[ ]*[.#][a-z] | \smarkdown(?:=|>)
      | \]\( | href="[^":]*\.md[#"]         # a link
      | \{\{ | \{%
    """,
    re.VERBOSE | re.MULTILINE,
)


def left_over(html: str) -> list[str]:
    """Return what was left unread in a page's prose."""
    prose = re.sub(r"<(code|pre|script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    return [prose[max(0, m.start() - 40) : m.end() + 40] for m in LEFT_OVER.finditer(prose)]


@pytest.mark.parametrize(
    "text",
    ["<p>It takes [= time ].</p>", "<p>[! 48 KiB | source ]</p>", "<p>/// code | add.cu:x</p>",
     "<p>///</p>", "<li>//// output | 001-add</li>", "<p>    expect: time < 2\nIt is fast.</p>",
     "<p>log: x, y</p>\nlog: x, y", "<!--ev:3-->", "<p>\x02wzxhzdk:3\x03</p>", "<p>\n!!! note</p>",
     '<p>\n=== "T4"</p>', "<p>\n??? success</p>", "<p>Lead. { .ev-lead }</p>",
     '<div markdown="1">', "<div markdown>", "<p>[day 2](002.md)</p>", '<a href="../002.md#x">2</a>',
     "<p>{{ page.title }}</p>", "<p>{% block %}</p>"],
)  # fmt: skip
def test_what_nothing_has_read_is_seen(text: str) -> None:
    assert len(left_over(text)) >= 1


@pytest.mark.parametrize(
    "text",
    ["<p>[= x</p>".replace("= ", "="), "<code>[= time ]</code>", "<pre>/// code\n///</pre>",
     "<p>a // b, https://example.org/</p>", "<p>wow!!! really</p>", "<p>{ x }</p>",
     '<a href="https://example.org/x.md">x</a>', "<p>n, log scale: x</p>"],
)  # fmt: skip
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    assert left_over(text) == []


@pytest.mark.slow
def test_the_site_of_the_project_itself(tmp_path: Path) -> None:
    """It builds strictly, holds no unread directive, and asks nobody else for anything."""
    file = str(Path(__file__).parent.parent / "mkdocs.yml")
    arguments = ["build", "--strict", "-q", "-f", file, "-d", str(tmp_path / "site")]
    result = CliRunner().invoke(mkdocs.cli, arguments)
    assert (result.exit_code, result.output) == (0, "")
    asked = re.compile(
        r'<(?:script|link|img|iframe|source|object)\b[^>]*(?:src|href)="(https?:[^"]+)'
    )
    pages = sorted((tmp_path / "site").rglob("*.html"))
    numbers = 0
    for path in pages:
        html = path.read_text(encoding="utf-8")
        numbers += html.count('class="ev-value"')
        assert asked.findall(html) == []
        assert left_over(html) == [], path
    for path in (tmp_path / "site").rglob("*.css"):
        assert re.findall(r"url\(\s*[\"']?https?:[^)]+\)", path.read_text(encoding="utf-8")) == []
    assert len(pages) > 10
    assert numbers > 30

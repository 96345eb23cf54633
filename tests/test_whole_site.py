"""The course's own site: what it asks of the network, what its search finds, and from disk."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
import yaml
from mkdocs.utils import yaml_load

import browsing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Request

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

ROOT = Path(__file__).parent.parent
# One page of each kind.
KINDS = ["index", "course", "days/001-vector-add", "days/030-roofline",
         "days/072-online-normaliser", "days/098-attention-audited", "glossary", "tags",
         "guide/reading", "reference/status", "reference/claims", "reference/devices",
         "reference/ledger",
         "sources/097-attention"]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def online(real_site: Path) -> Path:
    return real_site


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return browsing.built(tmp_path_factory.mktemp("offline"), "offline.yml")


@pytest.fixture(scope="module")
def address(online: Path) -> Iterator[str]:
    with browsing.served(online) as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The front page; a request that leaves the site fails the test."""
    with browsing.opened(browser, address) as opened:
        yield opened


_TAG = re.compile(r"<([a-z]+)(\s[^<>]*)>")
_ADDRESS = re.compile(r"""\s(?:src|href|data|poster|xlink:href)="([^"]*)\"""")
_OTHERS = re.compile(r"""\ssrcset="([^"]*)"|url\(\s*["']?([^"')]+)""")


class Links:
    """What a page links to, and what it makes a browser load."""

    def __init__(self, html: str) -> None:
        self.links: list[str] = []
        self.loaded: list[str] = []
        for tag, attributes in _TAG.findall(html):
            found = [unescape(address) for address in _ADDRESS.findall(attributes)]
            if tag in ("a", "area"):
                self.links += found
            else:
                others = [group for groups in _OTHERS.findall(attributes) for group in groups]
                self.loaded += [*found, *(p.split()[0] for o in others for p in o.split(",") if p)]


def pages(folder: Path) -> dict[Path, Links]:
    """Return what stands on each page of a built site."""
    return {
        path: Links(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))
    }


def search(page: Page, words: str) -> None:
    """Type words into the search, as a reader does, and wait for what it finds."""
    page.locator(".md-search__input").click()
    page.keyboard.type(words)
    page.locator(".md-search-result__item").first.wait_for()


# --- Online: nobody else is asked.


@pytest.mark.parametrize("kind", ["online", "offline"])
def test_no_page_loads_anything_of_anybody_else(kind: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(kind)
    looked_at = 0
    for path, found in pages(folder).items():
        foreign = [url for url in found.loaded if re.match(r"(?!data:)[a-z]+:|//", url)]
        assert foreign == [], path
        looked_at += len(found.loaded)
    assert looked_at > 10 * len(KINDS)
    styles = sorted(folder.rglob("*.css"))
    assert len(styles) > 5
    for path in styles:
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        asked = re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", text)
        assert [a or b for a, b in asked if re.match(r"(?!data:)[a-z]+:|//", a or b)] == [], path


def test_nothing_else_is_asked_while_reading(page: Page, address: str) -> None:
    for kind in KINDS:
        page.goto(address + ("" if kind == "index" else f"{kind}/"))
        page.wait_for_load_state("networkidle")
        number = page.locator("a.ev-value:visible")
        if number.count():
            number.first.hover()
            assert page.locator(".ev-card").count() == 1
        for details in page.locator("details > summary:visible").all()[:3]:
            details.click()
    search(page, "warp")
    page.keyboard.press("Escape")
    page.locator("[for^=__palette]:visible").click()
    page.wait_for_load_state("networkidle")


# --- The search.


def test_search_is_loaded_when_somebody_searches(browser: Browser, address: str) -> None:
    """By the key, a click, a tap or a link, and not before."""

    def key(page: Page) -> None:
        page.keyboard.press("/")

    def click(page: Page) -> None:
        page.locator(".md-search__input").click()

    def tap(page: Page) -> None:
        page.set_viewport_size({"width": 360, "height": 740})
        page.locator("label[for=__search]:visible").first.tap()

    for open_search in (key, click, tap):
        with browsing.opened(browser, address, has_touch=True) as page:
            asked: list[str] = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto(address + "glossary/")
            page.wait_for_load_state("networkidle")
            assert len(asked) > 5
            assert [url for url in asked if "/search" in url] == []
            open_search(page)
            page.keyboard.type("deadlock")
            page.locator(".md-search-result__item").first.wait_for()
            names = [urlsplit(url).path.rsplit("/", 1)[1] for url in asked if "/search" in url]
            assert [re.sub(r"\.\w{8}\.", ".", name) for name in sorted(names)] == [
                "search.min.js", "search_index.json"]  # fmt: skip


def test_a_link_can_hold_a_search(page: Page, address: str) -> None:
    page.goto(f"{address}?q=deadlock")
    page.locator(".md-search-result__item").first.wait_for()
    assert page.locator(".md-search__input").input_value() == "deadlock"


@pytest.mark.parametrize("words", ["bank conflict", "stack frame", "deadlock"])
def test_the_first_hits_are_about_what_was_asked(page: Page, words: str) -> None:
    page.wait_for_load_state("networkidle")
    search(page, words)
    page.wait_for_function(
        "document.querySelector('.md-search-result__meta').innerText.match(/\\d/)"
    )
    hits = page.locator(".md-search-result__item").evaluate_all(
        """items => items.map(item => [...item.querySelectorAll("a")].map(a => ({
            to: new URL(a.href).pathname + new URL(a.href).hash,
            text: a.innerText,
        })))"""
    )
    # The first one, page or section, has it in its title or its tags.
    first = " ".join(link["text"] for link in hits[0]).lower().split()
    assert words in " ".join(first)
    # Every day that is named or tagged after it comes first, and where the term is explained.
    wanted = [f"/glossary/#{words.replace(' ', '-')}"]
    for path in (ROOT / "docs/days").glob("*.md"):
        front = yaml.safe_load(path.read_text(encoding="utf-8").split("---\n")[1])
        named = [str(front["title"]), *front.get("tags", [])]
        if any(words in re.sub(r"s\b", "", name.lower()) for name in named):
            wanted.append(f"/days/{path.stem}/")
    top = [link["to"] for hit in hits[: len(wanted) + 2] for link in hit]
    assert [to for to in wanted if to not in top] == [], top
    # What only lists other pages is no hit.
    everything = [link["to"] for hit in hits for link in hit]
    assert [to for to in everything if re.match("/reference/(claims|status)/", to)] == []


def test_the_index_holds_prose_and_little_else(online: Path) -> None:
    index = online / "search/search_index.json"
    entries = json.loads(index.read_text(encoding="utf-8"))["docs"]
    count = len([path for path in online.rglob("index.html") if "sources" not in path.parts])
    assert len({entry["location"].partition("#")[0] for entry in entries}) >= count
    # Listings and outputs would make it several times as large.
    assert len(gzip.compress(index.read_bytes())) < 3200 * count
    assert max(len(entry["text"]) for entry in entries) < 12_000


# --- From disk.


@contextlib.contextmanager
def from_disk(browser: Browser, folder: Path, name: str) -> Iterator[tuple[Page, list[str]]]:
    """Open a page from disk, without a network; give it and what it has asked for."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(10_000)
    asked: list[str] = []
    trouble: list[str] = []

    def look(request: Request) -> None:
        asked.append(request.url)
        if not request.url.startswith(("data:", f"{folder.as_uri()}/")):
            trouble.append(request.url)

    page.on("request", look)
    page.on("requestfailed", lambda request: trouble.append(f"failed: {request.url}"))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto((folder / f"{name}.html").as_uri())
    page.wait_for_load_state("load")
    yield page, asked
    context.close()
    assert trouble == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_from_disk_is_complete(browser: Browser, offline: Path, kind: str) -> None:
    with from_disk(browser, offline, kind) as (page, asked):
        families = page.evaluate(
            """async () => {
                await document.fonts.ready;
                return [...document.fonts].filter(f => f.status === "loaded").map(f => f.family);
            }"""
        )
        assert "Plex Serif" in {family.strip('"') for family in families}
        unstyled = page.evaluate(
            "[...document.querySelectorAll('link[rel=stylesheet]')].filter(l => !l.sheet).length"
        )
        assert unstyled == 0
        kinds = {Path(urlsplit(url).path).suffix for url in asked if url.startswith("file:")}
        assert {".html", ".css", ".js", ".woff2"} <= kinds


def test_every_link_from_disk_leads_to_a_file(offline: Path) -> None:
    looked_at = 0
    for path, found in pages(offline).items():
        if path.name == "404.html":
            continue  # only a server shows it
        for link in [*found.links, *found.loaded]:
            target = urlsplit(urldefrag(urljoin(path.as_uri(), link))[0])
            if target.scheme == "file":
                assert Path(unquote(target.path)).is_file(), f"{path.name}: {link}"
                looked_at += 1
    assert looked_at > 1000


def test_a_number_from_disk_shows_its_card_and_leads_to_its_place(
    browser: Browser, offline: Path
) -> None:
    with from_disk(browser, offline, "index") as (page, _):
        number = page.locator("a.ev-value:visible").first
        number.hover()
        card = page.locator(".ev-card")
        assert "/" in card.inner_text()
        number.click()
        page.wait_for_url("**/days/*.html#ev~*")
        lit = page.evaluate("document.getElementById(decodeURIComponent(location.hash.slice(1)))"
                            ".getBoundingClientRect().top")  # fmt: skip
        assert 0 <= lit < 800


def test_the_stepper_works_from_disk(browser: Browser, offline: Path) -> None:
    with from_disk(browser, offline, "days/072-online-normaliser") as (page, _):
        stepper = page.locator(".ev-stepper")
        before = stepper.inner_text()
        stepper.get_by_role("button", name="Forward").click()
        assert stepper.inner_text() != before


@pytest.mark.parametrize("words", ["stack frame", "deadlock"])
def test_search_works_from_disk(browser: Browser, offline: Path, words: str) -> None:
    with from_disk(browser, offline, "guide/reading") as (page, asked):
        page.wait_for_timeout(200)
        search(page, words)
        term = f"glossary.html#{words.replace(' ', '-')}"
        hit = page.locator(f".md-search-result__item a[href$='#{term.partition('#')[2]}']").first
        hit.click()
        page.wait_for_url(re.compile(re.escape(offline.as_uri()) + r"/glossary\.html.*#"))
        assert page.locator("mark", has_text=words.split(maxsplit=1)[0]).count() > 0
        assert any("search_index.js" in url for url in asked)


def test_the_site_for_disk_has_all_plugins_of_the_other() -> None:
    def read(name: str) -> list[str]:
        text = (ROOT / name).read_text(encoding="utf-8")
        plugins = text[text.index("\nplugins:") :].split("\n\n")[0]
        # MkDocs' own way to read it, which knows names of functions.
        return list(yaml_load(plugins)["plugins"])

    assert read("offline.yml") == [*read("mkdocs.yml"), "offline"]


def test_what_comes_from_elsewhere_has_its_licence_beside_it() -> None:
    folder = ROOT / "docs/assets/offline"
    assert sorted(path.name for path in folder.iterdir()) == [
        "LICENSE.txt", "SOURCE.txt", "iframe-worker.js"]  # fmt: skip
    assert "Permission is hereby granted" in (folder / "LICENSE.txt").read_text(encoding="utf-8")
    assert "iframe-worker 1.0.4" in (folder / "SOURCE.txt").read_text(encoding="utf-8")


def test_make_knows_the_site_for_disk() -> None:
    def make(*words: str) -> str:
        command = ["make", "--no-print-directory", *words]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    assert "make offline   build the site into site-offline/, to be opened from disk\n" in make(
        "help"
    )
    assert "mkdocs build --strict --clean --quiet --config-file offline.yml" in make(
        "-n", "offline"
    )
    assert "make offline" in (ROOT / "README.md").read_text(encoding="utf-8")

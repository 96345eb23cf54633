"""The reader's parts in a real browser: progress, guesses, terms, keys, paper, no scripts."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

import browsing
from browsing import SCHEMES, WIDTHS
from conftest import PYPROJECT, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parent.parent
NAV = """\
nav:
  - Front page: index.md
  - The course: course.md
  - The days: # evidence nav
      - 1 · First steps:
          - days/001-one.md
          - days/002-two.md
  - Reading: guide/reading.md
  - Glossary: glossary.md
  - Tags: tags.md
  - Status: reference/status.md
  - Claims: reference/claims.md
  - Ledger: reference/ledger.md
  - Devices: reference/devices.md
"""
PAGES = {
    "index.md": """\
---
title: Front
hide: [navigation, toc]
programs: [001-add]
values:
  time: case-n-256/time
---

<div class="ev-home" markdown>

<div class="ev-home-say" markdown>

# Front

Lead.
{ .ev-lead }

/// claim
    expect: time < 2
It takes [= time ].
///

</div>

<div class="ev-home-map" markdown>

## The course

/// map
///

</div>

</div>
""",
    "course.md": """\
---
title: The course
hide: [toc]
plan:
  First steps:
    1: One
    2: Two
    3: Three
---

# The course

/// map
///

/// days
///
""",
    "days/001-one.md": """\
---
title: "1 · One"
day: 1
module: 1
tags: [adding, printing]
programs: [001-add]
values:
  time: case-n-256/time
  moved: case-n-256/bytes
---

# One

A [warp](../glossary.md#warp) of threads, as on day 2 and day 3, takes [= time ], and no
more than [! 50 ms | [a page](https://example.org/) ].

/// predict
    answer: time | .1f
How long does it take?
///

/// predict
    answer: moved / moved * 8
    unit: times
How many *times*?
///

/// code | add.cu:greeting
///

/// claim
    expect: time < 2
It is fast.
///

/// output | 001-add
///

!!! note "Title"

    An admonition with a [link](https://example.org/).

| a | b |
|---|---|
| 1 | 2 |

```sh
make site
```

```sh
make test
```
""",
    "days/002-two.md": '---\ntitle: "2 · Two"\nday: 2\nmodule: 1\nneeds: [1]\n---\n\n# Two\n\nText.\n',
    "glossary.md": "# Glossary\n\n## Warp\n\n32 threads that run together. A *lane* is one.\n",
    "tags.md": "# Tags\n\n<!-- material/tags -->\n",
    "reference/status.md": "# Status\n\n/// status\n///\n",
    "reference/ledger.md": "# Ledger\n",
    "reference/claims.md": "# Claims\n\n/// claims\n///\n",
    "reference/devices.md": "# Devices\n\n/// devices\n///\n",
    "reference/page-syntax.md": "# Page syntax\n",
    "sources/001-add.md": "# Source\n\n/// code | 001-add/add.cu\n///\n",
}
RUNS = [
    ["GPU: NVIDIA H200 (compute capability 9.0)", "case n = 256", f"  time    {time:.2f} ms",
     "  bytes   1024 B"]
    for time in (1.00, 1.10, 1.30)
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a small site with the real look, and evidence that was made up."""
    tree = Tree(tmp_path_factory.mktemp("site"))
    tree.write("pyproject.toml", PYPROJECT)
    config = browsing.look(tree.root)
    config = re.sub(r"(?m)^watch:\n(?:  .*\n)+", "", config)
    tree.write("mkdocs.yml", f"{config}not_in_nav: |\n  /sources/*.md\n  page-syntax.md\n{NAV}")
    tree.program()
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 3\n")
    tree.record(stdout=RUNS)
    shutil.copytree(ROOT / "docs/guide", tree.root / "docs/guide")
    for path in (tree.root / "docs/guide").iterdir():
        if path.name != "reading.md":
            path.unlink()
    for name, text in PAGES.items():
        tree.write(f"docs/{name}", text)
    from evidence import readme

    readme.write_all(tree.load())
    build_command.build(load_config(str(tree.root / "mkdocs.yml")))
    with browsing.served(tree.root / "site") as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with browsing.opened(browser, address) as opened:
        yield opened


DAY = "days/001-one/"


def kept(page: Page, name: str) -> object:
    text = page.evaluate("name => localStorage.getItem('cuda-measured.' + name)", name)
    return None if text is None else json.loads(text)


# --- Progress.


def test_a_day_is_marked_as_read_by_its_button(page: Page, address: str) -> None:
    page.goto(address + DAY)
    button = page.get_by_role("button", name="I have read day 1")
    assert button.get_attribute("aria-pressed") == "false"
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    assert kept(page, "read") == [1]
    ticks = page.locator(".md-nav--primary a:has(.ev-tick)")
    assert [text.split() for text in ticks.all_inner_texts()] == [["1", "·", "One", "✓"]]
    page.goto(address)
    assert page.locator(".ev-progress").inner_text() == "You have read 1 of the 2."
    assert page.locator("a[data-day]:has(.ev-tick)").get_attribute("data-day") == "1"
    name = page.locator("a[data-day='1']").get_by_role("img").get_attribute("aria-label")
    assert name == "read"
    page.goto(address + DAY)
    page.get_by_role("button", name="I have read day 1").click()
    assert kept(page, "read") == []
    assert page.locator(".ev-tick").count() == 0


def test_nothing_is_read_at_first(page: Page, address: str) -> None:
    page.goto(address + "course/")
    assert page.locator(".ev-progress").inner_text() == "You have marked none as read."
    assert page.locator(".ev-tick").count() == 0


def test_everything_is_forgotten_at_a_click(page: Page, address: str) -> None:
    page.goto(address + DAY)
    page.keyboard.press("r")
    guess(page.locator(".ev-predict").first, "3")
    page.goto(address + "guide/reading/")
    page.locator("[data-keys]").uncheck()
    assert kept(page, "keys") is False
    page.get_by_role("button", name="Forget everything").click()
    assert page.get_by_role("status").filter(has_text="Forgotten.").count() == 1
    assert page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('cuda-'))") == []
    assert page.locator("[data-keys]").is_checked()
    page.goto(address + DAY)
    assert page.locator(".ev-committed, .ev-tick").count() == 0


@pytest.mark.parametrize("value", ['{"a": 1}', "not json", "null", "7", '["x", 1]'])
def test_what_somebody_else_has_kept_breaks_nothing(
    browser: Browser, address: str, value: str
) -> None:
    with browsing.opened(browser, address) as page:
        for name in ("read", "guesses", "keys"):
            page.evaluate(
                "([n, v]) => localStorage.setItem('cuda-measured.' + n, v)", [name, value]
            )
        page.goto(address + DAY)
        guess(page.locator(".ev-predict").first, "3")
        assert page.locator(".ev-committed").count() == 1


def test_without_storage_everything_lasts_as_long_as_the_page(
    browser: Browser, address: str
) -> None:
    with browsing.opened(browser, address) as page:
        page.add_init_script(
            """for (const name of ["getItem", "setItem", "removeItem"]) {
                const real = Storage.prototype[name];
                Storage.prototype[name] = function (key, ...more) {
                    if (key.startsWith("cuda-")) throw new DOMException("no", "SecurityError");
                    return real.call(this, key, ...more);
                };
            }"""
        )
        page.goto(address + DAY)
        page.keyboard.press("r")
        assert page.locator(".md-nav--primary .ev-tick").count() == 1
        guess(page.locator(".ev-predict").first, "3")
        assert page.locator(".ev-committed").count() == 1


# --- Guesses.


def guess(box: Locator, text: str) -> None:
    box.locator("input").fill(text)
    box.locator("input").press("Enter")


def told(box: Locator) -> str:
    text = box.locator(".ev-told > p").inner_text().replace("\N{NO-BREAK SPACE}", " ")
    return text.removesuffix("Guess again").strip()


def test_the_answer_waits_for_the_guess(page: Page, address: str) -> None:
    page.goto(address + DAY)
    box = page.locator(".ev-predict").first
    assert box.inner_text().split("\n")[0] == "Predict"
    assert "1.1" not in box.inner_text()
    assert not box.locator(".ev-answer").is_visible()
    box.get_by_label("Your guess").fill("3")
    box.get_by_role("button", name="Commit").click()
    assert told(box) == "You said 3; measured: 1.1 ms. Your guess is 2.73 times too large."
    assert not box.locator("form").is_visible()
    assert page.evaluate("document.activeElement.textContent") == "Guess again"
    # The number in the answer has its card.
    box.locator(".ev-told .ev-value").hover()
    assert "case-n-256/time" in page.locator(".ev-card").inner_text()


@pytest.mark.parametrize(
    ("which", "text", "expected"),
    [
        (0, "1.1", "You said 1.1; measured: 1.1 ms. That is within what was measured."),
        (0, "1,2 ms", "You said 1.2; measured: 1.1 ms. That is within what was measured."),
        (0, "1.35", "You said 1.35; measured: 1.1 ms. Your guess is 1.23 times too large."),
        (0, "0.99", "You said 0.99; measured: 1.1 ms. Your guess is 1.11 times too small."),
        (0, "1e-3", "You said 0.001; measured: 1.1 ms. Your guess is 1100 times too small."),
        (0, "0", "You said 0; measured: 1.1 ms. Your guess is off by 1.1 ms."),
        (0, "-2", "You said -2; measured: 1.1 ms. Your guess is off by 3.1 ms."),
        (1, "8x", "You said 8; measured: 8 times. That is within what was measured."),
        (1, "8.5", "You said 8.5; measured: 8 times. That is within a tenth of it."),
        (1, "16", "You said 16; measured: 8 times. Your guess is 2 times too large."),
    ],
)
def test_a_guess_is_held_against_what_was_measured(
    page: Page, address: str, which: int, text: str, expected: str
) -> None:
    page.goto(address + DAY)
    box = page.locator(".ev-predict").nth(which)
    guess(box, text)
    assert told(box) == expected


@pytest.mark.parametrize("text", ["", "many", "1 or 2", "1.2.3", "--1", "NaN", "Infinity"])
def test_what_is_no_number_is_no_guess(page: Page, address: str, text: str) -> None:
    page.goto(address + DAY)
    box = page.locator(".ev-predict").first
    guess(box, text)
    assert page.locator(".ev-committed").count() == 0
    assert not box.locator("input").evaluate("field => field.validity.valid")
    guess(box, "2")
    assert page.locator(".ev-committed").count() == 1


def test_a_guess_is_kept_and_can_be_taken_back(page: Page, address: str) -> None:
    page.goto(address + DAY)
    guess(page.locator(".ev-predict").nth(1), "4")
    page.goto(address + DAY)
    first, second = page.locator(".ev-predict").all()[:2]
    assert told(second) == "You said 4; measured: 8 times. Your guess is 2 times too small."
    assert first.locator("form").is_visible()
    second.get_by_role("button", name="Guess again").click()
    assert second.locator("form").is_visible()
    assert page.evaluate("document.activeElement.tagName") == "INPUT"
    assert kept(page, "guesses") == {}


def places(box: Locator) -> dict[str, float]:
    """Return where marks lie on the axis, from 0 to 1."""
    return box.evaluate(
        """box => {
            const axis = box.querySelector(".ev-axis").getBoundingClientRect();
            const at = kind => (box.querySelector(".ev-axis-" + kind).getBoundingClientRect().left
                - axis.left) / axis.width;
            const ticks = [...box.querySelectorAll(".ev-axis-tick")];
            return Object.fromEntries([["guess", at("guess")], ["value", at("value")],
                ...ticks.map(t => [t.textContent,
                    (t.getBoundingClientRect().left - axis.left) / axis.width])]);
        }"""
    )


@pytest.mark.parametrize(
    ("which", "text", "expected", "log"),
    [
        (0, "2", {"guess": 1.0, "value": 0.55, "0": 0.0, "1": 0.5, "2": 1.0}, False),
        (0, "-1", {"guess": 0.0, "value": 0.7, "-1": 0.0, "0": 0.333, "2": 1.0}, False),
        (1, "0.08", {"guess": 0.301, "value": 0.968, "0.01": 0.0, "0.1": 0.333, "1": 0.667,
                     "10": 1.0}, True),
        (1, "8e9", {"guess": 0.99, "value": 0.09, "1": 0.0, "100": 0.2, "10000": 0.4,
                    "1000000": 0.6, "100000000": 0.8, "10000000000": 1.0}, True),
    ],
)  # fmt: skip
def test_guess_and_measurement_lie_on_one_axis(
    page: Page, address: str, which: int, text: str, expected: dict[str, float], log: bool
) -> None:
    page.goto(address + DAY)
    box = page.locator(".ev-predict").nth(which)
    guess(box, text)
    assert places(box) == pytest.approx(expected, abs=0.012)
    assert (box.locator(".ev-axis-log").count() == 1) is log


def test_the_answer_moves_nothing_below_it(page: Page, address: str) -> None:
    page.goto(address + DAY)
    figure = page.locator(".ev-code").first
    before = figure.bounding_box()
    guess(page.locator(".ev-predict").first, "3")
    assert figure.bounding_box() == before


# --- Terms.


def test_a_term_shows_its_definition(page: Page, address: str) -> None:
    page.goto(address + DAY)
    term = page.locator(".ev-term")
    term.hover()
    card = page.locator(".ev-card")
    assert card.inner_text() == "32 threads that run together. · glossary"
    assert term.get_attribute("aria-describedby") == card.get_attribute("id")
    page.mouse.move(5, 700)
    assert card.count() == 0
    assert term.get_attribute("aria-describedby") is None
    term.focus()
    assert card.count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "glossary"
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary/#warp")


def test_a_tap_shows_a_definition_and_its_link_leads_on(browser: Browser, address: str) -> None:
    touch = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    with browsing.opened(browser, address, **touch) as page:
        page.goto(address + DAY)
        page.locator(".ev-term").tap()
        assert page.locator(".ev-card").count() == 1
        assert page.url == address + DAY
        page.locator(".ev-card a").tap()
        page.wait_for_url("**/glossary/#warp")


# --- The map.


def test_a_cell_names_its_day_and_lights_its_lines(page: Page) -> None:
    cell = page.locator("a[data-day='2']")
    lines = page.locator(".ev-map-wide")
    faint = lines.evaluate("e => getComputedStyle(e).opacity")
    for point in (cell.hover, cell.focus):
        point()
        title = cell.locator(".ev-map-title")
        assert title.inner_text().split("\n") == ["Two", "builds on 1"]
        assert title.bounding_box()["width"] > 40
        assert lines.evaluate("e => getComputedStyle(e).opacity") == "1" != faint
        page.mouse.move(5, 700)


def test_a_line_goes_from_cell_to_cell(page: Page) -> None:
    for width, kind in ((1280, "wide"), (320, "narrow")):
        page.set_viewport_size({"width": width, "height": 800})
        lines = page.locator(f".ev-map-{kind}")
        lines.scroll_into_view_if_needed()
        assert lines.is_visible()
        ends = lines.locator("path").evaluate(
            """path => [0, path.getTotalLength()].map(at => {
                const point = path.getPointAtLength(at).matrixTransform(path.getScreenCTM());
                return document.elementsFromPoint(point.x, point.y)
                    .find(e => e.matches("a[data-day]")).dataset.day;
            })"""
        )
        assert ends == ["1", "2"]


def test_planned_days_are_no_links(page: Page) -> None:
    planned = page.locator(".ev-planned > .ev-map-cell")
    assert planned.count() == 1
    assert page.locator(".ev-map a").count() == 2
    planned.hover()
    assert planned.locator(".ev-map-title").inner_text() == "Three (planned)"


# --- Keys.


def test_the_keys_are_listed_alike_in_the_dialog_and_on_the_page(page: Page, address: str) -> None:
    page.goto(address + "guide/reading/")
    rows = """rows => rows.map(r => [...r.cells].map(c =>
        c.textContent.trim().replace(/\\s+/g, " ")))"""
    table = page.locator("#keys ~ .md-typeset__scrollwrap").first
    on_page = table.locator("tbody tr").evaluate_all(rows)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    assert dialog.is_visible()
    assert dialog.locator("tr").evaluate_all(rows) == on_page
    assert len(on_page) == 6
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


@pytest.mark.parametrize(("key", "goes"), [("n", "days/002-two/"), (".", "days/002-two/"),
                                           ("p", "course/"), (",", "course/")])  # fmt: skip
def test_keys_turn_pages(page: Page, address: str, key: str, goes: str) -> None:
    page.goto(address + DAY)
    page.wait_for_load_state("load")
    page.keyboard.press(key)
    page.wait_for_url(address + goes)


@pytest.mark.parametrize("key", ["/", "s", "f"])
def test_keys_open_the_search(page: Page, key: str) -> None:
    page.wait_for_load_state("load")
    page.keyboard.press(key)
    assert page.evaluate("document.activeElement.matches('.md-search__input')")


def test_keys_belong_to_who_writes_and_to_an_open_dialog(page: Page, address: str) -> None:
    page.goto(address + DAY)
    page.locator(".ev-predict input").first.focus()
    page.keyboard.type("rn?")
    assert kept(page, "read") is None
    page.locator("h1").click()
    page.keyboard.press("Control+r")
    page.wait_for_load_state("load")
    assert kept(page, "read") is None
    page.keyboard.press("?")
    page.keyboard.type("nr")
    assert page.url == address + DAY
    assert kept(page, "read") is None
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    assert kept(page, "read") == [1]


def test_single_letters_can_be_turned_off(page: Page, address: str) -> None:
    page.goto(address + DAY)
    page.keyboard.press("?")
    choice = page.get_by_label("Single letters and signs are keys")
    assert choice.is_checked()
    choice.press(" ")
    assert not choice.is_checked()
    page.get_by_role("button", name="Close").press("Enter")
    page.keyboard.type("nr?")
    assert page.url == address + DAY
    assert kept(page, "read") is None
    assert not page.get_by_role("dialog", name="Keys").is_visible()
    page.goto(address + "guide/reading/")
    assert not page.locator("[data-keys]").is_checked()
    page.locator("[data-keys]").check()
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()


def test_every_part_is_reached_by_keyboard(page: Page, address: str) -> None:
    page.goto(address + DAY)
    reached = set()
    page.locator(".md-content h1").evaluate("h1 => { h1.tabIndex = -1; h1.focus(); }")
    for _ in range(60):
        page.keyboard.press("Tab")
        reached |= set(page.evaluate("[...document.activeElement.classList]"))
        reached.add(page.evaluate("document.activeElement.tagName"))
        if page.evaluate("!!document.activeElement.closest('.md-footer')"):
            break
    assert {"ev-term", "ev-value", "INPUT", "BUTTON", "SUMMARY", "PRE", "ev-button"} <= reached


# --- Paper, and no scripts.


def test_on_paper_only_the_page_itself_is_left(page: Page, address: str) -> None:
    page.goto(address + DAY)
    page.emulate_media(media="print")
    for gone in (".md-header", ".md-sidebar--primary", ".md-footer", ".ev-tools", ".ev-done",
                 ".ev-guess", ".headerlink", ".md-code__nav"):  # fmt: skip
        assert not page.locator(gone).first.is_visible(), gone
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert not page.locator(".ev-answer").first.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    links = page.locator(".md-content a[href^='https']:not(.ev-value)").evaluate_all(
        "found => found.map(a => [a.href, getComputedStyle(a, '::after').content])"
    )
    assert ["https://example.org/", '" (" attr(href) ")"'] in [
        [href, content.replace('"https://example.org/"', "attr(href)")] for href, content in links
    ] or ["https://example.org/", '" (https://example.org/)"'] in links
    assert page.locator(".md-content").bounding_box()["width"] > 1000


def test_on_paper_a_page_is_made(page: Page, address: str) -> None:
    page.goto(address + DAY)
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF-")


def test_without_scripts_the_question_stands_and_its_answer_is_folded(
    browser: Browser, address: str
) -> None:
    with browsing.opened(browser, address, java_script_enabled=False) as page:
        page.goto(address + DAY)
        box = page.locator(".ev-predict").first
        assert "How long does it take?" in box.inner_text()
        assert not box.locator("form").is_visible()
        answer = box.locator("details")
        assert "1.1" not in box.inner_text()
        answer.locator("summary").click()
        assert "Measured: 1.1\N{NO-BREAK SPACE}ms" in answer.inner_text()
        assert not page.locator(".ev-done").is_visible()
        page.locator(".ev-term").click()
        page.wait_for_url("**/glossary/#warp")
        page.goto(address)
        assert not page.locator(".ev-progress").is_visible()
        page.locator("a[data-day='2']").click()
        page.wait_for_url("**/days/002-two/")


# --- Everybody.

TYPES = ["", "course/", DAY, "days/002-two/", "glossary/", "tags/", "guide/reading/",
         "reference/status/", "reference/claims/", "reference/devices/", "sources/001-add/",
         "404.html"]  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(browser: Browser, address: str, scheme: str, width: int) -> None:
    looks = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    with browsing.opened(browser, address, **looks, reduced_motion="reduce") as page:
        for name in TYPES:
            page.goto(address + name)
            page.wait_for_load_state("load")
            assert browsing.violations(page) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_in_what_opens(
    browser: Browser, address: str, scheme: str, width: int
) -> None:
    looks = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    with browsing.opened(browser, address, **looks, reduced_motion="reduce") as page:
        page.goto(address + DAY)
        page.keyboard.press("r")
        guess(page.locator(".ev-predict").first, "0.001")
        for summary in page.locator("summary:visible").all():
            summary.click()
        page.locator(".ev-term").focus()
        assert page.locator(".ev-card").count() == 1
        assert browsing.violations(page) == []
        page.keyboard.press("?")
        assert browsing.violations(page) == []
        page.goto(address)
        page.locator("a[data-day='2']").focus()
        assert browsing.violations(page) == []


def test_nothing_moves_for_those_who_want_no_motion(browser: Browser, address: str) -> None:
    with browsing.opened(browser, address, reduced_motion="reduce") as page:
        page.goto(address + DAY)
        moving = page.evaluate(
            """[...document.querySelectorAll("*")].filter(e => {
                const style = getComputedStyle(e);
                return style.transitionDuration.split(", ").some(d => parseFloat(d) > 0)
                    && style.transitionProperty !== "none" || style.animationName !== "none";
            }).map(e => e.className)"""
        )
        assert moving == []

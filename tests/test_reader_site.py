"""The site itself in a real browser: every type of page for every reader.

What a single part does is tested on made pages elsewhere; here are the pages that are published.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

import browsing
from browsing import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

PLOT_DAY, STEPPER_DAY = "days/097-attention/", "days/072-online-normaliser/"
TYPES = ["", "course/", PLOT_DAY, STEPPER_DAY, "sources/001-vector-add/", "reference/status/",
         "reference/claims/", "reference/devices/", "reference/ledger/", "glossary/", "tags/",
         "guide/reading/", "notebooks/gated-recurrence/", "reference/page-syntax/",
         "404.html"]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(real_site: Path) -> Iterator[str]:
    with browsing.served(real_site) as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with browsing.opened(browser, address) as opened:
        yield opened


def to(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_load_state("load")


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent")).strip()


# --- Everybody.


# What is the same again and again: a page has a few of each, and axe takes its time.
SHORTEN = """document.querySelectorAll(`.ev-whole code > :nth-child(n+200),
    .ev-claims:nth-of-type(n+5), .ev-claims li:nth-of-type(n+4), .ev-overview tr:nth-child(n+12)`)
    .forEach(e => e.remove())"""


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_on_any_type_of_page(
    browser: Browser, address: str, scheme: str, name: str
) -> None:
    with browsing.opened(browser, address, color_scheme=scheme, reduced_motion="reduce") as page:
        to(page, address + name)
        page.evaluate(SHORTEN)
        assert browsing.violations(page) == []
        page.set_viewport_size({"width": 320, "height": 800})
        # Colours are those of the wide page. The rule costs more than all others together, and
        # test_reader_browser.py has it for made pages of each type.
        assert browsing.violations(page, without=["color-contrast"]) == []


def test_no_page_is_wider_than_a_small_phone(
    browser: Browser, address: str, real_site: Path
) -> None:
    with browsing.opened(browser, address, viewport={"width": 320, "height": 800}) as page:
        names = [p.relative_to(real_site).as_posix() for p in sorted(real_site.rglob("*.html"))]
        names = [name for name in names if not name.startswith("days/")]  # see test_budgets.py
        assert len(names) > 20
        for name in names:
            page.goto(address + name, wait_until="domcontentloaded")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 320, f"{name} is {wide} px wide"


def test_nothing_moves_for_those_who_want_no_motion(browser: Browser, address: str) -> None:
    with browsing.opened(browser, address, reduced_motion="reduce") as page:
        for name in ("", PLOT_DAY, STEPPER_DAY):
            to(page, address + name)
            moving = page.evaluate(
                """[...document.querySelectorAll("*")].filter(e => {
                    const style = getComputedStyle(e);
                    return style.transitionDuration.split(", ").some(d => parseFloat(d) > 0)
                        && style.transitionProperty !== "none" || style.animationName !== "none"
                        || style.scrollBehavior === "smooth";
                }).map(e => e.className)"""
            )
            assert moving == []


# --- Light and dark.


def test_dark_mode_is_chosen_by_key_and_kept(page: Page, address: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    line = "getComputedStyle(document.querySelector('.ev-plot .ev-drawing path')).stroke"
    to(page, address + PLOT_DAY)
    light = page.evaluate(ground), page.evaluate(line)
    page.locator("#__palette_0").focus()
    page.keyboard.press("Space")  # the switch is a choice of two, and one label shows
    if page.evaluate("document.body.dataset.mdColorScheme") != "slate":
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"
    dark = page.evaluate(ground), page.evaluate(line)
    assert light[0] == "rgb(251, 249, 244)"
    assert dark[0] == "rgb(15, 20, 27)"
    assert light[1] != dark[1]
    to(page, address + STEPPER_DAY)
    assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"


# --- By keyboard.


def test_a_number_leads_to_its_place_by_keyboard(page: Page, address: str) -> None:
    to(page, address + PLOT_DAY)
    number = page.locator("a.ev-value:visible").first
    number.focus()
    assert "bytes-n-4096/floor-naive-over-online" in page.locator(".ev-card").inner_text()
    page.keyboard.press("Tab")
    assert focused(page) == "show"
    page.keyboard.press("Enter")
    lit = page.locator(".ev-lit")
    lit.wait_for()
    assert (
        lit.get_attribute("id") == "ev~097-attention~attention~bytes-n-4096~floor-naive-over-online"
    )
    box = lit.bounding_box()
    assert box is not None
    assert 0 < box["y"] < 800


def test_a_guess_a_fold_and_the_source_by_keyboard(page: Page, address: str) -> None:
    to(page, address + PLOT_DAY)
    box = page.locator(".ev-predict").first
    assert not box.locator(".ev-value").is_visible()
    box.locator("input").focus()
    page.keyboard.type("0.5")
    page.keyboard.press("Enter")
    assert box.locator(".ev-told").inner_text().startswith("You said 0.5; measured: ")
    assert focused(page) == "Guess again"
    for fold in ("details.ev-why", "details.ev-record", "details.ev-data"):
        summary = page.locator(f"{fold} > summary").first
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator(fold).first.get_attribute("open") is not None, fold
        page.keyboard.press("Space")
        assert page.locator(fold).first.get_attribute("open") is None, fold
    page.locator(".ev-code a", has_text="full source").first.focus()
    line = page.evaluate("document.activeElement.hash.slice(1)")
    page.keyboard.press("Enter")
    page.wait_for_url("**/sources/097-attention/#*")
    assert page.evaluate("document.querySelector(':target').id") == line
    assert page.locator(":target").bounding_box() is not None


def test_the_stepper_by_keyboard(page: Page, address: str) -> None:
    to(page, address + STEPPER_DAY)
    step = page.locator(".ev-step")
    step.locator("button", has_text="Forward").focus()
    page.keyboard.press("Enter")
    assert "Tile 1 of 8" in step.inner_text()
    page.keyboard.press("ArrowRight")
    assert "Tile 2 of 8" in step.inner_text()
    page.keyboard.press("End")
    assert "Tile 8 of 8" in step.inner_text()
    assert page.evaluate("document.activeElement.textContent") == "Forward"


@pytest.mark.parametrize("name", [PLOT_DAY, STEPPER_DAY])
def test_the_tab_key_reaches_every_part_and_shows_where_it_is(
    page: Page, address: str, name: str
) -> None:
    """Nothing that can be used is skipped, nothing traps, and the place can be seen."""
    to(page, address + name)
    wanted = page.evaluate(
        """() => {
            const all = document.querySelectorAll(".md-content :is(a[href], button, input, select, "
                + "textarea, summary)");
            let count = 0;
            for (const e of all) {
                if (!e.checkVisibility({ visibilityProperty: true }) || e.tabIndex < 0) continue;
                if (e.type === "radio" && !e.checked) continue; // arrows choose among them
                e.dataset.wanted = count++;
            }
            return count;
        }"""
    )
    assert wanted > 40
    page.locator(".md-content").evaluate("e => { e.tabIndex = -1; e.focus(); }")
    reached, unseen = set(), []
    for _ in range(2 * wanted):
        page.keyboard.press("Tab")
        at, inside, seen, what = page.evaluate(
            """() => {
                const e = document.activeElement;
                const shown = e.type === "radio" ? e.labels[0] || e.nextElementSibling : e;
                const style = getComputedStyle(shown);
                const parts = [e.dataset.wanted, !!e.closest(".md-content"),
                    style.outlineStyle !== "none" || style.boxShadow !== "none", e.outerHTML];
                return parts;
            }"""
        )
        if not inside and reached:
            break
        if at is not None:
            reached.add(int(at))
        if inside and not seen:
            unseen.append(what[:120])
    assert sorted(set(range(wanted)) - reached) == []
    assert unseen == []


# --- The search.


def test_the_search_finds_by_keyboard(page: Page, address: str) -> None:
    to(page, address)
    page.keyboard.press("/")
    page.keyboard.type("stack frame")
    page.locator(".md-search-result__item a").first.wait_for()
    page.keyboard.press("ArrowDown")
    found = page.evaluate("document.activeElement.href")
    assert re.search("/days/|/glossary/", found)
    page.keyboard.press("Enter")
    page.wait_for_url(found.partition("?")[0] + "**")


# --- On paper.


@pytest.mark.parametrize("name", [PLOT_DAY, STEPPER_DAY])
def test_on_paper(page: Page, address: str, name: str) -> None:
    to(page, address + name)
    page.emulate_media(media="print")
    for gone in (".md-header", ".md-sidebar--primary", ".md-sidebar--secondary", ".md-footer",
                 ".ev-tools", ".ev-guess", ".ev-step", ".md-code__nav"):  # fmt: skip
        assert page.locator(f"{gone}:visible").count() == 0, gone
    for told in (".ev-why table", ".ev-record table", ".ev-record .ev-facts", ".ev-why code"):
        hidden = page.locator(told).evaluate_all(
            "found => found.filter(e => !e.checkVisibility({ contentVisibilityAuto: true })).length"
        )
        assert page.locator(told).count() > 0, told
        assert hidden == 0, told
    page.set_viewport_size({"width": 700, "height": 1000})  # as wide as paper
    cut = page.evaluate(
        """[...document.querySelectorAll(".md-content :is(pre, code, table, div)")].filter(e => {
            const style = getComputedStyle(e);
            const over = (flow, whole, part) => flow !== "visible" && whole > part + 2;
            return e.checkVisibility() && (over(style.overflowY, e.scrollHeight, e.clientHeight)
                || over(style.overflowX, e.scrollWidth, e.clientWidth));
        }).map(e => `${e.nodeName}.${e.className}`)"""
    )
    assert cut == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 700


def test_on_paper_a_list_says_where_each_number_stands(page: Page, address: str) -> None:
    to(page, address + PLOT_DAY)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    shown = page.locator(".md-content .ev-value:visible").count()
    notes = page.locator(".ev-notes li").all_inner_texts()
    marks = page.locator("[data-note]").evaluate_all("found => found.map(e => +e.dataset.note)")
    assert len(marks) == shown
    assert sorted(set(marks)) == list(range(1, len(notes) + 1))
    assert notes[0] == (
        "097-attention/attention: bytes-n-4096/floor-naive-over-online, 81.0\N{MULTIPLICATION SIGN}, "
        "the same in all 5 runs"
    )
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # a second preview
    assert page.locator(".ev-notes").count() == 1
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".ev-notes, [data-note]").count() == 0


def test_on_paper_a_page_is_made(page: Page, address: str) -> None:
    to(page, address + PLOT_DAY)
    pdf = io.BytesIO(page.pdf(format="A4")).getvalue()
    assert pdf.startswith(b"%PDF-")
    sheets = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 5 < sheets < 30
    assert page.locator(".ev-notes").count() == 0


# --- Without scripts.


def test_without_scripts_trace_and_answers_are_there(browser: Browser, address: str) -> None:
    with browsing.opened(browser, address, java_script_enabled=False) as page:
        page.goto(address + STEPPER_DAY)
        paper = page.locator(".ev-stepper .ev-paper pre").first
        assert paper.is_visible()
        assert "case spike-late" in paper.inner_text()
        boxes = page.locator(".ev-predict")
        assert boxes.count() == 2
        for box in boxes.all():
            assert not box.locator("form").is_visible()
            assert not box.locator(".ev-answer .ev-value").is_visible()
            box.locator("summary").click()
            assert box.locator(".ev-answer .ev-value").is_visible()
        page.goto(address + PLOT_DAY)
        page.locator("a.ev-value:visible").first.click()
        target = page.locator(":target")
        assert target.get_attribute("id").endswith("~bytes-n-4096~floor-naive-over-online")
        assert target.is_visible()
        assert page.locator(".ev-plot svg").first.is_visible()
        page.locator(".ev-plot summary").click()
        assert page.locator(".ev-plot table").is_visible()

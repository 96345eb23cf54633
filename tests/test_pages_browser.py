"""The parts of a page in a real browser: cards, jumps, runs, keys, touch, narrow screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

import browsing
from conftest import PYPROJECT, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]

RUNS = [
    ["GPU: NVIDIA H200 (compute capability 9.0)", ""]
    + [f"section {n}\n".strip() + "\n  count   7" for n in range(40)]
    + ["case n = 256", f"  time    {time:.2f} ms", "  bytes   1024 B"]
    for time in (1.00, 1.10, 1.30)
]
RUNS = [[line for entry in run for line in entry.split("\n")] for run in RUNS]
PAGE = """\
---
programs: [001-add]
values:
  time: case-n-256/time
  moved: case-n-256/bytes
  stack: compile/addKernel/stack
---

# Day 1

It takes [= time ] and moves [= moved ] in a frame of [= stack ].

/// code | add.cu:greeting
///

/// claim
    expect: time < 2
It is fast.
///

/// output | 001-add
///
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a small site that looks like the real one, with made evidence."""
    tree = Tree(tmp_path_factory.mktemp("site"))
    tree.write("pyproject.toml", PYPROJECT)
    tree.write("mkdocs.yml", browsing.look(tree.root))
    tree.program()
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 3\n")
    tree.record(stdout=RUNS)
    tree.write("docs/index.md", PAGE)
    from evidence import readme

    readme.write_all(tree.load())
    build_command.build(load_config(str(tree.root / "mkdocs.yml")))
    with browsing.served(tree.root / "site") as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    trouble: list[str] = []
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on("request", lambda r: r.url.startswith(address) or trouble.append(r.url))
    opened.goto(address)
    yield opened
    context.close()
    assert trouble == []


CELL = "ev~001-add~add~case-n-256~time"


def number(page: Page, text: str = "1.1") -> object:
    return page.locator(".ev-value", has_text=text).first


def lit(page: Page) -> list[str]:
    return page.eval_on_selector_all(".ev-lit", "found => found.map(e => e.id)")


def chosen(page: Page) -> str:
    """Return the run that is shown."""
    return page.locator(".ev-runs label:has(:checked)").inner_text().strip()


def test_a_number_opens_its_card_under_the_mouse(page: Page) -> None:
    number(page).hover()
    assert [line for line in page.locator(".ev-card").inner_text().split("\n") if line] == [
        "001-add/add: case-n-256/time",
        "1.1\N{NO-BREAK SPACE}ms, median; 1.00 to 1.30\N{NO-BREAK SPACE}ms in 3 runs · show",
    ]
    page.mouse.move(5, 500)
    assert page.locator(".ev-card").count() == 0


def test_a_number_opens_its_card_on_focus_and_escape_closes_it(page: Page) -> None:
    number(page).focus()
    assert page.locator(".ev-card").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".ev-card").count() == 0
    assert number(page).get_attribute("title").startswith("001-add/add: case-n-256/time: ")


def test_the_card_s_link_is_the_next_thing_the_keyboard_reaches(page: Page) -> None:
    page.locator(".ev-value").last.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "show"


def test_a_click_shows_the_run_and_lights_the_number(page: Page) -> None:
    cell = page.locator(f'[id="{CELL}"]')
    assert cell.inner_text() == "1.00"  # the median stands in run 2, and run 1 is shown
    number(page).click()
    assert lit(page) == [CELL]
    assert cell.inner_text() == "1.10"
    assert chosen(page) == "run 2"
    box = cell.bounding_box()
    assert box is not None
    assert 0 < box["y"] < 900


def test_a_number_of_the_compiler_unfolds_the_record(page: Page) -> None:
    number(page, "128").click()
    assert lit(page) == ["ev~001-add~add~compile~addKernel~stack"]
    assert page.locator(".ev-record").get_attribute("open") is not None


def test_the_same_link_lights_its_place_again(page: Page) -> None:
    number(page).click()
    number(page, "1024").click()
    number(page).click()
    page.wait_for_function(f"document.querySelector('.ev-lit').id === '{CELL}'")


def test_an_address_with_a_place_opens_there(page: Page, address: str) -> None:
    page.goto(f"{address}#{CELL}")
    page.wait_for_selector(".ev-lit")
    assert lit(page) == [CELL]


def test_runs_are_chosen_by_keys(page: Page) -> None:
    page.locator(".ev-runs input").first.focus()
    page.keyboard.press("ArrowRight")
    assert chosen(page) == "run 2"
    assert "  time    1.10 ms" in page.locator(".ev-paper").inner_text()
    page.locator(".ev-runs label").last.click()
    assert "  time    1.30 ms" in page.locator(".ev-paper").inner_text()


def test_without_scripts_a_link_still_shows_its_place(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    number(page).click()
    cell = page.locator(f'[id="{CELL}"]')
    assert cell.inner_text() == "1.00"
    shown = cell.evaluate("e => getComputedStyle(e, '::after').content")
    assert shown == '"  (runs: 1.00\\a 1.10\\a 1.30)"'
    assert not page.locator(".ev-runs label").first.is_visible()
    assert number(page).get_attribute("title") is not None
    context.close()


def test_a_tap_opens_the_card_and_its_link_jumps(browser: Browser, address: str) -> None:
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(address)
    number(page).tap()
    assert page.locator(".ev-card").count() == 1
    assert lit(page) == []
    card = page.locator(".ev-card").bounding_box()
    assert card is not None
    assert card["x"] >= 0
    assert card["x"] + card["width"] <= 360
    page.locator(".ev-card a").tap()
    page.wait_for_selector(".ev-lit")
    assert lit(page) == [CELL]
    context.close()


def test_copied_code_has_no_line_numbers(page: Page) -> None:
    copied = page.evaluate(
        """() => {
            const code = document.querySelector(".ev-code code");
            code.setAttribute("data-md-copying", "");
            const text = code.innerText;
            code.removeAttribute("data-md-copying");
            return text;
        }"""
    )
    assert copied.rstrip("\n") == 'std::printf("hello\\n");'


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_no_page_is_wider_than_the_screen(browser: Browser, address: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(address)
    page.locator(".ev-record summary").click()
    page.locator(".ev-why summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def contrast(page: Page, selector: str) -> float:
    """Return the contrast of an element's text on what is really behind it (WCAG 2.1)."""
    return page.evaluate(
        """selector => {
            const light = c => {
                const parts = c.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
                    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            const element = document.querySelector(selector);
            let behind = element;
            while (behind && /rgba\\(0, 0, 0, 0\\)|transparent/.test(
                getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
            const ground = getComputedStyle(behind || document.body).backgroundColor;
            const [a, b] = [light(getComputedStyle(element).color), light(ground)];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        }""",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser: Browser, address: str, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(address)
    assert page.evaluate("document.body.dataset.mdColorScheme") == (
        "default" if scheme == "light" else "slate"
    )
    for selector in (".ev-said p", ".ev-mark", ".ev-bar", ".ev-code code > a", ".ev-record summary",
                     ".ev-paper pre", ".ev-sign", ".ev-runs label", ".ev-code .s",
                     ".md-nav__link", ".ev-tools a"):  # fmt: skip
        assert contrast(page, selector) >= 4.5, selector
    context.close()

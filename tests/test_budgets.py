"""What a lesson may cost its reader: bytes, moving lines, and waiting. On the site itself.

The site is served as published ones are, text compressed with gzip. A lesson is *interactive*
when its document is parsed, our scripts have run, and a number that gets the focus has opened
its card. The machine may be busy with other things, so the best of three loads counts. Where there is
more to run than there are processors, a page also waits for its turn: there it is enough if all
that the page did, until it was settled, took less processor time than the budget.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

import browsing
from browsing import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

TRANSFERRED = 350_000  # bytes, without the search's index
INTERACTIVE = 1000.0  # milliseconds
NOTEBOOKS = [path.stem for path in sorted((ROOT / "docs/notebooks").glob("*.md"))]
LESSONS = [path.stem for path in sorted((ROOT / "docs/days").glob("*.md"))]

# Before any script of the page: notes what moves, and when a handler has answered.
WATCH = """
window.moved = [];
const name = (node) => node ? `${node.nodeName}.${node.className || ""} ` +
  JSON.stringify((node.textContent || "").trim().slice(0, 30)) : "?";
new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) {
    if (shift.hadRecentInput) continue;
    window.moved.push(`${shift.value.toFixed(4)} at ${Math.round(shift.startTime)} ms: ` +
      shift.sources.map(s => `${name(s.node)} ${s.previousRect.y} -> ${s.currentRect.y}`).join("; "));
  }
}).observe({ type: "layout-shift", buffered: true });
document.addEventListener("DOMContentLoaded", () => setTimeout(() => {
  const numbers = [...document.querySelectorAll("a.ev-value")];
  const number = numbers.find(n => n.checkVisibility()); // an answer is not, yet, and no fold
  number.focus({ preventScroll: true });
  if (!document.querySelector(".ev-card")) return;
  window.interactive = performance.now();
  number.blur();
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
}));
"""
COST = """() => {
  const all = [...performance.getEntriesByType("navigation"),
    ...performance.getEntriesByType("resource")].filter(e => !/search_index/.test(e.name));
  return all.map(e => [e.name.split("/").slice(3).join("/"), e.transferSize, e.decodedBodySize]);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(real_site: Path) -> Iterator[str]:
    with browsing.served(real_site, published=True) as found:
        yield found


def settle(page: Page) -> None:
    """Wait for what comes after loading: faces, and two frames drawn with them."""
    page.wait_for_load_state("load")
    page.evaluate(
        """async () => {
            await document.fonts.ready;
            for (let i = 0; i < 2; i += 1) await new Promise(requestAnimationFrame);
        }"""
    )


def cost(page: Page) -> tuple[int, str]:
    """Return the bytes that a page transferred, and a message with all of them."""
    parts: list[tuple[str, int, int]] = page.evaluate(COST)
    transferred, plain = (sum(part[at] for part in parts) for at in (1, 2))
    text = f"{transferred} B transferred, {plain} B uncompressed:\n"
    rows = sorted(parts, key=lambda part: -part[1])
    return transferred, text + "\n".join(f"{at:8} {full:8}  {name}" for name, at, full in rows)


def interactive(browser: Browser, address: str, page: Page) -> list[float]:
    """Return milliseconds until each load was interactive, the page's own first."""
    times = [page.evaluate("window.interactive") or float("inf")]
    while min(times) >= INTERACTIVE and len(times) < 3:
        with watched(browser, address, 1280) as again:
            settle(again)
            times.append(again.evaluate("window.interactive") or float("inf"))
    if float("inf") not in times and os.getloadavg()[0] > (os.cpu_count() or 1):
        times.append(own_time(browser, address))
    return times


def own_time(browser: Browser, address: str) -> float:
    """Return the milliseconds of processor time that a page took until it was settled."""
    with watched(browser, address, 1280) as page:
        settle(page)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        metrics = session.send("Performance.getMetrics")["metrics"]
        return 1000 * {metric["name"]: metric["value"] for metric in metrics}["ProcessTime"]


def watched(browser: Browser, address: str, width: int, **more: Any) -> Any:
    return browsing.opened(
        browser, address, before=WATCH, viewport={"width": width, "height": 800}, **more
    )


def test_there_are_lessons() -> None:
    assert len(LESSONS) >= 7


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_is_light_at_once_there_and_stands_still(
    browser: Browser, address: str, lesson: str
) -> None:
    there = f"{address}days/{lesson}/"
    with watched(browser, there, 1280) as page:
        settle(page)
        transferred, parts = cost(page)
        assert transferred <= TRANSFERRED, parts
        assert "search_index" not in " ".join(
            page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
        )
        times = interactive(browser, there, page)
        assert min(times) < INTERACTIVE, f"interactive after {times} ms"
        page.keyboard.press("End")
        settle(page)
        assert page.evaluate("window.moved") == []
    with watched(browser, there, 360) as page:
        settle(page)
        page.mouse.wheel(0, 3000)
        settle(page)
        assert page.evaluate("window.moved") == []
        page.set_viewport_size({"width": 320, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_notebook_is_light_and_stands_still(browser: Browser, address: str) -> None:
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        with watched(browser, f"{address}notebooks/{notebook}/", 1280) as page:
            settle(page)
            transferred, parts = cost(page)
            assert transferred <= TRANSFERRED, parts
            assert page.locator(".ev-cell").count() > 1
            page.keyboard.press("End")
            settle(page)
            assert page.evaluate("window.moved") == []
            page.set_viewport_size({"width": 320, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("width", [1280, 360])
def test_a_late_face_moves_nothing(browser: Browser, address: str, width: int) -> None:
    """On a slow line the first page is set in the reader's own face, and stays so."""

    def late(route: Route) -> None:
        time.sleep(0.6)
        route.continue_()

    there = f"{address}days/097-attention/"
    with watched(browser, there, width, routes={"**/*.woff2": late}) as page:
        settle(page)
        assert page.evaluate("[...document.fonts].some(face => face.status === 'loaded')")
        assert page.evaluate("window.moved") == []


def test_what_moves_is_seen(browser: Browser, address: str) -> None:
    """A test that sees nothing proves nothing."""
    late = """addEventListener("load", () => setTimeout(() => {
        document.querySelector("h1").before(Object.assign(document.createElement("div"),
            { style: "height: 90px" }));
    }, 100));"""
    with watched(browser, f"{address}days/097-attention/", 1280) as page:
        page.add_init_script(late)
        page.reload()
        page.wait_for_function("window.moved.length > 0")
        assert "Attention two ways" in page.evaluate("window.moved[0]")


def test_text_is_compressed_and_its_weight_known(browser: Browser, address: str) -> None:
    with watched(browser, f"{address}days/097-attention/", 1280) as page:
        settle(page)
        sizes = {name: (sent, full) for name, sent, full in page.evaluate(COST)}
        sent, full = sizes["days/097-attention/"]
        assert 5000 < sent < full / 3
        assert sum(name.endswith("-core.woff2") for name in sizes) == 5

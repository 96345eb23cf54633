"""Recorded output of several devices: what stands on the page, and choosing in a browser.

The evidence is made up; nothing here was measured on anything.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import markdown
import pytest
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

import browsing
from conftest import PYPROJECT, Tree
from evidence import readme, store
from evidence.pages import bindings, devicetabs
from evidence.pages.devicetabs import Tab
from evidence.pages.extension import EvidenceExtension

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parent.parent
T4: dict[str, Any] = {
    "compute_capability": "7.5", "driver": "570.2", "label": "t4", "memory_mib": 15360,
    "name": "Tesla T4", "sm_count": 40,
}  # fmt: skip


def runs(*times: float) -> list[list[str]]:
    return [
        ["case n = 256", f"  time    {time:.2f} ms", "  bytes   1024 B", *[f"  row {n}   7" for n in range(60)]]
        for time in times
    ]  # fmt: skip


FAST, SLOW = runs(1.00, 1.10, 1.30), runs(8.00, 8.50, 8.80)
DAY = """\
---
programs: [001-add]
values:
  time: case-n-256/time
  moved: case-n-256/bytes
---

# Adding

It takes [= time ] and moves [= moved ].

/// code | add.cu:greeting
///

/// claim
    expect: time < 2
    fails_on: t4
It is fast.
///

/// output | 001-add
///
"""


def two(tree: Tree) -> Tree:
    """Give a tree one program with evidence of two devices."""
    tree.program()
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 3\n")
    tree.record(stdout=FAST)
    tree.record(stdout=SLOW, device=T4)
    return tree


@pytest.fixture
def both(tree: Tree) -> Tree:
    return two(tree)


def convert(tree: Tree, text: str = DAY, **options: Any) -> str:
    path = tree.write("docs/days/001.md", text)
    extension = EvidenceExtension(page=str(path), **options)
    html = markdown.Markdown(extensions=["pymdownx.tabbed", extension]).convert(text)
    return html.replace("\N{NO-BREAK SPACE}", " ")


# What stands on the page.


def test_one_device_has_no_choice() -> None:
    assert devicetabs.tabs([Tab("h200", "NVIDIA H200", "<figure>")], "g") == "<figure>"


def test_the_choice() -> None:
    found = [Tab("h200", "NVIDIA H200", "<A>"), Tab("t4", "Tesla T4", "<B>")]
    assert devicetabs.tabs(found, "g") == (
        '<div class="ev-devices" role="radiogroup" aria-label="Device">'
        '<input type="radio" name="g~on" id="g~on-h200" value="h200" checked>'
        '<label for="g~on-h200">NVIDIA H200</label><div class="ev-device"><A></div>'
        '<input type="radio" name="g~on" id="g~on-t4" value="t4">'
        '<label for="g~on-t4">Tesla T4</label><div class="ev-device"><p class="ev-same">Sentences '
        "on this page are about NVIDIA H200, unless they say otherwise.</p><B></div></div>"
    )


def test_two_devices_with_one_gpu_are_told_apart_by_label() -> None:
    found = [Tab("h200", "NVIDIA H200", "<A>"), Tab("h200-mig", "NVIDIA H200", "<B>")]
    labels = re.findall("<label[^>]*>(.*?)</label>", devicetabs.tabs(found, "g"))
    assert labels == ["NVIDIA H200 (h200)", "NVIDIA H200 (h200-mig)"]


def test_sentences_are_bound_to_the_primary_device(both: Tree) -> None:
    html = convert(both)
    sentence = re.search("<p>It takes.*?</p>", html)
    assert sentence is not None
    assert re.sub("<[^>]+>", "", sentence[0]) == "It takes 1.1 ms and moves 1024 B."
    both.write("pyproject.toml", PYPROJECT.replace('device = "h200"', 'device = "t4"'))
    html = convert(both, DAY.replace("fails_on: t4", "fails_on: h200").replace("< 2", "> 2"))
    sentence = re.search("<p>It takes.*?</p>", html)
    assert sentence is not None
    assert re.sub("<[^>]+>", "", sentence[0]) == "It takes 8.5 ms and moves 1024 B."
    assert re.findall("<label for[^>]*>(.*?)</label>", html) == ["Tesla T4", "NVIDIA H200"]


def test_every_device_has_its_output_and_where_it_comes_from(both: Tree) -> None:
    html = convert(both)
    first, second = html.split('<div class="ev-device">')[1:]
    assert "printed on NVIDIA H200" in first
    assert "NVIDIA H200 · driver 580.1" in first
    assert "1.10" in first
    assert "8.50" not in first
    assert "printed on Tesla T4" in second
    assert "Tesla T4 · driver 570.2" in second
    assert "8.50" in second


def test_anchors_are_those_of_the_primary_device(both: Tree) -> None:
    text = f"{DAY}\n/// output | 001-add\n///\n"
    html = convert(both, text)
    found = re.findall(r' id="([^"]+)"', html)
    assert len(found) == len(set(found))
    assert 'href="#ev~001-add~add~case-n-256~time"' in html
    first, second = html.split('<div class="ev-device">')[1:3]
    assert 'id="ev~001-add~add~case-n-256~time"' in first
    assert not re.search(' id="ev~001-add~add~case', second)


def test_choices_do_not_get_into_each_other_s_way(both: Tree) -> None:
    html = convert(both, f"{DAY}\n/// output | 001-add\n///\n")
    groups = re.findall(r'type="radio" name="([^"]+)"', html)
    counts = {name: groups.count(name) for name in groups}
    # Two choices of device, and for each device of each a choice of three runs.
    assert sorted(counts.values()) == [2, 2, 3, 3, 3, 3]


def test_a_claim_says_where_it_holds(both: Tree) -> None:
    html = convert(both)
    assert (
        '<summary><span class="ev-mark">holds</span> on h200; does not hold, as said, on t4</summary>'
    ) in html


def test_a_claim_that_does_not_say_where_it_fails(both: Tree) -> None:
    both.write("docs/days/001.md", DAY.replace("    fails_on: t4\n", ""))
    [only] = bindings.findings(both.load())
    assert only.explain().replace("\N{NO-BREAK SPACE}", " ") == (
        "docs/days/001.md:16: claim-fails: `time < 2` does not hold on t4: 8.5 ms < 2 ms — correct "
        "the sentence, or say `fails_on: t4`"
    )


def test_stale_evidence_of_another_device_is_not_shown_as_if_it_were_not(both: Tree) -> None:
    source = both.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text().replace("return 0", "return 1 - 1"))
    both.record(stdout=FAST)
    both.write("docs/days/001.md", DAY.replace("    fails_on: t4\n", "    device: h200\n"))
    [only] = bindings.findings(both.load())
    assert only.explain().startswith(
        "docs/days/001.md:21: stale: stands on evidence that cannot be shown: 001-add/add: code of "
        "add.cu changed after its evidence was recorded ("
    )
    html = convert(both, DAY.replace("    fails_on: t4\n", ""), on_error="show")
    assert "ev-banner" in html


def test_evidence_of_another_device_that_was_edited_is_left_out(both: Tree) -> None:
    path = both.root / "kernels/001-add/evidence/add.t4.json"
    path.write_text(path.read_text().replace("8.50", "0.50"))
    text = DAY.replace("    fails_on: t4\n", "    device: h200\n")
    both.write("docs/days/001.md", text)
    assert [f.code for f in bindings.findings(both.load())] == ["edited"]
    html = convert(both, text, on_error="show")
    assert "ev-devices" not in html
    assert "Tesla T4" not in html


def test_without_evidence_of_the_primary_device(both: Tree) -> None:
    (both.root / "kernels/001-add/evidence/add.h200.json").unlink()
    html = convert(both, on_error="show")
    assert '<div class="ev-error">001-add/add has no evidence on h200</div>' in html
    assert "ev-devices" not in html


def test_the_choice_stands_wherever_blocks_do(both: Tree) -> None:
    text = (
        DAY.partition("/// code")[0]
        + '=== "tab"\n\n    - item\n\n        /// output | 001-add\n        ///\n'
    )
    html = convert(both, text)
    assert html.count('class="ev-devices"') == 1
    assert "///" not in html


# Choosing, in a browser.

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tree = Tree(tmp_path_factory.mktemp("devices"))
    tree.write("pyproject.toml", PYPROJECT)
    two(tree)
    tree.program("002-sub", "sub")
    tree.write("kernels/002-sub/evidence.toml", "[sub]\nruns = 3\n")
    tree.record("002-sub/sub", stdout=FAST)
    tree.record("002-sub/sub", stdout=SLOW, device=T4)
    tree.write("docs/index.md", DAY)
    tree.write("docs/second.md", DAY.replace("001-add", "002-sub").replace("add.cu", "sub.cu"))
    tree.write("docs/reference/devices.md", "# Devices\n\n/// devices\n///\n\n/// status\n///\n")
    tree.write("docs/reference/claims.md", "# Claims\n\n/// claims\n///\n")
    readme.write_all(tree.load())
    tree.write("mkdocs.yml", browsing.look(tree.root))
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


def shown(page: Page) -> list[str]:
    """Return which device's output can be seen."""
    return page.locator(".ev-on:visible").all_inner_texts()


H200, TESLA = ["printed on NVIDIA H200"], ["printed on Tesla T4"]


@pytest.mark.browser
def test_the_primary_device_is_shown_first(page: Page) -> None:
    assert shown(page) == H200


@pytest.mark.browser
def test_a_device_is_chosen_by_the_mouse(page: Page) -> None:
    page.locator(".ev-devices > label", has_text="Tesla T4").click()
    assert shown(page) == TESLA
    assert page.locator(".ev-device p.ev-same:visible").inner_text() == (
        "Sentences on this page are about NVIDIA H200, unless they say otherwise."
    )


@pytest.mark.browser
def test_a_device_is_chosen_by_keys(page: Page) -> None:
    page.locator(".ev-devices > input").first.focus()
    assert page.locator(".ev-devices > input:focus-visible + label").count() == 1
    page.keyboard.press("ArrowRight")
    assert shown(page) == TESLA
    page.keyboard.press("ArrowLeft")
    assert shown(page) == H200


@pytest.mark.browser
def test_the_choice_is_one_stop_of_the_tab_key(page: Page) -> None:
    page.locator(".ev-devices > input").first.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.ev-device') !== null")


@pytest.mark.browser
def test_runs_of_one_device_do_not_change_those_of_another(page: Page) -> None:
    page.locator(".ev-device:visible .ev-runs label", has_text="run 3").click()
    page.locator(".ev-devices > label", has_text="Tesla T4").click()
    paper = page.locator(".ev-device:visible .ev-paper pre")
    assert "8.00" in paper.inner_text()
    page.locator(".ev-device:visible .ev-runs label", has_text="run 2").click()
    assert "8.50" in paper.inner_text()
    page.locator(".ev-devices > label", has_text="NVIDIA H200").click()
    assert "1.30" in page.locator(".ev-device:visible .ev-paper pre").inner_text()


@pytest.mark.browser
def test_the_choice_is_remembered_on_other_pages(page: Page, address: str) -> None:
    page.locator(".ev-devices > label", has_text="Tesla T4").click()
    page.goto(f"{address}second/")
    assert shown(page) == TESLA
    page.locator(".ev-devices > label", has_text="NVIDIA H200").click()
    page.goto(address)
    assert shown(page) == H200


@pytest.mark.browser
def test_a_browser_that_keeps_nothing_still_chooses(browser: Browser, address: str) -> None:
    context = browser.new_context()
    context.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } });"
    )
    page = context.new_page()
    page.goto(address)
    page.locator(".ev-devices > label", has_text="Tesla T4").click()
    assert shown(page) == TESLA
    context.close()


@pytest.mark.browser
def test_a_number_leads_to_the_primary_device_whatever_is_chosen(page: Page) -> None:
    page.locator(".ev-devices > label", has_text="Tesla T4").click()
    page.locator("a.ev-value").first.click()
    assert shown(page) == H200
    cell = page.locator('[id="ev~001-add~add~case-n-256~time"]')
    assert cell.is_visible()
    assert cell.inner_text() == "1.10"
    # Following a number is no choice of a device.
    page.reload()
    page.goto(page.url.partition("#")[0])
    assert shown(page) == TESLA


@pytest.mark.browser
def test_without_scripts_a_device_can_be_chosen(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    page.locator(".ev-devices > label", has_text="Tesla T4").click()
    assert shown(page) == TESLA
    page.locator("a.ev-value").first.click()
    assert shown(page) == H200
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 360, 1280])
@pytest.mark.parametrize("place", ["", "reference/devices/", "reference/claims/"])
def test_no_page_is_wider_than_the_screen(
    browser: Browser, address: str, width: int, place: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(f"{address}{place}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


@pytest.mark.browser
def test_a_claim_s_link_leads_to_its_sentence(page: Page, address: str) -> None:
    page.goto(f"{address}reference/claims/")
    page.locator(".ev-claims a", has_text="It is fast.").first.click()
    target = page.locator(":target")
    assert target.get_attribute("id") == "claim~1"
    assert "It is fast." in target.inner_text()


def test_made_evidence_of_a_second_device_is_in_the_tests_only() -> None:
    labels = {store.read(path).device for path in ROOT.glob("kernels/*/evidence/*.json")}
    assert labels == {"h200"}

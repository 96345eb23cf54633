"""The stepper of day 72: its arithmetic against the kernel's trace, and its use."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

from browsing import SCHEMES, WIDTHS, launched, look, opened, served, violations
from conftest import CUDA, PYPROJECT, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parent.parent
DAY = ROOT / "docs/days/072-online-normaliser.md"
EVIDENCE = ROOT / "kernels/072-online-normaliser/evidence/online.h200.json"
ASSETS = [ROOT / "docs/assets/stepper.js", ROOT / "docs/assets/stepper.css"]
CASES = ["ascending", "descending", "constant", "spike-early", "spike-late", "masked"]
TILES, TILE = 8, 4
MINUS = "\N{MINUS SIGN}"

# How far the page's numbers may be from the kernel's, in units in the last place.
# Maxima are not rounded. Of a rescale only expf differs: CUDA's is within an ulp,
# the browser's is rounded once. l and o go through up to eight of them.
ALLOWED = {"tileMax": 0, "m": 0, "rescale": 2, "l": 8, "o": 8}
COLUMNS = {"tileMax": "tile max", "m": "m", "rescale": "rescale", "l": "l", "o": "o"}

PAGE = """\
---
programs: [072-online-normaliser]
---

# Day 72

<div class="ev-stepper" markdown="1">

/// output | 072-online-normaliser
///

</div>

A paragraph after it.
"""


# --- A trace: the recorded one, or one that is written down here --------------


def f32(number: float) -> float:
    """Round to FP32."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def made_inputs(case: str) -> tuple[list[float], list[float]]:
    """Return scores and values for a case, not those of the program."""
    wiggle = [0.25 * (key * 3 % 7) for key in range(TILES * TILE)]
    rising = [0.5 * key - 8 + more for key, more in enumerate(wiggle)]
    scores = {
        "ascending": rising,
        "descending": rising[::-1],
        "constant": [-200.0] * len(wiggle),
        "spike-early": [9.0 if key == 5 else s for key, s in enumerate(wiggle)],
        "spike-late": [9.0 if key == 29 else s for key, s in enumerate(wiggle)],
        "masked": [-math.inf if key < 4 or key % 5 == 3 else s for key, s in enumerate(wiggle)],
    }
    return scores[case], [0.25 * (key * 11 % 37 + 1) for key in range(len(wiggle))]


def made_states(scores: list[float], values: list[float]) -> list[tuple[float, ...]]:
    """Walk over tiles as the kernel does, with every operation rounded to FP32."""
    m, total, out = -math.inf, 0.0, 0.0
    states = []
    for first in range(0, len(scores), TILE):
        tile = scores[first : first + TILE]
        new = max(m, *tile)
        base = new if math.isfinite(new) else 0.0
        rescale = f32(math.exp(f32(m - base)))
        added = 0.0
        out = f32(out * rescale)
        for score, value in zip(tile, values[first : first + TILE], strict=True):
            weight = f32(math.exp(f32(score - base)))
            added = f32(added + weight)
            out = f32(weight * value + out)
        total = f32(total * rescale + added)
        m = new
        states.append((max(tile), m, rescale, total, out))
    return states


def made_trace() -> list[str]:
    lines = ["GPU: none (made for a test)", "  multiprocessors   132", ""]
    for case in CASES:
        scores, values = made_inputs(case)
        lines += [
            f"case {case}: made for a test",
            row("inputs", *["s1", "s2", "s3", "s4", "v1", "v2", "v3", "v4"]),
        ]
        for tile in range(TILES):
            part = slice(tile * TILE, tile * TILE + TILE)
            lines.append(row(f"tile {tile + 1}", *scores[part], *values[part]))
        lines += ["", row("state", *COLUMNS.values())]
        lines += [row(f"tile {n}", *s) for n, s in enumerate(made_states(scores, values), 1)]
        lines.append("")
    return lines


def row(*cells: object) -> str:
    return "".join(f"  {c if isinstance(c, str) else format(c, '.9g'):>14}" for c in cells)


def recorded_runs() -> list[list[str]] | None:
    if not EVIDENCE.exists():
        return None
    record = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    return [run["stdout"] for run in record["runs"]]


def read(lines: list[str]) -> dict[str, list[dict[str, float]]]:
    """Read a trace by the tool's own reader: case → tile → column → number."""
    from evidence import output

    found = output.read(lines).values
    columns = [*COLUMNS.values(), *(letter + str(n) for letter in "sv" for n in range(1, 5))]
    return {
        case: [
            {
                name: found[f"case-{case}/tile-{tile}/{name.replace(' ', '-')}"].number
                for name in columns
            }
            for tile in range(1, TILES + 1)
        ]
        for case in CASES
    }


def ulps(a: float, b: float) -> float:
    """Return how many FP32 numbers two FP32 numbers are apart."""
    if math.isnan(a) or math.isnan(b):
        return math.inf

    def place(x: float) -> int:
        bits: int = struct.unpack("i", struct.pack("f", x))[0]
        return bits if bits >= 0 else -(2**31) - bits

    return abs(place(a) - place(b))


# --- The site -----------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


@pytest.fixture(scope="module")
def trace() -> list[str]:
    """What the program printed; until there is evidence, what it would have."""
    runs = recorded_runs()
    return runs[0] if runs else made_trace()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a small site: the real look, and a page with the stepper."""
    tree = Tree(tmp_path_factory.mktemp("stepper"))
    tree.write("pyproject.toml", PYPROJECT)
    config = look(tree.root)
    if "assets/stepper" not in config:
        config = config.replace("extra_css:\n", "extra_css:\n  - assets/stepper.css\n")
        script = "extra_javascript:\n"
        config = config.replace(script, f"{script}  - path: assets/stepper.js\n    defer: true\n")
    tree.write("mkdocs.yml", re.sub(r"^watch:\n(?: .*\n)+", "", config, flags=re.MULTILINE))
    plain = re.sub(r" +// (end )?snippet.*\n", "", CUDA.format(stem="online"))
    tree.program("072-online-normaliser", "online", plain)
    tree.record("072-online-normaliser/online", stdout=recorded_runs() or [made_trace()] * 5)
    tree.write("docs/index.md", PAGE)
    from evidence import readme

    readme.write_all(tree.load())
    build_command.build(load_config(str(tree.root / "mkdocs.yml")))

    with served(tree.root / "site") as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser, address) as shown:
        yield shown


@pytest.fixture(scope="module")
def pure(browser: Browser) -> Iterator[Page]:
    """An empty page with the script: its functions, and nothing to enhance."""
    page = browser.new_page()
    page.set_content("<p>nothing</p>")
    page.add_script_tag(path=str(ASSETS[0]))
    yield page
    page.close()


def walked(pure: Page, scores: list[float], values: list[float]) -> list[dict[str, float]]:
    """Return the states after each tile, as the page's own functions give them."""
    # JSON has no infinity.
    states: list[dict[str, Any]] = json.loads(
        pure.evaluate(
            """([scores, values]) => {
                const tiles = [];
                scores = scores.map(s => s === null ? -Infinity : s);
                for (let i = 0; i < scores.length; i += 4)
                    tiles.push({ scores: scores.slice(i, i + 4), values: values.slice(i, i + 4) });
                return JSON.stringify(evStepper.walk(tiles).slice(1),
                    (key, x) => typeof x === "number" && !Number.isFinite(x) ? String(x) : x);
            }""",
            [[None if math.isinf(s) else s for s in scores], values],
        )
    )
    return [{name: float(state[name]) for name in ALLOWED} for state in states]


def furthest(pure: Page, tiles: list[dict[str, float]]) -> dict[str, float]:
    """Return the worst distance of the page's numbers from a trace, in ulp."""
    scores = [tile[f"s{n}"] for tile in tiles for n in range(1, 5)]
    values = [tile[f"v{n}"] for tile in tiles for n in range(1, 5)]
    states = walked(pure, scores, values)
    assert len(states) == len(tiles) == TILES
    return {
        name: max(ulps(s[name], t[COLUMNS[name]]) for s, t in zip(states, tiles, strict=True))
        for name in ALLOWED
    }


# --- Arithmetic ---------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_every_number_is_the_kernel_s(pure: Page, case: str) -> None:
    runs = recorded_runs()
    if runs is None:
        pytest.skip(f"no evidence yet: {EVIDENCE.relative_to(ROOT)}")
    for lines in runs:
        far = furthest(pure, read(lines)[case])
        assert all(far[name] <= most for name, most in ALLOWED.items()), far


@pytest.mark.parametrize("case", CASES)
def test_every_number_is_that_of_a_second_writing(pure: Page, case: str) -> None:
    far = furthest(pure, read(made_trace())[case])
    # Both take exp in double precision, whose last bits FP32 does not see.
    assert set(far.values()) == {0}, far


@pytest.mark.parametrize("column", ["tile max", "m", "rescale", "l", "o"])
def test_one_number_that_is_off_is_noticed(pure: Page, column: str) -> None:
    tiles = read(made_trace())["ascending"]
    tiles[4][column] = f32(tiles[4][column] * (1 + 2e-6))
    far = furthest(pure, tiles)
    assert [n for n, most in ALLOWED.items() if far[n] > most] == [
        name for name in COLUMNS if COLUMNS[name] == column
    ]


def test_the_page_reads_the_trace_that_is_printed(pure: Page, trace: list[str]) -> None:
    text = pure.evaluate(
        """text => JSON.stringify(evStepper.readTrace(text),
            (key, x) => x === -Infinity ? "-inf" : x)""",
        "\n".join(trace),
    )
    cases = json.loads(text)
    assert [case["name"] for case in cases] == CASES
    for case, tiles in zip(cases, read(trace).values(), strict=True):
        for ours, theirs in zip(case["tiles"], tiles, strict=True):
            for name, number in theirs.items():
                assert float(ours[name]) == f32(number)
            assert [float(s) for s in ours["scores"]] == [theirs[f"s{n}"] for n in range(1, 5)]
            assert [float(v) for v in ours["values"]] == [theirs[f"v{n}"] for n in range(1, 5)]


@pytest.mark.parametrize(
    "text",
    ["", "GPU: none\n  tiles traced   8", "trace: x\n  case  moves\n  ascending  8"],
)
def test_where_no_trace_is_printed_none_is_read(pure: Page, text: str) -> None:
    assert pure.evaluate("text => evStepper.readTrace(text)", text) == []


NO_NUMBER = "is no FP32 number. Write some like 2 or -1.5, and -inf for a masked key."


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ("1", "1 -inf -inf -inf"),
        ("1 2 3 4 5", "1 2 3 4 5 -inf -inf -inf"),
        ("1, 2;3\n4", "1 2 3 4"),
        (f"{MINUS}1 -inf -INF -∞", "-1 -inf -inf -inf"),
        ("+.5 1e2 -3. 0", "0.5 100 -3 0"),
        ("0.1 0 0 0", f"{f32(0.1)} 0 0 0"),
        ("7 " * 32, "7 " * 32),
    ],
)
def test_scores_of_the_reader_s_own(pure: Page, text: str, scores: str) -> None:
    read = pure.evaluate(
        "text => evStepper.parseScores(text).scores.map(s => s === -Infinity ? '-inf' : s)", text
    )
    assert [float(s) for s in read] == [float(s) for s in scores.split()]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("  ", "Write at least one score."),
        ("1 " * 33, "33 scores are too many: 32 at most."),
        ("1 two 3", f"“two” {NO_NUMBER}"),
        ("1 inf", f"“inf” {NO_NUMBER}"),
        ("nan", f"“nan” {NO_NUMBER}"),
        ("1e39", f"“1e39” {NO_NUMBER}"),
        ("1-2", f"“1-2” {NO_NUMBER}"),
        ("0x10", f"“0x10” {NO_NUMBER}"),
        (".", f"“.” {NO_NUMBER}"),
        ("<b>", f"“<b>” {NO_NUMBER}"),
    ],
)
def test_what_is_no_score_is_said(pure: Page, text: str, error: str) -> None:
    assert pure.evaluate("text => evStepper.parseScores(text)", text) == {"error": error}


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ([], f"Before the first tile, m is {MINUS}∞ and l and o are 0."),
        ([1, 2, 3, 2], "Tile 1 of 1 sets the maximum to 3. Nothing was gathered before."),
        ([-math.inf] * 4, "Tile 1 of 1 is masked whole: all its weights are 0."),
        ([1] * 8, "Tile 2 of 2 leaves the maximum at 1: the rescale is 1."),
        (
            [-1] * 4 + [0] * 4,
            f"Tile 2 of 2 moves the maximum from {MINUS}1 to 0: "
            "what was gathered is multiplied by 0.367879.",
        ),
    ],
)
def test_a_step_in_a_sentence(pure: Page, scores: list[float], sentence: str) -> None:
    said = pure.evaluate(
        """scores => {
            const tiles = [];
            scores = scores.map(s => s === null ? -Infinity : s);
            for (let i = 0; i < scores.length; i += 4)
                tiles.push({ scores: scores.slice(i, i + 4), values: [1, 1, 1, 1] });
            const states = evStepper.walk(tiles);
            return evStepper.say(states, tiles.length);
        }""",
        [None if math.isinf(s) else s for s in scores],
    )
    assert said == sentence


# --- Use ----------------------------------------------------------------------


def press(page: Page, name: str, count: int = 1) -> None:
    for _ in range(count):
        page.get_by_role("button", name=name).click()


def said(page: Page) -> str:
    return page.locator(".ev-step > p").first.inner_text()


def shown(page: Page) -> list[str]:
    """Return m, l, o and o / l as the stepper shows them."""
    return page.locator(".ev-step dl dd:not([aria-hidden])").all_inner_texts()


def as_shown(number: float) -> str:
    if math.isinf(number):
        return f"{MINUS}∞"
    return f"{float(f'{number:.6g}'):.12g}".replace("-", MINUS)


@pytest.mark.parametrize("case", CASES)
def test_it_shows_the_recorded_numbers(page: Page, trace: list[str], case: str) -> None:
    page.select_option(".ev-step select", case)
    assert shown(page) == [f"{MINUS}∞", "0", "0", "none"]
    for number, tile in enumerate(read(trace)[case], 1):
        press(page, "Forward")
        assert said(page).startswith(f"Tile {number} of 8 ")
        for text, name in zip(shown(page), ("m", "l", "o"), strict=False):
            near = float(text.replace(MINUS, "-").replace("∞", "inf"))
            assert near == tile[name] or math.isclose(near, tile[name], rel_tol=6e-6)
        assert page.locator(".ev-step td").all_inner_texts()[::3] == [
            as_shown(tile[f"s{n}"]) for n in range(1, 5)
        ]
    log = [text for text in page.locator(".ev-step li").all_inner_texts() if text]
    assert len(log) == 8
    assert page.locator(".ev-step li.ev-moved").count() == sum(
        tile["m"] > before
        for tile, before in zip(
            read(trace)[case], [-math.inf, *(t["m"] for t in read(trace)[case])], strict=False
        )
    )


def test_forward_back_and_reset(page: Page) -> None:
    press(page, "Forward", 3)
    assert said(page).startswith("Tile 3 of 8 ")
    press(page, "Back")
    assert said(page).startswith("Tile 2 of 8 ")
    assert page.locator(".ev-now").count() == 1
    assert page.locator(".ev-step-row .ev-seen b").count() == 4
    press(page, "Reset")
    assert said(page) == f"Before the first tile, m is {MINUS}∞ and l and o are 0."


def test_at_its_ends_a_button_says_so_and_keeps_the_focus(page: Page) -> None:
    back, forward = (page.get_by_role("button", name=n) for n in ("Back", "Forward"))
    assert back.get_attribute("aria-disabled") == "true"
    press(page, "Forward", 8)
    assert forward.get_attribute("aria-disabled") == "true"
    page.keyboard.press("Enter")  # a ninth time, on the button that has the focus
    assert said(page).startswith("Tile 8 of 8 ")
    assert page.evaluate("document.activeElement.textContent") == "Forward"


def test_keys(page: Page) -> None:
    page.get_by_role("button", name="Forward").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert said(page).startswith("Tile 2 of 8 ")
    page.keyboard.press("ArrowLeft")
    assert said(page).startswith("Tile 1 of 8 ")
    page.keyboard.press("End")
    assert said(page).startswith("Tile 8 of 8 ")
    page.keyboard.press("Home")
    assert said(page).startswith("Before the first tile")
    page.keyboard.press("Tab")  # out again: nothing holds the focus
    assert page.evaluate("document.activeElement.closest('.ev-step')") is None


def test_keys_that_belong_to_others_are_left_alone(page: Page) -> None:
    page.get_by_role("button", name="Forward").focus()
    page.keyboard.press("Control+ArrowRight")
    assert said(page).startswith("Before")
    page.select_option(".ev-step select", "your own")
    page.locator(".ev-step textarea").focus()
    page.keyboard.press("ArrowRight")
    assert said(page).startswith("Before")
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    assert said(page).startswith("Before")


def test_a_screen_reader_hears_where_the_reader_comes_to_rest(page: Page) -> None:
    page.evaluate(
        """() => {
            const live = document.querySelector(".ev-step [aria-live=polite]");
            window.heard = [];
            new MutationObserver(() => heard.push(live.textContent)).observe(
                live, { childList: true, characterData: true, subtree: true });
        }"""
    )
    page.get_by_role("button", name="Forward").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("heard.length")
    page.wait_for_timeout(700)
    heard = page.evaluate("heard")
    assert len(heard) == 1
    assert heard[0] == said(page)
    assert heard[0].startswith("Tile 5 of 8 ")


def test_a_reader_s_own_scores(page: Page, trace: list[str]) -> None:
    page.select_option(".ev-step select", "masked")
    page.select_option(".ev-step select", "your own")
    field = page.get_by_label("Scores, 32 at most")
    assert field.input_value().startswith("-inf -inf -inf -inf ")  # what was chosen before
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    field.fill("0 0 0 0 1")
    press(page, "Walk over these")
    assert page.locator(".ev-step-row div").count() == 2
    press(page, "Forward", 2)
    assert said(page) == (
        "Tile 2 of 2 moves the maximum from 0 to 1: what was gathered is multiplied by 0.367879."
    )
    values = [read(trace)["ascending"][t][f"v{n}"] for t in range(2) for n in range(1, 5)]
    [state] = made_states([0, 0, 0, 0, 1, *[-math.inf] * 3], values)[1:]
    assert shown(page)[:3] == [as_shown(n) for n in (state[1], state[3], state[4])]


def test_a_score_that_is_none_is_said_beside_the_field(page: Page) -> None:
    page.select_option(".ev-step select", "your own")
    field = page.locator(".ev-step textarea")
    field.fill("1 two")
    press(page, "Walk over these")
    assert page.get_by_role("alert").inner_text() == f"“two” {NO_NUMBER}"
    assert field.get_attribute("aria-invalid") == "true"
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    field.fill("1 2")
    press(page, "Walk over these")
    assert page.get_by_role("alert").inner_text() == ""
    assert field.get_attribute("aria-invalid") == "false"
    page.select_option(".ev-step select", "constant")
    assert not field.is_visible()


def test_a_row_that_is_masked_whole_has_no_average(page: Page) -> None:
    page.select_option(".ev-step select", "your own")
    page.locator(".ev-step textarea").fill("-inf")
    press(page, "Walk over these")
    press(page, "Forward")
    assert shown(page) == [f"{MINUS}∞", "0", "0", "none"]


def test_motion_only_where_it_is_wanted(browser: Browser, address: str) -> None:
    for wanted, seconds in (("no-preference", "0.25s"), ("reduce", "0s")):
        with opened(browser, address, reduced_motion=wanted) as page:
            duration = (
                "getComputedStyle(document.querySelector('.ev-step-row i')).transitionDuration"
            )
            assert page.evaluate(duration) == seconds


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_it_fits_the_screen_and_keeps_its_height(
    browser: Browser, address: str, width: int
) -> None:
    with opened(browser, address, viewport={"width": width, "height": 800}) as page:
        for case in CASES:
            page.select_option(".ev-step select", case)
            heights = set()
            for step in range(TILES + 1):
                press(page, "Forward", step > 0)
                heights.add(page.evaluate("document.querySelector('.ev-step').offsetHeight"))
            assert len(heights) == 1, case
        page.select_option(".ev-step select", "your own")
        page.locator(".ev-step textarea").fill("1 " + "x" * 60)
        press(page, "Walk over these")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            page.evaluate(
                """() => {
                const box = document.querySelector(".ev-step").getBoundingClientRect();
                return [...document.querySelectorAll(".ev-step *:not([aria-live])")]
                    .filter(e => e.getBoundingClientRect().right > box.right + 0.5)
                    .map(e => e.outerHTML.slice(0, 60));
            }"""
            )
            == []
        )


@pytest.mark.parametrize("width", [320, 1280])
def test_nothing_moves_when_it_appears(browser: Browser, address: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    held: list[Route] = []
    page.route("**/stepper.js", lambda route: held.append(route))  # noqa: PLW0108 -- it sets attributes
    page.goto(address, wait_until="commit")
    page.get_by_text("A paragraph after it.").wait_for()
    page.evaluate("document.fonts.ready.then(() => 0)")
    places = """() => [...document.querySelectorAll(".md-content h1, .ev-stepper figure, .ev-stepper ~ p")]
        .map(e => e.getBoundingClientRect().top + scrollY)"""
    assert page.locator(".ev-step").count() == 0
    before = page.evaluate(places)
    held[0].continue_()
    page.wait_for_selector(".ev-step")
    assert page.evaluate(places) == before
    assert len(before) == 3
    context.close()


def test_without_scripts_the_recorded_trace_stands_in_its_place(
    browser: Browser, address: str, trace: list[str]
) -> None:
    with opened(browser, address, java_script_enabled=False) as page:
        assert page.locator(".ev-step").count() == 0
        paper = page.locator(".ev-stepper .ev-paper pre").first
        assert paper.is_visible()
        assert paper.inner_text().rstrip("\n").split("\n") == "\n".join(trace).rstrip("\n").split(
            "\n"
        )
        host = page.locator(".ev-stepper").bounding_box()
        figure = page.locator(".ev-stepper figure").bounding_box()
        assert host is not None
        assert figure is not None
        assert figure["y"] - host["y"] < 60  # no place is kept for what will not come


def test_where_there_is_no_output_it_leaves_the_page_alone(browser: Browser) -> None:
    page = browser.new_page()
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.set_content('<div class="ev-stepper"><p>nothing was recorded</p></div>')
    page.add_script_tag(path=str(ASSETS[0]))
    assert trouble == []
    assert page.locator(".ev-stepper").inner_html() == "<p>nothing was recorded</p>"
    page.close()


def test_it_is_left_out_in_print(page: Page) -> None:
    page.emulate_media(media="print")
    assert not page.locator(".ev-step").is_visible()
    assert page.locator(".ev-stepper .ev-paper pre").first.is_visible()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing(browser: Browser, address: str, width: int, scheme: str) -> None:
    look = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with opened(browser, address, reduced_motion="reduce", **look) as page:
        press(page, "Forward", 2)
        assert violations(page) == []
        page.select_option(".ev-step select", "your own")
        page.locator(".ev-step textarea").fill("x")
        press(page, "Walk over these")
        assert violations(page) == []


# --- The day --------------------------------------------------------------------


def test_script_and_style_stay_small() -> None:
    assert sum(path.stat().st_size for path in ASSETS) < 12 * 1024


def test_the_page_of_the_day_has_the_stepper_around_its_output() -> None:
    text = DAY.read_text(encoding="utf-8")
    block = r'<div class="ev-stepper" markdown="1">\n\n/// output \| 072-online-normaliser\n///\n\n</div>'
    assert len(re.findall(block, text)) == 1


def test_the_site_loads_it_with_the_day() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    if "072-online-normaliser.md" not in config:
        pytest.skip("day 72 is not in the navigation yet")
    assert "assets/stepper.css" in config
    assert "assets/stepper.js" in config

"""What counts as a number with a unit, and where it is looked for."""
# ruff: noqa: RUF001

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.pages import bindings, lint
from evidence.pages.pagetext import PageText

if TYPE_CHECKING:
    from conftest import Tree


def found(text: str) -> list[str]:
    """Return what the lint says about a page: `line: what`, errors first."""
    findings = lint.findings(PageText("docs/page.md", text))
    ordered = sorted(findings, key=lambda f: (f.severity, f.line))
    return [f"{f.line}: {f.message.split('`')[1]}" for f in ordered]


TYPED = [
    # time
    ("It takes 3 ms.", "3 ms"),
    ("It takes 3ms.", "3ms"),
    ("It takes 0.5s, or ~20s.", "0.5s", "20s"),
    ("It takes 12 µs, or 12 us.", "12 µs", "12 us"),
    ("It takes 12 μs.", "12 μs"),
    ("400 ns later", "400 ns"),
    ("about 2.5 milliseconds", "2.5 milliseconds"),
    ("after 30 seconds", "30 seconds"),
    ("a build of 5 min", "5 min"),
    ("a build of 24h", "24h"),
    ("a 5-second pause", "5-second"),
    ("from 3 to 5 ms", "5 ms"),
    ("3–5 ms, 3-5 ms", "5 ms", "5 ms"),
    ("~3 ms, <3 ms, ±3 ms, (3 ms)", "3 ms", "3 ms", "3 ms", "3 ms"),
    ("1e-3 s", "1e-3 s"),
    ("2 × 10^-3 s", "2 × 10^-3 s"),
    (".5 ms", ".5 ms"),
    ("½ ms", "½ ms"),
    ("1,234 ms and 12 345 ms", "1,234 ms", "12 345 ms"),
    ("3\N{NO-BREAK SPACE}ms", "3 ms"),
    ("3&nbsp;ms", "3&nbsp;ms"),
    ("3\nms", "3 ms"),
    ("**3** ms, *3* ms, 3 **ms**, _3_ ms", "3** ms", "3* ms", "3 **ms", "3 ms"),
    ("<b>3</b> ms", "3 ms"),
    ("time (ms): 3.2", "(ms): 3.2"),
    # cycles
    ("30 cycles", "30 cycles"),
    ("a 4-cycle latency", "4-cycle"),
    ("400 clock cycles", "400 clock cycles"),
    # bytes
    ("48 KiB, 48 KB, 48kB, 80GB, 512 B", "48 KiB", "48 KB", "48kB", "80GB", "512 B"),
    ("a 128-byte line", "128-byte"),
    ("64 bytes", "64 bytes"),
    ("2 megabytes", "2 megabytes"),
    ("2^20 bytes", "2^20 bytes"),
    # rates
    ("4.8 TB/s", "4.8 TB/s"),
    ("900 Gbit/s, 900 Gbps", "900 Gbit/s", "900 Gbps"),
    ("67 TFLOPS, 67 TFLOP/s, 67 tflops", "67 TFLOPS", "67 TFLOP/s"),
    ("13 FLOP/B", "13 FLOP/B"),
    ("120 tokens per second, 120 frames/s", "120 tokens per second", "120 frames/s"),
    ("128 bytes per cycle", "128 bytes per cycle"),
    ("60/s", "60/s"),
    ("60 fps", "60 fps"),
    # frequency, share, power, temperature
    ("1.98 GHz", "1.98 GHz"),
    ("98.5 %, 98.5%, 3 percent, 3 per cent", "98.5 %", "98.5%", "3 percent", "3 per cent"),
    ("3 \\% of it", "3 %"),
    ("2 percentage points", "2 percentage points"),
    ("700 W, 700W, 700 watts", "700 W", "700W", "700 watts"),
    ("5 mJ", "5 mJ"),
    ("85 °C, 85 degrees Celsius", "85 °C", "85 degrees Celsius"),
    # ratios
    ("3x faster, 3× faster, 1.5x.", "3x", "3×", "1.5x"),
    ("3 x faster, 3 × as fast", "3 x faster", "3 × as"),
    ("2 times as fast, 3 times the bandwidth", "2 times as", "3 times the"),
    ("a 3-fold gain", "3-fold"),
    ("a speedup of 3, a factor of 2.5", "speedup of 3", "factor of 2.5"),
    ("a gain of ×3", "×3"),
    ("unrolled 4x, then", "4x"),
    ("by 3,000x a time", "3,000x"),
]


@pytest.mark.parametrize(("text", "expected"), [(t, list(e)) for t, *e in TYPED])
def test_a_number_with_a_unit(text: str, expected: list[str]) -> None:
    assert [entry.partition(": ")[2] for entry in found(text)] == expected


QUIET = [
    # days, dates, versions, numbers of things
    "day 16's tile, and on day 97 or 98",
    "Section 2 says so, step 3 too, and see figure 4.",
    "2026-12-01, 1 December 2026, at 12:30, 10:30:05 h",
    "the 1980s, the 80s, the late 80s, in 1995",
    "3 days, 2 weeks, 30 years",
    "CUDA 13.0, Python 3.11, nvcc 13.0.88, C++17, PCIe 5.0 x16, version 12.x",
    "1. first\n2. second\n",
    "## 1 · The program",
    # names
    "an H200, T4, RTX 4090, A100-80GB, GPT-3, sm_90, sm_90a, L2, x86_64",
    "FP32, TF32, FP8, INT4, int8_t, float4, bf16, HBM3e, DDR5-4800",
    "a model of 7B, of 1.5B and of 70B",
    "`3 ms` and ``3 ` ms``",
    "a 32-bit integer, 64 bits, a 128-bit load",
    "a 4-byte float and a 16-byte load",
    "the prefix 0x, 0xFF",
    "3D, 2D, 4k, 8K",
    # sizes, counts, dimensions, powers
    "n = 4096, with n from 256 to 16384",
    "64 blocks of 256 threads, 32 lanes a warp, 8 warps per block, 40 registers",
    "a 16x16 tile, 16 x 16, 16×16, 16 × 16 × 4, 8 x n, 8x n, 64 × d",
    "2^10, 10^6, 2³, √2, 1/2",
    "repeat 100 times, ran 5 times in a row",
    "day 97 adds a second kernel, 3 lines each second time",
    "10-fold cross-validation",
    "a rotation by 90 degrees, a 3-s",
    "min(3, 4) and 5 min(a, b)",
    # what is bound, sourced or escaped
    "[= time ], [= time / 2 | .1f ] times as fast, [! 48 KiB | guide ]",
    "[! 3 x | [A guide](https://x.y/3ms) ] faster",
    "```text\n3 ms\n```",
    "    3 ms in code that is indented\n",
    "<!-- 3 ms -->",
    "a <!-- 3 ms --> b",
    "<code>3 ms</code>, <kbd>3 s</kbd>",
    # where nobody reads
    "[text](https://x.y/3ms) and [text](page.md#3-ms)",
    "<https://x.y/3ms> and https://x.y/3%20ms/3ms",
    "[text][3 ms]\n\n[3 ms]: https://x.y/3ms\n",
    "text[^3]\n\n[^3]: A note.",
    '<div style="width: 3s; height: 50%" data-x="3 ms">text</div>',
    "# Title {: #takes-3ms .x }",
    "---\ntitle: Takes 3 ms\ndescription: It takes 3 ms\n---\n\ntext",
    "<style>\n.x { transition: 3s }\n</style>",
    # words
    "two seconds, four bytes, a hundred percent",
    "It is faster, the first is slower.",
    "twice a day, half of it, two times, on whose behalf the time was taken",
]


@pytest.mark.parametrize("text", QUIET)
def test_no_number_with_a_unit(text: str) -> None:
    assert found(text) == []


def test_there_are_enough_cases() -> None:
    cases = sum(len(expected) for _, *expected in TYPED)
    assert (len(TYPED), cases, len(QUIET)) == (56, 84, 43)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("It\ntakes\n3 ms.", 3),
        ("# It takes 3 ms\n", 1),
        ("It takes 3 ms\n=============\n", 1),
        ("text\n\n- one\n- two takes 3 ms\n", 4),
        ("!!! note\n\n    It takes 3 ms.\n", 3),
        ('!!! note "It takes 3 ms"\n\n    text\n', 1),
        ('??? note "It takes 3 ms"\n\n    text\n', 1),
        ('=== "It takes 3 ms"\n\n    text\n', 1),
        ("//// details | It takes 3 ms\ntext\n////\n", 1),
        ("//// details | Title\nIt takes 3 ms.\n////\n", 2),
        ("> quoted: 3 ms\n", 1),
        ("text[^1]\n\n[^1]: It takes 3 ms.\n", 3),
        ("term\n:   It takes 3 ms.\n", 2),
        ("![It takes 3 ms](x.png)", 1),
        ('![text](x.png "It takes 3 ms")', 1),
        ('text\n\n<img src="x.png" alt="It takes 3 ms">', 3),
        ("text\n\n<img src='x.png' alt='It takes 3 ms'>", 3),
        ('<a href="x" title="It takes 3 ms">x</a>', 1),
        ('<svg aria-label="It takes 3 ms"></svg>', 1),
        ("<svg>\n<text x='1'>3 ms</text>\n</svg>", 2),
        ("<figure>\n<figcaption>It takes 3 ms</figcaption>\n</figure>", 2),
        ("[It takes 3 ms](page.md)", 1),
        ("`code` and 3 ms", 1),
        ("`code` and\n`more` [= x ] 3 ms", 2),
        ("/// claim\n    expect: a < b\nIt takes 3 ms.\n///", 3),
        ("/// plot\n    series:\n        three kernels, 3 ms: naive\n///", 3),
        ("/// plot\n    x: n, in 3 ms\n    series:\n        a: b\n///", 2),
        ("/// plot\n    series:\n        a: b\nIt takes 3 ms.\n///", 4),
        ("/// diff\n    old: a\n    new: b\n    values:\n        after 3 ms: a/b\n///", 5),
    ],
)
def test_where_a_number_is_looked_for(text: str, line: int) -> None:
    assert found(text) == [f"{line}: 3 ms"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| n | time (ms) |\n| --- | --- |\n| 256 | 0.018 |\n", ["3: 0.018 ms"]),
        ("n | time in ms\n---: | ---\n256 | 0.018\n512 | [= a ]\n1024 | 4\n", ["3: 0.018 ms", "5: 4 ms"]),
        ("| n | GB/s |\n|---|---|\n| 256 | **12** |\n", ["3: 12 GB/s"]),
        ("| n | speed-up (×) |\n|---|---|\n| 256 | ~12 |\n", ["3: 12 ×"]),
        ("| n | time, ms |\n|---|---|\n| 256 | 12 ± 3 |\n", ["3: 12 ms"]),
        ("| what | a | b |\n|---|---|---|\n| time (ms) | 1 | 2 |\n| n | 3 | 4 |\n", ["3: 1 ms", "3: 2 ms"]),
        ("| n | time |\n|---|---|\n| 256 | 3 ms |\n", ["3: 3 ms"]),
        ("| n | time (ms) |\n|---|---|\n| 256 | [= a \\| .1f ] |\n| `3` | – |\n", []),
        ("| A, B | kernel(s) | B | n |\n|---|---|---|---|\n| 1 | 2 | 3 | 4 |\n", []),
        ("| n | time (ms) |\n|---|---|\n\n| 256 | 1 |\n", []),
        ("| n | time (ms) |\n\n|---|---|\n| 256 | 1 |\n", []),
        ("- a\n\n    | n | time (ms) |\n    |---|---|\n    | 256 | 1 |\n", ["5: 1 ms"]),
    ],
)  # fmt: skip
def test_a_table_whose_unit_stands_in_its_header(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is twice as fast.", "twice as fast"),
        ("It takes half the time.", "half the time"),
        ("It is three times faster.", "three times faster"),
        ("It is orders of magnitude slower.", "orders of magnitude slower"),
        ("It doubles the throughput.", "doubles the throughput"),
    ],
)
def test_a_sentence_about_speed_outside_of_a_claim(text: str, expected: str) -> None:
    assert found(text) == [f"1: {expected}"]
    assert found(f"/// claim\n    expect: a < b\n{text}\n///") == []
    assert found(f"/// claim\n    expect: a < b\nIt holds.\n///\n\n{text}") == [f"6: {expected}"]


def test_the_messages() -> None:
    page = PageText("docs/page.md", "It takes 3 ms.\n\nIt is twice as fast.")
    assert [f.explain() for f in lint.findings(page)] == [
        "docs/page.md:1: unbound-number: `3 ms` is typed, not bound to what was measured — bind it, "
        "`[= name ]`, or say where it is from, `[! 3 ms | source ]`",
        "docs/page.md:3: warning: unclaimed: `twice as fast` is said outside of a claim — put the "
        "sentence into a block `/// claim`, with the expression that must hold",
    ]


def test_a_page_that_is_generated_is_left_alone() -> None:
    assert found("---\ngenerated: evidence status\n---\n\nIt takes 3 ms.") == []
    assert found("---\ntitle: It\n---\n\nIt takes 3 ms.") == ["5: 3 ms"]


DRAWING = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 50" aria-label="a bar of 7 ms">
  <title>A bar of 3 ms</title>
  <desc>16 x 16 tiles</desc>
  <path d="M0 0 h 3 s 4 5"/>
  <text x="3" y="4">48 <tspan>KiB</tspan></text>
</svg>
"""


@pytest.mark.parametrize(
    "text",
    ["![tiles](../assets/tiles.svg)", '<img alt="" src="../assets/tiles.svg">', "![t](../assets/tiles.svg#x){ .wide }"],
)  # fmt: skip
def test_the_text_of_a_drawing(tree: Tree, text: str) -> None:
    tree.program()
    tree.record()
    tree.write("docs/assets/tiles.svg", DRAWING)
    tree.write("docs/days/page.md", f"{text}\n\n{text}\n\n/// code | add.cu:greeting\n///\n")
    said = [f.explain() for f in bindings.findings(tree.load()) if f.code == lint.TYPED]
    assert said == [
        f"docs/assets/tiles.svg:{line}: unbound-number: `{what}` is drawn, not bound to what was "
        "measured — take it out of the drawing: into the text around it, bound, or a `/// plot`"
        for line, what in ((1, "7 ms"), (2, "3 ms"), (5, "48 KiB"))
    ]


def test_a_check_fails_on_a_number_that_is_typed(tree: Tree) -> None:
    tree.program()
    tree.record()
    tree.write("docs/page.md", "It takes 3 ms.\n\n/// code | add.cu:greeting\n///\n")
    assert [(f.code, f.line, f.severity) for f in bindings.findings(tree.load())] == [
        ("unbound-number", 1, "error")
    ]


PIECES = ["3 ms", "3", " ", "ms", "\n", "`", "|", "[= ", "[! ", "]", "](", ")", "<b ", "<", ">", '"', "\\", "*", "_",
          "x", "{: .a }", "https://", "-", "\n\n", "    ", "/// claim\n", "///", "|---|\n"]  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_is_read_and_every_finding_lies_on_the_page(text: str) -> None:
    for finding in lint.findings(PageText("docs/page.md", text)):
        assert 1 <= finding.line <= text.count("\n") + 1
        what = finding.message.split("`")[1]
        line = text.split("\n")[finding.line - 1]
        assert what[0] in line or what[0] in "(x"

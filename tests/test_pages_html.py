"""What each directive becomes, as exact HTML, wherever it may stand."""

from __future__ import annotations

import html as entities
import json
import re
from typing import TYPE_CHECKING

import markdown
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.errors import EvidenceError
from evidence.pages.extension import EvidenceExtension
from placing import PLACES, placed

if TYPE_CHECKING:
    from conftest import Tree

RUNS = [
    ["case n = 256", "  time    1.00 ms", "  <bytes>   1024 B"],
    ["case n = 256", "  time    1.10 ms", "  <bytes>   1024 B"],
    ["case n = 256", "  time    1.30 ms", "  <bytes>   1024 B"],
]
FRONT = """\
---
programs: [001-add]
values:
  time: case-n-256/time
  moved: case-n-256/bytes
  stack: compile/addKernel/stack
---

"""
OTHERS = ["tables", "admonition", "footnotes", "attr_list", "md_in_html", "toc", "def_list",
          "pymdownx.superfences", "pymdownx.highlight", "pymdownx.details", "pymdownx.tabbed",
          "pymdownx.blocks.details"]  # fmt: skip


@pytest.fixture
def recorded(tree: Tree) -> Tree:
    tree.program()
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 1\n")
    tree.record(stdout=RUNS)
    return tree


def convert(tree: Tree, text: str, *, on_error: str = "fail", front: str = FRONT) -> str:
    path = tree.write("docs/days/page.md", front + text)
    extension = EvidenceExtension(page=str(path), on_error=on_error)
    md = markdown.Markdown(extensions=[*OTHERS, extension])
    return md.convert(front + text).replace("\N{NO-BREAK SPACE}", " ")


TITLE = "001-add/add: case-n-256/time: 1.1 ms, median; 1.00 to 1.30 ms in 3 runs"
PLACE = "#ev~001-add~add~case-n-256~time"


def value(text: str, *, title: str = TITLE, href: str | None = None, **data: object) -> str:
    """Return the HTML of a bound number."""
    place = f' href="{href}"' if href else ""
    tab = "" if href else ' tabindex="0"'
    packed = entities.escape(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    more = f' data-ev="{packed}"' if data else ""
    tag = "a" if href else "span"
    return f'<{tag} class="ev-value"{more}{place}{tab} title="{title}">{text}</{tag}>'


def sentence(html: str) -> str:
    """Return the first paragraph of some HTML, without its tags."""
    match = re.search(r"<p>(.*?)</p>", html, re.DOTALL)
    assert match, html
    return match[1]


def test_a_number_whose_output_no_page_shows(recorded: Tree) -> None:
    assert convert(recorded, "It takes [= time ].") == (f"<p>It takes {value('1.1 ms')}.</p>")


def test_a_number_leads_into_the_output_of_its_page(recorded: Tree) -> None:
    html = convert(recorded, "It takes [= time ].\n\n/// output | 001-add\n///")
    assert sentence(html) == f"It takes {value('1.1 ms', href=PLACE)}."
    assert html.count('id="ev~001-add~add~case-n-256~time"') == 1


def test_a_number_leads_to_another_page(recorded: Tree) -> None:
    recorded.write("docs/other.md", "/// output | 001-add\n///\n")
    place = f"../other.md{PLACE}"
    html = convert(recorded, "It takes [= time ].")
    assert sentence(html) == f"It takes {value('1.1 ms', href=place)}."


def test_a_number_that_was_calculated_shows_how(recorded: Tree) -> None:
    assert convert(recorded, "[= time * 2 | .1f ]") == (
        f"<p>{value('2.2 ms', expression='time * 2')}</p>"
    )


def test_a_number_that_was_picked_shows_what_it_was_picked_from(recorded: Tree) -> None:
    more = [[*run, "case n = 512", "  time    9.00 ms"] for run in RUNS]
    recorded.record(stdout=more)
    front = FRONT.replace("case-n-256/time", "case-n-*/time")
    assert convert(recorded, "[= min(time) ]", front=front) == (
        f"<p>{value('1.1 ms', expression='min(time)')}</p>"
    )


def test_exact_numbers(recorded: Tree) -> None:
    moved = "001-add/add: case-n-256/bytes: 1024 B, the same in all 3 runs"
    stack = "001-add/add: compile/addKernel/stack: 128 B, as the compiler reported"
    assert convert(recorded, "[= moved ], [= stack ]") == (
        f"<p>{value('1024 B', title=moved)}, {value('128 B', title=stack)}</p>"
    )


def test_a_number_of_two_programs_says_where_each_stands(recorded: Tree) -> None:
    recorded.program("002-sub", "sub")
    recorded.write("kernels/002-sub/evidence.toml", "[sub]\nruns = 1\n")
    recorded.record("002-sub/sub", stdout=RUNS)
    front = FRONT.replace("case-n-256/bytes", "002-sub:case-n-256/time")
    title = f"{TITLE}\n{TITLE.replace('001-add/add', '002-sub/sub')}"
    text = "[= time / moved | .1f ]\n\n/// output | 001-add\n///"
    html = sentence(convert(recorded, text, front=front))
    missing = {"expression": "time / moved", "places": {"002-sub/sub": None}}
    assert html == value("1.0", title=title, href=PLACE, **missing)
    recorded.write("docs/other.md", "/// output | 002-sub\n///\n")
    html = sentence(convert(recorded, text, front=front))
    there = {"expression": "time / moved", "places": {"002-sub/sub": "../other.md"}}
    assert html == value("1.0", title=title, href=PLACE, **there)


@pytest.mark.parametrize(
    ("source", "text", "href"),
    [
        ("CUDA guide", "CUDA guide", None),
        ("[CUDA guide](https://x.y/z)", "CUDA guide", "https://x.y/z"),
        ("see <https://x.y/z>", "see https://x.y/z", "https://x.y/z"),
    ],
)
def test_a_number_from_elsewhere(recorded: Tree, source: str, text: str, href: str | None) -> None:
    expected = value(
        "48 KiB",
        title=f"not measured here; source: {text}",
        href=href,
    ).replace("ev-value", "ev-value ev-sourced")
    assert convert(recorded, f"[! 48 KiB | {source} ]") == f"<p>{expected}</p>"


EXPLORER = re.compile(r' · <a (?:id="explorer~001-add~add\.cu" )?href="https://godbolt\.org/clientstate/[A-Za-z0-9%]+" rel="noopener '
                      r'external" title="opens the whole source with the flags it is built with">'
                      r"Compiler Explorer</a>")  # fmt: skip
ROW = (
    'std::printf(<span class="s">"hello</span><span class="se">\\n</span><span class="s">"</span>);\n'
    "</code></pre></div></figure></div>"
)


def test_a_region(recorded: Tree) -> None:
    html = convert(recorded, "/// code | add.cu:greeting\n///\n\n/// code | add.cu\n///")
    assert EXPLORER.sub("", html.partition("\n<div")[0]) == (
        '<div class="ev-block"><figure class="ev-code" id="src~001-add~add.cu~greeting">'
        '<figcaption class="ev-bar"><span class="ev-file">add.cu</span> '
        '<span class="ev-region">greeting</span> <span class="ev-span">line 10</span> '
        '<span class="ev-tools"><a href="#L10">full source</a></span>'
        '</figcaption><div class="highlight"><pre><code class="language-cuda">'
        '<a href="#L10" tabindex="-1">10</a>' + ROW
    )
    assert len(EXPLORER.findall(html)) == 2  # the listing has one too
    assert html.count('id="L10"') == 1


def test_regions_of_one_program_share_their_link_to_compiler_explorer(recorded: Tree) -> None:
    text = "/// code | add.cu:greeting\n///\n"
    html = convert(recorded, f"{text}\n{text}")
    assert html.count('<a id="explorer~001-add~add.cu" href="https://godbolt.org/') == 1
    assert (
        html.count('<a href="#explorer~001-add~add.cu" rel="noopener external" title="opens') == 1
    )
    assert html.count("https://godbolt.org/") == 1


def test_a_region_without_a_page_for_its_source(recorded: Tree) -> None:
    html = convert(recorded, "/// code | add.cu:greeting\n///")
    assert re.sub(r' <span class="ev-tools">.*?</span>(?=</fig)', "", html) == (
        '<div class="ev-block"><figure class="ev-code" id="src~001-add~add.cu~greeting">'
        '<figcaption class="ev-bar"><span class="ev-file">add.cu</span> '
        '<span class="ev-region">greeting</span> <span class="ev-span">line 10</span>'
        '</figcaption><div class="highlight"><pre><code class="language-cuda">'
        '<a id="src~001-add~add.cu~10" href="#src~001-add~add.cu~10" tabindex="-1">10</a>' + ROW
    )


def test_lines_of_a_second_listing_have_longer_anchors(recorded: Tree) -> None:
    recorded.program("001-add", "sub")
    html = convert(recorded, "/// code | add.cu\n///\n\n/// code | sub.cu\n///", front="")
    assert html.count('<a id="L10" href="#L10" tabindex="-1">10</a>') == 1
    place = "src~001-add~sub.cu~10"
    assert html.count(f'<a id="{place}" href="#{place}" tabindex="-1">10</a>') == 1


def test_a_second_listing_of_one_source_repeats_no_anchor(recorded: Tree) -> None:
    html = convert(recorded, "/// code | add.cu\n///\n\n/// code | add.cu\n///")
    assert html.count('<a id="L10" href="#L10" tabindex="-1">10</a>') == 1
    assert html.count('\n<a href="#L10" tabindex="-1">10</a>') == 1


def paper(html: str) -> str:
    match = re.search(r'<figure class="ev-output".*?(?=<details class="ev-record)', html, re.DOTALL)
    assert match, html
    return match[0]


NAME = "ev~001-add~add"
HEAD = (
    f'<figure class="ev-output" id="{NAME}" data-search-exclude=""><figcaption class="ev-bar">'
    '<span class="ev-file">./add</span> <span class="ev-on">printed on NVIDIA H200</span>'
    "</figcaption>"
)


def runs(count: int, name: str = NAME) -> str:
    """Return the HTML of the choice between runs."""
    labels = [
        f'<label><input type="radio" name="{name}~run"{" checked" * (run == 1)}> run {run}</label>'
        for run in range(1, count + 1)
    ]
    return (
        f'<div class="ev-runs" role="group" aria-label="Runs">{"".join(labels)} '
        '<span class="ev-differ">what differs between runs is dotted</span></div>'
    )


def test_output_that_differs_between_runs(recorded: Tree) -> None:
    assert paper(convert(recorded, "/// output | 001-add\n///")) == (
        f"{HEAD}{runs(3)}"
        '<div class="ev-paper"><pre tabindex="0">case n = 256\n'
        f'  time    <i data-runs="1.00\n1.10\n1.30" data-median="1" id="{NAME}~case-n-256~time">'
        "1.00</i> ms\n"
        f'  &lt;bytes&gt;   <b id="{NAME}~case-n-256~bytes">1024</b> B\n</pre></div>'
    )


def test_a_value_that_no_page_names_has_no_anchor(recorded: Tree) -> None:
    recorded.write("docs/page.md", "")
    html = convert(recorded, "/// output | 001-add\n///", front="")
    assert paper(html) == (
        f"{HEAD}{runs(3)}"
        '<div class="ev-paper"><pre tabindex="0">case n = 256\n'
        '  time    <i data-runs="1.00\n1.10\n1.30">1.00</i> ms\n'
        "  &lt;bytes&gt;   1024 B\n</pre></div>"
    )
    # A name that another page gives is enough, and so is a wildcard.
    recorded.write("docs/other.md", "---\nvalues:\n  all: 001-add:case-*/bytes\n---\n[= all ]\n")
    html = convert(recorded, "/// output | 001-add\n///", front="")
    assert f'<b id="{NAME}~case-n-256~bytes">1024</b> B' in html


def test_two_values_in_one_word_that_differs(recorded: Tree) -> None:
    recorded.write("kernels/001-add/evidence.toml", "[add]\nruns = 1\n[add.values]\n"
                   "wide = '([0-9]+)x'\nhigh = 'x([0-9]+)'\n")  # fmt: skip
    recorded.record(stdout=[["4x9 tiles"], ["8x9 tiles"]])
    front = FRONT.replace("case-n-256/time", "text/wide").replace("case-n-256/bytes", "text/high")
    assert (
        f'<pre tabindex="0"><b data-median="0" id="{NAME}~text~wide"></b><b data-median="0" '
        f'id="{NAME}~text~high"></b><i data-runs="4x9\n8x9">4x9</i> tiles\n</pre>'
    ) in convert(recorded, "/// output | 001-add\n///", front=front)


def test_runs_that_do_not_match_line_by_line_are_printed_in_full(recorded: Tree) -> None:
    recorded.record(stdout=[["case n = 256", "  time    2.00 ms"], ["x", *RUNS[0]]])
    assert paper(convert(recorded, "/// output | 001-add\n///")) == (
        f'{HEAD}<div class="ev-paper"><pre tabindex="0">case n = 256\n  time    2.00 ms\n</pre></div>'
        '<details class="ev-run"><summary>run 2</summary><div class="ev-paper"><pre tabindex="0">x\n'
        f'case n = 256\n  time    <b id="{NAME}~case-n-256~time">1.00</b> ms\n'
        "  &lt;bytes&gt;   1024 B\n</pre></div></details>"
    )


def test_output_that_is_the_same_in_all_runs(recorded: Tree) -> None:
    recorded.record(stdout=[["done"], ["done"]])
    assert paper(convert(recorded, "/// output | 001-add\n///", front="")) == (
        f'{HEAD}<div class="ev-paper"><pre tabindex="0">done\n</pre></div>'
        '<p class="ev-same">the same in all 2 runs</p>'
    )


def test_output_is_text_whatever_it_holds(recorded: Tree) -> None:
    odd = ["<script>alert(1)</script>", "[= time ] **bold** &amp; /// code"]
    recorded.record(stdout=[odd])
    html = convert(recorded, "/// output | 001-add\n///", front="")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "[= time ] **bold** &amp;amp; /// code" in html
    assert "<script>" not in html


def test_what_was_printed_to_stderr_and_how_a_run_ended(recorded: Tree) -> None:
    run = {"exit_status": 3, "signal": None, "timed_out": False, "seconds": 0.5,
           "stdout": ["out"], "stderr": ["bad <thing>"], "problems": []}  # fmt: skip
    recorded.record(runs=[run])
    assert (
        '<pre tabindex="0">out\n<span class="ev-stderr">bad &lt;thing&gt;</span>\n'
        '<span class="ev-exit">(exit status 3)</span>\n</pre>'
    ) in convert(recorded, "/// output | 001-add\n///", front="")


def test_a_program_that_is_meant_not_to_compile(recorded: Tree) -> None:
    build = {"architecture": "sm_90", "command": ["nvcc"], "exit_status": 1, "kernels": {},
             "output": ['add.cu(3): error: identifier "x" is undefined'], "seconds": 1.0,
             "warnings": []}  # fmt: skip
    recorded.write("kernels/001-add/evidence.toml", '[add]\nexpect = "compile-error"\n')
    recorded.record(runs=[], build=build)
    html = convert(recorded, "/// output | 001-add\n///", front="")
    assert (
        '<div class="ev-paper"><pre tabindex="0">add.cu(3): error: identifier "x" is undefined</pre>'
    ) in html
    assert (
        '<span class="ev-file">nvcc -O3 -std=c++17 -arch=native -o add add.cu</span> '
        '<span class="ev-on">printed by the compiler</span>'
    ) in html


def test_the_provenance_line_and_what_it_unfolds_to(recorded: Tree) -> None:
    html = convert(recorded, "/// output | 001-add\n///")
    record = html[html.index("<details") : html.index("</details>")]
    assert record.startswith(
        '<details class="ev-record"><summary>NVIDIA H200 · driver 580.1 · '
        "nvcc 13.0.88 · ./add · 2026-12-01 · 0123456789</summary>"
    )
    assert "<dt>built by</dt><dd>nvcc -O3 -std=c++17 -arch=sm_90 -o add add.cu</dd>" in record
    assert f'<td><b id="{NAME}~compile~addKernel~stack">128</b></td>' in record
    assert "<td>40</td>" in record  # registers, which no page names
    assert re.findall(r"<caption>(.*?)</caption>", record) == [
        "Compiled for sm_90",
        "Sanitizers",
        "Runs: 3",
    ]


MUTANTS = {
    "no-check": {"find": "a < b", "replace": "", "status": "rejected", "by": "gate",
                 "exit_status": 1, "output": [], "reason": ""}
}  # fmt: skip


def test_counters_and_mutants_in_the_record(recorded: Tree) -> None:
    def counted(*numbers: int) -> dict[str, object]:
        return {"dram.sum": {"unit": "byte", "values": list(numbers)}}

    launches = {"addKernel": {"16x1x1": counted(50), "4x1x1": counted(20, 30, 40)}}
    profile = {"status": "recorded", "reason": "", "args": [], "command": ["ncu"], "tool": "2025.3",
               "launches": launches}  # fmt: skip
    recorded.record(stdout=RUNS, mutants=MUTANTS, profile=profile)
    front = FRONT.replace("case-n-256/time", "mutants/no-check/rejected")
    front = front.replace("case-n-256/bytes", "profile/addKernel/4x1x1/dram.sum")
    html = convert(recorded, "/// output | 001-add\n///", front=front)
    assert (
        "<caption>Wrong on purpose: 1 of 1 rejected</caption>"
        '<thead><tr><th scope="col">mutant</th><th scope="col">edit</th><th scope="col">result</th>'
        "</tr></thead><tbody><tr><td>no-check</td><td><code>a &lt; b → (nothing)</code></td>"
        f'<td><b id="{NAME}~mutants~no-check~rejected">rejected by gate</b></td></tr>'
    ) in html
    assert (
        "<caption>Counters of addKernel, medians, Nsight Compute 2025.3</caption>"
        '<thead><tr><th scope="col">metric</th><th scope="col">4x1x1</th>'
        '<th scope="col">16x1x1</th></tr></thead><tbody><tr><td>dram.sum</td>'
        f'<td><b id="{NAME}~profile~addKernel~4x1x1~dram.sum">30 B</b></td><td>50 B</td></tr>'
    ) in html


def test_a_mutant_that_survives_as_said_is_shown_as_what_it_is(recorded: Tree) -> None:
    survived = {**MUTANTS["no-check"], "find": "int", "replace": "long", "status": "survived",
                "by": "", "exit_status": 0}  # fmt: skip
    plain = '[[add.mutant]]\nname = "{0}"\nfind = "{1}"\nreplace = "{2}"\n'
    settings = plain.format("no-check", "a < b", "") + plain.format("wide", "int", "long")
    said = settings + 'why = "Too small <here>."\nsurvives = true\n'
    recorded.record(stdout=RUNS, mutants={**MUTANTS, "wide": survived})

    def shown(text: str) -> str:
        recorded.write("kernels/001-add/evidence.toml", "[add]\nruns = 3\n" + text)
        return convert(recorded, "/// output | 001-add\n///", front=FRONT, on_error="show")

    caption = "<caption>Wrong on purpose: 1 of 2 rejected, 1 survives</caption>"
    row = "<tr><td>wide</td><td><code>int → long</code></td><td>{}</td></tr>"
    html = shown(said)
    assert caption in html
    assert row.format("survives, as said: Too small &lt;here&gt;.") in html
    # Not said: it is not dressed up.
    html = shown(settings)
    assert caption in html
    assert row.format("survived") in html
    # Said of another edit.
    assert row.format("survived") in shown(said.replace('"long"', '"short"'))


@pytest.mark.parametrize(
    "address",
    ["mutants/total", "mutants/rejected", "mutants/surviving", "device/sm-count", "device/memory", "runs/count",
     "compile/warnings", "compile/addKernel/registers", "sanitize/memcheck/errors"],
)  # fmt: skip
def test_every_value_that_a_page_names_has_its_place(recorded: Tree, address: str) -> None:
    recorded.record(stdout=RUNS, mutants=MUTANTS)
    front = FRONT.replace("case-n-256/time", address)
    html = convert(recorded, "[= time ]\n\n/// output | 001-add\n///", front=front)
    place = f"{NAME}~{address.replace('/', '~')}"
    assert html.count(f'href="#{place}"') == 1
    assert html.count(f'<b id="{place}">') == 1


CLAIM = "/// claim\n    expect: {}\nIt *holds*.\n///"


def claim(kind: str, sign: str, more: str) -> str:
    return (
        f'<div class="ev-claim {kind}" id="claim~1"><span aria-hidden="true" class="ev-sign">{sign}</span>'
        '<div class="ev-said">\n<p>It <em>holds</em>.</p>\n</div>\n'
        f'<div class="ev-more"><details class="ev-why">{more}</details></div>\n</div>'
    )


def table(*rows: str, caption: str = "") -> str:
    body = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in row.split(' | '))}</tr>" for row in rows
    )
    return f'<div class="ev-scroll" tabindex="0"><table class="ev-table">{caption}<tbody>{body}</tbody></table></div>'


def test_a_claim_that_holds(recorded: Tree) -> None:
    assert convert(recorded, CLAIM.format("time < 2")) == claim(
        "ev-holds",
        "✓",
        '<summary><span class="ev-mark">holds</span> on h200</summary>'
        "<p><code>time &lt; 2</code></p>"
        + table("time &lt; 2 | 1.1 ms | &lt; | 2 ms | holds")
        + "<p>Stands on 001-add/add: case-n-256/time.</p>",
    )


def test_a_claim_that_holds_within_noise(recorded: Tree) -> None:
    assert convert(recorded, CLAIM.format("time < 1.15")) == claim(
        "ev-noise",
        "≈",
        '<summary><span class="ev-mark">holds within noise</span> on h200</summary>'
        "<p><code>time &lt; 1.15</code></p>"
        + table("time &lt; 1.15 | 1.1 ms | &lt; | 1.15 ms | holds within noise")
        + "<p>Stands on 001-add/add: case-n-256/time.</p>",
    )


def test_a_claim_that_fails_as_the_page_says(recorded: Tree) -> None:
    assert convert(recorded, CLAIM.format("time < 1\n    fails_on: h200")) == claim(
        "ev-not-here",
        "✗",
        '<summary><span class="ev-mark">does not hold, as said,</span> on h200</summary>'
        "<p><code>time &lt; 1</code></p>"
        + table("time &lt; 1 | 1.1 ms | &lt; | 1 ms | does not hold")
        + "<p>Stands on 001-add/add: case-n-256/time.</p>",
    )


def test_a_claim_on_two_devices_with_a_margin(recorded: Tree) -> None:
    device = {"label": "t4", "name": "Tesla T4", "compute_capability": "7.5", "driver": "580.1",
              "memory_mib": 15360, "sm_count": 40}  # fmt: skip
    recorded.record(stdout=RUNS, device=device)
    html = convert(recorded, CLAIM.format("time < 2\n    margin: 5 %"))
    row = "time &lt; 2 | 1.1 ms | &lt; | 2 ms | holds"
    assert html == claim(
        "ev-holds",
        "✓",
        '<summary><span class="ev-mark">holds</span> on h200; holds on t4</summary>'
        "<p><code>time &lt; 2</code> with a margin of 5 %</p>"
        + table(row, caption="<caption>h200</caption>")
        + table(row, caption="<caption>t4</caption>")
        + "<p>Stands on 001-add/add: case-n-256/time.</p>",
    )


BLOCKS = {
    "code": "/// code | add.cu:greeting\n///",
    "output": "/// output | 001-add\n///",
    "claim": CLAIM.format("time < 2"),
}


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("place", PLACES)
def test_a_block_is_the_same_wherever_it_stands(recorded: Tree, kind: str, place: str) -> None:
    block = BLOCKS[kind]
    alone = convert(recorded, block)
    text, _ = placed(place, block)
    html = convert(recorded, text)
    assert re.sub(r"\s+", " ", alone) in re.sub(r"\s+", " ", html)
    assert "///" not in html
    assert "\x02" not in html


@pytest.mark.parametrize(
    "text",
    [
        "# [= time ]",
        "- [= time ]",
        "> [= time ]",
        "| a |\n|---|\n| [= time | .1f ] |",
        "**[= time ]**",
        "*a [= time ]*",
        "Term\n:   [= time ]",
        "text[^1]\n\n[^1]: [= time ]",
        '!!! note "It takes [= time ]"\n    text',
        "//// details | Title\nIt takes [= time ]\n////",
        "a\\\\[= time ]",
        "`a` [= time ] `b`",
        "[= \n time ]",
    ],
)
def test_a_number_wherever_it_stands(recorded: Tree, text: str) -> None:
    html = convert(recorded, text)
    assert html.count(value("1.1 ms")) == 1
    assert "[=" not in html
    assert "\x02" not in html


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\[= time ]", "<p>[= time ]</p>"),
        ("`[= time ]`", "<p><code>[= time ]</code></p>"),
        ("[a](b.md)", '<p><a href="b.md">a</a></p>'),
        ("[=a](b.md)", '<p><a href="b.md">=a</a></p>'),
        ("![=](b.png)", '<p><img alt="=" src="b.png" /></p>'),
        ("\\/// code | add.cu", "<p>/// code | add.cu</p>"),
        ("<!-- [= time ] -->", "<!-- [= time ] -->"),
    ],
)
def test_what_is_left_alone(recorded: Tree, text: str, expected: str) -> None:
    assert convert(recorded, text) == expected


def test_code_is_left_alone(recorded: Tree) -> None:
    for text in (
        "```\n/// code | add.cu:greeting\n///\n[= time ]\n```",
        "    /// code | add.cu:greeting\n    ///\n    [= time ]",
        "- a\n\n        /// code | add.cu:greeting\n        ///\n        [= time ]",
    ):
        html = convert(recorded, text)
        assert "/// code | add.cu:greeting\n///\n[= time ]" in re.sub(r"<[^>]+>", "", html)


def test_a_number_in_an_attribute_is_plain(recorded: Tree) -> None:
    assert convert(recorded, "![It takes [= time ]](a.png)") == (
        '<p><img alt="It takes 1.1 ms" src="a.png" /></p>'
    )
    assert convert(recorded, "<p>\nIt takes [= time ]\n</p>") == "<p>\nIt takes 1.1 ms\n</p>"


def test_a_number_in_a_link_is_no_link(recorded: Tree) -> None:
    recorded.write("docs/other.md", "/// output | 001-add\n///\n")
    html = convert(recorded, "[takes [= time ]](a.md)")
    assert html.count("<a ") == 1
    assert html.startswith('<p><a href="a.md">takes <span class="ev-value" ')


def test_a_second_output_of_a_program_repeats_no_anchor(recorded: Tree) -> None:
    html = convert(recorded, "/// output | 001-add\n///\n\n/// output | 001-add\n///")
    anchors = re.findall(r' id="([^"]+)"', html)
    assert len(anchors) == len(set(anchors))


def test_everything_that_is_wrong_is_said_at_once(recorded: Tree) -> None:
    with pytest.raises(EvidenceError) as caught:
        convert(recorded, "[= nothing ]\n\n/// output | 002\n///\n\n[= time | .9f ]")
    assert [
        line.partition(" — ")[0].replace("\N{NO-BREAK SPACE}", " ")
        for line in str(caught.value).split("\n")
    ] == [
        "docs/days/page.md:9: unknown-name: `nothing` is no name of this page",
        "docs/days/page.md:11: unknown-program: no program is named '002'",
        "docs/days/page.md:14: bad-format: `.9f` asks for more digits than the number has: its "
        "band, 1.00 to 1.30 ms, supports 1 decimal",
    ]


def test_what_is_wrong_can_be_shown_instead(recorded: Tree) -> None:
    html = convert(recorded, "[= nothing ] and [= time ]\n\n" + BLOCKS["code"], on_error="show")
    assert html.startswith(
        '<div class="ev-banner" role="alert"><strong>A build would fail on this page: one '
        "finding.</strong><ul><li>docs/days/page.md:9: unknown-name: `nothing` is no name of this "
        "page — give it an address under `values:`, `nothing: program:section/label`</li></ul>"
        '</div>\n<p><span class="ev-error">`nothing` is no name of this page</span> and '
        '<span class="ev-value"'
    )


def test_a_claim_that_fails_can_be_shown(recorded: Tree) -> None:
    html = convert(recorded, CLAIM.format("time < 1"), on_error="show")
    assert "ev-banner" in html
    assert (
        '<div class="ev-claim ev-fails" id="claim~1">'
        '<span aria-hidden="true" class="ev-sign">✗</span>'
    ) in html


def test_missing_evidence_can_be_shown(recorded: Tree) -> None:
    (recorded.root / "kernels/001-add/evidence/add.h200.json").unlink()
    html = convert(recorded, "\n\n".join(BLOCKS.values()) + "\n\n[= time ]", on_error="show")
    assert html.count('<div class="ev-error">001-add/add has no evidence on h200</div>') == 1
    assert '<span class="ev-error">001-add/add has no evidence on h200</span>' in html
    assert "ev-claim ev-unmeasured" in html


def test_a_block_in_raw_html(recorded: Tree) -> None:
    with pytest.raises(EvidenceError) as caught:
        convert(recorded, "<div>\n/// code | add.cu:greeting\n///\n</div>")
    assert str(caught.value) == (
        "docs/days/page.md:10: `/// code | add.cu:greeting` stands in raw HTML, where no block is "
        'read — add markdown="1" to the HTML element around it'
    )


def test_front_matter_that_the_host_has_taken_off(recorded: Tree) -> None:
    path = recorded.write("docs/page.md", FRONT + "one\n\n[= nothing ]")
    md = markdown.Markdown(extensions=[EvidenceExtension(page=str(path))])
    with pytest.raises(EvidenceError, match=r"^docs/page\.md:11: unknown-name: `nothing`"):
        md.convert("one\n\n[= nothing ]")


def test_the_instance_can_be_used_again(recorded: Tree) -> None:
    path = recorded.write("docs/page.md", FRONT + "[= time ]")
    md = markdown.Markdown(extensions=[EvidenceExtension(page=str(path))])
    first = md.convert("[= time ]")
    md.reset()
    assert md.convert("[= time ]") == first


def test_an_edit_of_the_source_shows_in_the_next_page(recorded: Tree) -> None:
    path = recorded.write("docs/page.md", BLOCKS["code"])
    md = markdown.Markdown(extensions=[EvidenceExtension(page=str(path))])
    assert "hello" in md.convert(BLOCKS["code"])
    source = recorded.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text().replace("hello", "goodbye"))
    assert "goodbye" in md.convert(BLOCKS["code"])


PIECES = st.sampled_from(
    ["[= time ]", "[= moved ]", "text", "\n", "\n\n", "    ", "        ", "- ", "1. ", "> ", "`",
     "```\n", "!!! note\n", '=== "T"\n', "# ", "**", "*", "\\", "| ", "|---|\n", "<div>", "</div>",
     "<!-- ", " -->", "\n/// code | add.cu:greeting\n///\n", "\n    /// code | add.cu:greeting\n    ///\n",
     "\n- a\n\n    /// output | 001-add\n    ///\n", "://", "[a](b)", "![a [= time ]](b)"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_a_page_renders_whole_or_not_at_all(text: str) -> None:
    """Whatever is around them, directives are shown or refused, never half of each."""
    md = markdown.Markdown(extensions=[*OTHERS, EvidenceExtension(page=str(_PAGE))])
    try:
        html = md.convert(text)
    except EvidenceError as error:
        assert str(error).startswith("docs/page.md:")  # noqa: PT017
        return
    assert "\x02" not in html
    assert "\x03" not in html


@pytest.fixture(autouse=True)
def page(recorded: Tree) -> None:
    """The property above runs in one project, whichever test made it last."""
    global _PAGE  # noqa: PLW0603
    _PAGE = recorded.write("docs/page.md", FRONT)


_PAGE = None

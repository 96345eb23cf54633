"""What `evidence check` says about pages, message by message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from evidence import check, store
from evidence.pages import bindings

if TYPE_CHECKING:
    from conftest import Tree

# Two cases: in the first the bands are apart, in the second they overlap.
RUNS = [
    [
        "GPU: NVIDIA H200 (compute capability 9.0)",
        "",
        "case n = 256",
        "  path    gate frac  time (ms)",
        f"  naive      0.0671     {1.00 + 0.01 * run:.2f}",
        f"  online     0.0534     {2.00 + 0.01 * run:.2f}",
        "  bytes      1024 B",
        "",
        "case n = 1024",
        "  path    gate frac  time (ms)",
        f"  naive      0.0671     {4.00 + 0.10 * run:.2f}",
        f"  online     0.0534     {4.20 + 0.10 * run:.2f}",
    ]
    for run in range(5)
]
FRONT = """\
---
programs: [001-add]
values:
  naive: case-n-256/naive/time
  online: 001-add/add:case-n-256/online/time
  all_naive: case-n-*/naive/time
  all_online: case-n-*/online/time
  gate: case-*/*/gate-frac
  moved: case-n-256/bytes
  stack: compile/addKernel/stack
---

"""
FIRST = FRONT.count("\n") + 1  # the page's line on which its text begins
EVERYTHING = """\
[= naive ] [= online ] [= max(all_naive) ] [= max(all_online) ] [= max(gate) ] [= moved ] [= stack ]

/// code | add.cu:greeting
///
"""


@pytest.fixture
def recorded(tree: Tree) -> Tree:
    tree.program()
    tree.record(stdout=RUNS)
    return tree


def found(tree: Tree, text: str, *, front: str = FRONT, rest: str = EVERYTHING) -> list[str]:
    """Return the findings on a page with a text, which stands on its first line."""
    tree.write("docs/page.md", f"{front}{text}\n\n{rest}")
    return [plain(f.explain()) for f in bindings.findings(tree.load())]


def plain(text: str) -> str:
    """Return a text with ordinary spaces for those that keep numbers and units together."""
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    "text",
    [
        "[= naive ]",
        "[= online / naive | .2f ]",
        "[= naive + online ]",
        "[= max(all_online) | .1f ]",
        "[! 48 KiB | CUDA guide ]",
        "/// code | 001-add/add.cu:greeting\n///",
        "/// code | kernels/001-add/add.cu:greeting\n///",
        "/// code | 001-add:greeting\n///",
        "/// code | add.cu\n///",
        "/// output | 001-add\n///",
        "/// output | 1\n///",
        "/// claim\n    expect: online > naive\nIt is slower.\n///",
        "/// claim\n    expect: all_online > all_naive\nWithin noise at n = 1024.\n///",
        "/// claim\n    expect: online > naive\n    margin: 40 %\nMuch slower.\n///",
        "/// claim\n    expect: online < naive\n    fails_on: h200\nFaster elsewhere.\n///",
        "/// claim\n    expect: stack == 128\n    device: h200\nA frame.\n///",
    ],
)
def test_what_is_right(recorded: Tree, text: str) -> None:
    assert found(recorded, text) == []


FAR = "close: greeting"
CLAIM = "/// claim\n    expect: {}\nIt holds.\n///"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (
            "[= nave ]",
            0,
            "unknown-name: `nave` is no name of this page; close: naive, all_naive, gate — give it an address "
            "under `values:`, `nave: program:section/label`",
        ),
        (
            "[= naive + ]",
            0,
            "bad-expression: `naive +` cannot be read as an expression — use numbers, names, "
            "+ - * / **, comparisons, and, min, max, abs",
        ),
        (
            "[= naive > online ]",
            0,
            "bad-expression: column 1 of `naive > online`: this is a comparison, not a number — "
            "put it into a claim",
        ),
        (
            "[= all_naive ]",
            0,
            "bad-expression: column 1 of `all_naive`: this is a vector of 2 (256, 1024) — choose one "
            "with min(…) or max(…), or by its full address",
        ),
        (
            "[= naive + stack ]",
            0,
            "bad-expression: column 9 of `naive + stack`: adds `ms` and `B` — bring both to one "
            "unit",
        ),
        (
            "[= naive | .4f ]",
            0,
            "bad-format: `.4f` asks for more digits than the number has: its band, 1.00 to "
            "1.04 ms, supports 2 decimals — use .2f",
        ),
        ("[= naive | %d ]", 0, "bad-format: `%d` is no format for a number — use one like .2f, "
         ".3g, .2e, .1% or .1f MB"),
        (
            "/// code | add.cu:greting\n///",
            0,
            "unknown-region: kernels/001-add/add.cu has no region `greting`; close: greeting — "
            "correct the name, or mark the region in the source",
        ),
        (
            "/// code | adds.cu:greeting\n///",
            0,
            "unknown-program: no program is named 'adds.cu'; close: add.cu — run: evidence list",
        ),
        (
            "/// output | 001-ad\n///",
            0,
            "unknown-program: no program is named '001-ad'; close: 001-add, 001-add/add — run: "
            "evidence list",
        ),
        (
            CLAIM.format("online < naive"),
            1,
            "claim-fails: `online < naive` does not hold on h200: 2.02 ms < 1.02 ms — correct the "
            "sentence, or say `fails_on: h200`",
        ),
        (
            CLAIM.format("online > naive\n    margin: 99 %"),
            1,
            "claim-fails: `online > naive` does not hold on h200: 2.02 ms > 1.02 ms — correct the "
            "sentence, or say `fails_on: h200`",
        ),
        (
            CLAIM.format("all_online < all_naive"),
            1,
            "claim-fails: `all_online < all_naive` does not hold on h200: 256: 2.02 ms < 1.02 ms; "
            "1024: 4.4 ms < 4.2 ms — correct the sentence, or say `fails_on: h200`",
        ),
        (
            CLAIM.format("online > naive\n    fails_on: h200"),
            1,
            "claim-holds: `online > naive` is said to fail on h200, and it holds there — take "
            "h200 out of `fails_on:`",
        ),
        (
            CLAIM.format("online > naive\n    margin: much"),
            0,
            "bad-expression: `margin: much` is no share — write `margin: 5 %` or `margin: 0.05`",
        ),
        (
            CLAIM.format("online > naive\n    device: H 200"),
            0,
            "bad-expression: `device: H 200` names no device — write labels, `device: h200, t4`",
        ),
        (
            CLAIM.format("online"),
            1,
            "bad-expression: column 1 of `online`: nothing is compared — write a comparison",
        ),
        (
            CLAIM.format("1 < 2"),
            1,
            "bad-expression: column 1 of `1 < 2`: nothing recorded is compared — compare a "
            "recorded value",
        ),
        (
            CLAIM.format("online > naive\n    device: t4"),
            1,
            "missing: stands on evidence that cannot be shown: 001-add/add has no evidence on t4 "
            "— run: evidence record 001-add/add",
        ),
        (
            "[= naive",
            0,
            "page-syntax: `[= ` is not closed in its paragraph — close it with ` ]`, or write "
            "`\\[= ` for the characters",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong(recorded: Tree, text: str, line: int, expected: str) -> None:
    assert found(recorded, text) == [f"docs/page.md:{FIRST + line}: {expected}"]


def test_an_address_is_judged_where_it_is_written(recorded: Tree) -> None:
    front = "---\nvalues:\n  t: 001-add:case-n-256/naive/tme\n---\n\n"
    assert found(recorded, "[= t ]", front=front, rest="/// code | add.cu:greeting\n///") == [
        "docs/page.md:3: unknown-address: `t`: `case-n-256/naive/tme` is no address; close: "
        "case-n-256/naive/time, case-n-256/online/time, case-n-1024/naive/time — list them with: "
        "evidence values"
    ]


def test_an_address_without_a_program(recorded: Tree) -> None:
    front = "---\nvalues:\n  t: case-n-256/naive/time\n---\n\n"
    assert found(recorded, "[= t ]", front=front, rest="/// code | add.cu:greeting\n///") == [
        "docs/page.md:3: unknown-program: `t: case-n-256/naive/time` does not say which program "
        "it is about — write `t: program:case-n-256/naive/time`"
    ]


def test_an_address_without_a_program_on_a_page_about_two(recorded: Tree) -> None:
    recorded.program("002-sub", "sub")
    recorded.record("002-sub/sub", stdout=RUNS)
    front = "---\nprograms: [1, 2]\nvalues:\n  t: case-n-256/naive/time\n---\n\n"
    shown = "/// code | add.cu:greeting\n///\n\n/// code | sub.cu:greeting\n///"
    assert found(recorded, "[= t ]", front=front, rest=shown) == [
        "docs/page.md:4: unknown-program: `t: case-n-256/naive/time` does not say which program "
        "it is about — write `t: program:case-n-256/naive/time`"
    ]


def test_a_program_in_the_front_matter(recorded: Tree) -> None:
    front = "---\nprograms:\n  - 002-sub\n---\n\n"
    assert found(recorded, "", front=front, rest="/// code | add.cu:greeting\n///") == [
        "docs/page.md:3: unknown-program: no program is named '002-sub' — run: evidence list"
    ]


def test_a_name_that_nothing_uses_is_a_warning(recorded: Tree) -> None:
    front = "---\nvalues:\n  t: 001-add:case-n-256/naive/time\n---\n\n"
    assert found(recorded, "", front=front, rest="/// code | add.cu:greeting\n///") == [
        "docs/page.md:3: warning: name-unused: name `t` is used nowhere on the page — remove it"
    ]


def test_a_region_that_no_page_shows(recorded: Tree) -> None:
    assert found(recorded, "", rest="/// output | 001-add\n///", front="") == [
        "kernels/001-add/add.cu:10: region-unused: no page shows region `greeting` — show it, "
        "`/// code | add.cu:greeting`, or remove its markers"
    ]


def test_pages_that_bind_nothing(recorded: Tree) -> None:
    assert found(recorded, "just text", rest="", front="")[0] == (
        "docs:1: nothing-bound: none of 1 pages shows a program or its evidence — bind a page to "
        "a program, or correct docs in [tool.evidence]"
    )


def test_a_project_without_pages(recorded: Tree) -> None:
    assert bindings.findings(recorded.load()) == []


def test_a_page_that_is_not_utf_8(recorded: Tree) -> None:
    recorded.write("docs/odd.md", b"\xff\xfe")
    assert found(recorded, "") == [
        "docs/odd.md:1: bad-page: cannot be read: invalid start byte — save it as UTF-8"
    ]


def test_evidence_that_is_stale_is_named_once_a_page(recorded: Tree) -> None:
    source = recorded.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text().replace("return 0", "return 00"))
    assert found(recorded, "[= naive ] [= online ]\n\n/// output | 001-add\n///") == [
        f"docs/page.md:{FIRST}: stale: stands on evidence that cannot be shown: 001-add/add: "
        "code of add.cu changed after its evidence was recorded (b192f96e63df → 922f2bbd1fb7) — "
        "run: evidence record 001-add/add"
    ]


def test_evidence_that_is_missing(recorded: Tree) -> None:
    (recorded.root / "kernels/001-add/evidence/add.h200.json").unlink()
    assert found(recorded, "[= naive ] [= online ]\n\n/// output | 001-add\n///") == [
        f"docs/page.md:{FIRST}: missing: stands on evidence that cannot be shown: 001-add/add has "
        "no evidence on h200 — run: evidence record 001-add/add"
    ]


def test_evidence_that_was_edited_by_one_digit(recorded: Tree) -> None:
    path = recorded.root / "kernels/001-add/evidence/add.h200.json"
    path.write_text(path.read_text().replace("1.02", "0.02"))
    [only] = found(recorded, "[= naive ]")
    assert only.startswith(
        f"docs/page.md:{FIRST}: edited: stands on evidence that cannot be shown: was edited after "
        "it was recorded: body "
    )


def test_evidence_of_a_program_that_failed(recorded: Tree) -> None:
    recorded.record(stdout=RUNS, outcome={"passed": False, "reasons": ["exit status 1"]})
    [only] = found(recorded, "[= naive ]")
    assert only.startswith(f"docs/page.md:{FIRST}: failed: stands on evidence that cannot be shown")


def test_a_claim_about_what_was_not_measured(recorded: Tree) -> None:
    front = FRONT.replace("values:\n", "values:\n  dram: profile/addKernel/grid-1x1x1/dram.sum\n")
    claim = "/// claim\n    expect: dram < 1\nIt reads little.\n///"
    assert found(recorded, claim, front=front) == [
        f"docs/page.md:{FIRST + 2}: claim-unmeasured: "
        "`profile/addKernel/grid-1x1x1/dram.sum` has no value: the profiler: not requested — run: "
        "evidence record"
    ]


def test_a_claim_holds_on_every_device_with_evidence(recorded: Tree) -> None:
    slow = [[line.replace("2.0", "0.5") for line in run] for run in RUNS]
    device = {**store.read(next(recorded.root.glob("kernels/*/evidence/*"))).data["device"]}
    recorded.record(stdout=slow, device={**device, "label": "t4", "name": "Tesla T4"})
    assert found(recorded, CLAIM.format("online > naive")) == [
        f"docs/page.md:{FIRST + 1}: claim-fails: `online > naive` does not hold on t4: 0.52 ms > "
        "1.02 ms — correct the sentence, or say `fails_on: t4`"
    ]
    assert found(recorded, CLAIM.format("online > naive\n    device: h200")) == []
    assert found(recorded, CLAIM.format("online > naive\n    fails_on: t4")) == []


def test_a_check_counts_what_it_looked_at(recorded: Tree) -> None:
    text = f"[= naive ]\n\n{CLAIM.format('online > naive')}\n\n/// output | 1\n///"
    found(recorded, text)
    report = check.run(recorded.load())
    assert [f.code for f in report.findings] == ["readme"]
    assert report.looked_at == {
        "programs": 1,
        "records": 1,
        "pages": 1,
        "paragraphs": 3,
        "regions": 1,
        "outputs": 1,
        "numbers": 8,
        "claims": 1,
        "plots": 0,
        "diffs": 0,
    }


def test_a_bare_file_name_means_the_program_the_page_is_about(recorded: Tree) -> None:
    recorded.program("002-sub", "add")
    recorded.record("002-sub/add", stdout=RUNS)
    other = "/// code | 002-sub/add.cu:greeting\n///\n"
    assert found(recorded, "", rest=EVERYTHING + "\n" + other) == []
    front = FRONT.replace("programs: [001-add]", "").replace(": c", ": 001-add:c")
    assert found(recorded, "", front=front, rest=EVERYTHING + "\n" + other)[:1] == [
        "docs/page.md:17: unknown-program: 'add.cu' stands for several programs: 001-add/add.cu, "
        "002-sub/add.cu — name the folder too"
    ]

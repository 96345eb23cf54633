"""The ledger: somebody else's claims, each with a verdict that must hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import markdown
import pytest
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

import browsing
from conftest import CUDA, PYPROJECT, Tree
from evidence import check, readme
from evidence.errors import EvidenceError
from evidence.pages.extension import EvidenceExtension

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

RUNS = [
    ["case n = 256", f"  time    {time:.2f} ms", "  other   3.00 ms"] for time in (1.00, 1.10, 1.30)
]
FRONT = """\
---
programs: [001-add/add]
values:
  time: 001-add/add:case-n-256/time
  other: 001-add/add:case-n-256/other
---

# Ledger

"""
SLOW = """\
/// ruling | 1
    claim: It takes 9 ms, `time` says.
    kind: measurement
    verdict: false
    expect: time < other
    margin: 5 %
It takes [= time ].
///
"""
BUILD = """\
/// ruling | 2
    claim: It compiles.
    kind: compile fact
    verdict: false
    by: 001-add/wrong
It does not.
///
"""
BOOK = """\
/// ruling | 3
    claim: There are two.
    kind: source
    verdict: roughly
There are [! 2 | [a book](https://example.org) ].
///
"""
OPEN = """\
/// ruling | 4
    claim: It matters.
    kind: measurement
    verdict: undecided
Nobody has looked.
///
"""
LEDGER = "/// ledger | 4\n///\n\n"
PAGE = f"{FRONT}{LEDGER}{SLOW}\n{BUILD}\n{BOOK}\n{OPEN}"
NAME = "docs/reference/ledger.md"


@pytest.fixture
def site(tree: Tree) -> Tree:
    fill(tree)
    return tree


def fill(tree: Tree) -> None:
    tree.write("pyproject.toml", PYPROJECT.replace('sources = ""', 'sources = "sources"'))
    tree.program()
    tree.write("kernels/001-add/wrong.cu", CUDA.format(stem="wrong"))
    tree.write(
        "kernels/001-add/evidence.toml",
        "[add]\nruns = 3\n\n[wrong]\nexpect = { exit = 1 }\nruns = 3\n",
    )
    tree.record(stdout=RUNS)
    tree.record("001-add/wrong", stdout=[["GPU: none"]] * 3)
    tree.write("docs/index.md", "# Output\n\n/// code | add.cu:greeting\n///\n\n"
               "/// code | wrong.cu:greeting\n///\n\n/// output | 001-add/add\n///\n")  # fmt: skip
    tree.write(NAME, PAGE)
    readme.write_all(tree.load())


def convert(tree: Tree, text: str, name: str = NAME, **options: Any) -> str:
    extension = EvidenceExtension(page=str(tree.write(name, text)), **options)
    html = markdown.Markdown(extensions=["toc", extension]).convert(text.partition("---\n\n")[2])
    return html.replace("\N{NO-BREAK SPACE}", " ")


def failing(tree: Tree, text: str = PAGE) -> list[str]:
    tree.write(NAME, text)
    found = check.run(tree.load()).findings
    said = [f.explain() for f in found if f.severity == "error"]
    said = [text.replace(f"{NAME}:", "").replace(" — ", "; ") for text in said]
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in said]


def line(text: str, words: str) -> int:
    return text[: text.index(words)].count("\n") + 1


# What it looks like.


def test_a_ruling_shows_claim_verdict_and_what_decides_it(site: Tree) -> None:
    html = convert(site, PAGE)
    [ruling] = re.findall(
        r'<div class="ev-ruling ev-is-false" id="ruling~1">.*?</details>', html, re.DOTALL
    )
    assert '<a class="ev-no" href="#ruling~1" aria-label="Claim 1">1</a>' in ruling
    assert "</a> It takes 9 ms, <code>time</code> says.</p>" in ruling
    assert '<b>false</b> <span class="ev-kind">measurement</span>' in ruling
    assert '<a class="ev-value" href="../index.md#ev~001-add~add~case-n-256~time"' in ruling
    assert 'the verdict <span class="ev-mark">holds</span> on h200' in ruling
    assert "<code>time &lt; other</code> with a margin of 5 %" in ruling
    assert 'href="../index.md#ev~001-add~add~case-n-256~time">case-n-256/time</a>' in ruling


def test_a_ruling_leads_to_the_programs_that_decide_it(site: Tree) -> None:
    html = convert(site, PAGE)
    source = "../sources/001-add.md#src~001-add~wrong.cu"
    assert f'Decided by <a href="{source}">001-add/<wbr>wrong</a>.' in html
    html = convert(site, PAGE.replace("by: 001-add/wrong", "by: 001-add/wrong, 001-add/add"))
    assert f'wrong</a>, <a href="../index.md#ev~001-add~add">001-add/<wbr>add</a>.' in html  # noqa: F541


def test_a_source_decides(site: Tree) -> None:
    assert 'href="https://example.org"' in convert(site, PAGE)


def test_the_verdicts_are_counted_and_can_be_chosen_without_a_script(site: Tree) -> None:
    html = convert(site, PAGE)
    [choice] = re.findall(r"<fieldset>.*?</fieldset>", html)
    assert re.findall(r'id="ev-only-(\w+)"( checked)?> ([\w ]+) <b>(\d+)</b>', choice) == [
        ("all", " checked", "all", "4"),
        ("roughly", "", "roughly true", "1"),
        ("false", "", "false", "2"),
        ("undecided", "", "not decided here", "1"),
    ]
    assert re.findall(
        r'<a class="ev-ruled ev-is-(\w+)" href="#ruling~(\d)" title="([^"]*)"', html
    ) == [
        ("false", "1", "It takes 9 ms, time says."),
        ("false", "2", "It compiles."),
        ("roughly", "3", "There are two."),
        ("undecided", "4", "It matters."),
    ]


def test_the_list_of_claims_has_the_verdicts_that_are_judged(site: Tree) -> None:
    html = convert(site, "---\n---\n\n/// claims\n///\n", "docs/reference/claims.md")
    assert '<a href="ledger.md#ruling~1">Claim 1 is false: It takes 9 ms, time says.</a>' in html
    assert html.count("<li ") == 1
    assert "1 claim on 1 page; on h200: 1 holds" in html


def test_what_is_checked_is_counted(site: Tree) -> None:
    assert failing(site) == []
    assert check.run(site.load()).looked_at["claims"] == 1


# Verdicts are checked.


def test_a_verdict_that_no_longer_stands_fails(site: Tree) -> None:
    text = PAGE.replace("time < other", "time > other")
    assert failing(site, text) == [
        f"{line(text, 'expect: time')}: claim-fails: claim 1 is `false` no longer: `time > other` "
        "does not hold on h200: 1.1 ms > 3.00 ms; read the evidence, then correct the verdict and "
        "its sentence"
    ]
    with pytest.raises(EvidenceError, match="claim 1 is `false` no longer"):
        convert(site, text)


def test_a_verdict_that_no_longer_stands_is_shown_while_serving(site: Tree) -> None:
    html = convert(site, PAGE.replace("time < other", "time > other"), on_error="show")
    assert '<span class="ev-mark">does not hold</span> on h200' in html


def test_new_evidence_that_disagrees_fails(site: Tree) -> None:
    site.record(stdout=[[*run[:1], "  time    9.00 ms", run[2]] for run in RUNS])
    assert any("claim 1 is `false` no longer" in said for said in failing(site))


@pytest.mark.parametrize("stem", ["add", "wrong"])
def test_a_program_that_was_edited_decides_nothing(site: Tree, stem: str) -> None:
    source = site.root / f"kernels/001-add/{stem}.cu"
    source.write_text(source.read_text().replace("return 0", "return 1 - 1"))
    text = PAGE
    where = {"add": "expect: time", "wrong": "by: 001-add/wrong"}[stem]
    assert any(
        said.startswith(f"{line(text, where)}: stale: stands on evidence that cannot be shown")
        for said in failing(site, text)
    )


def test_a_program_without_evidence_decides_nothing(site: Tree) -> None:
    (site.root / "kernels/001-add/evidence/wrong.h200.json").unlink()
    where = line(PAGE, "by: 001-add/wrong")
    assert any(said.startswith(f"{where}: missing: ") for said in failing(site))


def test_values_and_programs_that_are_not_there(site: Tree) -> None:
    text = PAGE.replace("case-n-256/other", "case-n-256/othr").replace("add/wrong", "add/wrng")
    assert failing(site, text) == [
        "5: unknown-address: `other`: `case-n-256/othr` is no address; close: case-n-256/other, "
        "case-n-256/time; list them with: evidence values",
        f"{line(text, 'by: ')}: unknown-program: no program is named '001-add/wrng'; close: "
        "001-add/wrong, 001-add, 001-add/add; run: evidence list",
    ]


def test_a_name_that_is_not_there(site: Tree) -> None:
    text = PAGE.replace("expect: time < other", "expect: tme < other")
    assert failing(site, text)[0].startswith(
        f"{line(text, 'expect: tme')}: unknown-name: `tme` is no name of this page; close: time, other; "
    )


def test_a_section_is_read_again_when_its_verdict_stands_otherwise(site: Tree) -> None:
    from evidence.pages import grounds, shown
    from evidence.pages.bindings import Pages
    from evidence.pages.library import Library

    pages = Pages(Library(site.load()))
    [ruling, *_] = [what for what in pages.bound(site.root / NAME).shown if hasattr(what, "words")]
    [said] = grounds.of(ruling)
    assert said.label == "claim `time < other`"
    assert not isinstance(ruling, shown.Claim)


# What is written wrongly: one message each.


@pytest.mark.parametrize(
    ("old", "new", "at", "expected"),
    [
        ("/// ruling | 1", "/// ruling", "/// ruling\n",
         "`/// ruling` lacks its argument; write `/// ruling | 8`"),
        ("/// ruling | 1", "/// ruling | one", "/// ruling | one",
         "`/// ruling | one` has no number; write the claim's number, `/// ruling | 8`"),
        ("verdict: false\n    expect", "verdict: wrong\n    expect", "verdict: wrong",
         "`/// ruling | 1` has the verdict `wrong`, which means nothing; choose among true, roughly, "
         "false, undefined, undecided"),
        ("    verdict: false\n    expect", "    expect", "/// ruling | 1",
         "`/// ruling | 1` has no verdict; choose among true, roughly, false, undefined, undecided"),
        ("kind: compile fact", "kind: fact", "kind: fact",
         "`/// ruling | 2` has the kind `fact`, which means nothing; choose among arithmetic, compile "
         "fact, measurement, undefined, source"),
        ("    kind: compile fact\n", "", "/// ruling | 2",
         "`/// ruling | 2` has no kind; choose among arithmetic, compile fact, measurement, "
         "undefined, source"),
        ("    claim: It compiles.\n", "", "/// ruling | 2",
         "`/// ruling | 2` has no claim; write the claim in your words, `    claim: …`"),
        ("It does not.\n", "", "/// ruling | 2",
         "`/// ruling | 2` has no sentence; write why the verdict is what it is"),
        ("    by: 001-add/wrong\n", "", "/// ruling | 2",
         "`/// ruling | 2` is decided by nothing; add `expect:`, or name under `by:` a program that "
         "is meant to fail"),
        ("    by: 001-add/wrong\n", "    by: 001-add/add\n", "/// ruling | 2",
         "`/// ruling | 2` is decided by nothing; add `expect:`, or name under `by:` a program that "
         "is meant to fail"),
        ("[! 2 | [a book](https://example.org) ]", "2", "/// ruling | 3",
         "`/// ruling | 3` is decided by a source, and names none; name it in the sentence, "
         "`[! what it says | source ]`"),
        ("verdict: undecided\n", "verdict: undecided\n    expect: time < other\n",
         "expect: time < other\nNobody",
         "`/// ruling | 4` is undecided, and has an expression; give the verdict that follows, or "
         "remove `expect:`"),
        ("/// ruling | 2", "/// ruling | 1", "/// ruling | 1\n    claim: It compiles",
         "claim 1 is ruled on twice, first on line 13; keep one, or correct its number"),
        ("/// ruling | 4", "/// ruling | 5", "/// ledger",
         "of 4 claims, claim 4 is not ruled on; add a block `/// ruling | 4`"),
        ("/// ruling | 4", "/// ruling | 5", "/// ruling | 5",
         "claim 5 is ruled on, and there are 4; correct it, or write `/// ledger | 5`"),
        ("/// ledger | 4", "/// ledger | 9", "/// ledger",
         "of 9 claims, claim 5 is not ruled on, nor are 4 more; add a block `/// ruling | 5`"),
        ("/// ledger | 4", "/// ledger | all", "/// ledger",
         "`/// ledger | all` says no number of claims; write `/// ledger | 62`"),
    ],
)  # fmt: skip
def test_what_is_written_wrongly(site: Tree, old: str, new: str, at: str, expected: str) -> None:
    assert old in PAGE
    text = PAGE.replace(old, new, 1)
    assert f"{line(text, at)}: page-syntax: {expected}" in failing(site, text)


def test_an_empty_expression(site: Tree) -> None:
    text = PAGE.replace("expect: time < other", "expect:")
    assert (
        f"{line(text, 'expect:')}: page-syntax: `/// ruling | 1` has an empty `expect:`; write what "
        "must hold, or remove it"
    ) in failing(site, text)


def test_numbers_in_a_claim_are_the_claims_own(site: Tree) -> None:
    assert failing(site) == []  # `It takes 9 ms` is on trial, not asserted
    text = PAGE.replace("It does not.", "It takes 9 ms.")
    assert failing(site, text)[0].startswith(
        f"{line(text, 'It takes 9 ms.')}: unbound-number: `9 ms` is typed"
    )


def test_a_page_without_a_ledger_may_rule_on_any_claim(site: Tree) -> None:
    assert failing(site, PAGE.replace(LEDGER, "").replace("ruling | 4", "ruling | 77")) == []


# In a browser.


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tree = Tree(tmp_path_factory.mktemp("ledger"))
    fill(tree)
    tree.write("mkdocs.yml", browsing.look(tree.root))
    build_command.build(load_config(str(tree.root / "mkdocs.yml")))
    with browsing.served(tree.root / "site") as found:
        yield f"{found}reference/ledger/"


def shown(page: Page) -> list[str]:
    return [number.inner_text() for number in page.locator(".ev-no").all() if number.is_visible()]


@pytest.mark.browser
def test_verdicts_are_chosen_without_a_script(browser: Browser, address: str) -> None:
    with browsing.opened(browser, address, java_script_enabled=False) as page:
        assert shown(page) == ["1", "2", "3", "4"]
        page.locator("label.ev-is-false").click()
        assert shown(page) == ["1", "2"]
        page.locator("label.ev-is-roughly").click()
        assert shown(page) == ["3"]
        page.locator("a.ev-ruled", has_text="4").click()
        assert shown(page) == ["3", "4"]  # where a link leads is there whatever was chosen
        page.locator("label.ev-is-all").click()
        assert shown(page) == ["1", "2", "3", "4"]


@pytest.mark.browser
@pytest.mark.parametrize("width", browsing.WIDTHS)
@pytest.mark.parametrize("scheme", browsing.SCHEMES)
def test_a_ledger_can_be_read_by_everyone(
    browser: Browser, address: str, width: int, scheme: str
) -> None:
    size = {"width": width, "height": 800}
    with browsing.opened(browser, address, viewport=size, color_scheme=scheme) as page:
        page.locator("details.ev-why > summary").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert browsing.violations(page) == []

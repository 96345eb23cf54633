"""What is wrong is said in the same words wherever it stands, and what else a page can say."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import markdown
import pytest
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from mkdocs.commands import build as build_command
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from evidence import readme
from evidence.errors import ConfigError, EvidenceError
from evidence.pages import bindings, navigation
from evidence.pages.extension import EvidenceExtension
from evidence.pages.library import Library
from placing import PLACES, placed

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Tree

RUNS = [
    ["case n = 256", f"  time    {time:.2f} ms", "  bytes   1024 B", "  nothing   nan"]
    for time in (1.00, 1.10, 1.30)
]
FRONT = """\
---
programs: [001-add]
values:
  time: case-n-256/time
  moved: case-n-256/bytes
  stack: compile/addKernel/stack
  nothing: case-n-256/nothing
  clean: sanitize/memcheck/errors
  count: runs/count
  sms: device/sm-count
---

"""
FIRST = FRONT.count("\n") + 1
REST = """\
[= time ] [= moved ] [= stack ] [= nothing ] [= clean ] [= count ] [= sms ]

/// code | add.cu:greeting
///
"""


@pytest.fixture
def recorded(tree: Tree) -> Tree:
    tree.program()
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 1\n")
    tree.record(stdout=RUNS)
    return tree


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


def found(tree: Tree, text: str) -> list[str]:
    tree.write("docs/page.md", f"{FRONT}{text}\n\n{REST}")
    return [plain(f.explain()) for f in bindings.findings(tree.load())]


def convert(
    tree: Tree, text: str, *more: object, on_error: str = "show", front: str = FRONT
) -> str:
    path = tree.write("docs/page.md", front + text)
    extension = EvidenceExtension(page=str(path), on_error=on_error)
    md = markdown.Markdown(extensions=["admonition", "tables", *more, extension])
    return plain(md.convert(front + text))


# --- The same words everywhere.

PREDICT = "/// predict\n    answer: {}\nHow long?\n///"
PLOT = "/// plot\n    kind: bar\n    series:\n        one: {}\nCaption.\n///"
UNKNOWN = "is no name of this page; close: time, moved — give it an address under `values:`, `tme: program:section/label`"
WRONG = {
    "code": ("/// code | add.cu:greting\n///", 0, "unknown-region: kernels/001-add/add.cu has no "
             "region `greting`; close: greeting — correct the name, or mark the region in the source"),
    "output": ("/// output | 001-ad\n///", 0, "unknown-program: no program is named '001-ad'; close: "
               "001-add, 001-add/add — run: evidence list"),
    "claim": ("/// claim\n    expect: time < 1\nIt is fast.\n///", 1, "claim-fails: `time < 1` does "
              "not hold on h200: 1.1 ms < 1 ms — correct the sentence, or say `fails_on: h200`"),
    "claim without text": ("/// claim\n    expect: time < 2\n///", 0, "page-syntax: `/// claim` has no "
                           "sentence — write what must hold"),
    "predict": (PREDICT.format("tme"), 1, f"unknown-name: `tme` {UNKNOWN}"),
    "plot": (PLOT.format("nothing"), 3, "bad-plot: `one` is nan, which is nowhere — mend it"),
    "diff": ("/// diff\n    old: add.cu:greeting\n    new: add.cu:greting\n///", 2, "unknown-region: "
             "kernels/001-add/add.cu has no region `greting`; close: greeting — correct the name, or "
             "mark the region in the source"),
    "status": ("/// status | all\n///", 0, "page-syntax: `/// status` takes no argument, but has `all` "
               "— take it out"),
    "map": ("/// map | all\n///", 0, "page-syntax: `/// map` takes no argument, but has `all` — take it "
            "out"),
    "option": ("/// output | 001-add\n    rows: 3\n///", 1, "page-syntax: `rows: 3` is no option of "
               "`/// output` — it takes no options"),
    "name": ("/// outptu | 001-add\n///", 0, "page-syntax: no block is named `outptu` — did you mean "
             "`output`?"),
    "number": ("It takes [= tme ].", 0, f"unknown-name: `tme` {UNKNOWN}"),
    "sourced": ("At most [! 48 KiB ].", 0, "page-syntax: `[! 48 KiB ]` has no source — write the source "
                "after a bar"),
    "typed": ("It takes 3 ms.", 0, "unbound-number: `3 ms` is typed, not bound to what was measured — "
              "bind it, `[= name ]`, or say where it is from, `[! 3 ms | source ]`"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("place", PLACES)
def test_a_message_is_the_same_wherever_it_stands(recorded: Tree, kind: str, place: str) -> None:
    block, line, message = WRONG[kind]
    text, above = placed(place, block)
    assert found(recorded, text) == [f"docs/page.md:{FIRST + above + line}: {message}"]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_wrong_with_a_place(recorded: Tree, place: str) -> None:
    text, _ = placed(place, "/// output | 001-add\n///")
    assert found(recorded, text) == []


# --- Messages that stand alone.


def test_a_value_that_is_no_number_has_no_place_in_a_plot(recorded: Tree) -> None:
    html = convert(recorded, PLOT.format("nothing"))
    assert '<div class="ev-error">`one` is nan, which is nowhere</div>' in html


def test_a_navigation_that_is_not_there(recorded: Tree) -> None:
    with pytest.raises(ConfigError) as caught:
        navigation.write(recorded.load(), Library(recorded.load()).course)
    assert str(caught.value) == (
        "mkdocs.yml:1: cannot be read: No such file or directory — run this in the project"
    )


def test_an_extension_that_renders_no_page() -> None:
    with pytest.raises(EvidenceError) as caught:
        _ = EvidenceExtension().rendering
    assert str(caught.value) == "no page is being rendered — convert text with this instance"


class _Included(Preprocessor):
    """Puts a text in that the page's own scan has not seen, as a snippet would."""

    def __init__(self, md: markdown.Markdown, text: str) -> None:
        super().__init__(md)
        self.text = text

    def run(self, lines: list[str]) -> list[str]:
        return [*lines, "", self.text]


class _Including(Extension):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def extendMarkdown(self, md: markdown.Markdown) -> None:  # noqa: N802  # its name there
        md.preprocessors.register(_Included(md, self.text), "included", 1)


@pytest.mark.parametrize(
    ("text", "directive"),
    [("It takes [= time ].", "[="), ("At most [! 48 KiB | guide ].", "[!"),
     ("- a\n/// code | add.cu:greeting", "/// code")],
)  # fmt: skip
def test_what_the_scan_could_not_see_is_not_published(
    recorded: Tree, text: str, directive: str
) -> None:
    message = (
        f"`{directive}` stands where it cannot be read as a directive — give it a line or "
        "paragraph of its own, or escape it with a backslash"
    )
    with pytest.raises(EvidenceError) as caught:
        convert(recorded, "# Title", _Including(text), on_error="fail")
    assert str(caught.value) == f"docs/page.md:{FIRST}: {message}"
    html = convert(recorded, "# Title", _Including(text))
    assert f"<li>docs/page.md:{FIRST}: {message}</li>" in html


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("/// claim\nIt is fast.\n///", "this claim has no expression"),
        ("/// predict\nHow long?\n///", "this question has no answer"),
        (PREDICT.format("nothing"), "this question has no answer"),
    ],
)
def test_a_block_without_an_expression_says_so_in_its_place(
    recorded: Tree, block: str, said: str
) -> None:
    assert f'<div class="ev-error">{said}</div>' in convert(recorded, block)


# --- What a run, a commit and a value of a step say.


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"timed_out": True, "exit_status": None}, "(stopped: it ran past its time limit)"),
        ({"signal": "SIGSEGV", "exit_status": None}, "(ended by signal SIGSEGV)"),
        ({"exit_status": 3}, "(exit status 3)"),
    ],
)
def test_how_a_run_ended(recorded: Tree, end: dict[str, object], said: str) -> None:
    run = {"exit_status": 0, "signal": None, "timed_out": False, "seconds": 0.5,
           "stdout": ["out"], "stderr": [], "problems": []}  # fmt: skip
    recorded.record(runs=[{**run, **end}])
    html = convert(recorded, "/// output | 001-add\n///", front="")
    assert f'<span class="ev-exit">{said}</span>' in html


def test_a_record_without_runs(recorded: Tree) -> None:
    recorded.record(runs=[], build=None)
    html = convert(recorded, "/// output | 001-add\n///", front="")
    assert '<div class="ev-paper"><pre tabindex="0">Nothing was run.</pre></div>' in html


def test_a_record_of_a_tree_with_changes(recorded: Tree) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    made = {"commit": commit, "date": "2026-12-01", "dirty": True, "tool": "0.1.0",
            "isolation": "none"}  # fmt: skip
    recorded.record(stdout=RUNS, recorded=made)
    html = convert(recorded, "/// output | 001-add\n///", front="")
    assert " · 0123456789 with local changes</summary>" in html
    assert f"<dt>commit</dt><dd>{commit} with local changes</dd>" in html


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("time", "case-n-256/time: 1.1 ms, median; 1.00 to 1.30 ms in 3 runs"),
        ("moved", "case-n-256/bytes: 1024 B, the same in all 3 runs"),
        ("stack", "compile/addKernel/stack: 128 B, as the compiler reported"),
        ("clean", "sanitize/memcheck/errors: 0, as the sanitizer reported"),
        ("count", "runs/count: 3, counted by the recorder"),
        ("sms", "device/sm-count: 132, as the driver reported"),
    ],
)
def test_where_a_value_comes_from(recorded: Tree, name: str, said: str) -> None:
    assert f'title="001-add/add: {said}"' in convert(recorded, f"[= {name} ]")


# --- What a build says.

CONFIG = """\
site_name: test
theme: mkdocs
plugins: [evidence]
markdown_extensions: [toc, evidence]
"""


@pytest.fixture
def broken(recorded: Tree) -> Path:
    recorded.write("mkdocs.yml", CONFIG)
    recorded.write("docs/index.md", f"{FRONT}It takes [= tme ].\n\n{REST}")
    readme.write_all(recorded.load())
    return recorded.root / "mkdocs.yml"


FINDING = f"docs/index.md:{FIRST}: unknown-name: `tme` {UNKNOWN}"


@pytest.mark.filterwarnings("ignore")
def test_a_build_stops_with_what_check_says(broken: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = load_config(str(broken))
    config.plugins.on_startup(command="build", dirty=False)
    with pytest.raises(Abort):
        build_command.build(config)
    assert f"evidence check fails:\n{FINDING}" in caplog.messages


@pytest.mark.filterwarnings("ignore")
def test_under_serve_it_is_only_said(broken: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = load_config(str(broken))
    config.plugins.on_startup(command="serve", dirty=False)
    with caplog.at_level(logging.INFO):
        build_command.build(config)
    assert f"a build would fail:\n{FINDING}" in caplog.messages
    config.plugins.on_shutdown()
    config.plugins.on_startup(command="build", dirty=False)  # plugins outlive their site

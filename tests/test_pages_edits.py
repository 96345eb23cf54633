"""What is said about evidence that is older than its program: the lines, and what is done."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import markdown
import pytest

from evidence import states
from evidence.key import Change
from evidence.pages import banners, guard
from evidence.pages.bindings import Pages
from evidence.pages.edits import Edits, lines
from evidence.pages.library import Library
from evidence.pages.trace import KeptBound, Trace, watched

if TYPE_CHECKING:
    from conftest import Tree


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("int a;\nint b;", "int a;\nint c;", [("line 2", "int b;", "int c;")]),
        ("int a;", "int a;\n    int b;", [("line 2", "", "int b;")]),
        ("int a;\nint b;", "int b;", [("line 1", "int a;", "")]),
        ("a;\nb;\nc;", "x;\ny;\nc;", [("line 1", "a; (and 1 more)", "x; (and 1 more)")]),
        ("a;\nb;\nc;", "x;\nb;\nz;", [("line 1", "a;", "x;"), ("line 3", "c;", "z;")]),
        ("a;  // one\nb;", "a;  // two\nb;", []),
        ("a;", "\n\n  a ;", []),
    ],
)
def test_lines_of_code_that_differ(before: str, after: str, expected: list) -> None:
    found = list(lines("code of a.cu", before, after, "cuda"))
    assert found == [Change(f"code of a.cu, {where}", old, new) for where, old, new in expected]


@pytest.fixture
def recorded(tree: Tree) -> Tree:
    tree.program()
    tree.record()
    return tree


def state(tree: Tree) -> states.State:
    project = tree.load()
    return states.judge(project, project.get("001-add/add"))


def change(tree: Tree, old: str, new: str) -> states.State:
    path = tree.root / "kernels/001-add/add.cu"
    path.write_text(path.read_text().replace(old, new))
    return state(tree)


def test_an_edit_that_was_seen_is_told_line_by_line(recorded: Tree) -> None:
    edits = Edits()
    edits.look([state(recorded)])
    stale = change(recorded, "return 0", "return 1 - 1")
    edits.look([stale])
    assert edits.changes(stale) == [Change("code of add.cu, line 12", "return 0;", "return 1 - 1;")]
    assert banners.stale([stale], edits) == (
        '<div class="ev-banner ev-stale" role="status"><strong>Recorded before your last edit.'
        "</strong><ul><li>001-add/add: code of add.cu, line 12: <code>return 0;</code> → "
        "<code>return 1 - 1;</code></li></ul><p>run: <code>evidence record 001-add/add</code></p>"
        "</div>\n"
    )
    edits.notes = {"001-add/add": "being recorded now"}
    assert "<em>(being recorded now)</em></li>" in banners.stale([stale], edits)


def test_flags_are_told_without_having_been_seen(recorded: Tree) -> None:
    stale = change(recorded, "-O3", "-O2")
    assert (
        "<li>001-add/add: Build: line: <code>nvcc -O3 -std=c++17 -arch=native -o add add.cu</code> "
        "→ <code>nvcc -O2 -std=c++17 -arch=native -o add add.cu</code></li>"
    ) in banners.stale([stale], Edits())


def test_a_recording_that_failed_is_told_as_long_as_its_program_is_not_recorded(
    recorded: Tree,
) -> None:
    edits = Edits()
    edits.failures = {"001-add/add": "no room"}
    assert edits.failure(state(recorded)) == ""
    stale = change(recorded, "return 0", "return 1 - 1")
    said = "kernels/001-add/add.cu:1: could not be recorded again: no room"
    assert edits.failure(stale) == said


# -- What a page asked ----------------------------------------------------------


def pages(tree: Tree) -> Pages:
    return Pages(Library(tree.load()))


def test_a_trace_holds_until_an_answer_is_another(recorded: Tree) -> None:
    first, trace = pages(recorded), Trace()
    library = watched(first, trace).library
    program = library.program("001-add")
    assert "hello" in library.text(program)
    assert trace.holds(pages(recorded))
    recorded.write("docs/other.md", "# Other\n")
    assert trace.holds(pages(recorded))
    change(recorded, "hello", "hallo")
    assert not trace.holds(pages(recorded))


def test_a_trace_remembers_errors(recorded: Tree) -> None:
    trace = Trace()
    with pytest.raises(Exception, match="no program is named '002'"):
        watched(pages(recorded), trace).library.program("002")
    assert trace.holds(pages(recorded))
    recorded.program("002-twice", "twice")
    assert not trace.holds(pages(recorded))


def test_a_trace_does_not_hold_for_a_program_that_is_gone(recorded: Tree) -> None:
    first, trace = pages(recorded), Trace()
    library = watched(first, trace).library
    library.home(first.library.project.get("001-add"))
    (recorded.root / "kernels/001-add/add.cu").unlink()
    assert not trace.holds(pages(recorded))


def test_a_page_with_a_drawing_is_looked_up_every_time(recorded: Tree) -> None:
    plain = recorded.write("docs/plain.md", "# Plain\n\nIt takes 12 ms.\n")
    drawn = recorded.write("docs/drawn.md", "# Drawn\n\n![A drawing](a.svg)\n")
    recorded.write("docs/a.svg", "<svg><text>one</text></svg>")
    kept = KeptBound()
    first = Pages(Library(recorded.load()), None, kept)
    before = {path: first.bound(path) for path in (plain, drawn)}
    recorded.write("docs/a.svg", "<svg><text>12 ms</text></svg>")
    second = Pages(Library(recorded.load()), None, kept)
    assert second.bound(plain) is before[plain]
    assert [f.path for f in second.bound(drawn).findings] == ["docs/a.svg"]


# -- What nobody expects ---------------------------------------------------------


def test_an_exception_out_of_any_extension_is_on_the_page(
    recorded: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    from mkdocs.config import load_config
    from mkdocs.structure.files import get_files
    from mkdocs.structure.pages import Page

    class Broken(markdown.Extension):
        def extendMarkdown(self, md: markdown.Markdown) -> None:  # noqa: N802
            raise ZeroDivisionError("by zero")

    recorded.write("docs/index.md", "# Front page\n")
    recorded.write("mkdocs.yml", "site_name: test\n")
    config = load_config(str(recorded.root / "mkdocs.yml"))
    config.markdown_extensions.append(Broken())
    files = get_files(config)
    page = Page(None, files.get_file_from_path("index.md"), config)
    guard.watch(page, Page.render)
    page.read_source(config)
    with caplog.at_level(logging.INFO):
        page.render(config, files)
    assert page.content == (
        '<div class="ev-banner" role="alert"><strong>A build would fail on this page: one finding.'
        "</strong><ul><li>index.md:1: ZeroDivisionError: by zero</li></ul></div>\n"
    )
    assert "a page breaks: index.md:1: ZeroDivisionError: by zero" in caplog.text

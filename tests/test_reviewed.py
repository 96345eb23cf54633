"""Sections are read again when what they stand on changes, and only then."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import markdown
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from conftest import CUDA, PYPROJECT
from evidence.commands.reviewed import command
from evidence.errors import EvidenceError
from evidence.pages import bindings, headings, scan
from evidence.pages.extension import EvidenceExtension

if TYPE_CHECKING:
    from conftest import Tree

SOURCE = CUDA.format(stem="add").replace(
    "    return 0;", "    // snippet: end\n    return 0;\n    // end snippet"
)
FRONT = """\
---
programs: [001-add]
values:
  time: case/time
  other: case/other
  moved: case/bytes
---

"""
PAGE = """\
# Day 1

It moves [= moved ].

## The code

What it says:

/// code | add.cu:greeting
///

How it ends:

/// code | add.cu:end
///

## Reading

It takes [= time | .1f ].

/// claim
    expect: time < other
Faster than the other one.
///

## Nothing

Just text.
"""
PATH = "docs/days/001.md"
MENDED = f"read it again, then run: evidence reviewed {PATH}#"


def runs(time: float = 1.0, other: float = 3.0, moved: int = 1024) -> list[list[str]]:
    """Return what three runs print: a band of 0.02 ms around two times."""
    return [
        [
            "case",
            f"  time    {time + d:.3f} ms",
            f"  other   {other + d:.3f} ms",
            f"  bytes   {moved} B",
        ]
        for d in (-0.01, 0.0, 0.01)
    ]


def write(tree: Tree, text: str = PAGE) -> None:
    tree.write(PATH, FRONT + text)


@pytest.fixture
def new(tree: Tree) -> Tree:
    """A project whose one page was never reviewed."""
    tree.write("pyproject.toml", PYPROJECT.replace('reviewed = ""', 'reviewed = "reviewed"'))
    tree.program(text=SOURCE)
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 3\n")
    tree.record(stdout=runs())
    write(tree)
    return tree


@pytest.fixture
def read(new: Tree) -> Tree:
    """The same with every section read."""
    assert run(new, "--all")[0] == 0
    assert found(new) == []
    return new


def run(tree: Tree, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(words), obj=tree.root, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.output


def found(tree: Tree) -> list[str]:
    return [finding.explain() for finding in bindings.findings(tree.load())]


def replace(tree: Tree, old: str, new: str, name: str = "kernels/001-add/add.cu") -> None:
    path = tree.root / name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def files(tree: Tree) -> dict[str, str]:
    root = tree.root / "reviewed"
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*.json"))
    }


def at(line: int, rest: str) -> str:
    return f"{PATH}:{FRONT.count(chr(10)) + line}: reread: {rest}"


# What asks for reading.


def test_a_section_that_was_never_read(new: Tree) -> None:
    assert found(new) == [
        at(1, f"section `day-1` was never read against number `moved` — {MENDED}day-1"),
        at(5, "section `the-code` was never read against region add.cu:greeting, region add.cu:end "
           f"— {MENDED}the-code"),
        at(17, "section `reading` was never read against number `time`, claim `time < other` — "
           f"{MENDED}reading"),
    ]  # fmt: skip


def test_code_that_changed(read: Tree) -> None:
    replace(read, 'printf("hello\\n")', 'printf("goodbye\\n")')
    read.record(stdout=runs())
    assert found(read) == [
        at(5, "section `the-code` was last read against another region add.cu:greeting "
           f"(e8e382205e26 → b9f7e96c493c) — {MENDED}the-code")
    ]  # fmt: skip


def test_an_exact_value_that_changed(read: Tree) -> None:
    read.record(stdout=runs(moved=2048))
    assert found(read) == [
        at(1, "section `day-1` was last read against another number `moved` (1024 B → 2048 B) — "
           f"{MENDED}day-1")
    ]  # fmt: skip


def test_a_measured_value_that_left_its_band(read: Tree) -> None:
    read.record(stdout=runs(time=1.04))
    assert found(read) == [
        at(17, "section `reading` was last read against another number `time` (0.99 to 1.01 ms → "
           f"1.04 ms) — {MENDED}reading")
    ]  # fmt: skip


def test_a_claim_that_stands_otherwise(read: Tree) -> None:
    read.record(stdout=runs(other=1.005))
    assert found(read) == [
        at(17, "section `reading` was last read against another claim `time < other` (holds on "
           f"h200 → holds within noise on h200) — {MENDED}reading")
    ]  # fmt: skip


def test_an_exact_value_that_turns_out_to_be_measured(read: Tree) -> None:
    lines = runs()
    lines[1] = [line.replace("1024", "1032") for line in lines[1]]
    read.record(stdout=lines)
    assert found(read) == [
        at(1, "section `day-1` was last read against another number `moved` (1024 B → 1024 B) — "
           f"{MENDED}day-1")
    ]  # fmt: skip


def test_a_unit_that_changed(read: Tree) -> None:
    read.record(stdout=[[line.replace("ms", "us") for line in run] for run in runs()])
    assert at(
        17,
        "section `reading` was last read against another number `time` (0.99 to 1.01 ms → 1 µs) — "
        f"{MENDED}reading",
    ) in found(read)


def test_several_changes_are_named_together(read: Tree) -> None:
    replace(read, "[= time | .1f ]", "[= time | .1f ] and [= moved ]", PATH)
    read.record(stdout=runs(time=2.0, other=2.001))
    assert found(read) == [
        at(17, "section `reading` was last read against another number `time` (0.99 to 1.01 ms → 2 ms), "
           "claim `time < other` (holds on h200 → holds within noise on h200), number `moved` (new) "
           f"— {MENDED}reading")
    ]  # fmt: skip


def test_a_number_that_is_used_in_a_second_section(read: Tree) -> None:
    replace(read, "What it says:", "What it says, of [= moved ]:", PATH)
    assert found(read) == [
        at(5, "section `the-code` was never read against number `moved` — "
           f"{MENDED}the-code")
    ]  # fmt: skip


def test_more_than_a_few_things_are_counted(new: Tree) -> None:
    many = " ".join(f"[= moved * {n} ]" for n in range(2, 10))
    write(new, f"# A\n\n{many} [= time ] [= other ]\n\n/// code | add.cu:greeting\n///\n\n"
          "/// code | add.cu:end\n///\n")  # fmt: skip
    [only] = found(new)
    assert only.endswith(f"number `moved * 7`, and 6 more — {MENDED}a")


# What does not.


@pytest.mark.parametrize(
    ("code", "same"),
    [
        ("    std::printf", "    // says hello\n        std::printf"),
        ("    // snippet: greeting", "    // snippet: greeting\n    /* a\n       greeting */"),
        ('std::printf("hello\\n");', 'std::printf(  "hello\\n"  );'),
        ("// Day 1: a program.", "// Day 1: the first program.\n// It has a second line."),
    ],
)  # fmt: skip
def test_comments_and_layout(read: Tree, code: str, same: str) -> None:
    replace(read, code, same)
    assert found(read) == []


def test_code_outside_of_the_regions(read: Tree) -> None:
    replace(read, "#include <cstdio>", "#include <cstdio>\n#include <cmath>")
    read.record(stdout=runs())
    assert found(read) == []


def test_values_that_stay_in_their_bands(read: Tree) -> None:
    read.record(stdout=runs(time=1.02, other=2.5))
    assert found(read) == []


def test_another_device_on_which_the_claim_holds(read: Tree) -> None:
    device = {"label": "t4", "name": "Tesla T4", "compute_capability": "7.5", "driver": "580.1",
              "memory_mib": 15360, "sm_count": 40}  # fmt: skip
    read.record(stdout=runs(time=2.0, moved=7), device=device)
    assert found(read) == []


PROSE = {
    "a sentence": ("Just text.", "Other text, and more of it."),
    "words around a number": ("It takes", "All in all it takes"),
    "a format": (" | .1f", ""),
    "a heading": ("## The code", "## The code, part by part"),
    "a heading's level": ("## Reading", "### Reading"),
    "a heading put in": ("How it ends:", "### The end\n\nHow it ends:"),
    "a heading taken out": ("## Reading\n", ""),
    "a sentence put first": ("# Day 1\n", "Before all else, text.\n\n# Day 1\n"),
    "a number taken out": ("It takes [= time | .1f ].", "It takes a while."),
    "a number moved": ("It moves [= moved ].\n", ""),
    "a new section of text": ("## Nothing", "## Nothing\n\nSome.\n\n## Nothing at all"),
    "another name for an address": None,
}


@pytest.mark.parametrize("edit", PROSE.values(), ids=PROSE)
def test_edits_of_prose(read: Tree, edit: tuple[str, str] | None) -> None:
    before = files(read)
    text = PAGE
    front = FRONT
    if edit is None:
        text = text.replace("time", "t_us")
        front = front.replace("time: case", "t_us: case")
    else:
        assert text.count(edit[0]) == 1
        text = text.replace(*edit)
        if "moved" in edit[0]:
            text += "\nIt moves [= moved ].\n"
    read.write(PATH, front + text)
    assert [f for f in found(read) if "reread" in f] == []
    # Putting the reviews in order needs nobody to read anything.
    run(read)
    assert [f for f in found(read) if "name-unused" not in f] == []
    moved = {line for text in files(read).values() for line in text.split("\n") if ": [" in line}
    kept = {line for text in before.values() for line in text.split("\n") if ": [" in line}
    assert {line.rstrip(",") for line in moved} <= {line.rstrip(",") for line in kept}


def test_a_change_is_seen_under_a_new_heading_too(read: Tree) -> None:
    replace(read, "## Reading", "## The evidence, read", PATH)
    read.record(stdout=runs(time=2.0))
    assert [f for f in found(read) if "reread" in f] == [
        at(17, "section `the-evidence-read` was last read against another number `time` (0.99 to "
           f"1.01 ms → 2 ms) — {MENDED}the-evidence-read")
    ]  # fmt: skip
    # What is known of the old heading is not thrown away before it was read.
    assert run(read)[0] == 1
    assert "days/001/reading.json" in files(read)
    assert run(read, "001#the-evidence-read")[0] == 0
    assert found(read) == []
    assert list(files(read)) == [
        "days/001/day-1.json",
        "days/001/the-code.json",
        "days/001/the-evidence-read.json",
    ]


def test_reading_one_half_of_a_section_keeps_what_is_known_of_the_other(read: Tree) -> None:
    replace(read, "How it ends:", "### The end\n\nHow it ends:", PATH)
    replace(read, "hello", "goodbye")
    read.record(stdout=runs())
    run(read, "001#the-code")
    assert found(read) == []


# What is kept.


def test_a_file_for_each_section_and_a_line_for_each_thing(read: Tree) -> None:
    assert files(read) == {
        "days/001/day-1.json": """\
{
 "values": {
  "001-add/add:case/bytes": ["1024 B"]
 }
}
""",
        "days/001/reading.json": """\
{
 "claims": {
  "{001-add/add:case/time} < {001-add/add:case/other}": ["h200: holds"]
 },
 "values": {
  "001-add/add:case/time": ["0.99", "1.0", "1.01", "ms"]
 }
}
""",
        "days/001/the-code.json": """\
{
 "regions": {
  "001-add/add.cu:end": ["1ea351934ebc007f", "038f4adc32c3aa84"],
  "001-add/add.cu:greeting": ["e8e382205e268746", "48d3e276d1b0e983"]
 }
}
""",
    }


def test_bands_do_not_creep(read: Tree) -> None:
    before = files(read)
    read.record(stdout=runs(time=1.02))
    assert run(read, "001") == (0, "0 sections read again\n")
    assert run(read, "--all") == (0, "0 sections read again\n")
    assert files(read) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<<<<<<< HEAD\n{}\n", "1: bad-review: is not JSON"),
        ("{\n<<<<<<< HEAD\n}\n", "2: bad-review: is not JSON"),
        ("[]", "1: bad-review: is no review of a section"),
        ('{"other": {}}', "1: bad-review: is no review of a section"),
        ('{"values": []}', "1: bad-review: is no review of a section"),
        ('{"values": {"a": "1"}}', "1: bad-review: says nothing of a"),
        ('{"values": {"a": ["1", "2", "x", "ms"]}}', "1: bad-review: says nothing of a"),
        ('{"regions": {"a": ["1"]}}', "1: bad-review: says nothing of a"),
        ('{"claims": {"a": ["holds"]}}', "1: bad-review: says nothing of a"),
    ],
)
def test_a_file_that_cannot_be_read(read: Tree, text: str, message: str) -> None:
    read.write("reviewed/days/001/reading.json", text)
    assert found(read) == [
        f"reviewed/days/001/reading.json:{message} — take one side of a merge whole, or remove it "
        "and run: evidence reviewed 001#reading"
    ]
    assert run(read, "001#reading")[0] == 0
    assert found(read) == []


def test_what_is_kept_of_sections_that_are_gone(read: Tree) -> None:
    shutil.move(read.root / PATH, read.root / "docs/days/002.md")
    replace(read, "## Reading", "## Writing", "docs/days/002.md")
    gone = [text for text in found(read) if "orphaned" in text]
    assert gone == [
        f"reviewed/days/001/{name}.json:1: warning: orphaned: is the review of a section of "
        "days/001.md, and there is no such page — run: evidence reviewed"
        for name in ("day-1", "reading", "the-code")
    ]
    run(read, "--all")
    assert found(read) == []
    assert list(files(read)) == [
        "days/002/day-1.json",
        "days/002/the-code.json",
        "days/002/writing.json",
    ]
    write(read)
    assert not (read.root / "reviewed/days/001").exists()
    write(read, "# Empty\n")
    run(read, "--all")
    replace(read, "## Writing\n\nIt takes [= time | .1f ].\n\n/// claim\n    expect: time < other\n"
            "Faster than the other one.\n///", "## Writing", "docs/days/002.md")  # fmt: skip
    assert [text for text in found(read) if "orphaned" in text] == [
        "reviewed/days/002/writing.json:1: warning: orphaned: is the review of section `writing` "
        "of days/002.md, which stands on nothing — run: evidence reviewed"
    ]
    assert run(read) == (0, "no section has to be read again\n")
    assert list(files(read)) == ["days/002/day-1.json", "days/002/the-code.json"]


def test_a_page_that_cannot_be_read_keeps_its_reviews(read: Tree) -> None:
    before = files(read)
    read.write(PATH, b"\xff")
    codes = [text.split(": ")[1] for text in found(read)]
    assert "bad-page" in codes
    assert "warning" not in codes
    run(read, "--all")
    assert files(read) == before


# The command.


def test_the_list_of_what_has_to_be_read(read: Tree) -> None:
    assert run(read) == (0, "no section has to be read again\n")
    read.record(stdout=runs(time=2.0, moved=2048))
    before = files(read)
    assert run(read) == (
        1,
        "docs/days/001.md#day-1\n"
        "  number `moved` (1024 B → 2048 B)\n"
        "docs/days/001.md#reading\n"
        "  number `time` (0.99 to 1.01 ms → 2 ms)\n"
        "2 sections to read again; then run: evidence reviewed PAGE#SECTION\n",
    )
    assert files(read) == before


@pytest.mark.parametrize(
    "name", [PATH, "days/001.md", "days/001", "001", "./docs/days/001.md", "docs\\days\\001.md"]
)
def test_one_section_is_marked(read: Tree, name: str) -> None:
    read.record(stdout=runs(time=2.0, moved=2048))
    assert run(read, f"{name}#reading") == (
        0,
        "docs/days/001.md#reading\n"
        "  number `time` (0.99 to 1.01 ms → 2 ms)\n"
        "1 section read again\n",
    )
    assert [text.split("`")[1] for text in found(read)] == ["day-1"]


def test_a_page_is_marked(read: Tree) -> None:
    read.record(stdout=runs(time=2.0, moved=2048))
    status, text = run(read, "001")
    assert (status, text.splitlines()[-1]) == (0, "2 sections read again")
    assert found(read) == []


def test_all_is_marked_with_a_list(read: Tree) -> None:
    read.record(stdout=runs(time=2.0, moved=2048))
    status, text = run(read, "--all")
    assert (status, text.count("→"), text.splitlines()[-1]) == (0, 2, "2 sections read again")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("002", "there is no page '002'; close: 001 — list them with: evidence reviewed"),
        (
            "001#readin",
            "there is no section `readin` that stands on something; close: reading — list them "
            "with: evidence reviewed",
        ),
        (
            "001#nothing",
            "there is no section `nothing` that stands on something; close: reading — list them "
            "with: evidence reviewed",
        ),
    ],
)
def test_what_is_not_there(read: Tree, name: str, message: str) -> None:
    before = files(read)
    with pytest.raises(EvidenceError) as caught:
        run(read, name)
    assert str(caught.value) == message
    assert files(read) == before


def test_a_name_of_two_pages(read: Tree) -> None:
    read.write("docs/notes/001.md", FRONT + "# A\n\n[= moved ] [= time ] [= other ]\n")
    with pytest.raises(EvidenceError, match="'001' stands for several pages: days/001, notes/001"):
        run(read, "001")
    run(read, "notes/001")
    assert found(read) == []


def test_a_section_that_cannot_be_looked_up_is_not_marked(read: Tree) -> None:
    before = files(read)
    replace(read, "[= time | .1f ]", "[= tme ]", PATH)
    replace(read, "hello", "goodbye")
    read.record(stdout=runs())
    assert run(read, "001") == (
        1,
        "docs/days/001.md#the-code\n"
        "  region add.cu:greeting (e8e382205e26 → b9f7e96c493c)\n"
        "docs/days/001.md#reading: not marked, see: evidence check\n"
        "1 section read again\n",
    )
    assert files(read)["days/001/reading.json"] == before["days/001/reading.json"]


def test_a_project_that_keeps_no_reviews(tree: Tree) -> None:
    with pytest.raises(EvidenceError) as caught:
        run(tree)
    assert str(caught.value) == (
        "pyproject.toml:1: this project keeps no reviews: `reviewed` is empty — set reviewed = "
        '"reviewed" in [tool.evidence]'
    )


def test_check_counts_the_sections(read: Tree) -> None:
    assert bindings.check(read.load()).looked_at["sections"] == 3


@pytest.mark.parametrize("on_error", ["fail", "show"])
def test_a_build_fails_too(read: Tree, on_error: str) -> None:
    read.record(stdout=runs(moved=2048))
    extension = EvidenceExtension(page=str(read.root / PATH), on_error=on_error)
    md = markdown.Markdown(extensions=[extension])
    text = (read.root / PATH).read_text(encoding="utf-8")
    if on_error == "show":
        assert "<li>docs/days/001.md:9: reread: section `day-1` was last read" in md.convert(text)
        return
    with pytest.raises(EvidenceError, match=r"^docs/days/001\.md:9: reread: section `day-1`"):
        md.convert(text)


# Merging, with git itself and none of its merge drivers.


def git(tree: Tree, *words: str) -> str:
    options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    command = ["git", *options, *words]
    done = subprocess.run(command, cwd=tree.root, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def commit(tree: Tree) -> None:
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "--allow-empty", "-m", "x")


def merged(tree: Tree, one: str, two: str) -> None:
    """Review one thing in each of two branches, and merge them."""
    git(tree, "init", "-q", "-b", "main")
    commit(tree)
    for branch, name in (("one", one), ("two", two)):
        git(tree, "checkout", "-q", "-b", branch, "main")
        run(tree, name)
        commit(tree)
    git(tree, "merge", "-q", "one", "-m", "x")


SECTIONS = ("day-1", "reading", "the-code")
PAIRS = [(a, b) for a in SECTIONS for b in SECTIONS if a != b]


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_branches_that_read_two_sections_for_the_first_time(new: Tree, one: str, two: str) -> None:
    merged(new, f"001#{one}", f"001#{two}")
    [left] = found(new)
    assert f"section `{({*SECTIONS} - {one, two}).pop()}`" in left


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_branches_that_read_two_sections_again(read: Tree, one: str, two: str) -> None:
    replace(read, "hello", "goodbye")
    read.record(stdout=runs(time=2.0, moved=2048))
    assert len(found(read)) == 3
    merged(read, f"001#{one}", f"001#{two}")
    [left] = found(read)
    assert f"section `{({*SECTIONS} - {one, two}).pop()}`" in left


def test_branches_that_read_two_pages(new: Tree) -> None:
    new.write("docs/days/002.md", FRONT + PAGE)
    merged(new, "001", "002")
    assert found(new) == []


def test_a_branch_that_renames_a_heading_and_one_that_reads_its_neighbour(read: Tree) -> None:
    read.record(stdout=runs(moved=2048))
    git(read, "init", "-q", "-b", "main")
    commit(read)
    git(read, "checkout", "-q", "-b", "one")
    replace(read, "## Reading", "## The evidence, read", PATH)
    run(read)
    commit(read)
    git(read, "checkout", "-q", "-b", "two", "main")
    run(read, "001#day-1")
    commit(read)
    git(read, "merge", "-q", "one", "-m", "x")
    assert found(read) == []


# Names of sections.


def names(text: str) -> list[str]:
    return [s.name for s in headings.sections(scan.scan(text).headings, 1)][1:]


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("# The code", "the-code"),
        ("## What this *does not* show ##", "what-this-does-not-show"),
        ("#No space", "no-space"),
        ("## `code` and [a link](page.md)", "code-and-a-link"),
        ("## Größe & Maß", "groe-ma"),
        ("## A {#own}", "own"),
        ("## A { .b #own-id }", "own-id"),
        ("## <em>A</em> &amp; b", "a-b"),
        ("## [= time | .2f ] at n", "at-n"),
        ("## At [! 4 KiB | [guide](x) ]", "at"),
        ("## 计算", "_1"),
        ("Text\n====", "text"),
        ("Text\n---", "text"),
        ("# " + "a" * 300, "a" * 100),
    ],
)
def test_the_name_of_a_heading(heading: str, name: str) -> None:
    assert names(f"{heading}\n\nText.\n") == [name]


@pytest.mark.parametrize(
    "text",
    ["```\n# code\n```", "    # code", "!!! note\n    # inside", "- # item", "> # quoted",
     "text\nmore\n---", "<!--\n# gone\n-->", "/// details | x\n# inside\n///", "---", "| a |\n|---|"],
)  # fmt: skip
def test_what_is_no_heading_of_its_own(text: str) -> None:
    assert names(f"{text}\n") == []


def test_names_are_unique() -> None:
    assert names("# A\n# A\n# a_1\n# A\n# _top\n#\n") == ["a", "a_1", "a_2", "a_3", "_top_1", "_1"]


WORDS = st.lists(st.text("abc ABC019-.,:!äß", min_size=1, max_size=12), min_size=1, max_size=5)


@given(WORDS)
def test_names_are_the_anchors_that_readers_see(words: list[str]) -> None:
    text = "\n\n".join(f"# x{word}" for word in words)
    md = markdown.Markdown(extensions=["toc"])
    md.convert(text)
    anchors = [token["id"] for token in flat(md.toc_tokens)]  # type: ignore[attr-defined]
    assert names(text) == anchors


def flat(tokens: list[dict[str, object]]) -> list[dict[str, object]]:
    return [t for token in tokens for t in (token, *flat(token["children"]))]  # type: ignore[arg-type]

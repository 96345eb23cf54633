"""Listings and links into Compiler Explorer."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import regions
from evidence.model import Command, Plan, Program
from evidence.pages import colours, explorer, listing, paper

if TYPE_CHECKING:
    from collections.abc import Iterable

KERNEL = """\
// What it does.
#include <cstdio>  // for printf

/* A block
   comment. */
__global__ void kernel(float *x)
{
    x[0] = 1.0f;  // one
}

static const char *text = "// no comment";

int main()
{
    return 0;
}
"""


def program(build: str = "nvcc -O3 -arch=native -o add add.cu", name: str = "add.cu") -> Program:
    words = tuple(build.split())
    path = Path("/project/kernels/001-add") / name
    language = "python" if name.endswith(".py") else "cuda"
    made = Command(words, 4) if language == "cuda" else None
    return Program("001-add/add", path, f"kernels/001-add/{name}", language, made,
                   Command(("./add",), 5), Plan())  # fmt: skip


def opened(link: explorer.Link) -> dict[str, object]:
    """Return the session that a link opens."""
    packed = urllib.parse.unquote(link.address.removeprefix("https://godbolt.org/clientstate/"))
    document = json.loads(zlib.decompress(base64.b64decode(packed)))
    [session] = document["sessions"]
    return session


def test_a_link_carries_the_source_and_the_flags_it_is_built_with() -> None:
    link = explorer.link(program(), KERNEL, "13.0", 90)
    assert link is not None
    assert link.holds == "the whole source"
    assert opened(link) == {
        "id": 1,
        "language": "cuda",
        "source": KERNEL,
        "compilers": [{"id": "nvcc130u2", "options": "-O3 -arch=sm_90"}],
    }


@pytest.mark.parametrize(
    ("build", "flags"),
    [
        ("nvcc -o add add.cu", ""),
        ("nvcc add.cu --output-file add -lineinfo", "-lineinfo"),
        ("nvcc -O3 --gpu-architecture=native -o add add.cu", "-O3 -arch=sm_75"),
        ("nvcc -arch=sm_90a -Xcompiler=-Wall -o add add.cu", "-arch=sm_90a -Xcompiler=-Wall"),
    ],
)
def test_flags(build: str, flags: str) -> None:
    assert explorer.flags(program(build), 75) == flags


def noise(count: int) -> str:
    """Return lines of comment that do not pack well."""
    return "".join(f"// {hash((n, 'x')) & 0xFFFFFFFFFFFF:x}\n" for n in range(count))


def test_a_long_source_is_cut_behind_its_last_kernel() -> None:
    link = explorer.link(program(), KERNEL + noise(2000), "13.0", 90)
    assert link is not None
    assert link.holds == "the source up to its last kernel"
    assert opened(link)["source"] == KERNEL.partition("\n\nstatic")[0] + "\n"


def test_a_source_whose_kernels_are_long_goes_without_comments() -> None:
    link = explorer.link(program(), noise(2000) + KERNEL, "13.0", 90)
    assert link is not None
    assert link.holds == "the source up to its last kernel, without comments"
    assert opened(link)["source"] == (
        "#include <cstdio>\n__global__ void kernel(float *x)\n{\n    x[0] = 1.0f;\n}\n"
    )


def test_a_source_that_fits_no_link_has_none() -> None:
    code = "".join(f"int a{hash((n, 'y')) & 0xFFFFFFFFFFFF:x};\n" for n in range(2000))
    assert explorer.link(program(), code + KERNEL, "13.0", 90) is None
    assert explorer.link(program(), code, "13.0", 90) is None


def test_a_python_program_has_no_link() -> None:
    assert explorer.link(program(name="add.py"), "print()", "13.0", 90) is None


def test_comments_are_told_from_strings_and_preprocessor_lines() -> None:
    assert explorer.without_comments(KERNEL) == (
        "#include <cstdio>\n"
        "__global__ void kernel(float *x)\n{\n    x[0] = 1.0f;\n}\n"
        'static const char *text = "// no comment";\n'
        "int main()\n{\n    return 0;\n}\n"
    )


def plain(html: str) -> str:
    text = re.sub(r"<[^>]+>", "", html)
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'")):
        text = text.replace(entity, character)
    return text.replace("&amp;", "&")


def test_a_comment_over_several_lines_is_closed_at_each_line_s_end() -> None:
    assert colours.lines("/* one\n\ntwo */ int x;", "cuda") == (
        '<span class="c">/* one</span>',
        "",
        '<span class="c">two */ </span><span class="k">int</span> x;',
    )


def test_only_what_has_a_colour_of_its_own_is_an_element() -> None:
    assert colours.lines('f(a + 1, "b\\n"); // c\n  return;\n#define X\n#include <y>', "cuda") == (
        'f(a + <span class="m">1</span>, <span class="s">"b</span><span class="se">\\n</span>'
        '<span class="s">"</span>); <span class="c">// c</span>',
        '  <span class="k">return</span>;',
        '<span class="cp">#define X</span>',
        '<span class="cp">#include </span><span class="s">&lt;y&gt;</span>',
    )


SOURCES = sorted(Path(__file__).parent.parent.glob("*/*/*.cu"))
PIECES = ["int", " ", "\n", "x1", "threadIdx", ".x", "1'000", "0x1fUL", "1.5e-3f", "'a'", '"b\\n"',
          "// c", "/* d */", "#define A", "#include <e>", '#include "f"', "<<<", ">>>", "(", ")",
          "return", "__global__", 'R"(g)"', "\\\n", "%", ";"]  # fmt: skip


def classes(pieces: Iterable[colours.Piece]) -> list[str]:
    """Return the class of every character, white space left out."""
    return [name for name, text in pieces for character in text if not character.isspace()]


def test_there_are_sources_to_compare_with() -> None:
    assert len(SOURCES) > 5


MISREAD = re.compile(r"-|(?<=[0-9])u?ll\b|\balignas\b")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_program_is_coloured_as_pygments_does(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ours, theirs = classes(colours.cuda(text)), classes(colours.by_pygments(text, "cuda"))
    places = [place for place, character in enumerate(text) if not character.isspace()]
    # What Pygments misreads: a minus in front of a number is no part of it, `ll` is, and
    # `alignas` is a keyword behind `__shared__` as well.
    known = {p for m in MISREAD.finditer(text) for p in range(*m.span())}
    differ = [p for p, a, b in zip(places, ours, theirs, strict=True) if a != b and p not in known]
    assert [text[p - 20 : p + 20] for p in differ] == []


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_no_character_is_lost_whatever_the_order(text: str) -> None:
    assert "".join(piece for _, piece in colours.cuda(text)) == text


COMMENTED = """\
int a;
// snippet: part
    /* one
       two */
    if (a) {

        b();  // why
    }
// end snippet
"""


def test_a_region_is_cut_out_of_the_coloured_whole() -> None:
    cut = regions.read(COMMENTED, "add.cu", "cuda")["part"]
    html = listing.region(program(), cut, text=COMMENTED, full="s.md#L", explorer=None)
    assert html.partition('<code class="language-cuda">')[2] == (
        '<a href="s.md#L3" tabindex="-1">3</a><span class="c">/* one</span>\n'
        '<a href="s.md#L4" tabindex="-1">4</a><span class="c">   two */</span>\n'
        '<a href="s.md#L5" tabindex="-1">5</a><span class="k">if</span> (a) {\n'
        '<a href="s.md#L6" tabindex="-1">6</a>\n'
        '<a href="s.md#L7" tabindex="-1">7</a>    b();  <span class="c">// why</span>\n'
        '<a href="s.md#L8" tabindex="-1">8</a>}\n'
        "</code></pre></div></figure>"
    )
    alone = listing.region(program(), cut, text="", full=None, explorer=None, named=False)
    numbers = re.compile(r'<a href="[^"]+" t')
    assert (
        numbers.sub("", alone).partition("<code")[2] == numbers.sub("", html).partition("<code")[2]
    )


words = st.lists(st.sampled_from([" ", "  ", "a", "1.5", "22", "<b>"]), max_size=8).map("".join)


@settings(deadline=None)
@given(st.lists(words, min_size=2, max_size=4))
def test_the_pieces_of_a_line_give_every_run_s_line_again(texts: list[str]) -> None:
    pieces = paper.aligned(texts)
    for run, text in enumerate(texts):
        assert "".join(p.texts[run if len(p.texts) > 1 else 0] for p in pieces) == text
    position = 0
    for piece in pieces:
        assert piece.start == position
        position += len(piece.texts[0])


def test_numbers_of_another_width_keep_their_column() -> None:
    assert paper.aligned(["  a   9.5   x", "  a  10.5   x"]) == [
        paper.Piece(0, ("  a  ",)),
        paper.Piece(5, (" 9.5", "10.5")),
        paper.Piece(9, ("   x",)),
    ]


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")), max_size=8),
    st.sampled_from(["cuda", "python"]),
)  # fmt: skip
def test_every_line_keeps_its_number(lines: list[str], language: str) -> None:
    coloured = colours.lines("\n".join(lines), language)
    assert [plain(row) for row in coloured] == (lines or [""])

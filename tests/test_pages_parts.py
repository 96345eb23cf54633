"""Listings and links into Compiler Explorer."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.model import Command, Plan, Program
from evidence.pages import explorer, listing

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
    assert listing.coloured_lines(["/* one", "", "two */ int x;"], "cuda") == [
        '<span class="cm">/* one</span>',
        "",
        '<span class="cm">two */</span><span class="w"> </span><span class="kt">int</span>'
        '<span class="w"> </span><span class="n">x</span><span class="p">;</span>',
    ]


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")), max_size=8),
    st.sampled_from(["cuda", "python"]),
)  # fmt: skip
def test_every_line_keeps_its_number(lines: list[str], language: str) -> None:
    coloured = listing.coloured_lines(lines, language)
    assert [plain(row) for row in coloured] == lines

"""Headers: Build: and Run: lines are parsed, validated, and split without a shell."""

import pytest

from evidence import header
from evidence.errors import SourceError

GOOD = "// Build: nvcc -O3 -arch=native -o add add.cu\n// Run: ./add --n 4\nint main() {}\n"
WHERE = "kernels/001-add/add.cu"


def message(text: str, where: str = WHERE, language: str = "cuda") -> str:
    with pytest.raises(SourceError) as caught:
        header.parse(text, where, language)
    return str(caught.value)


def test_both_lines_with_their_numbers():
    build, run = header.parse("// Day 1\n" + GOOD, WHERE, "cuda")
    assert build.words == ("nvcc", "-O3", "-arch=native", "-o", "add", "add.cu")
    assert (build.line, run.words, run.line) == (2, ("./add", "--n", "4"), 3)


def test_words_are_split_as_a_shell_splits_them():
    build, _ = header.parse(
        GOOD.replace("-O3", "\"-Xcompiler=-Wall,-Wextra\" -DX='a b'"), WHERE, "cuda"
    )
    assert build.words[1:3] == ("-Xcompiler=-Wall,-Wextra", "-DX=a b")


def test_block_comment_headers_are_read_too():
    text = "/*\n * Build: nvcc -o add add.cu\n * Run: ./add\n */\n"
    assert header.parse(text, WHERE, "cuda")[1].words == ("./add",)


def test_python_needs_only_a_run_line():
    build, run = header.parse("# Run: python3 a.py --x\n", "kernels/1-a/a.py", "python")
    assert build is None
    assert run.words == ("python3", "a.py", "--x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "int main() {}\n",
            f"{WHERE}:1: the header has no Build: line — "
            "add one, e.g. // Build: nvcc -O3 -arch=native -o add add.cu",
        ),
        (
            "// Build: nvcc -o add add.cu\n",
            f"{WHERE}:1: the header has no Run: line — add one, e.g. // Run: ./add",
        ),
        (
            GOOD + "// Run: ./add\n",
            f"{WHERE}:4: a second Run: line, the first is line 2 — "
            "keep one Run: line in the header",
        ),
        (
            GOOD.replace("add.cu", "other.cu"),
            f"{WHERE}:1: Build: names other.cu, but this file is add.cu — name add.cu in it",
        ),
        (
            GOOD.replace("-o add ", "-o sub "),
            f"{WHERE}:1: Build: writes sub, but it must write add — write -o add",
        ),
        (
            GOOD.replace("-o add ", ""),
            f"{WHERE}:1: Build: writes a.out, but it must write add — write -o add",
        ),
        (
            GOOD.replace("nvcc", "clang++"),
            f"{WHERE}:1: Build: starts with 'clang++', not nvcc — write Build: nvcc …",
        ),
        (
            GOOD.replace("-O3", "-O3; rm -r x"),
            f"{WHERE}:1: Build: line has ';' in '-O3;'; no shell reads this line — "
            "write a plain command and its arguments",
        ),
        (
            GOOD.replace("-O3", "-ccbin=/tmp/evil"),
            f"{WHERE}:1: Build: has '-ccbin=/tmp/evil', which may not stand there — remove it",
        ),
        (
            GOOD.replace("-O3", '"-O3'),
            f"{WHERE}:1: Build: line cannot be split into words: No closing quotation — "
            "close the quotation mark",
        ),
        (
            GOOD.replace("./add --n 4", "./sub"),
            f"{WHERE}:2: Run: starts './sub', but Build: writes add — write Run: ./add",
        ),
        (
            GOOD.replace("./add --n 4", ""),
            f"{WHERE}:2: the Run: line is empty — write the command after Run:",
        ),
    ],
)
def test_every_broken_header_has_its_message(text: str, expected: str):
    assert message(text) == expected


def test_python_run_line_must_run_the_file():
    assert message("# Run: python3 b.py\n", "kernels/1-a/a.py", "python") == (
        "kernels/1-a/a.py:1: Run: is 'python3 b.py', but it must run this file — "
        "write Run: python3 a.py"
    )


def test_lines_far_below_the_header_do_not_count():
    late = GOOD + "int x;\n" * 300 + "// Run: ./add\n"
    assert header.parse(late, WHERE, "cuda")[1].line == 2

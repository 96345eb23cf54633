"""The key: kept by comments, layout and file times; changed by everything else."""

import os

import pytest

from evidence import key
from evidence.errors import SourceError

SOURCE = """\
// Day 1.
// Build: nvcc -O3 -std=c++17 -arch=native -o add add.cu
// Run: ./add
#include "common.cuh"
int main() {
    // snippet: body
    return twice(1);  // a comment
    // end snippet
}
"""
HEADER = '// helpers\n#include "deep.cuh"\ninline int twice(int x) { return 2 * x + kDeep; }\n'
DEEP = "constexpr int kDeep = 0;\n"


@pytest.fixture
def add(tree):
    tree.program(text=SOURCE)
    tree.write("kernels/001-add/common.cuh", HEADER)
    tree.write("kernels/001-add/deep.cuh", DEEP)
    tree.write("kernels/001-add/evidence.toml", "[add]\ninputs = ['data.bin']\n")
    tree.write("kernels/001-add/data.bin", b"\x00\x01")
    return tree


def inputs(tree):
    (program,) = tree.load().programs
    return key.inputs_of(program)


def edit(tree, name: str, old: str, new: str):
    path = tree.root / "kernels/001-add" / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8", newline="")


def test_it_is_taken_over_the_source_and_all_it_includes(add):
    assert list(inputs(add).files) == ["add.cu", "common.cuh", "deep.cuh"]
    assert len(key.key_of(inputs(add))) == 64


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("add.cu", "  // a comment", ""),
        ("add.cu", "// Day 1.", "// Day 1, with a better story."),
        ("add.cu", "int main() {", "\n\nint main()\n{\n"),
        ("add.cu", "    // snippet: body\n", ""),
        ("add.cu", "snippet: body", "snippet: other"),
        ("add.cu", "\n", "\r\n"),
        ("common.cuh", "// helpers\n", ""),
        ("deep.cuh", "kDeep = 0", "kDeep  =  0"),
    ],
)
def test_what_keeps_it(add, name: str, old: str, new: str):
    before = key.key_of(inputs(add))
    edit(add, name, old, new)
    assert key.key_of(inputs(add)) == before


def test_times_and_modes_keep_it(add):
    before = key.key_of(inputs(add))
    path = add.root / "kernels/001-add/add.cu"
    os.utime(path, (1, 1))
    path.chmod(0o755)
    assert key.key_of(inputs(add)) == before


@pytest.mark.parametrize(
    ("name", "old", "new", "what"),
    [
        ("add.cu", "twice(1)", "twice(2)", "code of add.cu"),
        ("add.cu", "return twice(1)", "return 0, twice(1)", "code of add.cu"),
        ("common.cuh", "2 * x", "x * 2", "code of common.cuh"),
        ("deep.cuh", "= 0", "= 1", "code of deep.cuh"),
        ("add.cu", "-O3", "-O2", "Build: line"),
        ("add.cu", "-O3 -std=c++17", "-std=c++17 -O3", "Build: line"),
        ("add.cu", "Run: ./add", "Run: ./add --n 4", "Run: line"),
        ("data.bin", "\x01", "\x02", "data of data.bin"),
    ],
)
def test_what_changes_it_and_how_it_is_named(add, name: str, old: str, new: str, what: str):
    before = inputs(add)
    edit(add, name, old, new)
    after = inputs(add)
    assert key.key_of(after) != key.key_of(before)
    assert [change.what for change in key.changes(key.to_json(before), after)] == [what]


def test_words_that_differ_are_shown_old_and_new(add):
    before = key.to_json(inputs(add))
    edit(add, "add.cu", "-O3", "-O2")
    (change,) = key.changes(before, inputs(add))
    assert change == key.Change(
        "Build: line",
        "nvcc -O3 -std=c++17 -arch=native -o add add.cu",
        "nvcc -O2 -std=c++17 -arch=native -o add add.cu",
    )


def test_an_include_that_goes_is_named(add):
    before = key.to_json(inputs(add))
    edit(add, "common.cuh", '#include "deep.cuh"\n', "constexpr int kDeep = 0;\n")
    assert [c.what for c in key.changes(before, inputs(add))] == [
        "code of common.cuh",
        "code of deep.cuh",
    ]


def test_known_raw_hashes_save_the_lexing_and_change_nothing(add, monkeypatch):
    whole = inputs(add)
    (program,) = add.load().programs
    monkeypatch.setattr("evidence.lexing.code_text", lambda *_: pytest.fail("lexed again"))
    assert key.inputs_of(program, key.to_json(whole)["files"]) == whole


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"common.cuh": '#include "gone.cuh"\n'},
            "kernels/001-add/common.cuh:1: includes 'gone.cuh', which does not exist — "
            "correct the name or add the file",
        ),
        (
            {"common.cuh": '\n#include "common.cuh"\n'},
            "kernels/001-add/common.cuh:2: includes itself: common.cuh → common.cuh — "
            "break the cycle",
        ),
        (
            {"deep.cuh": '#include "common.cuh"\n'},
            "kernels/001-add/deep.cuh:1: includes itself: common.cuh → deep.cuh → common.cuh — "
            "break the cycle",
        ),
        (
            {"common.cuh": '#include "../../../outside.cuh"\n'},
            "kernels/001-add/common.cuh:1: includes '../../../outside.cuh', "
            "which is outside the project — move the file into the project",
        ),
        (
            {"deep.cuh": b"int a;\nint \xe9;\n"},
            "kernels/001-add/deep.cuh:2: byte 0xe9 is not UTF-8 — save the file as UTF-8",
        ),
    ],
)
def test_includes_that_cannot_be_followed(add, files: dict, expected: str):
    for name, text in files.items():
        add.write(f"kernels/001-add/{name}", text)
    with pytest.raises(SourceError) as caught:
        inputs(add)
    assert str(caught.value) == expected


def test_a_declared_input_that_is_gone(add):
    (add.root / "kernels/001-add/data.bin").unlink()
    with pytest.raises(SourceError) as caught:
        inputs(add)
    assert str(caught.value) == (
        "kernels/001-add/add.cu:1: declared input 'data.bin' cannot be read: "
        "No such file or directory — restore data.bin or remove it from inputs in evidence.toml"
    )


def test_python_follows_its_local_imports_and_pins(tree):
    tree.write("kernels/083-triton/softmax.py", "# Run: python3 softmax.py\nimport shapes, json\n")
    tree.write("kernels/083-triton/shapes.py", "N = 4\n")
    tree.write("kernels/083-triton/evidence.toml", "[softmax]\nrequires = ['torch==2.11.0']\n")
    before = inputs(tree)
    assert list(before.files) == ["softmax.py", "shapes.py"]
    tree.write("kernels/083-triton/shapes.py", "N = 5\n")
    tree.write("kernels/083-triton/evidence.toml", "[softmax]\nrequires = ['torch==2.12.0']\n")
    assert [c.what for c in key.changes(key.to_json(before), inputs(tree))] == [
        "code of shapes.py",
        "required packages",
    ]

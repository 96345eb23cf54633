"""Finding programs by convention, and naming them."""

import pytest

from evidence import config, project
from evidence.errors import ConfigError, EvidenceError

PY = "# Run: python3 {0}.py\n"


def test_cuda_and_python_programs_under_all_roots(tree):
    tree.program()
    tree.write("snippets/002-oob/oob.py", PY.format("oob"))
    tree.write("snippets/002-oob/helper.py", "def f(): ...\n")
    found = tree.load()
    assert [p.name for p in found.programs] == ["001-add/add", "002-oob/oob"]
    assert [p.language for p in found.programs] == ["cuda", "python"]
    assert found.problems == ()


def test_a_folder_a_number_and_a_path_stand_for_programs(tree):
    tree.program("097-attention", "attention")
    tree.program("097-attention", "other")
    found = tree.load()
    assert len(found.find(["97"])) == len(found.find(["097-attention"])) == 2
    assert found.get("kernels/097-attention/attention.cu").stem == "attention"
    assert len(found.find(["kernels/097-attention/"])) == 2


def test_an_unknown_name_lists_close_ones(tree):
    tree.program("097-attention", "attention")
    with pytest.raises(EvidenceError) as caught:
        tree.load().find(["097-atention"])
    assert str(caught.value) == (
        "no program is named '097-atention'; close: 097-attention, 097-attention/attention — "
        "run: evidence list"
    )


def test_a_name_for_several_where_one_is_needed(tree):
    tree.program("001-add", "add")
    tree.program("001-add", "sub")
    with pytest.raises(
        EvidenceError, match="stands for several programs: 001-add/add, 001-add/sub"
    ):
        tree.load().get("001-add")


def test_a_folder_alone_does_not_mean_its_exercise(tree):
    tree.program("001-add", "add")
    for name in ("starter", "solution"):
        tree.write(f"snippets/001-add/{name}.py", PY.format(name))
    found = tree.load()
    assert found.get("001-add").name == found.get("1").name == "001-add/add"
    assert len(found.find(["001-add"])) == 3


def test_a_folder_of_nothing_but_an_exercise_means_two_programs(tree):
    for name in ("starter", "solution"):
        tree.write(f"snippets/001-add/{name}.py", PY.format(name))
    with pytest.raises(EvidenceError, match="stands for several programs: 001-add/solution"):
        tree.load().get("001-add")


def test_two_programs_with_one_name(tree):
    tree.program()
    tree.write("kernels/001-add/add.py", PY.format("add"))
    (problem,) = tree.load().problems
    assert problem.explain() == (
        "kernels/001-add/add.py:1: name-taken: two programs are named 001-add/add: "
        "kernels/001-add/add.cu and kernels/001-add/add.py — rename one of the files"
    )


def test_one_name_in_two_roots(tree):
    tree.program()
    tree.write("snippets/001-add/add.py", PY.format("add"))
    (problem,) = tree.load().problems
    assert problem.code == "name-taken"


def test_a_bad_source_is_a_finding_and_the_others_are_read(tree):
    tree.program()
    tree.write("kernels/002-bad/bad.cu", "int main() {}\n")
    tree.write("kernels/003-latin/latin.cu", b"// caf\xe9\n")
    found = tree.load()
    assert [p.name for p in found.programs] == ["001-add/add"]
    assert [p.explain() for p in found.problems] == [
        "kernels/002-bad/bad.cu:1: bad-source: the header has no Build: line — "
        "add one, e.g. // Build: nvcc -O3 -arch=native -o bad bad.cu",
        "kernels/003-latin/latin.cu:1: bad-source: byte 0xe9 is not UTF-8 — save the file as UTF-8",
    ]


def test_naming_a_program_whose_source_is_bad_says_what_is_wrong(tree):
    tree.write("kernels/002-bad/bad.cu", "int main() {}\n")
    with pytest.raises(EvidenceError, match="the header has no Build: line"):
        tree.load().find(["002-bad"])


def test_settings_about_no_program(tree):
    tree.program()
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 2\n\n[sub]\nruns = 2\n")
    (problem,) = tree.load().problems
    assert problem.explain() == (
        "kernels/001-add/evidence.toml:4: bad-settings: [sub] is about no program in this folder — "
        "rename the table after a program's file, or remove it"
    )


def test_no_project_here(tmp_path):
    with pytest.raises(ConfigError) as caught:
        project.load(tmp_path)
    assert str(caught.value).endswith(
        "no pyproject.toml with a [tool.evidence] table here or above — "
        "run inside the project, or give its folder: evidence --project DIR …"
    )


def test_configuration_mistakes_are_all_named_at_once(tree):
    tree.write("pyproject.toml", "[tool.evidence]\nruns = 0\ntimeuot = 3\ndocs = 4\n")
    with pytest.raises(ConfigError) as caught:
        config.load(tree.root)
    message = str(caught.value)
    assert (
        "unknown setting 'timeuot' (known: allowed_signers, architectures, device, docs," in message
    )
    assert "docs = 4, but it must be a folder" in message
    assert "runs = 0, but a program must run at least once" in message


def test_a_folder_inside_the_project_finds_it(tree):
    tree.program()
    assert project.load(tree.root / "kernels/001-add").root == tree.root.resolve()

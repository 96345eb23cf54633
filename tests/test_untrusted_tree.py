"""A stranger's tree: what the recorder itself would do for it, looked at before it does."""

import sys
from pathlib import Path

import pytest

import fake_cuda
from evidence import project, untrusted
from evidence.errors import EvidenceError

TRUST = ", or read the program, and record it without --untrusted"


def refusal(tree) -> str:
    """Return why a tree, or its only program, is refused."""
    try:
        found = untrusted.load(tree.root)
    except EvidenceError as error:
        return str(error)
    assert found.programs == ()
    (finding,) = found.problems
    assert finding.code in ("refused", "bad-source")
    return f"{finding.path}:{finding.line}: {finding.message} — {finding.fix}"


def admitted(tree) -> bool:
    found = untrusted.load(tree.root)
    return len(found.programs) > 0 and found.problems == ()


def build(tree, *words: str) -> None:
    line = f"// Build: nvcc {' '.join(words)} -o add add.cu"
    tree.program(text=f"{line}\n// Run: ./add\nint main() {{}}\n")


@pytest.mark.parametrize("setting", ["docs", "sources", "reviewed"])
@pytest.mark.parametrize("folder", ["/nowhere", "../../x", ".git/hooks"])
def test_a_folder_that_would_be_written_outside(tree, setting, folder):
    folder = f"../{folder}" if setting == "sources" and folder.startswith(".git") else folder
    tree.program()
    path = tree.root / "pyproject.toml"
    lines = [x for x in path.read_text().splitlines() if not x.startswith(f"{setting} =")]
    path.write_text("\n".join([*lines, f'{setting} = "{folder}"', ""]))
    said = f"pyproject.toml:1: {setting} = {folder!r} leads out of the tree — name a folder of the "
    with pytest.raises(EvidenceError) as caught:
        untrusted.load(tree.root)
    assert str(caught.value).startswith(said)


def test_a_configuration_that_is_a_link_is_not_read(tree, tmp_path):
    tree.program()
    (tmp_path / "secret").write_text("secret = [")
    (tree.root / "pyproject.toml").unlink()
    (tree.root / "pyproject.toml").symlink_to(tmp_path / "secret")
    with pytest.raises(EvidenceError, match="is a link that leads out of the tree"):
        untrusted.load(tree.root)


# Links.


def test_a_tree_without_tricks(tree):
    tree.program()
    tree.write("kernels/common/a.cuh", "")
    (tree.root / "kernels/001-add/b.cuh").symlink_to("../common/a.cuh")
    (tree.root / "kernels/here").symlink_to("common")
    assert admitted(tree)


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../../../etc/hostname", "/nowhere", "/dev/zero"]
)
@pytest.mark.parametrize("name", ["kernels/001-add/data.bin", "kernels/002-x", "docs", "notes"])
def test_a_link_out_of_the_tree(tree, target, name):
    tree.program()
    path = tree.root / name
    if path.is_dir():
        path.rmdir()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    with pytest.raises(EvidenceError) as caught:
        untrusted.check_tree(tree.root)
    assert str(caught.value) == (
        f"{name}:1: is a link that leads out of the tree, to {target!r} — remove it: git rm {name}"
    )


def test_a_link_into_gits_own_folder(tree):
    tree.program()
    tree.write(".git/config", "token")
    (tree.root / "kernels/001-add/data.bin").symlink_to("../../.git/config")
    assert refusal(tree).startswith(
        "kernels/001-add/data.bin:1: is a link that leads out of the tree, to '../../.git/config'"
    )


def test_a_link_through_a_link(tree):
    tree.program()
    (tree.root / "kernels/001-add/one").symlink_to("two")
    (tree.root / "kernels/001-add/two").symlink_to("/etc")
    assert "is a link that leads out of the tree" in refusal(tree)


def test_the_tools_own_environment_may_lie_in_the_tree(tree, monkeypatch):
    tree.program()
    path = tree.write(".venv/bin/python", "")
    path.unlink()
    path.symlink_to(sys.executable)
    assert "is a link that leads out of the tree" in refusal(tree)
    monkeypatch.setattr(untrusted.sys, "prefix", str(tree.root / ".venv"))
    assert admitted(tree)


# What programs ask for.


@pytest.mark.parametrize("name", ["/etc/passwd", "../../../secret", "x/../../y", ".git/config"])
def test_an_input_outside(tree, name):
    tree.program()
    tree.write("kernels/001-add/evidence.toml", f'[add]\ninputs = ["{name}"]\n')
    assert refusal(tree) == (
        f"kernels/001-add/add.cu:5: needs {name!r}, which is outside its folder and so not there"
        " when it runs — move it beside the program"
    )


def test_an_include_of_a_file_outside_the_project(tree):
    tree.root.parent.joinpath("secret.h").write_text("int secret;\n")
    tree.program(text=fake_cuda.source('#include "../../../secret.h"'))
    assert refusal(tree) == (
        "kernels/001-add/add.cu:3: includes '../../../secret.h', which is outside the project"
        " — move the file into the project"
    )


def test_an_include_of_gits_own_files(tree):
    tree.write(".git/config", "token")
    tree.program(text=fake_cuda.source('#include "../../.git/config"'))
    assert refusal(tree) == (
        "kernels/001-add/add.cu:2: includes '../../.git/config', which is git's own"
        " — remove that line"
    )


def test_programs_outside_the_project(tree):
    tree.root.joinpath("pyproject.toml").write_text('[tool.evidence]\nroots = ["../others"]\n')
    path = tree.root.parent / "others/001-x/add.cu"
    path.parent.mkdir(parents=True)
    path.write_text(fake_cuda.source("echo x"))
    assert "is outside the project" in refusal(tree)


# The Build: line.


@pytest.mark.parametrize(
    "words",
    [
        ["-O3", "-std=c++17", "-arch=native", "-Xcompiler=-Wall,-Wextra,-Wshadow"],
        ["-O", "2", "-std", "c++20", "-arch", "sm_90", "-Xcompiler", "-Wall,-O3"],
        ["-gencode=arch=compute_110,code=sm_110", "-gencode", "arch=compute_90,code=[sm_90,compute_90]"],
        ["-DN=256", "-D", "M=3", "-I.", "-I", "../common", "-lcublas", "-l", "cuda", "-UX"],
        ["--expt-relaxed-constexpr", "--expt-extended-lambda", "-lineinfo", "-G", "-g"],
        ["-use_fast_math", "--use_fast_math", "-ftz=true", "-fmad=false", "-rdc=true", "-maxrregcount=64"],
        ["-Xptxas=-v,-O3", "-Xptxas", "-dlcm=ca", "-diag-suppress", "177", "-Xcompiler=-fopenmp,-mavx2"],
        ["-Xlinker=-export-dynamic", "-Xlinker", "-E,--as-needed"],
        ["-Xcompiler=-march=native,-fno-strict-aliasing,-ffp-contract=off"],
    ],
)  # fmt: skip
def test_options_that_anybody_may_use(tree, words):
    build(tree, *words)
    assert admitted(tree)


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["-Xcompiler=-O2,-fplugin=./evil.so"], "-fplugin=./evil.so"),
        (["--compiler-options", "-specs=evil"], "-specs=evil"),
        (["-Xcompiler=-B."], "-B."),
        (["-Xcompiler=-wrapper,./evil"], "-wrapper"),
        (["-Xcompiler=-include,/etc/passwd"], "-include"),
        (["-Xcompiler=-Wl,-plugin,./evil.so"], "-Wl"),
        (["-Xcompiler=-Wa,-MD=/tmp/x"], "-Wa"),
        (["-Xcompiler=-fdump-tree-all=/tmp/x"], "-fdump-tree-all=/tmp/x"),
        (["-Xcompiler=@more"], "@more"),
        (["-Xlinker", "-plugin=./evil.so"], "-plugin=./evil.so"),
        (["-Xlinker=-o/tmp/x"], "-o/tmp/x"),
        (["-Xlinker=-T,evil.ld"], "-T"),
        (["--linker-options=-E,--dynamic-linker=/tmp/x"], "--dynamic-linker=/tmp/x"),
        (["-Xptxas=--options-file,more"], "--options-file"),
        (["-run"], "-run"),
        (["--run"], "--run"),
        (["-include", "/etc/passwd"], "-include"),
        (["-include=/etc/passwd"], "-include=/etc/passwd"),
        (["--pre-include", "/etc/passwd"], "--pre-include"),
        (["-I/etc"], "-I/etc"),
        (["-I", "/etc"], "-I/etc"),
        (["-I../../.."], "-I../../.."),
        (["-I../../.git"], "-I../../.git"),
        (["-isystem=/etc"], "-isystem=/etc"),
        (["-L/tmp"], "-L/tmp"),
        (["-l:evil.so"], "-l:evil.so"),
        (["-l", "../evil"], "-l../evil"),
        (["--keep", "--keep-dir=/tmp"], "--keep"),
        (["-odir=/tmp"], "-odir=/tmp"),
        (["-MF", "/tmp/x"], "-MF"),
        (["--dryrun"], "--dryrun"),
        (["-ldir=/tmp"], "-ldir=/tmp"),
        (["--libdevice-directory=/tmp"], "--libdevice-directory=/tmp"),
        (["evil.o"], "evil.o"),
        (["evil.so"], "evil.so"),
        (["/tmp/evil.a"], "/tmp/evil.a"),
    ],
)  # fmt: skip
def test_options_that_are_refused(tree, words, refused):
    build(tree, *words)
    assert refusal(tree) == (
        f"kernels/001-add/add.cu:1: Build: has {refused!r}, which a stranger's program may not use"
        f" — remove it{TRUST}"
    )


def test_one_program_that_is_refused_does_not_stop_the_others(tree):
    build(tree, "-run")
    tree.program("002-b")
    found = untrusted.load(tree.root)
    assert [program.name for program in found.programs] == ["002-b/add"]
    assert [finding.explain() for finding in found.problems] == [
        "kernels/001-add/add.cu:1: refused: Build: has '-run', which a stranger's program may not use"
        f" — remove it{TRUST}"
    ]
    assert found.find(["2"]) == found.programs
    with pytest.raises(EvidenceError) as caught:
        found.find(["001-add"])
    assert "Build: has '-run'" in str(caught.value)


def test_the_projects_own_programs_are_all_admitted():
    found = project.load(Path(__file__).parent)
    for program in found.programs:
        untrusted.check_program(found, program)
    assert len(found.programs) > 100


@pytest.mark.parametrize("option", ["-Xcompiler", "-D", "-arch", "-std"])
def test_an_option_that_swallows_the_output(tree, option):
    build(tree, option)
    assert "which a stranger's program may not use" in refusal(tree)


@pytest.mark.parametrize("second", ["-o ../../x", "-o=/tmp/x", "--output-file /tmp/x", "-o add"])
def test_a_second_output(tree, second):
    line = f"// Build: nvcc -o add add.cu {second}"
    tree.program(text=f"{line}\n// Run: ./add\nint main() {{}}\n")
    assert "which a stranger's program may not use" in refusal(tree)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nvcc -o add add.cu; curl evil", "Build: line has ';' in 'add.cu;'; no shell reads this line"),
        ("nvcc -o add add.cu && evil", "Build: line has '&' in '&&'"),
        ("nvcc -o add add.cu | sh", "Build: line has '|' in '|'"),
        ("nvcc -o add add.cu $(evil)", "Build: line has '$' in '$(evil)'"),
        ("nvcc -o add add.cu `evil`", "Build: line has '`' in '`evil`'"),
        ("nvcc -o add '-DX=$(evil)' add.cu", "Build: line has '$' in '-DX=$(evil)'"),
        ("nvcc -o add add.cu >/etc/x", "Build: line has '>' in '>/etc/x'"),
        ("nvcc -o ../../../x add.cu", "Build: writes ../../../x, but it must write add"),
        ("nvcc -o /usr/bin/x add.cu", "Build: writes /usr/bin/x, but it must write add"),
        ("nvcc -ccbin ./evil -o add add.cu", "Build: has '-ccbin', which may not stand there"),
        ("nvcc --compiler-bindir=. -o add add.cu", "Build: has '--compiler-bindir=.', which may not"),
        ("nvcc @more -o add add.cu", "Build: has '@more', which may not stand there"),
        ("nvcc --options-file more -o add add.cu", "Build: has '--options-file', which may not"),
        ("nvcc -fplugin=x.so -o add add.cu", "Build: has '-fplugin=x.so', which may not stand there"),
        ("nvcc -Xcompiler -fplugin=x.so -o add add.cu", "Build: has '-fplugin=x.so', which may not"),
        ("nvcc -Xcompiler @more -o add add.cu", "Build: has '@more', which may not stand there"),
        ("LD_PRELOAD=./x.so nvcc -o add add.cu", "Build: starts with 'LD_PRELOAD=./x.so', not nvcc"),
        ("./nvcc -o add add.cu", "Build: starts with './nvcc', not nvcc"),
        ("nvcc -o add add.cu /etc/x.cpp", "Build: names add.cu /etc/x.cpp, but this file is add.cu"),
    ],
)  # fmt: skip
def test_build_lines_that_no_program_may_have(tree, line, said):
    tree.program(text=f"// Build: {line}\n// Run: ./add\nint main() {{}}\n")
    found = tree.load()
    assert found.programs == ()
    assert said in found.problems[0].message


@pytest.mark.parametrize("line", ["./add; evil", "/bin/sh -c evil", "./../x", "LD_PRELOAD=x ./add"])
def test_run_lines_that_no_program_may_have(tree, line):
    tree.program(text=f"// Build: nvcc -o add add.cu\n// Run: {line}\nint main() {{}}\n")
    assert tree.load().programs == ()


# What lies in the tool's own folder.


def test_what_a_stranger_put_into_the_tools_folder_is_removed(tree):
    tree.program()
    tree.write(".evidence/staging/001-add--add.json", "{}")
    tree.write(".evidence/build/sm_90/001-add/add", "evil")
    assert admitted(tree)
    assert not (tree.root / ".evidence").exists()


def test_the_tools_folder_as_a_link(tree):
    tree.program()
    elsewhere = tree.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("x")
    (tree.root / ".evidence").symlink_to(elsewhere)
    assert admitted(tree)
    assert not (tree.root / ".evidence").exists()
    assert (elsewhere / "kept").exists()


def test_a_folder_that_cannot_be_removed(tree, monkeypatch):
    tree.program()
    tree.write(".evidence/x", "")

    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(untrusted.shutil, "rmtree", refused)
    assert refusal(tree) == (
        ".evidence:1: cannot be removed: Permission denied — remove it, and run again"
    )

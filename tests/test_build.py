"""Compiling: parallel, incremental, every failure a finding with its line."""

import os
import subprocess
import time

import pytest

import fake_cuda
from evidence import build, cli, ninjafile, toolchain
from evidence.errors import ToolchainError
from evidence.ninjafile import Target

KERNEL = "#pragma kernel addKernel 40 128"


@pytest.fixture
def kit(tmp_path, monkeypatch):
    made = fake_cuda.install(tmp_path / "cuda")
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    return made


def make(tree, *architectures, names=(), mutants=False):
    project = tree.load()
    nvcc = toolchain.find_nvcc()
    targets = [
        target
        for program in project.find(names)
        for architecture in architectures or ("sm_90",)
        for target in ninjafile.targets(program, architecture, mutants=mutants)
    ]
    good = build.make(project, targets, nvcc, architectures=architectures)
    done = [build.result(project.root, target, nvcc) for target in targets]
    return good, done, [f.explain() for f in build.findings(project, done)]


def touch(path, seconds=5):
    moment = time.time() + seconds
    os.utime(path, (moment, moment))


def test_a_program_is_compiled_for_every_architecture(tree, kit):
    tree.program(text=fake_cuda.source(KERNEL, "echo hello"))
    good, done, findings = make(tree, "sm_80", "sm_90")
    assert (good, findings) == (True, [])
    for compiled, architecture in zip(done, ("sm_80", "sm_90"), strict=True):
        binary = tree.root / f".evidence/build/{architecture}/001-add/add"
        assert compiled.succeeded
        assert subprocess.check_output([binary]) == b"hello\n"


def test_the_programs_own_line_is_run_with_native_replaced(tree, kit):
    tree.program(text=fake_cuda.source(KERNEL))
    _, done, _ = make(tree)
    assert kit.calls() == [
        "-O3 -std=c++17 -arch=sm_90 -o ../../.evidence/build/sm_90/001-add/add add.cu -Xptxas=-v "
        "-Werror all-warnings -Xcompiler=-Werror -MD -MF ../../.evidence/build/sm_90/001-add/add.d"
    ]
    document = done[0].document()
    assert document["command"] == ["nvcc", *kit.calls()[0].split(" ")]
    assert document["kernels"] == {
        "addKernel": {
            "registers": 40, "stack": 128, "spill_stores": 0, "spill_loads": 0, "shared": 64, "constant": 0,
        }
    }  # fmt: skip
    assert (document["output"], document["warnings"], document["exit_status"]) == ([], [], 0)
    assert document["architecture"] == "sm_90"


def test_nothing_changed_nothing_is_compiled_and_the_report_is_still_there(tree, kit):
    tree.program(text=fake_cuda.source(KERNEL))
    _, first, _ = make(tree)
    _, second, _ = make(tree)
    assert len(kit.calls()) == 1
    assert second[0].document() == first[0].document()


def test_a_changed_header_is_compiled_again_and_only_for_who_includes_it(tree, kit):
    header = tree.write("kernels/common/sum.cuh", "#pragma sh echo one\n")
    tree.program(text=fake_cuda.source('#include "../common/sum.cuh"'))
    tree.program("002-mul", "mul", fake_cuda.source("echo x", stem="mul"))
    make(tree)
    header.write_text("#pragma sh echo two\n")
    touch(header)
    make(tree)
    assert [call.split(" ")[5] for call in kit.calls()[2:]] == ["add.cu"]
    assert subprocess.check_output([tree.root / ".evidence/build/sm_90/001-add/add"]) == b"two\n"


def test_another_flag_is_compiled_again(tree, kit):
    path = tree.program(text=fake_cuda.source())
    make(tree)
    path.write_text(path.read_text().replace("-O3", "-O2"))
    make(tree)
    assert [call[:3] for call in kit.calls()] == ["-O3", "-O2"]


def test_another_compiler_is_compiled_again(tree, kit):
    tree.program(text=fake_cuda.source())
    make(tree)
    fake_cuda.install(kit.home, version="13.1.2")
    make(tree)
    assert len(kit.calls()) == 2


def test_one_architecture_more_does_not_compile_the_others_again(tree, kit):
    tree.program(text=fake_cuda.source())
    make(tree, "sm_90")
    make(tree, "sm_86")
    make(tree, "sm_90")
    assert len(kit.calls()) == 2


def test_a_compile_error_is_a_finding_with_its_line_and_stops_no_other(tree, kit):
    tree.program(
        "001-bad", "bad", fake_cuda.source('#pragma error identifier "x" is undefined', stem="bad")
    )
    tree.program("002-good", "good", fake_cuda.source("echo fine", stem="good"))
    good, done, findings = make(tree, "sm_80", "sm_90")
    assert not good
    assert findings == [
        'kernels/001-bad/bad.cu:3: compile-error: identifier "x" is undefined'
        " — mend it, then run: evidence build 001-bad/bad"
    ]
    assert [c.succeeded for c in done] == [False, False, True, True]


def test_a_warning_is_a_failure_that_names_its_line(tree, kit):
    tree.program(
        text=fake_cuda.source('#pragma warning variable "y" was declared but never referenced')
    )
    good, _, findings = make(tree)
    assert not good
    assert findings == [
        'kernels/001-add/add.cu:3: compile-error: variable "y" was declared but never referenced'
        " — mend it, then run: evidence build 001-add/add"
    ]


def test_an_error_of_a_program_once_compiled_leaves_no_binary(tree, kit):
    path = tree.program(text=fake_cuda.source("echo old"))
    make(tree)
    path.write_text(fake_cuda.source("#pragma error broken now"))
    touch(path)
    _, done, _ = make(tree)
    assert not done[0].succeeded
    assert not (tree.root / done[0].target.output).exists()


def test_what_is_meant_not_to_compile_must_not(tree, kit):
    tree.write("kernels/001-add/evidence.toml", '[add]\nexpect = "compile-error"\n')
    path = tree.program(text=fake_cuda.source("#pragma error no"))
    good, done, findings = make(tree)
    assert (good, findings, done[0].exit_status) == (True, [], 2)
    assert "-Werror" not in kit.calls()[0]
    path.write_text(fake_cuda.source("echo fine"))
    touch(path)
    good, _, findings = make(tree)
    assert not good
    assert findings == [
        "kernels/001-add/add.cu:1: compiles: 001-add/add compiles, although it is meant not to"
        " — mend it, then run: evidence build 001-add/add"
    ]


def test_an_error_for_one_architecture_says_so(tree, kit):
    tree.program(text=fake_cuda.source())
    project = tree.load()
    program = project.programs[0]
    said = ("add.cu(7): error: no tensor cores",)
    done = [
        build.Compiled(Target(program, "sm_75"), (), 2, said),
        build.Compiled(Target(program, "sm_90"), (), 0),
    ]
    assert [f.message for f in build.findings(project, done)] == [
        "no tensor cores (only for sm_75)"
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('w.cu(4): error: identifier "nope" is undefined', ("w.cu", 4, 'identifier "nope" is undefined')),
        ('w2.cu(2): error #177-D: variable "a"', ("w2.cu", 2, 'variable "a"')),
        ("w.cu:3:122: warning: output truncated [-W]", ("w.cu", 3, "output truncated [-W]")),
        ("../common/x.cuh(9): catastrophic error: no", ("../common/x.cuh", 9, "no")),
        ("w.cu:3:10: fatal error: x.h: No such file", ("w.cu", 3, "x.h: No such file")),
        ("w.cu:12: error: label at end", ("w.cu", 12, "label at end")),
    ],
)  # fmt: skip
def test_messages_of_the_compilers(line, found):
    assert list(build.messages([line, line])) == [found]


@pytest.mark.parametrize("line", ['1 error detected in the compilation of "w.cu".', "note: x", ""])
def test_no_messages(line):
    assert list(build.messages([line])) == []


def test_a_linkers_words_are_the_reason_where_no_line_is_named(tree):
    tree.program(text=fake_cuda.source())
    project = tree.load()
    said = (
        "/usr/bin/ld: x.o: in function `main':",
        "x.cpp:(.text+0x33): undefined reference to `g()'",
    )
    done = [build.Compiled(Target(project.programs[0], "sm_90"), (), 1, said)]
    assert [(f.line, f.message) for f in build.findings(project, done)] == [(1, said[1])]


def test_names_of_the_compilers_temporary_files_are_not_kept(tree, kit):
    tree.program(
        text=fake_cuda.source("#pragma error in tmpxft_00002c42_00000000-6_w3.cudafe1.cpp")
    )
    _, done, _ = make(tree)
    assert done[0].output == ("add.cu(3): error: in w3.cudafe1.cpp",)


def test_the_wheels_library_path_is_said_to_the_compiler(tree, kit):
    (kit.home / "lib").mkdir()
    (kit.home / "lib" / "libcudart_static.a").touch()
    tree.program(text=fake_cuda.source())
    make(tree)
    assert f" -L{kit.home}/lib " in kit.calls()[0]


@pytest.mark.parametrize(
    ("words", "architecture"),
    [
        ("-arch=native", None),
        ("-arch native", None),
        ("--gpu-architecture=native", None),
        ("-arch=sm_90a", "sm_90a"),
        ("-arch sm_80", "sm_80"),
        ("-arch=compute_75", "sm_75"),
        ("-gencode arch=compute_80,code=sm_80", None),
        ("-arch=all-major", None),
        ("", None),
    ],
)
def test_the_architecture_of_a_build_line(words, architecture):
    assert ninjafile.own_architecture(("nvcc", *words.split())) == architecture


def test_a_line_with_an_architecture_of_its_own_is_compiled_once(tree, kit):
    tree.program(text=fake_cuda.source().replace("native", "sm_90a"))
    _, done, _ = make(tree, "sm_80", "sm_90")
    assert {c.target.output for c in done} == {".evidence/build/sm_90a/001-add/add"}
    assert len(kit.calls()) == 1


def test_flags_from_the_environment_do_not_reach_the_compiler(tree, kit, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    kit.script(
        "nvcc",
        "#!/bin/sh\necho V13.0.88 $NVCC_APPEND_FLAGS\ncase $1 in --version);; *) exit 2;; esac\n",
    )
    tree.program(text=fake_cuda.source())
    _, done, _ = make(tree)
    assert done[0].output == ("V13.0.88",)


def test_ninja_that_is_not_there(monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda *args, **options: None)
    with pytest.raises(ToolchainError) as caught:
        build.find_ninja()
    assert str(caught.value) == "ninja is not installed — install it: pip install ninja"


def test_ninja_that_stops_for_its_own_reason(tree, kit):
    path = tree.program(text=fake_cuda.source())
    project, nvcc = tree.load(), toolchain.find_nvcc()
    path.unlink()
    with pytest.raises(ToolchainError) as caught:
        build.make(project, ninjafile.targets(project.programs[0], "sm_90"), nvcc)
    assert str(caught.value) == (
        ".evidence/build/build.ninja:1: ninja stopped: 'kernels/001-add/add.cu', needed by "
        "'.evidence/build/sm_90/001-add/add', missing and no known rule to make it"
        " — remove .evidence/build and build again"
    )


def test_paths_with_blanks_and_dollars(tmp_path, tree, kit):
    tree.root = tree.root.rename(tmp_path / "my $project: x")
    tree.program("001 $add: x", text=fake_cuda.source("echo hello"))
    good, done, findings = make(tree)
    assert (good, findings) == (True, [])
    make(tree)
    assert len(kit.calls()) == 1
    assert subprocess.check_output([tree.root / done[0].target.output]) == b"hello\n"


def test_a_file_is_written_only_if_it_changes(tmp_path):
    path = tmp_path / "folder" / "x.ninja"
    assert ninjafile.write_if_changed(path, "one\n")
    os.utime(path, (1, 1))
    assert not ninjafile.write_if_changed(path, "one\n")
    assert path.stat().st_mtime == 1
    assert ninjafile.write_if_changed(path, "two\n")
    assert path.read_text() == "two\n"


def run_cli(tree, capsys, *words) -> tuple[int, list[str]]:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--project", str(tree.root), *words])
    said = capsys.readouterr()
    return caught.value.code, (said.out + said.err).splitlines()


def test_the_command(tree, kit, capsys):
    tree.program(text=fake_cuda.source("echo fine"))
    status, said = run_cli(tree, capsys, "build", "--arch", "90")
    assert status == 0
    assert said == [
        "compiling: 1",
        "[1/1] 001-add/add sm_90",
        "1 programs for sm_90 with nvcc 13.0.88",
    ]


def test_the_command_when_a_program_does_not_compile(tree, kit, capsys):
    tree.program(text=fake_cuda.source("#pragma error broken"))
    tree.write("kernels/002-mul/mul.cu", "no header\n")
    status, said = run_cli(tree, capsys, "build", "--arch", "90", "-j", "1")
    assert status == 1
    assert said[2:] == [
        "kernels/001-add/add.cu:3: compile-error: broken — mend it, then run: evidence build 001-add/add",
        "kernels/002-mul/mul.cu:1: bad-source: the header has no Build: line"
        " — add one, e.g. // Build: nvcc -O3 -arch=native -o mul mul.cu",
        "1 programs for sm_90 with nvcc 13.0.88, 2 problems",
    ]


def test_the_command_with_mutants(tree, kit, capsys):
    tree.write(
        "kernels/001-add/evidence.toml",
        """\
[[add.mutant]]
name = "wrong"
find = "echo right"
replace = "echo wrong"
[[add.mutant]]
name = "broken"
find = "#pragma sh echo right"
replace = "#pragma error no"
[[add.mutant]]
name = "nowhere"
find = "not there"
replace = "x"
""",
    )
    tree.program(text=fake_cuda.source("echo right"))
    status, said = run_cli(tree, capsys, "build", "--arch", "90", "--mutants")
    assert status == 1
    assert said[4:] == [
        "kernels/001-add/add.cu:1: mutant-misses: mutant nowhere: its find text stands 0 times in"
        " the source, not once — correct find in evidence.toml",
        "kernels/001-add/add.cu:3: mutant-broken: mutant broken does not compile: no"
        " — mend it, then run: evidence build 001-add/add",
        "1 programs for sm_90 with nvcc 13.0.88, 2 problems",
    ]


def test_a_project_without_programs(tree, kit, capsys):
    status, said = run_cli(tree, capsys, "build")
    assert (status, said) == (2, ["evidence: there is no program to compile — see: evidence list"])


REAL = """\
// Build: nvcc -O3 -std=c++17 -arch=native -o add add.cu
// Run: ./add
#include <cstdio>
#include "sum.cuh"

__global__ void addKernel(float *x, int n) {
    float kept[64];
    for (int i = 0; i < n; ++i) {
        kept[(i * 7) % 64] = sum(x[i], x[i + 1]);
    }
    x[0] = kept[n % 64];
}

int main() {
    std::printf("built from %s\\n", __FILE__);
    return 0;
}
"""


@pytest.mark.nvcc
def test_a_real_compiler(tree, monkeypatch):
    try:
        toolchain.find_nvcc()
    except ToolchainError as error:
        pytest.skip(error.message)
    header = tree.write(
        "kernels/001-add/sum.cuh",
        "__device__ inline float sum(float a, float b) { return a + b; }\n",
    )
    path = tree.program(text=REAL)
    good, done, findings = make(tree)
    assert (good, findings) == (True, [])
    document = done[0].document()
    assert document["kernels"]["addKernel"]["stack"] == 256
    assert document["kernels"]["addKernel"]["registers"] > 0
    assert (document["output"], document["warnings"]) == ([], [])
    assert sorted(done[0].files) == ["add.cu", "sum.cuh"]
    assert subprocess.check_output([tree.root / done[0].target.output]) == b"built from add.cu\n"
    header.write_text("__device__ inline float sum(float a, float) { int unused; return a; }\n")
    touch(header)
    _, _, findings = make(tree)
    assert findings == [
        'kernels/001-add/sum.cuh:1: compile-error: variable "unused" was declared but never referenced'
        " — mend it, then run: evidence build 001-add/add"
    ]
    path.write_text(REAL.replace("x[0] =", "y[0] ="))
    touch(path)
    header.write_text("__device__ inline float sum(float a, float b) { return a + b; }\n")
    _, _, findings = make(tree)
    assert findings == [
        'kernels/001-add/add.cu:11: compile-error: identifier "y" is undefined'
        " — mend it, then run: evidence build 001-add/add"
    ]

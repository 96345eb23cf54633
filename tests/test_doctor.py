"""What this machine can do, tried rather than assumed."""

import json
import re

import pytest

import fake_cuda
from evidence import cli, doctor, toolchain
from evidence.config import Config
from evidence.errors import ToolchainError

ONE = "#!/bin/sh\necho no error\n"
# A compiler that makes `one`, whatever it is given; it prints no depfile.
NVCC = """\
#!/bin/sh
case "$1" in --version) echo V13.0.88; exit;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
cat >$out <<'END'
#!/bin/sh
echo no error
exit {status}
# launch: one 1 gpu__time_duration.sum=12
END
chmod +x $out
"""


class NoGpu:
    def query(self):
        raise ToolchainError("no NVIDIA GPU: neither finds one", fix="buy one")


@pytest.fixture
def kit(tmp_path):
    made = fake_cuda.install(tmp_path / "cuda")
    made.script("nvcc", NVCC.replace("{status}", "0"))
    return made


def examine(tmp_path, kit, gpu=None, **options):
    rows = doctor.examine(Config(tmp_path), gpu or fake_cuda.Gpu(), environ=kit.environ, **options)
    return {row.name: row for row in rows}


def test_a_machine_that_can_do_everything(tmp_path, kit):
    rows = examine(tmp_path, kit)
    assert rows["nvcc"].found == f"13.0.88 at {kit.home}/bin/nvcc (from CUDA_HOME)"
    assert rows["GPU"].found == "NVIDIA H200 (label h200), sm_90, 132 SMs, 143771 MiB, driver 580.1"
    assert (rows["a program runs"].state, rows["a program runs"].found) == (
        "ok",
        "compiled and run",
    )
    assert rows["compute-sanitizer"].found.endswith("; it works")
    assert rows["ncu"].found.endswith("; its counters work")
    assert doctor.able(list(rows.values())) == {"check": True, "build": True, "record": True}


def test_a_machine_without_anything(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain.sys, "path", [])
    rows = examine(tmp_path, fake_cuda.Toolkit(tmp_path / "nothing"), NoGpu())
    assert rows["nvcc"].state == "missing"
    assert rows["nvcc"].fix == "install one: pip install '.[cuda]', or set CUDA_HOME"
    assert (rows["GPU"].found, rows["GPU"].fix) == ("no NVIDIA GPU: neither finds one", "buy one")
    assert (rows["ncu"].state, rows["ncu"].found) == ("warning", "not found")
    assert rows["CUDA_HOME"].found == f"{tmp_path}/nothing has no bin/nvcc, so it was passed over"
    assert "a program runs" not in rows
    assert doctor.able(list(rows.values())) == {"check": True, "build": False, "record": False}


def test_a_machine_with_and_without_a_sandbox(tmp_path, kit, monkeypatch):
    row = examine(tmp_path, kit, NoGpu())["sandbox"]
    if row.state == "ok":
        assert re.fullmatch(r"bubblewrap [\d.]+; record --untrusted works", row.found)
    monkeypatch.setenv("PATH", "/nowhere")
    row = examine(tmp_path, kit, NoGpu())["sandbox"]
    assert (row.state, row.found, row.fix) == (
        "warning", "no sandbox on this machine: bwrap is not installed",
        "install it: apt-get install bubblewrap",
    )  # fmt: skip


def test_another_compiler_than_the_pin(tmp_path):
    kit = fake_cuda.install(tmp_path / "cuda", version="12.9.1")
    row = examine(tmp_path, kit, NoGpu())["nvcc"]
    assert row.state == "warning"
    assert row.found == f"12.9.1 at {kit.home}/bin/nvcc (from CUDA_HOME); the pin is 13.0"


def test_a_gpu_on_which_nothing_runs(tmp_path, kit):
    kit.script("nvcc", NVCC.replace("{status}", "1").replace("no error", "driver too old"))
    rows = examine(tmp_path, kit)
    assert (rows["a program runs"].state, rows["a program runs"].found) == (
        "missing",
        "driver too old",
    )
    assert not doctor.able(list(rows.values()))["record"]


def test_counters_that_are_not_allowed(tmp_path, kit):
    text = '#!/bin/sh\n[ "$1" = --version ] && { echo 2025.3.1; exit; }\necho "==ERROR== ERR_NVGPUCTRPERM - no permission" >profile.csv\nexit 1\n'
    kit.script("ncu", text)
    row = examine(tmp_path, kit)["ncu"]
    assert row.state == "warning"
    assert row.found == f"2025.3.1 at {kit.home}/bin/ncu; ERR_NVGPUCTRPERM - no permission"
    assert row.fix == "as root, or with NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module"


def test_a_sanitizer_that_does_not_know_the_device(tmp_path, kit):
    kit.script(
        "compute-sanitizer", "#!/bin/sh\necho '========= Error: Device not supported'\nexit 1\n"
    )
    row = examine(tmp_path, kit)["compute-sanitizer"]
    assert (row.state, row.fix) == ("warning", "record on a machine where it works")
    assert row.found.endswith("; Device not supported")


def test_only_looking(tmp_path, kit):
    rows = examine(tmp_path, kit, try_tools=False)
    assert "a program runs" not in rows
    assert rows["ncu"].found.endswith("; its counters were not tried")
    assert rows["compute-sanitizer"].found.endswith("; not tried")


def test_the_command(tree, kit, monkeypatch, capsys):
    for name, value in kit.environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as caught:
        cli.main(["--project", str(tree.root), "doctor", "--no-try"])
    said = capsys.readouterr().out.splitlines()
    assert caught.value.code == 0
    assert said[1].split() == [
        "nvcc",
        "ok",
        "13.0.88",
        "at",
        f"{kit.home}/bin/nvcc",
        "(from",
        "CUDA_HOME)",
    ]
    assert said[-3] == "evidence check: works here"


def test_the_command_as_json(tree, kit, monkeypatch, capsys):
    for name, value in kit.environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        cli.main(["--project", str(tree.root), "doctor", "--no-try", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["able"]["check"] is True
    assert document["rows"][1]["name"] == "nvcc"
    assert set(document["rows"][0]) == {"name", "state", "found", "fix"}

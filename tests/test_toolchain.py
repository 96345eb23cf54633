"""Finding the compiler and the tools: CUDA_HOME, then PATH, then the wheels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fake_cuda
from evidence import toolchain
from evidence.errors import ToolchainError


def nvcc(folder: Path, version: str) -> Path:
    path = folder / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'release {version[:4]}, V{version}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def three(tmp_path):
    """A compiler in each of the three places."""
    home = nvcc(tmp_path / "home", "13.0.1").parent.parent
    path = nvcc(tmp_path / "path", "13.0.2").parent
    nvcc(tmp_path / "site" / "nvidia" / "cu13", "13.0.3")
    return str(home), f"{path}:/usr/bin:/bin", [str(tmp_path / "site")]


def test_cuda_home_comes_first(three):
    home, path, site = three
    found = toolchain.find_nvcc({"CUDA_HOME": home, "PATH": path}, site)
    assert (found.version, found.source, found.path) == (
        "13.0.1",
        "CUDA_HOME",
        Path(home) / "bin/nvcc",
    )


def test_path_comes_second(three):
    _, path, site = three
    assert toolchain.find_nvcc({"PATH": path}, site).source == "PATH"


def test_the_wheels_come_last(three):
    _, _, site = three
    found = toolchain.find_nvcc({"PATH": "/usr/bin:/bin"}, site)
    assert (found.version, found.source) == ("13.0.3", "wheel")


def test_a_cuda_home_without_a_compiler_is_passed_over(three, tmp_path):
    _, path, site = three
    assert toolchain.find_nvcc({"CUDA_HOME": str(tmp_path), "PATH": path}, site).version == "13.0.2"


def test_of_several_wheels_the_newest(tmp_path):
    nvcc(tmp_path / "nvidia" / "cu12", "12.9.1")
    nvcc(tmp_path / "nvidia" / "cu13", "13.0.3")
    found = toolchain.find_nvcc({"PATH": "/usr/bin"}, [str(tmp_path)])
    assert found.version == "13.0.3"


def test_no_compiler_anywhere():
    with pytest.raises(ToolchainError) as caught:
        toolchain.find_nvcc({"PATH": "/nowhere"}, [])
    assert str(caught.value) == (
        "no CUDA compiler: nvcc is in none of CUDA_HOME (not set), PATH and the nvidia wheels"
        " — install one: pip install '.[cuda]', or set CUDA_HOME"
    )


def test_a_compiler_that_does_not_run(tmp_path):
    path = tmp_path / "bin" / "nvcc"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    with pytest.raises(ToolchainError) as caught:
        toolchain.find_nvcc({"CUDA_HOME": str(tmp_path), "PATH": ""}, [])
    assert str(caught.value) == (
        f"{path} (from CUDA_HOME) does not say its version — repair or remove it"
    )


def test_the_wheels_need_an_explicit_library_path(tmp_path):
    nvcc(tmp_path / "nvidia" / "cu13", "13.0.3")
    lib = tmp_path / "nvidia" / "cu13" / "lib"
    lib.mkdir()
    (lib / "libcudart_static.a").touch()
    assert toolchain.find_nvcc({"PATH": ""}, [str(tmp_path)]).link == (f"-L{lib}",)


def test_a_toolkit_with_lib64_needs_none(tmp_path):
    nvcc(tmp_path, "13.0.3")
    for name in ("lib", "lib64"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libcudart_static.a").touch()
    assert toolchain.find_nvcc({"CUDA_HOME": str(tmp_path), "PATH": ""}, []).link == ()


def test_flags_that_no_build_line_shows_are_dropped():
    env = toolchain.build_environment(
        {
            "PATH": "/bin",
            "NVCC_APPEND_FLAGS": "-G",
            "NVCC_PREPEND_FLAGS": "-g",
            "NVCC_CCBIN": "clang",
        }
    )
    assert env == {"PATH": "/bin", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb"}


def test_tools_are_found_on_path_in_cuda_home_and_among_the_wheels(tmp_path):
    kit = fake_cuda.install(tmp_path / "cuda")
    wheel = tmp_path / "site" / "nvidia" / "cu13" / "bin" / "cuobjdump"
    wheel.parent.mkdir(parents=True)
    wheel.write_text("#!/bin/sh\n")
    wheel.chmod(0o755)
    site = [str(tmp_path / "site")]
    found = toolchain.find_tool("compute-sanitizer", None, {"PATH": str(kit.home / "bin")}, site)
    assert found == kit.home / "bin" / "compute-sanitizer"
    assert toolchain.find_tool("ncu", None, kit.environ, site) == kit.home / "bin" / "ncu"
    assert toolchain.find_tool("cuobjdump", None, {"PATH": ""}, site) == wheel
    assert toolchain.find_tool("nvdisasm", None, {"PATH": ""}, site) is None


def test_a_tool_says_its_version(tmp_path):
    kit = fake_cuda.install(tmp_path)
    assert toolchain.tool_version(kit.home / "bin" / "ncu") == "2025.3.1.0"
    assert toolchain.tool_version(Path("/no/such/tool")) == ""


@pytest.mark.parametrize(
    ("pin", "version", "holds"),
    [("13.0", "13.0.88", True), ("13.0", "13.0", True), ("13.0", "13.01.1", False), ("13.0", "12.9.1", False)],
)  # fmt: skip
def test_a_pin(pin, version, holds):
    assert toolchain.pin_holds(pin, version) is holds


def test_packages_that_a_python_program_names(monkeypatch):
    versions = {"torch": "2.11.0+cu130", "numpy": "2.1.0"}

    def version(name: str) -> str:
        if name not in versions:
            raise toolchain.importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(toolchain.importlib.metadata, "version", version)
    found, wrong = toolchain.package_versions(
        ["torch==2.11.0", "numpy == 2.0.0", "triton", "numpy"]
    )
    assert found == versions
    assert wrong == ["package numpy is 2.1.0, the pin is 2.0.0", "package triton is not installed"]


@pytest.mark.nvcc
def test_the_wheels_compile_and_link_a_program(tmp_path):
    """With CUDA_HOME unset and no nvcc on PATH, as on a machine without CUDA."""
    bare = {"PATH": "/usr/bin:/bin"}
    if not [s for s, _ in toolchain.candidates(bare, sys.path) if s == "wheel"]:
        pytest.skip("NVIDIA's compiler wheels are not installed: pip install '.[cuda]'")
    found = toolchain.find_nvcc(bare)
    assert found.source == "wheel"
    (tmp_path / "one.cu").write_text(
        '#include <cstdio>\n__global__ void one(int *x) { *x = 1; }\nint main() { one<<<1, 1>>>(nullptr); std::puts("linked"); }\n'
    )
    words = [str(found.path), "-arch=sm_90", "-o", "one", "one.cu", *found.link]
    done = subprocess.run(
        words, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(tmp_path / "one", os.X_OK)

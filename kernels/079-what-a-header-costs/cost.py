# SPDX-License-Identifier: MIT
#
# Day 79: what a header costs. One small kernel becomes a function of PyTorch in
# five ways. Row r of y is a recurrence of D = 24 numbers, in FP32:
#
#   y[r][j] = gate[r][j] * y[r][j - 1] + x[r][j]
#
#   load_inline   torch/extension.h in main.cpp, torch/types.h in cuda.cu, pybind11
#   library.h     load_inline without headers of its own: main.cpp includes
#                 torch/library.h, cuda.cu nothing; they share one declaration
#   stable        one file, nvcc alone, torch's headers of the stable interface
#   plain C       one file, nvcc alone, no header of torch's: a C function, loaded
#                 by ctypes and registered by torch.library
#   NVRTC         compiled in this process, no header at all; launched through the
#                 driver and registered by torch.library
#
# All of them launch on the caller's stream and report a launch that is refused.
# What the compilers read is counted in lines after the preprocessor, blank ones
# and its own left out, and counted first, so that all files are in the page
# cache when the clock starts. A build is timed once, from nothing to a function
# that can be called; the two fast ones several times more.
#
# The gate: the reference is in double precision on the CPU, and
#
#   |got - reference| <= 4 u sqrt(2 D) * (sum of the absolute terms)
#
# with u = 2^-24: no term goes through more than D multiplications and D sums.
# Not finite fails. And all five give the same bits.
#
# The time of a call is that of the host, which does not wait for the GPU: the
# mean over a batch of calls, the median of several batches.
#
# Written down before the run: 45 s, 25 s, 12 s, 2.5 s and 0.2 s to build, in
# this order. A call costs 6 us where C++ makes it, and 15 us where Python does.
#
# Run: python3 cost.py

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from cuda.bindings import driver, nvrtc
from torch import Tensor
from torch.utils import cpp_extension

ROWS = 1000  # no multiple of a block's threads
DIM = 24
UNIT = 2.0**-24
AGAIN = 5  # builds of the fast ones, odd: the median is one of them
CALLS = 500  # of a batch
BATCHES = 11
LIBRARIES: list[torch.library.Library] = []

Function = Callable[[Tensor, Tensor], Tensor]

# snippet: kernel
KERNEL = """
constexpr int kDim = 24;
constexpr int kThreads = 128;

extern "C" __global__ void rowDecay(const float *gate, const float *x, float *y,
                                    int rows)
{
    const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (r >= rows) {
        return;
    }
    float last = 0.0f;
    for (int j = 0; j < kDim; ++j) {
        last = fmaf(gate[r * kDim + j], last, x[r * kDim + j]);
        y[r * kDim + j] = last;
    }
}
"""
# end snippet

INLINE_CPP = "torch::Tensor decay(torch::Tensor gate, torch::Tensor x);"
INLINE_CUDA = f"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
{KERNEL}
torch::Tensor decay(torch::Tensor gate, torch::Tensor x)
{{
    torch::Tensor y = torch::empty_like(x);
    const int rows = static_cast<int>(x.size(0));
    rowDecay<<<(rows + kThreads - 1) / kThreads, kThreads, 0,
               c10::cuda::getCurrentCUDAStream()>>>(
        gate.data_ptr<float>(), x.data_ptr<float>(), y.data_ptr<float>(), rows);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}}
"""

LIBRARY_CPP = """
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

cudaError_t launch(const float *gate, const float *x, float *y, int rows,
                   cudaStream_t stream);

at::Tensor decay(const at::Tensor &gate, const at::Tensor &x)
{
    at::Tensor y = at::empty_like(x);
    C10_CUDA_CHECK(launch(gate.data_ptr<float>(), x.data_ptr<float>(),
                          y.data_ptr<float>(), static_cast<int>(x.size(0)),
                          c10::cuda::getCurrentCUDAStream()));
    return y;
}

TORCH_LIBRARY(course_library, m)
{
    m.def("decay(Tensor gate, Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(course_library, CUDA, m)
{
    m.impl("decay", &decay);
}
"""
# snippet: launch
LAUNCH = """
launch(const float *gate, const float *x, float *y, int rows, cudaStream_t stream)
{
    rowDecay<<<(rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
        gate, x, y, rows);
    return cudaGetLastError();
}
"""
# end snippet
LIBRARY_CUDA = f"{KERNEL}\ncudaError_t {LAUNCH}"

STABLE = f"""
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
{LIBRARY_CUDA}
using torch::stable::Tensor;

Tensor decay(const Tensor &gate, const Tensor &x)
{{
    Tensor y = torch::stable::empty_like(x);
    void *stream = nullptr;
    aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream);
    const cudaError_t error = launch(
        static_cast<const float *>(gate.data_ptr()),
        static_cast<const float *>(x.data_ptr()),
        static_cast<float *>(y.data_ptr()), static_cast<int>(x.size(0)),
        static_cast<cudaStream_t>(stream));
    STD_TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
    return y;
}}

STABLE_TORCH_LIBRARY(course_stable, m)
{{
    m.def("decay(Tensor gate, Tensor x) -> Tensor");
}}

STABLE_TORCH_LIBRARY_IMPL(course_stable, CUDA, m)
{{
    m.impl("decay", TORCH_BOX(&decay));
}}
"""

# snippet: plain-c
PLAIN = f'{KERNEL}\nextern "C" int {LAUNCH}'
# end snippet


# --- Builds ----------------------------------------------------------------------


def architecture() -> str:
    """Return the GPU's, as nvcc calls it."""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def headers() -> list[str]:
    """Return the flags with which torch's headers are found."""
    places = [*cpp_extension.include_paths("cuda"), sysconfig.get_path("include")]
    return [*(f"-I{place}" for place in places), "-DTORCH_EXTENSION_NAME=decay", "-DUSE_CUDA"]


def shared(folder: str, source: str, *flags: str) -> str:
    """Compile one file into a library by nvcc alone; return its path."""
    Path(folder, "decay.cu").write_text(source)
    words = ["nvcc", "-O3", "-std=c++17", f"-arch={architecture()}", "-Xcompiler=-fPIC", *flags]
    subprocess.run(
        [*words, "-shared", "-o", f"{folder}/decay.so", f"{folder}/decay.cu"], check=True
    )
    return f"{folder}/decay.so"


def by_load_inline(folder: str) -> Function:
    """Build as the documentation shows it."""
    made = cpp_extension.load_inline(
        name="decay",
        cpp_sources=INLINE_CPP,
        cuda_sources=INLINE_CUDA,
        functions=["decay"],
        build_directory=folder,
    )
    return made.decay


def by_library(folder: str) -> Function:
    """Build with load_inline, but with headers of one's own choice."""
    cpp_extension.load_inline(
        name="library",
        cpp_sources=LIBRARY_CPP,
        cuda_sources=LIBRARY_CUDA,
        no_implicit_headers=True,
        is_python_module=False,
        build_directory=folder,
    )
    return torch.ops.course_library.decay.default


def by_stable(folder: str) -> Function:
    """Build with the headers of the stable interface; link with torch's libraries."""
    places = (f"-L{place}" for place in cpp_extension.library_paths())
    links = (*places, "-ltorch_cpu", "-ltorch_cuda")
    torch.ops.load_library(shared(folder, STABLE, *headers(), *links))
    return torch.ops.course_stable.decay.default


def registered(decay: Function) -> Function:
    """Make an operator of PyTorch's out of a function; each build gets one of its own."""
    name = f"course_{len(LIBRARIES)}"
    library = torch.library.Library(name, "DEF")
    library.define("decay(Tensor gate, Tensor x) -> Tensor")
    library.impl("decay", decay, "CUDA")
    LIBRARIES.append(library)  # an operator lives as long as its library
    return getattr(torch.ops, name).decay.default


# snippet: plain-python
def by_plain_c(folder: str) -> Function:
    """Build a C function, load it, and register what calls it."""
    launch = ctypes.CDLL(shared(folder, PLAIN)).launch
    launch.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int, ctypes.c_void_p]

    def decay(gate: Tensor, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        stream = torch.cuda.current_stream(x.device).cuda_stream
        error = launch(gate.data_ptr(), x.data_ptr(), y.data_ptr(), x.shape[0], stream)
        if error:
            raise RuntimeError(f"decay: the launch failed: {error}")
        return y

    return registered(decay)


# end snippet


def good(answer: tuple) -> object:
    """Return what a call of the driver or of NVRTC returned, unless it is an error."""
    error, *rest = answer
    if int(error) != 0:
        raise RuntimeError(f"decay: {error.name}")
    return rest[0] if rest else None


# snippet: nvrtc
def by_nvrtc(_: str) -> Function:
    """Compile in this process, into memory."""
    program = good(nvrtc.nvrtcCreateProgram(KERNEL.encode(), b"decay.cu", 0, [], []))
    good(nvrtc.nvrtcCompileProgram(program, 1, [f"-arch={architecture()}".encode()]))
    cubin = b" " * good(nvrtc.nvrtcGetCUBINSize(program))
    good(nvrtc.nvrtcGetCUBIN(program, cubin))
    module = good(driver.cuModuleLoadData(cubin))
    kernel = good(driver.cuModuleGetFunction(module, b"rowDecay"))
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)

    def decay(gate: Tensor, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        stream = torch.cuda.current_stream(x.device).cuda_stream
        values = (gate.data_ptr(), x.data_ptr(), y.data_ptr(), x.shape[0])
        blocks = (x.shape[0] + 127) // 128
        good(driver.cuLaunchKernel(kernel, blocks, 1, 1, 128, 1, 1, 0, stream, (values, types), 0))
        return y

    return registered(decay)


# end snippet


# --- What the compilers read -----------------------------------------------------


def lines_of(compiler: list[str], source: str, suffix: str) -> int:
    """Count the lines that come out of the preprocessor; blank ones do not count."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"source{suffix}")
        path.write_text(source)
        done = subprocess.run(
            [*compiler, "-E", "-std=c++17", *headers(), str(path)],
            check=True,
            capture_output=True,
            text=True,
        )
    lines = (line.strip() for line in done.stdout.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def count_all(paths: list[str]) -> dict[str, tuple[int, int]]:
    """Count what g++ and nvcc read for each path."""
    inline_cuda = "#include <torch/types.h>\n#include <cuda.h>\n" + INLINE_CUDA
    sources = {
        "load_inline": ("#include <torch/extension.h>\n" + INLINE_CPP, inline_cuda),
        "library.h": (LIBRARY_CPP, LIBRARY_CUDA),
        "stable": ("", STABLE),
        "plain C": ("", PLAIN),
    }
    counts = {"NVRTC": (0, sum(1 for line in KERNEL.splitlines() if line.strip()))}
    for path, (cpp, cuda) in sources.items():
        if path in paths:
            by_gcc = lines_of(["g++"], cpp, ".cpp") if cpp else 0
            counts[path] = (by_gcc, lines_of(["nvcc"], cuda, ".cu"))
    return counts


# --- Judging and timing ------------------------------------------------------------


def make_inputs() -> tuple[Tensor, Tensor]:
    """Return gates from 0 to 1 and numbers of both signs, on the CPU."""
    i = torch.arange(ROWS * DIM, dtype=torch.float64).reshape(ROWS, DIM)
    return ((7919 * i % 10007) / 10007).float(), ((2579 * i % 10007) / 10007 - 0.5).float()


def reference(gate: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute y and what it may be off by, in double precision."""
    gate, x = gate.double(), x.double()
    y, size = [x[:, 0]], [x[:, 0].abs()]
    for j in range(1, DIM):
        y.append(gate[:, j] * y[-1] + x[:, j])
        size.append(gate[:, j] * size[-1] + x[:, j].abs())
    return torch.stack(y, 1), 4.0 * UNIT * (2.0 * DIM) ** 0.5 * torch.stack(size, 1)


def worst_of(got: Tensor, judge: tuple[Tensor, Tensor]) -> float:
    """Return the worst error as a fraction of what is allowed."""
    want, allowed = judge
    error = (got.double().cpu() - want).abs() / allowed
    return float(torch.where(error.isfinite(), error, torch.inf).max())


def timed(build: Callable[[str], Function]) -> tuple[float, Function]:
    """Build from nothing; return the seconds and the function."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        function = build(folder)
        return time.perf_counter() - start, function


def call_time(function: Function, gate: Tensor, x: Tensor) -> float:
    """Return the host's microseconds for one call."""
    batches = []
    for batch in range(-1, BATCHES):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            function(gate, x)
        if batch >= 0:
            batches.append((time.perf_counter() - start) / CALLS * 1e6)
    return statistics.median(batches)


WAYS = {
    "load_inline": by_load_inline,
    "library.h": by_library,
    "stable": by_stable,
    "plain C": by_plain_c,
    "NVRTC": by_nvrtc,
}
FAST = ("plain C", "NVRTC")


def main() -> int:
    """Count, build, judge, time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="the two fast ones")
    quick = parser.parse_args().quick
    paths = list(FAST if quick else WAYS)
    major, minor = torch.cuda.get_device_capability()
    os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}"
    print(f"GPU: {torch.cuda.get_device_name()} (compute capability {major}.{minor})")
    print(f"  CPU cores   {len(os.sched_getaffinity(0))}")

    gate, x = make_inputs()
    judge = reference(gate, x)
    d_gate, d_x = gate.cuda(), x.cuda()
    counts = count_all(paths)
    print("\nlines: after the preprocessor")
    print("  path            g++    nvcc")
    for path in paths:
        print(f"  {path:11s}  {counts[path][0]:6d}  {counts[path][1]:6d}")

    built = {path: timed(WAYS[path]) for path in paths}
    results = {path: function(d_gate, d_x) for path, (_, function) in built.items()}
    torch.cuda.synchronize()
    zeros = worst_of(torch.zeros_like(x), judge)
    print("\ngate: worst error as a fraction of what is allowed; bits against plain C")
    print("  path         outputs  gate frac  other bits")
    passed = 0
    for path, y in results.items():
        frac = worst_of(y, judge)
        other = int((y.view(torch.int32) != results["plain C"].view(torch.int32)).sum())
        print(f"  {path:11s}  {y.numel():7d}  {frac:9.4f}  {other:10d}")
        passed += frac <= 1.0 and other == 0 and zeros > 1.0
    print(f"\n  all zeros   {zeros:.0f}")

    print("\nbuild: from nothing to a function that can be called, once")
    print("  path         time (s)")
    for path, (seconds, _) in built.items():
        print(f"  {path:11s}  {seconds:8.3f}")
    if not quick:
        print(f"\nagain: {AGAIN} more builds in the same process")
        print("  path         time (s)  min (s)  max (s)")
        for path in FAST:
            more = sorted(timed(WAYS[path])[0] for _ in range(AGAIN))
            middle = statistics.median(more)
            print(f"  {path:11s}  {middle:8.3f}  {more[0]:7.3f}  {more[-1]:7.3f}")
        print(f"\ncall: the host's part, {CALLS} calls in a batch, median of {BATCHES} batches")
        print("  path         time (us)")
        for path, (_, function) in built.items():
            print(f"  {path:11s}  {call_time(function, d_gate, d_x):9.2f}")

    if passed != len(paths):
        print(f"{len(paths) - passed} of {len(paths)} paths are wrong", file=sys.stderr)
        return 1
    print(f"\nall {passed} cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())

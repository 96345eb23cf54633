# SPDX-License-Identifier: MIT
#
# Day 78: the two strings that PyTorch's load_inline builds, and what it makes
# of them. The C++ string declares the function; the CUDA string is a list of
# two, of which the second uses the first one's kernel and macro. The macro is
# day 20's, with the kernel's arguments in their place.
#
# y is a recurrence along each row, on small whole numbers:
#
#   y[r][j] = gate[r][j] * y[r][j - 1] + x[r][j]
#
# FP32 has no rounding to do, so y has to be the reference's, which is computed
# in double precision on the CPU, in every number. All numbers of the files that
# are printed are counted in the files themselves.
#
# Written down before the run: two files and two compilers, of which nvcc has
# the longer part; 40 s on 16 cores.
#
# Run: python3 loaded.py

import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.cpp_extension import load_inline

ROWS = 1000  # no multiple of a block's threads
DIMS = (16, 24)
UNKNOWN = 25  # no template for it

# snippet: loaded
CPP = "torch::Tensor decay(torch::Tensor gate, torch::Tensor x);"

KERNEL = """
template <int kD>
__global__ void rowDecay(const float *gate, const float *x, float *y, int rows)
{
    const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    float last = 0.0f;
    for (int j = 0; r < rows && j < kD; ++j) {
        last = fmaf(gate[r * kD + j], last, x[r * kD + j]);
        y[r * kD + j] = last;
    }
}

#define LAUNCH_IF(kD, dim, blocks, ...)            \\
    if (dim == kD) {                               \\
        rowDecay<kD><<<blocks, 128>>>(__VA_ARGS__); \\
        return y;                                  \\
    }
"""

LAUNCH = """
torch::Tensor decay(torch::Tensor gate, torch::Tensor x)
{
    const int rows = static_cast<int>(x.size(0));
    const int dim = static_cast<int>(x.size(1));
    torch::Tensor y = torch::empty_like(x);
    LAUNCH_IF(16, dim, (rows + 127) / 128, gate.data_ptr<float>(),
              x.data_ptr<float>(), y.data_ptr<float>(), rows)
    LAUNCH_IF(24, dim, (rows + 127) / 128, gate.data_ptr<float>(),
              x.data_ptr<float>(), y.data_ptr<float>(), rows)
    return {};  // None, in Python: there is no kernel for this D
}
"""


def build(folder: str) -> object:
    """Let load_inline build it."""
    return load_inline(
        name="loaded",
        cpp_sources=CPP,
        cuda_sources=[KERNEL, LAUNCH],
        functions=["decay"],
        build_directory=folder,
    )


# end snippet


def reference(gate: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Compute y in double precision, column by column."""
    columns = [x[:, 0]]
    for j in range(1, x.shape[1]):
        columns.append(gate[:, j] * columns[-1] + x[:, j])
    return torch.stack(columns, dim=1)


def judge(module: object, dim: int) -> int:
    """Compare every number for one D; return how many are wrong."""
    i = torch.arange(ROWS * dim, dtype=torch.float64).reshape(ROWS, dim)
    gate = (7 * i % 5) - 2  # -2 to 2: whole, and small
    x = (11 * i % 17) - 8
    want = reference(gate, x)
    y = module.decay(gate.float().cuda(), x.float().cuda()).cpu().double()
    wrong = int((y != want).sum())
    print(f"  D = {dim}  {want.numel():7d}  {wrong:5d}  {int(want.abs().max()):7d}")
    return wrong


def show_files(folder: str) -> bool:
    """Print what load_inline wrote, and for whom; return whether all is there."""
    rules = {"compile": "g++", "cuda_compile": "nvcc"}
    ninja = Path(folder, "build.ninja").read_text().splitlines()
    by = {}
    for line in ninja:
        if line.startswith("build ") and ": " in line:
            rule, *sources = line.split(": ", 1)[1].split()
            by.update({Path(s).name: rules[rule] for s in sources if rule in rules})
    print("\nfiles: what load_inline wrote")
    print("  file      lines  compiler")
    for name in ("main.cpp", "cuda.cu"):
        lines = Path(folder, name).read_text().count("\n") + 1
        print(f"  {name:8s}  {lines:5d}  {by.get(name, 'nobody')}")
    print("\nmain.cpp: all of it")
    for line in Path(folder, "main.cpp").read_text().splitlines():
        print(f"  {line}")
    return by == {"main.cpp": "g++", "cuda.cu": "nvcc"}


def main() -> int:
    """Build, look, judge."""
    major, minor = torch.cuda.get_device_capability()
    os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}"
    print(f"GPU: {torch.cuda.get_device_name()} (compute capability {major}.{minor})")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        module = build(folder)
        seconds = time.perf_counter() - start
        print(f"\nbuild: torch {torch.__version__}")
        print(f"  seconds   {seconds:.1f} s   (both compilers at once, and the linker)")
        apart = show_files(folder)
    print("\ngate: every number is the reference's")
    print("  case    numbers  wrong  largest")
    wrong = sum(judge(module, dim) for dim in DIMS)
    odd = torch.ones(1, UNKNOWN, device="cuda")
    refused = module.decay(odd, odd) is None
    print(f"\nno kernel: D = {UNKNOWN}")
    print(f"  refused   {int(refused)}")
    if wrong or not apart or not refused:
        print(
            f"{wrong} numbers are wrong, or a file or a D is not as it should be", file=sys.stderr
        )
        return 1
    print(f"\nall {len(DIMS)} cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())

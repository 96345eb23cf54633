# SPDX-License-Identifier: MIT
#
# Day 78: what load_inline does, in small and without PyTorch. Two strings come
# in. The C++ one becomes main.cpp, with bindings for the functions that are
# asked for, and g++ compiles it. The CUDA one becomes cuda.cu, and nvcc compiles
# it. Then both are linked into one library, and the library is loaded.
#
# The other programs of this day hand it strings that do not fit together. This
# one hands it two that do: row r of y is a recurrence of D numbers,
#
#   y[r][j] = gate[r][j] * y[r][j - 1] + x[r][j]
#
# on small whole numbers, so that FP32 has no rounding to do and the CPU's y is
# the only one that is right.
#
# Written down before the run: none of the numbers is wrong, and of four more
# pairs of strings two fail at g++, one at nvcc and one when the library is loaded.
#
# Run: python3 inline.py

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS = 1000  # no multiple of a block's threads
DIM = 24
THREADS = 128
UNWRITTEN = -12345.0  # an answer that no row has

CPP = """
int decay(const float *gate, const float *x, float *y, int rows);
"""

CUDA = """
constexpr int kDim = 24;
constexpr int kThreads = 128;

// Thread r walks along row r.
template <int kD>
__global__ void rowDecay(const float *gate, const float *x, float *y, int rows)
{
    const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (r >= rows) {
        return;
    }
    float last = 0.0f;
    for (int j = 0; j < kD; ++j) {
        last = fmaf(gate[r * kD + j], last, x[r * kD + j]);
        y[r * kD + j] = last;
    }
}

int decay(const float *gate, const float *x, float *y, int rows)
{
    const size_t bytes = sizeof(float) * kDim * rows;
    float *d_gate = nullptr;
    float *d_x = nullptr;
    float *d_y = nullptr;
    cudaMalloc(&d_gate, bytes);
    cudaMalloc(&d_x, bytes);
    cudaMalloc(&d_y, bytes);
    cudaMemcpy(d_gate, gate, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(d_x, x, bytes, cudaMemcpyHostToDevice);
    rowDecay<kDim><<<(rows + kThreads - 1) / kThreads, kThreads>>>(
        d_gate, d_x, d_y, rows);
    cudaMemcpy(y, d_y, bytes, cudaMemcpyDeviceToHost);
    cudaFree(d_gate);
    cudaFree(d_x);
    cudaFree(d_y);
    return cudaGetLastError();
}
"""


class BuildError(Exception):
    """What a compiler, the linker or the loader said."""


def run(command: list[str], folder: str) -> None:
    """Run a compiler, or raise what it said."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError((done.stderr + done.stdout).strip())


# snippet: halves
def write_halves(folder: str, cpp: str, cuda: str, functions: list[str]) -> None:
    """Write the two files that the two compilers will see."""
    bindings = "".join(f"void *bound_{name} = (void *)&{name};\n" for name in functions)
    Path(folder, "main.cpp").write_text(f'{cpp}extern "C" {{\n{bindings}}}\n')
    Path(folder, "cuda.cu").write_text(cuda)


def build(folder: str, cpp: str, cuda: str, functions: list[str]) -> ctypes.CDLL:
    """Compile main.cpp and cuda.cu apart, link and load them."""
    write_halves(folder, cpp, cuda, functions)
    flags = ["-O3", "-c"]
    run(["g++", *flags, "-fPIC", "main.cpp", "-o", "main.o"], folder)
    run(["nvcc", *flags, "-arch=native", "-Xcompiler=-fPIC", "cuda.cu", "-o", "cuda.o"], folder)
    run(["nvcc", "-shared", "main.o", "cuda.o", "-o", "library.so"], folder)
    try:
        return ctypes.CDLL(f"{folder}/library.so")
    except OSError as error:
        raise BuildError(str(error).replace(f"{folder}/", "")) from None


# end snippet


def bound(library: ctypes.CDLL, name: str, *types: type) -> object:
    """Return a function that is bound in a library and returns an int."""
    address = ctypes.c_void_p.in_dll(library, f"bound_{name}").value
    return ctypes.CFUNCTYPE(ctypes.c_int, *types)(address)


def must_fail(cpp: str, cuda: str, functions: list[str]) -> int:
    """Build what does not build; print what is said, return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            build(folder, cpp, cuda, functions)
        except BuildError as error:
            print(error, file=sys.stderr)
            return 1
    print("it builds, although it is here because it does not")
    return 0


def judge() -> int:
    """Build the two halves, run them, compare every number."""
    count = ROWS * DIM
    gate = [(7 * i % 5) - 2 for i in range(count)]  # -2 to 2: whole, and small
    x = [(11 * i % 17) - 8 for i in range(count)]
    want = []
    for i in range(count):
        want.append((gate[i] * want[-1] if i % DIM else 0) + x[i])
    floats = ctypes.c_float * count
    y = floats(*[UNWRITTEN] * count)
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder, CPP, CUDA, ["decay"])
        pointer = ctypes.POINTER(ctypes.c_float)
        decay = bound(library, "decay", *[pointer] * 3, ctypes.c_int)
        error = decay(floats(*gate), floats(*x), y, ROWS)
    wrong = sum(got != due for got, due in zip(y, want, strict=True))
    print("library: main.cpp by g++, cuda.cu by nvcc")
    print(f"  numbers   {count}")
    print(f"  largest   {max(map(abs, want))}")
    print(f"  wrong     {wrong}")
    print(f"  error     {error}   (cudaGetLastError after the launch)")
    if wrong or error or not any(want):
        print(f"{wrong} of {count} numbers are wrong", file=sys.stderr)
        return 1
    print("\nall 1 cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(judge())

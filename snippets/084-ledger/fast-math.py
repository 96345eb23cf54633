# SPDX-License-Identifier: MIT
#
# Ledger: does --use_fast_math change the founding kernel (day 84)? It has no
# division and no function that could be approximated. The kernel is compiled to
# PTX, NVIDIA's assembly for any GPU, with the flag and without. `.ftz` marks an
# instruction that takes results below 2^-126 for zero. Nothing is run; day 88
# compares results.
#
# The gate: both versions have as many multiplies and multiply-adds, and without
# the flag none is marked.
#
# Predicted: with the flag all of them are marked.
#
# Run: python3 fast-math.py

import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = """
extern "C" __global__ void recurrence(const float *__restrict__ q,
                                      const float *__restrict__ k,
                                      const float *__restrict__ v,
                                      const float *__restrict__ gate,
                                      float *__restrict__ y, int steps, int row)
{
    constexpr int kD = 24;
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = threadIdx.x;
    int at = blockIdx.x * steps * row + j;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();
    }
}
"""
# snippet: flags
FLAGS = {"without": [], "with": ["--use_fast_math"]}
# end snippet
ARITHMETIC = re.compile(r"\b(?:fma\.rn|mul(?:\.rn)?)(\.ftz)?\.f32\b")


def counts_of(words: list[str], folder: Path) -> tuple[int, int]:
    """Return how many multiplies and multiply-adds there are, and how many are marked."""
    file, out = folder / "kernel.cu", folder / "kernel.ptx"
    file.write_text(SOURCE, encoding="utf-8")
    command = ["nvcc", "-O3", *words, "-arch=compute_90", "-ptx", "-o", str(out), str(file)]
    subprocess.run(command, check=True)
    found = ARITHMETIC.findall(out.read_text(encoding="utf-8"))
    return len(found), sum(mark != "" for mark in found)


def main() -> int:
    """Count the instructions of both versions; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        found = {name: counts_of(words, Path(folder)) for name, words in FLAGS.items()}
    print("flag: instructions of the founding kernel, in PTX")
    print("  flag       multiplies   marked")
    for name, (count, marked) in found.items():
        print(f"  {name:9s}  {count:10d}   {marked:6d}")
    total, unmarked = found["without"]
    if total == 0 or unmarked != 0 or found["with"][0] != total:
        print("the versions cannot be compared", file=sys.stderr)
        return 1
    print("\nall 2 cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())

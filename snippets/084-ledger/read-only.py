# SPDX-License-Identifier: MIT
#
# Ledger: does `const float *__restrict__` make a kernel load through the
# read-only path? The founding kernel (day 84) is compiled to PTX, NVIDIA's
# assembly for any GPU: as it is, without `const`, without `__restrict__` and
# without either. `ld.global.nc` is a load that may take the path, and a plain
# `ld.global` one that may not. Nothing is run.
#
# The gate: each version loads q, k, v and the gate, all in one of the two ways.
#
# Predicted: with both words all loads take the path, and with neither or one
# of them none does, because the store of y might change what is loaded next.
#
# Run: python3 read-only.py

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
#pragma unroll 1
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
# snippet: versions
VERSIONS = {
    "const and restrict": SOURCE,
    "restrict alone": SOURCE.replace("const float *__restrict__", "float *__restrict__"),
    "const alone": SOURCE.replace("*__restrict__", "*"),
    "neither": SOURCE.replace("const float *__restrict__", "float *").replace("*__restrict__", "*"),
}
# end snippet
ARRAYS = 4  # q, k, v and the gate


def ptx_of(source: str, folder: Path) -> str:
    """Return what nvcc makes of a kernel."""
    file, out = folder / "kernel.cu", folder / "kernel.ptx"
    file.write_text(source, encoding="utf-8")
    command = ["nvcc", "-O3", "-arch=compute_90", "-ptx", "-o", str(out), str(file)]
    subprocess.run(command, check=True)
    return out.read_text(encoding="utf-8")


def main() -> int:
    """Count the loads of each version; return the exit status."""
    right = True
    print("loads: of the founding kernel, in PTX")
    print("  parameters            read-only   plain")
    with tempfile.TemporaryDirectory() as folder:
        for name, source in VERSIONS.items():
            ptx = ptx_of(source, Path(folder))
            read_only = len(re.findall(r"\bld\.global\.nc\.", ptx))
            plain = len(re.findall(r"\bld\.global\.", ptx)) - read_only
            print(f"  {name:20s}  {read_only:9d}  {plain:6d}")
            right = right and sorted((read_only, plain)) == [0, ARRAYS]
    if not right:
        print("a version does not load four arrays in one way", file=sys.stderr)
        return 1
    print("\nall 4 cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())

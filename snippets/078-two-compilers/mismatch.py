# SPDX-License-Identifier: MIT
#
# Day 78: a declaration that is not the definition's. Both compilers are content,
# and so is the linker, because a library may leave names to be found later. It
# is the loader that looks for a function of `long long`, and finds none.
#
# Run: python3 mismatch.py

import sys

from inline import must_fail

# snippet: mismatch
CPP = """
int decay(const float *gate, const float *x, float *y, long long rows);
"""
# end snippet

CUDA = """
__global__ void rowDecay(const float *gate, const float *x, float *y, int rows)
{
    const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    float last = 0.0f;
    for (int j = 0; r < rows && j < 24; ++j) {
        last = fmaf(gate[r * 24 + j], last, x[r * 24 + j]);
        y[r * 24 + j] = last;
    }
}

int decay(const float *gate, const float *x, float *y, int rows)
{
    rowDecay<<<(rows + 127) / 128, 128>>>(gate, x, y, rows);
    return cudaGetLastError();
}
"""

if __name__ == "__main__":
    sys.exit(must_fail(CPP, CUDA, ["decay"]))

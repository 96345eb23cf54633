# SPDX-License-Identifier: MIT
#
# Day 78: a macro of the CUDA string, used in the C++ string. They are two files,
# and neither includes the other.
#
# Run: python3 macro-apart.py

import sys

from inline import must_fail

# snippet: macro-apart
CPP = """
int launchDecay(const float *gate, const float *x, float *y, int rows);

int decay(const float *gate, const float *x, float *y, int count)
{
    return launchDecay(gate, x, y, count / DECAY_DIM);
}
"""

CUDA = """
#define DECAY_DIM 24

__global__ void rowDecay(const float *gate, const float *x, float *y, int rows)
{
    const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    float last = 0.0f;
    for (int j = 0; r < rows && j < DECAY_DIM; ++j) {
        last = fmaf(gate[r * DECAY_DIM + j], last, x[r * DECAY_DIM + j]);
        y[r * DECAY_DIM + j] = last;
    }
}
"""
# end snippet

CUDA += """
int launchDecay(const float *gate, const float *x, float *y, int rows)
{
    rowDecay<<<(rows + 127) / 128, 128>>>(gate, x, y, rows);
    return cudaGetLastError();
}
"""

if __name__ == "__main__":
    sys.exit(must_fail(CPP, CUDA, ["decay"]))

# SPDX-License-Identifier: MIT
#
# Day 78: a launch in the C++ string. `<<<` and `>>>` are nvcc's; g++ reads them
# as shifts and comparisons of something that is not there.
#
# Run: python3 launch-in-cpp.py

import sys

from inline import must_fail

# snippet: launch-in-cpp
CPP = """
void rowDecay(const float *gate, const float *x, float *y, int rows);

void decay(const float *gate, const float *x, float *y, int rows)
{
    rowDecay<<<(rows + 127) / 128, 128>>>(gate, x, y, rows);
}
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
"""

if __name__ == "__main__":
    sys.exit(must_fail(CPP, CUDA, ["decay"]))

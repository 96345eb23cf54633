# SPDX-License-Identifier: MIT
#
# Day 78: a macro that chooses the template for a D. It is in the right file, and
# g++ has nothing against its half. But all of __VA_ARGS__ goes between <<< and
# >>>, the kernel's own arguments as well, and a launch takes four at most there.
#
# Run: python3 dispatch.py

import sys

from inline import must_fail

CPP = """
int decay(const float *gate, const float *x, float *y, int rows, int dim);
"""

CUDA = """
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
"""

# snippet: dispatch
CUDA += """
#define DISPATCH_D(dim, kernel, ...)                    \\
    switch (dim) {                                      \\
    case 24: kernel<24><<<__VA_ARGS__>>>(); break;      \\
    }

int decay(const float *gate, const float *x, float *y, int rows, int dim)
{
    DISPATCH_D(dim, rowDecay, (rows + 127) / 128, 128, gate, x, y, rows)
    return cudaGetLastError();
}
"""
# end snippet

if __name__ == "__main__":
    sys.exit(must_fail(CPP, CUDA, ["decay"]))

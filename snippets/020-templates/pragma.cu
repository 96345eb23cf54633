// SPDX-License-Identifier: MIT
//
// Day 20: a macro that is to write an unrolled loop. In a macro with
// parameters, # stands for something else.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o pragma pragma.cu
// Run: ./pragma

#include <cuda_runtime.h>

// snippet: pragma
#define FOR_EACH_TAP(d, taps) \
    #pragma unroll            \
    for (unsigned int d = 0; d < taps; ++d)

__global__ void filter(float *__restrict__ out)
{
    FOR_EACH_TAP(d, 16) {
        out[d] = static_cast<float>(d);
    }
}
// end snippet

int main()
{
    filter<<<1, 1>>>(nullptr);
    return 0;
}

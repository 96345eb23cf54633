// SPDX-License-Identifier: MIT
//
// Day 20: a macro is given a kernel with two template arguments. The
// preprocessor knows no templates: for it the comma between them ends one
// argument of the macro and begins another.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o comma comma.cu
// Run: ./comma

#include <cstdio>

#include <cuda_runtime.h>

template <unsigned int kTaps, bool kReversed>
__global__ void filter(float *__restrict__ out)
{
    out[threadIdx.x] = static_cast<float>(kReversed ? 1 : kTaps);
}

// snippet: comma
#define LAUNCH(kernel, out) kernel<<<1, 32>>>(out)

void run(float *d_out)
{
    LAUNCH(filter<16, true>, d_out);
}
// end snippet

int main()
{
    run(nullptr);
    return 0;
}

// SPDX-License-Identifier: MIT
//
// Day 20: a template argument that is only known when the program runs.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o argument argument.cu
// Run: ./argument

#include <cstddef>
#include <cstdio>

#include <cuda_runtime.h>

template <unsigned int kTaps>
__global__ void filter(float *__restrict__ out)
{
    out[threadIdx.x] = static_cast<float>(kTaps);
}

// snippet: argument
void run(unsigned int taps, float *d_out)
{
    filter<taps><<<1, 32>>>(d_out);
}
// end snippet

int main()
{
    run(16, nullptr);
    return 0;
}

// SPDX-License-Identifier: MIT
//
// Day 20: a dispatch that hands its case to a function. Inside the function it
// is a parameter, and a parameter is not a constant, whatever is handed over.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o parameter parameter.cu
// Run: ./parameter

#include <cstddef>
#include <cstdio>

#include <cuda_runtime.h>

template <unsigned int kTaps>
__global__ void filter(float *__restrict__ out)
{
    out[threadIdx.x] = static_cast<float>(kTaps);
}

// snippet: parameter
template <typename Launch>
void dispatch(unsigned int taps, Launch launch)
{
    switch (taps) {
    case 8:  launch(8u); break;
    case 16: launch(16u); break;
    default: std::printf("no such filter\n");
    }
}

void run(unsigned int taps, float *d_out)
{
    dispatch(taps, [&](const unsigned int kTaps) {
        filter<kTaps><<<1, 32>>>(d_out);
    });
}
// end snippet

int main()
{
    run(16, nullptr);
    return 0;
}

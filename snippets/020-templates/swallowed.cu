// SPDX-License-Identifier: MIT
//
// Day 20: a dispatch macro that looks right. The launch and the call take their
// arguments from one list, and the list goes where it stands in the macro: all
// of it into the brackets of the launch.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o swallowed swallowed.cu
// Run: ./swallowed

#include <cstddef>
#include <cstdio>

#include <cuda_runtime.h>

template <unsigned int kTaps>
__global__ void filter(float *__restrict__ out)
{
    out[threadIdx.x] = static_cast<float>(kTaps);
}

// snippet: macro
#define DISPATCH(taps, kernel, ...)                 \
    switch (taps) {                                 \
    case 8: kernel<8><<<__VA_ARGS__>>>; break;      \
    case 16: kernel<16><<<__VA_ARGS__>>>; break;    \
    default: std::printf("no such filter\n");       \
    }

void run(unsigned int taps, float *d_out)
{
    const dim3 grid(1);
    const dim3 block(32);
    const size_t shared = 0;
    const cudaStream_t stream = nullptr;
    DISPATCH(taps, filter, grid, block, shared, stream, d_out)
}
// end snippet

int main()
{
    run(16, nullptr);
    return 0;
}

// SPDX-License-Identifier: MIT
//
// Day 4: the line that computes a GPU's memory bandwidth in many older
// programs. CUDA 13 removed the clock rates from cudaDeviceProp, so it does
// not compile any more. The numbers themselves are still there, as attributes.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o removed-fields removed-fields.cu
// Run: ./removed-fields

#include <cstdio>

#include <cuda_runtime.h>

int main()
{
    // snippet: removed-fields
    cudaDeviceProp device = {};
    cudaGetDeviceProperties(&device, 0);
    std::printf("clock         %d kHz\n", device.clockRate);
    std::printf("memory rate   %.1f GB/s\n",
                2.0 * device.memoryClockRate * (device.memoryBusWidth / 8.0) /
                    1e6);
    // end snippet
    return 0;
}

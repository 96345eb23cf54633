// SPDX-License-Identifier: MIT
//
// Day 3: a program for another GPU. The Build: line names one architecture,
// and asks for machine code of that alone. It is Thor's, a GPU for robots and
// cars that hardly any reader has; elsewhere the program compiles, starts,
// gets its memory, and has no kernel that the device could run.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -gencode=arch=compute_110,code=sm_110 -o wrong-gpu wrong-gpu.cu
// Run: ./wrong-gpu

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#define CUDA_CHECK(call)                                                    \
    do {                                                                    \
        const cudaError_t error_ = (call);                                  \
        if (error_ != cudaSuccess) {                                        \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__,     \
                         #call, cudaGetErrorString(error_));                \
            std::exit(EXIT_FAILURE);                                        \
        }                                                                   \
    } while (0)

constexpr unsigned int kThreads = 256;

// out[i] = i for one block.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: one block; out has blockDim.x elements.
__global__ void fill(float *out)
{
    out[threadIdx.x] = static_cast<float>(threadIdx.x);
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  capability of the device      %d.%d\n", device.major,
                device.minor);
    std::printf("  capability in the Build line  11.0\n");

    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_out, kThreads * sizeof(float)));
    fill<<<1, kThreads>>>(d_out);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaFree(d_out));
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

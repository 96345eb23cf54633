// SPDX-License-Identifier: MIT
//
// Day 3: a refused launch, asked about at once. The block has one thread too
// many. CUDA_CHECK(cudaGetLastError()) stands right behind the launch, so the
// program ends there, and the line that it prints is the right one.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o at-launch at-launch.cu
// Run: ./at-launch

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

constexpr unsigned int kThreads = 1025;  // one more than any GPU takes

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
    std::printf("  threads in a block, at most   %d\n",
                device.maxThreadsPerBlock);

    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_out, kThreads * sizeof(float)));
    // snippet: at-launch
    fill<<<1, kThreads>>>(d_out);
    CUDA_CHECK(cudaGetLastError());
    // end snippet
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaFree(d_out));
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 3: a refused launch, asked about too late. Nothing is wrong with the
// second launch, but the first check comes after it, finds the error that the
// first launch left, and names the line of the second.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o blamed blamed.cu
// Run: ./blamed

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

constexpr unsigned int kTooMany = 1025;  // one more than any GPU takes
constexpr unsigned int kThreads = 256;   // a block as it should be

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

    float *d_first = nullptr;
    float *d_second = nullptr;
    CUDA_CHECK(cudaMalloc(&d_first, kTooMany * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_second, kThreads * sizeof(float)));
    // snippet: blamed
    fill<<<1, kTooMany>>>(d_first);  // refused, and nobody asks
    CUDA_CHECK(cudaMemset(d_second, 0, kThreads * sizeof(float)));
    fill<<<1, kThreads>>>(d_second);  // good
    CUDA_CHECK(cudaGetLastError());
    // end snippet
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaFree(d_first));
    CUDA_CHECK(cudaFree(d_second));
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 3: an asynchronous error. The launch is in order, and the check behind
// it passes; the threads then write far outside of their array. The next call
// that waits for the GPU returns the error: here a copy of another array, with
// which nothing is wrong.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o late late.cu
// Run: ./late

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

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
constexpr size_t kBytes = kThreads * sizeof(float);
constexpr size_t kFarAway = size_t{1} << 34;  // elements: 64 GiB further on

// out[first + i] = i for one block.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: one block; out has first + blockDim.x elements, which
// does not hold here.
__global__ void fill(float *out, size_t first)
{
    out[first + threadIdx.x] = static_cast<float>(threadIdx.x);
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors            %d\n",
                device.multiProcessorCount);

    std::vector<float> h_other(kThreads);
    float *d_out = nullptr;
    float *d_other = nullptr;
    CUDA_CHECK(cudaMalloc(&d_out, kBytes));
    CUDA_CHECK(cudaMalloc(&d_other, kBytes));
    CUDA_CHECK(cudaMemset(d_other, 0, kBytes));
    // snippet: late
    fill<<<1, kThreads>>>(d_out, kFarAway);
    const cudaError_t atLaunch = cudaGetLastError();
    std::printf("\nlaunch: its threads write out of bounds\n");
    std::printf("  error, asked right after   %d   (%s)\n", atLaunch,
                cudaGetErrorName(atLaunch));

    CUDA_CHECK(cudaMemcpy(h_other.data(), d_other, kBytes,
                          cudaMemcpyDeviceToHost));
    // end snippet
    CUDA_CHECK(cudaFree(d_out));
    CUDA_CHECK(cudaFree(d_other));
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

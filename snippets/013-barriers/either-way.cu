// SPDX-License-Identifier: MIT
//
// Day 13: a barrier in each branch of an if, with whole warps in either branch.
// Every thread counts right, and the program passes its check. It is wrong all
// the same: the two are two barriers, and each is reached by a part of the
// block only. synccheck says so.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o either-way either-way.cu
// Run: ./either-way

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

constexpr unsigned int kThreads = 256;  // threads in the only block
constexpr unsigned int kPart = 128;     // of them take the first branch
constexpr unsigned int kNobody = 0;     // an empty place in the tile
constexpr long long kLate = 50000;      // cycles that the part comes late
constexpr size_t kBytes = kThreads * sizeof(unsigned int);

static_assert(kPart % 32 == 0, "whole warps in either branch");

// Waits for kLate cycles.
__device__ void beLate()
{
    const long long start = clock64();
    while (clock64() - start < kLate) {
    }
}

// For each thread, how many names it finds behind its barrier.
// Memory: a warp writes 32 neighbouring numbers.
// Launch assumption: one block of 256 threads.
__global__ void eitherWay(unsigned int part, unsigned int *__restrict__ found)
{
    __shared__ unsigned int names[kThreads];
    const unsigned int tid = threadIdx.x;
    names[tid] = kNobody;
    __syncthreads();
    // snippet: either-way
    if (tid < part) {
        beLate();
        names[tid] = tid + 1;
        __syncthreads();
    } else {
        __syncthreads();
    }
    // end snippet
    unsigned int count = 0;
    for (unsigned int k = 0; k < kThreads; ++k) {
        count += names[k] != kNobody ? 1 : 0;
    }
    found[tid] = count;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::vector<unsigned int> found(kThreads);
    unsigned int *d_found = nullptr;
    CUDA_CHECK(cudaMalloc(&d_found, kBytes));
    CUDA_CHECK(cudaMemset(d_found, 0xff, kBytes));
    eitherWay<<<1, kThreads>>>(kPart, d_found);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(found.data(), d_found, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_found));

    unsigned int wrong = 0;
    for (const unsigned int count : found) {
        wrong += count == kPart ? 0 : 1;
    }
    std::printf("\ncheck: the names that each thread has found\n");
    std::printf("  threads           %u\n", kThreads);
    std::printf("  names             %u\n", kPart);
    std::printf("  wrong counts      %u\n", wrong);
    if (wrong != 0) {
        std::fprintf(stderr, "%u threads counted wrong\n", wrong);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 13: passBy of divergent.cu with a part that ends inside of a warp. Of the
// fourth warp, four threads go to the part's own barrier, and 28 do not.
//
// This program is expected to run out of time. A second block watches: should
// nobody end the process, it ends the kernel after 2^35 cycles, some 20
// seconds.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o through-a-warp through-a-warp.cu
// Run: ./through-a-warp

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

constexpr unsigned int kWarp = 32;
constexpr unsigned int kThreads = 256;  // threads in a block
constexpr unsigned int kPart = 100;     // of them have a barrier of their own
constexpr unsigned int kNobody = 0;     // an empty place in the tile
constexpr long long kLate = 50000;      // cycles that the part comes late
constexpr long long kGiveUp = 1ll << 35;  // cycles

static_assert(kPart % kWarp != 0, "a warp is cut in two");

// Ends the kernel with an error if the other block does not end.
__device__ void watch(const volatile unsigned int *done)
{
    const long long start = clock64();
    while (*done == 0 && clock64() - start < kGiveUp) {
    }
    if (*done == 0) {
        __trap();
    }
}

// Waits for kLate cycles.
__device__ void beLate()
{
    const long long start = clock64();
    while (clock64() - start < kLate) {
    }
}

__device__ unsigned int namesIn(const unsigned int *names)
{
    unsigned int count = 0;
    for (unsigned int k = 0; k < kThreads; ++k) {
        count += names[k] != kNobody ? 1 : 0;
    }
    return count;
}

// The same as in divergent.cu, but part is 100 and there are two blocks.
// Memory: a warp writes 32 neighbouring numbers.
// Launch assumption: two blocks of 256 threads, the second of which watches.
__global__ void passBy(unsigned int part, unsigned int *__restrict__ found,
                       volatile unsigned int *done)
{
    __shared__ unsigned int names[kThreads];
    const unsigned int tid = threadIdx.x;
    if (blockIdx.x == 1) {
        watch(done);
        return;
    }
    names[tid] = kNobody;
    __syncthreads();
    // snippet: through-a-warp
    if (tid < part) {
        __syncthreads();  // of the fourth warp, four threads get here
        beLate();
        names[tid] = tid + 1;
    }
    __syncthreads();
    found[tid] = namesIn(names);
    // end snippet
    *done = 1;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    unsigned int *d_found = nullptr;
    unsigned int *d_done = nullptr;
    CUDA_CHECK(cudaMalloc(&d_found, kThreads * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&d_done, sizeof(unsigned int)));
    CUDA_CHECK(cudaMemset(d_done, 0, sizeof(unsigned int)));
    passBy<<<2, kThreads>>>(kPart, d_found, d_done);
    CUDA_CHECK(cudaGetLastError());
    std::printf("\nthrough a warp: the kernel has been launched, its end is "
                "waited for\n");
    std::fflush(stdout);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaFree(d_found));
    CUDA_CHECK(cudaFree(d_done));
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

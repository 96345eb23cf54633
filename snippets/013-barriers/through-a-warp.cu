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

// Memory: one number, written at the end.
// Launch assumption: two blocks of 256 threads, the second of which watches.
__global__ void passBy(volatile unsigned int *done)
{
    if (blockIdx.x == 1) {
        watch(done);
        return;
    }
    // snippet: through-a-warp
    if (threadIdx.x < kPart) {
        __syncthreads();  // three warps and four threads get here
    }
    __syncthreads();
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

    unsigned int *d_done = nullptr;
    CUDA_CHECK(cudaMalloc(&d_done, sizeof(unsigned int)));
    CUDA_CHECK(cudaMemset(d_done, 0, sizeof(unsigned int)));
    passBy<<<2, kThreads>>>(d_done);
    CUDA_CHECK(cudaGetLastError());
    std::printf("\nthrough a warp: the kernel has been launched, its end is "
                "waited for\n");
    std::fflush(stdout);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaFree(d_done));
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 13: a deadlock. Half of the block stands at a barrier, which waits for
// all threads that have not returned. The other half waits for a flag, which
// is set behind that barrier. Neither goes on.
//
// This program is expected to run out of time. A second block watches: should
// nobody end the process, it ends the kernel after 2^35 cycles, some 20
// seconds.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o stuck stuck.cu
// Run: ./stuck

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

constexpr unsigned int kThreads = 256;  // threads in a block
constexpr long long kGiveUp = 1ll << 35;  // cycles

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
__global__ void waitForEachOther(volatile unsigned int *done)
{
    __shared__ volatile unsigned int flag;
    const unsigned int tid = threadIdx.x;
    if (blockIdx.x == 1) {
        watch(done);
        return;
    }
    if (tid == 0) {
        flag = 0;
    }
    __syncthreads();
    // snippet: stuck
    if (tid < kThreads / 2) {
        __syncthreads();  // waits for the other half, which has not returned
        flag = 1;
    } else {
        while (flag == 0) {  // waits for what stands behind the barrier
        }
    }
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
    waitForEachOther<<<2, kThreads>>>(d_done);
    CUDA_CHECK(cudaGetLastError());
    std::printf("\nstuck: the kernel has been launched, its end is waited "
                "for\n");
    std::fflush(stdout);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaFree(d_done));
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

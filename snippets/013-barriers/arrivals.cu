// SPDX-License-Identifier: MIT
//
// Day 13: an early return that does hang. A cuda::barrier lies in shared memory
// and counts arrivals, as many as it was told to expect. A thread that has
// returned never arrives, and the others wait for it until somebody ends the
// process. (arrive_and_drop, called before the return, would have told it.)
//
// This program is expected to run out of time. A second block watches: should
// nobody end the process, it ends the kernel after 2^35 cycles, some 20
// seconds.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o arrivals arrivals.cu
// Run: ./arrivals

#include <cstdio>
#include <cstdlib>

#include <cuda/barrier>
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

using Barrier = cuda::barrier<cuda::thread_scope_block>;

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
__global__ void arriveShort(volatile unsigned int *done)
{
    __shared__ alignas(Barrier) unsigned char place[sizeof(Barrier)];
    Barrier *barrier = reinterpret_cast<Barrier *>(place);
    const unsigned int tid = threadIdx.x;
    if (blockIdx.x == 1) {
        watch(done);
        return;
    }
    // snippet: arrivals
    if (tid == 0) {
        init(barrier, kThreads);  // so many arrivals are expected
    }
    __syncthreads();
    if (tid == kThreads - 1) {
        return;
    }
    barrier->arrive_and_wait();
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
    arriveShort<<<2, kThreads>>>(d_done);
    CUDA_CHECK(cudaGetLastError());
    std::printf("\narrivals: the kernel has been launched, its end is waited "
                "for\n");
    std::fflush(stdout);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaFree(d_done));
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

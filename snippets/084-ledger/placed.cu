// SPDX-License-Identifier: MIT
//
// Ledger: what becomes of a launch. How many warps are 100 threads, and how
// many threads has each? On how many multiprocessors do the 8 blocks of the
// founding shape (day 84) run, and how many blocks of 24 threads fit on one?
//
// The gate: every thread is counted once, and every block is on a
// multiprocessor that there is.
//
// Predicted: three full warps and one of four threads; 8 blocks on 8 different
// multiprocessors; 32 blocks.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o placed placed.cu
// Run: ./placed

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <set>
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

constexpr unsigned int kThreads = 100;
constexpr unsigned int kWarp = 32;
constexpr unsigned int kWarps = (kThreads + kWarp - 1) / kWarp;
constexpr unsigned int kBlocks = 8;  // B = 2, H = 4
constexpr int kDim = 24;             // and as many threads

// How many threads are at work together, warp by warp.
// Memory: one write for each warp.
// Launch assumption: one block.
__global__ void countWarps(unsigned int *__restrict__ threads)
{
    const unsigned int together = __popc(__activemask());
    if (threadIdx.x % kWarp == 0) {
        threads[threadIdx.x / kWarp] = together;
    }
}

// On which multiprocessor a block is.
// Memory: one write for each block.
// Launch assumption: any.
__global__ void place(unsigned int *__restrict__ where)
{
    unsigned int sm = 0;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    if (threadIdx.x == 0) {
        where[blockIdx.x] = sm;
    }
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    unsigned int *d_found = nullptr;
    std::vector<unsigned int> threads(kWarps);
    std::vector<unsigned int> where(kBlocks);
    CUDA_CHECK(cudaMalloc(&d_found, kBlocks * sizeof(unsigned int)));
    countWarps<<<1, kThreads>>>(d_found);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(threads.data(), d_found,
                          kWarps * sizeof(unsigned int),
                          cudaMemcpyDeviceToHost));
    place<<<kBlocks, kDim>>>(d_found);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(where.data(), d_found,
                          kBlocks * sizeof(unsigned int),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_found));
    int resident = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, place,
                                                             kDim, 0));

    unsigned int full = 0;
    unsigned int total = 0;
    for (const unsigned int count : threads) {
        full += count == kWarp ? 1 : 0;
        total += count;
    }
    const std::set<unsigned int> different(where.begin(), where.end());
    const unsigned int sms =
        static_cast<unsigned int>(device.multiProcessorCount);
    std::printf("\nwarps: of %u threads\n", kThreads);
    std::printf("  warps          %u\n", kWarps);
    std::printf("  full           %u\n", full);
    std::printf("  in the last    %u\n", threads.back());
    std::printf("\nblocks: %u of %d threads\n", kBlocks, kDim);
    std::printf("  multiprocessors        %u\n", sms);
    std::printf("  of them with a block   %zu\n", different.size());
    std::printf("  share                  %.1f %%\n",
                100.0 * static_cast<double>(different.size()) / sms);
    std::printf("  blocks that fit on one   %d\n", resident);
    if (total != kThreads || *different.rbegin() >= sms) {
        std::fprintf(stderr, "%u of %u threads counted, a block on %u\n", total,
                     kThreads, *different.rbegin());
        return EXIT_FAILURE;
    }
    std::printf("\nall 2 cases passed their gates\n");
    return EXIT_SUCCESS;
}

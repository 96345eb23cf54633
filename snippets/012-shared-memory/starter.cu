// SPDX-License-Identifier: MIT
//
// Day 12, exercise: rounds in a ring. To be finished by you.
//
// Every tile of 256 whole numbers lies in a ring. In a round, each number is
// replaced by the sum of itself and its right neighbour; the right neighbour of
// the last is the first. All numbers of a round are replaced at once: every sum
// is made of what the round began with.
//
// The judge does the same on the CPU. Whole numbers without a sign wrap around
// and never round, so every bit must be right.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

constexpr unsigned int kThreads = 256;    // threads in a block, and its tile
constexpr unsigned int kRounds = 37;
constexpr unsigned int kTiles = 4096;     // more than run at a time
constexpr unsigned int kQuickTiles = 16;  // under sanitizers

// x after kRounds rounds, tile by tile, in place.
// Memory: a warp reads 32 neighbouring numbers once and writes them once.
// Launch assumption: one block of 256 threads per tile.
__global__ void ring(unsigned int *x)
{
    __shared__ unsigned int tile[kThreads];
    const unsigned int tid = threadIdx.x;
    const unsigned int right = (tid + 1) % kThreads;
    const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + tid;
    tile[tid] = x[i];
    // snippet: exercise
    for (unsigned int round = 0; round < kRounds; ++round) {
        // Yours. For one thread this would be right; it is not for a block.
        tile[tid] += tile[right];
    }
    // end snippet
    x[i] = tile[tid];
}

// What a tile becomes, on the CPU.
static void ringOnCpu(unsigned int *tile)
{
    for (unsigned int round = 0; round < kRounds; ++round) {
        const unsigned int first = tile[0];
        for (unsigned int k = 0; k + 1 < kThreads; ++k) {
            tile[k] += tile[k + 1];
        }
        tile[kThreads - 1] += first;
    }
}

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    const unsigned int tiles = quick ? kQuickTiles : kTiles;
    const size_t count = static_cast<size_t>(tiles) * kThreads;
    const size_t bytes = count * sizeof(unsigned int);
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::vector<unsigned int> x(count);
    for (size_t i = 0; i < count; ++i) {
        x[i] = static_cast<unsigned int>(i * 7919 % 10007 + 1);
    }
    std::vector<unsigned int> want = x;
    for (size_t first = 0; first < count; first += kThreads) {
        ringOnCpu(&want[first]);
    }
    unsigned int *d_x = nullptr;
    CUDA_CHECK(cudaMalloc(&d_x, bytes));
    CUDA_CHECK(cudaMemcpy(d_x, x.data(), bytes, cudaMemcpyHostToDevice));
    ring<<<tiles, kThreads>>>(d_x);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(x.data(), d_x, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));

    size_t wrong = 0;
    size_t firstWrong = 0;
    for (size_t i = 0; i < count; ++i) {
        if (x[i] != want[i]) {
            firstWrong = wrong == 0 ? i : firstWrong;
            ++wrong;
        }
    }
    std::printf("\ncheck: every element, bit for bit\n");
    std::printf("  rounds     %u\n", kRounds);
    std::printf("  elements   %zu\n", count);
    std::printf("  wrong      %zu\n", wrong);
    if (wrong != 0) {
        std::fprintf(stderr,
                     "%zu of %zu elements are wrong; the first is element %zu "
                     "(tile %zu, thread %zu): %u, not %u\n",
                     wrong, count, firstWrong, firstWrong / kThreads,
                     firstWrong % kThreads, x[firstWrong], want[firstWrong]);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

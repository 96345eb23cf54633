// SPDX-License-Identifier: MIT
//
// Day 4, exercise: how many blocks at once?
// A GPU holds a certain number of blocks at once. Which, follows from answers
// of the device: it has multiprocessors, each of them has places for so many
// threads and for so many blocks, and a block takes its threads' places in
// whole warps.
//
// To do: write blocksAtOnce. It asks the device for what it needs.
//
// Judged by CUDA's own answer for a kernel that needs next to no registers and
// no shared memory, at block sizes that are whole warps and at some that are
// not. Both numbers are counts, so they have to be equal.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

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

// The smallest and the largest block, whole warps and parts of one.
constexpr unsigned int kThreads[] = {32, 97, 256, 384, 700, 1024};

static unsigned int ask(cudaDeviceAttr attribute)
{
    int answer = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&answer, attribute, 0));
    return static_cast<unsigned int>(answer);
}

// Something to be held, and launched as many times over as was answered.
// Memory: one number per block.
// Launch assumption: any block; out has a number for each block.
__global__ void mark(unsigned int *out)
{
    if (threadIdx.x == 0) {
        out[blockIdx.x] = blockIdx.x + 1;
    }
}

// The blocks of `threads` threads each that this GPU holds at once.
// snippet: exercise
static unsigned int blocksAtOnce(unsigned int threads)
{
    // Yours: multiprocessors, places for threads, places for blocks, warps.
    return threads == 0 ? 1 : 0;
}
// end snippet

// What CUDA itself says.
static unsigned int referenceAtOnce(unsigned int threads)
{
    int blocks = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, reinterpret_cast<const void *>(mark),
        static_cast<int>(threads), 0));
    return static_cast<unsigned int>(blocks) *
           ask(cudaDevAttrMultiProcessorCount);
}

// Launches that many blocks and counts those that ran.
static unsigned int blocksThatRan(unsigned int blocks, unsigned int threads)
{
    const size_t bytes = blocks * sizeof(unsigned int);
    unsigned int *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_out, bytes));
    CUDA_CHECK(cudaMemset(d_out, 0, bytes));
    mark<<<blocks, threads>>>(d_out);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<unsigned int> h_out(blocks);
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, bytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_out));
    unsigned int ran = 0;
    for (unsigned int i = 0; i < blocks; ++i) {
        ran += h_out[i] == i + 1 ? 1 : 0;
    }
    return ran;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::printf("\nat once: blocks that this GPU holds\n");
    std::printf("  %-14s  %6s  %6s  %6s\n", "block", "answer", "wanted",
                "ran");
    unsigned int passed = 0;
    unsigned int wrongAt = 0;
    for (const unsigned int threads : kThreads) {
        const unsigned int answer = blocksAtOnce(threads);
        const unsigned int wanted = referenceAtOnce(threads);
        const unsigned int ran =
            answer == wanted ? blocksThatRan(answer, threads) : 0;
        std::printf("  %4u threads  %8u  %6u  %6u\n", threads, answer, wanted,
                    ran);
        if (answer == wanted && ran == wanted && wanted != 0) {
            ++passed;
        } else if (wrongAt == 0) {
            wrongAt = threads;
        }
    }
    if (wrongAt != 0) {
        std::fprintf(stderr, "the answer for a block of %u threads is %u, not "
                             "%u\n",
                     wrongAt, blocksAtOnce(wrongAt), referenceAtOnce(wrongAt));
        return EXIT_FAILURE;
    }
    std::printf("\nall %u cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

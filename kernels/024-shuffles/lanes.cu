// SPDX-License-Identifier: MIT
//
// Day 24: shuffles, which lane holds what. A lane of a warp reads a register
// of another lane, without memory between them. Five such steps add up 32
// numbers; who ends up with the sum depends on how the partner is named.
//
// traceXor and traceDown find out. One warp per block; in block b only lane b
// begins with a one, all others with zero. What a lane holds in the end is
// then how many times lane b's number is in its sum. They are judged by what
// the definition of a shuffle says, worked out on the CPU, number by number.
//
// chainShuffle, chainShared and chainBarrier do nothing but exchange, each
// time what the last exchange brought: their cycles are what one step costs a
// warp that has to wait for it. What each thread holds in the end is known.
//
// Written down before the run: of the 32 lanes, xor leaves the sum in all and
// down in one. A shuffle takes about 25 cycles, a store to shared memory and a
// load from it twice as many, with a block's barrier three times.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o lanes lanes.cu
// Run: ./lanes

#include <algorithm>
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

// --- Shapes -----------------------------------------------------------------

constexpr unsigned int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr unsigned int kSteps = 5;  // offsets 16, 8, 4, 2, 1

constexpr unsigned int kThreads = 256;  // of the block with a barrier
constexpr unsigned int kChain = 2048;   // exchanges, one after another
constexpr int kRepeats = 5;             // the least cycles count

static_assert(1u << kSteps == kWarp, "as many steps as halve a warp to one");
static_assert(kChain % 2 == 0, "after two exchanges with one partner a lane "
                               "has its own number again");

// --- Kernels ----------------------------------------------------------------

// How many times lane b's number is in each lane's sum after each step, for
// b = blockIdx.x. counts[step][b][lane].
// Memory: a warp writes 32 neighbouring numbers per step.
// Launch assumption: kWarp blocks of kWarp threads.
__global__ void traceXor(unsigned int *__restrict__ counts)
{
    const unsigned int lane = threadIdx.x;
    unsigned int value = lane == blockIdx.x ? 1 : 0;
    for (unsigned int step = 0; step < kSteps; ++step) {
        value += __shfl_xor_sync(kFullWarp, value, kWarp >> (step + 1));
        counts[(step * kWarp + blockIdx.x) * kWarp + lane] = value;
    }
}

// The same with shuffles from the lane `offset` further up.
__global__ void traceDown(unsigned int *__restrict__ counts)
{
    const unsigned int lane = threadIdx.x;
    unsigned int value = lane == blockIdx.x ? 1 : 0;
    for (unsigned int step = 0; step < kSteps; ++step) {
        value += __shfl_down_sync(kFullWarp, value, kWarp >> (step + 1));
        counts[(step * kWarp + blockIdx.x) * kWarp + lane] = value;
    }
}

// kChain exchanges with the neighbouring lane, each of what the last one
// brought plus one. Writes what each thread has in the end, and the cycles.
// Memory: none on the way.
// Launch assumption: one block of kWarp threads.
__global__ void chainShuffle(unsigned int *__restrict__ ends,
                             long long *__restrict__ cycles)
{
    unsigned int value = threadIdx.x;
    const long long start = clock64();
    // snippet: chain-shuffle
    for (unsigned int i = 0; i < kChain; ++i) {
        value = __shfl_xor_sync(kFullWarp, value, 1) + 1;
    }
    // end snippet
    const long long stop = clock64();
    ends[threadIdx.x] = value;
    if (threadIdx.x == 0) {
        *cycles = stop - start;
    }
}

// The same through shared memory. Two arrays in turns: nobody writes where
// somebody may still read, so one barrier per exchange is enough.
// Launch assumption: one block of kWarp threads.
__global__ void chainShared(unsigned int *__restrict__ ends,
                            long long *__restrict__ cycles)
{
    __shared__ unsigned int slot[2][kWarp];
    unsigned int value = threadIdx.x;
    const long long start = clock64();
    // snippet: chain-shared
    for (unsigned int i = 0; i < kChain; ++i) {
        slot[i % 2][threadIdx.x] = value;
        __syncwarp();
        value = slot[i % 2][threadIdx.x ^ 1] + 1;
    }
    // end snippet
    const long long stop = clock64();
    ends[threadIdx.x] = value;
    if (threadIdx.x == 0) {
        *cycles = stop - start;
    }
}

// The same for a whole block, with the block's barrier.
// Launch assumption: one block of kThreads threads.
__global__ void chainBarrier(unsigned int *__restrict__ ends,
                             long long *__restrict__ cycles)
{
    __shared__ unsigned int slot[2][kThreads];
    unsigned int value = threadIdx.x;
    const long long start = clock64();
    for (unsigned int i = 0; i < kChain; ++i) {
        slot[i % 2][threadIdx.x] = value;
        __syncthreads();
        value = slot[i % 2][threadIdx.x ^ 1] + 1;
    }
    const long long stop = clock64();
    ends[threadIdx.x] = value;
    if (threadIdx.x == 0) {
        *cycles = stop - start;
    }
}

// What went wrong first; reported after everything has been printed.
struct Failure {
    const char *what = nullptr;
    size_t index = 0;
    unsigned int got = 0;
    unsigned int want = 0;
};

// --- Who holds what ---------------------------------------------------------

// What the definition of a shuffle says: xor exchanges with lane ^ offset;
// down takes from lane + offset, and where there is none, from itself.
static std::vector<unsigned int> tracedOnCpu(bool down)
{
    std::vector<unsigned int> counts(kSteps * kWarp * kWarp);
    for (unsigned int from = 0; from < kWarp; ++from) {
        unsigned int value[kWarp] = {};
        value[from] = 1;
        for (unsigned int step = 0; step < kSteps; ++step) {
            const unsigned int offset = kWarp >> (step + 1);
            unsigned int next[kWarp] = {};
            for (unsigned int lane = 0; lane < kWarp; ++lane) {
                unsigned int other = down ? lane + offset : lane ^ offset;
                other = other < kWarp ? other : lane;
                next[lane] = value[lane] + value[other];
            }
            for (unsigned int lane = 0; lane < kWarp; ++lane) {
                value[lane] = next[lane];
                counts[(step * kWarp + from) * kWarp + lane] = next[lane];
            }
        }
    }
    return counts;
}

// Runs a trace, prints it and judges it. For each lane and step: how many
// different lanes' numbers are in its sum; in the end also how often one of
// them is, and its own.
static void runTrace(bool down, Failure *failure)
{
    const std::vector<unsigned int> want = tracedOnCpu(down);
    const size_t bytes = want.size() * sizeof(unsigned int);
    std::vector<unsigned int> got(want.size());
    unsigned int *d_counts = nullptr;
    CUDA_CHECK(cudaMalloc(&d_counts, bytes));
    CUDA_CHECK(cudaMemset(d_counts, 0xff, bytes));  // no count is that large
    if (down) {
        traceDown<<<kWarp, kWarp>>>(d_counts);
    } else {
        traceXor<<<kWarp, kWarp>>>(d_counts);
    }
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(got.data(), d_counts, bytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_counts));

    std::printf("\n%s: how many lanes' numbers are in a lane's sum, step by "
                "step\n",
                down ? "down" : "xor");
    std::printf("  %-7s  %9s  %8s  %8s  %8s  %8s  %10s  %9s\n", "lane",
                "offset 16", "offset 8", "offset 4", "offset 2", "offset 1",
                "most often", "own times");
    unsigned int complete = 0;
    for (unsigned int lane = 0; lane < kWarp; ++lane) {
        unsigned int distinct[kSteps] = {};
        unsigned int most = 0;
        for (unsigned int step = 0; step < kSteps; ++step) {
            for (unsigned int from = 0; from < kWarp; ++from) {
                const unsigned int count =
                    got[(step * kWarp + from) * kWarp + lane];
                distinct[step] += count > 0 ? 1 : 0;
                most = std::max(most, count);
            }
        }
        complete += distinct[kSteps - 1] == kWarp && most == 1 ? 1 : 0;
        if (lane < 2 || lane == kWarp / 2 || lane == kWarp - 1) {
            std::printf("  lane %-2u  %9u  %8u  %8u  %8u  %8u  %10u  %9u\n",
                        lane, distinct[0], distinct[1], distinct[2],
                        distinct[3], distinct[4], most,
                        got[((kSteps - 1) * kWarp + lane) * kWarp + lane]);
        }
    }
    std::printf("\n  lanes with every lane once   %u   (of %u)\n", complete,
                kWarp);
    for (size_t i = 0; i < want.size(); ++i) {
        if (got[i] != want[i]) {
            *failure = {down ? "the trace of down" : "the trace of xor", i,
                        got[i], want[i]};
            return;
        }
    }
}

// --- Cycles -----------------------------------------------------------------

struct Chain {
    const char *name;
    void (*kernel)(unsigned int *, long long *);
    unsigned int threads;
};

constexpr Chain kChains[] = {
    {"shuffle", chainShuffle, kWarp},
    {"shared", chainShared, kWarp},
    {"barrier", chainBarrier, kThreads},
};

// Runs each chain a few times, judges every thread's number and prints the
// least cycles: a lone block is disturbed by nothing that would take less.
static int runChains(Failure *failure)
{
    unsigned int *d_ends = nullptr;
    long long *d_cycles = nullptr;
    CUDA_CHECK(cudaMalloc(&d_ends, kThreads * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&d_cycles, sizeof(long long)));
    int passed = 0;
    std::printf("\nchain: one block alone, each exchange waits for the last\n");
    std::printf("  exchanges   %u\n\n", kChain);
    std::printf("  %-8s  %7s  %19s\n", "exchange", "threads",
                "per step (cycles)");
    for (const Chain &chain : kChains) {
        std::vector<unsigned int> ends(chain.threads);
        const size_t bytes = ends.size() * sizeof(unsigned int);
        long long least = 0;
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
            long long cycles = 0;
            CUDA_CHECK(cudaMemset(d_ends, 0xff, bytes));
            chain.kernel<<<1, chain.threads>>>(d_ends, d_cycles);
            CUDA_CHECK(cudaGetLastError());
            CUDA_CHECK(cudaMemcpy(ends.data(), d_ends, bytes,
                                  cudaMemcpyDeviceToHost));
            CUDA_CHECK(cudaMemcpy(&cycles, d_cycles, sizeof(cycles),
                                  cudaMemcpyDeviceToHost));
            least = repeat == 0 ? cycles : std::min(least, cycles);
            for (size_t i = 0; i < ends.size(); ++i) {
                const unsigned int want =
                    static_cast<unsigned int>(i) + kChain;
                if (ends[i] != want && failure->what == nullptr) {
                    *failure = {chain.name, i, ends[i], want};
                }
            }
        }
        std::printf("  %-8s  %7u  %19.1f\n", chain.name, chain.threads,
                    static_cast<double>(least) / kChain);
        passed += failure->what == nullptr ? 1 : 0;
    }
    CUDA_CHECK(cudaFree(d_ends));
    CUDA_CHECK(cudaFree(d_cycles));
    return passed;
}

// --- Main -------------------------------------------------------------------

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    Failure failure;
    int passed = 0;
    for (const bool down : {false, true}) {
        if (failure.what == nullptr) {
            runTrace(down, &failure);
            passed += failure.what == nullptr ? 1 : 0;
        }
    }
    if (failure.what == nullptr) {
        passed += runChains(&failure);
    }
    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s fails: number %zu is %u, not %u\n",
                     failure.what, failure.index, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

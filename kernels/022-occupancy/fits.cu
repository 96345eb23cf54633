// SPDX-License-Identifier: MIT
//
// Day 22: occupancy without a profiler. How many blocks of a kernel are on a
// multiprocessor at a time is division: the least of four quotients, for
// threads, places for blocks, registers and shared memory. This program divides
// for eleven launches, asks the runtime, and lets the blocks count themselves
// while they run. It fails unless the first two agree for each launch, and if
// ever more blocks are seen than they allow.
//
// The kernel keeps 1, 8 or 64 numbers per thread, so that it needs few or many
// registers. Shared memory is given to it and not used: what counts is that
// nobody else can have it.
//
// The T4: how many blocks of day 97's kernel a GPU holds that is not here, by
// division alone.
//
// Predictions, written before the run: all three agree. Of the launches with
// 256 threads, 64 numbers per thread leave room for three blocks; the launch
// with 115.5 KiB of shared memory leaves room for one.
//
// Each thread's result is compared with the CPU's, bit for bit. There is no
// tolerance. Nothing is timed: day 22's other program does that.
//
// Shared memory and L1 are one memory, and how it is split is set before a
// launch. The first three launches leave that to the runtime; then the kernels
// prefer shared memory, so that there is as much of it as the division assumes.
// We looked into this because at first half of the blocks that should have been
// there were not seen in the program's first launch.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o fits fits.cu
// Run: ./fits

#include <algorithm>
#include <cmath>
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

// --- Shapes -----------------------------------------------------------------

// Of 4 cycles or more each. The stay has to be longer than the machine takes to
// start all blocks: with an eighth of it, of eight blocks of 256 threads only
// six were seen at once.
constexpr unsigned int kSteps = 16384;
constexpr unsigned int kQuickSteps = 16;
constexpr unsigned int kRounds = 2;    // as many blocks as fit, and again
constexpr unsigned int kMostSms = 1024;

// Factors just above -1 change sign and mantissa and neither die out nor grow.
constexpr float kFactor = -1.0f + 1.0f / 65536.0f;
constexpr float kAddend = 0.75f;
constexpr unsigned int kPeriod = 97;  // first numbers: no warp like its next

// --- Small helpers ----------------------------------------------------------

struct Limits {  // of a multiprocessor
    size_t threads;
    size_t blocks;
    size_t registers;
    size_t shared;
    size_t reserved;  // shared memory that the system takes of each block
};

struct Needs {  // of a block; registers of a thread
    size_t threads;
    size_t registers;
    size_t shared;
};

struct Fit {
    size_t byThreads;
    size_t byBlocks;
    size_t byRegisters;
    size_t byShared;
};

constexpr size_t roundUp(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

// Registers are given to whole warps, 256 at a time, and each of the four
// schedulers has a quarter of them. Shared memory comes in units of 128 bytes.
// snippet: fit
constexpr Fit fitOf(const Limits &limits, const Needs &needs)
{
    const size_t warps = roundUp(needs.threads, 32) / 32;
    const size_t ofWarp = roundUp(needs.registers * 32, 256);
    const size_t warpsThatFit = limits.registers / 4 / ofWarp * 4;
    const size_t shared = roundUp(needs.shared + limits.reserved, 128);
    return {limits.threads / (warps * 32), limits.blocks,
            warpsThatFit / warps,
            shared == 0 ? limits.blocks : limits.shared / shared};
}
// end snippet

constexpr size_t blocksOf(const Fit &fit)
{
    return std::min(std::min(fit.byThreads, fit.byBlocks),
                    std::min(fit.byRegisters, fit.byShared));
}

// A Tesla T4's multiprocessor, from CUDA's programming guide (compute
// capability 7.5), and day 97's blocks; registers as nvcc 13.0 reports them
// for sm_75.
// snippet: two-blocks
constexpr Limits kT4 = {1024, 16, 65536, 65536, 0};
constexpr Needs kPadded = {256, 53, 32896};
constexpr Needs kUnpadded = {256, 53, 32768};

static_assert(blocksOf(fitOf(kT4, kPadded)) == 1,
              "128 bytes of padding leave room for one block");
static_assert(blocksOf(fitOf(kT4, kUnpadded)) == 2,
              "without them there are two");
// end snippet
constexpr Needs kUnrolled = {256, 255, 32768};  // day 98: swizzled

// The first number of a chain.
__host__ __device__ inline float firstOf(unsigned int thread,
                                         unsigned int chain)
{
    return static_cast<float>(thread % kPeriod + chain * kPeriod + 1) / 8192.0f;
}

// --- Kernels ----------------------------------------------------------------

// Each block counts itself in, works for a while, and counts itself out.
// Memory: two counters of its multiprocessor, and one float per thread at the
// end. Dynamic shared memory is taken and not used.
// Launch assumption: any; counters zero.
template <unsigned int kChains>
__global__ void stay(float *__restrict__ out, unsigned int *__restrict__ now,
                     unsigned int *__restrict__ most, unsigned int steps)
{
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
    // snippet: count
    unsigned int sm = 0;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (threadIdx.x == 0) {
        atomicMax(&most[sm], atomicAdd(&now[sm], 1u) + 1);
    }
    // end snippet
    float value[kChains];
#pragma unroll
    for (unsigned int c = 0; c < kChains; ++c) {
        value[c] = firstOf(thread, c);
    }
    for (unsigned int step = 0; step < steps; ++step) {
#pragma unroll
        for (unsigned int c = 0; c < kChains; ++c) {
            value[c] = fmaf(value[c], kFactor, kAddend);
        }
    }
    float total = 0.0f;
#pragma unroll
    for (unsigned int c = 0; c < kChains; ++c) {
        total = fmaf(value[c], static_cast<float>(c + 1), total);
    }
    out[thread] = total;
    // snippet: count-out
    __syncthreads();  // the whole block is done
    if (threadIdx.x == 0) {
        atomicSub(&now[sm], 1u);
        __threadfence();  // before the next block can come and count
    }
    // end snippet
}

// --- Launches ---------------------------------------------------------------

using Kernel = void (*)(float *, unsigned int *, unsigned int *, unsigned int);

struct Launch {
    const char *name;
    Kernel kernel;
    unsigned int chains;
    unsigned int threads;
    size_t shared;
};

// The last four are the tiles of this day's other program.
constexpr Launch kLaunches[] = {
    {"128 threads", stay<1>, 1, 128, 0},
    {"256 threads", stay<8>, 8, 256, 0},
    {"1024 threads", stay<1>, 1, 1024, 0},
    {"768 threads", stay<1>, 1, 768, 0},
    {"32 threads", stay<1>, 1, 32, 0},
    {"64 numbers", stay<64>, 64, 256, 0},
    {"8 KiB", stay<1>, 1, 64, 8192},
    {"plain", stay<8>, 8, 512, 896 * 32 * 4},
    {"padded", stay<8>, 8, 512, 896 * 33 * 4},
    {"padded, shorter", stay<8>, 8, 512, 864 * 33 * 4},
    {"swizzled", stay<8>, 8, 512, 896 * 32 * 4},
};
constexpr size_t kCount = sizeof(kLaunches) / sizeof(kLaunches[0]);

// --- CPU reference ----------------------------------------------------------

// What thread t has to leave, for t < 97.
static float referenceOf(unsigned int chains, unsigned int steps,
                         unsigned int t)
{
    float total = 0.0f;
    for (unsigned int c = 0; c < chains; ++c) {
        float value = firstOf(t, c);
        for (unsigned int step = 0; step < steps; ++step) {
            value = std::fmaf(value, kFactor, kAddend);
        }
        total = std::fmaf(value, static_cast<float>(c + 1), total);
    }
    return total;
}

// --- Gates ------------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    const char *launch = nullptr;
    double got = 0.0;
    double want = 0.0;
};

static void expect(double got, double want, const char *what,
                   const Launch &launch, Failure *failure)
{
    if (!(got == want) && failure->what == nullptr) {
        *failure = {what, launch.name, got, want};
    }
}

struct Seen {  // blocks at once on one multiprocessor
    unsigned int least = 0;
    unsigned int most = 0;
    size_t sms = 0;
    size_t compared = 0;
};

// Launches so many blocks, compares every thread's result, and reads the
// counters of all multiprocessors that had a block.
static Seen runAndCount(const Launch &launch, unsigned int blocks,
                        unsigned int steps, Failure *failure)
{
    float *d_out = nullptr;
    unsigned int *d_counts = nullptr;
    std::vector<float> got(static_cast<size_t>(blocks) * launch.threads, NAN);
    std::vector<unsigned int> counts(kMostSms);
    const size_t bytes = got.size() * sizeof(float);
    const size_t countBytes = kMostSms * sizeof(unsigned int);
    CUDA_CHECK(cudaMalloc(&d_out, bytes));
    CUDA_CHECK(cudaMalloc(&d_counts, 2 * countBytes));
    CUDA_CHECK(cudaMemset(d_out, 0xff, bytes));
    CUDA_CHECK(cudaMemset(d_counts, 0, 2 * countBytes));
    launch.kernel<<<blocks, launch.threads, launch.shared>>>(
        d_out, d_counts, d_counts + kMostSms, steps);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(got.data(), d_out, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(counts.data(), d_counts + kMostSms, countBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_out));
    CUDA_CHECK(cudaFree(d_counts));

    std::vector<float> want;
    for (unsigned int t = 0; t < kPeriod; ++t) {
        want.push_back(referenceOf(launch.chains, steps, t));
    }
    Seen seen;
    seen.compared = got.size();
    for (size_t i = 0; i < got.size(); ++i) {
        expect(static_cast<double>(got[i]),
               static_cast<double>(want[i % kPeriod]), "a thread's result",
               launch, failure);
    }
    for (const unsigned int count : counts) {
        if (count != 0) {
            seen.least = seen.sms == 0 ? count : std::min(seen.least, count);
            seen.most = std::max(seen.most, count);
            ++seen.sms;
        }
    }
    return seen;
}

// --- Tables -----------------------------------------------------------------

// The first launch of the table, three times, with nothing set. Not judged.
static void printUnset(size_t sms, Failure *failure)
{
    const Launch &launch = kLaunches[0];
    const size_t blocks = kRounds * 16 * sms;
    std::printf("\nunset: %s, the split of L1 left to the runtime\n",
                launch.name);
    std::printf("  %-6s  %5s  %4s\n", "launch", "least", "most");
    for (const char *name : {"first", "second", "third"}) {
        const Seen seen = runAndCount(
            launch, static_cast<unsigned int>(blocks), kSteps, failure);
        std::printf("  %-6s  %5u  %4u\n", name, seen.least, seen.most);
    }
}

// Returns how many launches passed.
static int judgeLaunches(const Limits &limits, size_t sms, bool quick,
                         Failure *failure)
{
    int passed = 0;
    size_t compared = 0;
    std::vector<Fit> fits;
    std::printf("\nlaunches: blocks per multiprocessor, three times\n");
    std::printf("  %-15s  %7s  %4s  %10s  %7s  %3s  %5s  %4s  %13s\n", "launch",
                "threads", "regs", "shared (B)", "divided", "API", "least",
                "most", "occupancy (%)");
    for (const Launch &launch : kLaunches) {
        const void *kernel = reinterpret_cast<const void *>(launch.kernel);
        cudaFuncAttributes attributes = {};
        int api = 0;
        CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
        // snippet: api
        CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &api, kernel, static_cast<int>(launch.threads), launch.shared));
        // end snippet
        const size_t registers = static_cast<size_t>(attributes.numRegs);
        fits.push_back(
            fitOf(limits, {launch.threads, registers, launch.shared}));
        const size_t divided = blocksOf(fits.back());
        const size_t blocks =
            quick ? 1 : kRounds * static_cast<size_t>(api) * sms;
        const Seen seen =
            runAndCount(launch, static_cast<unsigned int>(blocks),
                        quick ? kQuickSteps : kSteps, failure);
        std::printf("  %-15s  %7u  %4zu  %10zu  %7zu  %3d  %5u  %4u  %13.1f\n",
                    launch.name, launch.threads, registers, launch.shared,
                    divided, api, seen.least, seen.most,
                    100.0 * api * launch.threads /
                        static_cast<double>(limits.threads));
        expect(static_cast<double>(divided), api, "division", launch, failure);
        const unsigned int allowed = static_cast<unsigned int>(api);
        expect(std::min(seen.least, 1u), 1, "least counted", launch, failure);
        expect(std::max(seen.most, allowed), allowed, "most counted", launch,
               failure);
        expect(static_cast<double>(seen.sms),
               static_cast<double>(quick ? 1 : sms), "multiprocessors", launch,
               failure);
        compared += seen.compared;
        passed += failure->what == nullptr ? 1 : 0;
    }
    std::printf("\nquotients: the least of each row is the number of blocks\n");
    std::printf("  %-15s  %10s  %9s  %12s  %9s\n", "launch", "by threads",
                "by blocks", "by registers", "by shared");
    for (size_t i = 0; i < kCount; ++i) {
        std::printf("  %-15s  %10zu  %9zu  %12zu  %9zu\n", kLaunches[i].name,
                    fits[i].byThreads, fits[i].byBlocks, fits[i].byRegisters,
                    fits[i].byShared);
    }
    std::printf("\ngate: every thread's result, bit for bit\n");
    std::printf("  results compared   %zu\n", compared);
    return passed;
}

static void printT4()
{
    struct Row {
        const char *name;
        Needs needs;
    };
    std::printf("\nT4: by division alone, none was asked\n");
    std::printf("  %-9s  %9s  %10s  %10s  %9s  %12s  %9s  %6s\n", "tile",
                "registers", "shared (B)", "by threads", "by blocks",
                "by registers", "by shared", "blocks");
    for (const Row &row : {Row{"padded", kPadded}, Row{"unpadded", kUnpadded},
                           Row{"unrolled", kUnrolled}}) {
        const Fit fit = fitOf(kT4, row.needs);
        std::printf("  %-9s  %9zu  %10zu  %10zu  %9zu  %12zu  %9zu  %6zu\n",
                    row.name, row.needs.registers, row.needs.shared,
                    fit.byThreads, fit.byBlocks, fit.byRegisters, fit.byShared,
                    blocksOf(fit));
    }
}

static size_t attributeOf(cudaDeviceAttr attribute)
{
    int value = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, 0));
    return static_cast<size_t>(value);
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: fits [--quick]\n"
                             "  --quick  one block of each launch\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    // snippet: limits
    const Limits limits = {
        attributeOf(cudaDevAttrMaxThreadsPerMultiProcessor),
        attributeOf(cudaDevAttrMaxBlocksPerMultiprocessor),
        attributeOf(cudaDevAttrMaxRegistersPerMultiprocessor),
        attributeOf(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
        attributeOf(cudaDevAttrReservedSharedMemoryPerBlock)};
    // end snippet
    const size_t optIn = attributeOf(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    std::printf("\nlimits: of a multiprocessor, by attributes\n");
    std::printf("  threads         %zu\n", limits.threads);
    std::printf("  blocks          %zu\n", limits.blocks);
    std::printf("  registers       %zu\n", limits.registers);
    std::printf("  shared memory   %zu B\n", limits.shared);
    std::printf("  reserved        %zu B   (of it, for each block)\n",
                limits.reserved);
    std::printf("  most of one     %zu B   (block, if it asks)\n", optIn);
    for (const Launch &launch : kLaunches) {
        if (launch.shared > optIn) {
            std::fprintf(stderr, "%s: %zu bytes of shared memory, and a block "
                         "may have %zu here\n", launch.name, launch.shared,
                         optIn);
            return EXIT_FAILURE;
        }
    }

    Failure failure;
    const size_t sms = static_cast<size_t>(device.multiProcessorCount);
    if (!quick) {
        printUnset(sms, &failure);
    }
    for (const Launch &launch : kLaunches) {
        const void *kernel = reinterpret_cast<const void *>(launch.kernel);
        // snippet: attributes
        CUDA_CHECK(cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
            static_cast<int>(optIn)));
        CUDA_CHECK(cudaFuncSetAttribute(
            kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
            cudaSharedmemCarveoutMaxShared));
        // end snippet
    }
    const int passed = judgeLaunches(limits, sms, quick, &failure);
    printT4();
    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s of launch \"%s\": %.9g, not %.9g\n",
                     failure.what, failure.launch, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

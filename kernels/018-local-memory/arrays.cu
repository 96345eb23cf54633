// SPDX-License-Identifier: MIT
//
// Day 18: register arrays and local memory. An array that belongs to one thread
// looks like a few registers. But a register has no address: which one an
// instruction uses is written in the instruction. An array whose index the
// compiler does not know has to be somewhere that has addresses, and goes to
// local memory.
//
// The sums: each thread keeps 32 fading sums of one sequence, each with its own
// factor. The index is a loop's. Four kernels differ in one line, the loop's
// head: with the pragma that unrolls it, without one, with a pragma that
// forbids it, and with a bound that only the caller knows.
//
// The bins: each thread adds numbers up in 16 bins and takes the bin from the
// data. No unrolling tells the compiler an index then. Three kernels: the array
// as it is, a comparison with every bin, an array in shared memory.
//
// Predictions, written before the run: the first two kernels are one, in
// registers; the other two have a stack frame of 128 bytes and take ten times
// as long. For the bins, 16 comparisons are faster than one array in local
// memory, and shared memory is faster than both.
//
// All kernels do the same additions in the same order as the CPU, so results
// are compared bit for bit: there is no tolerance.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o arrays arrays.cu
// Run: ./arrays

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

constexpr unsigned int kWarp = 32;
constexpr unsigned int kThreads = 256;
constexpr unsigned int kBlocksPerSm = 4;  // 1024 threads: all kernels fit
constexpr unsigned int kSums = 32;        // 128 bytes of a thread
constexpr unsigned int kBins = 16;        // 4 bits of a random number
constexpr unsigned int kBinShift = 32 - 4;
constexpr unsigned int kSteps = 1024;
constexpr unsigned int kQuickSteps = 4;
constexpr unsigned int kQuickBlocks = 1;

// What a thread works on depends on its number modulo a prime: neighbours
// differ, and so do the same lanes of two warps.
constexpr unsigned int kPeriod = 97;

// The sequence: factors just above -1 change sign and mantissa each time and
// neither die out nor grow. The random numbers: a linear congruence.
constexpr float kFactor = -1.0f + 1.0f / 65536.0f;
constexpr float kAddend = 0.75f;
constexpr unsigned int kMultiplier = 1664525u;
constexpr unsigned int kIncrement = 1013904223u;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 9;       // odd: the median is one of the samples
constexpr int kWarmupRounds = 1;  // of all paths, before the first sample
constexpr int kLaunches = 2;      // between two events; one more before them

static_assert(kThreads % kWarp == 0, "blocks are whole warps");
static_assert(kBins == 1u << (32 - kBinShift), "a shift gives a bin");
static_assert(kBins * kSteps * 255 < (1 << 24),
              "FP32 holds whole numbers up to 2^24, weighted ones too");
static_assert(kBins * kThreads * sizeof(float) <= 48 * 1024,
              "static shared memory ends at 48 KiB");

// --- Small helpers ----------------------------------------------------------

// How much of sum k is left after a step: 63/64, 62/64, ... exact in FP32.
__host__ __device__ inline float keptOf(unsigned int k)
{
    return 1.0f - static_cast<float>(k + 1) / 64.0f;
}

// The first number of a thread's sequence.
__host__ __device__ inline float firstOf(unsigned int thread)
{
    return static_cast<float>(thread % kPeriod + 1) / 64.0f;
}

// --- Kernels: sums ----------------------------------------------------------

// 32 fading sums per thread, with `#pragma unroll`.
// Memory: one float per thread at the end, and the array, if it is in memory.
// Launch assumption: 256 threads, any grid.
__global__ void unrolled(float *__restrict__ out, unsigned int steps,
                         unsigned int /* count */)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    float x = firstOf(thread);
    float sum[kSums] = {};
    // snippet: unrolled
    for (unsigned int step = 0; step < steps; ++step) {
        x = fmaf(x, kFactor, kAddend);
#pragma unroll
        for (unsigned int k = 0; k < kSums; ++k) {
            sum[k] = fmaf(sum[k], keptOf(k), x);
        }
    }
    // end snippet
    float total = 0.0f;
#pragma unroll
    for (unsigned int k = 0; k < kSums; ++k) {
        total = fmaf(sum[k], static_cast<float>(k + 1), total);
    }
    out[thread] = total;
}

// The same without a pragma: the compiler decides.
// Memory, launch assumption: as unrolled.
__global__ void undecided(float *__restrict__ out, unsigned int steps,
                          unsigned int /* count */)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    float x = firstOf(thread);
    float sum[kSums] = {};
    for (unsigned int step = 0; step < steps; ++step) {
        x = fmaf(x, kFactor, kAddend);
        for (unsigned int k = 0; k < kSums; ++k) {
            sum[k] = fmaf(sum[k], keptOf(k), x);
        }
    }
    float total = 0.0f;
    for (unsigned int k = 0; k < kSums; ++k) {
        total = fmaf(sum[k], static_cast<float>(k + 1), total);
    }
    out[thread] = total;
}

// The same with a pragma that forbids it. In large loops the compiler decides
// so by itself (day 97).
// Memory: element k of 32 lanes' arrays lies side by side, so a warp reads and
// writes 128 neighbouring bytes, for every k and step.
// Launch assumption: as unrolled.
__global__ void rolled(float *__restrict__ out, unsigned int steps,
                       unsigned int /* count */)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    float x = firstOf(thread);
    float sum[kSums] = {};
    // snippet: rolled
    for (unsigned int step = 0; step < steps; ++step) {
        x = fmaf(x, kFactor, kAddend);
#pragma unroll 1
        for (unsigned int k = 0; k < kSums; ++k) {
            sum[k] = fmaf(sum[k], keptOf(k), x);
        }
    }
    // end snippet
    float total = 0.0f;
#pragma unroll 1
    for (unsigned int k = 0; k < kSums; ++k) {
        total = fmaf(sum[k], static_cast<float>(k + 1), total);
    }
    out[thread] = total;
}

// The same with a bound that the caller gives. The pragma asks for the
// impossible, and the compiler says nothing.
// Memory: as rolled.
// Launch assumption: as unrolled; count at most 32.
__global__ void counted(float *__restrict__ out, unsigned int steps,
                        unsigned int count)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    float x = firstOf(thread);
    float sum[kSums] = {};
    // snippet: counted
    for (unsigned int step = 0; step < steps; ++step) {
        x = fmaf(x, kFactor, kAddend);
#pragma unroll
        for (unsigned int k = 0; k < count; ++k) {
            sum[k] = fmaf(sum[k], keptOf(k), x);
        }
    }
    // end snippet
    float total = 0.0f;
    for (unsigned int k = 0; k < count; ++k) {
        total = fmaf(sum[k], static_cast<float>(k + 1), total);
    }
    out[thread] = total;
}

// --- Kernels: bins ----------------------------------------------------------

// The sum over the bins, each with its own weight, so that a number in the
// wrong bin shows.
__host__ __device__ inline float weighted(float total, float bin,
                                          unsigned int k)
{
    return total + bin * static_cast<float>(k + 1);
}

// 16 bins per thread, indexed by the data.
// Memory: lanes with different bins read words of different lines of 128 bytes:
// up to 16 of them in one access.
// Launch assumption: 256 threads, any grid.
__global__ void indexed(float *__restrict__ out, unsigned int steps,
                        unsigned int /* count */)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    unsigned int random = thread % kPeriod;
    float bins[kBins] = {};
    // snippet: indexed
    for (unsigned int step = 0; step < steps; ++step) {
        random = random * kMultiplier + kIncrement;
        const unsigned int bin = random >> kBinShift;
        const float value = static_cast<float>(random >> 16 & 0xff);
        bins[bin] += value;
    }
    // end snippet
    float total = 0.0f;
#pragma unroll
    for (unsigned int k = 0; k < kBins; ++k) {
        total = weighted(total, bins[k], k);
    }
    out[thread] = total;
}

// The same: every bin is asked whether it is the one, and adds the number or 0.
// Memory: one float per thread at the end.
// Launch assumption: as indexed.
__global__ void compared(float *__restrict__ out, unsigned int steps,
                         unsigned int /* count */)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    unsigned int random = thread % kPeriod;
    float bins[kBins] = {};
    for (unsigned int step = 0; step < steps; ++step) {
        random = random * kMultiplier + kIncrement;
        const unsigned int bin = random >> kBinShift;
        const float value = static_cast<float>(random >> 16 & 0xff);
        // snippet: compared
#pragma unroll
        for (unsigned int k = 0; k < kBins; ++k) {
            bins[k] += k == bin ? value : 0.0f;
        }
        // end snippet
    }
    float total = 0.0f;
#pragma unroll
    for (unsigned int k = 0; k < kBins; ++k) {
        total = weighted(total, bins[k], k);
    }
    out[thread] = total;
}

// The same in shared memory, which has addresses. A thread's bins lie 256 words
// apart, so lane l only ever meets bank l: no conflict, whatever the data
// (day 15). No barrier: nobody else reads them.
// Memory: 16 KiB of shared memory per block.
// Launch assumption: as indexed.
__global__ void sharedBins(float *__restrict__ out, unsigned int steps,
                           unsigned int /* count */)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    unsigned int random = thread % kPeriod;
    // snippet: shared-bins
    __shared__ float bins[kBins][kThreads];
    for (unsigned int k = 0; k < kBins; ++k) {
        bins[k][threadIdx.x] = 0.0f;
    }
    for (unsigned int step = 0; step < steps; ++step) {
        random = random * kMultiplier + kIncrement;
        const unsigned int bin = random >> kBinShift;
        const float value = static_cast<float>(random >> 16 & 0xff);
        bins[bin][threadIdx.x] += value;
    }
    // end snippet
    float total = 0.0f;
    for (unsigned int k = 0; k < kBins; ++k) {
        total = weighted(total, bins[k][threadIdx.x], k);
    }
    out[thread] = total;
}

// --- Paths ------------------------------------------------------------------

struct Path {
    const char *name;
    void (*kernel)(float *, unsigned int, unsigned int);
    bool sums;  // or bins
};

constexpr Path kPaths[] = {
    {"unrolled", unrolled, true}, {"undecided", undecided, true},
    {"rolled", rolled, true},     {"counted", counted, true},
    {"indexed", indexed, false},  {"compared", compared, false},
    {"sharedBins", sharedBins, false},
};
constexpr size_t kPathCount = sizeof(kPaths) / sizeof(kPaths[0]);

static void launch(const Path &path, unsigned int blocks, unsigned int steps,
                   float *d_out)
{
    path.kernel<<<blocks, kThreads>>>(d_out, steps, kSums);
    CUDA_CHECK(cudaGetLastError());
}

// --- CPU reference ----------------------------------------------------------

// What thread t has to leave, for t < 97.
static float referenceOf(bool sums, unsigned int t, unsigned int steps)
{
    std::vector<float> kept(sums ? kSums : kBins, 0.0f);
    float x = firstOf(t);
    unsigned int random = t;
    for (unsigned int step = 0; step < steps; ++step) {
        if (sums) {
            x = std::fmaf(x, kFactor, kAddend);
            for (unsigned int k = 0; k < kSums; ++k) {
                kept[k] = std::fmaf(kept[k], keptOf(k), x);
            }
        } else {
            random = random * kMultiplier + kIncrement;
            kept[random >> kBinShift] +=
                static_cast<float>(random >> 16 & 0xff);
        }
    }
    float total = 0.0f;
    for (unsigned int k = 0; k < kept.size(); ++k) {
        total = sums ? std::fmaf(kept[k], static_cast<float>(k + 1), total)
                     : weighted(total, kept[k], k);
    }
    return total;
}

// --- Gates ------------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *path = nullptr;
    size_t index = 0;
    float got = 0.0f;
    float want = 0.0f;
};

// Every thread's result, bit for bit. Returns how many were compared.
static size_t judgePath(const Path &path, unsigned int blocks,
                        unsigned int steps, float *d_out, Failure *failure)
{
    std::vector<float> want;
    for (unsigned int t = 0; t < kPeriod; ++t) {
        want.push_back(referenceOf(path.sums, t, steps));
    }
    std::vector<float> got(static_cast<size_t>(blocks) * kThreads, NAN);
    const size_t bytes = got.size() * sizeof(float);
    CUDA_CHECK(cudaMemset(d_out, 0xff, bytes));
    launch(path, blocks, steps, d_out);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(got.data(), d_out, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < got.size() && failure->path == nullptr; ++i) {
        if (!(got[i] == want[i % kPeriod])) {
            *failure = {path.name, i, got[i], want[i % kPeriod]};
        }
    }
    return got.size();
}

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats times, milliseconds per launch.
struct Spread {
    double median = 0.0;
    double least = 0.0;
    double most = 0.0;
};

static Spread spreadOf(std::vector<double> samples)
{
    std::sort(samples.begin(), samples.end());
    return {samples[samples.size() / 2], samples.front(), samples.back()};
}

// The paths take turns, forwards and backwards, so that a drifting clock meets
// all of them.
static void timeAll(unsigned int blocks, float *d_out, Spread *spreads)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));

    const auto launchMs = [&](const Path &path) {
        float ms = 0.0f;
        launch(path, blocks, kSteps, d_out);
        CUDA_CHECK(cudaEventRecord(start));
        for (int i = 0; i < kLaunches; ++i) {
            launch(path, blocks, kSteps, d_out);
        }
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms) / kLaunches;
    };

    std::vector<std::vector<double>> samples(kPathCount);
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (size_t turn = 0; turn < kPathCount; ++turn) {
            const size_t p = round % 2 == 0 ? turn : kPathCount - 1 - turn;
            const double ms = launchMs(kPaths[p]);
            if (round >= 0) {
                samples[p].push_back(ms);
            }
        }
    }
    for (size_t p = 0; p < kPathCount; ++p) {
        spreads[p] = spreadOf(samples[p]);
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Kernel statistics and counts -------------------------------------------

static void printKernel(const char *name, const void *kernel,
                        unsigned int threads, const cudaDeviceProp &device)
{
    cudaFuncAttributes attributes = {};
    int blocks = 0;
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, kernel, static_cast<int>(threads), 0));
    const double occupancy = 100.0 * blocks * threads /
                             device.maxThreadsPerMultiProcessor;
    std::printf("  %-15s  %9d  %9zu  %10zu  %9d  %13.1f\n", name,
                attributes.numRegs, attributes.localSizeBytes,
                attributes.sharedSizeBytes, blocks, occupancy);
}

static void printKernels(const cudaDeviceProp &device)
{
    std::printf("\nkernels: as compiled, local memory per thread\n");
    std::printf("  %-15s  %9s  %9s  %10s  %9s  %13s\n", "kernel",
                "registers", "local (B)", "shared (B)", "blocks/SM",
                "occupancy (%)");
    for (const Path &path : kPaths) {
        printKernel(path.name, reinterpret_cast<const void *>(path.kernel),
                    kThreads, device);
    }
}

// What the loops ask for, if the array is in memory: by arithmetic.
static void printWork(unsigned int blocks, unsigned int steps)
{
    const size_t warps = static_cast<size_t>(blocks) * kThreads / kWarp;
    const size_t reads = warps * steps * kSums;
    std::printf("\nwork: counted, not measured\n");
    std::printf("  blocks            %u\n", blocks);
    std::printf("  steps             %u\n", steps);
    std::printf("  multiply-adds     %zu   (of all threads, for the sums)\n",
                reads * kWarp);
    std::printf("  array of sums     %zu B   (of a thread)\n",
                kSums * sizeof(float));
    std::printf("  arrays on an SM   %zu B   (if in local memory)\n",
                kSums * sizeof(float) * kThreads * kBlocksPerSm);
    std::printf("  sums: reads       %zu   (by warps; as many writes)\n",
                reads);
    std::printf("  sums: read bytes  %zu B\n", reads * kWarp * sizeof(float));
    std::printf("  bins: reads       %zu   (by warps; as many writes)\n",
                warps * steps);
}

static void printTimes(bool sums, const Spread *spreads)
{
    std::printf("\n%s: events around launches, the kernels in turns\n",
                sums ? "sums" : "bins");
    std::printf("  %-10s  %9s  %9s  %9s\n", "kernel", "time (ms)",
                "min (ms)", "max (ms)");
    for (size_t p = 0; p < kPathCount; ++p) {
        if (kPaths[p].sums == sums) {
            std::printf("  %-10s  %9.4f  %9.4f  %9.4f\n", kPaths[p].name,
                        spreads[p].median, spreads[p].least,
                        spreads[p].most);
        }
    }
}

// --- Main -------------------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

int main(int argc, char **argv)
{
    Mode mode = Mode::kFull;
    if (argc == 2 && std::strcmp(argv[1], "--quick") == 0) {
        mode = Mode::kQuick;
    } else if (argc == 2 && std::strcmp(argv[1], "--once") == 0) {
        mode = Mode::kOnce;
    } else if (argc != 1) {
        std::fprintf(stderr,
                     "usage: arrays [--quick | --once]\n"
                     "  --quick  one block and few steps, nothing timed\n"
                     "  --once   every kernel once, for profilers\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    const bool quick = mode == Mode::kQuick;
    const unsigned int blocks =
        quick ? kQuickBlocks
              : kBlocksPerSm *
                    static_cast<unsigned int>(device.multiProcessorCount);
    const unsigned int steps = quick ? kQuickSteps : kSteps;
    printKernels(device);
    printWork(blocks, steps);

    Failure failure;
    float *d_out = nullptr;
    int passed = 0;
    CUDA_CHECK(cudaMalloc(&d_out, static_cast<size_t>(blocks) * kThreads *
                                      sizeof(float)));
    std::printf("\ngate: every thread's result, bit for bit, no tolerance\n");
    std::printf("  %-10s  %8s\n", "kernel", "compared");
    for (const Path &path : kPaths) {
        if (failure.path == nullptr) {
            const size_t compared =
                judgePath(path, blocks, steps, d_out, &failure);
            std::printf("  %-10s  %8zu\n", path.name, compared);
            passed += failure.path == nullptr ? 1 : 0;
        }
    }
    if (failure.path == nullptr && mode == Mode::kFull) {
        Spread spreads[kPathCount];
        timeAll(blocks, d_out, spreads);
        std::printf("\ntiming: no data but the arrays, which may lie in a "
                    "cache\n");
        std::printf("  repeats    %d   (time is the median of these)\n",
                    kRepeats);
        std::printf("  launches   %d   (in each, after one that is not "
                    "timed)\n",
                    kLaunches);
        printTimes(true, spreads);
        printTimes(false, spreads);
    }
    CUDA_CHECK(cudaFree(d_out));

    if (failure.path != nullptr) {
        std::fprintf(stderr, "%s fails at thread %zu: %.9g, not %.9g\n",
                     failure.path, failure.index,
                     static_cast<double>(failure.got),
                     static_cast<double>(failure.want));
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

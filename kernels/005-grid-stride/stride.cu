// SPDX-License-Identifier: MIT
//
// Day 5: any size, any grid: the grid-stride loop. c = f * a + b, once with one
// thread per element and a guard (day 2), once with a loop in every thread that
// moves on by as many elements as the grid has threads.
//
// The loop has to be right for every n and every grid, so all of them are
// tried, from one block to many more threads than elements. A sum that is
// computed twice is as right as one that is computed once. So a second copy of
// the same kernel counts, for each element, how often it was visited.
//
// The results are judged by double precision on the CPU. An output is one
// product and one sum, so rtol = max(1e-5, 4 * 2^-23 * sqrt(2)). Behind every
// output lies day 2's canary.
//
// Then one large n is timed for grids from one block to one thread per
// element. Times come from events, which are day 6's subject; every sample is
// several launches, and the arrays are far larger than the L2.
//
// Predictions, written before the run: a few blocks cannot fill the GPU, and
// the time falls in proportion until every multiprocessor has what it can hold.
// From there on the grid makes no difference: as many blocks as fit are as fast
// as one thread per element, to within 2 %. A single block more costs little.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o stride stride.cu
// Run: ./stride

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

constexpr unsigned int kThreads = 256;  // threads in a block

// One element; one more than a block; a prime that no grid divides.
constexpr size_t kSizes[] = {1, 257, 1000003};
constexpr size_t kQuickSizes[] = {1, 257, 10007};

// Blocks: one; a prime; as many as there could be multiprocessors; and more
// threads than the largest size has elements.
constexpr unsigned int kGrids[] = {1, 7, 132, 4096};

// 384 MiB in three arrays, far more than the L2, and ragged.
constexpr size_t kTimed = (size_t{1} << 25) + 3;

constexpr size_t kCanary = kThreads;
constexpr int kCanaryByte = 0xa5;
constexpr unsigned int kCanaryBits = 0xa5a5a5a5u;  // a float of four of them

constexpr float kFactor = 1.7f;

// --- Cases ------------------------------------------------------------------

// Periods are primes, and together longer than the vectors that are judged: no
// pair of inputs comes twice there.
constexpr size_t kPeriodA = 1021;
constexpr size_t kPeriodB = 1031;
constexpr size_t kStepA = 23;
constexpr size_t kStepB = 34;

static_assert(kSizes[2] <= kPeriodA * kPeriodB, "no pair comes twice");
static_assert(kTimed % kThreads != 0, "the timed size is ragged as well");

// --- Tolerance --------------------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 5;        // odd: the median is one of the samples
constexpr int kWarmupRounds = 1;   // of all grids, before the first sample
constexpr int kLaunches = 6;       // between two events, of grids that fill
constexpr unsigned int kFew = 64;  // up to here one launch is long enough

constexpr double kGiga = 1e9;

// --- Small helpers ----------------------------------------------------------

// As many whole blocks as cover n elements: n / kThreads, rounded up.
static unsigned int blocksFor(size_t n)
{
    return static_cast<unsigned int>((n + kThreads - 1) / kThreads);
}

// --- Kernels ----------------------------------------------------------------

// c = f * a + b, one thread per element.
// Memory: a warp reads 32 neighbouring floats of a and b and writes 32 of c.
// Launch assumption: at least n threads in all.
__global__ void axpyEach(float f, const float *__restrict__ a,
                         const float *__restrict__ b, float *__restrict__ c,
                         size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = f * a[i] + b[i];
    }
}

// The same for any grid. With kCounted, each visit of an element is counted as
// well; without, the compiler leaves that line out.
// Memory: as axpyEach, then again one whole grid further on.
// Launch assumption: any.
// snippet: loop
template <bool kCounted>
__global__ void axpyStride(float f, const float *__restrict__ a,
                           const float *__restrict__ b, float *__restrict__ c,
                           size_t n, unsigned int *__restrict__ visits)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < n; i += step) {
        c[i] = f * a[i] + b[i];
        if (kCounted) {
            atomicAdd(&visits[i], 1);
        }
    }
}
// end snippet

// --- Inputs -----------------------------------------------------------------

// Element i: a step through 0 .. period - 1, centred on 0 and never 0.
static float elementAt(size_t i, size_t period, size_t step)
{
    const float place = static_cast<float>(i * step % period);
    const float centre = static_cast<float>(period / 2) + 0.3f;
    return 0.003f * (place - centre);
}

// --- Tolerance and error metrics --------------------------------------------

// Day 66's rule, for an output that is a sum of `depth` products.
static double rtolFor(size_t depth)
{
    return std::max(kTableRtol,
                    4.0 * kUlp * std::sqrt(static_cast<double>(depth)));
}

// The share of its allowance that an error uses up; above 1 is a failure. A
// NaN would lose every comparison, so what is not finite counts as infinite.
static double gateFraction(double got, double want, double rtol, double atol)
{
    if (!std::isfinite(got) || !std::isfinite(want)) {
        return HUGE_VAL;
    }
    return std::fabs(got - want) / (atol + rtol * std::fabs(want));
}

struct Verdict {
    double frac = 0.0;
    double zeros = 0.0;   // what an answer of nothing but zeros would get
    size_t index = 0;     // of the worst fraction
    size_t looked = 0;    // elements that were judged
    size_t missed = 0;    // elements that nobody visited
    size_t repeated = 0;  // elements that were visited more than once
    size_t changed = 0;   // canary floats of which a bit changed
};

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    unsigned int blocks = 0;
    size_t n = 0;
    size_t count = 0;
    size_t index = 0;
};

// --- The GPU's part ---------------------------------------------------------

struct Buffers {
    float *d_a = nullptr;
    float *d_b = nullptr;
    float *d_c = nullptr;
    unsigned int *d_visits = nullptr;
};

// The kernel with or without counting, into outputs that are NaN before.
static std::vector<float> outputsOf(bool counted, unsigned int blocks,
                                    size_t n, const Buffers &b)
{
    std::vector<float> h_c(n + kCanary, NAN);
    CUDA_CHECK(cudaMemset(b.d_c, 0xff, n * sizeof(float)));
    CUDA_CHECK(cudaMemset(b.d_c + n, kCanaryByte, kCanary * sizeof(float)));
    if (counted) {
        CUDA_CHECK(cudaMemset(b.d_visits, 0, n * sizeof(unsigned int)));
        axpyStride<true><<<blocks, kThreads>>>(kFactor, b.d_a, b.d_b, b.d_c,
                                               n, b.d_visits);
    } else {
        axpyStride<false><<<blocks, kThreads>>>(kFactor, b.d_a, b.d_b, b.d_c,
                                                n, nullptr);
    }
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_c.data(), b.d_c, h_c.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));
    return h_c;
}

// --- Gates ------------------------------------------------------------------

static void judgeOutputs(const std::vector<float> &h_a,
                         const std::vector<float> &h_b,
                         const std::vector<float> &h_c, Verdict *verdict)
{
    const size_t n = h_a.size();
    std::vector<double> reference(n);
    double maxReference = 0.0;
    for (size_t i = 0; i < n; ++i) {
        reference[i] = static_cast<double>(kFactor) * h_a[i] + h_b[i];
        maxReference = std::max(maxReference, std::fabs(reference[i]));
    }
    const double rtol = rtolFor(2);
    const double atol = rtol * maxReference;
    for (size_t i = 0; i < n; ++i) {
        const double frac = gateFraction(h_c[i], reference[i], rtol, atol);
        if (!(frac <= verdict->frac)) {
            verdict->frac = frac;
            verdict->index = i;
        }
        verdict->zeros = std::max(
            verdict->zeros, gateFraction(0.0, reference[i], rtol, atol));
        ++verdict->looked;
    }
    for (size_t k = 0; k < kCanary; ++k) {
        unsigned int bits = 0;
        std::memcpy(&bits, &h_c[n + k], sizeof(bits));
        verdict->changed += bits == kCanaryBits ? 0 : 1;
    }
}

// Both copies of the kernel, over n elements, with one grid.
static void runCase(unsigned int blocks, size_t n, Failure *failure)
{
    std::vector<float> h_a(n);
    std::vector<float> h_b(n);
    std::vector<unsigned int> h_visits(n);
    for (size_t i = 0; i < n; ++i) {
        h_a[i] = elementAt(i, kPeriodA, kStepA);
        h_b[i] = elementAt(i, kPeriodB, kStepB);
    }
    Buffers b;
    const size_t bytes = n * sizeof(float);
    CUDA_CHECK(cudaMalloc(&b.d_a, bytes));
    CUDA_CHECK(cudaMalloc(&b.d_b, bytes));
    CUDA_CHECK(cudaMalloc(&b.d_c, bytes + kCanary * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_visits, n * sizeof(unsigned int)));
    CUDA_CHECK(cudaMemcpy(b.d_a, h_a.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b.d_b, h_b.data(), bytes, cudaMemcpyHostToDevice));

    Verdict verdict;
    judgeOutputs(h_a, h_b, outputsOf(false, blocks, n, b), &verdict);
    judgeOutputs(h_a, h_b, outputsOf(true, blocks, n, b), &verdict);
    CUDA_CHECK(cudaMemcpy(h_visits.data(), b.d_visits,
                          n * sizeof(unsigned int), cudaMemcpyDeviceToHost));
    // snippet: visits
    for (const unsigned int visits : h_visits) {
        verdict.missed += visits == 0 ? 1 : 0;
        verdict.repeated += visits > 1 ? 1 : 0;
    }
    // end snippet
    CUDA_CHECK(cudaFree(b.d_a));
    CUDA_CHECK(cudaFree(b.d_b));
    CUDA_CHECK(cudaFree(b.d_c));
    CUDA_CHECK(cudaFree(b.d_visits));

    const size_t threads = static_cast<size_t>(blocks) * kThreads;
    std::printf("  n = %-7zu  %7zu  %9zu  %9.4f  %10.1f  %6zu  %8zu  %14zu\n",
                n, threads, (n + threads - 1) / threads, verdict.frac,
                verdict.zeros, verdict.missed, verdict.repeated,
                verdict.changed);
    // Written so that a fraction that is not a number fails as well.
    if (!(verdict.frac <= 1.0)) {
        *failure = {"the result is wrong", blocks, n, 1, verdict.index};
    } else if (verdict.missed + verdict.repeated != 0) {
        *failure = {"elements are not visited once", blocks, n,
                    verdict.missed + verdict.repeated, 0};
    } else if (verdict.changed != 0) {
        *failure = {"the canary changed", blocks, n, verdict.changed, n};
    } else if (verdict.looked != 2 * n) {
        *failure = {"not all was looked at", blocks, n, verdict.looked, 0};
    }
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

static constexpr unsigned int kOnePerElement = 0;  // not a grid, a kernel

static void launchTimed(unsigned int blocks, const Buffers &b)
{
    if (blocks == kOnePerElement) {
        axpyEach<<<blocksFor(kTimed), kThreads>>>(kFactor, b.d_a, b.d_b,
                                                  b.d_c, kTimed);
    } else {
        axpyStride<false><<<blocks, kThreads>>>(kFactor, b.d_a, b.d_b, b.d_c,
                                                kTimed, nullptr);
    }
    CUDA_CHECK(cudaGetLastError());
}

// Times all grids beside each other. They take turns, forwards and backwards,
// so that a drifting clock meets all of them.
static std::vector<Spread> timeAll(const std::vector<unsigned int> &grids,
                                   const Buffers &b)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));

    const auto launchMs = [&](unsigned int blocks) {
        const bool few = blocks != kOnePerElement && blocks < kFew;
        const int launches = few ? 1 : kLaunches;
        float ms = 0.0f;
        CUDA_CHECK(cudaEventRecord(start));
        for (int i = 0; i < launches; ++i) {
            launchTimed(blocks, b);
        }
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms) / launches;
    };

    std::vector<std::vector<double>> samples(grids.size());
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (size_t turn = 0; turn < grids.size(); ++turn) {
            const size_t i = round % 2 == 0 ? turn : grids.size() - 1 - turn;
            const double ms = launchMs(grids[i]);
            if (round >= 0) {
                samples[i].push_back(ms);
            }
        }
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    std::vector<Spread> spreads;
    for (const std::vector<double> &each : samples) {
        spreads.push_back(spreadOf(each));
    }
    return spreads;
}

// --- Kernel statistics and tables -------------------------------------------

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
    printKernel("axpyEach", reinterpret_cast<const void *>(axpyEach),
                kThreads, device);
    printKernel("axpyStride",
                reinterpret_cast<const void *>(axpyStride<false>), kThreads,
                device);
    printKernel("counted", reinterpret_cast<const void *>(axpyStride<true>),
                kThreads, device);
}

// Blocks of the grid-stride kernel that fill the GPU exactly once.
// snippet: fits
static unsigned int blocksThatFit(const cudaDeviceProp &device)
{
    int blocks = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, axpyStride<false>, static_cast<int>(kThreads), 0));
    return static_cast<unsigned int>(blocks * device.multiProcessorCount);
}
// end snippet

static void printTime(const char *label, unsigned int blocks,
                      const Spread &spread)
{
    const double bytes = 3.0 * sizeof(float) * kTimed;
    std::printf("  %-15s  %6u  %9.4f  %9.4f  %9.4f  %11.1f\n", label, blocks,
                spread.median, spread.least, spread.most,
                bytes / (spread.median * 1e-3) / kGiga);
}

static void printTimes(const cudaDeviceProp &device)
{
    const unsigned int sms =
        static_cast<unsigned int>(device.multiProcessorCount);
    const unsigned int fit = blocksThatFit(device);
    std::vector<unsigned int> grids = {
        kOnePerElement, 1,       8,       sms / 2, sms,     2 * sms, fit / 2,
        fit - 1,        fit,     fit + 1, 2 * fit, 4 * fit, 16 * fit};
    std::sort(grids.begin(), grids.end());  // kOnePerElement is the first
    grids.erase(std::unique(grids.begin(), grids.end()), grids.end());
    Buffers b;
    CUDA_CHECK(cudaMalloc(&b.d_a, kTimed * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_b, kTimed * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_c, kTimed * sizeof(float)));
    std::vector<float> h_in(kTimed);
    for (size_t i = 0; i < kTimed; ++i) {
        h_in[i] = elementAt(i, kPeriodA, kStepA);
    }
    CUDA_CHECK(cudaMemcpy(b.d_a, h_in.data(), kTimed * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b.d_b, h_in.data(), kTimed * sizeof(float),
                          cudaMemcpyHostToDevice));
    const std::vector<Spread> spreads = timeAll(grids, b);
    CUDA_CHECK(cudaFree(b.d_a));
    CUDA_CHECK(cudaFree(b.d_b));
    CUDA_CHECK(cudaFree(b.d_c));

    const size_t bytes = 3 * sizeof(float) * kTimed;
    std::printf("\nbytes: counted, not measured\n");
    std::printf("  elements            %zu\n", kTimed);
    std::printf("  read and written    %zu B   (a, b and c, once each)\n",
                bytes);
    std::printf("  bytes over L2       %.1fx\n",
                static_cast<double>(bytes) / device.l2CacheSize);
    std::printf("  blocks that fit     %u   (at once, of axpyStride)\n", fit);

    std::printf("\ntimes: medians of %d samples, nothing kept in the L2\n",
                kRepeats);
    std::printf("  %-15s  %6s  %9s  %9s  %9s  %11s\n", "path", "blocks",
                "time (ms)", "min (ms)", "max (ms)", "rate (GB/s)");
    printTime("one per element", blocksFor(kTimed), spreads[0]);
    for (size_t i = 1; i < grids.size(); ++i) {
        const char *label = grids[i] == fit - 1   ? "one less"
                            : grids[i] == fit     ? "as many as fit"
                            : grids[i] == fit + 1 ? "one more"
                                                  : nullptr;
        if (label != nullptr) {
            printTime(label, grids[i], spreads[i]);
        }
    }
    std::printf("\nsweep: the grid-stride loop over the same n\n");
    std::printf("  %-15s  %6s  %9s  %9s  %9s  %11s\n", "grid", "blocks",
                "time (ms)", "min (ms)", "max (ms)", "rate (GB/s)");
    for (size_t i = 1; i < grids.size(); ++i) {
        if (grids[i] != fit - 1 && grids[i] != fit + 1) {
            char label[32];
            std::snprintf(label, sizeof(label), "blocks %u", grids[i]);
            printTime(label, grids[i], spreads[i]);
        }
    }
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: stride [--quick]\n"
                             "  --quick  small sizes, nothing timed\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    std::printf("  gate rtol         %.3e   (max(1e-5, 4 * 2^-23 * sqrt(2)); "
                "atol = rtol * max |reference|)\n",
                rtolFor(2));
    printKernels(device);

    Failure failure;
    int passed = 0;
    for (const unsigned int blocks : kGrids) {
        if (failure.what != nullptr) {
            break;
        }
        std::printf("\ncase %u blocks: both copies of the loop\n", blocks);
        std::printf("  %-11s  %7s  %9s  %9s  %10s  %6s  %8s  %14s\n", "size",
                    "threads", "laps", "gate frac", "zeros frac", "missed",
                    "repeated", "canary changed");
        for (const size_t n : quick ? kQuickSizes : kSizes) {
            if (failure.what == nullptr) {
                runCase(blocks, n, &failure);
                passed += failure.what == nullptr ? 1 : 0;
            }
        }
    }
    if (failure.what == nullptr && !quick) {
        printTimes(device);
    }

    if (failure.what != nullptr) {
        std::fprintf(stderr,
                     "%s with %u blocks at n = %zu, in %zu places, the worst "
                     "or first at element %zu\n",
                     failure.what, failure.blocks, failure.n, failure.count,
                     failure.index);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

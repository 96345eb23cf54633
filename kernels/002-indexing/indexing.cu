// SPDX-License-Identifier: MIT
//
// Day 2: indexing, guards, ragged sizes. c = a + b for any n, one thread per
// element, in blocks of 256.
//
// A grid consists of whole blocks, so there are as many blocks as cover n, and
// the last one mostly has threads to spare. The kernel add has a guard for
// them. The kernel owners writes down, for each element, which block and which
// thread of it took it.
//
// Sums are judged as on day 1: double precision on the CPU, one addition, so
// rtol = max(1e-5, 4 * 2^-23 * sqrt(1)), and to the bit on whole numbers. The
// owners are judged by i / 256 and i % 256.
//
// What a missing guard does is not in c but behind it. So there a canary is
// kept: one block's worth of floats with a known pattern, in the same
// allocation as c. If one bit of it has changed, the program fails.
//
// Sizes lie on both sides of a warp (32) and of a block (256), and one is a
// large prime. The file exists to show what a guard costs: idle threads, which
// are counted here, not timed.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o indexing indexing.cu
// Run: ./indexing

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
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
constexpr unsigned int kThreads = 256;  // threads in a block

// A warp and a block, one element less and more; one element alone; a prime.
constexpr size_t kSizes[] = {1, 31, 32, 33, 255, 256, 257, 1000003};

// An unguarded last block writes at most kThreads - 1 elements past the end.
constexpr size_t kCanary = kThreads;
constexpr int kCanaryByte = 0xa5;
constexpr unsigned int kCanaryBits = 0xa5a5a5a5u;  // a float of four of them

static_assert(kThreads % kWarp == 0, "a block is whole warps");
static_assert(kThreads <= 1024, "no GPU takes a larger block");

// --- Cases ------------------------------------------------------------------

struct Case {
    const char *name;
    const char *about;
    float unit;    // what a step is worth
    float offset;  // in steps; a fraction keeps every value away from 0
    bool exact;    // the sums have to be equal, not only close
};

constexpr Case kCases[] = {
    {"fractions", "sums that have to be rounded", 0.003f, 0.3f, false},
    {"whole numbers", "sums that a float holds exactly", 1.0f, 0.0f, true},
};

// Periods are primes, and together longer than the vectors: no pair of inputs
// comes twice.
constexpr size_t kPeriodA = 1021;
constexpr size_t kPeriodB = 1031;
constexpr size_t kStepA = 23;
constexpr size_t kStepB = 34;

// Elements whose owners are printed: where warps and blocks begin and end.
constexpr size_t kShown[] = {0, 31, 32, 255, 256, 1000002};

constexpr bool sizesFit()
{
    for (const size_t n : kSizes) {
        if (n > kPeriodA * kPeriodB) {
            return false;
        }
    }
    return true;
}

static_assert(sizesFit(), "no pair of inputs comes twice");
static_assert(kPeriodA + kPeriodB < (1 << 24), "whole sums are exact in FP32");

// --- Tolerance --------------------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

// --- Small helpers ----------------------------------------------------------

// snippet: blocks-for
// As many whole blocks as cover n elements: n / kThreads, rounded up.
static unsigned int blocksFor(size_t n)
{
    return static_cast<unsigned int>((n + kThreads - 1) / kThreads);
}
// end snippet

// --- Kernels ----------------------------------------------------------------

// c = a + b, one thread per element.
// Memory: a warp reads 32 neighbouring floats of a and b and writes 32 of c;
// the last working warp may touch fewer. Nothing is read twice.
// Launch assumption: at least n threads in all; any n.
// snippet: kernel
__global__ void add(const float *__restrict__ a, const float *__restrict__ b,
                    float *__restrict__ c, size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
// end snippet

// For each element, the block and the thread in it that took the element.
// Memory: a warp writes 32 neighbouring numbers of each array.
// Launch assumption: at least n threads in all; any n.
// snippet: owners
__global__ void owners(unsigned int *__restrict__ block,
                       unsigned int *__restrict__ thread, size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        block[i] = blockIdx.x;
        thread[i] = threadIdx.x;
    }
}
// end snippet

// --- Inputs -----------------------------------------------------------------

// Element i: a step through 0 .. period - 1, centred on 0.
static float elementAt(size_t i, size_t period, size_t step, const Case &input)
{
    const float place = static_cast<float>(i * step % period);
    const float centre = static_cast<float>(period / 2) + input.offset;
    return input.unit * (place - centre);
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

struct Gate {
    double rtol = 0.0;
    double atol = 0.0;
};

struct Worst {
    double error = 0.0;
    double frac = 0.0;
    size_t index = 0;  // of the worst fraction
    double got = 0.0;
    double want = 0.0;
};

static void judge(double got, double want, size_t index, const Gate &gate,
                  Worst *worst)
{
    const double frac = gateFraction(got, want, gate.rtol, gate.atol);
    const double error =
        frac == HUGE_VAL ? HUGE_VAL : std::fabs(got - want);
    worst->error = std::max(worst->error, error);
    if (!(frac <= worst->frac)) {
        worst->frac = frac;
        worst->index = index;
        worst->got = got;
        worst->want = want;
    }
}

// What went wrong first; reported after everything has been printed.
struct Failure {
    const char *what = nullptr;
    size_t n = 0;
    size_t count = 0;  // of places that are wrong
    Worst worst;
};

// --- The GPU's part ---------------------------------------------------------

struct Answer {
    std::vector<float> sums;    // n of them
    std::vector<float> canary;  // what lies behind them
};

static Answer addOnGpu(const std::vector<float> &h_a,
                       const std::vector<float> &h_b)
{
    const size_t n = h_a.size();
    const size_t bytes = n * sizeof(float);
    const size_t canaryBytes = kCanary * sizeof(float);
    float *d_a = nullptr;
    float *d_b = nullptr;
    float *d_c = nullptr;
    CUDA_CHECK(cudaMalloc(&d_a, bytes));
    CUDA_CHECK(cudaMalloc(&d_b, bytes));
    CUDA_CHECK(cudaMemcpy(d_a, h_a.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, h_b.data(), bytes, cudaMemcpyHostToDevice));

    // snippet: canary
    CUDA_CHECK(cudaMalloc(&d_c, bytes + canaryBytes));
    CUDA_CHECK(cudaMemset(d_c, 0xff, bytes));  // every sum is now a NaN
    CUDA_CHECK(cudaMemset(d_c + n, kCanaryByte, canaryBytes));

    add<<<blocksFor(n), kThreads>>>(d_a, d_b, d_c, n);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    // end snippet

    Answer answer = {std::vector<float>(n, NAN),
                     std::vector<float>(kCanary, NAN)};
    CUDA_CHECK(cudaMemcpy(answer.sums.data(), d_c, bytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(answer.canary.data(), d_c + n, canaryBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_c));
    return answer;
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
    printKernel("add", reinterpret_cast<const void *>(add), kThreads, device);
    printKernel("owners", reinterpret_cast<const void *>(owners), kThreads,
                device);
}

// Threads that find no element, by arithmetic. Some sit in a warp beside
// threads that work, the others in warps that have no work at all.
static void printIdle()
{
    std::printf("\nidle: counted, not measured\n");
    std::printf("  threads in a block   %u\n", kThreads);
    std::printf("  threads in a warp    %u\n\n", kWarp);
    std::printf("  %-11s  %6s  %7s  %4s  %9s  %13s  %10s\n", "size", "blocks",
                "threads", "idle", "share (%)", "in busy warps",
                "idle warps");
    for (const size_t n : kSizes) {
        const size_t blocks = blocksFor(n);
        const size_t threads = blocks * kThreads;
        const size_t idle = threads - n;
        const size_t busyWarps = (n + kWarp - 1) / kWarp;
        std::printf("  n = %-7zu  %6zu  %7zu  %4zu  %9.2f  %13zu  %10zu\n", n,
                    blocks, threads, idle,
                    100.0 * static_cast<double>(idle) /
                        static_cast<double>(threads),
                    busyWarps * kWarp - n, threads / kWarp - busyWarps);
    }
}

// --- One case ---------------------------------------------------------------

struct Verdict {
    Gate gate;
    size_t inexact = 0;  // sums that differ from the reference at all
    size_t changed = 0;  // canary floats of which a bit changed
    size_t firstChanged = 0;
    Worst add;
    Worst zeros;  // what an answer of nothing but zeros would get
};

static Verdict judgeCase(const std::vector<float> &h_a,
                         const std::vector<float> &h_b, const Answer &answer)
{
    const size_t n = h_a.size();
    std::vector<double> reference(n);
    double maxReference = 0.0;
    for (size_t i = 0; i < n; ++i) {
        reference[i] = static_cast<double>(h_a[i]) + h_b[i];
        maxReference = std::max(maxReference, std::fabs(reference[i]));
    }

    Verdict verdict;
    verdict.gate = {rtolFor(1), rtolFor(1) * maxReference};
    for (size_t i = 0; i < n; ++i) {
        judge(answer.sums[i], reference[i], i, verdict.gate, &verdict.add);
        judge(0.0, reference[i], i, verdict.gate, &verdict.zeros);
        if (!(static_cast<double>(answer.sums[i]) == reference[i])) {
            ++verdict.inexact;
        }
    }

    // snippet: canary-check
    for (size_t k = 0; k < kCanary; ++k) {
        unsigned int bits = 0;
        std::memcpy(&bits, &answer.canary[k], sizeof(bits));
        if (bits != kCanaryBits) {
            verdict.firstChanged =
                verdict.changed == 0 ? k : verdict.firstChanged;
            ++verdict.changed;
        }
    }
    // end snippet
    return verdict;
}

// Adds one pair of vectors of n elements and judges sums and canary. If they
// are wrong, `failure` says which and where.
static void runCase(const Case &input, size_t n, Failure *failure)
{
    std::vector<float> h_a(n);
    std::vector<float> h_b(n);
    for (size_t i = 0; i < n; ++i) {
        h_a[i] = elementAt(i, kPeriodA, kStepA, input);
        h_b[i] = elementAt(i, kPeriodB, kStepB, input);
    }
    const Answer answer = addOnGpu(h_a, h_b);
    const Verdict verdict = judgeCase(h_a, h_b, answer);
    std::printf("  n = %-7zu  %11.3e  %9.4f  %10.1f  %7zu  %14zu\n", n,
                verdict.add.error, verdict.add.frac, verdict.zeros.frac,
                verdict.inexact, verdict.changed);

    // Written so that a fraction that is not a number fails as well.
    if (!(verdict.add.frac <= 1.0)) {
        *failure = {"the sum", n, verdict.inexact, verdict.add};
    } else if (input.exact && verdict.inexact != 0) {
        *failure = {"the sum, to the bit,", n, verdict.inexact, verdict.add};
    } else if (verdict.changed != 0) {
        float canary = 0.0f;
        Worst worst;
        worst.index = n + verdict.firstChanged;
        worst.got = answer.canary[verdict.firstChanged];
        std::memcpy(&canary, &kCanaryBits, sizeof(canary));
        worst.want = canary;
        *failure = {"the canary", n, verdict.changed, worst};
    }
}

// --- Owners -----------------------------------------------------------------

// Asks every element of the largest size who took it, and prints a few.
static void runOwners(Failure *failure)
{
    const size_t n = *std::max_element(std::begin(kSizes), std::end(kSizes));
    const size_t bytes = n * sizeof(unsigned int);
    std::vector<unsigned int> h_block(n);
    std::vector<unsigned int> h_thread(n);
    unsigned int *d_block = nullptr;
    unsigned int *d_thread = nullptr;
    CUDA_CHECK(cudaMalloc(&d_block, bytes));
    CUDA_CHECK(cudaMalloc(&d_thread, bytes));
    CUDA_CHECK(cudaMemset(d_block, 0xff, bytes));  // no block has this number
    CUDA_CHECK(cudaMemset(d_thread, 0xff, bytes));
    owners<<<blocksFor(n), kThreads>>>(d_block, d_thread, n);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_block.data(), d_block, bytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(h_thread.data(), d_thread, bytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_block));
    CUDA_CHECK(cudaFree(d_thread));

    std::printf("\nowners: which thread took which element\n");
    std::printf("  elements   %zu\n\n", n);
    std::printf("  %-12s  %5s  %6s  %13s  %12s\n", "element", "block",
                "thread", "warp in block", "lane in warp");
    for (const size_t i : kShown) {
        std::printf("  i = %-8zu  %5u  %6u  %13u  %12u\n", i, h_block[i],
                    h_thread[i], h_thread[i] / kWarp, h_thread[i] % kWarp);
    }
    for (size_t i = 0; i < n && failure->what == nullptr; ++i) {
        if (h_block[i] != i / kThreads || h_thread[i] != i % kThreads) {
            failure->what = "the owner";
            failure->n = n;
            failure->count = 1;
            failure->worst.index = i;
            failure->worst.got =
                static_cast<double>(h_block[i]) * kThreads + h_thread[i];
            failure->worst.want = static_cast<double>(i);
        }
    }
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
    printKernels(device);
    printIdle();

    Failure failure;
    int passed = 0;
    runOwners(&failure);
    passed += failure.what == nullptr ? 1 : 0;
    for (const Case &input : kCases) {
        if (failure.what != nullptr) {
            break;
        }
        std::printf("\ncase %s: %s\n", input.name, input.about);
        std::printf("  gate rtol   %.3e   (max(1e-5, 4 * 2^-23 * sqrt(1)); "
                    "atol = rtol * max |reference|)\n\n",
                    rtolFor(1));
        std::printf("  %-11s  %11s  %9s  %10s  %7s  %14s\n", "size",
                    "max abs err", "gate frac", "zeros frac", "inexact",
                    "canary changed");
        for (const size_t n : kSizes) {
            runCase(input, n, &failure);
            if (failure.what != nullptr) {
                break;
            }
            ++passed;
        }
    }

    if (failure.what != nullptr) {
        const Worst &worst = failure.worst;
        std::fprintf(stderr,
                     "%s fails at n = %zu, in %zu places: element %zu (block "
                     "%zu, thread %zu) is %.9g, not %.9g\n",
                     failure.what, failure.n, failure.count, worst.index,
                     worst.index / kThreads, worst.index % kThreads, worst.got,
                     worst.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

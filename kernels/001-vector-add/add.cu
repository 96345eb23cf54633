// SPDX-License-Identifier: MIT
//
// Day 1: vector add and the one error macro. c = a + b for 2^20 floats, with
// one GPU thread for each element.
//
// There is one path: the numbers are copied to the GPU's memory, the kernel
// add runs there, the sums are copied back. Every call into CUDA stands in
// CUDA_CHECK, which ends the program at the first call that fails.
//
// The judge is the CPU, which adds the same numbers in double precision. One
// output is one addition, so the rule that every program here follows (day 66)
// takes K = 1: rtol = max(1e-5, 4 * 2^-23 * sqrt(1)). A second case adds whole
// numbers, whose sums a float holds exactly: there, no bit may differ.
//
// No two elements add the same pair of numbers, so a thread that works on the
// wrong element is noticed. Before the launch, the memory for the sums is
// filled with NaN, so a thread that never ran is noticed too.
//
// The file exists to be the shape of all that follow: GPU line, kernel table,
// cases, gates, and an exit status that can be believed. Nothing is timed.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o add add.cu
// Run: ./add

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

// snippet: error-macro
#define CUDA_CHECK(call)                                                    \
    do {                                                                    \
        const cudaError_t error_ = (call);                                  \
        if (error_ != cudaSuccess) {                                        \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__,     \
                         #call, cudaGetErrorString(error_));                \
            std::exit(EXIT_FAILURE);                                        \
        }                                                                   \
    } while (0)
// end snippet

// --- Shapes -----------------------------------------------------------------

// snippet: shape
constexpr size_t kCount = size_t{1} << 20;  // elements: 2^20
constexpr unsigned int kThreads = 256;      // threads in a block
constexpr unsigned int kBlocks = kCount / kThreads;
constexpr size_t kBytes = kCount * sizeof(float);  // of one vector

static_assert(kCount % kThreads == 0, "no guard: the blocks end where c ends");
// end snippet
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

static_assert(kPeriodA * kPeriodB >= kCount, "no pair of inputs comes twice");
static_assert(kPeriodA + kPeriodB < (1 << 24), "whole sums are exact in FP32");

// --- Tolerance --------------------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

// --- Kernel -----------------------------------------------------------------

// c = a + b, one thread per element.
// Memory: 32 neighbouring threads, a warp, read 32 neighbouring floats of a
// and of b and write 32 of c. Nothing is read twice.
// Launch assumption: the grid has exactly as many threads as c has elements.
// snippet: kernel
__global__ void add(const float *__restrict__ a, const float *__restrict__ b,
                    float *__restrict__ c)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
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

// snippet: gate
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
// end snippet

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
    const char *name = nullptr;
    Worst worst;
};

// --- The GPU's part ---------------------------------------------------------

static void addOnGpu(const std::vector<float> &h_a,
                     const std::vector<float> &h_b, std::vector<float> *h_c)
{
    // snippet: allocate
    float *d_a = nullptr;
    float *d_b = nullptr;
    float *d_c = nullptr;
    CUDA_CHECK(cudaMalloc(&d_a, kBytes));
    CUDA_CHECK(cudaMalloc(&d_b, kBytes));
    CUDA_CHECK(cudaMalloc(&d_c, kBytes));
    // end snippet

    // snippet: copy-in
    CUDA_CHECK(cudaMemcpy(d_a, h_a.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, h_b.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_c, 0xff, kBytes));  // every float is now a NaN
    // end snippet

    // snippet: launch
    add<<<kBlocks, kThreads>>>(d_a, d_b, d_c);
    CUDA_CHECK(cudaGetLastError());       // did it start?
    CUDA_CHECK(cudaDeviceSynchronize());  // did it come to a good end?
    // end snippet

    // snippet: copy-out
    CUDA_CHECK(cudaMemcpy(h_c->data(), d_c, kBytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_c));
    // end snippet
}

// --- Kernel statistics ------------------------------------------------------

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
}

static void printLaunch()
{
    std::printf("\nlaunch: one thread for each element\n");
    std::printf("  elements            %zu\n", kCount);
    std::printf("  threads in a block  %u\n", kThreads);
    std::printf("  blocks              %u\n", kBlocks);
    std::printf("  copied to the GPU   %zu B   (a and b)\n", 2 * kBytes);
    std::printf("  copied back         %zu B   (c)\n", kBytes);
}

// --- One case ---------------------------------------------------------------

struct Verdict {
    double maxReference = 0.0;
    Gate gate;
    size_t inexact = 0;  // sums that differ from the reference at all
    Worst add;
    Worst zeros;  // what an answer of nothing but zeros would get
};

static Verdict judgeCase(const std::vector<float> &h_a,
                         const std::vector<float> &h_b,
                         const std::vector<float> &h_c)
{
    // snippet: reference
    std::vector<double> reference(kCount);
    for (size_t i = 0; i < kCount; ++i) {
        reference[i] = static_cast<double>(h_a[i]) + h_b[i];
    }
    // end snippet

    Verdict verdict;
    for (const double value : reference) {
        verdict.maxReference = std::max(verdict.maxReference,
                                        std::fabs(value));
    }
    verdict.gate = {rtolFor(1), rtolFor(1) * verdict.maxReference};
    for (size_t i = 0; i < kCount; ++i) {
        judge(h_c[i], reference[i], i, verdict.gate, &verdict.add);
        judge(0.0, reference[i], i, verdict.gate, &verdict.zeros);
        if (!(static_cast<double>(h_c[i]) == reference[i])) {
            ++verdict.inexact;
        }
    }
    return verdict;
}

static void printVerdict(const Verdict &verdict)
{
    std::printf("  max |reference|       %.3e\n", verdict.maxReference);
    std::printf("  gate rtol             %.3e   (max(1e-5, 4 * 2^-23 * "
                "sqrt(1)))\n",
                verdict.gate.rtol);
    std::printf("  gate atol             %.3e   (rtol * max |reference|)\n",
                verdict.gate.atol);
    std::printf("  all zeros, gate frac  %.1f\n", verdict.zeros.frac);
    std::printf("  inexact sums          %zu   (of %zu)\n\n", verdict.inexact,
                kCount);
    std::printf("  %-4s  %11s  %9s\n", "path", "max abs err", "gate frac");
    std::printf("  %-4s  %11.3e  %9.4f\n", "add", verdict.add.error,
                verdict.add.frac);
}

// Adds one pair of vectors and judges the sums. If they are wrong, `failure`
// says which and where.
static void runCase(const Case &input, Failure *failure)
{
    std::vector<float> h_a(kCount);
    std::vector<float> h_b(kCount);
    std::vector<float> h_c(kCount, NAN);
    for (size_t i = 0; i < kCount; ++i) {
        h_a[i] = elementAt(i, kPeriodA, kStepA, input);
        h_b[i] = elementAt(i, kPeriodB, kStepB, input);
    }
    addOnGpu(h_a, h_b, &h_c);

    const Verdict verdict = judgeCase(h_a, h_b, h_c);
    std::printf("\ncase %s: %s\n", input.name, input.about);
    printVerdict(verdict);
    // Written so that a fraction that is not a number fails as well.
    if (!(verdict.add.frac <= 1.0)) {
        *failure = {"add", input.name, verdict.add};
    } else if (input.exact && verdict.inexact != 0) {
        *failure = {"add, to the bit,", input.name, verdict.add};
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
    printLaunch();

    Failure failure;
    int passed = 0;
    for (const Case &input : kCases) {
        runCase(input, &failure);
        if (failure.what != nullptr) {
            break;
        }
        ++passed;
    }

    if (failure.what != nullptr) {
        const Worst &worst = failure.worst;
        std::fprintf(stderr,
                     "%s fails on %s: element %zu of %zu (block %zu, thread "
                     "%zu) is %.9g, not %.9g, gate fraction %.4g\n",
                     failure.what, failure.name, worst.index, kCount,
                     worst.index / kThreads, worst.index % kThreads, worst.got,
                     worst.want, worst.frac);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

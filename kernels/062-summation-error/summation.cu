// SPDX-License-Identifier: MIT
//
// Day 62: summation error. How wrong is a sum of K floats, and how does that
// grow with K? Three ways to add the same numbers up, all in FP32:
//
//   serial     one accumulator, one number after the other: K - 1 roundings
//              lie between the first number and the result
//   strided    256 threads, each a serial sum of every 256th number, then a
//              tree in shared memory (day 25): K / 256 and 8 roundings
//   pairwise   a tree all the way, half of what is left in each step: log2 K
//
// One rounding is wrong by at most u = 2^-24 of its result, so d of them in a
// row are wrong by at most d u / (1 - d u) of the sum of the absolute values.
// That is a theorem, and here it is the gate: K - 1 for serial, fewer for the
// others. Errors are printed in units of u times the sum of absolute values.
//
// Three kinds of numbers, 32 rows of each, no two rows alike:
//
//   alike      every number of a row is the same, 0.1 and a little
//   positive   scattered between 0 and 1
//   mixed      scattered between -0.5 and 0.5
//
// All are whole multiples of 2^-24, so the exact sum is a sum of integers, and
// there is no reference that rounds. The order of each path is fixed, so a CPU
// that adds in the same order must get the same bits; that is the second gate.
//
// Predicted from the theory, for serial: alike grows like K, because the same
// addition rounds to the same side again and again; positive like the square
// root of K, as a random walk; mixed not at all, because what is added up stays
// small. Strided the same, 256 times later; pairwise below 2 u at every K.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o summation summation.cu
// Run: ./summation

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

constexpr unsigned int kRows = 32;      // independent sums: a warp of them
constexpr unsigned int kThreads = 256;  // of strided, per row
constexpr unsigned int kLevels = 8;     // of its tree

static_assert(1u << kLevels == kThreads, "the tree ends in one sum");

// --- Cases ------------------------------------------------------------------

enum Kind { kAlike, kPositive, kMixed, kKindCount };
constexpr const char *kKinds[] = {"alike", "positive", "mixed"};

enum Path { kSerial, kStrided, kPairwise, kPathCount };
constexpr const char *kPaths[] = {"serial", "strided", "pairwise"};

// No power of two: every tree has a level that does not come out even.
constexpr size_t kLengths[] = {100,   300,    1000,   3000,   10000,
                               30000, 100000, 300000, 1000000};
constexpr size_t kMost = 1000000;
constexpr size_t kQuickMost = 3000;

// --- Tolerance --------------------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits
constexpr double kUnit = kUlp / 2.0;       // u: the most that a rounding is off
constexpr double kOne = 16777216.0;        // 2^24: the inputs' whole numbers

// --- Kernels ----------------------------------------------------------------

// Lane r adds up row r.
// Memory: number k of all rows lie beside each other, so a warp reads 128
// neighbouring bytes; sixteen loads are on their way at a time.
// Launch assumption: one block of kRows threads.
__global__ void serialSum(const float *__restrict__ x, size_t k,
                          float *__restrict__ sums)
{
    const unsigned int row = threadIdx.x;
    // snippet: serial
    float total = 0.0f;
#pragma unroll 16
    for (size_t i = 0; i < k; ++i) {
        total += x[i * kRows + row];
    }
    // end snippet
    sums[row] = total;
}

// Block r adds up row r.
// Memory: a warp reads one float of each of 32 rows of memory, the layout of
// serialSum; here that costs, and nobody looks at the clock.
// Launch assumption: kThreads threads, kRows blocks.
__global__ void stridedSum(const float *__restrict__ x, size_t k,
                           float *__restrict__ sums)
{
    __shared__ float part[kThreads];
    const unsigned int tid = threadIdx.x;
    const unsigned int row = blockIdx.x;
    // snippet: strided
    float total = 0.0f;
    for (size_t i = tid; i < k; i += kThreads) {
        total += x[i * kRows + row];
    }
    part[tid] = total;
    for (unsigned int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();  // the level above is there
        if (tid < half) {
            part[tid] += part[tid + half];
        }
    }
    // end snippet
    if (tid == 0) {
        sums[row] = part[0];
    }
}

// One level of a tree: number i of what is left is added to number i + half. If
// the count is odd, the middle one has no partner and goes on as it is.
// Memory: a warp reads 32 neighbouring floats, twice, and writes 32.
// Launch assumption: at least half * kRows threads.
// snippet: pairwise
__global__ void foldOnce(const float *__restrict__ in, float *__restrict__ out,
                         size_t count)
{
    const size_t half = (count + 1) / 2;
    const size_t at =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t i = at / kRows;
    if (i < half) {
        const size_t partner = at + half * kRows;
        out[at] = i + half < count ? in[at] + in[partner] : in[at];
    }
}
// end snippet

// --- CPU reference ----------------------------------------------------------

// What a row's first K numbers come to, in whole multiples of 2^-24.
struct Exact {
    long long sum = 0;
    long long absolute = 0;
};

static std::vector<Exact> exactSums(const std::vector<int> &whole, size_t k)
{
    std::vector<Exact> exact(kRows);
    for (size_t i = 0; i < k; ++i) {
        for (unsigned int row = 0; row < kRows; ++row) {
            const long long value = whole[i * kRows + row];
            exact[row].sum += value;
            exact[row].absolute += std::llabs(value);
        }
    }
    return exact;
}

// The three orders once more, in FP32 on the CPU.
static std::vector<float> serialOnCpu(const std::vector<float> &x, size_t k)
{
    std::vector<float> sums(kRows, 0.0f);
    for (size_t i = 0; i < k; ++i) {
        for (unsigned int row = 0; row < kRows; ++row) {
            sums[row] += x[i * kRows + row];
        }
    }
    return sums;
}

static std::vector<float> stridedOnCpu(const std::vector<float> &x, size_t k)
{
    std::vector<float> part(size_t{kThreads} * kRows, 0.0f);
    for (size_t i = 0; i < k; ++i) {
        for (unsigned int row = 0; row < kRows; ++row) {
            part[i % kThreads * kRows + row] += x[i * kRows + row];
        }
    }
    for (size_t half = kThreads / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half * kRows; ++i) {
            part[i] += part[i + half * kRows];
        }
    }
    return {part.begin(), part.begin() + kRows};
}

static std::vector<float> pairwiseOnCpu(const std::vector<float> &x, size_t k)
{
    std::vector<float> left(x.begin(),
                            x.begin() + static_cast<std::ptrdiff_t>(k * kRows));
    for (size_t count = k; count > 1; count = (count + 1) / 2) {
        const size_t half = (count + 1) / 2;
        for (size_t i = 0; i < (count - half) * kRows; ++i) {
            left[i] += left[i + half * kRows];
        }
    }
    return {left.begin(), left.begin() + kRows};
}

// --- Inputs -----------------------------------------------------------------

// Scatters the bits of a number over all of it; no two numbers meet.
static unsigned int scattered(unsigned int value)
{
    value ^= value >> 16;
    value *= 0x7feb352du;
    value ^= value >> 15;
    value *= 0x846ca68bu;
    return value ^ (value >> 16);
}

// In whole multiples of 2^-24, and small enough for FP32 to hold exactly.
static int wholeAt(Kind kind, size_t i, unsigned int row)
{
    if (kind == kAlike) {
        return static_cast<int>(1677721 + 1009 * row);
    }
    const unsigned int place = static_cast<unsigned int>(i) * kRows + row;
    const int value =
        static_cast<int>(scattered(place * 2654435769u + 1u) >> 8);
    return kind == kPositive ? value : value - (1 << 23);
}

// --- Tolerance and error metrics --------------------------------------------

// Day 66's rule, for an output that is a sum of `depth` products.
static double rtolFor(size_t depth)
{
    return std::max(kTableRtol,
                    4.0 * kUlp * std::sqrt(static_cast<double>(depth)));
}

// How many roundings at most lie between a number and the result.
// snippet: depth
static double depthOf(Path path, size_t k)
{
    if (path == kSerial) {
        return static_cast<double>(k - 1);
    }
    if (path == kStrided) {
        return static_cast<double>((k + kThreads - 1) / kThreads - 1 +
                                   kLevels);
    }
    double levels = 0.0;
    for (size_t count = k; count > 1; count = (count + 1) / 2) {
        levels += 1.0;
    }
    return levels;
}

// In units of u times the sum of absolute values.
static double boundOf(Path path, size_t k)
{
    const double depth = depthOf(path, k);
    return depth / (1.0 - depth * kUnit);
}
// end snippet

struct Verdict {
    double worst = 0.0;  // of all rows, in units of u and absolute values
    double square = 0.0; // the mean square of the same
    double relative = 0.0;  // the worst error as a share of its own sum
    double frac = 0.0;   // of the bound
    size_t inexact = 0;  // rows whose bits are not the CPU's
    unsigned int row = 0;
    double got = 0.0;
    double want = 0.0;
};

static Verdict judgePath(Path path, size_t k, const std::vector<float> &got,
                         const std::vector<float> &cpu,
                         const std::vector<Exact> &exact)
{
    Verdict verdict;
    for (unsigned int row = 0; row < kRows; ++row) {
        const double want = static_cast<double>(exact[row].sum) / kOne;
        const double absolute = static_cast<double>(exact[row].absolute) / kOne;
        const double value = static_cast<double>(got[row]);
        // A NaN would lose every comparison, so it counts as infinite.
        const double error = std::isfinite(value) ? std::fabs(value - want)
                                                  : HUGE_VAL;
        const double units = error / (kUnit * absolute);
        const double frac = units / boundOf(path, k);
        verdict.worst = std::max(verdict.worst, units);
        verdict.square += units * units / kRows;
        verdict.relative = std::max(verdict.relative, error / std::fabs(want));
        verdict.inexact += got[row] == cpu[row] ? 0 : 1;
        if (!(frac <= verdict.frac)) {
            verdict.frac = frac;
            verdict.row = row;
            verdict.got = value;
            verdict.want = want;
        }
    }
    return verdict;
}

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    const char *kind = nullptr;
    size_t k = 0;
    Verdict verdict;
};

// --- The GPU's part ---------------------------------------------------------

struct Buffers {
    float *d_x = nullptr;
    float *d_left = nullptr;   // what a level of the tree leaves, and the next
    float *d_right = nullptr;
    float *d_sums = nullptr;
};

static std::vector<float> sumOnGpu(Path path, size_t k, const Buffers &b)
{
    CUDA_CHECK(cudaMemset(b.d_sums, 0xff, kRows * sizeof(float)));  // NaN
    if (path == kSerial) {
        serialSum<<<1, kRows>>>(b.d_x, k, b.d_sums);
        CUDA_CHECK(cudaGetLastError());
    } else if (path == kStrided) {
        stridedSum<<<kRows, kThreads>>>(b.d_x, k, b.d_sums);
        CUDA_CHECK(cudaGetLastError());
    } else {
        const float *from = b.d_x;
        float *to = b.d_left;
        for (size_t count = k; count > 1; count = (count + 1) / 2) {
            const size_t outputs = (count + 1) / 2 * kRows;
            to = count <= 2 ? b.d_sums : to;
            foldOnce<<<static_cast<unsigned int>(
                           (outputs + kThreads - 1) / kThreads),
                       kThreads>>>(from, to, count);
            CUDA_CHECK(cudaGetLastError());
            from = to;
            to = to == b.d_left ? b.d_right : b.d_left;
        }
    }
    std::vector<float> sums(kRows);
    CUDA_CHECK(cudaMemcpy(sums.data(), b.d_sums, kRows * sizeof(float),
                          cudaMemcpyDeviceToHost));
    return sums;
}

// --- One case ---------------------------------------------------------------

static void runKind(Kind kind, size_t most, const Buffers &b, int *passed,
                    Failure *failure)
{
    std::vector<int> whole(most * kRows);
    std::vector<float> x(most * kRows);
    for (size_t i = 0; i < most; ++i) {
        for (unsigned int row = 0; row < kRows; ++row) {
            const size_t at = i * kRows + row;
            whole[at] = wholeAt(kind, i, row);
            x[at] = static_cast<float>(whole[at]) / static_cast<float>(kOne);
        }
    }
    CUDA_CHECK(cudaMemcpy(b.d_x, x.data(), x.size() * sizeof(float),
                          cudaMemcpyHostToDevice));

    for (const Path path : {kSerial, kStrided, kPairwise}) {
        std::printf("\n%s %s: errors of %u sums, in units of u times the sum "
                    "of absolute values\n",
                    kKinds[kind], kPaths[path], kRows);
        std::printf("  %-11s  %9s  %9s  %9s  %9s  %9s  %12s  %7s\n", "numbers",
                    "worst", "rms", "bound", "gate frac", "rule",
                    "relative err", "inexact");
        for (const size_t k : kLengths) {
            if (k > most || failure->what != nullptr) {
                continue;
            }
            const std::vector<float> got = sumOnGpu(path, k, b);
            const std::vector<float> cpu = path == kSerial ? serialOnCpu(x, k)
                                           : path == kStrided
                                               ? stridedOnCpu(x, k)
                                               : pairwiseOnCpu(x, k);
            const Verdict verdict =
                judgePath(path, k, got, cpu, exactSums(whole, k));
            std::printf("  K = %-7zu  %9.3f  %9.3f  %9.1f  %9.4f  %9.1f  "
                        "%12.3e  %7zu\n",
                        k, verdict.worst, std::sqrt(verdict.square),
                        boundOf(path, k), verdict.frac, rtolFor(k) / kUnit,
                        verdict.relative, verdict.inexact);
            // Written so that a fraction that is not a number fails as well.
            if (!(verdict.frac <= 1.0)) {
                *failure = {"is beyond its bound", kKinds[kind], k, verdict};
            } else if (verdict.inexact != 0) {
                *failure = {"is not the CPU's sum", kKinds[kind], k, verdict};
            } else {
                ++*passed;
            }
        }
    }
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: summation [--quick]\n"
                             "  --quick  up to K = 3000\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("\nnumbers: FP32, every one a whole multiple of 2^-24\n");
    std::printf("  u                  %.6e   (2^-24)\n", kUnit);
    std::printf("  rows               %u   (sums of each kind)\n", kRows);
    std::printf("  strided, threads   %u\n", kThreads);

    const size_t most = quick ? kQuickMost : kMost;
    const size_t halfBytes = (most + 1) / 2 * kRows * sizeof(float);
    Buffers b;
    Failure failure;
    int passed = 0;
    CUDA_CHECK(cudaMalloc(&b.d_x, most * kRows * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_left, halfBytes));
    CUDA_CHECK(cudaMalloc(&b.d_right, halfBytes));
    CUDA_CHECK(cudaMalloc(&b.d_sums, kRows * sizeof(float)));
    for (const Kind kind : {kAlike, kPositive, kMixed}) {
        runKind(kind, most, b, &passed, &failure);
    }
    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_left));
    CUDA_CHECK(cudaFree(b.d_right));
    CUDA_CHECK(cudaFree(b.d_sums));

    if (failure.what != nullptr) {
        const Verdict &verdict = failure.verdict;
        std::fprintf(stderr,
                     "%s, K = %zu: the sum of row %u %s: %.9g, exactly %.9g, "
                     "%zu rows not the CPU's, gate fraction %.4g\n",
                     failure.kind, failure.k, verdict.row, failure.what,
                     verdict.got, verdict.want, verdict.inexact, verdict.frac);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

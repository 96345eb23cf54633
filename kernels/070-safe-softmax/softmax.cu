// SPDX-License-Identifier: MIT
//
// Day 70: safe softmax. The weights of a row of scores are exp(s), divided by
// the sum of all of the row's exp(s). On paper, subtracting one number from all
// scores changes no weight. In FP32 it decides whether there are any.
//
//   plain     exp(s), as written
//   shifted   exp(s - 80): the same number subtracted from every score
//   safe      exp(s - m), m the largest score of the row, found in a first pass
//
// 61 rows of 1000 scores, 20 times, with the largest score of each row moved
// from -10000 to 10000 and the others below it by up to 8, in steps of 1/64:
// so far as there are bits, the weights are the same at every level. All paths
// are judged by double precision on the CPU. The total is a sum of n terms, so
// day 66's rule takes K = n: rtol = max(1e-5, 4 * 2^-23 * sqrt(n)). Beside it
// stand two common checks: is everything finite, is the sum 1?
//
// The program passes if safe is right at every level, with the same bits; and
// if plain and shifted are right where the largest argument of exp is between
// -92 and 83, and wrong from 85 or -96 on. Written down before the run:
//
//   exp of more than 88.7 is infinite, and infinity / infinity is NaN; from
//   84 or so only the total overflows, so all weights are 0, and finite; below
//   -93 what exp gives is denormal, and the weights wrong though they sum to 1;
//   below -104 everything is 0, and 0 / 0 is NaN. The first pass of safe costs
//   next to nothing, because the others read from a cache.
//
// Last, what that pass costs, on 65536 rows. The file exists to show that the
// unsafe form can be wrong in ways that no look for NaN finds. One warp per
// row; no shared memory.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o softmax softmax.cu
// Run: ./softmax

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
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr unsigned int kThreads = 256;
constexpr unsigned int kWarps = kThreads / kWarp;  // rows of a block

constexpr unsigned int kScores = 1000;    // of a row: 31 warps and a rest
constexpr unsigned int kRows = 61;        // judged whole, at every level
constexpr unsigned int kLongRows = 65536; // timed: 250 MiB, more than an L2
constexpr unsigned int kSampleStep = 1021;  // every so many of those is judged

static_assert(kScores % kWarp != 0, "the last round of a row is ragged");
static_assert(kRows % kWarps != 0, "the last block has warps to spare");

// --- Cases ------------------------------------------------------------------

// The largest score of every row. With steps of 1/64, all scores are exact.
constexpr float kLevels[] = {0,   -10000, -120, -104, -100, -96, -92,
                             -80, -24,    -16,  -12,  80,   83,  85,
                             88,  90,     120,  163,  165,  10000};
constexpr size_t kLevelCount = sizeof(kLevels) / sizeof(kLevels[0]);
constexpr unsigned int kSteps = 512;  // of 1/64 below the largest: 8
constexpr float kShift = 80.0f;       // what "shifted" subtracts

// Where plain must be right. At the other levels, from 85 or -96 on, it must
// not be; the edge between depends on the row.
constexpr float kRightFrom = -92.0f;
constexpr float kRightTo = 83.0f;

// --- Tolerance and timing ---------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits
constexpr double kSumOff = 1e-3;  // what the check of the sum allows

constexpr int kRepeats = 21;      // odd: the median is one of the samples
constexpr int kWarmupRounds = 3;
constexpr int kLaunches = 10;     // of one sample

constexpr double kGiga = 1e9;
constexpr size_t kMatrix = sizeof(float) * kLongRows * kScores;

// --- Small helpers ----------------------------------------------------------

__device__ float warpMax(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, offset));
    }
    return value;
}

__device__ float warpSum(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(kFullWarp, value, offset);
    }
    return value;
}

// Scatters the bits of a number over all of it; no two numbers meet.
__host__ __device__ inline unsigned int scattered(unsigned int value)
{
    value ^= value >> 16;
    value *= 0x7feb352du;
    value ^= value >> 15;
    value *= 0x846ca68bu;
    return value ^ (value >> 16);
}

// Score i of a row: the level at one place, and up to 8 below it elsewhere.
__host__ __device__ inline float scoreAt(float level, unsigned int row,
                                         unsigned int i)
{
    const unsigned int steps = scattered(row * kScores + i) % (kSteps + 1);
    return i == row * 37 % kScores ? level
                                   : level - static_cast<float>(steps) / 64.0f;
}

// --- Kernels ----------------------------------------------------------------

// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: kThreads threads, a warp for each row.
__global__ void fillRows(float *__restrict__ x, float level, unsigned int rows)
{
    const unsigned int row = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
    if (row < rows) {
        for (unsigned int i = threadIdx.x % kWarp; i < kScores; i += kWarp) {
            x[static_cast<size_t>(row) * kScores + i] = scoreAt(level, row, i);
        }
    }
}

// y = exp(x - base) / total, one warp per row: a pass for the total, one to
// write. With a base of 0, the softmax as it is defined.
// Memory: a warp reads and writes 32 neighbouring floats. The second reading
// of a row, 4000 bytes, finds it in a cache.
// Launch assumption: kThreads threads, a warp for each row. Whole warps leave
// early, so that shuffles find all of their lanes.
__global__ void softmaxPlain(const float *__restrict__ x, float base,
                             float *__restrict__ y, unsigned int rows)
{
    const unsigned int row = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
    const unsigned int lane = threadIdx.x % kWarp;
    if (row >= rows) {
        return;
    }
    const size_t first = static_cast<size_t>(row) * kScores;
    // snippet: plain
    float total = 0.0f;
    for (unsigned int i = lane; i < kScores; i += kWarp) {
        total += expf(x[first + i] - base);
    }
    total = warpSum(total);
    for (unsigned int i = lane; i < kScores; i += kWarp) {
        y[first + i] = expf(x[first + i] - base) / total;
    }
    // end snippet
}

// The same with the row's largest score for a base, which takes a pass.
// Memory and launch assumption: as softmaxPlain.
__global__ void softmaxSafe(const float *__restrict__ x,
                            float *__restrict__ y, unsigned int rows)
{
    const unsigned int row = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
    const unsigned int lane = threadIdx.x % kWarp;
    if (row >= rows) {
        return;
    }
    const size_t first = static_cast<size_t>(row) * kScores;
    // snippet: safe
    float best = -INFINITY;
    for (unsigned int i = lane; i < kScores; i += kWarp) {
        best = fmaxf(best, x[first + i]);
    }
    best = warpMax(best);
    float total = 0.0f;
    for (unsigned int i = lane; i < kScores; i += kWarp) {
        total += expf(x[first + i] - best);
    }
    total = warpSum(total);
    for (unsigned int i = lane; i < kScores; i += kWarp) {
        y[first + i] = expf(x[first + i] - best) / total;
    }
    // end snippet
}

// --- CPU reference ----------------------------------------------------------

static void referenceRow(const float *x, double *y)
{
    const double best =
        static_cast<double>(*std::max_element(x, x + kScores));
    double total = 0.0;
    for (unsigned int i = 0; i < kScores; ++i) {
        y[i] = std::exp(static_cast<double>(x[i]) - best);
        total += y[i];
    }
    for (unsigned int i = 0; i < kScores; ++i) {
        y[i] /= total;
    }
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
    double frac = 0.0;       // worst of all weights
    double zerosFrac = 0.0;  // of an answer of zeros
    unsigned int rows = 0;   // that were judged
    unsigned int right = 0;
    unsigned int finite = 0;  // rows without NaN or infinity
    unsigned int zero = 0;    // rows in which all weights are 0
    unsigned int sumOne = 0;  // rows that sum to 1
};

// Judges row after row of scores x and weights y.
static void judgeRow(const float *x, const float *y, Verdict *v)
{
    std::vector<double> want(kScores);
    referenceRow(x, want.data());
    const double rtol = rtolFor(kScores);
    const double atol = rtol * *std::max_element(want.begin(), want.end());
    double frac = 0.0;
    double sum = 0.0;
    bool finite = true;
    bool zero = true;
    for (unsigned int i = 0; i < kScores; ++i) {
        const double got = static_cast<double>(y[i]);
        frac = std::max(frac, gateFraction(got, want[i], rtol, atol));
        v->zerosFrac = std::max(v->zerosFrac,
                                gateFraction(0.0, want[i], rtol, atol));
        sum += got;
        finite = finite && std::isfinite(got);
        zero = zero && got == 0.0;
    }
    v->frac = std::max(v->frac, frac);
    v->right += frac <= 1.0 ? 1 : 0;
    v->finite += finite ? 1 : 0;
    v->zero += zero ? 1 : 0;
    v->sumOne += std::fabs(sum - 1.0) <= kSumOff ? 1 : 0;
    ++v->rows;
}

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    const char *path = nullptr;
    double level = 0.0;
    double frac = 0.0;
};

// --- Launches ---------------------------------------------------------------

enum Path { kPlain, kShifted, kSafe, kPathCount };
constexpr const char *kPathNames[] = {"plain", "shifted", "safe"};

static void launch(int path, const float *d_x, float *d_y, unsigned int rows)
{
    const unsigned int blocks = (rows + kWarps - 1) / kWarps;
    if (path == kSafe) {
        softmaxSafe<<<blocks, kThreads>>>(d_x, d_y, rows);
    } else {
        const float base = path == kPlain ? 0.0f : kShift;
        softmaxPlain<<<blocks, kThreads>>>(d_x, base, d_y, rows);
    }
    CUDA_CHECK(cudaGetLastError());
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

// Times plain and safe beside each other: a sample is a few launches between
// two events, and the paths take turns, forwards and backwards.
static void timeBoth(const float *d_x, float *d_y, Spread (&spreads)[2])
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    const int paths[] = {kPlain, kSafe};
    std::vector<double> samples[2];
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (int turn = 0; turn < 2; ++turn) {
            const int p = round % 2 == 0 ? turn : 1 - turn;
            float ms = 0.0f;
            CUDA_CHECK(cudaEventRecord(start));
            for (int i = 0; i < kLaunches; ++i) {
                launch(paths[p], d_x, d_y, kLongRows);
            }
            CUDA_CHECK(cudaEventRecord(stop));
            CUDA_CHECK(cudaEventSynchronize(stop));
            CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
            if (round >= 0) {
                samples[p].push_back(static_cast<double>(ms) / kLaunches);
            }
        }
    }
    spreads[0] = spreadOf(samples[0]);
    spreads[1] = spreadOf(samples[1]);
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
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
    printKernel("softmaxPlain", reinterpret_cast<const void *>(softmaxPlain),
                kThreads, device);
    printKernel("softmaxSafe", reinterpret_cast<const void *>(softmaxSafe),
                kThreads, device);
}

// --- The two parts ----------------------------------------------------------

// All paths at all levels. Level 0 comes first: safe keeps its bits.
static int runLevels(Failure *failure)
{
    unsigned int moved = 0;
    constexpr size_t kBytes = sizeof(float) * kRows * kScores;
    std::vector<float> h_x(kBytes / sizeof(float));
    std::vector<float> h_y(h_x.size());
    std::vector<float> atZero(h_x.size());
    float *d_x = nullptr;
    float *d_y = nullptr;
    int held = 0;
    CUDA_CHECK(cudaMalloc(&d_x, kBytes));
    CUDA_CHECK(cudaMalloc(&d_y, kBytes));
    for (int path = 0; path < kPathCount; ++path) {
        std::printf("\n%s: of %u rows, those that the checks accept\n",
                    kPathNames[path], kRows);
        std::printf("  %-12s  %8s  %7s  %7s  %8s  %7s  %11s\n", "largest",
                    "score", "finite", "zeros", "sum is 1", "right",
                    "gate frac");
        for (const float level : kLevels) {
            for (unsigned int i = 0; i < kRows * kScores; ++i) {
                h_x[i] = scoreAt(level, i / kScores, i % kScores);
            }
            CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), kBytes,
                                  cudaMemcpyHostToDevice));
            CUDA_CHECK(cudaMemset(d_y, 0xff, kBytes));  // every weight a NaN
            launch(path, d_x, d_y, kRows);
            CUDA_CHECK(cudaMemcpy(h_y.data(), d_y, kBytes,
                                  cudaMemcpyDeviceToHost));
            Verdict v;
            for (size_t row = 0; row < kRows; ++row) {
                judgeRow(&h_x[row * kScores], &h_y[row * kScores], &v);
            }
            if (path == kSafe) {
                atZero = level == 0.0f ? h_y : atZero;
                for (size_t i = 0; i < h_y.size(); ++i) {
                    moved += h_y[i] == atZero[i] ? 0 : 1;
                }
            }
            char frac[16] = "not finite";
            if (std::isfinite(v.frac)) {
                std::snprintf(frac, sizeof(frac), "%.4f", v.frac);
            }
            char name[16];
            std::snprintf(name, sizeof(name), "%s %.0f",
                          level < 0.0f ? "minus" : "plus", std::fabs(level));
            std::printf("  %-12s  %8.0f  %7u  %7u  %8u  %7u  %11s\n", name,
                        level, v.finite, v.zero, v.sumOne, v.right, frac);
            const float shift = path == kShifted ? level - kShift : level;
            const bool due = path == kSafe ||
                             (shift >= kRightFrom && shift <= kRightTo);
            if (v.rows == kRows && v.zerosFrac > 1.0 &&
                v.right == (due ? kRows : 0)) {
                ++held;
            } else if (failure->what == nullptr) {
                *failure = {due ? "is not right" : "has rows that are right",
                            kPathNames[path], static_cast<double>(level),
                            v.frac};
            }
        }
    }
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));
    std::printf("\nbits: of safe, against the largest score 0\n");
    std::printf("  weights    %zu   (at all levels)\n",
                kLevelCount * h_y.size());
    std::printf("  moved      %u\n", moved);
    if (moved != 0 && failure->what == nullptr) {
        *failure = {"has other bits than at level 0", "safe", 0.0, 0.0};
    }
    return held + (moved == 0 ? 1 : 0);
}

// What a pass more costs. Both paths are judged on a sample of rows first.
static int runTimes(Failure *failure)
{
    float *d_x = nullptr;
    float *d_y = nullptr;
    int held = 0;
    CUDA_CHECK(cudaMalloc(&d_x, kMatrix));
    CUDA_CHECK(cudaMalloc(&d_y, kMatrix));
    fillRows<<<(kLongRows + kWarps - 1) / kWarps, kThreads>>>(d_x, 0.0f,
                                                              kLongRows);
    CUDA_CHECK(cudaGetLastError());
    for (const int path : {kPlain, kSafe}) {
        CUDA_CHECK(cudaMemset(d_y, 0xff, kMatrix));
        launch(path, d_x, d_y, kLongRows);
        std::vector<float> h_x(kScores);
        std::vector<float> h_y(kScores);
        Verdict v;
        for (size_t row = 0; row < kLongRows; row += kSampleStep) {
            CUDA_CHECK(cudaMemcpy(h_y.data(), d_y + row * kScores,
                                  kScores * sizeof(float),
                                  cudaMemcpyDeviceToHost));
            for (unsigned int i = 0; i < kScores; ++i) {
                h_x[i] = scoreAt(0.0f, static_cast<unsigned int>(row), i);
            }
            judgeRow(h_x.data(), h_y.data(), &v);
        }
        if (v.rows > 0 && v.right == v.rows) {
            ++held;
        } else if (failure->what == nullptr) {
            *failure = {"is not right on the long matrix", kPathNames[path],
                        0.0, v.frac};
        }
    }
    if (failure->what == nullptr) {
        Spread spreads[2];
        timeBoth(d_x, d_y, spreads);
        std::printf("\ntimes: %u rows of %u, read from DRAM once at least\n",
                    kLongRows, kScores);
        std::printf("  %-6s  %6s  %11s  %11s  %9s  %9s  %9s  %12s\n", "path",
                    "passes", "floor (MB)", "least (MB)", "time (ms)",
                    "min (ms)", "max (ms)", "rate (GB/s)");
        for (int p = 0; p < 2; ++p) {
            const double passes = p == 0 ? 3.0 : 4.0;
            const double least = 2.0 * static_cast<double>(kMatrix);
            std::printf("  %-6s  %6.0f  %11.1f  %11.1f  %9.4f  %9.4f  %9.4f"
                        "  %12.0f\n",
                        p == 0 ? "plain" : "safe", passes,
                        passes * static_cast<double>(kMatrix) / 1e6,
                        least / 1e6, spreads[p].median, spreads[p].least,
                        spreads[p].most,
                        least / kGiga / (spreads[p].median / 1e3));
        }
    }
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));
    return held;
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: softmax [--quick]\n"
                             "  --quick  nothing is timed\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    std::printf("  gate rtol         %.3e   (max(1e-5, 4 * 2^-23 * sqrt(n)); "
                "atol = rtol * max |reference|)\n",
                rtolFor(kScores));
    printKernels(device);

    Failure failure;
    int held = runLevels(&failure);
    if (!quick && failure.what == nullptr) {
        held += runTimes(&failure);
    }
    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s %s: largest score %.0f, gate fraction %.4g\n",
                     failure.path, failure.what, failure.level, failure.frac);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", held);
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 70, a solution of the exercise: the largest score comes off before exp
// and is added after the logarithm.
//
// Every row of 333 scores gets one number, the logarithm of the sum of exp of
// its scores, from one warp. The largest scores are 0, 500 and -500; in other
// rows two of three scores are masked by -infinity, or all are: then the sum is
// 0 and its logarithm -infinity. The program fails if a row is off by more than
// a hundred-thousandth of itself and of 1, or is not -infinity where it should.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

#include <algorithm>
#include <cmath>
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

constexpr unsigned int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr unsigned int kRows = 40;
constexpr unsigned int kScores = 333;  // ten warps and a rest
constexpr double kRtol = 1e-5;

enum Kind { kSmall, kLarge, kFarBelow, kMasked, kAllMasked, kKinds };
constexpr const char *kNames[kKinds] = {"largest 0", "largest 500",
                                        "largest minus 500",
                                        "two of three masked", "all masked"};

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

// The warp of block r computes the number of row r.
// Memory: a warp reads 32 neighbouring floats.
// Launch assumption: one warp per block, one block per row.
__global__ void logSumExp(const float *__restrict__ x, float *__restrict__ out)
{
    const unsigned int lane = threadIdx.x;
    const size_t first = static_cast<size_t>(blockIdx.x) * kScores;
    float result = 0.0f;
    // snippet: exercise
    float best = -INFINITY;
    for (unsigned int i = lane; i < kScores; i += kWarp) {
        best = fmaxf(best, x[first + i]);
    }
    best = warpMax(best);
    // If all are masked, -infinity less itself would be NaN.
    const float base = best == -INFINITY ? 0.0f : best;
    float total = 0.0f;
    for (unsigned int i = lane; i < kScores; i += kWarp) {
        total += expf(x[first + i] - base);
    }
    result = base + logf(warpSum(total));
    // end snippet
    if (lane == 0) {
        out[blockIdx.x] = result;
    }
}

static float scoreAt(unsigned int row, unsigned int i)
{
    const unsigned int kind = row % kKinds;
    if (kind == kAllMasked || (kind == kMasked && (i + row) % 3 != 0)) {
        return -INFINITY;
    }
    const float largest = kind == kLarge      ? 500.0f
                          : kind == kFarBelow ? -500.0f
                                              : 0.0f;
    const unsigned int below = (i * 71 + row * 29) % kScores;
    return largest - static_cast<float>(below) / 64.0f;
}

// In double precision, the largest score subtracted.
static double referenceOf(const std::vector<float> &x, size_t first)
{
    double best = -HUGE_VAL;
    for (size_t i = first; i < first + kScores; ++i) {
        best = std::max(best, static_cast<double>(x[i]));
    }
    if (std::isinf(best)) {
        return best;
    }
    double total = 0.0;
    for (size_t i = first; i < first + kScores; ++i) {
        total += std::exp(static_cast<double>(x[i]) - best);
    }
    return best + std::log(total);
}

// A NaN is not equal to -infinity and not within any allowance.
static bool right(double got, double want)
{
    return std::isinf(want)
               ? got == want
               : std::fabs(got - want) <= kRtol * (1.0 + std::fabs(want));
}

int main()
{
    std::vector<float> h_x(size_t{kRows} * kScores);
    std::vector<float> h_out(kRows);
    for (unsigned int row = 0; row < kRows; ++row) {
        for (unsigned int i = 0; i < kScores; ++i) {
            h_x[size_t{row} * kScores + i] = scoreAt(row, i);
        }
    }
    float *d_x = nullptr;
    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_x, h_x.size() * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_out, kRows * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), h_x.size() * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_out, 0xff, kRows * sizeof(float)));  // NaN
    logSumExp<<<kRows, kWarp>>>(d_x, d_out);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kRows * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_out));

    unsigned int wrong[kKinds] = {};
    unsigned int allWrong = 0;
    for (unsigned int row = 0; row < kRows; ++row) {
        const double want = referenceOf(h_x, size_t{row} * kScores);
        if (!right(static_cast<double>(h_out[row]), want)) {
            ++wrong[row % kKinds];
            ++allWrong;
        }
    }
    std::printf("rows: log of the sum of exp\n");
    std::printf("  %-19s  %4s  %5s\n", "kind", "rows", "wrong");
    for (unsigned int kind = 0; kind < kKinds; ++kind) {
        std::printf("  %-19s  %4u  %5u\n", kNames[kind], kRows / kKinds,
                    wrong[kind]);
    }
    std::printf("\ncheck: all rows\n");
    std::printf("  rows    %u\n", kRows);
    std::printf("  wrong   %u\n", allWrong);
    if (allWrong != 0) {
        std::fprintf(stderr, "%u of %u rows are wrong\n", allWrong, kRows);
        return EXIT_FAILURE;
    }
    std::printf("\nall %u cases passed their gates\n", kRows);
    return EXIT_SUCCESS;
}

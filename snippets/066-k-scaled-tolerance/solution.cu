// SPDX-License-Identifier: MIT
//
// Day 66, a solution of the exercise: the allowance grows with the square root
// of K, and has a part that follows the largest output.
//
// One thread computes one of 32 dot products of K pairs in FP32, right or
// wrong. The gate to be written sees the outputs, the reference in double
// precision, and K. The program fails if the gate rejects one of three right
// answers or accepts one of six wrong ones.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_fp16.h>
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

constexpr unsigned int kRows = 32;  // outputs: a warp of them

enum Answer { kRight, kLost, kTf32, kHalf, kZeros, kNothing };

struct Case {
    const char *name;
    Answer answer;
    bool mixed;  // signs; else all numbers are positive
    unsigned int k;
};
constexpr Case kCases[] = {
    {"right, ten positive pairs", kRight, false, 10},
    {"right, mixed signs", kRight, true, 3000},
    {"right, a million positive pairs", kRight, false, 1000000},
    {"nothing written", kNothing, true, 100},
    {"all zeros", kZeros, true, 3000},
    {"the last pair lost", kLost, true, 3000},
    {"inputs in TF32, few pairs", kTf32, true, 100},
    {"inputs in TF32, many pairs", kTf32, true, 3000},
    {"an accumulator in FP16", kHalf, true, 3000},
};
constexpr size_t kCaseCount = sizeof(kCases) / sizeof(kCases[0]);

// Scatters the bits of a number over all of it; no two numbers meet.
__host__ __device__ inline unsigned int scattered(unsigned int value)
{
    value ^= value >> 16;
    value *= 0x7feb352du;
    value ^= value >> 15;
    value *= 0x846ca68bu;
    return value ^ (value >> 16);
}

// Term k's x (salt 1) or y (salt 2) of a row, exact in FP32.
__host__ __device__ inline float numberAt(bool mixed, unsigned int k,
                                          unsigned int row, unsigned int salt)
{
    const unsigned int place = (k * kRows + row) * 2u + salt;
    const unsigned int value = scattered(place * 2654435769u + 1u) >> 8;
    const int zero = mixed ? 1 << 23 : 0;
    return static_cast<float>(static_cast<int>(value) - zero) / 16777216.0f;
}

// Ten mantissa bits of 23.
__device__ float tf32Of(float value)
{
    return __uint_as_float((__float_as_uint(value) + 0x1000u) & ~0x1fffu);
}

// Lane r computes output r, right or in one of the wrong ways.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: one block of kRows threads.
__global__ void dot(Answer answer, bool mixed, unsigned int k,
                    float *__restrict__ out)
{
    const unsigned int row = threadIdx.x;
    const unsigned int end = answer == kLost ? k - 1 : k;
    float total = 0.0f;
#pragma unroll 8
    for (unsigned int i = 0; i < end; ++i) {
        float x = numberAt(mixed, i, row, 1);
        float y = numberAt(mixed, i, row, 2);
        if (answer == kTf32) {
            x = tf32Of(x);
            y = tf32Of(y);
        }
        total = fmaf(x, y, total);
        if (answer == kHalf) {
            total = __half2float(__float2half_rn(total));
        }
    }
    out[row] = total;
}

// snippet: exercise
// Is every output right, as far as a sum of k products in FP32 can be?
static bool accepts(const std::vector<float> &got,
                    const std::vector<double> &want, unsigned int k)
{
    const double ulp = 1.0 / (1 << 23);
    const double rtol =
        std::max(1e-5, 4.0 * ulp * std::sqrt(static_cast<double>(k)));
    double most = 0.0;
    for (const double value : want) {
        most = std::max(most, std::fabs(value));
    }
    for (size_t i = 0; i < want.size(); ++i) {
        const double error = std::fabs(got[i] - want[i]);
        if (!(error <= rtol * most + rtol * std::fabs(want[i]))) {
            return false;
        }
    }
    return true;
}
// end snippet

static std::vector<double> referenceOf(const Case &which)
{
    std::vector<double> want(kRows, 0.0);
    for (unsigned int i = 0; i < which.k; ++i) {
        for (unsigned int row = 0; row < kRows; ++row) {
            want[row] += static_cast<double>(numberAt(which.mixed, i, row, 1)) *
                         static_cast<double>(numberAt(which.mixed, i, row, 2));
        }
    }
    return want;
}

int main()
{
    float *d_out = nullptr;
    std::vector<float> h_out(kRows);
    const size_t bytes = kRows * sizeof(float);
    CUDA_CHECK(cudaMalloc(&d_out, bytes));
    size_t misjudged = 0;
    const char *first = nullptr;
    std::printf("answers: 1 is accepted, 0 is rejected\n");
    std::printf("  %-31s  %3s  %6s\n", "answer", "due", "judged");
    for (const Case &which : kCases) {
        // Zeros or NaN, which the kernel writes over, if it runs.
        CUDA_CHECK(cudaMemset(d_out, which.answer == kZeros ? 0 : 0xff,
                              bytes));
        if (which.answer < kZeros) {
            dot<<<1, kRows>>>(which.answer, which.mixed, which.k, d_out);
            CUDA_CHECK(cudaGetLastError());
        }
        CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, bytes,
                              cudaMemcpyDeviceToHost));
        const bool due = which.answer == kRight;
        const bool judged = accepts(h_out, referenceOf(which), which.k);
        std::printf("  %-31s  %3d  %6d\n", which.name, due ? 1 : 0,
                    judged ? 1 : 0);
        if (judged != due) {
            ++misjudged;
            first = first == nullptr ? which.name : first;
        }
    }
    CUDA_CHECK(cudaFree(d_out));

    std::printf("\ncheck: the gate\n");
    std::printf("  answers     %zu\n", kCaseCount);
    std::printf("  misjudged   %zu\n", misjudged);
    if (misjudged != 0) {
        std::fprintf(stderr,
                     "the gate misjudges %zu of %zu answers, first: %s\n",
                     misjudged, kCaseCount, first);
        return EXIT_FAILURE;
    }
    std::printf("\nall %zu cases passed their gates\n", kCaseCount);
    return EXIT_SUCCESS;
}

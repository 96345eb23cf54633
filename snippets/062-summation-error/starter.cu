// SPDX-License-Identifier: MIT
//
// Day 62, exercise: a sum in two levels. The lines of the region below add up a
// million numbers in a row, into one accumulator.
//
// Each of 32 rows has a million equal numbers, 0.1 and a little. One thread
// adds up one row. The program fails if a sum is off by more than the bound of
// two levels: kChunk numbers in a row, then K / kChunk sums in a row, each
// addition off by at most u = 2^-24 of its result.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

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

constexpr unsigned int kRows = 32;
constexpr unsigned int kCount = 999983;  // a prime: no chunk size divides it
constexpr unsigned int kChunk = 1000;
constexpr double kUnit = 1.0 / 16777216.0;  // u, 2^-24

constexpr unsigned int kChunks = (kCount + kChunk - 1) / kChunk;
constexpr double kDepth = kChunk + kChunks;
static_assert(kDepth * kUnit < 0.01, "higher powers of u do not matter");

// Thread r adds up row r.
// Memory: a warp reads 32 neighbouring floats.
// Launch assumption: one block of kRows threads.
__global__ void sumRows(const float *__restrict__ x, float *__restrict__ sums)
{
    const unsigned int row = threadIdx.x;
    float total = 0.0f;
    // snippet: exercise
    for (unsigned int i = 0; i < kCount; ++i) {
        total += x[i * kRows + row];
    }
    // end snippet
    sums[row] = total;
}

// A row's number in whole multiples of 2^-24, which FP32 holds exactly.
static unsigned int wholeOf(unsigned int row)
{
    return 1677721 + 1009 * row;
}

int main()
{
    const size_t bytes = size_t{kCount} * kRows * sizeof(float);
    std::vector<float> h_x(size_t{kCount} * kRows);
    std::vector<float> h_sums(kRows);
    for (size_t i = 0; i < h_x.size(); ++i) {
        const unsigned int row = static_cast<unsigned int>(i % kRows);
        h_x[i] = static_cast<float>(wholeOf(row)) * static_cast<float>(kUnit);
    }
    float *d_x = nullptr;
    float *d_sums = nullptr;
    CUDA_CHECK(cudaMalloc(&d_x, bytes));
    CUDA_CHECK(cudaMalloc(&d_sums, kRows * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_sums, 0xff, kRows * sizeof(float)));  // NaN
    sumRows<<<1, kRows>>>(d_x, d_sums);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(h_sums.data(), d_sums, kRows * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_sums));

    double worst = 0.0;  // of all rows, in units of u times the exact sum
    for (unsigned int row = 0; row < kRows; ++row) {
        const double want =
            static_cast<double>(wholeOf(row)) * kCount * kUnit;
        const double got = static_cast<double>(h_sums[row]);
        const double units = std::isfinite(got)
                                 ? std::fabs(got - want) / (kUnit * want)
                                 : HUGE_VAL;
        worst = units > worst ? units : worst;
    }
    std::printf("sums: of %u numbers, errors in units of u\n", kCount);
    std::printf("  rows    %u\n", kRows);
    std::printf("  worst   %.1f\n", worst);
    std::printf("  bound   %.1f\n", kDepth);
    if (!(worst <= kDepth)) {
        std::fprintf(stderr, "a sum is beyond the bound of two levels\n");
        return EXIT_FAILURE;
    }
    std::printf("\nall sums are within the bound\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 25, exercise: a dot product, the sum of x[i] * y[i]. Blocks leave shares,
// and one block adds them up, as on path "vectors" of the day's program. What a
// thread collects is yours: as it stands it takes one element, so everything
// behind the first grid is missing.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

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
constexpr unsigned int kThreads = 256;
constexpr unsigned int kWarps = kThreads / kWarp;
constexpr unsigned int kBlocks = 1056;  // eight for each of 132 SMs

// Below a warp, below a block, within the first grid, far beyond it. The last
// is 128 MiB of input, twice the L2 of an H200.
constexpr size_t kSizes[] = {1, 33, 1027, 1000003, 16777219};
constexpr size_t kQuickSizes = 3;  // of them, with an argument: no timing

constexpr size_t kPeriod = 1048573;  // of the elements; a prime

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits
constexpr int kLaunches = 20;              // between two events

static_assert(kWarps <= kWarp, "one warp adds up the warps' sums");

__device__ float warpSum(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(kFullWarp, value, offset);
    }
    return value;
}

// The block's sum, in thread 0. Every thread must come.
__device__ float blockSumFirst(float value)
{
    __shared__ float part[kWarps];
    const unsigned int lane = threadIdx.x % kWarp;
    const unsigned int warp = threadIdx.x / kWarp;
    value = warpSum(value);
    if (lane == 0) {
        part[warp] = value;
    }
    __syncthreads();  // every warp's sum is there
    if (warp == 0) {
        value = warpSum(lane < kWarps ? part[lane] : 0.0f);
    }
    return value;
}

// This thread's share of the sum of x[i] * y[i] over i < n.
// snippet: exercise
__device__ float shareOfDot(const float *__restrict__ x,
                            const float *__restrict__ y, size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
    return i < n ? x[i] * y[i] : 0.0f;
}
// end snippet

// out[block] = a share of the dot product; the shares make up all of it.
// Launch assumption: kThreads threads, any grid, any n; x and y are 16-byte
// aligned.
__global__ void dotShares(const float *__restrict__ x,
                          const float *__restrict__ y,
                          float *__restrict__ out, size_t n)
{
    const float total = blockSumFirst(shareOfDot(x, y, n));
    if (threadIdx.x == 0) {
        out[blockIdx.x] = total;
    }
}

// *out = the sum of n floats. Launch assumption: one block of kThreads threads.
__global__ void addShares(const float *__restrict__ in,
                          float *__restrict__ out, size_t n)
{
    float total = 0.0f;
    for (size_t i = threadIdx.x; i < n; i += kThreads) {
        total += in[i];
    }
    total = blockSumFirst(total);
    if (threadIdx.x == 0) {
        *out = total;
    }
}

struct Buffers {
    float *d_x = nullptr;
    float *d_y = nullptr;
    float *d_shares = nullptr;
    float *d_out = nullptr;
};

static void launch(size_t n, const Buffers &b)
{
    dotShares<<<kBlocks, kThreads>>>(b.d_x, b.d_y, b.d_shares, n);
    CUDA_CHECK(cudaGetLastError());
    addShares<<<1, kThreads>>>(b.d_shares, b.d_out, kBlocks);
    CUDA_CHECK(cudaGetLastError());
}

// Fractions are positive; whole numbers are so small that every partial sum is
// exact in FP32, so that one missing term shows.
static float elementAt(size_t i, size_t step, bool whole)
{
    const size_t place = i * step % kPeriod;
    const size_t cube = place * place % kPeriod * place % kPeriod;
    return whole ? static_cast<float>(cube % 7) - 3.0f
                 : 0.25f + static_cast<float>(place) /
                               static_cast<float>(kPeriod);
}

// Judges one size; returns whether it passed.
static bool runSize(size_t n, bool whole, const Buffers &b)
{
    std::vector<float> h_x(n);
    std::vector<float> h_y(n);
    double want = 0.0;
    for (size_t i = 0; i < n; ++i) {
        h_x[i] = elementAt(i, 27449, whole);
        h_y[i] = elementAt(i + 5, 7919, whole);
        want += static_cast<double>(h_x[i]) * h_y[i];
    }
    float got = NAN;
    CUDA_CHECK(cudaMemcpy(b.d_x, h_x.data(), n * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b.d_y, h_y.data(), n * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(b.d_shares, 0xff, kBlocks * sizeof(float)));
    CUDA_CHECK(cudaMemset(b.d_out, 0xff, sizeof(float)));
    launch(n, b);
    CUDA_CHECK(cudaMemcpy(&got, b.d_out, sizeof(got),
                          cudaMemcpyDeviceToHost));
    const double rtol = std::max(
        kTableRtol, 4.0 * kUlp * std::sqrt(static_cast<double>(n)));
    const double error = std::fabs(static_cast<double>(got) - want);
    const double frac = error / (2.0 * rtol * std::fabs(want));
    const bool passed = whole ? error == 0.0 : frac <= 1.0;  // a NaN fails
    std::printf("  n = %-9zu  %13.6e  %13.6e  %9.5f  %s\n", n, want,
                static_cast<double>(got), whole ? 0.0 : frac,
                passed ? "yes" : "no");
    return passed;
}

int main(int argc, char **)
{
    const bool quick = argc > 1;
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    const size_t sizes =
        quick ? kQuickSizes : sizeof(kSizes) / sizeof(kSizes[0]);
    const size_t most = kSizes[sizes - 1];
    Buffers b;
    CUDA_CHECK(cudaMalloc(&b.d_x, most * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_y, most * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_shares, kBlocks * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_out, sizeof(float)));
    int failed = 0;
    int passed = 0;
    for (const bool whole : {false, true}) {
        std::printf("\n%s\n", whole ? "whole numbers: equal to the bit"
                                    : "fractions: by day 66's rule");
        std::printf("  %-13s  %13s  %13s  %9s  %s\n", "size", "reference",
                    "dot", "gate frac", "passed");
        for (size_t s = 0; s < sizes; ++s) {
            const bool right = runSize(kSizes[s], whole, b);
            passed += right ? 1 : 0;
            failed += right ? 0 : 1;
        }
    }
    if (failed == 0 && !quick) {
        cudaEvent_t start = nullptr;
        cudaEvent_t stop = nullptr;
        float ms = 0.0f;
        CUDA_CHECK(cudaEventCreate(&start));
        CUDA_CHECK(cudaEventCreate(&stop));
        launch(most, b);
        CUDA_CHECK(cudaEventRecord(start));
        for (int i = 0; i < kLaunches; ++i) {
            launch(most, b);
        }
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        CUDA_CHECK(cudaEventDestroy(start));
        CUDA_CHECK(cudaEventDestroy(stop));
        const double each = static_cast<double>(ms) / kLaunches;
        const double bytes = static_cast<double>(2 * most * sizeof(float));
        std::printf("\ntime: mean of %d, both launches\n", kLaunches);
        std::printf("  time   %.5f ms\n", each);
        std::printf("  rate   %.1f GB/s\n", bytes / (each * 1e-3) / 1e9);
    }
    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_y));
    CUDA_CHECK(cudaFree(b.d_shares));
    CUDA_CHECK(cudaFree(b.d_out));
    if (failed != 0) {
        std::fprintf(stderr, "%d of %d dot products are wrong\n", failed,
                     failed + passed);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

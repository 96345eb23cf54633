// SPDX-License-Identifier: MIT
//
// Day 1, exercise: add b from its end. A solution.
//
// c[i] = a[i] + b[n - 1 - i]: the first element of a goes with the last of b.
// n is whole blocks, so no guard is needed. Change the kernel, nothing else.
//
// The judge is the CPU in double precision, by the rule of add.cu: one
// addition, so rtol = max(1e-5, 4 * 2^-23 * sqrt(1)). No two elements add the
// same pair of numbers, and the memory for the sums is filled with NaN first.
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

constexpr size_t kCount = size_t{1} << 20;  // elements: 2^20
constexpr unsigned int kThreads = 256;      // threads in a block
constexpr unsigned int kBlocks = kCount / kThreads;
constexpr size_t kBytes = kCount * sizeof(float);  // of one vector

// Periods are primes, and together longer than the vectors: no pair of inputs
// comes twice.
constexpr size_t kPeriodA = 1021;
constexpr size_t kPeriodB = 1031;
constexpr size_t kStepA = 23;
constexpr size_t kStepB = 34;

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

static_assert(kCount % kThreads == 0, "no guard: the blocks end where c ends");
static_assert(kPeriodA * kPeriodB >= kCount, "no pair of inputs comes twice");

// Launch assumption: the grid has exactly n threads, one for each element.
// snippet: exercise
__global__ void addFromEnd(const float *__restrict__ a,
                           const float *__restrict__ b, float *__restrict__ c,
                           size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[n - 1 - i];
}
// end snippet

// Element i: a step through 0 .. period - 1, centred on 0.
static float elementAt(size_t i, size_t period, size_t step)
{
    const float place = static_cast<float>(i * step % period);
    return 0.003f * (place - static_cast<float>(period / 2) - 0.3f);
}

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

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::vector<float> h_a(kCount);
    std::vector<float> h_b(kCount);
    std::vector<float> h_c(kCount, NAN);
    std::vector<double> reference(kCount);
    double maxReference = 0.0;
    for (size_t i = 0; i < kCount; ++i) {
        h_a[i] = elementAt(i, kPeriodA, kStepA);
        h_b[i] = elementAt(i, kPeriodB, kStepB);
    }
    for (size_t i = 0; i < kCount; ++i) {
        reference[i] = static_cast<double>(h_a[i]) + h_b[kCount - 1 - i];
        maxReference = std::max(maxReference, std::fabs(reference[i]));
    }

    float *d_a = nullptr;
    float *d_b = nullptr;
    float *d_c = nullptr;
    CUDA_CHECK(cudaMalloc(&d_a, kBytes));
    CUDA_CHECK(cudaMalloc(&d_b, kBytes));
    CUDA_CHECK(cudaMalloc(&d_c, kBytes));
    CUDA_CHECK(cudaMemcpy(d_a, h_a.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, h_b.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_c, 0xff, kBytes));  // every float is now a NaN
    addFromEnd<<<kBlocks, kThreads>>>(d_a, d_b, d_c, kCount);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_c.data(), d_c, kBytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_c));

    const double rtol = rtolFor(1);
    double worst = 0.0;
    size_t wrong = 0;
    size_t first = 0;
    for (size_t i = 0; i < kCount; ++i) {
        const double frac =
            gateFraction(h_c[i], reference[i], rtol, rtol * maxReference);
        worst = std::max(worst, frac);
        if (!(frac <= 1.0)) {
            first = wrong == 0 ? i : first;
            ++wrong;
        }
    }
    std::printf("\ncheck: every sum against the CPU's\n");
    std::printf("  elements   %zu\n", kCount);
    std::printf("  wrong      %zu\n", wrong);
    std::printf("  gate frac  %.4g\n", worst);
    if (wrong != 0) {
        std::fprintf(stderr,
                     "%zu of %zu sums are wrong; the first is element %zu "
                     "(block %zu, thread %zu): %.9g, not %.9g\n",
                     wrong, kCount, first, first / kThreads, first % kThreads,
                     static_cast<double>(h_c[first]), reference[first]);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

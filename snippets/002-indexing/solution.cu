// SPDX-License-Identifier: MIT
//
// Day 2, exercise: differences of neighbours. A solution.
//
// d[i] = a[i + 1] - a[i], one output less than there are inputs. The guard and
// the right side are yours, and so is the launch.
//
// All numbers are whole and small, so every difference is exact and has to be
// equal to the CPU's. Behind d lies day 2's canary: if one bit of it has
// changed, the program fails. Behind a there is nothing, and memcheck sees who
// reads there.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

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

constexpr unsigned int kThreads = 256;  // threads in a block

// Inputs. A warp and a block, one less and more; one alone, and two; a prime.
constexpr size_t kSizes[] = {1, 2, 31, 32, 33, 255, 256, 257, 1000003};

constexpr size_t kCanary = kThreads;
constexpr int kCanaryByte = 0xa5;
constexpr unsigned int kCanaryBits = 0xa5a5a5a5u;  // a float of four of them

// As many whole blocks as cover n elements: n / kThreads, rounded up.
static unsigned int blocksFor(size_t n)
{
    return static_cast<unsigned int>((n + kThreads - 1) / kThreads);
}

// a has n elements, d has n - 1; n is at least 1.
// snippet: exercise
__global__ void differences(const float *__restrict__ a,
                            float *__restrict__ d, size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i + 1 < n) {  // not i < n - 1: n has no sign, and 0 - 1 is huge
        d[i] = a[i + 1] - a[i];
    }
}

static void launchDifferences(const float *d_a, float *d_d, size_t n)
{
    // For n inputs, not n - 1: a grid of no blocks would be refused.
    differences<<<blocksFor(n), kThreads>>>(d_a, d_d, n);
    CUDA_CHECK(cudaGetLastError());
}
// end snippet

// Element i: whole, below 2^24, and different steps from one to the next.
static float elementAt(size_t i)
{
    return static_cast<float>((i % 97) * (i % 1021));
}

struct Counts {
    size_t wrong = 0;    // outputs
    size_t changed = 0;  // floats of the canary
};

static Counts runSize(size_t n)
{
    const size_t outputs = n - 1;
    std::vector<float> h_a(n);
    std::vector<float> h_d(outputs + kCanary, NAN);
    for (size_t i = 0; i < n; ++i) {
        h_a[i] = elementAt(i);
    }
    const size_t bytes = n * sizeof(float);
    float *d_a = nullptr;
    float *d_d = nullptr;
    CUDA_CHECK(cudaMalloc(&d_a, bytes));
    CUDA_CHECK(cudaMalloc(&d_d, h_d.size() * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_a, h_a.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_d, 0xff, outputs * sizeof(float)));  // NaN
    CUDA_CHECK(cudaMemset(d_d + outputs, kCanaryByte,
                          kCanary * sizeof(float)));
    launchDifferences(d_a, d_d, n);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_d.data(), d_d, h_d.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_d));

    Counts counts;
    for (size_t i = 0; i < outputs; ++i) {
        counts.wrong += h_d[i] == h_a[i + 1] - h_a[i] ? 0 : 1;
    }
    for (size_t k = 0; k < kCanary; ++k) {
        unsigned int bits = 0;
        std::memcpy(&bits, &h_d[outputs + k], sizeof(bits));
        counts.changed += bits == kCanaryBits ? 0 : 1;
    }
    return counts;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::printf("\ncheck: every difference, and the canary behind them\n");
    std::printf("  %-11s  %7s  %7s  %14s\n", "inputs", "outputs", "wrong",
                "canary changed");
    int passed = 0;
    int failed = 0;
    size_t firstN = 0;
    Counts first;
    for (const size_t n : kSizes) {
        const Counts counts = runSize(n);
        std::printf("  n = %-7zu  %7zu  %7zu  %14zu\n", n, n - 1,
                    counts.wrong, counts.changed);
        if (counts.wrong + counts.changed == 0) {
            ++passed;
        } else if (failed++ == 0) {
            firstN = n;
            first = counts;
        }
    }
    if (failed != 0) {
        std::fprintf(stderr,
                     "%d of %d sizes fail, first n = %zu: %zu of %zu outputs "
                     "are wrong, %zu floats of the canary have changed\n",
                     failed, failed + passed, firstN, first.wrong, firstN - 1,
                     first.changed);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

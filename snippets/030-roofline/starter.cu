// SPDX-License-Identifier: MIT
//
// Day 30, exercise: from one side of the ridge to the other. To be finished by
// you.
//
// 64 dependent multiply-adds for each of n floats. As it stands, eight launches
// do eight each, and every launch reads and writes all of them. That is 2 FLOP
// for a byte. Do the same work at 16: the multiply-adds have to be the same
// ones, in the same order, and no more of them.
//
// Every load, store and multiply-add goes through a helper that counts it on
// the GPU. Judged are the bits of the result, the counted operations and the
// counted bytes. Nothing is timed.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

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

constexpr unsigned int kThreads = 256;
constexpr unsigned int kSteps = 64;   // multiply-adds for each float
constexpr unsigned int kPasses = 8;   // launches that share them
constexpr size_t kSizes[] = {1, 256, 20011};  // one alone, a block, ragged

// As in roofline.cu: values neither die out nor grow.
constexpr float kFactor = -1.0f + 1.0f / 65536.0f;
constexpr float kAddend = 0.75f;

static_assert(kSteps % kPasses == 0, "passes are of equal length");

// What the helpers count, on the GPU.
struct Meter {
    unsigned long long loads;
    unsigned long long stores;
    unsigned long long fmas;
};

__device__ float load(const float *x, size_t i, Meter *meter)
{
    atomicAdd(&meter->loads, 1ull);
    return x[i];
}

__device__ void store(float *x, size_t i, float value, Meter *meter)
{
    atomicAdd(&meter->stores, 1ull);
    x[i] = value;
}

__device__ float step(float value, Meter *meter)
{
    atomicAdd(&meter->fmas, 1ull);
    return fmaf(value, kFactor, kAddend);
}

static unsigned int blocksFor(size_t n)
{
    return static_cast<unsigned int>((n + kThreads - 1) / kThreads);
}

// y = x after 64 multiply-adds. x must not change.
// snippet: exercise
__global__ void someSteps(const float *in, float *out, size_t n, Meter *meter)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = load(in, i, meter);
        for (unsigned int k = 0; k < kSteps / kPasses; ++k) {
            value = step(value, meter);
        }
        store(out, i, value, meter);
    }
}

static void run(const float *d_x, float *d_y, size_t n, Meter *d_meter)
{
    someSteps<<<blocksFor(n), kThreads>>>(d_x, d_y, n, d_meter);
    for (unsigned int pass = 1; pass < kPasses; ++pass) {
        someSteps<<<blocksFor(n), kThreads>>>(d_y, d_y, n, d_meter);
    }
}
// end snippet

static float elementAt(size_t i)
{
    return static_cast<float>(i % 97) / 64.0f;
}

// What one size came to.
struct Counts {
    size_t wrong = 0;
    double flops = 0.0;
    double bytes = 0.0;
};

static Counts runSize(size_t n)
{
    const size_t bytes = n * sizeof(float);
    std::vector<float> h_x(n);
    std::vector<float> h_y(n, NAN);
    for (size_t i = 0; i < n; ++i) {
        h_x[i] = elementAt(i);
    }
    float *d_x = nullptr;
    float *d_y = nullptr;
    Meter *d_meter = nullptr;
    Meter meter = {};
    CUDA_CHECK(cudaMalloc(&d_x, bytes));
    CUDA_CHECK(cudaMalloc(&d_y, bytes));
    CUDA_CHECK(cudaMalloc(&d_meter, sizeof(meter)));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_y, 0xff, bytes));  // every float is a NaN
    CUDA_CHECK(cudaMemset(d_meter, 0, sizeof(meter)));
    run(d_x, d_y, n, d_meter);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_y.data(), d_y, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(&meter, d_meter, sizeof(meter),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));
    CUDA_CHECK(cudaFree(d_meter));

    Counts counts;
    counts.flops = 2.0 * static_cast<double>(meter.fmas);
    counts.bytes = static_cast<double>(sizeof(float)) *
                   static_cast<double>(meter.loads + meter.stores);
    for (size_t i = 0; i < n; ++i) {
        float want = elementAt(i);
        for (unsigned int k = 0; k < kSteps; ++k) {
            want = std::fmaf(want, kFactor, kAddend);
        }
        counts.wrong += h_y[i] == want ? 0 : 1;
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

    std::printf("\nwork: counted on the GPU\n");
    std::printf("  %-9s  %5s  %7s  %10s  %18s\n", "size", "wrong", "FLOP",
                "moved (B)", "intensity (FLOP/B)");
    int passed = 0;
    int failed = 0;
    Counts first;
    size_t firstN = 0;
    for (const size_t n : kSizes) {
        const Counts counts = runSize(n);
        const double elements = static_cast<double>(n);
        std::printf("  n = %-5zu  %5zu  %7.0f  %10.0f  %18.2f\n", n,
                    counts.wrong, counts.flops, counts.bytes,
                    counts.flops / counts.bytes);
        // Work that nobody asked for would also raise the intensity.
        if (counts.wrong == 0 && counts.flops == 2.0 * kSteps * elements &&
            counts.bytes == 2.0 * sizeof(float) * elements) {
            ++passed;
        } else if (failed++ == 0) {
            first = counts;
            firstN = n;
        }
    }
    if (failed != 0) {
        std::fprintf(stderr,
                     "%d of %d sizes fail, first n = %zu: %zu wrong, %.0f FLOP "
                     "and %.0f bytes, not %zu and %zu\n",
                     failed, failed + passed, firstN, first.wrong, first.flops,
                     first.bytes, 2 * kSteps * firstN,
                     2 * sizeof(float) * firstN);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

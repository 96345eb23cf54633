// SPDX-License-Identifier: MIT
//
// Day 11, exercise: one kind for a warp. To be finished by you.
//
// There are elements of four kinds, one after the other: element i is of kind
// i % 4, and each kind is taken through a loop of its own. With one thread per
// element, which element a thread takes is free to choose; elementOf chooses,
// for the kernel and for the count alike.
//
// Two things are judged. Every element must be taken by exactly one thread, and
// its result must be that of the CPU, bit for bit. And the elements of a warp
// must all be of one kind, so that no warp has to go through two loops.
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

constexpr size_t kWarp = 32;
constexpr unsigned int kThreads = 256;  // threads in a block
constexpr unsigned int kBlocks = 96;
constexpr size_t kCount = size_t{kBlocks} * kThreads;  // elements and threads
constexpr size_t kBytes = kCount * sizeof(float);
constexpr unsigned int kKinds = 4;
constexpr unsigned int kSteps = 100;

static_assert(kThreads % (kKinds * kWarp) == 0,
              "a block has enough elements of a kind for whole warps");

// snippet: exercise
// The element that a thread of the grid takes.
__host__ __device__ inline size_t elementOf(size_t thread)
{
    return thread;  // yours: how many kinds does a warp meet?
}
// end snippet

// Element v of kind i % 4, by fused multiply-adds: rounded alike on a CPU.
__host__ __device__ inline float resultOf(size_t i, float v)
{
    switch (i % kKinds) {
    case 0:
        for (unsigned int s = 0; s < kSteps; ++s) {
            v = fmaf(v, -0.75f, 0.5f);
        }
        return v;
    case 1:
        for (unsigned int s = 0; s < kSteps; ++s) {
            v = fmaf(v, v * 0.125f, 0.5f);
        }
        return v;
    case 2:
        for (unsigned int s = 0; s < kSteps; ++s) {
            v = fmaf(v, 0.9375f, -0.5f);
        }
        return v;
    default:
        for (unsigned int s = 0; s < kSteps; ++s) {
            v = fmaf(v, -0.5f, v * 0.25f);
        }
        return v;
    }
}

// y = the results of x, one thread per element.
// Memory: as elementOf has it.
// Launch assumption: as many threads as elements.
__global__ void results(const float *__restrict__ x, float *__restrict__ y)
{
    const size_t thread =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t i = elementOf(thread);
    if (i < kCount) {
        y[i] = resultOf(i, x[i]);
    }
}

// The most kinds that any warp has.
static size_t mostKinds()
{
    size_t most = 0;
    for (size_t first = 0; first < kCount; first += kWarp) {
        size_t seen[kKinds] = {};
        for (size_t lane = 0; lane < kWarp; ++lane) {
            seen[elementOf(first + lane) % kKinds] = 1;
        }
        most = std::max(most, seen[0] + seen[1] + seen[2] + seen[3]);
    }
    return most;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors      %d\n", device.multiProcessorCount);

    std::vector<float> x(kCount);
    std::vector<float> y(kCount);
    std::vector<unsigned int> taken(kCount, 0);
    for (size_t i = 0; i < kCount; ++i) {
        x[i] = static_cast<float>(i % 97) / 64.0f - 0.8f;
        const size_t place = elementOf(i);
        if (place < kCount) {
            ++taken[place];
        }
    }
    float *d_x = nullptr;
    float *d_y = nullptr;
    CUDA_CHECK(cudaMalloc(&d_x, kBytes));
    CUDA_CHECK(cudaMalloc(&d_y, kBytes));
    CUDA_CHECK(cudaMemcpy(d_x, x.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_y, 0xff, kBytes));  // all NaN
    results<<<kBlocks, kThreads>>>(d_x, d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, kBytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));

    size_t wrong = 0;
    size_t notOnce = 0;
    for (size_t i = 0; i < kCount; ++i) {
        wrong += y[i] == resultOf(i, x[i]) ? 0 : 1;
        notOnce += taken[i] == 1 ? 0 : 1;
    }
    const size_t kinds = mostKinds();
    std::printf("\ncheck: every element and every warp\n");
    std::printf("  elements             %zu\n", kCount);
    std::printf("  wrong                %zu\n", wrong);
    std::printf("  not taken once       %zu\n", notOnce);
    std::printf("  kinds in a warp      %zu   (at most)\n", kinds);
    if (wrong != 0 || notOnce != 0) {
        std::fprintf(stderr, "%zu elements are wrong, %zu are not taken by "
                             "exactly one thread\n",
                     wrong, notOnce);
        return EXIT_FAILURE;
    }
    if (kinds != 1) {
        std::fprintf(stderr, "a warp has elements of %zu kinds, not of 1\n",
                     kinds);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

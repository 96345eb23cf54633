// SPDX-License-Identifier: MIT
//
// Day 10, exercise: eight elements per thread. A solution.
//
// Every thread copies eight elements, in eight steps. Which element is it in
// which step? elementOf decides, for the kernel and for the count alike.
//
// Two things are judged. Every element must be copied, and by one thread only.
// And in every step, the addresses of a warp must lie in as few sectors of 32
// bytes as 32 numbers of four bytes can: four. The count is made on the CPU,
// for every warp and step.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <set>
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
constexpr size_t kAllThreads = size_t{kBlocks} * kThreads;
constexpr unsigned int kSteps = 8;  // elements of each thread
constexpr size_t kCount = kAllThreads * kSteps;
constexpr size_t kBytes = kCount * sizeof(unsigned int);
constexpr size_t kSector = 32;      // bytes
constexpr size_t kFewest = kWarp * sizeof(unsigned int) / kSector;

// snippet: exercise
// The element that a thread of the grid copies in a step.
__host__ __device__ inline size_t elementOf(size_t thread, unsigned int step)
{
    return step * kAllThreads + thread;
}
// end snippet

// y = x, eight elements per thread.
// Memory: as elementOf has it.
// Launch assumption: kAllThreads threads.
__global__ void copyEight(const unsigned int *__restrict__ x,
                          unsigned int *__restrict__ y)
{
    const size_t thread =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (unsigned int step = 0; step < kSteps; ++step) {
        const size_t i = elementOf(thread, step);
        if (i < kCount) {
            y[i] = x[i];
        }
    }
}

// The most sectors that any warp asks for in any step.
static size_t mostSectors()
{
    size_t most = 0;
    for (size_t first = 0; first < kAllThreads; first += kWarp) {
        for (unsigned int step = 0; step < kSteps; ++step) {
            std::set<size_t> sectors;
            for (size_t lane = 0; lane < kWarp; ++lane) {
                sectors.insert(elementOf(first + lane, step) *
                               sizeof(unsigned int) / kSector);
            }
            most = std::max(most, sectors.size());
        }
    }
    return most;
}

// How many elements are not taken exactly once.
static size_t notOnce()
{
    std::vector<unsigned int> taken(kCount, 0);
    for (size_t thread = 0; thread < kAllThreads; ++thread) {
        for (unsigned int step = 0; step < kSteps; ++step) {
            const size_t i = elementOf(thread, step);
            if (i < kCount) {
                ++taken[i];
            }
        }
    }
    return kCount - static_cast<size_t>(
                        std::count(taken.begin(), taken.end(), 1u));
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors    %d\n", device.multiProcessorCount);

    std::vector<unsigned int> x(kCount);
    std::vector<unsigned int> y(kCount);
    for (size_t i = 0; i < kCount; ++i) {
        x[i] = static_cast<unsigned int>(i + 1);  // no two alike, none 0
    }
    unsigned int *d_x = nullptr;
    unsigned int *d_y = nullptr;
    CUDA_CHECK(cudaMalloc(&d_x, kBytes));
    CUDA_CHECK(cudaMalloc(&d_y, kBytes));
    CUDA_CHECK(cudaMemcpy(d_x, x.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_y, 0, kBytes));
    copyEight<<<kBlocks, kThreads>>>(d_x, d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, kBytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));

    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        wrong += y[i] == x[i] ? 0 : 1;
    }
    const size_t twice = notOnce();
    const size_t sectors = mostSectors();
    std::printf("\ncheck: every element, every warp, every step\n");
    std::printf("  elements           %zu\n", kCount);
    std::printf("  wrong              %zu\n", wrong);
    std::printf("  not taken once     %zu\n", twice);
    std::printf("  sectors, at most   %zu   (of a warp in a step; %zu are "
                "enough)\n",
                sectors, kFewest);
    if (wrong != 0 || twice != 0) {
        std::fprintf(stderr, "%zu elements are wrong, %zu are not taken by "
                             "exactly one thread\n",
                     wrong, twice);
        return EXIT_FAILURE;
    }
    if (sectors != kFewest) {
        std::fprintf(stderr, "a warp asks for %zu sectors at a time, not %zu\n",
                     sectors, kFewest);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

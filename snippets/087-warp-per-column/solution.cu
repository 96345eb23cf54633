// SPDX-License-Identifier: MIT
//
// Day 87, exercise, solved: in each of three rounds a lane gives half of its
// numbers away and keeps the other half, so that 4 + 2 + 1 shuffles do.
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

constexpr int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr int kGroup = 8;  // lanes, and numbers that each of them brings
constexpr int kBlocks = 37;
constexpr unsigned int kAllowed = kGroup - 1;
constexpr size_t kLanes = static_cast<size_t>(kBlocks) * kWarp;

// A shuffle that is counted.
__device__ float exchanged(float value, int offset, unsigned int *shuffles)
{
    ++*shuffles;
    return __shfl_xor_sync(kFullWarp, value, offset);
}

// Each lane of a group brings kGroup numbers; its n-th lane leaves with the
// largest of the n-th ones.
// Launch assumption: one warp a block.
__global__ void largestOfEach(const float *__restrict__ x,
                              float *__restrict__ y,
                              unsigned int *__restrict__ counts)
{
    const int lane = static_cast<int>(threadIdx.x);
    const size_t at = static_cast<size_t>(blockIdx.x) * kWarp + threadIdx.x;
    unsigned int shuffles = 0;
    float number[kGroup];
#pragma unroll
    for (int n = 0; n < kGroup; ++n) {
        number[n] = x[at * kGroup + n];
    }
    float largest = 0.0f;
    // snippet: exercise
#pragma unroll
    for (int half = kGroup / 2; half > 0; half /= 2) {
        const bool upper = (lane & half) != 0;
#pragma unroll
        for (int n = 0; n < half; ++n) {
            const float send = upper ? number[n] : number[n + half];
            const float keep = upper ? number[n + half] : number[n];
            number[n] = fmaxf(keep, exchanged(send, half, &shuffles));
        }
    }
    largest = number[0];
    // end snippet
    y[at] = largest;
    counts[at] = shuffles;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    std::vector<float> x;
    for (size_t i = 0; i < kLanes * kGroup; ++i) {
        x.push_back(static_cast<float>(i * 2579 % 10007) / 10007.0f - 0.9f);
    }
    float *d_x = nullptr;
    float *d_y = nullptr;
    unsigned int *d_counts = nullptr;
    std::vector<float> y(kLanes);
    std::vector<unsigned int> counts(kLanes);
    CUDA_CHECK(cudaMalloc(&d_x, x.size() * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_y, kLanes * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_counts, kLanes * sizeof(unsigned int)));
    CUDA_CHECK(cudaMemcpy(d_x, x.data(), x.size() * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_y, 0xff, kLanes * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_counts, 0xff, kLanes * sizeof(unsigned int)));
    largestOfEach<<<kBlocks, kWarp>>>(d_x, d_y, d_counts);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, kLanes * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(counts.data(), d_counts,
                          kLanes * sizeof(unsigned int),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));
    CUDA_CHECK(cudaFree(d_counts));

    size_t wrong = 0;
    unsigned int most = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
        const size_t group = lane / kGroup * kGroup;
        float want = -HUGE_VALF;
        for (size_t other = group; other < group + kGroup; ++other) {
            want = std::max(want, x[other * kGroup + lane % kGroup]);
        }
        wrong += y[lane] == want ? 0 : 1;  // a NaN is wrong
        most = std::max(most, counts[lane]);
    }
    std::printf("\nlargest of each: groups of %d lanes\n", kGroup);
    std::printf("  outputs    %zu\n", kLanes);
    std::printf("  wrong      %zu\n", wrong);
    std::printf("  shuffles   %u   (of a lane)\n", most);
    std::printf("  allowed    %u\n", kAllowed);
    if (wrong != 0 || most > kAllowed) {
        std::fprintf(stderr, "%zu wrong outputs, %u shuffles, not at most %u\n",
                     wrong, most, kAllowed);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 83, exercise, solved: in each of five rounds every lane puts the stretch
// of steps that it has behind the one that ends where its own begins.
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
constexpr int kBlocks = 37;
constexpr unsigned int kAllowed = 10;
constexpr size_t kLanes = static_cast<size_t>(kBlocks) * kWarp;

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off

// What lane `from` has; counted. Below lane 0 there is lane 0.
__device__ float exchanged(float value, int from, unsigned int *shuffles)
{
    ++*shuffles;
    return __shfl_sync(kFullWarp, value, max(from, 0));
}

// Each lane brings the gate of a step and what the step adds; it leaves with
// the state after its step, from a state of zero before lane 0.
// Launch assumption: one warp a block.
__global__ void statesOfSteps(const float *__restrict__ gates,
                              const float *__restrict__ shares,
                              float *__restrict__ y,
                              unsigned int *__restrict__ counts)
{
    const int lane = static_cast<int>(threadIdx.x);
    const size_t at = static_cast<size_t>(blockIdx.x) * kWarp + threadIdx.x;
    unsigned int shuffles = 0;
    float gate = gates[at];
    float added = shares[at];
    // snippet: exercise
#pragma unroll
    for (int reach = 1; reach < kWarp; reach *= 2) {
        const float before = exchanged(added, lane - reach, &shuffles);
        const float product = exchanged(gate, lane - reach, &shuffles);
        added = lane >= reach ? fmaf(gate, before, added) : added;
        gate = lane >= reach ? gate * product : gate;
    }
    // end snippet
    y[at] = added;
    counts[at] = shuffles;
}

static float numberAt(size_t i, size_t stride)
{
    return static_cast<float>(i * stride % 10007) / 10007.0f - 0.5f;
}

// Near one, near zero, exactly one and exactly zero, in turns.
static float gateAt(size_t i)
{
    const float number = 0.5f + numberAt(i, 346);
    return i % 13 == 5   ? 0.0f
           : i % 3 == 0  ? 1.0f - 0.05f * number
           : i % 11 == 7 ? 1.0f
                         : number;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    std::vector<float> gates;
    std::vector<float> shares;
    for (size_t i = 0; i < kLanes; ++i) {
        gates.push_back(gateAt(i));
        shares.push_back(numberAt(i, 2579));
    }
    float *d_gates = nullptr;
    float *d_shares = nullptr;
    float *d_y = nullptr;
    unsigned int *d_counts = nullptr;
    const size_t bytes = kLanes * sizeof(float);
    std::vector<float> y(kLanes);
    std::vector<unsigned int> counts(kLanes);
    CUDA_CHECK(cudaMalloc(&d_gates, bytes));
    CUDA_CHECK(cudaMalloc(&d_shares, bytes));
    CUDA_CHECK(cudaMalloc(&d_y, bytes));
    CUDA_CHECK(cudaMalloc(&d_counts, kLanes * sizeof(unsigned int)));
    CUDA_CHECK(cudaMemcpy(d_gates, gates.data(), bytes,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_shares, shares.data(), bytes,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_y, 0xff, bytes));
    CUDA_CHECK(cudaMemset(d_counts, 0xff, kLanes * sizeof(unsigned int)));
    statesOfSteps<<<kBlocks, kWarp>>>(d_gates, d_shares, d_y, d_counts);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(counts.data(), d_counts,
                          kLanes * sizeof(unsigned int),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_gates));
    CUDA_CHECK(cudaFree(d_shares));
    CUDA_CHECK(cudaFree(d_y));
    CUDA_CHECK(cudaFree(d_counts));

    // No term goes through more than two roundings a step.
    const double allowed = 4.0 * kUnit * std::sqrt(2.0 * kWarp);
    double worst = 0.0;
    size_t wrong = 0;
    unsigned int most = 0;
    double state = 0.0;
    double size = 0.0;
    for (size_t i = 0; i < kLanes; ++i) {
        const double g = i % kWarp == 0 ? 0.0 : gates[i];
        state = g * state + shares[i];
        size = g * size + std::fabs(shares[i]);
        const double frac = std::fabs(y[i] - state) / (allowed * size);
        worst = std::max(worst, frac);
        wrong += frac <= 1.0 ? 0 : 1;  // a NaN is wrong
        most = std::max(most, counts[i]);
    }
    std::printf("\nstates: of %d steps, a lane each\n", kWarp);
    std::printf("  outputs          %zu\n", kLanes);
    std::printf("  wrong            %zu\n", wrong);
    std::printf("  worst fraction   %.4f\n", worst);
    std::printf("  shuffles         %u   (of a lane)\n", most);
    std::printf("  allowed          %u\n", kAllowed);
    if (wrong != 0 || most > kAllowed) {
        std::fprintf(stderr, "%zu wrong outputs, %u shuffles, not at most %u\n",
                     wrong, most, kAllowed);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 88, exercise: what a chunk adds to the state, as a plain matrix product
// without a division. As it stands, v is divided by the product of the gates.
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
constexpr int kDim = 24;
constexpr int kChunk = 64;  // steps
constexpr int kChunks = 12;
constexpr int kKinds = 3;   // of gates, a third of the chunks each
constexpr size_t kSteps = static_cast<size_t>(kChunks) * kChunk;
constexpr size_t kCount = kSteps * kDim;
constexpr size_t kStates = static_cast<size_t>(kChunks) * kDim * kDim;

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off

// What a chunk adds to the state after it: the sum over its steps of k v, each
// times all gates that come later in the chunk. The sum itself is a plain
// matrix product, of k and `weighted`.
// Launch assumption: kDim threads, a block per chunk; thread j has column j.
__global__ void addedByChunk(const float *__restrict__ k,
                             const float *__restrict__ v,
                             const float *__restrict__ gate,
                             float *__restrict__ added)
{
    __shared__ float weighted[kChunk][kDim];  // v; a thread has its own column
    const int j = static_cast<int>(threadIdx.x);
    const size_t start = static_cast<size_t>(blockIdx.x) * kChunk * kDim;
    // snippet: exercise
    float scale = 1.0f;  // of the whole sum: the product of all gates
    for (int s = 0; s < kChunk; ++s) {
        scale *= gate[start + s * kDim + j];
        weighted[s][j] = v[start + s * kDim + j] / scale;
    }
    // end snippet
    for (int i = 0; i < kDim; ++i) {
        float sum = 0.0f;
        for (int s = 0; s < kChunk; ++s) {
            sum = fmaf(k[start + s * kDim + i], weighted[s][j], sum);
        }
        const size_t row = static_cast<size_t>(blockIdx.x) * kDim + i;
        added[row * kDim + j] = scale * sum;
    }
}

static float numberAt(size_t i, size_t stride)
{
    return static_cast<float>(i * stride % 10007) / 10007.0f - 0.5f;
}

// By the chunk: about a half; near zero; about a half, and zero in every
// seventh step.
static float gateAt(size_t i)
{
    const float number = 0.5f + numberAt(i, 346);
    const size_t kind = i / kDim / kChunk % kKinds;
    const bool isZero = kind == 2 && i / kDim % 7 == 6;
    return isZero ? 0.0f : kind == 1 ? 0.05f * number : 0.3f + 0.4f * number;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    std::vector<float> in[3];  // k, v, gate
    for (size_t i = 0; i < kCount; ++i) {
        in[0].push_back(numberAt(i + 1, 2579));
        in[1].push_back(numberAt(i + 2, 2925));
        in[2].push_back(gateAt(i));
    }
    float *d_in[3] = {};
    float *d_added = nullptr;
    std::vector<float> added(kStates);
    for (int n = 0; n < 3; ++n) {
        CUDA_CHECK(cudaMalloc(&d_in[n], kCount * sizeof(float)));
        CUDA_CHECK(cudaMemcpy(d_in[n], in[n].data(), kCount * sizeof(float),
                              cudaMemcpyHostToDevice));
    }
    CUDA_CHECK(cudaMalloc(&d_added, kStates * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_added, 0xff, kStates * sizeof(float)));
    addedByChunk<<<kChunks, kDim>>>(d_in[0], d_in[1], d_in[2], d_added);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(added.data(), d_added, kStates * sizeof(float),
                          cudaMemcpyDeviceToHost));
    for (float *pointer : d_in) {
        CUDA_CHECK(cudaFree(pointer));
    }
    CUDA_CHECK(cudaFree(d_added));

    // No term is older than the chunk: two roundings a step at most.
    const double allowed = 4.0 * kUnit * std::sqrt(2.0 * kChunk);
    double worst = 0.0;
    size_t wrong = 0;
    size_t lost = 0;
    for (size_t n = 0; n < kStates; ++n) {
        const size_t j = n % kDim;
        const size_t i = n / kDim % kDim;
        double state = 0.0;
        double size = 0.0;
        for (size_t s = 0; s < kChunk; ++s) {
            const size_t at = (n / kDim / kDim * kChunk + s) * kDim;
            const double kv =
                static_cast<double>(in[0][at + i]) * in[1][at + j];
            state = in[2][at + j] * state + kv;
            size = in[2][at + j] * size + std::fabs(kv);
        }
        const double frac = std::fabs(added[n] - state) / (allowed * size);
        lost += std::isfinite(added[n]) ? 0 : 1;
        wrong += frac <= 1.0 ? 0 : 1;  // a NaN is wrong
        worst = std::isfinite(frac) ? std::max(worst, frac) : worst;
    }
    std::printf("\nadded: by chunks of %d steps, D = %d\n", kChunk, kDim);
    std::printf("  outputs          %zu\n", kStates);
    std::printf("  wrong            %zu\n", wrong);
    std::printf("  not finite       %zu\n", lost);
    std::printf("  worst fraction   %.4f   (of the finite ones)\n", worst);
    if (wrong != 0) {
        std::fprintf(stderr, "%zu of %zu outputs are wrong\n", wrong, kStates);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

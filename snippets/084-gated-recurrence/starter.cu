// SPDX-License-Identifier: MIT
//
// Day 84, exercise: the gate on the other axis, one for each row of the state
// in place of one for each column. As it stands, this is the page's kernel.
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

constexpr int kDim = 40;  // two warps of columns, the second ragged
constexpr int kSteps = 131;
constexpr int kHeads = 3;
constexpr int kBlocks = 2 * kHeads;  // B = 2
constexpr size_t kRow = static_cast<size_t>(kHeads) * kDim;
constexpr size_t kCount = 2 * kSteps * kRow;

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off

// state[i][j] = gate[t][i] * state[i][j] + k[t][i] * v[t][j], and y as on the
// page. Thread j has column j.
// Launch assumption: kDim threads, a block per batch and head.
__global__ void rowGated(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y)
{
    const int j = static_cast<int>(threadIdx.x);
    size_t at = blockIdx.x / kHeads * kSteps * kRow +
                blockIdx.x % kHeads * kDim + threadIdx.x;
    // snippet: exercise
    __shared__ float tileK[kDim];
    __shared__ float tileQ[kDim];
    float state[kDim] = {};
    for (int t = 0; t < kSteps; ++t, at += kRow) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kDim; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
    // end snippet
}

static float numberAt(size_t i, size_t stride)
{
    return static_cast<float>(i * stride % 10007) / 10007.0f - 0.5f;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    // q, k, v, gate; the gates differ by row, near one and near zero.
    std::vector<float> in[4];
    for (size_t n = 0; n < 4; ++n) {
        for (size_t i = 0; i < kCount; ++i) {
            const float number = numberAt(i + n, 2579 + 346 * n);
            in[n].push_back(n < 3 ? number : 0.5f + number);
        }
    }
    float *d_in[4] = {};
    float *d_y = nullptr;
    std::vector<float> y(kCount);
    for (size_t n = 0; n < 4; ++n) {
        CUDA_CHECK(cudaMalloc(&d_in[n], kCount * sizeof(float)));
        CUDA_CHECK(cudaMemcpy(d_in[n], in[n].data(), kCount * sizeof(float),
                              cudaMemcpyHostToDevice));
    }
    CUDA_CHECK(cudaMalloc(&d_y, kCount * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_y, 0xff, kCount * sizeof(float)));
    rowGated<<<kBlocks, kDim>>>(d_in[0], d_in[1], d_in[2], d_in[3], d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, kCount * sizeof(float),
                          cudaMemcpyDeviceToHost));
    for (float *pointer : d_in) {
        CUDA_CHECK(cudaFree(pointer));
    }
    CUDA_CHECK(cudaFree(d_y));

    // No term is older than kSteps: the depth at its most.
    const double allowed = 4.0 * kUnit * std::sqrt(kDim + 2.0 + 2.0 * kSteps);
    double worst = 0.0;
    size_t wrong = 0;
    for (size_t block = 0; block < kBlocks; ++block) {
        for (size_t j = 0; j < kDim; ++j) {
            std::vector<double> state(kDim, 0.0);
            std::vector<double> size(kDim, 0.0);
            for (size_t t = 0; t < kSteps; ++t) {
                const size_t at = (block / kHeads * kSteps + t) * kRow +
                                  block % kHeads * kDim;
                double want = 0.0;
                double terms = 0.0;
                for (size_t i = 0; i < kDim; ++i) {
                    const double g = in[3][at + i];
                    const double kv =
                        static_cast<double>(in[1][at + i]) * in[2][at + j];
                    state[i] = g * state[i] + kv;
                    size[i] = g * size[i] + std::fabs(kv);
                    want += in[0][at + i] * state[i];
                    terms += std::fabs(in[0][at + i]) * size[i];
                }
                const double frac =
                    std::fabs(y[at + j] - want) / (allowed * terms);
                worst = std::max(worst, frac);
                wrong += frac <= 1.0 ? 0 : 1;  // a NaN is wrong
            }
        }
    }
    std::printf("\ngate on rows: B = 2, T = %d, H = %d, D = %d\n", kSteps,
                kHeads, kDim);
    std::printf("  outputs          %zu\n", kCount);
    std::printf("  wrong            %zu\n", wrong);
    std::printf("  worst fraction   %.4f\n", worst);
    if (wrong != 0) {
        std::fprintf(stderr, "%zu of %zu outputs are wrong\n", wrong, kCount);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

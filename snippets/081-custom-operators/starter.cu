// SPDX-License-Identifier: MIT
//
// Day 81, exercise: the way back. Thread j goes through the steps of
// its column from the last to the first and finds two gradients, by v and by
// the gate. The states are there already: `kept` has, for each step, the state
// that the step began with.
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
constexpr int kSteps = 67;
constexpr int kBlocks = 3;  // sequences, one after another in memory
constexpr size_t kSequence = static_cast<size_t>(kSteps) * kDim;
constexpr size_t kCount = kBlocks * kSequence;

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off

enum Input { kQ, kK, kV, kGate, kDy, kInputs };

struct Inputs {
    const float *in[kInputs];
};

// Forwards, for what is kept; then backwards, for dv and dgate.
// Launch assumption: kDim threads, a block per sequence.
__global__ void gradients(Inputs inputs, float *kept, float *__restrict__ dv,
                          float *__restrict__ dgate)
{
    __shared__ float tileK[kDim];
    __shared__ float tileQ[kDim];
    const int j = static_cast<int>(threadIdx.x);
    const size_t start = blockIdx.x * kSequence + threadIdx.x;
    const float *q = inputs.in[kQ] + start;
    const float *k = inputs.in[kK] + start;
    const float *v = inputs.in[kV] + start;
    const float *gate = inputs.in[kGate] + start;
    const float *dy = inputs.in[kDy] + start;
    float *mine = kept + blockIdx.x * kSequence * kDim + threadIdx.x;
    float state[kDim] = {};
    for (int t = 0; t < kSteps; ++t) {
        tileK[j] = k[t * kDim];
        __syncthreads();  // the step's k is there
#pragma unroll
        for (int i = 0; i < kDim; ++i) {
            mine[(t * kDim + i) * kDim] = state[i];  // as step t finds it
            state[i] = fmaf(gate[t * kDim], state[i], tileK[i] * v[t * kDim]);
        }
        __syncthreads();  // nobody reads it any more
    }
    float adjoint[kDim] = {};
    for (int t = kSteps - 1; t >= 0; --t) {
        tileK[j] = k[t * kDim];
        tileQ[j] = q[t * kDim];
        __syncthreads();  // the step's k and q are there
        float sumV = 0.0f;
        float sumGate = 0.0f;
        // snippet: exercise
        // The gate of the step itself is the wrong one, and nothing is added to
        // sumGate.
        const float later = gate[t * kDim];
#pragma unroll
        for (int i = 0; i < kDim; ++i) {
            adjoint[i] = fmaf(later, adjoint[i], tileQ[i] * dy[t * kDim]);
            sumV = fmaf(adjoint[i], tileK[i], sumV);
        }
        // end snippet
        dv[start + t * kDim] = sumV;
        dgate[start + t * kDim] = sumGate;
        __syncthreads();  // nobody reads them any more
    }
}

static float numberAt(size_t i, size_t stride)
{
    return static_cast<float>(i * stride % 10007) / 10007.0f - 0.5f;
}

// Both gradients of one column in double precision, and their absolute terms.
struct Column {
    double value[2][kSteps];
    double terms[2][kSteps];
};

static Column columnOf(const std::vector<float> (&h)[kInputs], size_t block,
                       size_t j)
{
    Column column = {};
    for (int isAbs = 0; isAbs < 2; ++isAbs) {
        const auto at = [&](int input, int t, size_t i) {
            const double x = h[input][block * kSequence + t * kDim + i];
            return isAbs == 1 ? std::fabs(x) : x;
        };
        std::vector<double> states((kSteps + 1) * kDim, 0.0);
        for (int t = 0; t < kSteps; ++t) {
            for (size_t i = 0; i < kDim; ++i) {
                states[(t + 1) * kDim + i] =
                    at(kGate, t, j) * states[t * kDim + i] +
                    at(kK, t, i) * at(kV, t, j);
            }
        }
        std::vector<double> adjoint(kDim, 0.0);
        for (int t = kSteps - 1; t >= 0; --t) {
            const double later = t + 1 < kSteps ? at(kGate, t + 1, j) : 0.0;
            double sumV = 0.0;
            double sumGate = 0.0;
            for (size_t i = 0; i < kDim; ++i) {
                adjoint[i] = later * adjoint[i] + at(kQ, t, i) * at(kDy, t, j);
                sumV += adjoint[i] * at(kK, t, i);
                sumGate += adjoint[i] * states[t * kDim + i];
            }
            (isAbs == 1 ? column.terms : column.value)[0][t] = sumV;
            (isAbs == 1 ? column.terms : column.value)[1][t] = sumGate;
        }
    }
    return column;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    // Gates from 0.5 to 1: what is old still counts.
    std::vector<float> h[kInputs];
    float *d_in[kInputs] = {};
    Inputs inputs = {};
    for (size_t n = 0; n < kInputs; ++n) {
        for (size_t i = 0; i < kCount; ++i) {
            const float number = numberAt(i + n, 2579 + 346 * n);
            h[n].push_back(n == kGate ? 0.75f + 0.5f * number : number);
        }
        CUDA_CHECK(cudaMalloc(&d_in[n], kCount * sizeof(float)));
        CUDA_CHECK(cudaMemcpy(d_in[n], h[n].data(), kCount * sizeof(float),
                              cudaMemcpyHostToDevice));
        inputs.in[n] = d_in[n];
    }
    float *d_kept = nullptr;
    float *d_out[2] = {nullptr, nullptr};  // dv, dgate
    std::vector<float> got[2];
    CUDA_CHECK(cudaMalloc(&d_kept, kCount * kDim * sizeof(float)));
    for (int n = 0; n < 2; ++n) {
        got[n].resize(kCount);
        CUDA_CHECK(cudaMalloc(&d_out[n], kCount * sizeof(float)));
        CUDA_CHECK(cudaMemset(d_out[n], 0xff, kCount * sizeof(float)));
    }
    gradients<<<kBlocks, kDim>>>(inputs, d_kept, d_out[0], d_out[1]);
    CUDA_CHECK(cudaGetLastError());
    for (int n = 0; n < 2; ++n) {
        CUDA_CHECK(cudaMemcpy(got[n].data(), d_out[n], kCount * sizeof(float),
                              cudaMemcpyDeviceToHost));
        CUDA_CHECK(cudaFree(d_out[n]));
    }
    CUDA_CHECK(cudaFree(d_kept));
    for (float *pointer : d_in) {
        CUDA_CHECK(cudaFree(pointer));
    }

    // No term has been through more roundings than this.
    const double allowed = 4.0 * kUnit * std::sqrt(kDim + 4.0 + 2.0 * kSteps);
    double worst[2] = {0.0, 0.0};
    size_t wrong[2] = {0, 0};
    for (size_t block = 0; block < kBlocks; ++block) {
        for (size_t j = 0; j < kDim; ++j) {
            const Column column = columnOf(h, block, j);
            for (int n = 0; n < 2; ++n) {
                for (int t = 0; t < kSteps; ++t) {
                    const double error =
                        std::fabs(got[n][block * kSequence + t * kDim + j] -
                                  column.value[n][t]);
                    const double frac =
                        error == 0.0 ? 0.0
                                     : error / (allowed * column.terms[n][t]);
                    worst[n] = std::max(worst[n], frac);
                    wrong[n] += frac <= 1.0 ? 0 : 1;  // a NaN is wrong
                }
            }
        }
    }
    std::printf("\ngradients: %d sequences, T = %d, D = %d\n", kBlocks, kSteps,
                kDim);
    std::printf("  of each             %zu\n", kCount);
    std::printf("  wrong by v          %zu   (worst fraction %.4f)\n", wrong[0],
                worst[0]);
    std::printf("  wrong by the gate   %zu   (worst fraction %.4f)\n", wrong[1],
                worst[1]);
    if (wrong[0] + wrong[1] != 0) {
        std::fprintf(stderr,
                     "%zu gradients by v and %zu gradients by the gate are "
                     "wrong\n",
                     wrong[0], wrong[1]);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

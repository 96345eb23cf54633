// SPDX-License-Identifier: MIT
//
// Ledger: must the output of the founding kernel (day 84) be set to zero before
// the launch? It is memory fresh from cudaMalloc, that nobody has written. The
// kernel writes it, another reads every element of it, and the CPU judges it in
// double precision. initcheck reports whoever reads what was never written.
//
// Predicted: right, and initcheck is content, because every element is written.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o not-cleared not-cleared.cu
// Run: ./not-cleared

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

constexpr int kBatch = 2;
constexpr int kSteps = 131;
constexpr int kHeads = 3;
constexpr int kBlocks = kBatch * kHeads;

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off

constexpr int kDim = 24;

// The founding kernel.
// Memory: a step reads and writes rows of kDim neighbouring floats.
// Launch assumption: kDim threads, a block per batch and head.
__global__ void recurrence(const float *__restrict__ q,
                           const float *__restrict__ k,
                           const float *__restrict__ v,
                           const float *__restrict__ gate,
                           float *__restrict__ y)
{
    __shared__ float tileK[kDim];
    __shared__ float tileQ[kDim];
    const int j = static_cast<int>(threadIdx.x);
    size_t at = (blockIdx.x / kHeads * kSteps * kHeads + blockIdx.x % kHeads) *
                    kDim + threadIdx.x;
    float state[kDim] = {};
    for (int t = 0; t < kSteps; ++t, at += kHeads * kDim) {
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
}

// Memory: thread i reads element i of y and writes element i of copy.
// Launch assumption: at least count threads.
__global__ void copyOf(const float *__restrict__ y, float *__restrict__ copy,
                       size_t count)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) {
        copy[i] = y[i];
    }
}

// Without symmetry; the gates lie near one and near zero.
static float inputAt(size_t i, size_t which)
{
    const size_t stride = 2579 + 346 * which;
    const float number =
        static_cast<float>((i + which) * stride % 10007) / 10007.0f - 0.5f;
    return which < 3 ? number : 0.5f + number;
}

struct Arrays {
    size_t count = 0;
    std::vector<float> in[4];  // q, k, v, gate
    float *d_in[4] = {};
    float *d_y = nullptr;
};

static Arrays makeArrays(int dim)
{
    Arrays a;
    a.count = static_cast<size_t>(kBlocks) * kSteps * dim;
    for (size_t n = 0; n < 4; ++n) {
        for (size_t i = 0; i < a.count; ++i) {
            a.in[n].push_back(inputAt(i, n));
        }
        CUDA_CHECK(cudaMalloc(&a.d_in[n], a.count * sizeof(float)));
        CUDA_CHECK(cudaMemcpy(a.d_in[n], a.in[n].data(),
                              a.count * sizeof(float),
                              cudaMemcpyHostToDevice));
    }
    CUDA_CHECK(cudaMalloc(&a.d_y, a.count * sizeof(float)));
    return a;
}

static void freeArrays(const Arrays &a)
{
    for (float *d_in : a.d_in) {
        CUDA_CHECK(cudaFree(d_in));
    }
    CUDA_CHECK(cudaFree(a.d_y));
}

// How many elements are further off than 4 u sqrt(depth) times the sum of
// their absolute terms; a NaN is. No term is older than kSteps.
static size_t wrongIn(const std::vector<float> &y, const Arrays &a, int dim)
{
    const size_t d = static_cast<size_t>(dim);
    const size_t row = kHeads * d;
    const double allowed = 4.0 * kUnit * std::sqrt(dim + 2.0 + 2.0 * kSteps);
    size_t wrong = 0;
    for (size_t column = 0; column < kBlocks * d; ++column) {
        const size_t head = column / d;
        const size_t start =
            head / kHeads * kSteps * row + head % kHeads * d;
        std::vector<double> state(d, 0.0);
        std::vector<double> size(d, 0.0);
        for (size_t t = 0; t < kSteps; ++t) {
            const size_t at = start + t * row;
            const size_t own = at + column % d;
            double want = 0.0;
            double terms = 0.0;
            for (size_t i = 0; i < d; ++i) {
                const double kv =
                    static_cast<double>(a.in[1][at + i]) * a.in[2][own];
                state[i] = a.in[3][own] * state[i] + kv;
                size[i] = a.in[3][own] * size[i] + std::fabs(kv);
                want += a.in[0][at + i] * state[i];
                terms += std::fabs(a.in[0][at + i]) * size[i];
            }
            const double error = std::fabs(y[own] - want);
            wrong += error <= allowed * terms ? 0 : 1;
        }
    }
    return wrong;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    // snippet: not-cleared
    const Arrays a = makeArrays(kDim);  // y is allocated and not written
    recurrence<<<kBlocks, kDim>>>(a.d_in[0], a.d_in[1], a.d_in[2], a.d_in[3],
                                  a.d_y);
    CUDA_CHECK(cudaGetLastError());
    // end snippet
    float *d_copy = nullptr;
    CUDA_CHECK(cudaMalloc(&d_copy, a.count * sizeof(float)));
    const unsigned int blocks = static_cast<unsigned int>(a.count / 256 + 1);
    copyOf<<<blocks, 256>>>(a.d_y, d_copy, a.count);
    CUDA_CHECK(cudaGetLastError());
    std::vector<float> y(a.count);
    CUDA_CHECK(cudaMemcpy(y.data(), d_copy, a.count * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_copy));
    freeArrays(a);

    const size_t wrong = wrongIn(y, a, kDim);
    std::printf("\nnot cleared: B = %d, T = %d, H = %d, D = %d\n", kBatch,
                kSteps, kHeads, kDim);
    std::printf("  outputs   %zu\n", a.count);
    std::printf("  wrong     %zu\n", wrong);
    if (wrong != 0) {
        std::fprintf(stderr, "%zu outputs are wrong\n", wrong);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

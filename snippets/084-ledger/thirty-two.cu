// SPDX-License-Identifier: MIT
//
// Ledger: must a block of the founding kernel (day 84) have exactly D threads?
// D = 24 fills three quarters of a warp. Three kernels:
//
//   exact     D threads
//   returns   whole warps; a thread without a column returns before the first
//             barrier
//   guards    whole warps; loads and stores are guarded, and every thread comes
//             to every barrier
//
// D = 40 is judged as well, where a block has two warps and the second is the
// ragged one. All outputs are judged against the CPU, in double precision.
//
// Predicted: all three are right, none hangs, and synccheck is content.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o thirty-two thirty-two.cu
// Run: ./thirty-two

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
constexpr int kOtherDim = 40;
constexpr int kWarp = 32;

static_assert(kDim % kWarp != 0 && kOtherDim % kWarp != 0,
              "without threads to spare there is nothing to see");

enum Spare { kExact, kReturns, kGuards, kSpareCount };
constexpr const char *kNames[kSpareCount] = {"exact", "returns", "guards"};

// The founding kernel, with threads to spare or without.
// Memory: a step reads and writes rows of kD neighbouring floats.
// Launch assumption: kD threads, or more where kSpare is not kExact; a block
// per batch and head.
template <int kD, int kSpare>
__global__ void recurrence(const float *__restrict__ q,
                           const float *__restrict__ k,
                           const float *__restrict__ v,
                           const float *__restrict__ gate,
                           float *__restrict__ y)
{
    // snippet: spare-threads
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    if (kSpare == kReturns && j >= kD) {
        return;  // before a barrier
    }
    const bool mine = kSpare != kGuards || j < kD;
    size_t at = (blockIdx.x / kHeads * kSteps * kHeads + blockIdx.x % kHeads) *
                    kD + threadIdx.x;
    float state[kD] = {};
    for (int t = 0; t < kSteps; ++t, at += kHeads * kD) {
        if (mine) {
            tileK[j] = k[at];
            tileQ[j] = q[at];
        }
        __syncthreads();  // the step's k and q are there
        const float g = mine ? gate[at] : 0.0f;
        const float value = mine ? v[at] : 0.0f;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        if (mine) {
            y[at] = sum;
        }
        __syncthreads();  // nobody reads them any more
    }
    // end snippet
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

template <int kD, int kSpare>
static size_t wrongOf(const Arrays &a, unsigned int threads)
{
    std::vector<float> y(a.count);
    CUDA_CHECK(cudaMemset(a.d_y, 0xff, a.count * sizeof(float)));
    recurrence<kD, kSpare><<<kBlocks, threads>>>(a.d_in[0], a.d_in[1],
                                                 a.d_in[2], a.d_in[3], a.d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y.data(), a.d_y, a.count * sizeof(float),
                          cudaMemcpyDeviceToHost));
    return wrongIn(y, a, kD);
}

template <int kD>
static size_t judge()
{
    constexpr unsigned int kWhole = (kD + kWarp - 1) / kWarp * kWarp;
    const unsigned int threads[kSpareCount] = {kD, kWhole, kWhole};
    const Arrays a = makeArrays(kD);
    const size_t wrong[kSpareCount] = {
        wrongOf<kD, kExact>(a, kD),
        wrongOf<kD, kReturns>(a, kWhole),
        wrongOf<kD, kGuards>(a, kWhole),
    };
    std::printf("\nD = %d: B = %d, T = %d, H = %d\n", kD, kBatch, kSteps,
                kHeads);
    std::printf("  kernel   threads  outputs  wrong\n");
    size_t total = 0;
    for (int n = 0; n < kSpareCount; ++n) {
        std::printf("  %-7s  %7u  %7zu  %5zu\n", kNames[n], threads[n], a.count,
                    wrong[n]);
        total += wrong[n];
    }
    freeArrays(a);
    return total;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    const size_t wrong = judge<kDim>() + judge<kOtherDim>();
    if (wrong != 0) {
        std::fprintf(stderr, "%zu outputs are wrong\n", wrong);
        return EXIT_FAILURE;
    }
    std::printf("\nall 6 cases passed their gates\n");
    return EXIT_SUCCESS;
}

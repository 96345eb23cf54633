// SPDX-License-Identifier: MIT
//
// Ledger: does the kernel for any D work for any D? It has the state and a
// step's k and q in shared memory that is asked for at the launch, D (D + 2)
// numbers, and D threads. Each D is launched as it is, and once more after the
// kernel was allowed what the launch asks for. y is filled with NaN before.
//
// Judged against the CPU, in double precision. What the runtime says of a
// launch is printed as the number of its error.
//
// Predicted: as it is, right up to D = 109, and refused from 110 on, above 48
// KiB. Allowed, right up to 240. 1025 threads are refused in either case.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o any-width any-width.cu
// Run: ./any-width

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

constexpr int kBatch = 1;
constexpr int kSteps = 5;
constexpr int kHeads = 2;
constexpr int kBlocks = kBatch * kHeads;

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off

constexpr int kWidths[] = {24, 109, 110, 240, 241, 1025};

// Memory: a step reads and writes rows of dim neighbouring floats.
// Launch assumption: dim threads, a block per batch and head, and shared memory
// for dim * (dim + 2) floats.
__global__ void anyWidth(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int dim)
{
    // snippet: any-width
    extern __shared__ float shared[];
    float *tileK = shared;
    float *tileQ = shared + dim;
    const int j = static_cast<int>(threadIdx.x);
    float *state = shared + 2 * dim + j;  // number i of it: state[i * dim]
    // end snippet
    size_t at = static_cast<size_t>(blockIdx.x / kHeads * kSteps * kHeads +
                                    blockIdx.x % kHeads) * dim + threadIdx.x;
    for (int i = 0; i < dim; ++i) {
        state[i * dim] = 0.0f;
    }
    for (int t = 0; t < kSteps; ++t, at += static_cast<size_t>(kHeads) * dim) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
        for (int i = 0; i < dim; ++i) {
            state[i * dim] = fmaf(g, state[i * dim], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i * dim], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
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

struct Outcome {
    int allowed = 0;   // error of asking for the shared memory
    int launched = 0;  // error of the launch
    size_t wrong = 0;
};

static Outcome launch(const Arrays &a, int dim, size_t bytes, bool asks)
{
    Outcome found;
    if (asks) {
        found.allowed = cudaFuncSetAttribute(
            anyWidth, cudaFuncAttributeMaxDynamicSharedMemorySize,
            static_cast<int>(bytes));
        cudaGetLastError();  // it is in the outcome
    }
    std::vector<float> y(a.count);
    CUDA_CHECK(cudaMemset(a.d_y, 0xff, a.count * sizeof(float)));
    anyWidth<<<kBlocks, dim, bytes>>>(a.d_in[0], a.d_in[1], a.d_in[2],
                                      a.d_in[3], a.d_y, dim);
    found.launched = cudaGetLastError();
    CUDA_CHECK(cudaMemcpy(y.data(), a.d_y, a.count * sizeof(float),
                          cudaMemcpyDeviceToHost));
    found.wrong = wrongIn(y, a, dim);
    return found;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    // Each D as it is, before any is allowed more.
    bool isGood = true;
    for (const bool asks : {false, true}) {
        std::printf("\n%s: B = %d, T = %d, H = %d\n",
                    asks ? "allowed" : "as it is", kBatch, kSteps, kHeads);
        std::printf("  D     shared (B)  outputs  asking  launch  wrong\n");
        for (const int dim : kWidths) {
            const Arrays a = makeArrays(dim);
            const size_t bytes =
                static_cast<size_t>(dim) * (dim + 2) * sizeof(float);
            const Outcome found = launch(a, dim, bytes, asks);
            std::printf("  %-4d  %10zu  %7zu  %6d  %6d  %5zu\n", dim, bytes,
                        a.count, found.allowed, found.launched, found.wrong);
            // An accepted launch is right, and a refused one writes nothing.
            const size_t due = found.launched == 0 ? 0 : a.count;
            isGood = isGood && found.wrong == due;
            freeArrays(a);
        }
    }
    if (!isGood) {
        std::fprintf(stderr, "an accepted launch is wrong, or a refused one "
                             "wrote\n");
        return EXIT_FAILURE;
    }
    std::printf("\nall 12 cases passed their gates\n");
    return EXIT_SUCCESS;
}

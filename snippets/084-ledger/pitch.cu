// SPDX-License-Identifier: MIT
//
// Ledger: is a pitch of 33 numbers good for a state in shared memory (day 86)
// up to D = 128? A thread has a row of D numbers, and rows begin 33 numbers
// apart, so that lanes meet in no bank. But a row of more than 33 reaches into
// the next. Judged against the CPU, in double precision, beside a pitch of
// D + 1.
//
// What comes out of overlapping rows depends on who writes first, so numbers
// may differ from run to run. racecheck watches the accesses themselves.
//
// Predicted: up to D = 33 all outputs are right; at 34 and 64 not, and
// racecheck reports a race. A pitch of D + 1 is right.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o pitch pitch.cu
// Run: ./pitch

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

constexpr int kWarp = 32;

// The founding kernel (day 84) with its state in shared memory.
// Memory: a step reads and writes rows of kD neighbouring floats.
// Launch assumption: kD threads, a block per batch and head.
template <int kD, int kPitch>
__global__ void inShared(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    // snippet: pitch
    __shared__ float state[(kD - 1) * kPitch + kD];
    const int j = static_cast<int>(threadIdx.x);
    float *own = state + j * kPitch;
    // end snippet
    size_t at = (blockIdx.x / kHeads * kSteps * kHeads + blockIdx.x % kHeads) *
                    kD + threadIdx.x;
    for (int i = 0; i < kD; ++i) {
        own[i] = 0.0f;
    }
    for (int t = 0; t < kSteps; ++t, at += kHeads * kD) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
        for (int i = 0; i < kD; ++i) {
            own[i] = fmaf(g, own[i], tileK[i] * value);
            sum = fmaf(tileQ[i], own[i], sum);
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

// Of a warp, or of the D lanes that there are: how many want words of one bank.
static int degreeOf(int dim, int pitch)
{
    int wanted[kWarp] = {};
    for (int j = 0; j < std::min(dim, kWarp); ++j) {
        ++wanted[j * pitch % kWarp];
    }
    return *std::max_element(wanted, wanted + kWarp);
}

template <int kD, int kPitch>
static size_t judge()
{
    const Arrays a = makeArrays(kD);
    std::vector<float> y(a.count);
    CUDA_CHECK(cudaMemset(a.d_y, 0xff, a.count * sizeof(float)));
    inShared<kD, kPitch><<<kBlocks, kD>>>(a.d_in[0], a.d_in[1], a.d_in[2],
                                          a.d_in[3], a.d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y.data(), a.d_y, a.count * sizeof(float),
                          cudaMemcpyDeviceToHost));
    freeArrays(a);
    const size_t wrong = wrongIn(y, a, kD);
    std::printf("  %-6d  %5d  %9d  %7zu  %6zu\n", kD, kPitch,
                degreeOf(kD, kPitch), a.count, wrong);
    return wrong;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("\npitch of 33: B = %d, T = %d, H = %d\n", kBatch, kSteps,
                kHeads);
    std::printf("  D       pitch  conflicts  outputs   wrong\n");
    const size_t right = judge<24, 33>() + judge<32, 33>() + judge<33, 33>();
    const bool isWrong = judge<34, 33>() != 0 && judge<64, 33>() != 0;
    std::printf("\npitch that fits: the same\n");
    std::printf("  D       pitch  conflicts  outputs   wrong\n");
    const size_t fits = judge<24, 25>() + judge<34, 35>() + judge<64, 65>();
    if (right + fits != 0 || !isWrong) {
        std::fprintf(stderr, "%zu outputs are wrong where no rows overlap\n",
                     right + fits);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

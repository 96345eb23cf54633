// SPDX-License-Identifier: MIT
//
// Day 98, exercise: causal attention for any n. To be finished by you.
//
// Query row i may see the keys 0 .. i and no later one, as where a text is
// written word by word. The kernel is day 98's with guards. Two small functions
// decide which keys a block loads and which of them count for a row. Change
// these two, and nothing else.
//
// Judged are the outputs, against double precision on the CPU by day 66's rule
// with K = n; what lies behind the last row, which must not change; and how
// many tiles of keys were loaded, which the blocks count: no tile in vain.
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

// One row alone, less than a tile of keys, and sizes ragged in both tiles.
constexpr size_t kSizes[] = {1, 31, 100, 161};

constexpr size_t kHeadDim = 64;
constexpr float kScale = 0.125f;  // 1 / sqrt(kHeadDim), exact in binary

constexpr unsigned int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr unsigned int kRows = 2;                // query rows a warp owns
constexpr unsigned int kThreads = 256;
constexpr unsigned int kTileRows = kRows * kThreads / kWarp;  // of a block
constexpr unsigned int kKeyTile = kWarp;         // a lane scores one key
constexpr unsigned int kKeyPitch = kHeadDim + 1; // padded: day 15

constexpr size_t kCanary = kTileRows * kHeadDim;  // no block reaches further
constexpr float kCanaryValue = -1234.5f;

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

static_assert(kHeadDim == 2 * kWarp, "a lane owns two output dimensions");

__device__ float warpMax(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, offset));
    }
    return value;
}

__device__ float warpSum(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(kFullWarp, value, offset);
    }
    return value;
}

// snippet: exercise
// A block owns the query rows firstQuery .. firstQuery + kTileRows - 1, as far
// as they exist. It loads tiles of keys until it has this many keys, or more.
__device__ size_t keysFor(size_t firstQuery, size_t n)
{
    return firstQuery < n ? n : 0;  // yours: do its rows need all of them?
}

// Whether a key that was loaded has a weight in this row. A row that does not
// exist is asked as well, and what it gets is not stored.
__device__ bool counts(size_t row, size_t key, size_t n)
{
    return row < n && key < n;  // yours: which keys may this row see?
}
// end snippet

// O in one pass over the keys, day 98's kernel with guards.
// Launch assumption: 256 threads, grid ceil(n / kTileRows). No thread leaves
// early: barriers and full-warp shuffles follow everywhere.
__global__ void attentionCausal(const float *__restrict__ q,
                                const float *__restrict__ k,
                                const float *__restrict__ v,
                                float *__restrict__ o, size_t n,
                                unsigned int *__restrict__ tiles)
{
    __shared__ float tileQ[kTileRows][kHeadDim];
    __shared__ float tileK[kKeyTile][kKeyPitch];
    __shared__ float tileV[kKeyTile][kHeadDim];

    const unsigned int tid = threadIdx.x;
    const unsigned int lane = tid % kWarp;
    const unsigned int firstRow = tid / kWarp * kRows;
    const size_t firstQuery = static_cast<size_t>(blockIdx.x) * kTileRows;
    for (unsigned int i = tid; i < kTileRows * kHeadDim; i += kThreads) {
        const bool there = firstQuery + i / kHeadDim < n;
        tileQ[i / kHeadDim][i % kHeadDim] =
            there ? q[firstQuery * kHeadDim + i] : 0.0f;
    }

    float runMax[kRows];  // the largest score so far
    float runSum[kRows];  // the weights' sum, relative to runMax
    float acc[kRows][2];  // this lane's two dimensions of the output
#pragma unroll
    for (unsigned int r = 0; r < kRows; ++r) {
        runMax[r] = -INFINITY;
        runSum[r] = 0.0f;
        acc[r][0] = 0.0f;
        acc[r][1] = 0.0f;
    }

    const size_t keys = keysFor(firstQuery, n);
    for (size_t firstKey = 0; firstKey < keys; firstKey += kKeyTile) {
        for (unsigned int i = tid; i < kKeyTile * kHeadDim; i += kThreads) {
            const bool there = firstKey + i / kHeadDim < n;
            tileK[i / kHeadDim][i % kHeadDim] =
                there ? k[firstKey * kHeadDim + i] : 0.0f;
            tileV[i / kHeadDim][i % kHeadDim] =
                there ? v[firstKey * kHeadDim + i] : 0.0f;
        }
        if (tid == 0) {
            atomicAdd(tiles, 1u);
        }
        __syncthreads();  // the tiles are there

#pragma unroll
        for (unsigned int r = 0; r < kRows; ++r) {
            float score = 0.0f;
            for (unsigned int d = 0; d < kHeadDim; ++d) {
                score += tileQ[firstRow + r][d] * tileK[lane][d];
            }
            score *= kScale;
            if (!counts(firstQuery + firstRow + r, firstKey + lane, n)) {
                score = -INFINITY;
            }

            const float newMax = fmaxf(runMax[r], warpMax(score));
            const float rescale = expf(runMax[r] - newMax);
            const float weight = expf(score - newMax);
            runMax[r] = newMax;
            runSum[r] = runSum[r] * rescale + warpSum(weight);
            acc[r][0] *= rescale;
            acc[r][1] *= rescale;
            for (unsigned int key = 0; key < kKeyTile; ++key) {
                const float w = __shfl_sync(kFullWarp, weight, key);
                acc[r][0] += w * tileV[key][lane];
                acc[r][1] += w * tileV[key][lane + kWarp];
            }
        }
        __syncthreads();  // the tiles may be overwritten
    }

#pragma unroll
    for (unsigned int r = 0; r < kRows; ++r) {
        const size_t row = firstQuery + firstRow + r;
        if (row < n) {
            o[row * kHeadDim + lane] = acc[r][0] / runSum[r];
            o[row * kHeadDim + lane + kWarp] = acc[r][1] / runSum[r];
        }
    }
}

// Element i: whole steps, centred on 0. Periods are primes, and the amplitude
// changes from row to row with another one, so no two rows are alike.
static float elementAt(size_t i, size_t period, float unit)
{
    const float place = static_cast<float>(i * 37 % period);
    const float slow = static_cast<float>(1 + i / kHeadDim * 5 % 13);
    return unit * slow * (place - static_cast<float>(period / 2));
}

// The share of its allowance that an error uses up; above 1 is a failure. A
// NaN would lose every comparison, so what is not finite counts as infinite.
static double gateFraction(double got, double want, double rtol, double atol)
{
    if (!std::isfinite(got) || !std::isfinite(want)) {
        return HUGE_VAL;
    }
    return std::fabs(got - want) / (atol + rtol * std::fabs(want));
}

// One row in double precision: keys 0 .. row, maximum subtracted.
static void referenceRow(const std::vector<float> &q,
                         const std::vector<float> &k,
                         const std::vector<float> &v, size_t row, double *out)
{
    std::vector<double> scores(row + 1, 0.0);
    for (size_t key = 0; key <= row; ++key) {
        for (size_t d = 0; d < kHeadDim; ++d) {
            scores[key] += static_cast<double>(q[row * kHeadDim + d]) *
                           k[key * kHeadDim + d];
        }
        scores[key] /= std::sqrt(static_cast<double>(kHeadDim));
    }
    const double best = *std::max_element(scores.begin(), scores.end());
    double total = 0.0;
    std::fill(out, out + kHeadDim, 0.0);
    for (size_t key = 0; key <= row; ++key) {
        const double weight = std::exp(scores[key] - best);
        total += weight;
        for (size_t d = 0; d < kHeadDim; ++d) {
            out[d] += weight * v[key * kHeadDim + d];
        }
    }
    for (size_t d = 0; d < kHeadDim; ++d) {
        out[d] /= total;
    }
}

struct Counts {
    size_t wrong = 0;       // outputs
    size_t changed = 0;     // floats of the canary
    unsigned int tiles = 0; // of keys, that were loaded
    unsigned int least = 0; // that hold a key which some row may see
};

static Counts runSize(size_t n)
{
    const size_t count = n * kHeadDim;
    const size_t bytes = count * sizeof(float);
    const size_t outBytes = bytes + kCanary * sizeof(float);
    std::vector<float> h_q(count);
    std::vector<float> h_k(count);
    std::vector<float> h_v(count);
    std::vector<float> h_o(count + kCanary, kCanaryValue);
    for (size_t i = 0; i < count; ++i) {
        h_q[i] = elementAt(i, 97, 1.0f / 16.0f);
        h_k[i] = elementAt(i, 89, 1.0f / 1024.0f);
        h_v[i] = elementAt(i, 83, 1.0f / 256.0f);
        h_o[i] = NAN;
    }
    Counts c;
    const size_t blocks = (n + kTileRows - 1) / kTileRows;
    float *d_q = nullptr;
    float *d_k = nullptr;
    float *d_v = nullptr;
    float *d_o = nullptr;
    unsigned int *d_tiles = nullptr;
    CUDA_CHECK(cudaMalloc(&d_q, bytes));
    CUDA_CHECK(cudaMalloc(&d_k, bytes));
    CUDA_CHECK(cudaMalloc(&d_v, bytes));
    CUDA_CHECK(cudaMalloc(&d_o, outBytes));
    CUDA_CHECK(cudaMalloc(&d_tiles, sizeof(c.tiles)));
    CUDA_CHECK(cudaMemcpy(d_q, h_q.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_k, h_k.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_v, h_v.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_o, h_o.data(), outBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_tiles, 0, sizeof(c.tiles)));
    attentionCausal<<<static_cast<unsigned int>(blocks), kThreads>>>(
        d_q, d_k, d_v, d_o, n, d_tiles);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_o.data(), d_o, outBytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(&c.tiles, d_tiles, sizeof(c.tiles),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_q));
    CUDA_CHECK(cudaFree(d_k));
    CUDA_CHECK(cudaFree(d_v));
    CUDA_CHECK(cudaFree(d_o));
    CUDA_CHECK(cudaFree(d_tiles));

    std::vector<double> reference(count);
    double largest = 0.0;
    for (size_t row = 0; row < n; ++row) {
        referenceRow(h_q, h_k, h_v, row, &reference[row * kHeadDim]);
    }
    for (const double value : reference) {
        largest = std::max(largest, std::fabs(value));
    }
    const double rtol = std::max(
        kTableRtol, 4.0 * kUlp * std::sqrt(static_cast<double>(n)));
    for (size_t i = 0; i < count; ++i) {
        const double frac =
            gateFraction(h_o[i], reference[i], rtol, rtol * largest);
        c.wrong += frac <= 1.0 ? 0 : 1;
    }
    for (size_t i = count; i < count + kCanary; ++i) {
        c.changed += h_o[i] == kCanaryValue ? 0 : 1;
    }
    for (size_t b = 0; b < blocks; ++b) {
        const size_t seen = std::min((b + 1) * kTileRows, n);
        c.least += static_cast<unsigned int>((seen + kKeyTile - 1) / kKeyTile);
    }
    return c;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::printf("\ncausal: outputs, canary, and tiles of keys\n");
    std::printf("  %-7s  %7s  %5s  %14s  %5s  %5s\n", "size", "outputs",
                "wrong", "canary changed", "tiles", "least");
    int passed = 0;
    int failed = 0;
    size_t firstN = 0;
    Counts first;
    for (const size_t n : kSizes) {
        const Counts c = runSize(n);
        std::printf("  n = %-3zu  %7zu  %5zu  %14zu  %5u  %5u\n", n,
                    n * kHeadDim, c.wrong, c.changed, c.tiles, c.least);
        if (c.wrong + c.changed == 0 && c.tiles == c.least) {
            ++passed;
        } else if (failed++ == 0) {
            firstN = n;
            first = c;
        }
    }
    if (failed != 0) {
        std::fprintf(stderr,
                     "%d of %d sizes fail, first n = %zu: %zu outputs are "
                     "wrong, %u tiles were loaded where %u do\n",
                     failed, failed + passed, firstN, first.wrong, first.tiles,
                     first.least);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 97, exercise: the running state in registers. To be finished by you.
//
// attentionOnline is day 97's kernel. Its arrays are indexed by a loop that is
// not unrolled, so they lie in local memory. Change the three loops over r so
// that they do not.
//
// The judge is the pair check: attentionNaive computes the same in the plainest
// way, and the two must agree by day 66's rule with K = n. Beside that, the
// kernel must have no local memory, as the runtime reports it. Nothing is
// timed.
//
// Scores reach 10, so that the running maximum moves and every rescale counts.
// Neither kernel has a guard: n is a multiple of 64.
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

constexpr size_t kN = 192;        // query rows, and keys
constexpr size_t kHeadDim = 64;
constexpr float kScale = 0.125f;  // 1 / sqrt(kHeadDim), exact in binary

constexpr unsigned int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr unsigned int kRowsPerWarp = 8;         // query rows a warp owns
constexpr unsigned int kOnlineThreads = 256;
constexpr unsigned int kOnlineWarps = kOnlineThreads / kWarp;
constexpr unsigned int kQueryTile = kRowsPerWarp * kOnlineWarps;
constexpr unsigned int kKeyTile = kWarp;         // a lane scores one key
constexpr unsigned int kKeyPitch = kHeadDim + 1; // padded: day 15

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

static_assert(kN % kQueryTile == 0 && kN % kKeyTile == 0, "no guards");
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

__device__ float scoreOf(const float *__restrict__ q,
                         const float *__restrict__ k, size_t row, size_t key)
{
    float score = 0.0f;
    for (size_t d = 0; d < kHeadDim; ++d) {
        score += q[row * kHeadDim + d] * k[key * kHeadDim + d];
    }
    return score * kScale;
}

// O, one thread per output, maximum first: every thread makes all scores of its
// row for itself, twice.
// Launch assumption: n blocks of 64 threads.
__global__ void attentionNaive(const float *__restrict__ q,
                               const float *__restrict__ k,
                               const float *__restrict__ v,
                               float *__restrict__ o, size_t n)
{
    const size_t row = blockIdx.x;
    float best = -INFINITY;
    for (size_t key = 0; key < n; ++key) {
        best = fmaxf(best, scoreOf(q, k, row, key));
    }
    float total = 0.0f;
    float out = 0.0f;
    for (size_t key = 0; key < n; ++key) {
        const float weight = expf(scoreOf(q, k, row, key) - best);
        total += weight;
        out += weight * v[key * kHeadDim + threadIdx.x];
    }
    o[row * kHeadDim + threadIdx.x] = out / total;
}

// O in one pass over the keys, day 97's kernel.
// Launch assumption: 256 threads, grid n / 64, n a multiple of 64. No thread
// leaves early: barriers and full-warp shuffles follow everywhere.
__global__ void attentionOnline(const float *__restrict__ q,
                                const float *__restrict__ k,
                                const float *__restrict__ v,
                                float *__restrict__ o, size_t n)
{
    __shared__ float tileQ[kQueryTile][kHeadDim];
    __shared__ float tileK[kKeyTile][kKeyPitch];
    __shared__ float tileV[kKeyTile][kHeadDim];

    const unsigned int tid = threadIdx.x;
    const unsigned int lane = tid % kWarp;
    const unsigned int firstRow = tid / kWarp * kRowsPerWarp;
    const size_t firstQuery = static_cast<size_t>(blockIdx.x) * kQueryTile;
    for (unsigned int i = tid; i < kQueryTile * kHeadDim;
         i += kOnlineThreads) {
        tileQ[i / kHeadDim][i % kHeadDim] = q[firstQuery * kHeadDim + i];
    }

    // snippet: exercise
    float runMax[kRowsPerWarp];  // the largest score so far
    float runSum[kRowsPerWarp];  // the weights' sum, relative to runMax
    float acc[kRowsPerWarp][2];  // this lane's two dimensions of the output
    for (unsigned int r = 0; r < kRowsPerWarp; ++r) {
        runMax[r] = -INFINITY;
        runSum[r] = 0.0f;
        acc[r][0] = 0.0f;
        acc[r][1] = 0.0f;
    }

    for (size_t firstKey = 0; firstKey < n; firstKey += kKeyTile) {
        for (unsigned int i = tid; i < kKeyTile * kHeadDim;
             i += kOnlineThreads) {
            tileK[i / kHeadDim][i % kHeadDim] = k[firstKey * kHeadDim + i];
            tileV[i / kHeadDim][i % kHeadDim] = v[firstKey * kHeadDim + i];
        }
        __syncthreads();  // the tiles are there

        for (unsigned int r = 0; r < kRowsPerWarp; ++r) {
            float score = 0.0f;
            for (unsigned int d = 0; d < kHeadDim; ++d) {
                score += tileQ[firstRow + r][d] * tileK[lane][d];
            }
            score *= kScale;

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

    for (unsigned int r = 0; r < kRowsPerWarp; ++r) {
        const size_t row = firstQuery + firstRow + r;
        o[row * kHeadDim + lane] = acc[r][0] / runSum[r];
        o[row * kHeadDim + lane + kWarp] = acc[r][1] / runSum[r];
    }
    // end snippet
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

static void printKernel(const char *name, const void *kernel,
                        unsigned int threads, const cudaDeviceProp &device)
{
    cudaFuncAttributes attributes = {};
    int blocks = 0;
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, kernel, static_cast<int>(threads), 0));
    const double occupancy = 100.0 * blocks * threads /
                             device.maxThreadsPerMultiProcessor;
    std::printf("  %-15s  %9d  %9zu  %10zu  %9d  %13.1f\n", name,
                attributes.numRegs, attributes.localSizeBytes,
                attributes.sharedSizeBytes, blocks, occupancy);
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    std::printf("\nkernels: as compiled, local memory per thread\n");
    std::printf("  %-15s  %9s  %9s  %10s  %9s  %13s\n", "kernel",
                "registers", "local (B)", "shared (B)", "blocks/SM",
                "occupancy (%)");
    printKernel("attentionNaive",
                reinterpret_cast<const void *>(attentionNaive), kHeadDim,
                device);
    printKernel("attentionOnline",
                reinterpret_cast<const void *>(attentionOnline),
                kOnlineThreads, device);
    cudaFuncAttributes attributes = {};
    CUDA_CHECK(cudaFuncGetAttributes(
        &attributes, reinterpret_cast<const void *>(attentionOnline)));

    constexpr size_t kCount = kN * kHeadDim;
    constexpr size_t kBytes = kCount * sizeof(float);
    std::vector<float> h_q(kCount);
    std::vector<float> h_k(kCount);
    std::vector<float> h_v(kCount);
    std::vector<float> h_naive(kCount, NAN);
    std::vector<float> h_online(kCount, NAN);
    for (size_t i = 0; i < kCount; ++i) {
        h_q[i] = elementAt(i, 97, 1.0f / 16.0f);
        h_k[i] = elementAt(i, 89, 1.0f / 1024.0f);
        h_v[i] = elementAt(i, 83, 1.0f / 256.0f);
    }
    float *d_q = nullptr;
    float *d_k = nullptr;
    float *d_v = nullptr;
    float *d_o = nullptr;
    CUDA_CHECK(cudaMalloc(&d_q, kBytes));
    CUDA_CHECK(cudaMalloc(&d_k, kBytes));
    CUDA_CHECK(cudaMalloc(&d_v, kBytes));
    CUDA_CHECK(cudaMalloc(&d_o, kBytes));
    CUDA_CHECK(cudaMemcpy(d_q, h_q.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_k, h_k.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_v, h_v.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_o, 0xff, kBytes));  // every float is a NaN
    attentionNaive<<<kN, kHeadDim>>>(d_q, d_k, d_v, d_o, kN);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(h_naive.data(), d_o, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemset(d_o, 0xff, kBytes));  // nothing of the other is left
    attentionOnline<<<kN / kQueryTile, kOnlineThreads>>>(d_q, d_k, d_v, d_o,
                                                         kN);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(h_online.data(), d_o, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_q));
    CUDA_CHECK(cudaFree(d_k));
    CUDA_CHECK(cudaFree(d_v));
    CUDA_CHECK(cudaFree(d_o));

    const double rtol = std::max(
        kTableRtol, 4.0 * kUlp * std::sqrt(static_cast<double>(kN)));
    double largest = 0.0;
    for (const float value : h_naive) {
        largest = std::max<double>(largest, std::fabs(value));
    }
    double worst = 0.0;
    double zeros = 0.0;
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        const double atol = rtol * largest;
        const double frac = gateFraction(h_online[i], h_naive[i], rtol, atol);
        worst = std::max(worst, frac);
        zeros = std::max(zeros, gateFraction(0.0, h_naive[i], rtol, atol));
        wrong += frac <= 1.0 ? 0 : 1;
    }
    std::printf("\npair: the online path against the naive one\n");
    std::printf("  n                     %zu\n", kN);
    std::printf("  outputs               %zu\n", kCount);
    std::printf("  max |naive|           %.3e\n", largest);
    std::printf("  gate rtol             %.3e\n", rtol);
    std::printf("  wrong                 %zu\n", wrong);
    std::printf("  gate frac             %.4f\n", worst);
    std::printf("  all zeros, gate frac  %.1f\n", zeros);
    if (wrong != 0 || !(largest > 0.0)) {
        std::fprintf(stderr,
                     "%zu of %zu outputs differ from the naive path's, worst "
                     "gate fraction %.4g\n",
                     wrong, kCount, worst);
        return EXIT_FAILURE;
    }
    if (attributes.localSizeBytes != 0) {
        std::fprintf(stderr,
                     "right, but a thread of attentionOnline has %zu bytes of "
                     "local memory, not 0\n",
                     attributes.localSizeBytes);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

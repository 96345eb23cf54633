// SPDX-License-Identifier: MIT
//
// Day 72, exercise: merge what two readers found. A solution.
//
// A row of 32 scores is cut in two. One state is made of the first part, one
// of the second, each with its own maximum m, and merge makes one of both: as
// if one reader had read the whole row.
//
// Every row is cut at all 33 places, so a part may be empty. In two rows scores
// are masked by -infinity, in the last one all of them.
//
// The judge is double precision on the CPU, over the whole row. m is not
// rounded and must be equal. l and o are sums over 32 keys: day 66's rule takes
// K = 32.
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

constexpr unsigned int kKeys = 32;         // scores of a row
constexpr unsigned int kCuts = kKeys + 1;  // before each key, and at the end

enum Row { kAscending, kDescending, kConstant, kSpike, kMasked, kNone };
constexpr const char *kNames[] = {"ascending", "descending", "constant",
                                  "spike",     "masked",     "all masked"};
constexpr unsigned int kRows = sizeof(kNames) / sizeof(kNames[0]);

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

struct State {
    float max;  // m, the largest score so far
    float sum;  // l, the sum of exp(score - m)
    float out;  // o, the sum of exp(score - m) times the key's value
};

// The state after all keys of a and b. Of a part without any score, or with
// masked ones alone, m is -infinity, and l and o are 0.
// snippet: exercise
__device__ State merge(const State &a, const State &b)
{
    State both;
    both.max = fmaxf(a.max, b.max);
    // Two parts without a score: -infinity less itself would be NaN.
    const float base = both.max == -INFINITY ? 0.0f : both.max;
    const float shrinkA = expf(a.max - base);
    const float shrinkB = expf(b.max - base);
    both.sum = a.sum * shrinkA + b.sum * shrinkB;
    both.out = a.out * shrinkA + b.out * shrinkB;
    return both;
}
// end snippet

// Keys first .. last - 1, in two passes.
__device__ State stateOf(const float *__restrict__ scores,
                         const float *__restrict__ values, unsigned int first,
                         unsigned int last)
{
    State state = {-INFINITY, 0.0f, 0.0f};
    for (unsigned int key = first; key < last; ++key) {
        state.max = fmaxf(state.max, scores[key]);
    }
    const float base = state.max == -INFINITY ? 0.0f : state.max;
    for (unsigned int key = first; key < last; ++key) {
        const float weight = expf(scores[key] - base);
        state.sum += weight;
        state.out = fmaf(weight, values[key], state.out);
    }
    return state;
}

// One row per block, one place to cut it per thread.
// Launch assumption: kCuts threads.
__global__ void cutAndMerge(const float *__restrict__ scores,
                            const float *__restrict__ values,
                            State *__restrict__ merged)
{
    const float *row = scores + blockIdx.x * kKeys;
    const unsigned int cut = threadIdx.x;
    merged[blockIdx.x * kCuts + cut] = merge(
        stateOf(row, values, 0, cut), stateOf(row, values, cut, kKeys));
}

// Multiples of 1/4, and the spike among scores that still count beside it.
static float scoreAt(unsigned int row, unsigned int key)
{
    const float wave = 0.25f * static_cast<float>(key * 5 % 7);
    switch (row) {
    case kAscending:
        return 0.25f * static_cast<float>(key);
    case kDescending:
        return 4.0f - 0.25f * static_cast<float>(key);
    case kConstant:
        return -200.0f;  // expf of it is 0
    case kSpike:
        return key == kKeys - 3 ? 9.0f : wave;
    case kMasked:
        return key < 5 || key % 3 == 0 ? -INFINITY : wave;
    default:
        return -INFINITY;
    }
}

static float valueAt(unsigned int key)
{
    return 0.25f * static_cast<float>(key * 3 % 11) - 1.0f;
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

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::vector<float> h_scores(kRows * kKeys);
    std::vector<float> h_values(kKeys);
    std::vector<State> h_merged(kRows * kCuts, State{NAN, NAN, NAN});
    for (unsigned int i = 0; i < kRows * kKeys; ++i) {
        h_scores[i] = scoreAt(i / kKeys, i % kKeys);
        h_values[i % kKeys] = valueAt(i % kKeys);
    }
    const size_t scoreBytes = h_scores.size() * sizeof(float);
    const size_t valueBytes = h_values.size() * sizeof(float);
    const size_t mergedBytes = h_merged.size() * sizeof(State);
    float *d_scores = nullptr;
    float *d_values = nullptr;
    State *d_merged = nullptr;
    CUDA_CHECK(cudaMalloc(&d_scores, scoreBytes));
    CUDA_CHECK(cudaMalloc(&d_values, valueBytes));
    CUDA_CHECK(cudaMalloc(&d_merged, mergedBytes));
    CUDA_CHECK(cudaMemcpy(d_scores, h_scores.data(), scoreBytes,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_values, h_values.data(), valueBytes,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_merged, 0xff, mergedBytes));  // all NaN
    cutAndMerge<<<kRows, kCuts>>>(d_scores, d_values, d_merged);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_merged.data(), d_merged, mergedBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_scores));
    CUDA_CHECK(cudaFree(d_values));
    CUDA_CHECK(cudaFree(d_merged));

    const double rtol = std::max(
        kTableRtol, 4.0 * kUlp * std::sqrt(static_cast<double>(kKeys)));
    std::printf("\nmerge: each row cut at every place\n");
    std::printf("  %-10s  %4s  %5s\n", "row", "cuts", "right");
    int passed = 0;
    unsigned int wrong = 0;
    const char *firstName = nullptr;
    unsigned int firstCut = 0;
    for (unsigned int row = 0; row < kRows; ++row) {
        double best = -HUGE_VAL;
        for (unsigned int key = 0; key < kKeys; ++key) {
            best = std::max<double>(best, scoreAt(row, key));
        }
        double sum = 0.0;
        double out = 0.0;
        for (unsigned int key = 0; key < kKeys && best > -HUGE_VAL; ++key) {
            const double weight = std::exp(scoreAt(row, key) - best);
            sum += weight;
            out += weight * valueAt(key);
        }
        // Without a score nothing is rounded, and both have to be 0.
        const double largest = std::max(sum, std::fabs(out));
        const double atol = largest > 0.0 ? rtol * largest : rtol;
        unsigned int right = 0;
        for (unsigned int cut = 0; cut < kCuts; ++cut) {
            const State &got = h_merged[row * kCuts + cut];
            const bool ok =
                static_cast<double>(got.max) == best &&
                gateFraction(got.sum, sum, rtol, atol) <= 1.0 &&
                gateFraction(got.out, out, rtol, atol) <= 1.0;
            right += ok ? 1 : 0;
            if (!ok && wrong++ == 0) {
                firstName = kNames[row];
                firstCut = cut;
            }
        }
        std::printf("  %-10s  %4u  %5u\n", kNames[row], kCuts, right);
        passed += right == kCuts ? 1 : 0;
    }
    if (wrong != 0) {
        std::fprintf(stderr,
                     "%u of %u merged states are wrong, first the row \"%s\", "
                     "cut before key %u\n",
                     wrong, kRows * kCuts, firstName, firstCut);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

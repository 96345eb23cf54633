// SPDX-License-Identifier: MIT
//
// Day 8, exercise: a check, solved.
// A function that says whether an answer is right.
//
// An allowance that follows the outputs, and a comparison that NaN loses.
//
// Judged by answers that are known: two right ones, of which one is rounded
// differently, and seven wrong ones. The outputs are weights of some 1e-5, made
// by a kernel that is right or wrong in one way.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

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

constexpr size_t kCount = 50021;  // a prime
constexpr unsigned int kThreads = 256;
constexpr unsigned int kBlocks = (kCount + kThreads - 1) / kThreads;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr float kScale = 2e-8f;

enum Fault {
    kNone,
    kRounded,
    kZeros,
    kNotWritten,
    kOneNaN,
    kTooSmall,
    kOneOff,
    kReversed,
    kEmpty,
    kFaults
};
constexpr const char *kNames[kFaults] = {
    "right",   "rounded",   "all zeros", "not written", "one NaN",
    "too small", "one off", "reversed",  "no elements"};

// Element i of the input: 1 to 1021, in no order that repeats within a block.
__host__ __device__ inline float inputAt(size_t i)
{
    return static_cast<float>(1 + i * 23 % 1021);
}

// out[i] = scale * input i, or not quite.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: at least n threads.
__global__ void answer(float *__restrict__ out, float scale, size_t n,
                       int fault)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n || fault == kNotWritten) {
        return;
    }
    float value = inputAt(i) * scale;
    if (fault == kRounded) {
        value = inputAt(i) / (1.0f / scale);
    } else if (fault == kZeros) {
        value = 0.0f;
    } else if (fault == kOneNaN && i == n / 2) {
        value = nanf("");
    } else if (fault == kTooSmall) {
        value *= 0.999f;
    } else if (fault == kOneOff && i == n - 1) {
        value *= 1.5f;
    } else if (fault == kReversed) {
        value = inputAt(n - 1 - i) * scale;
    }
    out[i] = value;
}

// Whether `got` is what `want` says, to within a few roundings.
// snippet: exercise
static bool passes(const std::vector<float> &got,
                   const std::vector<double> &want)
{
    double maxReference = 0.0;
    for (const double value : want) {
        maxReference = std::fmax(maxReference, std::fabs(value));
    }
    const double rtol = 1e-5;
    size_t looked = 0;
    for (size_t i = 0; i < want.size() && i < got.size(); ++i) {
        const double allowed = rtol * (maxReference + std::fabs(want[i]));
        if (!(std::fabs(got[i] - want[i]) <= allowed)) {
            return false;  // a NaN is not less than anything either
        }
        ++looked;
    }
    return looked > 0 && got.size() == want.size();
}
// end snippet

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors    %d\n", device.multiProcessorCount);

    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_out, kBytes));
    std::printf("\nanswers: 1 is passed, 0 is noticed\n");
    std::printf("  %-11s  %6s  %6s\n", "answer", "wanted", "passed");
    int held = 0;
    const char *first = nullptr;
    for (int fault = 0; fault < kFaults; ++fault) {
        const size_t n = fault == kEmpty ? 0 : kCount;
        std::vector<float> h_out(n);
        std::vector<double> want(n);
        for (size_t i = 0; i < n; ++i) {
            want[i] = static_cast<double>(inputAt(i)) * kScale;
        }
        CUDA_CHECK(cudaMemset(d_out, 0xff, kBytes));  // every element a NaN
        answer<<<kBlocks, kThreads>>>(d_out, kScale, n, fault);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, n * sizeof(float),
                              cudaMemcpyDeviceToHost));
        const bool wanted = fault == kNone || fault == kRounded;
        const bool passed = passes(h_out, want);
        std::printf("  %-11s  %6d  %6d\n", kNames[fault], wanted ? 1 : 0,
                    passed ? 1 : 0);
        held += wanted == passed ? 1 : 0;
        first = wanted != passed && first == nullptr ? kNames[fault] : first;
    }
    CUDA_CHECK(cudaFree(d_out));
    if (held != kFaults) {
        std::fprintf(stderr, "the check is wrong about %d of %d answers, "
                             "first about: %s\n",
                     kFaults - held, static_cast<int>(kFaults), first);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", held);
    return EXIT_SUCCESS;
}

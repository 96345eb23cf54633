// SPDX-License-Identifier: MIT
//
// Day 62: a sum that stops growing. One thread adds up twenty million ones in
// FP32. From 2^24 on, neighbouring floats are 2 apart: 16777216 + 1 lies in the
// middle between two of them, and is rounded to the even one, 16777216. Each
// further one is added in vain.
//
// Then the same ones in 256 sums, which are small enough to be exact, and a
// tree over those, whose sums are 78125 times a power of two and need 17 bits.
// The program fails if either comes out differently.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o stuck stuck.cu
// Run: ./stuck

#include <cstdio>
#include <cstdlib>

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

constexpr unsigned int kOnes = 20000000;
constexpr unsigned int kThreads = 256;
constexpr float kStuck = 16777216.0f;  // 2^24

static_assert(kOnes % kThreads == 0, "every thread has as many ones");
static_assert(kOnes > (1u << 24), "there are ones left to lose");

// Thread t adds up `count` ones, one after the other. `one` comes as an
// argument, or the compiler would know the sum.
// Memory: one float per thread is written.
// Launch assumption: one block.
// snippet: stuck
__global__ void addOnes(float one, unsigned int count,
                        float *__restrict__ sums)
{
    float total = 0.0f;
    for (unsigned int i = 0; i < count; ++i) {
        total += one;
    }
    sums[threadIdx.x] = total;
}
// end snippet

int main()
{
    float *d_sums = nullptr;
    float alone = 0.0f;
    float parts[kThreads] = {};
    CUDA_CHECK(cudaMalloc(&d_sums, sizeof(parts)));
    CUDA_CHECK(cudaMemset(d_sums, 0xff, sizeof(parts)));

    addOnes<<<1, 1>>>(1.0f, kOnes, d_sums);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&alone, d_sums, sizeof(alone),
                          cudaMemcpyDeviceToHost));
    addOnes<<<1, kThreads>>>(1.0f, kOnes / kThreads, d_sums);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(parts, d_sums, sizeof(parts),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_sums));

    for (unsigned int half = kThreads / 2; half > 0; half /= 2) {
        for (unsigned int i = 0; i < half; ++i) {
            parts[i] += parts[i + half];
        }
    }
    const float together = parts[0];
    std::printf("ones: added up in FP32\n");
    std::printf("  how many           %u\n", kOnes);
    std::printf("  one accumulator    %.0f\n", static_cast<double>(alone));
    std::printf("  256 accumulators   %.0f\n", static_cast<double>(together));
    if (!(alone == kStuck && together == static_cast<float>(kOnes))) {
        std::fprintf(stderr, "expected %.0f and %u\n",
                     static_cast<double>(kStuck), kOnes);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

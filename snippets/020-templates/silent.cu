// SPDX-License-Identifier: MIT
//
// Day 20: a dispatch that compiles, and is silent about numbers it does not
// know. Nothing is launched, and so no launch fails: the runtime has no error
// to report, and the output is what was there before.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o silent silent.cu
// Run: ./silent

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

constexpr unsigned int kThreads = 32;

template <unsigned int kTaps>
__global__ void filter(float *__restrict__ out)
{
    out[threadIdx.x] = static_cast<float>(kTaps);
}

// snippet: silent
static void launchFilter(unsigned int taps, float *d_out)
{
    switch (taps) {
    case 8:  filter<8><<<1, kThreads>>>(d_out); break;
    case 16: filter<16><<<1, kThreads>>>(d_out); break;
    }
}
// end snippet

int main()
{
    float *d_out = nullptr;
    std::vector<float> h_out(kThreads);
    const size_t bytes = kThreads * sizeof(float);
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaMalloc(&d_out, bytes));
    size_t missing = 0;
    std::printf("asked: 32 numbers each\n");
    std::printf("  %-6s  %5s  %s\n", "taps", "wrong", "error");
    for (const unsigned int taps : {8u, 12u, 16u}) {
        CUDA_CHECK(cudaMemset(d_out, 0xff, bytes));
        launchFilter(taps, d_out);
        const cudaError_t error = cudaGetLastError();
        CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, bytes,
                              cudaMemcpyDeviceToHost));
        size_t wrong = 0;
        for (const float got : h_out) {
            wrong += got == static_cast<float>(taps) ? 0 : 1;
        }
        std::printf("  D = %-2u  %5zu  %s\n", taps, wrong,
                    cudaGetErrorString(error));
        missing += wrong;
    }
    CUDA_CHECK(cudaFree(d_out));
    if (missing != 0) {
        std::fprintf(stderr, "%zu numbers were never written, and no call "
                     "failed\n", missing);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

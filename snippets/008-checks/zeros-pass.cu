// SPDX-License-Identifier: MIT
//
// Day 8: a check that zeros pass. The outputs are a hundred thousand weights
// whose sum is 1, so each is about a hundred-thousandth, and an absolute
// tolerance of a thousandth is a hundred times as much. The kernel is launched
// with more threads in a block than any GPU takes, and never runs.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o zeros-pass zeros-pass.cu
// Run: ./zeros-pass

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

constexpr size_t kCount = 100003;  // a prime
constexpr unsigned int kThreads = 2048;  // too many
constexpr unsigned int kBlocks = (kCount + kThreads - 1) / kThreads;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr double kTolerance = 1e-3;

static_assert(kThreads > 1024, "no GPU takes so large a block");

// out = in * scale, one thread per element.
// Memory: a warp reads and writes 32 neighbouring floats.
// Launch assumption: at least n threads.
__global__ void normalise(const float *__restrict__ in, float scale,
                          float *__restrict__ out, size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = in[i] * scale;
    }
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors    %d\n", device.multiProcessorCount);

    std::vector<float> h_in(kCount);
    std::vector<float> h_out(kCount, NAN);
    double sum = 0.0;
    for (size_t i = 0; i < kCount; ++i) {
        h_in[i] = static_cast<float>(1 + i * 23 % 1021);
        sum += h_in[i];
    }
    const float scale = static_cast<float>(1.0 / sum);
    float *d_in = nullptr;
    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_in, kBytes));
    CUDA_CHECK(cudaMalloc(&d_out, kBytes));
    CUDA_CHECK(cudaMemcpy(d_in, h_in.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_out, 0, kBytes));
    normalise<<<kBlocks, kThreads>>>(d_in, scale, d_out, kCount);
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_in));
    CUDA_CHECK(cudaFree(d_out));

    // snippet: zeros-pass
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        const double want = static_cast<double>(h_in[i]) * scale;
        if (!(std::fabs(h_out[i] - want) <= kTolerance)) {
            ++wrong;
        }
    }
    std::printf("\ncheck: %s\n", wrong == 0 ? "PASSED" : "FAILED");
    // end snippet

    size_t zeros = 0;
    double largest = 0.0;
    for (size_t i = 0; i < kCount; ++i) {
        zeros += h_out[i] == 0.0f ? 1 : 0;
        largest = std::fmax(largest, static_cast<double>(h_in[i]) * scale);
    }
    std::printf("  elements           %zu\n", kCount);
    std::printf("  wrong elements     %zu   (says the check)\n", wrong);
    std::printf("  zeros              %zu   (says a second look)\n", zeros);
    std::printf("  tolerance          %.1e\n", kTolerance);
    std::printf("  max |reference|    %.3e\n", largest);
    if (wrong != 0 || zeros != 0) {
        std::fprintf(stderr, "the check %s, and %zu of %zu elements are 0\n",
                     wrong == 0 ? "passed" : "failed", zeros, kCount);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

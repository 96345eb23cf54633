// SPDX-License-Identifier: MIT
//
// Day 6: a copy timed by the host's clock, which nobody had wait for the copy.
// The time is that of handing over the launch. The rate computed from it is
// judged by what the memory bus allows (day 4), and found impossible. The copy
// itself is right.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o no-wait no-wait.cu
// Run: ./no-wait

#include <chrono>
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

constexpr size_t kCount = size_t{1} << 26;  // 512 MiB read and written
constexpr unsigned int kThreads = 256;
constexpr unsigned int kBlocks = kCount / kThreads;
constexpr size_t kBytes = kCount * sizeof(float);

static_assert(kCount % kThreads == 0, "the kernel has no guard");

// out = in, one thread per element.
// Memory: a warp reads and writes 32 neighbouring floats.
// Launch assumption: one thread per element.
__global__ void copy(const float *__restrict__ in, float *__restrict__ out)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = in[i];
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::vector<float> h_in(kCount);
    for (size_t i = 0; i < kCount; ++i) {
        h_in[i] = static_cast<float>(i % 1021);
    }
    float *d_in = nullptr;
    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_in, kBytes));
    CUDA_CHECK(cudaMalloc(&d_out, kBytes));
    CUDA_CHECK(cudaMemcpy(d_in, h_in.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_out, 0xff, kBytes));
    copy<<<kBlocks, kThreads>>>(d_in, d_out);  // not the first launch below
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    // snippet: no-wait
    const auto start = std::chrono::steady_clock::now();
    copy<<<kBlocks, kThreads>>>(d_in, d_out);
    const std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    const double rate = 2.0 * kBytes / seconds.count();  // B/s
    // end snippet
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    std::vector<float> h_out(kCount);
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_in));
    CUDA_CHECK(cudaFree(d_out));
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        wrong += h_out[i] == h_in[i] ? 0 : 1;
    }

    int clock = 0;
    int bits = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, 0));
    CUDA_CHECK(
        cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0));
    const double paper = 2.0 * 1e3 * clock * (bits / 8.0);
    std::printf("\nrate: of a copy, by the host's clock\n");
    std::printf("  wrong elements    %zu\n", wrong);
    std::printf("  bytes             %zu B   (read and written)\n",
                2 * kBytes);
    std::printf("  time              %.2f us\n", seconds.count() * 1e6);
    std::printf("  rate              %.0f GB/s\n", rate / 1e9);
    std::printf("  memory bus        %.0f GB/s   (2 * clock * width / 8)\n",
                paper / 1e9);
    if (wrong != 0 || !(rate <= paper)) {
        std::fprintf(stderr, "%zu wrong elements; the rate is more than the "
                             "memory bus allows\n",
                     wrong);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 1: a launch that never ran, in a program that asks nothing. The block is
// larger than any GPU takes, so CUDA refuses the launch. No call's answer is
// looked at, and the program goes on: it takes for sums what stood in their
// place before, which is zeros, and prints them.
//
// Nothing in CUDA stops it. What does is the comparison at the end, which is
// ours; without it the program would exit with status 0.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o unchecked unchecked.cu
// Run: ./unchecked

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

constexpr size_t kCount = size_t{1} << 20;
constexpr unsigned int kThreads = 2048;  // too many: 1024 is the most
constexpr unsigned int kBlocks = kCount / kThreads;
constexpr size_t kBytes = kCount * sizeof(float);

static_assert(kCount % kThreads == 0, "no guard: the blocks end where c ends");

// c = a + b, one thread per element.
// Memory: a warp reads 32 neighbouring floats of a and b and writes 32 of c.
// Launch assumption: the grid has exactly as many threads as c has elements.
__global__ void add(const float *__restrict__ a, const float *__restrict__ b,
                    float *__restrict__ c)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}

int main()
{
    cudaDeviceProp device = {};
    cudaGetDeviceProperties(&device, 0);
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  threads in a block, at most   %d\n",
                device.maxThreadsPerBlock);

    // Whole numbers above 0, so no sum is 0 and every sum is exact.
    std::vector<float> h_a(kCount);
    std::vector<float> h_b(kCount);
    std::vector<float> h_c(kCount);
    for (size_t i = 0; i < kCount; ++i) {
        h_a[i] = static_cast<float>(i % 1021 + 1);
        h_b[i] = static_cast<float>(i % 1031 + 1);
    }

    // snippet: unchecked
    float *d_a = nullptr;
    float *d_b = nullptr;
    float *d_c = nullptr;
    cudaMalloc(&d_a, kBytes);
    cudaMalloc(&d_b, kBytes);
    cudaMalloc(&d_c, kBytes);
    cudaMemcpy(d_a, h_a.data(), kBytes, cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, h_b.data(), kBytes, cudaMemcpyHostToDevice);
    cudaMemset(d_c, 0, kBytes);
    add<<<kBlocks, kThreads>>>(d_a, d_b, d_c);  // never runs
    cudaMemcpy(h_c.data(), d_c, kBytes, cudaMemcpyDeviceToHost);
    // end snippet

    size_t zeros = 0;
    size_t right = 0;
    for (size_t i = 0; i < kCount; ++i) {
        zeros += h_c[i] == 0.0f ? 1 : 0;
        right += h_c[i] == h_a[i] + h_b[i] ? 1 : 0;
    }
    std::printf("\nunchecked: no call's answer is looked at\n");
    std::printf("  elements             %zu\n", kCount);
    std::printf("  threads in a block   %u\n", kThreads);
    std::printf("  first sum            %g   (%g + %g)\n", h_c[0], h_a[0],
                h_b[0]);
    std::printf("  sums that are 0      %zu\n", zeros);
    std::printf("  sums that are right  %zu\n", right);
    cudaFree(d_a);
    cudaFree(d_b);
    cudaFree(d_c);

    // snippet: our-check
    if (right != kCount) {
        std::fprintf(stderr,
                     "%zu of %zu sums are wrong. CUDA, asked only now: %s\n",
                     kCount - right, kCount,
                     cudaGetErrorString(cudaGetLastError()));
        return EXIT_FAILURE;
    }
    // end snippet
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 20, the exercise: a kernel with two template arguments, and a caller who
// has both as variables. The function below knows one of eight. Write it so
// that it launches the right one for 3, 5, 8 and 13 taps, in both directions,
// and for any other number launches nothing and returns false.
//
// The program compares every output of all eight with the CPU's, bit for bit:
// the samples are whole numbers and so are all sums. Then it asks for ten
// filters that do not exist, and looks whether somebody wrote something.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
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

constexpr unsigned int kThreads = 128;
constexpr unsigned int kOutputs = 1000;  // ragged: not a multiple of 128
constexpr unsigned int kBlocks = (kOutputs + kThreads - 1) / kThreads;
constexpr unsigned int kMostTaps = 13;

// out[i] is the sum of x[i + d] with weights 1, 2, 3 ..., or with the same
// weights from behind.
// Memory: a warp reads 32 neighbouring samples for each d.
// Launch assumption: 128 threads, kBlocks blocks; x holds kTaps - 1 samples
// more than there are outputs.
template <unsigned int kTaps, bool kReversed>
__global__ void filter(const float *__restrict__ x, float *__restrict__ out)
{
    const unsigned int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < kOutputs) {
        float sum = 0.0f;
#pragma unroll
        for (unsigned int d = 0; d < kTaps; ++d) {
            const unsigned int weight = kReversed ? kTaps - d : d + 1;
            sum += static_cast<float>(weight) * x[i + d];
        }
        out[i] = sum;
    }
}

// Launches filter<taps, reversed>, if there is one, and says whether it did.
static bool launchFilter(unsigned int taps, bool reversed, const float *d_x,
                         float *d_out)
{
    // snippet: exercise
    if (taps == 3 && !reversed) {
        filter<3, false><<<kBlocks, kThreads>>>(d_x, d_out);
        return true;
    }
    return false;
    // end snippet
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    // All different: steps through 0 .. 3 070, a prime less one.
    std::vector<float> h_x(kOutputs + kMostTaps - 1);
    std::vector<float> h_out(kOutputs, NAN);
    for (size_t i = 0; i < h_x.size(); ++i) {
        h_x[i] = static_cast<float>(i * 1009 % 3071);
    }
    float *d_x = nullptr;
    float *d_out = nullptr;
    const size_t bytesIn = h_x.size() * sizeof(float);
    const size_t bytesOut = h_out.size() * sizeof(float);
    CUDA_CHECK(cudaMalloc(&d_x, bytesIn));
    CUDA_CHECK(cudaMalloc(&d_out, bytesOut));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), bytesIn, cudaMemcpyHostToDevice));

    size_t asked = 0;
    size_t notLaunched = 0;
    size_t wrong = 0;
    size_t notRefused = 0;
    size_t refused = 0;
    for (const unsigned int taps : {0u, 3u, 4u, 5u, 8u, 9u, 13u, 16u, 255u}) {
        const bool exists = taps == 3 || taps == 5 || taps == 8 || taps == 13;
        for (const bool reversed : {false, true}) {
            CUDA_CHECK(cudaMemset(d_out, 0xff, bytesOut));
            const bool launched = launchFilter(taps, reversed, d_x, d_out);
            CUDA_CHECK(cudaGetLastError());
            CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, bytesOut,
                                  cudaMemcpyDeviceToHost));
            asked += exists ? 1 : 0;
            notLaunched += exists && !launched ? 1 : 0;
            for (size_t i = 0; i < kOutputs; ++i) {
                float want = 0.0f;
                for (unsigned int d = 0; d < taps && exists; ++d) {
                    const unsigned int weight = reversed ? taps - d : d + 1;
                    want += static_cast<float>(weight) * h_x[i + d];
                }
                wrong += exists && launched && !(h_out[i] == want) ? 1 : 0;
            }
            // What nobody wrote is still NaN.
            const bool touched = !std::isnan(h_out[0]);
            refused += !exists && !launched && !touched ? 1 : 0;
            notRefused += !exists && (launched || touched) ? 1 : 0;
        }
    }
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_out));

    std::printf("\ncheck: eight filters, and ten that do not exist\n");
    std::printf("  asked for       %zu\n", asked);
    std::printf("  not launched    %zu\n", notLaunched);
    std::printf("  wrong outputs   %zu\n", wrong);
    std::printf("  refused         %zu\n", refused);
    std::printf("  not refused     %zu\n", notRefused);
    if (notLaunched != 0 || wrong != 0 || notRefused != 0) {
        std::fprintf(stderr,
                     "%zu of %zu filters were not launched, %zu outputs "
                     "are wrong, %zu were not refused\n", notLaunched, asked,
                     wrong, notRefused);
        return EXIT_FAILURE;
    }
    std::printf("\nall %zu cases passed their gates\n", asked + refused);
    return EXIT_SUCCESS;
}

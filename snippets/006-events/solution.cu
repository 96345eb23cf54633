// SPDX-License-Identifier: MIT
//
// Day 6, exercise: a timer, solved.
// A function that says how long one launch of a kernel takes, in milliseconds.
//
// A launch that is not counted, then samples between events.
//
// Judged by a kernel that spins on the GPU's own clock for 1 ms and for 3 ms:
// the two times have to be 2 ms apart, to 3 %, and neither may be shorter than
// the spin. What is timed has never been launched before.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

#include <algorithm>
#include <chrono>
#include <cmath>
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

constexpr long long kShortSpin = 1000000;  // ns
constexpr long long kLongSpin = 3000000;   // ns
constexpr double kTolerance = 0.03;        // of the 2 ms between them
constexpr int kRepeats = 5;                // odd: one sample is the median

// Looks at the GPU's clock until `ns` nanoseconds are over.
// Memory: none.
// Launch assumption: one thread.
__global__ void spin(long long ns)
{
    long long start = 0;
    long long now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < ns);
}

static void launch(long long ns)
{
    spin<<<1, 1>>>(ns);
    CUDA_CHECK(cudaGetLastError());
}

// The time of launch(ns) in milliseconds: the median of kRepeats samples,
// after one launch that is not counted.
// snippet: exercise
static double timeMs(long long ns)
{
    std::vector<double> samples;
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    launch(ns);
    for (int i = 0; i < kRepeats; ++i) {
        float ms = 0.0f;
        CUDA_CHECK(cudaEventRecord(start));
        launch(ns);
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        samples.push_back(ms);
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    std::sort(samples.begin(), samples.end());
    return samples[kRepeats / 2];
}
// end snippet

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    const double shortMs = timeMs(kShortSpin);
    const double longMs = timeMs(kLongSpin);
    CUDA_CHECK(cudaDeviceSynchronize());
    const double want = 1e-6 * (kLongSpin - kShortSpin);
    const double apart = longMs - shortMs;
    std::printf("\nspin: asked for and timed\n");
    std::printf("  %-10s  %10s  %10s\n", "spin", "asked (ms)", "timed (ms)");
    std::printf("  %-10s  %10.4f  %10.4f\n", "short", 1e-6 * kShortSpin,
                shortMs);
    std::printf("  %-10s  %10.4f  %10.4f\n", "long", 1e-6 * kLongSpin, longMs);
    std::printf("  %-10s  %10.4f  %10.4f\n", "apart", want, apart);

    // Written so that a time that is not a number fails as well.
    const bool right = std::fabs(apart - want) <= kTolerance * want &&
                       shortMs >= (1.0 - kTolerance) * 1e-6 * kShortSpin &&
                       longMs >= (1.0 - kTolerance) * 1e-6 * kLongSpin;
    if (!right) {
        std::fprintf(stderr, "the timer is wrong: the spins are %.4f ms "
                             "apart, not %.4f ms\n",
                     apart, want);
        return EXIT_FAILURE;
    }
    std::printf("\nall 2 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 24: a shuffle in a loop that lanes leave one by one. The smallest of 52
// numbers is looked for by one warp, 32 at a time. In the second round there
// are 20 numbers, and 12 lanes have left the loop; the shuffles in it still
// name all 32.
//
// What a lane reads from one that is not there is undefined. The kernel may
// also wait for ever, for lanes that never come; so the host looks at its
// watch, and ends the program if the kernel has not ended.
//
// The second kernel keeps all lanes in the loop: the number of rounds is the
// same for all, and a lane without a number brings one that is never smallest.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o loop-tail loop-tail.cu
// Run: ./loop-tail

#include <chrono>
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

constexpr unsigned int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr unsigned int kCount = 52;      // one warp and 20 numbers more
constexpr double kPatienceSeconds = 2.0; // a kernel of microseconds
constexpr unsigned int kNever = 0xffffffffu;  // no number is larger

static_assert(kCount % kWarp != 0, "some lanes have no number in the end");

__device__ unsigned int warpMin(unsigned int value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value = min(value, __shfl_xor_sync(kFullWarp, value, offset));
    }
    return value;
}

// The least of n numbers, wrongly.
// Launch assumption: one block of kWarp threads.
__global__ void lanesLeave(const unsigned int *__restrict__ x,
                           unsigned int *__restrict__ least, unsigned int n)
{
    const unsigned int lane = threadIdx.x;
    // snippet: lanes-leave
    unsigned int best = kNever;
    for (unsigned int i = lane; i < n; i += kWarp) {
        best = min(best, warpMin(x[i]));  // wrong: some lanes have left
    }
    // end snippet
    if (lane == 0) {
        *least = best;
    }
}

// The same with all lanes. Launch assumption: one block of kWarp threads.
__global__ void lanesStay(const unsigned int *__restrict__ x,
                          unsigned int *__restrict__ least, unsigned int n)
{
    const unsigned int lane = threadIdx.x;
    // snippet: lanes-stay
    unsigned int best = kNever;
    for (unsigned int first = 0; first < n; first += kWarp) {
        const unsigned int i = first + lane;
        best = min(best, warpMin(i < n ? x[i] : kNever));
    }
    // end snippet
    if (lane == 0) {
        *least = best;
    }
}

// Whether the stream has come to its end in time.
static bool endsInTime(cudaStream_t stream)
{
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        const cudaError_t state = cudaStreamQuery(stream);
        if (state != cudaErrorNotReady) {
            CUDA_CHECK(state);
            return true;
        }
        const std::chrono::duration<double> waited =
            std::chrono::steady_clock::now() - begin;
        if (waited.count() > kPatienceSeconds) {
            return false;
        }
    }
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    unsigned int h_x[kCount];
    unsigned int want = kNever;
    for (unsigned int i = 0; i < kCount; ++i) {
        h_x[i] = 100 + 37 * i % 53;  // no number twice, the least at i = 0
        want = h_x[i] < want ? h_x[i] : want;
    }
    unsigned int *d_x = nullptr;
    unsigned int *d_least = nullptr;
    unsigned int got[2] = {};
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaMalloc(&d_x, sizeof(h_x)));
    CUDA_CHECK(cudaMalloc(&d_least, sizeof(got)));
    CUDA_CHECK(cudaMemcpy(d_x, h_x, sizeof(h_x), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_least, 0xff, sizeof(got)));

    std::printf("\nleast: of %u numbers, by one warp\n", kCount);
    std::printf("  right         %u\n", want);
    lanesStay<<<1, kWarp, 0, stream>>>(d_x, d_least + 1, kCount);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaStreamSynchronize(stream));
    lanesLeave<<<1, kWarp, 0, stream>>>(d_x, d_least, kCount);
    CUDA_CHECK(cudaGetLastError());
    if (!endsInTime(stream)) {
        std::fprintf(stderr, "lanes leave: the kernel does not end\n");
        std::_Exit(EXIT_FAILURE);  // nothing on the device can be freed
    }
    CUDA_CHECK(cudaMemcpy(got, d_least, sizeof(got), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_least));
    CUDA_CHECK(cudaStreamDestroy(stream));
    std::printf("  lanes stay    %u\n", got[1]);
    std::printf("  lanes leave   %u   (the mask names all)\n", got[0]);
    if (got[0] != want || got[1] != want) {
        std::fprintf(stderr, "lanes leave: %u instead of %u\n", got[0], want);
        return EXIT_FAILURE;
    }
    std::printf("\nall 2 cases passed their gates\n");
    return EXIT_SUCCESS;
}

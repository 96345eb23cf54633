// SPDX-License-Identifier: MIT
//
// Day 86: a kernel "for any D". Its state is in shared memory, which is asked
// for at the launch: D (D + 2) floats, with k and q. A block gets 48 KiB, and
// more if the program asks for it beforehand; it has 1024 threads at most. So
// there are sizes at which nothing is launched, and a wrapper that does not
// look at the error hands back what was in the output before.
//
// For each size the program launches the kernel without asking and with, notes
// what CUDA says, and counts the outputs that were never written. Arithmetic
// from the device's own limits has to agree with each launch.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o any-size any-size.cu
// Run: ./any-size

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

constexpr int kSizes[] = {24, 64, 109, 110, 128, 240, 241, 1024, 1025};
constexpr int kMost = 1025;
constexpr int kSteps = 4;

// The recurrence with all inputs 1: after step t every number of the state is
// t + 1, and so y = D (t + 1).
// Launch assumption: one block of dim threads, dim * (dim + 2) floats of shared
// memory.
__global__ void anyD(float *__restrict__ y, int dim)
{
    extern __shared__ float words[];
    const int j = static_cast<int>(threadIdx.x);
    float *tileK = words;
    float *tileQ = words + dim;
    float *state = words + 2 * dim + j * dim;
    for (int i = 0; i < dim; ++i) {
        state[i] = 0.0f;
    }
    for (int t = 0; t < kSteps; ++t) {
        tileK[j] = 1.0f;
        tileQ[j] = 1.0f;
        __syncthreads();  // the step's k and q are there
        float sum = 0.0f;
        for (int i = 0; i < dim; ++i) {
            state[i] += tileK[i];
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[t * dim + j] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

static size_t sharedOf(int dim)
{
    return static_cast<size_t>(dim) * (dim + 2) * sizeof(float);
}

// As in the wrapper: nobody looks at anything.
// snippet: unchecked
static void forward(float *d_y, int dim)
{
    anyD<<<1, dim, sharedOf(dim)>>>(d_y, dim);
}
// end snippet

struct Outcome {
    cudaError_t error = cudaSuccess;
    size_t unwritten = 0;
    size_t wrong = 0;
};

static Outcome outcomeOf(int dim, bool asks, float *d_y)
{
    const size_t count = static_cast<size_t>(kSteps) * dim;
    std::vector<float> y(count);
    Outcome outcome;
    if (asks) {
        // Where it is refused, the launch is refused as well, and says so.
        cudaFuncSetAttribute(anyD, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(sharedOf(dim)));
        cudaGetLastError();
    }
    CUDA_CHECK(cudaMemset(d_y, 0xff, count * sizeof(float)));
    forward(d_y, dim);
    outcome.error = cudaGetLastError();
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, count * sizeof(float),
                          cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; ++i) {
        const float want = static_cast<float>(dim * (i / dim + 1));
        outcome.unwritten += std::isnan(y[i]) ? 1 : 0;
        outcome.wrong += y[i] == want ? 0 : 1;
    }
    return outcome;
}

// Launches of all sizes, and how many are not as the limits say.
static size_t tableOf(bool asks, size_t room, size_t threads, float *d_y)
{
    size_t surprises = 0;
    std::printf("\n%s: at most %zu bytes of shared memory\n",
                asks ? "asking" : "not asking", room);
    std::printf("  %-8s  %10s  %9s  %5s  %-22s  %s\n", "width", "shared (B)",
                "unwritten", "wrong", "error", "message");
    for (const int dim : kSizes) {
        const Outcome outcome = outcomeOf(dim, asks, d_y);
        const bool fits = sharedOf(dim) <= room &&
                          static_cast<size_t>(dim) <= threads;
        const size_t count = static_cast<size_t>(kSteps) * dim;
        const bool right = fits ? outcome.error == cudaSuccess &&
                                      outcome.wrong == 0
                                : outcome.error != cudaSuccess &&
                                      outcome.unwritten == count;
        surprises += right ? 0 : 1;
        std::printf("  D = %-4d  %10zu  %9zu  %5zu  %-22s  %s\n", dim,
                    sharedOf(dim), outcome.unwritten, outcome.wrong,
                    cudaGetErrorName(outcome.error),
                    cudaGetErrorString(outcome.error));
    }
    return surprises;
}

int main()
{
    int room = 0;
    int more = 0;
    int threads = 0;
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaDeviceGetAttribute(
        &room, cudaDevAttrMaxSharedMemoryPerBlock, 0));
    CUDA_CHECK(cudaDeviceGetAttribute(
        &more, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    CUDA_CHECK(cudaDeviceGetAttribute(
        &threads, cudaDevAttrMaxThreadsPerBlock, 0));
    float *d_y = nullptr;
    CUDA_CHECK(cudaMalloc(&d_y, kSteps * kMost * sizeof(float)));
    std::printf("limits: of a block, as the device states them\n");
    std::printf("  shared memory       %d B\n", room);
    std::printf("  shared, if asked    %d B\n", more);
    std::printf("  threads             %d\n", threads);
    const size_t surprises =
        tableOf(false, static_cast<size_t>(room),
                static_cast<size_t>(threads), d_y) +
        tableOf(true, static_cast<size_t>(more),
                static_cast<size_t>(threads), d_y);
    CUDA_CHECK(cudaFree(d_y));
    if (surprises != 0) {
        std::fprintf(stderr, "%zu launches did not end as the limits say\n",
                     surprises);
        return EXIT_FAILURE;
    }
    std::printf("\nall %zu cases passed their gates\n",
                2 * sizeof(kSizes) / sizeof(kSizes[0]));
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 34, a solution of the exercise: the march keeps in registers what the
// next pixel needs again.
//
// Each pixel becomes a weighted sum of itself, the one above and the one below;
// at the edges it is its own neighbour. A thread makes kMarch pixels of one
// column. All loads go through loadFrom, which counts them. The program fails
// if a pixel is wrong, or if more was loaded than each pixel once and one more
// above and below each thread's piece.
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

constexpr unsigned int kThreads = 128;
constexpr unsigned int kMarch = 16;  // pixels of a thread
constexpr unsigned int kWide = 517;  // ragged in both directions
constexpr unsigned int kHigh = 301;
constexpr unsigned int kPixels = kWide * kHigh;
constexpr unsigned int kPieces = (kHigh + kMarch - 1) / kMarch;

constexpr float kUp = 0.2f;
constexpr float kCentre = 0.5f;
constexpr float kDown = 0.3f;

__device__ float loadFrom(const float *in, unsigned int i,
                          unsigned int *loads)
{
    ++*loads;
    return in[i];
}

__device__ float weigh(float up, float centre, float down)
{
    return fmaf(kDown, down, fmaf(kCentre, centre, kUp * up));
}

// Launch assumption: at least kWide threads across, kPieces blocks down.
__global__ void smoothColumns(const float *__restrict__ in,
                              float *__restrict__ out,
                              unsigned int *__restrict__ total)
{
    const unsigned int x = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned int first = blockIdx.y * kMarch;
    const unsigned int end =
        first + kMarch < kHigh ? first + kMarch : kHigh;
    if (x >= kWide) {
        return;
    }
    unsigned int loads = 0;
    // snippet: exercise
    unsigned int i = first * kWide + x;
    float centre = loadFrom(in, i, &loads);
    float up = first > 0 ? loadFrom(in, i - kWide, &loads) : centre;
    for (unsigned int y = first; y < end; ++y) {
        const float down =
            y + 1 < kHigh ? loadFrom(in, i + kWide, &loads) : centre;
        out[i] = weigh(up, centre, down);
        up = centre;
        centre = down;
        i += kWide;
    }
    // end snippet
    atomicAdd(total, loads);
}

// No two rows or columns alike.
static float inputAt(unsigned int i)
{
    return static_cast<float>(i * 27449ull % 65537) / 65537.0f - 0.503f;
}

int main()
{
    const size_t bytes = kPixels * sizeof(float);
    std::vector<float> h_in(kPixels);
    std::vector<float> h_out(kPixels);
    for (unsigned int i = 0; i < kPixels; ++i) {
        h_in[i] = inputAt(i);
    }
    float *d_in = nullptr;
    float *d_out = nullptr;
    unsigned int *d_total = nullptr;
    unsigned int loads = 0;
    CUDA_CHECK(cudaMalloc(&d_in, bytes));
    CUDA_CHECK(cudaMalloc(&d_out, bytes));
    CUDA_CHECK(cudaMalloc(&d_total, sizeof(loads)));
    CUDA_CHECK(cudaMemcpy(d_in, h_in.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_out, 0xff, bytes));  // NaN
    CUDA_CHECK(cudaMemset(d_total, 0, sizeof(loads)));

    const dim3 grid((kWide + kThreads - 1) / kThreads, kPieces);
    smoothColumns<<<grid, kThreads>>>(d_in, d_out, d_total);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, bytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(&loads, d_total, sizeof(loads),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_in));
    CUDA_CHECK(cudaFree(d_out));
    CUDA_CHECK(cudaFree(d_total));

    size_t wrong = 0;
    for (unsigned int i = 0; i < kPixels; ++i) {
        const unsigned int y = i / kWide;
        const double want =
            static_cast<double>(kUp) *
                static_cast<double>(h_in[y > 0 ? i - kWide : i]) +
            static_cast<double>(kCentre) * static_cast<double>(h_in[i]) +
            static_cast<double>(kDown) *
                static_cast<double>(h_in[y + 1 < kHigh ? i + kWide : i]);
        // Day 66's rule, with a largest value of 1. A NaN is wrong as well.
        const double error =
            std::fabs(static_cast<double>(h_out[i]) - want);
        wrong += error <= 1e-5 * (1.0 + std::fabs(want)) ? 0 : 1;
    }
    const unsigned int allowed = kPixels + 2 * kPieces * kWide;
    std::printf("loads: of one float by one thread\n");
    std::printf("  counted            %u\n", loads);
    std::printf("  allowed            %u\n", allowed);
    std::printf("  counted, a pixel   %.3f\n",
                static_cast<double>(loads) / kPixels);
    std::printf("  wrong              %zu   (pixels, of %u)\n", wrong,
                kPixels);
    if (wrong != 0 || loads == 0 || loads > allowed) {
        std::fprintf(stderr, "%s\n",
                     wrong != 0 ? "pixels are wrong" : "too many loads");
        return EXIT_FAILURE;
    }
    std::printf("\nright, and every pixel is loaded once\n");
    return EXIT_SUCCESS;
}

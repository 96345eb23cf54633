// SPDX-License-Identifier: MIT
//
// Day 16, a solution of the exercise: C = A^T B in tiles of 16 x 16, where A
// has k rows and m columns, B k rows and n columns. A row of A's tile is a step
// of k, so both tiles are loaded as they lie, and the inner loop reads a column
// of A's tile: two words per warp, no conflict, and nothing has to be turned.
//
// The program judges it in double precision on the CPU, an output being a sum
// over k products (day 66), for sizes that are all different, at and beside
// the tile's.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

#include <algorithm>
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

constexpr unsigned int kTile = 16;

struct Size {
    size_t m;  // rows of C, columns of A
    size_t n;  // columns of C and B
    size_t k;  // rows of A and B
};

constexpr Size kSizes[] = {{16, 32, 48}, {17, 33, 1}, {50, 20, 35}};

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

// C = A^T B, one thread per element of C.
// Memory: to be as good as day 16's tile: neighbouring lanes read neighbouring
// floats of A and of B, every element once per block.
// Launch assumption: block (16, 16), a grid that covers C, any sizes.
__global__ void transposedTimes(const float *__restrict__ a,
                                const float *__restrict__ b,
                                float *__restrict__ c, size_t m, size_t n,
                                size_t k)
{
    const unsigned int tx = threadIdx.x;
    const unsigned int ty = threadIdx.y;
    const size_t firstRow = static_cast<size_t>(blockIdx.y) * kTile;
    const size_t firstCol = static_cast<size_t>(blockIdx.x) * kTile;
    float acc = 0.0f;

    // snippet: exercise
    __shared__ float tileA[kTile][kTile];
    __shared__ float tileB[kTile][kTile];
    for (size_t first = 0; first < k; first += kTile) {
        const size_t step = first + ty;
        const size_t colA = firstRow + tx;
        const size_t colB = firstCol + tx;
        tileA[ty][tx] = step < k && colA < m ? a[step * m + colA] : 0.0f;
        tileB[ty][tx] = step < k && colB < n ? b[step * n + colB] : 0.0f;
        __syncthreads();
        for (unsigned int i = 0; i < kTile; ++i) {
            acc = fmaf(tileA[i][ty], tileB[i][tx], acc);
        }
        __syncthreads();
    }
    // end snippet

    if (firstRow + ty < m && firstCol + tx < n) {
        c[(firstRow + ty) * n + firstCol + tx] = acc;
    }
}

// Day 66's rule, for an output that is a sum of `depth` products.
static double rtolFor(size_t depth)
{
    return std::max(kTableRtol,
                    4.0 * kUlp * std::sqrt(static_cast<double>(depth)));
}

// The share of its allowance that an error uses up; above 1 is a failure. A
// NaN would lose every comparison, so what is not finite counts as infinite.
static double gateFraction(double got, double want, double rtol, double atol)
{
    if (!std::isfinite(got) || !std::isfinite(want)) {
        return HUGE_VAL;
    }
    return std::fabs(got - want) / (atol + rtol * std::fabs(want));
}

static float *copyToGpu(const std::vector<float> &h_x)
{
    float *d_x = nullptr;
    const size_t bytes = h_x.size() * sizeof(float);
    CUDA_CHECK(cudaMalloc(&d_x, bytes));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), bytes, cudaMemcpyHostToDevice));
    return d_x;
}

static double worstFraction(const Size &size)
{
    std::vector<float> h_a(size.k * size.m);
    std::vector<float> h_b(size.k * size.n);
    std::vector<float> h_c(size.m * size.n, NAN);  // what is not written
    for (size_t i = 0; i < h_a.size(); ++i) {
        h_a[i] = 0.02f * (static_cast<float>(i * 23 % 101) - 50.3f);
    }
    for (size_t i = 0; i < h_b.size(); ++i) {
        h_b[i] = 0.02f * (static_cast<float>(i * 34 % 89) - 44.3f);
    }
    float *d_a = copyToGpu(h_a);
    float *d_b = copyToGpu(h_b);
    float *d_c = copyToGpu(h_c);
    const dim3 grid(static_cast<unsigned int>((size.n + kTile - 1) / kTile),
                    static_cast<unsigned int>((size.m + kTile - 1) / kTile));
    transposedTimes<<<grid, dim3(kTile, kTile)>>>(d_a, d_b, d_c, size.m,
                                                  size.n, size.k);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_c.data(), d_c, h_c.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_c));

    std::vector<double> want(h_c.size(), 0.0);
    for (size_t step = 0; step < size.k; ++step) {
        for (size_t i = 0; i < want.size(); ++i) {
            want[i] += static_cast<double>(h_a[step * size.m + i / size.n]) *
                       h_b[step * size.n + i % size.n];
        }
    }
    double most = 0.0;
    for (const double value : want) {
        most = std::max(most, std::fabs(value));
    }
    double worst = 0.0;
    for (size_t i = 0; i < want.size(); ++i) {
        const double rtol = rtolFor(size.k);
        worst = std::max(worst, gateFraction(h_c[i], want[i], rtol,
                                             rtol * most));
    }
    return worst;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    int passed = 0;
    int cases = 0;
    std::printf("\ncheck: every element of C\n");
    std::printf("  %-8s  %4s  %4s  %4s  %9s\n", "sizes", "m", "n", "k",
                "gate frac");
    for (const Size &size : kSizes) {
        const double worst = worstFraction(size);
        ++cases;
        passed += worst <= 1.0 ? 1 : 0;
        std::printf("  case = %d  %4zu  %4zu  %4zu  %9.4f\n", cases, size.m,
                    size.n, size.k, worst);
    }
    if (passed != cases || cases == 0) {
        std::fprintf(stderr, "%d of %d sizes are right\n", passed, cases);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

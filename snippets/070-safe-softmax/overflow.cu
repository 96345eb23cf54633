// SPDX-License-Identifier: MIT
//
// Day 70: a softmax that overflows, and two checks that each miss one way.
// Three rows of four scores, and weights computed as they are defined. In the
// second row every exp is finite and their total is not; in the third, exp
// itself is infinite.
//
// Each check passes a row that is wrong, and the program fails for that.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o overflow overflow.cu
// Run: ./overflow

#include <cmath>
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

constexpr unsigned int kRows = 3;
constexpr unsigned int kScores = 4;

constexpr const char *kNames[kRows] = {"small", "large", "larger"};
constexpr float kTried[kRows][kScores] = {{1.0f, 2.0f, 3.5f, 4.0f},
                                          {86.0f, 88.5f, 88.0f, 88.25f},
                                          {1.0f, 88.0f, 89.0f, 100.0f}};

// One thread per row.
// Memory: addresses are four floats apart; nobody looks at the clock.
// Launch assumption: one block of kRows threads.
__global__ void softmax(const float *__restrict__ x, float *__restrict__ e,
                        float *__restrict__ y)
{
    const unsigned int first = threadIdx.x * kScores;
    // snippet: softmax
    float total = 0.0f;
    for (unsigned int i = 0; i < kScores; ++i) {
        e[first + i] = expf(x[first + i]);
        total += e[first + i];
    }
    for (unsigned int i = 0; i < kScores; ++i) {
        y[first + i] = e[first + i] / total;
    }
    // end snippet
}

// snippet: checks
// Do the weights sum to 1?
static bool sumPasses(const float (&y)[kScores])
{
    double sum = 0.0;
    for (const float weight : y) {
        sum += weight;
    }
    if (std::fabs(sum - 1.0) > 1e-3) {
        return false;
    }
    return true;
}

// Is every weight a number?
static bool finitePasses(const float (&y)[kScores])
{
    for (const float weight : y) {
        if (std::isnan(weight) || std::isinf(weight)) {
            return false;
        }
    }
    return true;
}
// end snippet

// Is every weight what it should be?
static bool right(const float (&x)[kScores], const float (&y)[kScores])
{
    double total = 0.0;
    for (const float score : x) {
        total += std::exp(static_cast<double>(score));
    }
    for (unsigned int i = 0; i < kScores; ++i) {
        const double want = std::exp(static_cast<double>(x[i])) / total;
        if (!(std::fabs(y[i] - want) <= 1e-5)) {
            return false;
        }
    }
    return true;
}

int main()
{
    float h_e[kRows][kScores] = {};
    float h_y[kRows][kScores] = {};
    float *d_x = nullptr;
    float *d_e = nullptr;
    float *d_y = nullptr;
    CUDA_CHECK(cudaMalloc(&d_x, sizeof(kTried)));
    CUDA_CHECK(cudaMalloc(&d_e, sizeof(h_e)));
    CUDA_CHECK(cudaMalloc(&d_y, sizeof(h_y)));
    CUDA_CHECK(cudaMemcpy(d_x, kTried, sizeof(kTried),
                          cudaMemcpyHostToDevice));
    softmax<<<1, kRows>>>(d_x, d_e, d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(h_e, d_e, sizeof(h_e), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(h_y, d_y, sizeof(h_y), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_e));
    CUDA_CHECK(cudaFree(d_y));

    for (unsigned int row = 0; row < kRows; ++row) {
        std::printf("%s: a row of %u\n", kNames[row], kScores);
        std::printf("  %-5s  %8s  %12s  %9s\n", "place", "score", "exp",
                    "weight");
        for (unsigned int i = 0; i < kScores; ++i) {
            std::printf("  i = %u  %8.2f  %12.4e  %9.6f\n", i,
                        static_cast<double>(kTried[row][i]),
                        static_cast<double>(h_e[row][i]),
                        static_cast<double>(h_y[row][i]));
        }
        std::printf("\n");
    }
    int missedBySum = 0;
    int missedByFinite = 0;
    std::printf("checks: 1 is passed, 0 is noticed\n");
    std::printf("  %-6s  %5s  %8s  %6s\n", "row", "right", "sum is 1",
                "finite");
    for (unsigned int row = 0; row < kRows; ++row) {
        const bool due = right(kTried[row], h_y[row]);
        const bool sum = sumPasses(h_y[row]);
        const bool finite = finitePasses(h_y[row]);
        std::printf("  %-6s  %5d  %8d  %6d\n", kNames[row], due ? 1 : 0,
                    sum ? 1 : 0, finite ? 1 : 0);
        missedBySum += sum && !due ? 1 : 0;
        missedByFinite += finite && !due ? 1 : 0;
    }
    if (missedBySum + missedByFinite > 0) {
        std::fprintf(stderr, "wrong rows passed: %d by the sum, %d by the look "
                             "for numbers\n",
                     missedBySum, missedByFinite);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

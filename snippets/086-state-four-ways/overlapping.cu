// SPDX-License-Identifier: MIT
//
// Day 86: a pitch of 33 is odd, and no two lanes meet in a bank. It was written
// for states of 24 numbers a thread and used for 64: then each row lies over
// the next one, and threads change each other's numbers. Nothing complains, and
// all is well where D is 33 or less.
//
// The program computes the recurrence with all gates 1 and small whole numbers,
// which FP32 adds up without rounding, and compares bit by bit.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o overlapping overlapping.cu
// Run: ./overlapping

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

constexpr int kPitch = 33;
constexpr int kSteps = 16;
constexpr int kMost = 64;  // D at most

// The numbers of k, q and v: -2 to 2.
__host__ __device__ inline int numberAt(int t, int i, int salt)
{
    return (t * 7 + i * 3 + salt * 5 + t * i) % 5 - 2;
}

// The recurrence with all gates 1; thread j has row j of the state.
// Launch assumption: one block of kD threads.
template <int kD>
__global__ void recurrence(float *__restrict__ y)
{
    // snippet: overlapping
    __shared__ float state[kMost * kPitch + kMost];  // room behind the last row
    const int j = static_cast<int>(threadIdx.x);
    float *own = state + j * kPitch;  // kD numbers, from 33 j to 33 j + kD - 1
    // end snippet
    for (int i = 0; i < kD; ++i) {
        own[i] = 0.0f;
    }
    __syncthreads();  // all rows are zero
    for (int t = 0; t < kSteps; ++t) {
        const float value = static_cast<float>(numberAt(t, j, 3));
        float sum = 0.0f;
        for (int i = 0; i < kD; ++i) {
            own[i] += static_cast<float>(numberAt(t, i, 1)) * value;
            sum += static_cast<float>(numberAt(t, i, 2)) * own[i];
        }
        y[t * kD + j] = sum;
        __syncthreads();
    }
}

// Outputs of kD columns that are not what whole numbers give.
template <int kD>
static size_t wrongOf(float *d_y)
{
    constexpr size_t kCount = static_cast<size_t>(kSteps) * kD;
    std::vector<float> y(kCount);
    CUDA_CHECK(cudaMemset(d_y, 0xff, kCount * sizeof(float)));
    recurrence<kD><<<1, kD>>>(d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, kCount * sizeof(float),
                          cudaMemcpyDeviceToHost));
    size_t wrong = 0;
    for (int j = 0; j < kD; ++j) {
        std::vector<int> state(kD, 0);
        for (int t = 0; t < kSteps; ++t) {
            int sum = 0;
            for (int i = 0; i < kD; ++i) {
                state[i] += numberAt(t, i, 1) * numberAt(t, j, 3);
                sum += numberAt(t, i, 2) * state[i];
            }
            wrong += y[t * kD + j] == static_cast<float>(sum) ? 0 : 1;
        }
    }
    return wrong;
}

int main()
{
    float *d_y = nullptr;
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaMalloc(&d_y, kSteps * kMost * sizeof(float)));
    const size_t wrong[3] = {wrongOf<24>(d_y), wrongOf<33>(d_y),
                             wrongOf<64>(d_y)};
    CUDA_CHECK(cudaFree(d_y));
    std::printf("pitch 33: outputs of %d steps\n", kSteps);
    std::printf("  width    outputs  wrong\n");
    std::printf("  D = 24  %8d  %5zu\n", 24 * kSteps, wrong[0]);
    std::printf("  D = 33  %8d  %5zu\n", 33 * kSteps, wrong[1]);
    std::printf("  D = 64  %8d  %5zu\n", 64 * kSteps, wrong[2]);
    if (wrong[0] + wrong[1] + wrong[2] != 0) {
        std::fprintf(stderr, "rows lie over each other: outputs are wrong at "
                     "%s\n",
                     wrong[0] + wrong[1] == 0 ? "D = 64 alone" : "other D too");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

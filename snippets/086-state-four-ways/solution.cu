// SPDX-License-Identifier: MIT
//
// Day 86, exercise, solved: a pitch of 25 walks through all banks either way, by
// columns word after word, by rows 25 words at a time.
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

constexpr int kD = 24;  // one warp, the last eight lanes idle
constexpr int kSteps = 64;
constexpr int kBanks = 32;
constexpr int kRoom = 624;  // floats for the state: 48 more than it has

// Where number (i, j) of the state lies: a word below kRoom, another one for
// every number.
// snippet: exercise
__host__ __device__ inline int placeOf(int i, int j)
{
    return i * (kD + 1) + j;
}
// end snippet

// The recurrence of day 84; thread j has column j. After the last step thread i
// adds up row i.
// Memory: the state in shared memory, by columns in every step, by rows at the
// end.
// Launch assumption: one block of kD threads.
__global__ void recurrence(const float *__restrict__ in,
                           float *__restrict__ y, float *__restrict__ rows)
{
    __shared__ float state[kRoom];
    const int j = static_cast<int>(threadIdx.x);
    const float *q = in;  // kSteps rows of kD numbers each
    const float *k = in + kSteps * kD;
    const float *v = in + 2 * kSteps * kD;
    const float *gate = in + 3 * kSteps * kD;
    for (int i = 0; i < kD; ++i) {
        state[placeOf(i, j) % kRoom] = 0.0f;
    }
    __syncthreads();  // whatever lies where, all of it is zero
    for (int t = 0; t < kSteps; ++t) {
        const int at = t * kD;
        float sum = 0.0f;
        for (int i = 0; i < kD; ++i) {
            float &own = state[placeOf(i, j) % kRoom];
            own = fmaf(gate[at + j], own, k[at + i] * v[at + j]);
            sum = fmaf(q[at + i], own, sum);
        }
        y[at + j] = sum;
    }
    __syncthreads();  // the columns are done, now come the rows
    float sum = 0.0f;
    for (int other = 0; other < kD; ++other) {
        sum += state[placeOf(j, other) % kRoom];
    }
    rows[j] = sum;
}

// The most different words of one bank that a warp asks for at once: all
// threads' number i of a column, or number i of a row.
static int worstDegree(bool byRows)
{
    int worst = 0;
    for (int i = 0; i < kD; ++i) {
        for (int bank = 0; bank < kBanks; ++bank) {
            std::vector<int> words;
            for (int j = 0; j < kD; ++j) {
                const int word = byRows ? placeOf(j, i) : placeOf(i, j);
                if (word % kBanks == bank) {
                    words.push_back(word);
                }
            }
            std::sort(words.begin(), words.end());
            const auto last = std::unique(words.begin(), words.end());
            worst = std::max(worst, static_cast<int>(last - words.begin()));
        }
    }
    return worst;
}

// Words below kRoom that some number has.
static int placesUsed()
{
    std::vector<bool> used(kRoom, false);
    for (int i = 0; i < kD; ++i) {
        for (int j = 0; j < kD; ++j) {
            const int place = placeOf(i, j);
            if (place >= 0 && place < kRoom) {
                used[static_cast<size_t>(place)] = true;
            }
        }
    }
    return static_cast<int>(std::count(used.begin(), used.end(), true));
}

int main()
{
    constexpr size_t kCount = static_cast<size_t>(kSteps) * kD;
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    std::vector<float> in(4 * kCount);
    for (size_t i = 0; i < in.size(); ++i) {
        in[i] = static_cast<float>(i * 2579 % 10007) / 10007.0f;
    }
    float *d_in = nullptr;
    float *d_y = nullptr;
    float *d_rows = nullptr;
    std::vector<float> y(kCount);
    std::vector<float> rows(kD);
    CUDA_CHECK(cudaMalloc(&d_in, in.size() * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_y, kCount * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_rows, kD * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_in, in.data(), in.size() * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_y, 0xff, kCount * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_rows, 0xff, kD * sizeof(float)));
    recurrence<<<1, kD>>>(d_in, d_y, d_rows);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, kCount * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(rows.data(), d_rows, kD * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_in));
    CUDA_CHECK(cudaFree(d_y));
    CUDA_CHECK(cudaFree(d_rows));

    // fmaf rounds once, on a CPU as on a GPU: equal to the bit.
    size_t wrong = 0;
    std::vector<float> state(kD * kD, 0.0f);
    for (size_t t = 0; t < kSteps; ++t) {
        const float *step = in.data() + t * kD;
        for (size_t j = 0; j < kD; ++j) {
            const float g = step[3 * kCount + j];
            const float value = step[2 * kCount + j];
            float sum = 0.0f;
            for (size_t i = 0; i < kD; ++i) {
                float &own = state[i * kD + j];
                own = std::fmaf(g, own, step[kCount + i] * value);
                sum = std::fmaf(step[i], own, sum);
            }
            wrong += y[t * kD + j] == sum ? 0 : 1;  // a NaN is wrong
        }
    }
    for (size_t i = 0; i < kD; ++i) {
        float sum = 0.0f;
        for (size_t j = 0; j < kD; ++j) {
            sum += state[i * kD + j];
        }
        wrong += rows[i] == sum ? 0 : 1;
    }

    const int columns = worstDegree(false);
    const int byRows = worstDegree(true);
    std::printf("\ncheck: one state of %d columns, %d steps\n", kD, kSteps);
    std::printf("  outputs            %zu\n", kCount + kD);
    std::printf("  wrong              %zu\n", wrong);
    std::printf("  places used        %d   (of %d numbers)\n", placesUsed(),
                kD * kD);
    std::printf("  degree, columns    %d\n", columns);
    std::printf("  degree, rows       %d\n", byRows);
    if (wrong != 0 || placesUsed() != kD * kD) {
        std::fprintf(stderr, "%zu outputs are wrong, %d of %d places used\n",
                     wrong, placesUsed(), kD * kD);
        return EXIT_FAILURE;
    }
    if (columns != 1 || byRows != 1) {
        std::fprintf(stderr,
                     "bank conflicts: columns have degree %d, rows %d, not "
                     "1\n",
                     columns, byRows);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

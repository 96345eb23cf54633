// SPDX-License-Identifier: MIT
//
// Day 48, exercise: time the path as one region. The lines of the region below
// time two loops, one kernel each; the program refuses that.
//
// A path of two kernels: widen (u = 3 x + 1), then fold (y = u - 2 u from the
// next place). The program notes what is asked of the GPU, in order: '<' and
// '>' for the two events, w and f for the kernels. Between the events there
// must be kRounds rounds of the path, and nothing else.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
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

constexpr unsigned int kThreads = 256;
constexpr size_t kN = 3000017;  // ragged; two arrays fit into an H200's L2
constexpr int kRounds = 20;
constexpr unsigned int kBlocks = (kN + kThreads - 1) / kThreads;

// u = 3 x + 1.
__global__ void widen(const float *__restrict__ x, float *__restrict__ u,
                      size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        u[i] = 3.0f * x[i] + 1.0f;
    }
}

// y = u - 2 u[next]; the last place is its own neighbour.
__global__ void fold(const float *__restrict__ u, float *__restrict__ y,
                     size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = u[i] - 2.0f * u[i + 1 < n ? i + 1 : i];
    }
}

// What is asked of the GPU, and a note of it.
struct Work {
    float *d_x = nullptr;
    float *d_u = nullptr;
    float *d_y = nullptr;
    std::string notes;
};

static void launchWiden(Work *work)
{
    widen<<<kBlocks, kThreads>>>(work->d_x, work->d_u, kN);
    CUDA_CHECK(cudaGetLastError());
    work->notes += 'w';
}

static void launchFold(Work *work)
{
    fold<<<kBlocks, kThreads>>>(work->d_u, work->d_y, kN);
    CUDA_CHECK(cudaGetLastError());
    work->notes += 'f';
}

static void record(cudaEvent_t event, char sign, Work *work)
{
    CUDA_CHECK(cudaEventRecord(event));
    work->notes += sign;
}

// Asks for kRounds rounds of the path, between `start` and `stop`.
static void timeRegion(cudaEvent_t start, cudaEvent_t stop, Work *work)
{
    // snippet: exercise
    record(start, '<', work);
    for (int round = 0; round < kRounds; ++round) {
        launchWiden(work);
    }
    for (int round = 0; round < kRounds; ++round) {
        launchFold(work);
    }
    record(stop, '>', work);
    // end snippet
}

// Whole numbers, and exact in FP32.
static float inputAt(size_t i)
{
    return static_cast<float>(i * 37 % 1009);
}

// Places of y that are not as the CPU says.
static size_t wrongIn(const std::vector<float> &h_y)
{
    size_t wrong = 0;
    for (size_t i = 0; i < kN; ++i) {
        const size_t next = i + 1 < kN ? i + 1 : i;
        const double want = (3.0 * static_cast<double>(inputAt(i)) + 1.0) -
                            2.0 * (3.0 * static_cast<double>(inputAt(next)) +
                                   1.0);
        wrong += static_cast<double>(h_y[i]) == want ? 0 : 1;
    }
    return wrong;
}

int main()
{
    std::vector<float> h_x(kN);
    std::vector<float> h_y(kN);
    for (size_t i = 0; i < kN; ++i) {
        h_x[i] = inputAt(i);
    }
    Work work;
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    float ms = 0.0f;
    const size_t bytes = kN * sizeof(float);
    CUDA_CHECK(cudaMalloc(&work.d_x, bytes));
    CUDA_CHECK(cudaMalloc(&work.d_u, bytes));
    CUDA_CHECK(cudaMalloc(&work.d_y, bytes));
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaMemcpy(work.d_x, h_x.data(), bytes,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(work.d_u, 0xff, bytes));  // NaN
    CUDA_CHECK(cudaMemset(work.d_y, 0xff, bytes));
    launchWiden(&work);  // a round that is not timed
    launchFold(&work);
    work.notes.clear();

    timeRegion(start, stop, &work);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_y.data(), work.d_y, bytes,
                          cudaMemcpyDeviceToHost));
    const size_t wrong = wrongIn(h_y);

    std::string wanted = "<";
    for (int round = 0; round < kRounds; ++round) {
        wanted += "wf";
    }
    wanted += ">";
    const bool asWanted = work.notes == wanted;
    std::printf("notes: what was asked of the GPU\n");
    std::printf("  wanted   %s\n", wanted.c_str());
    std::printf("  asked    %s\n", work.notes.c_str());
    std::printf("  wrong    %zu   (places of y, of %zu)\n", wrong, kN);
    if (asWanted) {
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        std::printf("  round    %.5f ms\n",
                    static_cast<double>(ms) / kRounds);
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    CUDA_CHECK(cudaFree(work.d_x));
    CUDA_CHECK(cudaFree(work.d_u));
    CUDA_CHECK(cudaFree(work.d_y));

    if (!asWanted || wrong != 0 || !(ms > 0.0f)) {
        std::fprintf(stderr, "%s\n",
                     !asWanted ? "this is not the path, timed as one region"
                               : "y or the time is wrong");
        return EXIT_FAILURE;
    }
    std::printf("\nthe region is the path\n");
    return EXIT_SUCCESS;
}

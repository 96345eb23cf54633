// SPDX-License-Identifier: MIT
//
// Day 82, exercise: one capture of two streams. Two arrays are walked through
// 40 rounds each and have nothing to do with one another, so the graph is to
// have two chains, not one.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

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
constexpr size_t kCount = 1003;  // elements; the last block is not full
constexpr unsigned int kBlocks = (kCount + kThreads - 1) / kThreads;
constexpr int kRounds = 40;
constexpr int kReplays = 2;
constexpr float kFactor = 0.9375f;

static_assert(kCount % kThreads != 0, "the last block has threads to spare");

// x = x * kFactor + addend for every element.
// Launch assumption: at least kCount threads.
__global__ void walk(float *x, float addend)
{
    const unsigned int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < kCount) {
        x[i] = fmaf(x[i], kFactor, addend);
    }
}

// A graph of kRounds steps of either array, side by side. Both streams are
// captured when it returns, if they are captured at all.
// snippet: exercise
static cudaGraph_t recordBoth(float *d_x, float *d_y, cudaStream_t first,
                              cudaStream_t second, cudaEvent_t event)
{
    // Both arrays on one stream: every step waits for the one before it, of
    // whichever array. Give the second array the second stream.
    (void)second;
    (void)event;
    cudaGraph_t graph = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    for (int round = 0; round < kRounds; ++round) {
        walk<<<kBlocks, kThreads, 0, first>>>(d_x, 0.3f);
        CUDA_CHECK(cudaGetLastError());
        walk<<<kBlocks, kThreads, 0, first>>>(d_y, 0.7f);
        CUDA_CHECK(cudaGetLastError());
    }
    CUDA_CHECK(cudaStreamEndCapture(first, &graph));
    return graph;
}
// end snippet

static float startAt(size_t i, size_t step)
{
    return static_cast<float>(i * step % 1009) / 1009.0f - 0.4f;
}

// How many elements differ from kReplays * kRounds steps on the CPU. fmaf
// rounds once there as here, so they must not differ at all.
static size_t wrongOf(const float *d_x, size_t step, float addend)
{
    std::vector<float> got(kCount);
    CUDA_CHECK(cudaMemcpy(got.data(), d_x, kCount * sizeof(float),
                          cudaMemcpyDeviceToHost));
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        float value = startAt(i, step);
        for (int n = 0; n < kReplays * kRounds; ++n) {
            value = std::fmaf(value, kFactor, addend);
        }
        wrong += got[i] == value ? 0 : 1;  // a NaN is wrong
    }
    return wrong;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    float *d_x[2] = {nullptr, nullptr};
    constexpr size_t kStep[2] = {467, 613};
    for (int n = 0; n < 2; ++n) {
        std::vector<float> start(kCount);
        for (size_t i = 0; i < kCount; ++i) {
            start[i] = startAt(i, kStep[n]);
        }
        CUDA_CHECK(cudaMalloc(&d_x[n], kCount * sizeof(float)));
        CUDA_CHECK(cudaMemcpy(d_x[n], start.data(), kCount * sizeof(float),
                              cudaMemcpyHostToDevice));
    }
    cudaStream_t first = nullptr;
    cudaStream_t second = nullptr;
    cudaEvent_t event = nullptr;
    CUDA_CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CUDA_CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));

    cudaGraph_t graph = recordBoth(d_x[0], d_x[1], first, second, event);
    size_t nodes = 0;
    size_t roots = 0;
    CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CUDA_CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int n = 0; n < kReplays; ++n) {
        CUDA_CHECK(cudaGraphLaunch(exec, first));
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    const size_t wrong =
        wrongOf(d_x[0], kStep[0], 0.3f) + wrongOf(d_x[1], kStep[1], 0.7f);
    std::printf("\ngraph: %d rounds of two arrays, replayed %d times\n",
                kRounds, kReplays);
    std::printf("  nodes       %zu\n", nodes);
    std::printf("  beginning   %zu   (nodes that wait for none)\n", roots);
    std::printf("  elements    %zu\n", 2 * kCount);
    std::printf("  wrong       %zu\n", wrong);

    CUDA_CHECK(cudaGraphExecDestroy(exec));
    CUDA_CHECK(cudaGraphDestroy(graph));
    CUDA_CHECK(cudaEventDestroy(event));
    CUDA_CHECK(cudaStreamDestroy(second));
    CUDA_CHECK(cudaStreamDestroy(first));
    for (float *pointer : d_x) {
        CUDA_CHECK(cudaFree(pointer));
    }
    if (wrong != 0 || nodes != 2 * kRounds) {
        std::fprintf(stderr, "%zu elements are wrong, of %zu nodes\n", wrong,
                     nodes);
        return EXIT_FAILURE;
    }
    if (roots != 2) {
        std::fprintf(stderr, "the graph has %zu chains, not 2\n", roots);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

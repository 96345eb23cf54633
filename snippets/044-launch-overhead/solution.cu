// SPDX-License-Identifier: MIT
//
// Day 44, a solution of the exercise: a graph with two kernels a round. Each of
// 40 rounds rotates n points by a small angle, x and y by two kernels of which
// the second needs the first. What is launched while the stream is captured
// does not run; it becomes a node of the graph, behind the one before.
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
constexpr size_t kCount = 1003;  // points; the last block is not full
constexpr unsigned int kBlocks = (kCount + kThreads - 1) / kThreads;
constexpr int kRounds = 40;
constexpr int kReplays = 2;
constexpr float kAngle = 1.0f / 64.0f;

static_assert(kCount % kThreads != 0, "the last block has threads to spare");

// x = x - angle * y for every point.
// Launch assumption: at least kCount threads.
__global__ void moveX(float *__restrict__ x, const float *__restrict__ y)
{
    const unsigned int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < kCount) {
        x[i] = fmaf(-kAngle, y[i], x[i]);
    }
}

// y = y + angle * x for every point, with the x that moveX has left.
// Launch assumption: as moveX.
__global__ void moveY(const float *__restrict__ x, float *__restrict__ y)
{
    const unsigned int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < kCount) {
        y[i] = fmaf(kAngle, x[i], y[i]);
    }
}

// A graph of kRounds times moveX and moveY, one after another.
// snippet: exercise
static cudaGraph_t recordRounds(float *d_x, float *d_y, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int round = 0; round < kRounds; ++round) {
        moveX<<<kBlocks, kThreads, 0, stream>>>(d_x, d_y);
        CUDA_CHECK(cudaGetLastError());
        moveY<<<kBlocks, kThreads, 0, stream>>>(d_x, d_y);
        CUDA_CHECK(cudaGetLastError());
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}
// end snippet

static float startAt(size_t i, size_t step)
{
    return static_cast<float>(i * step % 1009) / 1009.0f - 0.4f;
}

static size_t kernelsIn(cudaGraph_t graph)
{
    size_t count = 0;
    CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
    std::vector<cudaGraphNode_t> nodes(count);
    if (count > 0) {
        CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
    }
    size_t kernels = 0;
    for (const cudaGraphNode_t node : nodes) {
        cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
        CUDA_CHECK(cudaGraphNodeGetType(node, &type));
        kernels += type == cudaGraphNodeTypeKernel ? 1 : 0;
    }
    return kernels;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::vector<float> h_x(kCount);
    std::vector<float> h_y(kCount);
    for (size_t i = 0; i < kCount; ++i) {
        h_x[i] = startAt(i, 23);
        h_y[i] = startAt(i, 34);
    }
    const size_t bytes = kCount * sizeof(float);
    float *d_x = nullptr;
    float *d_y = nullptr;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaMalloc(&d_x, bytes));
    CUDA_CHECK(cudaMalloc(&d_y, bytes));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_y, h_y.data(), bytes, cudaMemcpyHostToDevice));

    const cudaGraph_t graph = recordRounds(d_x, d_y, stream);
    const size_t kernels = kernelsIn(graph);
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int replay = 0; replay < kReplays; ++replay) {
        CUDA_CHECK(cudaGraphLaunch(exec, stream));
    }
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    CUDA_CHECK(cudaGraphDestroy(graph));

    std::vector<float> got_x(kCount);
    std::vector<float> got_y(kCount);
    CUDA_CHECK(cudaMemcpy(got_x.data(), d_x, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(got_y.data(), d_y, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));
    CUDA_CHECK(cudaStreamDestroy(stream));

    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        float x = h_x[i];
        float y = h_y[i];
        for (int round = 0; round < kReplays * kRounds; ++round) {
            x = std::fmaf(-kAngle, y, x);
            y = std::fmaf(kAngle, x, y);
        }
        wrong += got_x[i] == x && got_y[i] == y ? 0 : 1;
    }
    std::printf("\ncheck: %d replays, points against the CPU's, to the bit\n",
                kReplays);
    std::printf("  kernels in the graph   %zu   (of %d)\n", kernels,
                2 * kRounds);
    std::printf("  points                 %zu\n", kCount);
    std::printf("  wrong points           %zu\n", wrong);
    if (kernels != 2 * kRounds || wrong != 0) {
        std::fprintf(stderr,
                     "the graph has %zu kernels, not %d; %zu of %zu points "
                     "are wrong\n",
                     kernels, 2 * kRounds, wrong, kCount);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 79, exercise: a function that somebody who has no header can call. main
// looks for `launchDecay` in this very program by its name, as ctypes does in a
// library, and knows of it only what the page says. It calls it four times:
//
//   right       on a stream of its own; row r of y is a recurrence of 24
//               whole numbers, y[r][j] = gate[r][j] * y[r][j - 1] + x[r][j]
//   captured    on a stream that is being captured: the graph has to have a
//               node, and to give the right y when it is launched
//   no rows     a grid of no blocks: what it returns must not be 0
//   afterwards  a good call again: it must return 0, whatever went wrong before
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -Xlinker=-export-dynamic -o solution solution.cu -ldl
// Run: ./solution

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <dlfcn.h>

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

constexpr int kRows = 1000;  // no multiple of a block's threads
constexpr size_t kDim = 24;
constexpr size_t kCount = kRows * kDim;
constexpr int kThreads = 128;
constexpr float kUnwritten = -12345.0f;  // an answer that no row has

// Thread r walks along row r.
// Memory: neighbouring threads are 96 bytes apart; nothing here is timed.
// Launch assumption: a thread for each row, at least.
__global__ void rowDecay(const float *gate, const float *x, float *y, int rows)
{
    const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (r >= rows) {
        return;
    }
    float last = 0.0f;
    for (size_t j = 0; j < kDim; ++j) {
        last = fmaf(gate[r * kDim + j], last, x[r * kDim + j]);
        y[r * kDim + j] = last;
    }
}

// snippet: exercise
extern "C" int launchDecay(const float *gate, const float *x, float *y,
                           int rows, void *stream)
{
    rowDecay<<<(rows + kThreads - 1) / kThreads, kThreads, 0,
               static_cast<cudaStream_t>(stream)>>>(gate, x, y, rows);
    return cudaGetLastError();
}
// end snippet

using Launch = int (*)(const float *, const float *, float *, int, void *);

struct Buffers {
    float *gate = nullptr;
    float *x = nullptr;
    float *y = nullptr;
};

static void forget(const Buffers &d)
{
    const std::vector<float> unwritten(kCount, kUnwritten);
    CUDA_CHECK(cudaMemcpy(d.y, unwritten.data(), kCount * sizeof(float),
                          cudaMemcpyHostToDevice));
}

// Counts the numbers of y that are not what they have to be.
static size_t wrongOf(const Buffers &d, const std::vector<float> &want)
{
    std::vector<float> got(kCount);
    CUDA_CHECK(cudaMemcpy(got.data(), d.y, kCount * sizeof(float),
                          cudaMemcpyDeviceToHost));
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        wrong += got[i] == want[i] ? 0 : 1;  // a NaN is wrong
    }
    return wrong;
}

// Captures a call; returns how many nodes the graph has that it then launches.
static size_t captured(Launch launch, const Buffers &d, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    size_t nodes = 0;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    launch(d.gate, d.x, d.y, kRows, stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaDeviceSynchronize());
    forget(d);  // what was done while capturing does not count
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphLaunch(exec, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return nodes;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    const Launch launch = reinterpret_cast<Launch>(
        dlsym(dlopen(nullptr, RTLD_NOW), "launchDecay"));
    if (launch == nullptr) {
        std::fprintf(stderr, "no function is named launchDecay\n");
        return EXIT_FAILURE;
    }

    std::vector<float> gate(kCount);
    std::vector<float> x(kCount);
    std::vector<float> want(kCount);
    for (size_t i = 0; i < kCount; ++i) {
        gate[i] = static_cast<float>(7 * i % 5) - 2.0f;  // whole, and small
        x[i] = static_cast<float>(11 * i % 17) - 8.0f;
        want[i] = x[i] + (i % kDim == 0 ? 0.0f : gate[i] * want[i - 1]);
    }
    Buffers d;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (float **pointer : {&d.gate, &d.x, &d.y}) {
        CUDA_CHECK(cudaMalloc(pointer, kCount * sizeof(float)));
    }
    CUDA_CHECK(cudaMemcpy(d.gate, gate.data(), kCount * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d.x, x.data(), kCount * sizeof(float),
                          cudaMemcpyHostToDevice));

    forget(d);
    const int first = launch(d.gate, d.x, d.y, kRows, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    const size_t wrong = wrongOf(d, want);
    const size_t nodes = captured(launch, d, stream);
    const size_t wrongReplayed = wrongOf(d, want);
    const int refused = launch(d.gate, d.x, d.y, 0, stream);
    const int last = launch(d.gate, d.x, d.y, kRows, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));

    std::printf("\ncalls: of launchDecay, found by its name\n");
    std::printf("  right, wrong numbers      %zu\n", wrong);
    std::printf("  right, returned           %d\n", first);
    std::printf("  captured, nodes           %zu\n", nodes);
    std::printf("  captured, wrong numbers   %zu\n", wrongReplayed);
    std::printf("  no rows, returned         %d\n", refused);
    std::printf("  afterwards, returned      %d\n", last);
    for (float *pointer : {d.gate, d.x, d.y}) {
        CUDA_CHECK(cudaFree(pointer));
    }
    CUDA_CHECK(cudaStreamDestroy(stream));

    const int passed = (wrong == 0 && first == 0) +
                       (nodes == 1 && wrongReplayed == 0) + (refused != 0) +
                       (last == 0);
    if (passed != 4) {
        std::fprintf(stderr, "%d of 4 calls are not as they have to be\n",
                     4 - passed);
        return EXIT_FAILURE;
    }
    std::printf("\nall 4 cases passed their gates\n");
    return EXIT_SUCCESS;
}

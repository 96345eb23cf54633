// SPDX-License-Identifier: MIT
//
// Day 80, exercise: a wrapper that keeps a contract. A Tensor is what a wrapper
// is given of one in PyTorch: where its numbers are, of which type, on which
// device, how many, and how far apart. `scaleRows` is to compute
//
//   y[r][c] = factor[r] * x[r][c]
//
// on the caller's stream where it can, or to say why not. main offers it eleven
// calls and knows the right answer of each: what is computed has to be right in
// every number, and of what is refused y has to be as it was. All memory is
// such that the device can reach it, so that a wrong wrapper is wrong and does
// not crash.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

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

constexpr int kRows = 33;  // neither is a multiple of a warp
constexpr int kColumns = 70;
constexpr size_t kRoom = 4 * kRows * kColumns;  // numbers of each buffer
constexpr int kThreads = 256;
constexpr float kUnwritten = -12345.0f;  // an answer that no element has

enum Type { kFloat, kHalf };
enum Device { kCpu, kCuda };
enum Answer { kDone, kWrongDevice, kWrongType, kWrongShape, kWrongLayout,
              kRefused };

// size and stride count elements, rows first. A factor has one column.
struct Tensor {
    float *data;
    Type type;
    Device device;
    int size[2];
    int stride[2];
};

// y is contiguous; x and factor may be anything.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: rows * columns threads at least, in one dimension.
__global__ void scale(const float *x, int xRow, int xColumn,
                      const float *factor, int factorRow, float *y, int rows,
                      int columns)
{
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < rows * columns) {
        const int r = i / columns;
        y[i] = factor[r * factorRow] * x[r * xRow + i % columns * xColumn];
    }
}

// snippet: exercise
static Answer scaleRows(const Tensor &x, const Tensor &factor, const Tensor &y,
                        cudaStream_t stream)
{
    for (const Tensor *each : {&x, &factor, &y}) {
        if (each->device != kCuda) {
            return kWrongDevice;
        }
        if (each->type != kFloat) {
            return kWrongType;
        }
    }
    const int rows = x.size[0];
    const int columns = x.size[1];
    if (factor.size[0] != rows || factor.size[1] != 1 || y.size[0] != rows ||
        y.size[1] != columns) {
        return kWrongShape;
    }
    if (y.stride[0] != columns || y.stride[1] != 1) {
        return kWrongLayout;  // x and factor are read as they lie
    }
    const int blocks = (rows * columns + kThreads - 1) / kThreads;
    if (blocks == 0) {
        return kDone;
    }
    scale<<<blocks, kThreads, 0, stream>>>(x.data, x.stride[0], x.stride[1],
                                           factor.data, factor.stride[0],
                                           y.data, rows, columns);
    return cudaGetLastError() == cudaSuccess ? kDone : kRefused;
}
// end snippet

constexpr const char *kAnswers[] = {"done",        "wrong device",
                                    "wrong type",  "wrong shape",
                                    "wrong layout", "refused"};

struct Call {
    const char *name;
    Tensor x;
    Tensor factor;
    Tensor y;
    Answer due;
};

// What y has to hold afterwards, all of its buffer.
static std::vector<float> wantOf(const Call &call, const float *h_x,
                                 const float *h_factor)
{
    std::vector<float> want(kRoom, kUnwritten);
    for (int r = 0; call.due == kDone && r < call.x.size[0]; ++r) {
        for (int c = 0; c < call.x.size[1]; ++c) {
            want[r * call.y.stride[0] + c * call.y.stride[1]] =
                h_factor[r * call.factor.stride[0]] *
                h_x[r * call.x.stride[0] + c * call.x.stride[1]];
        }
    }
    return want;
}

static size_t wrongOf(const float *d_y, const std::vector<float> &want)
{
    std::vector<float> got(kRoom);
    CUDA_CHECK(cudaMemcpy(got.data(), d_y, kRoom * sizeof(float),
                          cudaMemcpyDeviceToHost));
    size_t wrong = 0;
    for (size_t i = 0; i < kRoom; ++i) {
        wrong += got[i] == want[i] ? 0 : 1;  // a NaN is wrong
    }
    return wrong;
}

// Makes a call while its stream is captured, as PyTorch would; launches what
// was recorded, if anything was. Returns what the wrapper answered.
static Answer answerOf(const Call &call, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    const std::vector<float> unwritten(kRoom, kUnwritten);
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    const Answer answer = scaleRows(call.x, call.factor, call.y, stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaDeviceSynchronize());
    // What was not recorded, but done at once, does not count.
    CUDA_CHECK(cudaMemcpy(call.y.data, unwritten.data(), kRoom * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphLaunch(exec, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return answer;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    std::vector<float> h_x(kRoom);
    std::vector<float> h_factor(kRoom);
    for (size_t i = 0; i < kRoom; ++i) {
        h_x[i] = static_cast<float>(7 * i % 1009) - 504.0f;  // whole: exact
        h_factor[i] = static_cast<float>(5 * i % 101) - 50.0f;
    }
    float *d_x = nullptr;
    float *d_factor = nullptr;
    float *d_y = nullptr;
    float *pinned = nullptr;  // on the host, where the device can reach it
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (float **pointer : {&d_x, &d_factor, &d_y}) {
        CUDA_CHECK(cudaMalloc(pointer, kRoom * sizeof(float)));
    }
    CUDA_CHECK(cudaMallocHost(&pinned, kRoom * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), kRoom * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(pinned, h_x.data(), kRoom * sizeof(float),
                          cudaMemcpyHostToHost));
    CUDA_CHECK(cudaMemcpy(d_factor, h_factor.data(), kRoom * sizeof(float),
                          cudaMemcpyHostToDevice));

    const Tensor x = {d_x, kFloat, kCuda, {kRows, kColumns}, {kColumns, 1}};
    const Tensor factor = {d_factor, kFloat, kCuda, {kRows, 1}, {1, 1}};
    const Tensor y = {d_y, kFloat, kCuda, {kRows, kColumns}, {kColumns, 1}};
    Tensor across = x;  // a transposed view
    across.stride[0] = 1;
    across.stride[1] = kRows;
    Tensor slice = x;  // columns out of wider rows
    slice.stride[0] = 2 * kColumns;
    Tensor one = factor;  // one factor, seen as one for each row
    one.stride[0] = 0;
    Tensor half = x;
    half.type = kHalf;
    Tensor onHost = x;
    onHost.data = pinned;
    onHost.device = kCpu;
    Tensor factorOnHost = factor;
    factorOnHost.device = kCpu;
    Tensor shorter = factor;
    shorter.size[0] = kRows - 1;
    Tensor narrow = y;
    narrow.size[1] = narrow.stride[0] = kColumns - 1;
    Tensor acrossY = y;
    acrossY.stride[0] = 1;
    acrossY.stride[1] = kRows;
    Tensor noRows = x;
    Tensor noFactors = factor;
    Tensor noY = y;
    noRows.size[0] = noFactors.size[0] = noY.size[0] = 0;
    const Call calls[] = {
        {"contiguous", x, factor, y, kDone},
        {"transposed", across, factor, y, kDone},
        {"slice", slice, factor, y, kDone},
        {"one factor", x, one, y, kDone},
        {"no rows", noRows, noFactors, noY, kDone},
        {"half", half, factor, y, kWrongType},
        {"on the host", onHost, factor, y, kWrongDevice},
        {"factor on it", x, factorOnHost, y, kWrongDevice},
        {"factor short", x, shorter, y, kWrongShape},
        {"y narrow", x, factor, narrow, kWrongShape},
        {"y transposed", x, factor, acrossY, kWrongLayout},
    };

    std::printf("\ncalls: each while its stream is captured\n");
    std::printf("  %-12s  %5s  %5s  %-12s  %s\n", "call", "wrong", "right",
                "answer", "due");
    int total = 0;
    int right = 0;
    const char *first = "";
    for (const Call &call : calls) {
        const Answer answer = answerOf(call, stream);
        const size_t wrong =
            wrongOf(d_y, wantOf(call, h_x.data(), h_factor.data()));
        const bool good = answer == call.due && wrong == 0;
        std::printf("  %-12s  %5zu  %5d  %-12s  %s\n", call.name, wrong, good,
                    kAnswers[answer], kAnswers[call.due]);
        first = good || right != total ? first : call.name;
        right += good;
        ++total;
    }
    for (float *pointer : {d_x, d_factor, d_y}) {
        CUDA_CHECK(cudaFree(pointer));
    }
    CUDA_CHECK(cudaFreeHost(pinned));
    CUDA_CHECK(cudaStreamDestroy(stream));
    std::printf("\nanswers: of scaleRows\n");
    std::printf("  calls   %d\n", total);
    std::printf("  right   %d\n", right);
    if (right != total) {
        std::fprintf(stderr, "%d of %d calls are not answered right, first "
                             "\"%s\"\n", total - right, total, first);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", total);
    return EXIT_SUCCESS;
}

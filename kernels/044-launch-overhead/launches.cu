// SPDX-License-Identifier: MIT
//
// Day 44: launch overhead and graphs. The same N steps, each so small that the
// GPU is done with it at once, in four ways:
//
//   waiting   N launches, and the host waits after each
//   loop      N launches, and the host waits at the end
//   graph     the N launches recorded once, started by one call
//   fused     one launch, whose threads do all N steps
//
// A step is y = x * factor + addend for every element, from one buffer into
// another and back again; the input is only read, so every run starts alike.
//
// Times are taken by the host's clock, from before the first call until the
// GPU has finished: that is what a user of the program waits for. The loop's
// calls are also timed alone. What a step costs is a slope: the time of many
// steps less that of few, over their difference. What is left at no steps is
// paid once.
//
// A second table holds the number of steps and lets the elements grow, until
// the GPU's own work is longer than a launch and hides it.
//
// Written down before the run: a step costs 10 us when the host waits, 3 us in
// the loop, 1.2 us in the graph and next to nothing when fused. With a million
// elements loop and graph are equal.
//
// fmaf rounds once, on a CPU as on a GPU, so the gate is bit for bit.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o launches launches.cu
// Run: ./launches

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// --- Shapes -----------------------------------------------------------------

constexpr unsigned int kThreads = 256;

// Numbers of steps; the slope is that between the last and kSlopeFrom.
constexpr int kSteps[] = {1, 4, 16, 64, 256, 1024};
constexpr int kSlopeFrom = 256;
constexpr int kMostSteps = 1024;
constexpr int kSweepSteps = 64;  // of the second table

// Elements: a few blocks, ragged; up to 64 MiB per buffer.
constexpr size_t kSmall = 4099;
constexpr size_t kElements[] = {4099, 65539, 1048579, 4194307, 16777219};
constexpr size_t kLargest = 16777219;

// --- Cases ------------------------------------------------------------------

// A factor below 1 lets the elements neither grow nor vanish.
constexpr float kFactor = 0.9375f;
constexpr float kAddend = 0.3f;
constexpr size_t kPeriod = 65537;  // of the input; a prime
constexpr size_t kStride = 27449;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 21;  // odd: the median is one of the samples
constexpr int kWarmups = 3;

static_assert(kSmall % kThreads != 0, "the last block has threads to spare");
static_assert(kFactor > 0.0f && kFactor < 1.0f, "elements stay bounded");

// --- Kernels ----------------------------------------------------------------

// y = x * kFactor + kAddend, one thread per element.
// Memory: a warp reads and writes 32 neighbouring floats.
// Launch assumption: at least n threads in all; any n.
// snippet: step
__global__ void step(const float *__restrict__ x, float *__restrict__ y,
                     size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaf(x[i], kFactor, kAddend);
    }
}
// end snippet

// The same `steps` times, in a register.
// Memory: as step, once for all steps.
// Launch assumption: as step.
// snippet: fused
__global__ void fused(const float *__restrict__ x, float *__restrict__ y,
                      size_t n, int steps)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
        for (int s = 0; s < steps; ++s) {
            value = fmaf(value, kFactor, kAddend);
        }
        y[i] = value;
    }
}
// end snippet

// --- Paths ------------------------------------------------------------------

enum Path { kWaiting, kLoop, kGraph, kFused, kPathCount };
constexpr const char *kNames[kPathCount] = {"waiting", "loop", "graph",
                                            "fused"};

struct Buffers {
    float *d_x = nullptr;               // the input
    float *d_y[2] = {nullptr, nullptr}; // written in turns
};

static unsigned int blocksFor(size_t n)
{
    return static_cast<unsigned int>((n + kThreads - 1) / kThreads);
}

// Where the result of so many steps lies; fused writes there as well.
static float *resultOf(int steps, const Buffers &b)
{
    return b.d_y[(steps - 1) % 2];
}

// snippet: loop
static void launchSteps(int steps, bool wait, size_t n, const Buffers &b,
                        cudaStream_t stream)
{
    const float *from = b.d_x;
    for (int s = 0; s < steps; ++s) {
        float *to = b.d_y[s % 2];
        step<<<blocksFor(n), kThreads, 0, stream>>>(from, to, n);
        CUDA_CHECK(cudaGetLastError());
        if (wait) {
            CUDA_CHECK(cudaStreamSynchronize(stream));
        }
        from = to;
    }
}
// end snippet

// snippet: graph
static cudaGraphExec_t graphOf(int steps, size_t n, const Buffers &b,
                               cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launchSteps(steps, false, n, b, stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}
// end snippet

// Starts a path; does not wait for its end.
static void start(int path, int steps, size_t n, const Buffers &b,
                  cudaGraphExec_t exec, cudaStream_t stream)
{
    if (path == kGraph) {
        CUDA_CHECK(cudaGraphLaunch(exec, stream));
    } else if (path == kFused) {
        fused<<<blocksFor(n), kThreads, 0, stream>>>(
            b.d_x, resultOf(steps, b), n, steps);
        CUDA_CHECK(cudaGetLastError());
    } else {
        launchSteps(steps, path == kWaiting, n, b, stream);
    }
}

// --- Inputs and CPU reference -----------------------------------------------

static float elementAt(size_t i)
{
    return static_cast<float>(i * kStride % kPeriod) /
               static_cast<float>(kPeriod) - 0.3f;
}

static float referenceAt(size_t i, int steps)
{
    float value = elementAt(i);
    for (int s = 0; s < steps; ++s) {
        value = std::fmaf(value, kFactor, kAddend);
    }
    return value;
}

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *path = nullptr;
    int steps = 0;
    size_t n = 0;
    size_t index = 0;
    double got = 0.0;
    double want = 0.0;
};

// --- Judging ----------------------------------------------------------------

// Runs every path over results that are all NaN and compares every element.
static void judgeSteps(int steps, size_t n, const Buffers &b,
                       cudaStream_t stream, Failure *failure)
{
    cudaGraphExec_t exec = graphOf(steps, n, b, stream);
    std::vector<float> want(n);
    std::vector<float> got(n);
    for (size_t i = 0; i < n; ++i) {
        want[i] = referenceAt(i, steps);
    }
    char label[32];
    std::snprintf(label, sizeof(label), "N = %d, n = %zu", steps, n);
    std::printf("  %-20s", label);
    for (int path = 0; path < kPathCount; ++path) {
        size_t wrong = 0;
        for (float *d_y : b.d_y) {
            CUDA_CHECK(cudaMemsetAsync(d_y, 0xff, n * sizeof(float), stream));
        }
        start(path, steps, n, b, exec, stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CUDA_CHECK(cudaMemcpy(got.data(), resultOf(steps, b),
                              n * sizeof(float), cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < n; ++i) {
            // Written so that a NaN counts as wrong.
            if (!(got[i] == want[i])) {
                if (failure->path == nullptr) {
                    *failure = {kNames[path], steps, n, i,
                                static_cast<double>(got[i]),
                                static_cast<double>(want[i])};
                }
                ++wrong;
            }
        }
        std::printf("  %7zu", wrong);
    }
    std::printf("\n");
    CUDA_CHECK(cudaGraphExecDestroy(exec));
}

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats times, microseconds.
struct Spread {
    double median = 0.0;
    double least = 0.0;
    double most = 0.0;
};

static Spread spreadOf(std::vector<double> samples)
{
    std::sort(samples.begin(), samples.end());
    return {samples[samples.size() / 2], samples.front(), samples.back()};
}

static double nowUs()
{
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::micro>(now).count();
}

struct Times {
    Spread whole[kPathCount];  // until the GPU has finished
    Spread calls[kPathCount];  // until the last call has returned
};

// Times all paths beside each other, in turns, forwards and backwards. The
// GPU is idle when a sample begins.
static Times timePaths(int steps, size_t n, const Buffers &b,
                       cudaStream_t stream)
{
    cudaGraphExec_t exec = graphOf(steps, n, b, stream);
    std::vector<double> whole[kPathCount];
    std::vector<double> calls[kPathCount];
    for (int round = -kWarmups; round < kRepeats; ++round) {
        for (int turn = 0; turn < kPathCount; ++turn) {
            const int path = round % 2 == 0 ? turn : kPathCount - 1 - turn;
            CUDA_CHECK(cudaStreamSynchronize(stream));
            // snippet: sample
            const double begin = nowUs();
            start(path, steps, n, b, exec, stream);
            const double called = nowUs();
            CUDA_CHECK(cudaStreamSynchronize(stream));
            const double end = nowUs();
            // end snippet
            if (round >= 0) {
                whole[path].push_back(end - begin);
                calls[path].push_back(called - begin);
            }
        }
    }
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    Times times;
    for (int path = 0; path < kPathCount; ++path) {
        times.whole[path] = spreadOf(whole[path]);
        times.calls[path] = spreadOf(calls[path]);
    }
    return times;
}

// What it costs to make a graph: to capture and to instantiate it.
static Spread timeMaking(int steps, const Buffers &b, cudaStream_t stream)
{
    std::vector<double> samples;
    for (int round = -kWarmups; round < kRepeats; ++round) {
        const double begin = nowUs();
        cudaGraphExec_t exec = graphOf(steps, kSmall, b, stream);
        const double end = nowUs();
        CUDA_CHECK(cudaGraphExecDestroy(exec));
        if (round >= 0) {
            samples.push_back(end - begin);
        }
    }
    return spreadOf(samples);
}

// --- Tables -----------------------------------------------------------------

static void printHead(const char *what)
{
    std::printf("  %-14s", what);
    for (const char *name : kNames) {
        char label[32];
        std::snprintf(label, sizeof(label), "%s (us)", name);
        std::printf("  %12s", label);
    }
    std::printf("\n");
}

static void printSlopes(const Times &few, const Times &many)
{
    const double steps = kMostSteps - kSlopeFrom;
    std::printf("\nslope: from %d to %d steps\n", kSlopeFrom, kMostSteps);
    std::printf("  %-8s  %9s  %8s  %8s  %19s\n", "path", "step (us)",
                "min (us)", "max (us)", "calls per step (us)");
    for (int path = 0; path < kPathCount; ++path) {
        const Spread &a = few.whole[path];
        const Spread &z = many.whole[path];
        std::printf("  %-8s  %9.4f  %8.4f  %8.4f  %19.4f\n", kNames[path],
                    (z.median - a.median) / steps, (z.least - a.most) / steps,
                    (z.most - a.least) / steps,
                    (many.calls[path].median - few.calls[path].median) /
                        steps);
    }
}

static void printTimes(const Buffers &b, cudaStream_t stream)
{
    std::printf("\nsteps: time by the host's clock, of %zu elements\n",
                kSmall);
    std::printf("  repeats   %d   (times are medians of these)\n\n",
                kRepeats);
    printHead("steps");
    Times few;
    Times many;
    for (const int steps : kSteps) {
        const Times times = timePaths(steps, kSmall, b, stream);
        std::printf("  N = %-10d", steps);
        for (const Spread &spread : times.whole) {
            std::printf("  %12.2f", spread.median);
        }
        std::printf("\n");
        few = steps == kSlopeFrom ? times : few;
        many = steps == kMostSteps ? times : many;
    }
    printSlopes(few, many);

    const Spread making = timeMaking(kMostSteps, b, stream);
    const double saved =
        many.whole[kLoop].median - many.whole[kGraph].median;
    std::printf("\nmaking: capture and instantiate a graph of %d steps\n",
                kMostSteps);
    std::printf("  time                 %.2f us\n", making.median);
    std::printf("  min                  %.2f us\n", making.least);
    std::printf("  max                  %.2f us\n", making.most);
    std::printf("  saved by a replay    %.2f us   (loop less graph)\n", saved);
    std::printf("  replays to earn it   %.2f\n", making.median / saved);

    std::printf("\nelements: time of one of %d steps, by the host's clock\n",
                kSweepSteps);
    printHead("elements");
    for (const size_t n : kElements) {
        const Times times = timePaths(kSweepSteps, n, b, stream);
        std::printf("  n = %-10zu", n);
        for (const Spread &spread : times.whole) {
            std::printf("  %12.3f", spread.median / kSweepSteps);
        }
        std::printf("\n");
    }
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: launches [--quick]\n"
                             "  --quick  few steps, nothing timed\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    const size_t most = quick ? kSmall : kLargest;
    std::vector<float> h_x(most);
    for (size_t i = 0; i < most; ++i) {
        h_x[i] = elementAt(i);
    }
    Buffers b;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaMalloc(&b.d_x, most * sizeof(float)));
    for (float *&d_y : b.d_y) {
        CUDA_CHECK(cudaMalloc(&d_y, most * sizeof(float)));
    }
    CUDA_CHECK(cudaMemcpy(b.d_x, h_x.data(), most * sizeof(float),
                          cudaMemcpyHostToDevice));

    Failure failure;
    int passed = 0;
    std::printf("\ngate: wrong elements, bit for bit\n");
    std::printf("  %-20s  %7s  %7s  %7s  %7s\n", "steps, elements",
                kNames[0], kNames[1], kNames[2], kNames[3]);
    for (const int steps : kSteps) {
        if (failure.path == nullptr && (!quick || steps <= kSteps[2])) {
            judgeSteps(steps, kSmall, b, stream, &failure);
            passed += failure.path == nullptr ? 1 : 0;
        }
    }
    for (const size_t n : kElements) {
        if (failure.path == nullptr && !quick && n != kSmall) {
            judgeSteps(1 + kSteps[1], n, b, stream, &failure);
            passed += failure.path == nullptr ? 1 : 0;
        }
    }
    if (failure.path == nullptr && !quick) {
        printTimes(b, stream);
    }

    CUDA_CHECK(cudaFree(b.d_x));
    for (float *d_y : b.d_y) {
        CUDA_CHECK(cudaFree(d_y));
    }
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.path != nullptr) {
        std::fprintf(stderr,
                     "%s fails after %d steps at n = %zu: element %zu is "
                     "%.9g, not %.9g\n",
                     failure.path, failure.steps, failure.n, failure.index,
                     failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

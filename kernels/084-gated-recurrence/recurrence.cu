// SPDX-License-Identifier: MIT
//
// Day 84: the gated linear recurrence, one thread per column. Per batch and
// head there is a state of D x D numbers; all are FP32. Step t does
//
//   state[i][j] = gate[t][j] * state[i][j] + k[t][i] * v[t][j]
//   y[t][j]     = sum over i of q[t][i] * state[i][j]
//
// for inputs q, k, v, gate and output y of shape (B, T, H, D), D fastest.
//
//   founding   a block per batch and head; thread j keeps column j of the state
//              in registers. In every step the block brings the step's k and q
//              into shared memory, waits, computes, waits
//
// Two probes take a step apart. Both compute the recurrence in which every step
// has the inputs of step 0, and are judged on it:
//
//   one row    loads as founding does, but those of step 0: the L1 answers
//   no loads   loads them once, before the first step
//
// The gate: the reference is in double precision on the CPU, the same loops. A
// term q k v that is n steps old has been through 2 n roundings more than a new
// one, and terms cancel, so the tolerance follows the terms and not the result:
//
//   |got - reference| <= 4 u sqrt(depth) * (sum of the absolute terms)
//
// with u = 2^-24 and depth = D + 2 + the roundings behind a term, weighted by
// its size. Both sums are recurrences themselves. Not finite fails.
//
// Gates decide what a mistake can do, so there are five kinds: the sigmoid of
// normal numbers; near one; one; near zero; and with every seventh step zero.
// Wrong answers are judged on each kind, by the gate and by two simpler ones:
//
//   forgets    the right recurrence, over the last 32 steps only
//   TF32       founding, with q and k rounded to 10 mantissa bits of 23
//   tight      |error| <= 1e-5 + 1.3e-6 |reference|, for the right answer
//   loose      |error| <= 1e-2 + 1e-2 |reference|, for wrong ones
//
// Times are device times of a chain: the slope between a short and a long graph
// of launches, all data in L2 after the first of them.
//
// Written down before the run: at B=2, T=128, H=4, D=24 founding takes 34 us,
// 500 cycles a step, in proportion to T. One row takes 300 cycles a step, no
// loads 200: a step waits for the L2 more than for anything else. The gate
// accepts forgets with sigmoid gates, and near one rejects it.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o recurrence recurrence.cu
// Run: ./recurrence

#include <algorithm>
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

struct Shape {
    int batch;
    int steps;
    int heads;
    int dim;
};

constexpr int kDim = 24;       // of the founding shape
constexpr int kOtherDim = 40;  // two warps of columns, the second ragged
constexpr Shape kFounding = {2, 128, 4, kDim};
constexpr Shape kShapes[] = {
    {1, 131, 3, kDim},
    {1, 67, 2, kOtherDim},
    {1, 1, 1, kDim},
    kFounding,
};
constexpr int kQuickShapes = 3;
constexpr int kLengths[] = {128, 256, 512, 1024, 2048};  // of the sweep
constexpr int kLengthCount = sizeof(kLengths) / sizeof(kLengths[0]);
constexpr int kWindow = 32;  // steps that forgets remembers

// --- Cases ------------------------------------------------------------------

enum Gates { kSigmoid, kNearOne, kOne, kNearZero, kZeros, kGatesCount };
constexpr const char *kGatesNames[kGatesCount] = {
    "sigmoid", "near one", "one", "near zero", "zeros"};
constexpr double kShift = 4.0;    // sigmoid(x + 4) is near one
constexpr int kZeroPeriod = 7;    // of the steps whose gates are zero

// --- Tolerance --------------------------------------------------------------

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off
constexpr double kSafety = 4.0;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 11;     // odd: the median is one of the samples
constexpr int kWarmups = 2;
constexpr int kShortGraph = 10;  // launches
constexpr int kLongGraph = 60;

static_assert(kWindow < 67, "at every shape but the shortest, forgets forgets");

// --- Kernels ----------------------------------------------------------------

// Thread j of block (b, h) has column j of its state.
// Memory: a step reads and writes rows of kD neighbouring floats; k and q go
// through shared memory, where all lanes read the same word (a broadcast).
// Launch assumption: kD threads, (1, batch * heads) blocks.
// snippet: founding
template <int kD>
__global__ void founding(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int steps, int heads)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = blockIdx.y / heads * steps * row + blockIdx.y % heads * kD + j;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
}
// end snippet

// A load that the compiler may neither move nor leave out, through the L1.
__device__ inline float loadAgain(const float *from)
{
    float value;
    asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(value) : "l"(from));
    return value;
}

// As founding, with the inputs of step 0 in every step: loaded in each of them,
// or once.
// Memory: as founding; every load is of the same row.
// Launch assumption: as founding.
template <int kD, bool kLoads>
__global__ void probe(const float *__restrict__ q,
                      const float *__restrict__ k,
                      const float *__restrict__ v,
                      const float *__restrict__ gate,
                      float *__restrict__ y, int steps, int heads)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = blockIdx.y / heads * steps * row + blockIdx.y % heads * kD + j;
    const size_t step0 = at;
    float ownK = k[at];
    float ownQ = q[at];
    float g = gate[at];
    float value = v[at];
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        if (kLoads) {
            ownK = loadAgain(k + step0);
            ownQ = loadAgain(q + step0);
        }
        tileK[j] = ownK;
        tileQ[j] = ownQ;
        __syncthreads();  // the step's k and q are there
        if (kLoads) {
            g = loadAgain(gate + step0);
            value = loadAgain(v + step0);
        }
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

// Wrong on purpose: for every step, the recurrence over the last kWindow.
// Memory: as founding, kWindow times as often; nothing here is timed.
// Launch assumption: as founding.
template <int kD>
__global__ void forgets(const float *__restrict__ q,
                        const float *__restrict__ k,
                        const float *__restrict__ v,
                        const float *__restrict__ gate,
                        float *__restrict__ y, int steps, int heads)
{
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    // snippet: forgets
    for (int t = 0; t < steps; ++t) {
        float state[kD] = {};
        float sum = 0.0f;
        for (int s = max(0, t - kWindow + 1); s <= t; ++s) {
            const size_t at = start + s * row;
            sum = 0.0f;
#pragma unroll
            for (int i = 0; i < kD; ++i) {
                state[i] = fmaf(gate[at + j], state[i],
                                k[at + i] * v[at + j]);
                sum = fmaf(q[at + i], state[i], sum);
            }
        }
        y[start + t * row + j] = sum;
    }
    // end snippet
}

// Nothing at all. Launch assumption: any.
__global__ void empty() {}

// --- Paths ------------------------------------------------------------------

enum Path {
    kPathFounding,
    kPathOneRow,
    kPathNoLoads,
    kPathForgets,
    kPathEmpty,
    kPathCount
};
constexpr const char *kNames[kPathCount] = {"founding", "one row", "no loads",
                                            "forgets", "empty"};
constexpr int kTimed[] = {kPathFounding, kPathOneRow, kPathNoLoads,
                          kPathEmpty};

using Kernel = void (*)(const float *, const float *, const float *,
                        const float *, float *, int, int);

template <int kD>
static Kernel kernelOf(int path)
{
    return path == kPathFounding  ? founding<kD>
           : path == kPathOneRow  ? probe<kD, true>
           : path == kPathNoLoads ? probe<kD, false>
                                  : forgets<kD>;
}

static Kernel kernelOf(int path, int dim)
{
    return dim == kDim ? kernelOf<kDim>(path) : kernelOf<kOtherDim>(path);
}

static size_t countOf(const Shape &shape)
{
    return static_cast<size_t>(shape.batch) * shape.steps * shape.heads *
           shape.dim;
}

static dim3 gridOf(const Shape &shape)
{
    return dim3(1, static_cast<unsigned int>(shape.batch * shape.heads));
}

struct Buffers {
    float *d_in[4] = {nullptr, nullptr, nullptr, nullptr};  // q, k, v, gate
    float *d_y = nullptr;
};

static void launch(int path, const Shape &shape, const Buffers &b,
                   cudaStream_t stream)
{
    if (path == kPathEmpty) {
        empty<<<gridOf(shape), shape.dim, 2 * shape.dim * sizeof(float),
                stream>>>();
    } else {
        kernelOf(path, shape.dim)<<<gridOf(shape), shape.dim, 0, stream>>>(
            b.d_in[0], b.d_in[1], b.d_in[2], b.d_in[3], b.d_y, shape.steps,
            shape.heads);
    }
    CUDA_CHECK(cudaGetLastError());
}

// --- Inputs -----------------------------------------------------------------

// Scatters the bits of a number over all of it; no two numbers meet.
static unsigned int scattered(unsigned int value)
{
    value ^= value >> 16;
    value *= 0x7feb352du;
    value ^= value >> 15;
    value *= 0x846ca68bu;
    return value ^ (value >> 16);
}

// Normally distributed: the sum of twelve uniform numbers, less six.
static double normalAt(size_t i, unsigned int salt)
{
    double sum = -6.0;
    for (unsigned int n = 0; n < 12; ++n) {
        const unsigned int place = static_cast<unsigned int>(i) * 12u + n;
        sum += scattered((place * 5u + salt) * 2654435769u + 1u) /
               4294967296.0;
    }
    return sum;
}

static float gateAt(size_t i, size_t step, Gates gates)
{
    const double x = normalAt(i, 4);
    const double shift = gates == kNearOne    ? kShift
                         : gates == kNearZero ? -kShift
                                              : 0.0;
    if (gates == kOne) {
        return 1.0f;
    }
    if (gates == kZeros && step % kZeroPeriod == kZeroPeriod - 1) {
        return 0.0f;
    }
    return static_cast<float>(1.0 / (1.0 + std::exp(-x - shift)));
}

struct HostInputs {
    std::vector<float> in[4];
};

static HostInputs makeInputs(const Shape &shape, Gates gates)
{
    const size_t count = countOf(shape);
    const size_t row = static_cast<size_t>(shape.heads) * shape.dim;
    HostInputs h;
    for (unsigned int n = 0; n < 4; ++n) {
        h.in[n].resize(count);
        for (size_t i = 0; i < count; ++i) {
            h.in[n][i] = n < 3 ? static_cast<float>(normalAt(i, n + 1))
                               : gateAt(i, i / row % shape.steps, gates);
        }
    }
    return h;
}

// What the probes are given: step 0 in every step.
static HostInputs repeated(const Shape &shape, const HostInputs &h)
{
    const size_t row = static_cast<size_t>(shape.heads) * shape.dim;
    const size_t batch = shape.steps * row;
    HostInputs same = h;
    for (std::vector<float> &values : same.in) {
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = values[i / batch * batch + i % row];
        }
    }
    return same;
}

// q and k with ten mantissa bits of 23: what a tensor core reads of a float.
static HostInputs roundedToTf32(const HostInputs &h)
{
    HostInputs rounded = h;
    for (int n = 0; n < 2; ++n) {
        for (float &value : rounded.in[n]) {
            unsigned int bits = 0;
            std::memcpy(&bits, &value, sizeof(bits));
            bits = (bits + 0x1000u) & ~0x1fffu;
            std::memcpy(&value, &bits, sizeof(bits));
        }
    }
    return rounded;
}

// --- CPU reference and tolerance --------------------------------------------

struct Reference {
    std::vector<double> y;
    std::vector<double> tolerance;
    double memory = 0.0;  // steps back, weighted by size; the longest
};

// Beside the state, its sum of absolute terms, and the roundings that those
// terms have been through, weighted by size: two more in every step.
static Reference referenceOf(const Shape &shape, const HostInputs &h)
{
    const size_t dim = static_cast<size_t>(shape.dim);
    const size_t row = static_cast<size_t>(shape.heads) * dim;
    Reference ref;
    ref.y.resize(countOf(shape));
    ref.tolerance.resize(countOf(shape));
    for (size_t chain = 0; chain < shape.batch * row; ++chain) {
        const size_t head = chain / dim % shape.heads * dim;
        const size_t batch = chain / row * shape.steps * row;
        const size_t j = chain % dim;
        std::vector<double> state(dim, 0.0);
        std::vector<double> size(dim, 0.0);
        std::vector<double> aged(dim, 0.0);
        for (size_t t = 0; t < static_cast<size_t>(shape.steps); ++t) {
            const size_t at = batch + t * row + head;
            const double g = h.in[3][at + j];
            const double value = h.in[2][at + j];
            double y = 0.0;
            double terms = 0.0;
            double roundings = 0.0;
            for (size_t i = 0; i < dim; ++i) {
                const double kv = h.in[1][at + i] * value;
                const double q = h.in[0][at + i];
                aged[i] = g * (aged[i] + 2.0 * size[i]);
                state[i] = g * state[i] + kv;
                size[i] = g * size[i] + std::fabs(kv);
                y += q * state[i];
                terms += std::fabs(q) * size[i];
                roundings += std::fabs(q) * aged[i];
            }
            const double older = terms > 0.0 ? roundings / terms : 0.0;
            const double depth = static_cast<double>(dim) + 2.0 + older;
            ref.y[at + j] = y;
            ref.tolerance[at + j] = kSafety * kUnit * std::sqrt(depth) * terms;
            ref.memory = std::max(ref.memory, older / 2.0);
        }
    }
    return ref;
}

// --- Judging ----------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *path = nullptr;
    const char *gates = nullptr;
    Shape shape = {};
    size_t index = 0;
    double got = 0.0;
    double want = 0.0;
};

// The worst error as a fraction of what is allowed: by the gate, or by atol +
// rtol |reference|. Anything that is not finite is infinitely wrong, and so is
// an answer without elements.
struct Fractions {
    double gate = 0.0;
    double tight = 0.0;
    double loose = 0.0;
    size_t where = 0;
};

static Fractions worstOf(const std::vector<float> &got, const Reference &ref)
{
    Fractions worst;
    worst.gate = got.empty() ? HUGE_VAL : 0.0;
    for (size_t i = 0; i < got.size(); ++i) {
        const double error = std::fabs(static_cast<double>(got[i]) - ref.y[i]);
        const double size = std::fabs(ref.y[i]);
        double frac = error == 0.0 ? 0.0 : error / ref.tolerance[i];
        frac = std::isfinite(got[i]) ? frac : HUGE_VAL;
        if (!(frac <= worst.gate)) {
            worst.gate = frac;
            worst.where = i;
        }
        worst.tight = std::max(worst.tight, error / (1e-5 + 1.3e-6 * size));
        worst.loose = std::max(worst.loose, error / (1e-2 + 1e-2 * size));
    }
    return worst;
}

static void upload(const HostInputs &h, const Buffers &b)
{
    for (int n = 0; n < 4; ++n) {
        CUDA_CHECK(cudaMemcpy(b.d_in[n], h.in[n].data(),
                              h.in[n].size() * sizeof(float),
                              cudaMemcpyHostToDevice));
    }
}

// Runs a path over results that are all NaN.
static Fractions runPath(int path, const Shape &shape, const HostInputs &h,
                         const Reference &ref, const Buffers &b,
                         cudaStream_t stream, std::vector<float> *got)
{
    got->resize(countOf(shape));
    upload(h, b);
    CUDA_CHECK(cudaMemset(b.d_y, 0xff, got->size() * sizeof(float)));
    launch(path, shape, b, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(got->data(), b.d_y, got->size() * sizeof(float),
                          cudaMemcpyDeviceToHost));
    return worstOf(*got, ref);
}

// Judges the three right paths, and prints what the wrong ones get.
static void judgeCase(const Shape &shape, Gates gates, const Buffers &b,
                      cudaStream_t stream, Failure *failure)
{
    const HostInputs h = makeInputs(shape, gates);
    const HostInputs same = repeated(shape, h);
    const Reference ref = referenceOf(shape, h);
    const Reference sameRef = referenceOf(shape, same);
    Fractions worst[kPathEmpty];
    std::vector<float> got;
    for (int path = 0; path < kPathEmpty; ++path) {
        const bool isProbe = path == kPathOneRow || path == kPathNoLoads;
        const Reference &want = isProbe ? sameRef : ref;
        worst[path] = runPath(path, shape, isProbe ? same : h, want, b, stream,
                              &got);
        if (path != kPathForgets && !(worst[path].gate <= 1.0) &&
            failure->path == nullptr) {
            const size_t where = worst[path].where;
            *failure = {kNames[path], kGatesNames[gates], shape, where,
                        static_cast<double>(got[where]), want.y[where]};
        }
    }
    const Fractions tf32 = runPath(kPathFounding, shape, roundedToTf32(h), ref,
                                   b, stream, &got);
    const Fractions zeros =
        worstOf(std::vector<float>(countOf(shape), 0.0f), ref);
    std::printf("  %-10s  %8.1f  %9.4f  %8.4f  %9.4f  %9.2f  %13.4f  %14.4f  "
                "%9.1f  %10.4f  %9.0f\n",
                kGatesNames[gates], ref.memory, worst[kPathFounding].gate,
                worst[kPathOneRow].gate, worst[kPathNoLoads].gate,
                worst[kPathFounding].tight, worst[kPathForgets].gate,
                worst[kPathForgets].loose, tf32.gate, tf32.loose, zeros.gate);
    // What this file is about has to be reached, or it says nothing.
    const bool seen = gates != kNearOne || shape.steps <= kWindow ||
                      worst[kPathForgets].gate > 1.0;
    if ((!seen || !(tf32.gate > 1.0)) && failure->path == nullptr) {
        *failure = {seen ? "TF32, accepted," : "forgets, accepted,",
                    kGatesNames[gates], shape, 0, 0.0, 0.0};
    }
}

static int judgeShape(const Shape &shape, int kinds, const Buffers &b,
                      cudaStream_t stream, Failure *failure)
{
    std::printf("\ngate B = %d, T = %d, H = %d, D = %d: worst error as a "
                "fraction of what is allowed\n",
                shape.batch, shape.steps, shape.heads, shape.dim);
    std::printf("  outputs   %zu   (each path, each row)\n\n",
                countOf(shape));
    std::printf("  %-10s  %8s  %9s  %8s  %9s  %9s  %13s  %14s  %9s  %10s  "
                "%9s\n",
                "gates", "memory", "founding", "one row", "no loads",
                "by tight", "forgets", "forgets, loose", "TF32",
                "TF32, loose", "all zeros");
    int passed = 0;
    for (int gates = 0; gates < kinds; ++gates) {
        judgeCase(shape, static_cast<Gates>(gates), b, stream, failure);
        passed += failure->path == nullptr ? 1 : 0;
    }
    return passed;
}

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats slopes, microseconds per launch.
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

static cudaGraphExec_t graphOf(int path, const Shape &shape, int launches,
                               const Buffers &b, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(path, shape, b, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

static double graphMs(cudaGraphExec_t exec, cudaEvent_t start,
                      cudaEvent_t stop, cudaStream_t stream)
{
    float ms = 0.0f;
    CUDA_CHECK(cudaEventRecord(start, stream));
    CUDA_CHECK(cudaGraphLaunch(exec, stream));
    CUDA_CHECK(cudaEventRecord(stop, stream));
    CUDA_CHECK(cudaEventSynchronize(stop));
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
    return static_cast<double>(ms);
}

// Times the paths beside each other, in turns, forwards and backwards. What is
// paid once for a graph is in both of its lengths and falls out.
static void timeAll(const Shape &shape, const Buffers &b, cudaStream_t stream,
                    Spread *times)
{
    cudaGraphExec_t few[kPathCount] = {};
    cudaGraphExec_t many[kPathCount] = {};
    for (const int path : kTimed) {
        few[path] = graphOf(path, shape, kShortGraph, b, stream);
        many[path] = graphOf(path, shape, kLongGraph, b, stream);
    }
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    std::vector<double> slopes[kPathCount];
    constexpr int kAll = sizeof(kTimed) / sizeof(kTimed[0]);
    for (int round = -kWarmups; round < kRepeats; ++round) {
        for (int turn = 0; turn < kAll; ++turn) {
            const int path =
                kTimed[round % 2 == 0 ? turn : kAll - 1 - turn];
            const double shorter = graphMs(few[path], start, stop, stream);
            const double longer = graphMs(many[path], start, stop, stream);
            if (round >= 0) {
                slopes[path].push_back(1e3 * (longer - shorter) /
                                       (kLongGraph - kShortGraph));
            }
        }
    }
    for (const int path : kTimed) {
        times[path] = spreadOf(slopes[path]);
        CUDA_CHECK(cudaGraphExecDestroy(few[path]));
        CUDA_CHECK(cudaGraphExecDestroy(many[path]));
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Tables -----------------------------------------------------------------

static void printKernels()
{
    std::printf("\nkernels: D = %d, at the founding shape\n", kDim);
    std::printf("  %-8s  %6s  %7s  %9s  %9s  %10s\n", "path", "blocks",
                "threads", "registers", "local (B)", "shared (B)");
    for (int path = 0; path < kPathForgets; ++path) {
        cudaFuncAttributes attributes = {};
        CUDA_CHECK(cudaFuncGetAttributes(
            &attributes,
            reinterpret_cast<const void *>(kernelOf<kDim>(path))));
        std::printf("  %-8s  %6u  %7d  %9d  %9zu  %10zu\n", kNames[path],
                    gridOf(kFounding).y, kDim, attributes.numRegs,
                    attributes.localSizeBytes, attributes.sharedSizeBytes);
    }
}

static void printCounts()
{
    const double tensor = static_cast<double>(countOf(kFounding)) * 4.0;
    std::printf("\ncounts: at the founding shape\n");
    std::printf("  tensor      %.0f B\n", tensor);
    std::printf("  floor       %.0f B   (four read, one written)\n",
                5.0 * tensor);
    std::printf("  updates     %.0f   (of one number of one state)\n",
                tensor / 4.0 * kDim);
    std::printf("  work        %.0f FLOP   (five for each)\n",
                5.0 * tensor / 4.0 * kDim);
}

static void printTimes(double clockGhz, const Buffers &b, cudaStream_t stream)
{
    Spread times[kLengthCount][kPathCount];
    for (int n = 0; n < kLengthCount; ++n) {
        Shape shape = kFounding;
        shape.steps = kLengths[n];
        timeAll(shape, b, stream, times[n]);
    }
    std::printf("\ntime: T = %d, slope between graphs of %d and %d launches, "
                "data in L2\n",
                kFounding.steps, kShortGraph, kLongGraph);
    std::printf("  repeats   %d   (time is the median of these slopes)\n\n",
                kRepeats);
    std::printf("  %-8s  %9s  %8s  %8s\n", "path", "time (us)", "min (us)",
                "max (us)");
    for (const int path : kTimed) {
        const Spread &spread = times[0][path];
        std::printf("  %-8s  %9.3f  %8.3f  %8.3f\n", kNames[path],
                    spread.median, spread.least, spread.most);
    }

    std::printf("\nsweep: times as the sequence grows\n");
    std::printf("  %-8s", "steps");
    for (const int path : kTimed) {
        char label[32];
        std::snprintf(label, sizeof(label), "%s (us)", kNames[path]);
        std::printf("  %13s", label);
    }
    std::printf("\n");
    for (int n = 0; n < kLengthCount; ++n) {
        std::printf("  T = %-4d", kLengths[n]);
        for (const int path : kTimed) {
            std::printf("  %13.3f", times[n][path].median);
        }
        std::printf("\n");
    }

    const int last = kLengthCount - 1;
    const double steps = kLengths[last] - kLengths[0];
    std::printf("\nsteps: what each costs, from T = %d to T = %d\n",
                kLengths[0], kLengths[last]);
    std::printf("  clock   %.3f GHz   (the most that the device says)\n\n",
                clockGhz);
    std::printf("  %-8s  %9s  %15s\n", "path", "step (ns)", "length (cycles)");
    for (const int path : kTimed) {
        const double each =
            1e3 * (times[last][path].median - times[0][path].median) / steps;
        std::printf("  %-8s  %9.3f  %15.1f\n", kNames[path], each,
                    each * clockGhz);
    }
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    const bool once = argc == 2 && std::strcmp(argv[1], "--once") == 0;
    if (argc != 1 && !quick && !once) {
        std::fprintf(stderr, "usage: recurrence [--quick | --once]\n"
                             "  --quick  small shapes, nothing timed\n"
                             "  --once   every path once, for profilers\n");
        return 2;
    }

    cudaDeviceProp device = {};
    int clockKhz = 0;
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    CUDA_CHECK(cudaDeviceGetAttribute(&clockKhz, cudaDevAttrClockRate, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    Shape longest = kFounding;
    longest.steps = kLengths[kLengthCount - 1];
    Buffers b;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    const size_t bytes = countOf(longest) * sizeof(float);
    for (float *&d_in : b.d_in) {
        CUDA_CHECK(cudaMalloc(&d_in, bytes));
        CUDA_CHECK(cudaMemset(d_in, 0, bytes));
    }
    CUDA_CHECK(cudaMalloc(&b.d_y, bytes));

    printKernels();
    printCounts();
    Failure failure;
    int passed = 0;
    const int shapes = quick ? kQuickShapes
                             : static_cast<int>(sizeof(kShapes) /
                                                sizeof(kShapes[0]));
    for (int n = once ? shapes - 1 : 0; n < shapes; ++n) {
        if (failure.path == nullptr) {
            // Sigmoid alone; near one as well; all.
            const int kinds = once ? 1 : quick ? 2 : kGatesCount;
            passed += judgeShape(kShapes[n], kinds, b, stream, &failure);
        }
    }
    if (failure.path == nullptr && !quick && !once) {
        const HostInputs h = makeInputs(longest, kSigmoid);
        upload(h, b);
        printTimes(clockKhz * 1e-6, b, stream);
    }

    for (float *d_in : b.d_in) {
        CUDA_CHECK(cudaFree(d_in));
    }
    CUDA_CHECK(cudaFree(b.d_y));
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.path != nullptr) {
        const Shape &s = failure.shape;
        std::fprintf(stderr,
                     "%s fails at B=%d T=%d H=%d D=%d, gates %s: output %zu "
                     "is %.9g, not %.9g\n",
                     failure.path, s.batch, s.steps, s.heads, s.dim,
                     failure.gates, failure.index, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

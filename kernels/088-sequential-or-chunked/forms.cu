// SPDX-License-Identifier: MIT
//
// Day 88: what the forms of the gated recurrence can bear. All are FP32:
//
//   state[i][j] = gate[t][j] * state[i][j] + k[t][i] * v[t][j]
//   y[t][j]     = sum over i of q[t][i] * state[i][j]
//
// A chunk of C steps, from step c on, can be worked out from the state S before
// it and the scores a[t][s] = q[t] . k[s], with G[t][j] for the product of the
// gates of column j from step c to t. Forms of that, each in chunks of 16, 32,
// 64 and 128 steps:
//
//   horner   acc = q[t] . S, then for s = c ... t: acc = gate[s] acc +
//            a[t][s] v[s]. No product, no division
//   fold     G[t] (q[t] . S + sum of a[t][s] (v[s] / G[s])): a plain matrix
//            product
//   log      the same with exp2(L[t] - L[s]) for G[t] / G[s], and L the sum of
//            the gates' logarithms
//
// Beside them the recurrence, step by step, and quadratic: horner with a single
// chunk. And two wrong answers:
//
//   no state   horner 32, with every chunk beginning at zero
//   forgets    the right recurrence, over the last 32 steps only
//
// The gate is day 84's: double precision on the CPU, and for each output an
// error of at most 4 u sqrt(depth) times the sum of the absolute terms, with
// u = 2^-24 and depth the roundings behind a term, weighted by size.
// Recurrence, quadratic and horner have to pass it with all gates; of fold and
// log it is said how they do, the outputs that are not finite counted apart.
//
// These kernels are as simple as they can be, a block per head, a thread per
// column; growth.cu has fast ones.
//
// Written down before the run, after trying it in NumPy: recurrence and horner
// stay below 0.2 of what is allowed everywhere. Fold is as good with sigmoid
// gates up to C = 64, and at 128 some four thousand of 24,576 outputs are not
// finite; near zero C = 32 is too much, and with zeros 16. Log is finite but
// for zeros, and off by up to 8 times what is allowed. With sigmoid gates
// forgets passes.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o forms forms.cu
// Run: ./forms

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
constexpr int kOtherDim = 64;  // two warps of columns
constexpr Shape kShapes[] = {
    {1, 131, 2, kDim},  // T is no multiple of a chunk
    {1, 131, 1, kOtherDim},
    {1, 1, 1, kDim},
    {2, 128, 4, kDim},
};
constexpr int kQuickShapes = 3;
constexpr int kWindow = 32;  // steps that forgets remembers
constexpr int kAll = 256;    // a chunk that holds any sequence here

static_assert(131 <= kAll, "quadratic has a single chunk");

// --- Cases ------------------------------------------------------------------

enum Gates { kSigmoid, kNearOne, kOne, kNearZero, kZeros, kGatesCount };
constexpr const char *kGatesNames[kGatesCount] = {
    "sigmoid", "near one", "one", "near zero", "zeros"};
constexpr double kShift = 4.0;    // sigmoid(x + 4) is near one
constexpr int kZeroPeriod = 7;    // of the steps whose gates are zero

// --- Tolerance --------------------------------------------------------------

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off
constexpr double kSafety = 4.0;

// --- Kernels ----------------------------------------------------------------

// The definition, over the last kSteps of each step, or over all with 0: then
// the state is carried on. Thread j has column j.
// Memory: all lanes read the same k and q, and neighbouring v and gates.
// Launch assumption: kD threads, (1, batch * heads) blocks.
template <int kD, int kSteps>
__global__ void recurrence(const float *__restrict__ q,
                           const float *__restrict__ k,
                           const float *__restrict__ v,
                           const float *__restrict__ gate,
                           float *__restrict__ y, int steps, int heads)
{
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t) {
        float sum = 0.0f;
        for (int s = kSteps > 0 ? max(0, t - kSteps + 1) : t; s <= t; ++s) {
            const size_t at = start + s * row;
            const bool isFresh = kSteps > 0 && s == max(0, t - kSteps + 1);
            sum = 0.0f;
#pragma unroll
            for (int i = 0; i < kD; ++i) {
                const float before = isFresh ? 0.0f : state[i];
                state[i] =
                    fmaf(gate[at + j], before, k[at + i] * v[at + j]);
                sum = fmaf(q[at + i], state[i], sum);
            }
        }
        y[start + t * row + j] = sum;
    }
}

enum Form { kHorner, kFold, kLog, kNoState };

// A form in chunks of kC steps. Thread j has column j, and of each step's
// scores every kD-th.
// Memory: as recurrence; scores go through shared memory, where all lanes read
// the same word; `held` is a thread's own, neighbouring words for a warp.
// Launch assumption: kD threads, (1, batch * heads) blocks.
template <int kD, int kForm, int kC>
__global__ void chunked(const float *__restrict__ q,
                        const float *__restrict__ k,
                        const float *__restrict__ v,
                        const float *__restrict__ gate,
                        float *__restrict__ y, int steps, int heads)
{
    constexpr bool kHolds = kForm == kFold || kForm == kLog;
    __shared__ float scores[kC];            // of the step with those up to it
    __shared__ float held[kHolds ? kC : 1][kD];  // v / G, or L
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    float state[kD] = {};
    for (int first = 0; first < steps; first += kC) {
        const int count = min(kC, steps - first);
        const size_t base = start + first * row;
        float all = kForm == kLog ? 0.0f : 1.0f;  // G, or L, of the chunk
        for (int s = 0; kHolds && s < count; ++s) {
            const size_t at = base + s * row + j;
            all = kForm == kLog ? all + log2f(gate[at]) : all * gate[at];
            held[s][j] = kForm == kLog ? all : v[at] / all;
        }
        float upTo = 1.0f;  // G of the step
        for (int t = 0; t < count; ++t) {
            const size_t at = base + t * row;
            __syncthreads();  // nobody reads the scores before
            for (int s = j; s <= t; s += kD) {
                float sum = 0.0f;
                for (int i = 0; i < kD; ++i) {
                    sum = fmaf(q[at + i], k[base + s * row + i], sum);
                }
                scores[s] = sum;
            }
            __syncthreads();  // the step's scores are there
            float acc = 0.0f;
#pragma unroll
            for (int i = 0; i < kD; ++i) {
                acc = fmaf(q[at + i], state[i], acc);
            }
            if (kForm == kFold) {
                // snippet: fold
                upTo *= gate[at + j];
                for (int s = 0; s <= t; ++s) {
                    acc = fmaf(scores[s], held[s][j], acc);
                }
                acc *= upTo;
                // end snippet
            } else if (kForm == kLog) {
                // snippet: log
                acc *= exp2f(held[t][j]);
                for (int s = 0; s <= t; ++s) {
                    const float decay = exp2f(held[t][j] - held[s][j]);
                    acc = fmaf(scores[s] * decay, v[base + s * row + j], acc);
                }
                // end snippet
            } else {
                // snippet: horner
                for (int s = 0; s <= t; ++s) {
                    const size_t then = base + s * row + j;
                    acc = fmaf(gate[then], acc, scores[s] * v[then]);
                }
                // end snippet
            }
            y[at + j] = acc;
        }
        for (int s = 0; kForm != kNoState && s < count; ++s) {
            const size_t at = base + s * row;
#pragma unroll
            for (int i = 0; i < kD; ++i) {
                const float ki = k[at + i];
                state[i] =
                    kForm == kFold ? fmaf(ki, held[s][j], state[i])
                    : kForm == kLog
                        ? fmaf(ki * exp2f(all - held[s][j]), v[at + j],
                               s == 0 ? state[i] * exp2f(all) : state[i])
                        : fmaf(gate[at + j], state[i], ki * v[at + j]);
            }
        }
#pragma unroll
        for (int i = 0; kForm == kFold && i < kD; ++i) {
            state[i] *= all;
        }
    }
}

// --- Paths ------------------------------------------------------------------

// Groups of paths, as the tables have them: the first ones have to be right.
constexpr int kRight = 6;
constexpr int kFoldPath = kRight;
constexpr int kLogPath = kFoldPath + 4;
constexpr int kWrong = kLogPath + 4;
constexpr int kPathCount = kWrong + 2;
constexpr int kNoStatePath = kWrong;
constexpr int kForgetsPath = kWrong + 1;

using Kernel = void (*)(const float *, const float *, const float *,
                        const float *, float *, int, int);

struct Path {
    const char *name;
    Kernel kernel;
};

template <int kD>
static Path pathOf(int path)
{
    const Path all[kPathCount] = {
        {"recurrence", recurrence<kD, 0>},
        {"quadratic", chunked<kD, kHorner, kAll>},
        {"horner 16", chunked<kD, kHorner, 16>},
        {"horner 32", chunked<kD, kHorner, 32>},
        {"horner 64", chunked<kD, kHorner, 64>},
        {"horner 128", chunked<kD, kHorner, 128>},
        {"fold 16", chunked<kD, kFold, 16>},
        {"fold 32", chunked<kD, kFold, 32>},
        {"fold 64", chunked<kD, kFold, 64>},
        {"fold 128", chunked<kD, kFold, 128>},
        {"log 16", chunked<kD, kLog, 16>},
        {"log 32", chunked<kD, kLog, 32>},
        {"log 64", chunked<kD, kLog, 64>},
        {"log 128", chunked<kD, kLog, 128>},
        {"no state", chunked<kD, kNoState, 32>},
        {"forgets", recurrence<kD, kWindow>},
    };
    return all[path];
}

static Path pathOf(int path, int dim)
{
    return dim == kDim ? pathOf<kDim>(path) : pathOf<kOtherDim>(path);
}

static size_t countOf(const Shape &shape)
{
    return static_cast<size_t>(shape.batch) * shape.steps * shape.heads *
           shape.dim;
}

struct Buffers {
    float *d_in[4] = {nullptr, nullptr, nullptr, nullptr};  // q, k, v, gate
    float *d_y = nullptr;
};

static void launch(int path, const Shape &shape, const Buffers &b)
{
    const dim3 grid(1, static_cast<unsigned int>(shape.batch * shape.heads));
    pathOf(path, shape.dim).kernel<<<grid, shape.dim>>>(
        b.d_in[0], b.d_in[1], b.d_in[2], b.d_in[3], b.d_y, shape.steps,
        shape.heads);
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

// --- CPU reference and tolerance --------------------------------------------

struct Reference {
    std::vector<double> y;
    std::vector<double> tolerance;
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

// The worst error as a fraction of what is allowed, of the outputs that are
// finite, where it is, and how many are not.
struct Verdict {
    double frac = 0.0;
    size_t where = 0;
    size_t lost = 0;
};

static Verdict judge(const std::vector<float> &got, const Reference &ref)
{
    Verdict verdict;
    verdict.frac = got.empty() ? HUGE_VAL : 0.0;  // nothing seen is no pass
    for (size_t i = 0; i < got.size(); ++i) {
        if (!std::isfinite(got[i])) {
            verdict.where = verdict.lost == 0 ? i : verdict.where;
            ++verdict.lost;
            continue;
        }
        const double error = std::fabs(static_cast<double>(got[i]) - ref.y[i]);
        const double frac = error == 0.0 ? 0.0 : error / ref.tolerance[i];
        if (!(frac <= verdict.frac)) {
            verdict.frac = frac;
            verdict.where = verdict.lost == 0 ? i : verdict.where;
        }
    }
    return verdict;
}

static bool passes(const Verdict &verdict)
{
    return verdict.lost == 0 && verdict.frac <= 1.0;
}

struct Row {
    Verdict of[kPathCount];
    double zeros = 0.0;
};

// What this file is about has to be reached, or it says nothing.
static const char *missedBy(const Shape &shape, Gates gates, const Row &row)
{
    const bool isShort = shape.steps <= kWindow;
    if (gates == kZeros && !isShort && passes(row.of[kFoldPath])) {
        return "fold 16, accepted,";
    }
    if (gates == kNearOne && !isShort && passes(row.of[kForgetsPath])) {
        return "forgets, accepted,";
    }
    if (!isShort && passes(row.of[kNoStatePath])) {
        return "no state, accepted,";
    }
    return nullptr;
}

// Runs all paths, each over results that are NaN.
static Row judgeCase(const Shape &shape, Gates gates, const Buffers &b,
                     Failure *failure)
{
    const HostInputs h = makeInputs(shape, gates);
    const Reference ref = referenceOf(shape, h);
    const size_t count = countOf(shape);
    std::vector<float> got(count);
    Row row;
    for (int n = 0; n < 4; ++n) {
        CUDA_CHECK(cudaMemcpy(b.d_in[n], h.in[n].data(), count * sizeof(float),
                              cudaMemcpyHostToDevice));
    }
    for (int path = 0; path < kPathCount; ++path) {
        CUDA_CHECK(cudaMemset(b.d_y, 0xff, count * sizeof(float)));
        launch(path, shape, b);
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaMemcpy(got.data(), b.d_y, count * sizeof(float),
                              cudaMemcpyDeviceToHost));
        row.of[path] = judge(got, ref);
        if (path < kRight && !passes(row.of[path]) &&
            failure->path == nullptr) {
            const size_t where = row.of[path].where;
            *failure = {pathOf(path, shape.dim).name, kGatesNames[gates],
                        shape, where, static_cast<double>(got[where]),
                        ref.y[where]};
        }
    }
    row.zeros = judge(std::vector<float>(count, 0.0f), ref).frac;
    const char *missed = missedBy(shape, gates, row);
    if (missed != nullptr && failure->path == nullptr) {
        *failure = {missed, kGatesNames[gates], shape, 0, 0.0, 0.0};
    }
    return row;
}

// --- Tables -----------------------------------------------------------------

static void printTitle(const char *group, const Shape &shape,
                       const char *what)
{
    std::printf("\n%s B = %d, T = %d, H = %d, D = %d: %s\n", group,
                shape.batch, shape.steps, shape.heads, shape.dim, what);
}

// One group of paths: fractions, and for some beside them what is not finite.
static void printGroup(const Shape &shape, int from, int to, bool isCounted,
                       const std::vector<Row> &rows)
{
    std::printf("  %-10s", "gates");
    for (int path = from; path < to; ++path) {
        std::printf("  %12s", pathOf(path, shape.dim).name);
    }
    for (int path = from; isCounted && path < to; ++path) {
        char label[16];
        std::snprintf(label, sizeof(label), "lost%s",
                      std::strchr(pathOf(path, shape.dim).name, ' '));
        std::printf("  %8s", label);
    }
    std::printf("%s\n", from == 0 ? "   all zeros" : "");
    for (size_t gates = 0; gates < rows.size(); ++gates) {
        std::printf("  %-10s", kGatesNames[gates]);
        for (int path = from; path < to; ++path) {
            std::printf("  %12.4f", rows[gates].of[path].frac);
        }
        for (int path = from; isCounted && path < to; ++path) {
            std::printf("  %8zu", rows[gates].of[path].lost);
        }
        if (from == 0) {
            std::printf("  %10.0f", rows[gates].zeros);
        }
        std::printf("\n");
    }
}

static int judgeShape(const Shape &shape, int kinds, const Buffers &b,
                      Failure *failure)
{
    std::vector<Row> rows;
    int passed = 0;
    for (int gates = 0; gates < kinds; ++gates) {
        rows.push_back(
            judgeCase(shape, static_cast<Gates>(gates), b, failure));
        passed += failure->path == nullptr ? 1 : 0;
    }
    printTitle("gate", shape, "worst error as a fraction of what is allowed");
    std::printf("  outputs   %zu   (each path, each row)\n\n", countOf(shape));
    printGroup(shape, 0, kRight, false, rows);
    printTitle("fold", shape,
               "the same of the finite outputs, and how many are not");
    printGroup(shape, kFoldPath, kLogPath, true, rows);
    printTitle("log", shape,
               "the same of the finite outputs, and how many are not");
    printGroup(shape, kLogPath, kWrong, true, rows);
    printTitle("wrong", shape, "what two wrong answers get");
    printGroup(shape, kWrong, kPathCount, false, rows);
    return passed;
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: forms [--quick]\n"
                             "  --quick  small shapes, two kinds of gates\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    size_t most = 0;
    for (const Shape &shape : kShapes) {
        most = std::max(most, countOf(shape));
    }
    Buffers b;
    for (float *&d_in : b.d_in) {
        CUDA_CHECK(cudaMalloc(&d_in, most * sizeof(float)));
    }
    CUDA_CHECK(cudaMalloc(&b.d_y, most * sizeof(float)));

    Failure failure;
    int passed = 0;
    const int shapes = quick ? kQuickShapes
                             : static_cast<int>(sizeof(kShapes) /
                                                sizeof(kShapes[0]));
    for (int n = 0; n < shapes; ++n) {
        if (failure.path == nullptr) {
            passed += judgeShape(kShapes[n], quick ? 2 : kGatesCount, b,
                                 &failure);
        }
    }

    for (float *d_in : b.d_in) {
        CUDA_CHECK(cudaFree(d_in));
    }
    CUDA_CHECK(cudaFree(b.d_y));

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

// SPDX-License-Identifier: MIT
//
// Day 6: timing with events. The same launches are timed in five ways: by the
// host's clock without and with waiting, by two events around one launch, by
// two events around many, and by the slope between a short and a long graph.
//
// A timer is a program, so it is judged as well. The kernel `spin` looks at
// the GPU's own clock until 1 ms or 4 ms are over. A way that is right finds
// 3 ms between the two, to 3 %; what it adds to both is its own cost. The host
// clock without waiting has to be found wrong, or the judge is not believed.
//
// Three kernels are then timed in all ways: an empty one, a short one whose
// data stay in the L2, and a long one whose data are far larger. They compute
// out = 1.5 * in, one rounding, on a CPU as on a GPU: no bit may differ.
//
// Predictions, written before the run: the first launch of a kernel takes more
// than ten times as long as a later one. Without waiting, the host's clock
// shows the same few microseconds for every kernel. Two events around an empty
// kernel are some 5 us apart, and a graph needs less than 1 us for it. Samples
// of the short kernel differ by tens of per cent, of the long one by 1 %.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o events events.cu
// Run: ./events

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

constexpr size_t kShort = (size_t{1} << 16) + 3;  // 512 KiB: stay in the L2
constexpr size_t kLong = (size_t{1} << 25) + 3;   // 256 MiB: do not
constexpr size_t kQuickLong = (size_t{1} << 20) + 3;

constexpr float kFactor = 1.5f;
constexpr size_t kPeriod = 1021;  // a prime: no block meets the same numbers

// --- Cases ------------------------------------------------------------------

// How long the kernel that judges the timers spins: far longer than a launch.
constexpr long long kShortSpin = 1000000;  // ns
constexpr long long kLongSpin = 4000000;   // ns

// --- Tolerance --------------------------------------------------------------

// The GPU's clock moves in steps of up to a microsecond, and a sanitizer makes
// launches slow and uneven; 3 % of 3 ms are 90 us.
constexpr double kTimerTolerance = 0.03;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 31;     // odd: the median is one of the samples
constexpr int kJudged = 3;       // samples of each spin
constexpr int kWarmups = 2;      // before the first sample
constexpr int kMany = 10;        // launches between two events
constexpr int kShortGraph = 20;  // launches in a graph
constexpr int kLongGraph = 120;
constexpr int kLongest = 16;     // launches in the long graph of a long kernel
constexpr int kPairs = 1000;     // of events around an empty kernel

constexpr double kMicro = 1e3;  // milliseconds to microseconds

// --- Kernels ----------------------------------------------------------------

// Nothing: what a launch costs by itself.
__global__ void emptyKernel()
{
}

// Looks at the GPU's clock until `ns` nanoseconds are over.
// Memory: none.
// Launch assumption: one thread.
// snippet: spin
__global__ void spin(long long ns)
{
    long long start = 0;
    long long now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < ns);
}
// end snippet

// out = 1.5 * in, one thread per element.
// Memory: a warp reads and writes 32 neighbouring floats.
// Launch assumption: at least n threads in all.
__global__ void scale(const float *__restrict__ in, float *__restrict__ out,
                      size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = kFactor * in[i];
    }
}

// --- Jobs -------------------------------------------------------------------

struct Buffers {
    float *d_in = nullptr;
    float *d_out = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
};

// What is launched: n elements scaled, or `ns` nanoseconds spun, or nothing.
struct Job {
    size_t n = 0;
    long long ns = 0;
};

static void launch(const Job &job, const Buffers &b)
{
    if (job.n > 0) {
        const size_t blocks = (job.n + kThreads - 1) / kThreads;
        scale<<<static_cast<unsigned int>(blocks), kThreads, 0, b.stream>>>(
            b.d_in, b.d_out, job.n);
    } else if (job.ns > 0) {
        spin<<<1, 1, 0, b.stream>>>(job.ns);
    } else {
        emptyKernel<<<1, 1, 0, b.stream>>>();
    }
    CUDA_CHECK(cudaGetLastError());
}

// --- Timers, each a sample in milliseconds ----------------------------------

static double msSince(std::chrono::steady_clock::time_point start)
{
    const std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - start;
    return time.count();
}

// snippet: no-wait
static double hostNoWaitMs(const Job &job, const Buffers &b)
{
    const auto start = std::chrono::steady_clock::now();
    launch(job, b);
    const double ms = msSince(start);  // wrong: the kernel may not have begun
    CUDA_CHECK(cudaStreamSynchronize(b.stream));
    return ms;
}
// end snippet

// snippet: wait
static double hostWaitMs(const Job &job, const Buffers &b)
{
    const auto start = std::chrono::steady_clock::now();
    launch(job, b);
    CUDA_CHECK(cudaStreamSynchronize(b.stream));
    return msSince(start);
}
// end snippet

// snippet: events
static double eventsMs(const Job &job, int launches, const Buffers &b)
{
    float ms = 0.0f;
    CUDA_CHECK(cudaEventRecord(b.start, b.stream));
    for (int i = 0; i < launches; ++i) {
        launch(job, b);
    }
    CUDA_CHECK(cudaEventRecord(b.stop, b.stream));
    CUDA_CHECK(cudaEventSynchronize(b.stop));
    CUDA_CHECK(cudaEventElapsedTime(&ms, b.start, b.stop));
    return static_cast<double>(ms) / launches;
}
// end snippet

// snippet: graph
static cudaGraphExec_t graphOf(const Job &job, int launches, const Buffers &b)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(b.stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(job, b);  // written down, not carried out
    }
    CUDA_CHECK(cudaStreamEndCapture(b.stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}
// end snippet

static double replayMs(cudaGraphExec_t exec, const Buffers &b)
{
    float ms = 0.0f;
    CUDA_CHECK(cudaEventRecord(b.start, b.stream));
    CUDA_CHECK(cudaGraphLaunch(exec, b.stream));
    CUDA_CHECK(cudaEventRecord(b.stop, b.stream));
    CUDA_CHECK(cudaEventSynchronize(b.stop));
    CUDA_CHECK(cudaEventElapsedTime(&ms, b.start, b.stop));
    return static_cast<double>(ms);
}

// --- Samples ----------------------------------------------------------------

// The median, least and largest of some times, milliseconds per launch.
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

enum Way { kNoWait, kWait, kOne, kTen, kGraph, kWays };
constexpr const char *kNames[kWays] = {
    "host clock, no wait", "host clock, wait", "events, one launch",
    "events, ten launches", "graph, slope"};

// Samples of one job in one way, after warm-ups in the same way.
static Spread timeJob(Way way, const Job &job, int repeats, int shortGraph,
                      int longGraph, const Buffers &b)
{
    cudaGraphExec_t shorter = nullptr;
    cudaGraphExec_t longer = nullptr;
    if (way == kGraph) {
        shorter = graphOf(job, shortGraph, b);
        longer = graphOf(job, longGraph, b);
    }
    std::vector<double> samples;
    for (int i = -kWarmups; i < repeats; ++i) {
        double ms = 0.0;
        if (way == kNoWait) {
            ms = hostNoWaitMs(job, b);
        } else if (way == kWait) {
            ms = hostWaitMs(job, b);
        } else if (way == kOne) {
            ms = eventsMs(job, 1, b);
        } else if (way == kTen) {
            ms = eventsMs(job, kMany, b);
        } else {
            // snippet: slope
            const double msShort = replayMs(shorter, b);
            const double msLong = replayMs(longer, b);
            ms = (msLong - msShort) / (longGraph - shortGraph);
            // end snippet
        }
        if (i >= 0) {
            samples.push_back(ms);
        }
    }
    if (way == kGraph) {
        CUDA_CHECK(cudaGraphExecDestroy(shorter));
        CUDA_CHECK(cudaGraphExecDestroy(longer));
    }
    return spreadOf(samples);
}

// --- Gates ------------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    const char *name = nullptr;
    double got = 0.0;
    double want = 0.0;
};

// Element i of the input: a step through 0 .. 1020, never 0.
static float inputAt(size_t i)
{
    return 0.003f * (static_cast<float>(i * 23 % kPeriod) + 0.3f);
}

static void clearOutput(size_t n, const Buffers &b)
{
    CUDA_CHECK(cudaMemset(b.d_out, 0xff, n * sizeof(float)));
}

// Compares the output of one launch with the CPU's, bit for bit.
static void judgeScale(const char *name, size_t n, const Buffers &b,
                       Failure *failure)
{
    std::vector<float> h_out(n, NAN);
    CUDA_CHECK(cudaMemcpy(h_out.data(), b.d_out, n * sizeof(float),
                          cudaMemcpyDeviceToHost));
    size_t right = 0;
    for (size_t i = 0; i < n; ++i) {
        right += h_out[i] == kFactor * inputAt(i) ? 1 : 0;
    }
    std::printf("  %-9s  %8zu  %5zu\n", name, n, n - right);
    if (n == 0 || right != n) {
        *failure = {"wrong elements", name, static_cast<double>(n - right),
                    0.0};
    }
}

// Times spins of known length in every way. All but one have to be right.
static int judgeTimers(const Buffers &b, Failure *failure)
{
    int passed = 0;
    std::printf("\njudge: a kernel that spins for a known time, every way\n");
    std::printf("  %-20s  %10s  %9s  %10s  %10s\n", "way", "short (ms)",
                "long (ms)", "apart (ms)", "share (%)");
    for (int i = 0; i < kWays && failure->what == nullptr; ++i) {
        const Way way = static_cast<Way>(i);
        const Spread shorter =
            timeJob(way, {0, kShortSpin}, kJudged, 1, 3, b);
        const Spread longer = timeJob(way, {0, kLongSpin}, kJudged, 1, 3, b);
        const double want = 1e-6 * (kLongSpin - kShortSpin);
        const double apart = longer.median - shorter.median;
        const bool right = std::fabs(apart - want) <= kTimerTolerance * want;
        std::printf("  %-20s  %10.4f  %9.4f  %10.4f  %10.2f\n", kNames[way],
                    shorter.median, longer.median, apart,
                    100.0 * apart / want);
        // Written so that a time that is not a number fails as well.
        if (right == (way == kNoWait)) {
            *failure = {way == kNoWait ? "the judge believes a wrong timer"
                                       : "a timer is wrong",
                        kNames[way], apart, want};
        } else {
            ++passed;
        }
    }
    return passed;
}

// --- What is measured -------------------------------------------------------

// The very first launches of a kernel, one by one. There is no second first
// one, so this comes before the judging, and its result is judged afterwards.
static void timeFirst(const Buffers &b)
{
    std::printf("\nfirst: launches of a kernel that never ran before\n");
    std::printf("  %-11s  %9s  %11s\n", "launch", "host (us)",
                "events (us)");
    for (int i = 1; i <= 10; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const double ms = eventsMs({kShort, 0}, 1, b);
        const double host = msSince(start);
        if (i <= 3 || i == 10) {
            std::printf("  launch %-4d  %9.2f  %11.2f\n", i, host * kMicro,
                        ms * kMicro);
        }
    }
}

static void timeWays(const char *title, const Job &job, int shortGraph,
                     int longGraph, const Buffers &b)
{
    std::printf("\n%s\n", title);
    std::printf("  %-20s  %9s  %9s  %9s  %10s\n", "way", "time (us)",
                "min (us)", "max (us)", "spread (%)");
    for (int i = 0; i < kWays; ++i) {
        const Way way = static_cast<Way>(i);
        const Spread spread =
            timeJob(way, job, kRepeats, shortGraph, longGraph, b);
        std::printf("  %-20s  %9.3f  %9.3f  %9.3f  %10.1f\n", kNames[way],
                    spread.median * kMicro, spread.least * kMicro,
                    spread.most * kMicro,
                    100.0 * (spread.most - spread.least) / spread.median);
    }
}

// Many pairs of events around an empty kernel, and the finest step by which
// their times differ.
static void timeEmpty(const Buffers &b)
{
    std::vector<double> samples;
    for (int i = 0; i < kPairs; ++i) {
        samples.push_back(eventsMs({0, 0}, 1, b));
    }
    std::sort(samples.begin(), samples.end());
    double step = HUGE_VAL;
    size_t distinct = 1;
    for (size_t i = 1; i < samples.size(); ++i) {
        // Times are multiples of the step, but for the rounding of a float.
        if (samples[i] - samples[i - 1] > 1e-6) {
            step = std::min(step, samples[i] - samples[i - 1]);
            ++distinct;
        }
    }
    const Spread spread = spreadOf(samples);
    std::printf("\nclock: pairs of events around an empty kernel\n");
    std::printf("  pairs             %d\n", kPairs);
    std::printf("  median            %.3f us\n", spread.median * kMicro);
    std::printf("  min               %.3f us\n", spread.least * kMicro);
    std::printf("  max               %.3f us\n", spread.most * kMicro);
    std::printf("  distinct times    %zu\n", distinct);
    std::printf("  finest step       %.4f us\n", step * kMicro);
}

static void timeSweep(const Buffers &b)
{
    std::printf("\nsweep: two events around one launch, and the slope\n");
    std::printf("  %-12s  %11s  %9s  %10s\n", "size", "bytes (B)",
                "pair (us)", "slope (us)");
    for (unsigned int k = 10; k <= 24; k += 2) {
        const Job job = {(size_t{1} << k) + 3, 0};
        const bool large = k > 21;
        const Spread pair = timeJob(kOne, job, kRepeats, 0, 0, b);
        const Spread slope =
            timeJob(kGraph, job, kRepeats / 2, large ? 4 : kShortGraph,
                    large ? kLongest : kLongGraph, b);
        std::printf("  n = %-8zu  %11zu  %9.3f  %10.3f\n", job.n,
                    2 * sizeof(float) * job.n, pair.median * kMicro,
                    slope.median * kMicro);
    }
}

// --- Kernel statistics ------------------------------------------------------

static void printKernel(const char *name, const void *kernel,
                        unsigned int threads, const cudaDeviceProp &device)
{
    cudaFuncAttributes attributes = {};
    int blocks = 0;
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, kernel, static_cast<int>(threads), 0));
    const double occupancy = 100.0 * blocks * threads /
                             device.maxThreadsPerMultiProcessor;
    std::printf("  %-15s  %9d  %9zu  %10zu  %9d  %13.1f\n", name,
                attributes.numRegs, attributes.localSizeBytes,
                attributes.sharedSizeBytes, blocks, occupancy);
}

static void printKernels(const cudaDeviceProp &device)
{
    std::printf("\nkernels: as compiled, local memory per thread\n");
    std::printf("  %-15s  %9s  %9s  %10s  %9s  %13s\n", "kernel",
                "registers", "local (B)", "shared (B)", "blocks/SM",
                "occupancy (%)");
    printKernel("emptyKernel", reinterpret_cast<const void *>(emptyKernel),
                kThreads, device);
    printKernel("spin", reinterpret_cast<const void *>(spin), kThreads,
                device);
    printKernel("scale", reinterpret_cast<const void *>(scale), kThreads,
                device);
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: events [--quick]\n"
                             "  --quick  everything judged, nothing but the "
                             "judge timed\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    const size_t longest = quick ? kQuickLong : kLong;
    Buffers b;
    std::vector<float> h_in(longest);
    for (size_t i = 0; i < longest; ++i) {
        h_in[i] = inputAt(i);
    }
    CUDA_CHECK(cudaStreamCreate(&b.stream));
    CUDA_CHECK(cudaEventCreate(&b.start));
    CUDA_CHECK(cudaEventCreate(&b.stop));
    CUDA_CHECK(cudaMalloc(&b.d_in, longest * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_out, longest * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(b.d_in, h_in.data(), longest * sizeof(float),
                          cudaMemcpyHostToDevice));
    clearOutput(longest, b);
    CUDA_CHECK(cudaDeviceSynchronize());

    timeFirst(b);  // before anything else knows the kernel
    printKernels(device);

    Failure failure;
    int passed = 0;
    std::printf("\ngate: bit for bit, no tolerance\n");
    std::printf("  %-9s  %8s  %5s\n", "launch", "elements", "wrong");
    judgeScale("first ten", kShort, b, &failure);
    if (failure.what == nullptr) {
        clearOutput(longest, b);
        launch({longest, 0}, b);
        CUDA_CHECK(cudaStreamSynchronize(b.stream));
        judgeScale("long", longest, b, &failure);
        passed += 2;
    }
    if (failure.what == nullptr) {
        passed += judgeTimers(b, &failure);
    }
    if (failure.what == nullptr && !quick) {
        std::printf("\nbytes: counted, read and written\n");
        std::printf("  short kernel      %zu B\n", 2 * sizeof(float) * kShort);
        std::printf("  long kernel       %zu B\n", 2 * sizeof(float) * kLong);
        std::printf("  L2 cache          %d B\n", device.l2CacheSize);
        timeWays("ways empty: a kernel that does nothing", {0, 0}, kShortGraph,
                 kLongGraph, b);
        timeWays("ways short: the scaling of an array in the L2", {kShort, 0},
                 kShortGraph, kLongGraph, b);
        timeWays("ways long: the scaling of an array far larger",
                 {kLong, 0}, 4, kLongest, b);
        timeEmpty(b);
        timeSweep(b);
    }

    CUDA_CHECK(cudaFree(b.d_in));
    CUDA_CHECK(cudaFree(b.d_out));
    CUDA_CHECK(cudaEventDestroy(b.start));
    CUDA_CHECK(cudaEventDestroy(b.stop));
    CUDA_CHECK(cudaStreamDestroy(b.stream));
    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s (%s): %g, not %g\n", failure.what,
                     failure.name, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

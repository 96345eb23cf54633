// SPDX-License-Identifier: MIT
//
// Day 20: templates, unrolling, dispatch. A filter with D taps: every output is
// a weighted sum of the last D samples. Each thread filters a channel of its
// own and keeps D partial sums, one for each output that is still to come.
//
// D is a number that the caller has, and an array that is to be in registers
// needs one that the compiler has (day 18). Five ways to bring them together:
//
//   template   one kernel for each D; the array has D elements
//   trusting   the same without `#pragma unroll`
//   runtime    one kernel; an array for 64 taps, a loop up to D
//   by four    the same, and `#pragma unroll 4`
//   masked     one kernel; a loop up to 64, and taps from D on do not count
//
// A switch takes the caller's D to its template, or says that there is none.
//
// Predictions, written before the run: template and trusting are in registers
// up to D = 128, with D and about 16 more; at 256 something is left over, since
// a thread has 255. Runtime and by four have a stack frame of 256 bytes for
// every D, and take 20 times as long as the template. Masked takes as long for
// every D as the template takes for 64.
//
// Samples have 4 bits behind the point and weights 10; every sum is exact, in
// any order. Each thread mixes the bits of all outputs into one number, which
// is compared with the CPU's. There is no tolerance.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o filter filter.cu
// Run: ./filter

#include <algorithm>
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
constexpr unsigned int kBlocksPerSm = 4;
constexpr unsigned int kQuickBlocks = 1;
constexpr unsigned int kMostTaps = 64;  // of the kernels that take any number
constexpr unsigned int kSteps = 1024;     // so that 8 taps take over 50 us
constexpr unsigned int kQuickSteps = 272;  // every tap has its sample

// Weights 1, 1 - 1/1024, 1 - 2/1024 ...; 255 of these steps are the most.
constexpr float kFirstTap = 1.0f;
constexpr float kTapStep = 1.0f / 1024.0f;

// Channels differ from their neighbours, and warps from the next.
constexpr unsigned int kPeriod = 97;
constexpr unsigned int kMultiplier = 1664525u;
constexpr unsigned int kIncrement = 1013904223u;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 7;       // odd: the median is one of the samples
constexpr int kWarmupRounds = 1;  // of all cases, before the first sample
constexpr double kGiga = 1e9;

static_assert(kQuickSteps > 256, "every tap of the longest filter counts");

// --- Small helpers ----------------------------------------------------------

// A sample from the upper four bits: 1, 1 + 1/16, ... 1 + 15/16.
__host__ __device__ inline float sampleOf(unsigned int random)
{
    return 1.0f + static_cast<float>(random >> 28) * 0.0625f;
}

__host__ __device__ inline unsigned int mixed(unsigned int sum,
                                              unsigned int bits)
{
    return sum * kMultiplier + bits;
}

// --- Kernels ----------------------------------------------------------------

// kTaps partial sums: later[d] is what the output after d more steps has so
// far. A sample adds to all of them, and they move up by one.
// Memory: one number per thread at the end, and the array, if it is in memory.
// Launch assumption: 256 threads, any grid; taps is not looked at.
template <unsigned int kTaps>
__global__ void filter(unsigned int *__restrict__ out, unsigned int steps,
                       unsigned int /* taps */)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    unsigned int random = thread % kPeriod;
    unsigned int sum = 0;
    // snippet: template
    float later[kTaps] = {};
    for (unsigned int step = 0; step < steps; ++step) {
        random = random * kMultiplier + kIncrement;
        const float sample = sampleOf(random);
        const float output = fmaf(kFirstTap, sample, later[0]);
#pragma unroll
        for (unsigned int d = 1; d < kTaps; ++d) {
            const float tap = kFirstTap - static_cast<float>(d) * kTapStep;
            later[d - 1] = fmaf(tap, sample, later[d]);
        }
        sum = mixed(sum, __float_as_uint(output));
    }
    // end snippet
    out[thread] = sum;
}

// The same without the pragma: the compiler decides.
// Memory, launch assumption: as filter.
template <unsigned int kTaps>
__global__ void trusting(unsigned int *__restrict__ out, unsigned int steps,
                         unsigned int /* taps */)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    unsigned int random = thread % kPeriod;
    unsigned int sum = 0;
    float later[kTaps] = {};
    for (unsigned int step = 0; step < steps; ++step) {
        random = random * kMultiplier + kIncrement;
        const float sample = sampleOf(random);
        const float output = fmaf(kFirstTap, sample, later[0]);
        for (unsigned int d = 1; d < kTaps; ++d) {
            const float tap = kFirstTap - static_cast<float>(d) * kTapStep;
            later[d - 1] = fmaf(tap, sample, later[d]);
        }
        sum = mixed(sum, __float_as_uint(output));
    }
    out[thread] = sum;
}

// The same with a D that only the caller has. kUnroll 64 asks for all of it;
// the compiler writes out as many steps as it is told, between tests.
// Memory: element d of 32 lanes lies side by side: 128 bytes for a warp.
// Launch assumption: as filter; taps at most 64.
template <unsigned int kUnroll>
__global__ void runtime(unsigned int *__restrict__ out, unsigned int steps,
                        unsigned int taps)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    unsigned int random = thread % kPeriod;
    unsigned int sum = 0;
    // snippet: runtime
    float later[kMostTaps] = {};
    for (unsigned int step = 0; step < steps; ++step) {
        random = random * kMultiplier + kIncrement;
        const float sample = sampleOf(random);
        const float output = fmaf(kFirstTap, sample, later[0]);
        float tap = kFirstTap;
#pragma unroll kUnroll
        for (unsigned int d = 1; d < taps; ++d) {
            tap -= kTapStep;
            later[d - 1] = fmaf(tap, sample, later[d]);
        }
        sum = mixed(sum, __float_as_uint(output));
    }
    // end snippet
    out[thread] = sum;
}

// The same with a loop whose end the compiler has, and a question in it.
// Memory: one number per thread at the end.
// Launch assumption: as runtime.
__global__ void masked(unsigned int *__restrict__ out, unsigned int steps,
                       unsigned int taps)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    unsigned int random = thread % kPeriod;
    unsigned int sum = 0;
    float later[kMostTaps] = {};
    for (unsigned int step = 0; step < steps; ++step) {
        random = random * kMultiplier + kIncrement;
        const float sample = sampleOf(random);
        const float output = fmaf(kFirstTap, sample, later[0]);
        // snippet: masked
#pragma unroll
        for (unsigned int d = 1; d < kMostTaps; ++d) {
            const float tap = kFirstTap - static_cast<float>(d) * kTapStep;
            later[d - 1] = d < taps ? fmaf(tap, sample, later[d]) : 0.0f;
        }
        // end snippet
        sum = mixed(sum, __float_as_uint(output));
    }
    out[thread] = sum;
}

// --- Dispatch ---------------------------------------------------------------

using Kernel = void (*)(unsigned int *, unsigned int, unsigned int);

// The template for a number of taps, or null if there is none. The list is
// what has been compiled; what is not in it cannot be launched by mistake.
// snippet: dispatch
static Kernel filterFor(unsigned int taps)
{
    switch (taps) {
    case 8:   return filter<8>;
    case 16:  return filter<16>;
    case 24:  return filter<24>;
    case 32:  return filter<32>;
    case 64:  return filter<64>;
    case 128: return filter<128>;
    case 256: return filter<256>;
    default:  return nullptr;
    }
}
// end snippet

static Kernel trustingFor(unsigned int taps)
{
    switch (taps) {
    case 8:   return trusting<8>;
    case 16:  return trusting<16>;
    case 24:  return trusting<24>;
    case 32:  return trusting<32>;
    case 64:  return trusting<64>;
    case 128: return trusting<128>;
    case 256: return trusting<256>;
    default:  return nullptr;
    }
}

static Kernel runtimeFor(unsigned int taps)
{
    return taps <= kMostTaps ? runtime<kMostTaps> : nullptr;
}

static Kernel byFourFor(unsigned int taps)
{
    return taps <= kMostTaps ? runtime<4> : nullptr;
}

static Kernel maskedFor(unsigned int taps)
{
    return taps <= kMostTaps ? masked : nullptr;
}

struct Form {
    const char *name;
    Kernel (*kernelFor)(unsigned int);
};

constexpr Form kForms[] = {{"template", filterFor},
                           {"trusting", trustingFor},
                           {"runtime", runtimeFor},
                           {"by four", byFourFor},
                           {"masked", maskedFor}};
constexpr unsigned int kTapCounts[] = {8, 16, 24, 32, 64, 128, 256};
constexpr unsigned int kRefused[] = {0, 7, 25, 65, 512};  // no template

struct Case {
    const Form *form;
    unsigned int taps;
    Kernel kernel;
};

static std::vector<Case> allCases()
{
    std::vector<Case> cases;
    for (const Form &form : kForms) {
        for (const unsigned int taps : kTapCounts) {
            const Kernel kernel = form.kernelFor(taps);
            if (kernel != nullptr) {
                cases.push_back({&form, taps, kernel});
            }
        }
    }
    return cases;
}

// --- CPU reference ----------------------------------------------------------

// What channel c has to leave, for c < 97: each output from the last samples.
static unsigned int referenceOf(unsigned int c, unsigned int steps,
                                unsigned int taps)
{
    std::vector<float> samples;
    unsigned int random = c;
    unsigned int sum = 0;
    for (unsigned int step = 0; step < steps; ++step) {
        random = random * kMultiplier + kIncrement;
        samples.push_back(sampleOf(random));
        double output = 0.0;
        for (unsigned int d = 0; d < taps && d <= step; ++d) {
            output += (1.0 - d / 1024.0) * samples[step - d];
        }
        const float rounded = static_cast<float>(output);  // exact
        unsigned int bits = 0;
        std::memcpy(&bits, &rounded, sizeof(bits));
        sum = mixed(sum, bits);
    }
    return sum;
}

// --- Gates ------------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *form = nullptr;
    unsigned int taps = 0;
    size_t index = 0;
    unsigned int got = 0;
    unsigned int want = 0;
};

static void launch(const Case &which, unsigned int blocks, unsigned int steps,
                   unsigned int *d_out)
{
    which.kernel<<<blocks, kThreads>>>(d_out, steps, which.taps);
    CUDA_CHECK(cudaGetLastError());
}

// Every thread's number. Returns how many were compared.
static size_t judge(const Case &which, unsigned int blocks, unsigned int steps,
                    unsigned int *d_out, Failure *failure)
{
    std::vector<unsigned int> want;
    for (unsigned int c = 0; c < kPeriod; ++c) {
        want.push_back(referenceOf(c, steps, which.taps));
    }
    std::vector<unsigned int> got(static_cast<size_t>(blocks) * kThreads);
    const size_t bytes = got.size() * sizeof(unsigned int);
    CUDA_CHECK(cudaMemset(d_out, 0xff, bytes));
    launch(which, blocks, steps, d_out);
    CUDA_CHECK(cudaMemcpy(got.data(), d_out, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < got.size() && failure->form == nullptr; ++i) {
        if (got[i] != want[i % kPeriod]) {
            *failure = {which.form->name, which.taps, i, got[i],
                        want[i % kPeriod]};
        }
    }
    return got.size();
}

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats times, milliseconds per launch.
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

// The cases take turns, forwards and backwards, so that a drifting clock meets
// all of them.
static std::vector<Spread> timeAll(const std::vector<Case> &cases,
                                   unsigned int blocks, unsigned int *d_out)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    std::vector<std::vector<double>> samples(cases.size());
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (size_t turn = 0; turn < cases.size(); ++turn) {
            const size_t p = round % 2 == 0 ? turn : cases.size() - 1 - turn;
            float ms = 0.0f;
            CUDA_CHECK(cudaEventRecord(start));
            launch(cases[p], blocks, kSteps, d_out);
            CUDA_CHECK(cudaEventRecord(stop));
            CUDA_CHECK(cudaEventSynchronize(stop));
            CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
            if (round >= 0) {
                samples[p].push_back(static_cast<double>(ms));
            }
        }
    }
    std::vector<Spread> spreads;
    for (const std::vector<double> &of : samples) {
        spreads.push_back(spreadOf(of));
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    return spreads;
}

// --- Kernel statistics and tables -------------------------------------------

static void printKernels(const std::vector<Case> &cases,
                         const cudaDeviceProp &device)
{
    for (const Form &form : kForms) {
        std::printf("\nkernels, %s: as compiled\n", form.name);
        std::printf("  %-8s  %9s  %9s  %9s  %13s\n", "taps", "registers",
                    "local (B)", "blocks/SM", "occupancy (%)");
        for (const Case &which : cases) {
            if (which.form != &form) {
                continue;
            }
            cudaFuncAttributes attributes = {};
            int blocks = 0;
            const void *kernel = reinterpret_cast<const void *>(which.kernel);
            CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
            CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                &blocks, kernel, static_cast<int>(kThreads), 0));
            std::printf("  D = %-4u  %9d  %9zu  %9d  %13.1f\n", which.taps,
                        attributes.numRegs, attributes.localSizeBytes, blocks,
                        100.0 * blocks * kThreads /
                            device.maxThreadsPerMultiProcessor);
        }
    }
}

static void printTimes(const std::vector<Case> &cases, unsigned int blocks,
                       const std::vector<Spread> &spreads)
{
    for (const Form &form : kForms) {
        std::printf("\n%s: the forms in turns\n", form.name);
        std::printf("  %-8s  %9s  %9s  %9s  %13s\n", "taps", "time (ms)",
                    "min (ms)", "max (ms)", "rate (GFMA/s)");
        for (size_t p = 0; p < cases.size(); ++p) {
            if (cases[p].form == &form) {
                const double count = static_cast<double>(blocks) * kThreads *
                                     kSteps * cases[p].taps;
                std::printf("  D = %-4u  %9.4f  %9.4f  %9.4f  %13.1f\n",
                            cases[p].taps, spreads[p].median,
                            spreads[p].least, spreads[p].most,
                            count / (spreads[p].median * 1e-3) / kGiga);
            }
        }
    }
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: filter [--quick]\n"
                             "  --quick  one block, few steps, not timed\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    const std::vector<Case> cases = allCases();
    const unsigned int steps = quick ? kQuickSteps : kSteps;
    const unsigned int blocks =
        quick ? kQuickBlocks
              : kBlocksPerSm *
                    static_cast<unsigned int>(device.multiProcessorCount);
    std::printf("\nwork: of every form\n");
    std::printf("  channels   %u\n", blocks * kThreads);
    std::printf("  samples    %u   (of each)\n", steps);
    printKernels(cases, device);

    Failure failure;
    unsigned int *d_out = nullptr;
    size_t compared = 0;
    size_t refused = 0;
    int passed = 0;
    CUDA_CHECK(cudaMalloc(&d_out, static_cast<size_t>(blocks) * kThreads *
                                      sizeof(unsigned int)));
    for (const Case &which : cases) {
        if (failure.form == nullptr) {
            compared += judge(which, blocks, steps, d_out, &failure);
            passed += failure.form == nullptr ? 1 : 0;
        }
    }
    for (const unsigned int taps : kRefused) {
        refused += filterFor(taps) == nullptr ? 1 : 0;
    }
    const size_t toRefuse = sizeof(kRefused) / sizeof(kRefused[0]);
    if (refused != toRefuse && failure.form == nullptr) {
        failure = {"refused", 0, 0, static_cast<unsigned int>(refused),
                   static_cast<unsigned int>(toRefuse)};
    }
    std::printf("\ngate: every thread's number, no tolerance\n");
    std::printf("  compared   %zu\n", compared);
    std::printf("  refused    %zu   (numbers of taps without a template)\n",
                refused);
    if (failure.form == nullptr && !quick) {
        const std::vector<Spread> spreads = timeAll(cases, blocks, d_out);
        std::printf("\ntiming: no data but the arrays, which may lie in a "
                    "cache\n");
        std::printf("  repeats    %d   (time is the median of these)\n",
                    kRepeats);
        std::printf("  launches   1   (in each)\n");
        printTimes(cases, blocks, spreads);
    }
    CUDA_CHECK(cudaFree(d_out));

    if (failure.form != nullptr) {
        std::fprintf(stderr, "%s fails at D = %u, thread %zu: %u, not %u\n",
                     failure.form, failure.taps, failure.index, failure.got,
                     failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

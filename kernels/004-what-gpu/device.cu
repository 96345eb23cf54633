// SPDX-License-Identifier: MIT
//
// Day 4: what GPU is this. A program that is to run well on a GPU that its
// author has never seen asks the device for its numbers. This one asks for
// some twenty of them and then tries those that can be tried.
//
// The numbers come one at a time from cudaDeviceGetAttribute, and a second
// time, all at once, from cudaGetDeviceProperties. The two have to agree
// wherever both have the number. CUDA 13 removed the clock rates from the
// second, so there is nothing to compare them with.
//
// Then the device is asked to prove it. A launch at a limit has to work: the
// largest block, all of a block's shared memory, to the last byte. And a roll
// call: blocks that wait until all of them are there show how many threads the
// GPU really holds at once, and on how many multiprocessors.
//
// There is no tolerance: everything here is a count. The rate at the end is
// arithmetic on two answers, called "paper" for that reason; day 30 measures.
//
// Predictions, written before the run: every answer holds; one block more than
// fits has to wait for another to leave; asking for all properties takes the
// host a thousand times as long as asking for one attribute.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o device device.cu
// Run: ./device

#include <algorithm>
#include <chrono>
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

// Divides what every multiprocessor holds, 1024, 1536 or 2048 threads.
constexpr unsigned int kThreads = 512;

// A block waits this long for the others, in cycles of its multiprocessor: some
// milliseconds, while the blocks of one grid start within microseconds.
constexpr long long kPatience = 10000000;

static_assert(kThreads <= 1024, "no GPU takes a larger block");

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 11;  // odd: the median is one of the samples
constexpr int kCalls = 20;    // of each kind between two looks at the clock

// --- Questions --------------------------------------------------------------

constexpr int kGone = -1;  // cudaDeviceProp has no such field

struct Question {
    const char *label;
    cudaDeviceAttr attribute;
    int field;  // the same number in cudaDeviceProp
};

static std::vector<Question> questions(const cudaDeviceProp &p)
{
    return {
        {"compute capability, major", cudaDevAttrComputeCapabilityMajor,
         p.major},
        {"compute capability, minor", cudaDevAttrComputeCapabilityMinor,
         p.minor},
        {"multiprocessors", cudaDevAttrMultiProcessorCount,
         p.multiProcessorCount},
        {"threads in a warp", cudaDevAttrWarpSize, p.warpSize},
        {"threads in a block", cudaDevAttrMaxThreadsPerBlock,
         p.maxThreadsPerBlock},
        {"threads of a multiprocessor",
         cudaDevAttrMaxThreadsPerMultiProcessor,
         p.maxThreadsPerMultiProcessor},
        {"blocks of a multiprocessor", cudaDevAttrMaxBlocksPerMultiprocessor,
         p.maxBlocksPerMultiProcessor},
        {"blocks in x", cudaDevAttrMaxGridDimX, p.maxGridSize[0]},
        {"blocks in y", cudaDevAttrMaxGridDimY, p.maxGridSize[1]},
        {"registers of a block", cudaDevAttrMaxRegistersPerBlock,
         p.regsPerBlock},
        {"registers of a multiprocessor",
         cudaDevAttrMaxRegistersPerMultiprocessor, p.regsPerMultiprocessor},
        {"shared B of a block", cudaDevAttrMaxSharedMemoryPerBlock,
         static_cast<int>(p.sharedMemPerBlock)},
        {"shared B of a block that asks",
         cudaDevAttrMaxSharedMemoryPerBlockOptin,
         static_cast<int>(p.sharedMemPerBlockOptin)},
        {"shared B of a multiprocessor",
         cudaDevAttrMaxSharedMemoryPerMultiprocessor,
         static_cast<int>(p.sharedMemPerMultiprocessor)},
        {"L2 cache B", cudaDevAttrL2CacheSize, p.l2CacheSize},
        {"copy engines", cudaDevAttrAsyncEngineCount, p.asyncEngineCount},
        {"memory bus bits", cudaDevAttrGlobalMemoryBusWidth,
         p.memoryBusWidth},
        {"memory clock kHz", cudaDevAttrMemoryClockRate, kGone},
        {"core clock kHz", cudaDevAttrClockRate, kGone},
    };
}

// --- Small helpers ----------------------------------------------------------

// snippet: ask
static int ask(cudaDeviceAttr attribute)
{
    int answer = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&answer, attribute, 0));
    return answer;
}
// end snippet

// --- Kernels ----------------------------------------------------------------

// Blocks that wait for each other. Each adds itself to `present`, waits until
// all are there or its patience is over, and notes how many it saw and on which
// multiprocessor it was.
// Memory: one counter that all blocks share, two numbers per block.
// Launch assumption: any block, any grid; `present` is 0 before.
// snippet: roll-call
__global__ void rollCall(unsigned int *present, unsigned int *seen,
                         unsigned int *place, long long patience)
{
    if (threadIdx.x == 0) {
        atomicAdd(present, 1);
        const long long start = clock64();
        unsigned int here = 0;
        do {
            here = *static_cast<volatile unsigned int *>(present);
        } while (here < gridDim.x && clock64() - start < patience);
        seen[blockIdx.x] = here;

        unsigned int multiprocessor = 0;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
        place[blockIdx.x] = multiprocessor;
    }
    __syncthreads();  // nobody leaves before thread 0 has seen enough
}
// end snippet

// How many threads a block has, how many threads a warp, and how many bytes of
// its shared memory keep what is put into them.
// Memory: `bytes` bytes of shared memory; a thread reads what it wrote.
// Launch assumption: one block with `bytes` of dynamic shared memory; arrived
// is 0 before.
__global__ void touch(unsigned int *arrived, unsigned int bytes)
{
    extern __shared__ volatile unsigned char tile[];
    atomicAdd(&arrived[0], 1);
    if (threadIdx.x == 0) {
        arrived[1] = static_cast<unsigned int>(warpSize);
    }
    for (unsigned int i = threadIdx.x; i < bytes; i += blockDim.x) {
        tile[i] = static_cast<unsigned char>(1 + i % 251);
    }
    for (unsigned int i = threadIdx.x; i < bytes; i += blockDim.x) {
        if (tile[i] == 1 + i % 251) {
            atomicAdd(&arrived[2], 1);
        }
    }
}

// --- Gate -------------------------------------------------------------------

// What went wrong first; reported after everything has been printed.
struct Failure {
    const char *what = nullptr;
    const char *label = nullptr;
    size_t got = 0;
    size_t want = 0;
};

static void demand(const char *what, const char *label, size_t got,
                   size_t want, Failure *failure)
{
    if (got != want && failure->what == nullptr) {
        *failure = {what, label, got, want};
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
    printKernel("rollCall", reinterpret_cast<const void *>(rollCall),
                kThreads, device);
    printKernel("touch", reinterpret_cast<const void *>(touch), kThreads,
                device);
}

// --- What the device says ---------------------------------------------------

// Prints both answers to every question; they must be the same.
static void printAttributes(const cudaDeviceProp &device, Failure *failure)
{
    size_t compared = 0;
    size_t differ = 0;
    size_t gone = 0;
    std::printf("\nattributes: what the device says of itself, asked twice\n");
    std::printf("  %-29s  %10s  %10s\n", "attribute", "answer", "field");
    for (const Question &question : questions(device)) {
        const int answer = ask(question.attribute);
        if (question.field == kGone) {
            ++gone;
            std::printf("  %-29s  %10d  %10s\n", question.label, answer,
                        "removed");
            continue;
        }
        ++compared;
        differ += answer == question.field ? 0 : 1;
        std::printf("  %-29s  %10d  %10d\n", question.label, answer,
                    question.field);
        demand("attribute and field differ", question.label,
               static_cast<size_t>(answer),
               static_cast<size_t>(question.field), failure);
    }
    std::printf("\n  compared         %zu\n", compared);
    std::printf("  differ           %zu\n", differ);
    std::printf("  fields removed   %zu\n", gone);
    demand("no answer was compared", "attributes", compared == 0 ? 1 : 0, 0,
           failure);
}

static void printMemory(const cudaDeviceProp &device, Failure *failure)
{
    size_t freeBytes = 0;
    size_t totalBytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&freeBytes, &totalBytes));
    std::printf("\nmemory: of the device\n");
    std::printf("  total           %zu B\n", totalBytes);
    std::printf("  free            %zu B   (for this process, now)\n",
                freeBytes);
    demand("total memory", "cudaMemGetInfo", totalBytes,
           device.totalGlobalMem, failure);
    demand("more memory is free than there is", "cudaMemGetInfo",
           freeBytes > totalBytes ? 1 : 0, 0, failure);
}

// The best that two answers allow. A memory of this kind moves data twice in a
// cycle of its clock.
static void printPaper()
{
    // snippet: paper
    const double cycles = 1e3 * ask(cudaDevAttrMemoryClockRate);
    const double bytes = ask(cudaDevAttrGlobalMemoryBusWidth) / 8.0;
    const double rate = 2.0 * cycles * bytes;  // B/s
    // end snippet
    std::printf("\npaper: arithmetic, not a measurement\n");
    std::printf("  memory rate     %.1f GB/s   (2 * clock * bus width / 8)\n",
                rate / 1e9);
}

// --- What can be tried ------------------------------------------------------

// Launches one block at a limit and counts what arrived of it.
static void tryBlock(const char *label, unsigned int threads,
                     unsigned int bytes, size_t which, size_t limit,
                     Failure *failure)
{
    unsigned int h_arrived[3] = {};
    unsigned int *d_arrived = nullptr;
    CUDA_CHECK(cudaMalloc(&d_arrived, sizeof(h_arrived)));
    CUDA_CHECK(cudaMemset(d_arrived, 0, sizeof(h_arrived)));
    if (bytes > static_cast<unsigned int>(
                    ask(cudaDevAttrMaxSharedMemoryPerBlock))) {
        // snippet: opt-in
        CUDA_CHECK(cudaFuncSetAttribute(
            touch, cudaFuncAttributeMaxDynamicSharedMemorySize,
            static_cast<int>(bytes)));
        // end snippet
    }
    touch<<<1, threads, bytes>>>(d_arrived, bytes);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_arrived, d_arrived, sizeof(h_arrived),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_arrived));
    std::printf("  %-29s  %10zu  %10u\n", label, limit, h_arrived[which]);
    demand("a launch at the limit", label, h_arrived[which], limit, failure);
}

static int tryLimits(Failure *failure)
{
    const unsigned int most =
        static_cast<unsigned int>(ask(cudaDevAttrMaxThreadsPerBlock));
    const unsigned int shared =
        static_cast<unsigned int>(ask(cudaDevAttrMaxSharedMemoryPerBlock));
    const unsigned int optIn = static_cast<unsigned int>(
        ask(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    const size_t warp = static_cast<size_t>(ask(cudaDevAttrWarpSize));
    std::printf("\nlimits: a launch at each, and what arrived\n");
    std::printf("  %-29s  %10s  %10s\n", "limit", "asked for", "arrived");
    tryBlock("threads in a block", most, 0, 0, most, failure);
    tryBlock("threads in a warp", kThreads, 0, 1, warp, failure);
    tryBlock("shared B of a block", kThreads, shared, 2, shared, failure);
    tryBlock("shared B of a block that asks", kThreads, optIn, 2, optIn,
             failure);
    return 4;
}

struct Roll {
    size_t atOnce = 0;           // blocks that every block saw
    size_t multiprocessors = 0;  // that at least one block was on
};

static Roll callRoll(unsigned int blocks)
{
    std::vector<unsigned int> h_seen(blocks);
    std::vector<unsigned int> h_place(blocks);
    const size_t bytes = blocks * sizeof(unsigned int);
    unsigned int *d_present = nullptr;
    unsigned int *d_seen = nullptr;
    unsigned int *d_place = nullptr;
    CUDA_CHECK(cudaMalloc(&d_present, sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&d_seen, bytes));
    CUDA_CHECK(cudaMalloc(&d_place, bytes));
    CUDA_CHECK(cudaMemset(d_present, 0, sizeof(unsigned int)));
    CUDA_CHECK(cudaMemset(d_seen, 0, bytes));
    CUDA_CHECK(cudaMemset(d_place, 0xff, bytes));
    rollCall<<<blocks, kThreads>>>(d_present, d_seen, d_place, kPatience);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_seen.data(), d_seen, bytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(h_place.data(), d_place, bytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_present));
    CUDA_CHECK(cudaFree(d_seen));
    CUDA_CHECK(cudaFree(d_place));

    Roll roll;
    roll.atOnce = *std::min_element(h_seen.begin(), h_seen.end());
    std::sort(h_place.begin(), h_place.end());
    roll.multiprocessors = static_cast<size_t>(
        std::unique(h_place.begin(), h_place.end()) - h_place.begin());
    return roll;
}

static void printRoll(const char *label, unsigned int blocks, size_t expected,
                      size_t multiprocessors, Failure *failure)
{
    const Roll roll = callRoll(blocks);
    std::printf("  %-21s  %6u  %7zu  %7zu  %15zu\n", label, blocks,
                roll.atOnce, roll.atOnce * kThreads, roll.multiprocessors);
    demand("blocks at once", label, roll.atOnce, expected, failure);
    demand("multiprocessors in use", label, roll.multiprocessors,
           multiprocessors, failure);
}

static int tryRolls(bool quick, Failure *failure)
{
    const unsigned int sms =
        static_cast<unsigned int>(ask(cudaDevAttrMultiProcessorCount));
    const unsigned int each =
        static_cast<unsigned int>(
            ask(cudaDevAttrMaxThreadsPerMultiProcessor)) /
        kThreads;
    std::printf("\nroll call: blocks of %u threads that wait for all of "
                "them\n",
                kThreads);
    std::printf("  %-21s  %6s  %7s  %7s  %15s\n", "grid", "blocks", "at once",
                "threads", "multiprocessors");
    printRoll("one a multiprocessor", sms, sms, sms, failure);
    if (quick) {
        return 1;  // instrumented code needs more registers: fewer would fit
    }
    printRoll("as many as fit", sms * each, sms * each, sms, failure);
    printRoll("one more", sms * each + 1, sms * each, sms, failure);
    return 3;
}

// --- What asking costs ------------------------------------------------------

// Host time of one call, in microseconds: the median of kRepeats samples.
template <typename Call>
static void printCost(const char *label, const Call &call)
{
    std::vector<double> samples;
    call();
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kCalls; ++i) {
            call();
        }
        const std::chrono::duration<double, std::micro> time =
            std::chrono::steady_clock::now() - start;
        samples.push_back(time.count() / kCalls);
    }
    std::sort(samples.begin(), samples.end());
    std::printf("  %-23s  %9.3f  %9.3f  %9.3f\n", label,
                samples[samples.size() / 2], samples.front(), samples.back());
}

static void printCosts()
{
    std::printf("\ncost: of one call, by the host's clock\n");
    std::printf("  %-23s  %9s  %9s  %9s\n", "call", "time (us)", "min (us)",
                "max (us)");
    printCost("cudaDeviceGetAttribute",
              [] { ask(cudaDevAttrMultiProcessorCount); });
    printCost("cudaGetDeviceProperties", [] {
        cudaDeviceProp properties = {};
        CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    });
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: device [--quick]\n"
                             "  --quick  one block a multiprocessor, no "
                             "times\n");
        return 2;
    }

    // snippet: first-lines
    int devices = 0;
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    // end snippet
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    printKernels(device);

    int built = 0;
    int driver = 0;
    CUDA_CHECK(cudaRuntimeGetVersion(&built));
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    std::printf("\nversions: of CUDA, 1000 * major + 10 * minor\n");
    std::printf("  of the runtime   %d   (the program was built with it)\n",
                built);
    std::printf("  of the driver    %d   (the newest it can run)\n", driver);

    Failure failure;
    demand("there is no device", "cudaGetDeviceCount", devices > 0 ? 1 : 0, 1,
           &failure);
    printAttributes(device, &failure);
    printMemory(device, &failure);
    printPaper();
    int passed = 2;  // the attributes and the memory
    passed += tryLimits(&failure);
    passed += tryRolls(quick, &failure);
    if (failure.what == nullptr && !quick) {
        printCosts();
    }

    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s (%s): %zu, not %zu\n", failure.what,
                     failure.label, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

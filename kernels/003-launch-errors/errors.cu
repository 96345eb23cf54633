// SPDX-License-Identifier: MIT
//
// Day 3: launch errors and asynchronous errors. Six launches that must not
// work, and where each of them says so.
//
// Five ask for what the device cannot give: too many threads in a block, no
// blocks at all, a grid too tall, too much shared memory, more registers than
// a block can have. CUDA refuses them before anything runs. The sixth is in
// order as a launch; its threads then write far outside of their array, on the
// GPU, while the CPU has long gone on.
//
// After each, four questions are put and the answers kept: the last error, the
// last error once more, what a wait for the GPU returns, what an ordinary call
// returns. Then a good launch is tried, and the elements it got right counted.
//
// The gate: a refused launch is reported at once, is forgotten when it was
// asked about, and harms nothing. The out-of-bounds access is not reported at
// the launch but at the wait, and then by every call: the error is sticky.
// Error numbers and texts are CUDA's; they are printed, not judged.
//
// CUDA_CHECK would end the program at the first error, so the calls that are
// meant to fail stand outside of it.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o errors errors.cu
// Run: ./errors

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

// --- Shapes -----------------------------------------------------------------

constexpr unsigned int kThreads = 256;  // threads in a good block
constexpr size_t kBytes = kThreads * sizeof(float);

constexpr size_t kFew = 100;  // fewer elements than a block has threads
constexpr unsigned int kRoundedDown = kFew / kThreads;  // day 2's mistake

constexpr unsigned int kKept = 96;           // floats a thread of spread holds
constexpr unsigned int kMostThreads = 1024;  // in a block of any GPU
constexpr size_t kFarAway = size_t{1} << 34;  // elements: 64 GiB further on

static_assert(kRoundedDown == 0, "rounded down, there is no block");
static_assert(kKept > 65536 / kMostThreads,
              "at 1024 threads a block's 65536 registers give each 64");

// --- Kernels ----------------------------------------------------------------

// out[first + i] = i for one block.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: one block; out has first + blockDim.x elements.
// snippet: fill
__global__ void fill(float *out, size_t first)
{
    out[first + threadIdx.x] = static_cast<float>(threadIdx.x);
}
// end snippet

// How far 96 numbers are from their mean. All of them are needed twice, so the
// compiler keeps them in registers.
// Memory: a warp reads 32 neighbouring floats at a time; neighbours re-read
// each other's.
// Launch assumption: one block; in has blockDim.x + kKept elements.
// snippet: spread
__global__ void spread(const float *__restrict__ in, float *__restrict__ out)
{
    float kept[kKept];
    float mean = 0.0f;
    for (unsigned int k = 0; k < kKept; ++k) {
        kept[k] = in[threadIdx.x + k];
        mean += kept[k] / kKept;
    }
    float total = 0.0f;
    for (unsigned int k = 0; k < kKept; ++k) {
        total += (kept[k] - mean) * (kept[k] - mean);
    }
    out[threadIdx.x] = total;
}
// end snippet

// --- Launches ---------------------------------------------------------------

enum Bad {
    kTooManyThreads,
    kNoBlocks,
    kGridTooTall,
    kTooMuchShared,
    kTooManyRegisters,
    kOutOfBounds,  // last: nothing works after it
    kBadCount
};

constexpr const char *kNames[kBadCount] = {
    "too many threads", "too few blocks",     "too tall a grid",
    "too much shared",  "too many registers", "out of bounds",
};

struct Buffers {
    float *d_in = nullptr;   // what spread reads
    float *d_out = nullptr;  // what both write
};

static void launch(Bad bad, const cudaDeviceProp &device, const Buffers &b)
{
    const unsigned int threads =
        static_cast<unsigned int>(device.maxThreadsPerBlock);
    const unsigned int height =
        static_cast<unsigned int>(device.maxGridSize[1]);
    const size_t shared = device.sharedMemPerBlock;

    // snippet: bad-launches
    switch (bad) {
    case kTooManyThreads:
        fill<<<1, threads + 1>>>(b.d_out, 0);
        break;
    case kNoBlocks:
        fill<<<kRoundedDown, kThreads>>>(b.d_out, 0);
        break;
    case kGridTooTall:
        fill<<<dim3(1, height + 1), kThreads>>>(b.d_out, 0);
        break;
    case kTooMuchShared:
        fill<<<1, kThreads, shared + 1>>>(b.d_out, 0);
        break;
    case kTooManyRegisters:
        spread<<<1, threads>>>(b.d_in, b.d_out);
        break;
    default:
        fill<<<1, kThreads>>>(b.d_out, kFarAway);
        break;
    }
    // end snippet
}

// Asks for memory, launches in good order, and counts the elements that are
// right: kThreads of them where everything works, 0 where nothing does.
static size_t goodLaunch()
{
    float *d_out = nullptr;
    std::vector<float> h_out(kThreads, NAN);
    if (cudaMalloc(&d_out, kBytes) != cudaSuccess) {
        return 0;
    }
    fill<<<1, kThreads>>>(d_out, 0);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_out));
    size_t right = 0;
    for (unsigned int i = 0; i < kThreads; ++i) {
        right += h_out[i] == static_cast<float>(i) ? 1 : 0;
    }
    return right;
}

// What the calls after a launch returned.
struct Answers {
    cudaError_t atLaunch = cudaSuccess;
    cudaError_t again = cudaSuccess;
    cudaError_t atSync = cudaSuccess;
    cudaError_t nextCall = cudaSuccess;
    size_t right = 0;  // elements of a good launch afterwards
};

static Answers ask(Bad bad, const cudaDeviceProp &device, const Buffers &b)
{
    Answers answers;
    float *d_probe = nullptr;
    // snippet: ask
    launch(bad, device, b);
    answers.atLaunch = cudaGetLastError();
    answers.again = cudaGetLastError();
    answers.atSync = cudaDeviceSynchronize();
    answers.nextCall = cudaMalloc(&d_probe, kBytes);
    // end snippet
    if (answers.nextCall == cudaSuccess) {
        CUDA_CHECK(cudaFree(d_probe));
    }
    answers.right = goodLaunch();
    return answers;
}

// snippet: gate
// A refused launch: told at once, told once, and without consequences.
static bool refused(const Answers &answers)
{
    return answers.atLaunch != cudaSuccess && answers.again == cudaSuccess &&
           answers.atSync == cudaSuccess && answers.nextCall == cudaSuccess &&
           answers.right == kThreads;
}

// An asynchronous error: told late, by every call, and nothing works any more.
static bool sticky(const Answers &answers)
{
    return answers.atLaunch == cudaSuccess && answers.atSync != cudaSuccess &&
           answers.nextCall == answers.atSync && answers.right == 0;
}
// end snippet

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
    printKernel("fill", reinterpret_cast<const void *>(fill), kThreads,
                device);
    printKernel("spread", reinterpret_cast<const void *>(spread), kThreads,
                device);
}

static void printLimits(const cudaDeviceProp &device)
{
    cudaFuncAttributes attributes = {};
    CUDA_CHECK(cudaFuncGetAttributes(
        &attributes, reinterpret_cast<const void *>(spread)));
    std::printf("\nlimits: as the device states them\n");
    std::printf("  threads in a block          %d\n",
                device.maxThreadsPerBlock);
    std::printf("  threads in a spread block   %d   (its registers allow no "
                "more)\n",
                attributes.maxThreadsPerBlock);
    std::printf("  blocks in x                 %d\n", device.maxGridSize[0]);
    std::printf("  blocks in y                 %d\n", device.maxGridSize[1]);
    std::printf("  shared memory of a block    %zu B\n",
                device.sharedMemPerBlock);
    std::printf("  registers of a block        %d\n", device.regsPerBlock);
}

static void printAnswers(const Answers (&all)[kBadCount])
{
    std::printf("\nanswers: error numbers, 0 is no error\n");
    std::printf("  %-18s  %9s  %11s  %7s  %9s  %10s\n", "launch", "at launch",
                "asked again", "at sync", "next call", "good after");
    for (int bad = 0; bad < kBadCount; ++bad) {
        std::printf("  %-18s  %9d  %11d  %7d  %9d  %10zu\n", kNames[bad],
                    all[bad].atLaunch, all[bad].again, all[bad].atSync,
                    all[bad].nextCall, all[bad].right);
    }
    std::printf("\nmessages: what CUDA calls them\n");
    std::printf("  %-18s  %6s  %-29s  %s\n", "launch", "number", "name",
                "message");
    for (int bad = 0; bad < kBadCount; ++bad) {
        const cudaError_t error = all[bad].atLaunch != cudaSuccess
                                      ? all[bad].atLaunch
                                      : all[bad].atSync;
        std::printf("  %-18s  %6d  %-29s  %s\n", kNames[bad], error,
                    cudaGetErrorName(error), cudaGetErrorString(error));
    }
}

// --- Main -------------------------------------------------------------------

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    printKernels(device);
    printLimits(device);

    Buffers b;
    const std::vector<float> h_in(kMostThreads + kKept, 1.0f);
    const size_t inBytes = h_in.size() * sizeof(float);
    CUDA_CHECK(cudaMalloc(&b.d_in, inBytes));
    CUDA_CHECK(cudaMalloc(&b.d_out, kMostThreads * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(b.d_in, h_in.data(), inBytes,
                          cudaMemcpyHostToDevice));
    const size_t before = goodLaunch();

    Answers all[kBadCount];
    for (int bad = 0; bad < kBadCount; ++bad) {
        all[bad] = ask(static_cast<Bad>(bad), device, b);
    }
    printAnswers(all);

    // No memory is given back: after the last launch no call works any more.
    // One is left to try. It destroys everything that this process has on the
    // device, and whether a process can go on after it is worth knowing.
    const cudaError_t reset = cudaDeviceReset();
    const size_t after = goodLaunch();
    std::printf("\nreset: after the sticky error\n");
    std::printf("  cudaDeviceReset      %d   (%s)\n", reset,
                cudaGetErrorName(reset));
    std::printf("  good afterwards      %zu   (elements of a good launch, of "
                "%u)\n",
                after, kThreads);

    int passed = 0;
    const char *failed = before == kThreads ? nullptr : "a good launch";
    for (int bad = 0; bad < kBadCount && failed == nullptr; ++bad) {
        const bool good =
            bad == kOutOfBounds ? sticky(all[bad]) : refused(all[bad]);
        failed = good ? nullptr : kNames[bad];
        passed += good ? 1 : 0;
    }
    if (failed != nullptr) {
        std::fprintf(stderr, "%s: not reported where it has to be\n", failed);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
//
// Day 13: barriers, exits and divergence. What happens at a barrier when some
// threads of the block have returned before it?
//
// In the kernel, all threads of a block meet at a first barrier. Then a part of
// them returns, one of seven parts; the others write their names into a tile,
// meet at a second barrier, and count the names. Thread 0 always stays and is
// late on purpose. So a barrier that lets threads through too early is seen: a
// name is missing. One that waits for the threads that have gone is seen too:
// the kernel does not end, and the host stops waiting after a while.
//
// The gate is exact. Every thread that stayed must have counted as many names
// as threads stayed, and what the others would have stored must be untouched.
//
// Predicted before the first run: every kernel ends, because the documentation
// says that the barrier waits for threads that have not exited.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o exits exits.cu
// Run: ./exits

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
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

constexpr unsigned int kWarp = 32;
constexpr unsigned int kThreads = 256;  // threads in a block
constexpr unsigned int kBlocks = 64;
constexpr unsigned int kCount = kBlocks * kThreads;
constexpr size_t kBytes = kCount * sizeof(unsigned int);

constexpr unsigned int kNobody = 0;  // an empty place in the tile
constexpr unsigned int kUntouched = 0xffffffffu;

// Thread 0 is late by this many cycles of the multiprocessor's clock, some
// tens of microseconds: far more than the others need.
constexpr long long kLate = 50000;

constexpr int kPatience = 5000;  // milliseconds, then a kernel counts as hung

static_assert(kThreads % (2 * kWarp) == 0, "half a block is whole warps");

// --- Cases ------------------------------------------------------------------

enum Leaving {
    kNone,
    kLast,
    kTail,
    kUpperHalf,
    kHalfOfEachWarp,
    kOdd,
    kAllButOne,
    kLeavingCount
};

constexpr const char *kNames[kLeavingCount] = {
    "nobody",       "the last thread",   "the last 56",
    "four warps",   "half of each warp", "every other thread",
    "all but one",
};

// Whether a thread is among those that return. Thread 0 never is.
__host__ __device__ inline bool leaves(int which, unsigned int tid)
{
    switch (which) {
    case kLast:
        return tid == kThreads - 1;
    case kTail:
        return tid >= 200;
    case kUpperHalf:
        return tid >= kThreads / 2;
    case kHalfOfEachWarp:
        return tid % kWarp >= kWarp / 2;
    case kOdd:
        return tid % 2 == 1;
    case kAllButOne:
        return tid != 0;
    default:
        return false;
    }
}

// --- Kernel -----------------------------------------------------------------

// Waits for kLate cycles.
__device__ void beLate()
{
    const long long start = clock64();
    while (clock64() - start < kLate) {
    }
}

// For each thread that stays, how many names it finds behind the barrier.
// Memory: a warp writes 32 neighbouring numbers, or those of the threads that
// stayed.
// Launch assumption: blocks of 256 threads. Returning before a barrier is what
// is studied here; elsewhere it is avoided.
__global__ void leaveEarly(int which, unsigned int *__restrict__ found)
{
    // snippet: leave
    __shared__ unsigned int names[kThreads];
    const unsigned int tid = threadIdx.x;
    names[tid] = kNobody;
    __syncthreads();  // everyone: the tile is empty

    if (leaves(which, tid)) {
        return;
    }
    if (tid == 0) {
        beLate();
    }
    names[tid] = tid + 1;
    __syncthreads();  // in question: does it wait, and for whom?

    unsigned int count = 0;
    for (unsigned int k = 0; k < kThreads; ++k) {
        count += names[k] != kNobody ? 1 : 0;
    }
    found[blockIdx.x * kThreads + tid] = count;
    // end snippet
}

// --- The host's part --------------------------------------------------------

// What went wrong first; reported after everything has been printed.
struct Failure {
    const char *what = nullptr;
    int which = 0;
    unsigned int thread = 0;  // of the launch
    unsigned int got = 0;
    unsigned int want = 0;
};

// Waits for the device, but not for ever. Whether it came to an end.
// snippet: patience
static bool endsInTime()
{
    using std::chrono::steady_clock;
    const auto start = steady_clock::now();
    cudaError_t state = cudaStreamQuery(nullptr);
    while (state == cudaErrorNotReady &&
           steady_clock::now() - start < std::chrono::milliseconds(kPatience)) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        state = cudaStreamQuery(nullptr);
    }
    if (state != cudaErrorNotReady) {
        CUDA_CHECK(state);
    }
    return state == cudaSuccess;
}
// end snippet

// Runs one case and judges it. A kernel that hangs cannot be stopped from
// here: nothing is tried after it.
static void runCase(int which, unsigned int *d_found, Failure *failure)
{
    unsigned int staying = 0;
    for (unsigned int tid = 0; tid < kThreads; ++tid) {
        staying += leaves(which, tid) ? 0 : 1;
    }
    CUDA_CHECK(cudaMemset(d_found, 0xff, kBytes));
    leaveEarly<<<kBlocks, kThreads>>>(which, d_found);
    CUDA_CHECK(cudaGetLastError());
    if (!endsInTime()) {
        std::printf("  %-18s  %5u  %4u  %11u  %11s  %10s\n", kNames[which],
                    kThreads - staying, staying, 0u, "-", "-");
        *failure = {"it does not end", which, 0, 0, 0};
        return;
    }

    std::vector<unsigned int> found(kCount);
    CUDA_CHECK(cudaMemcpy(found.data(), d_found, kBytes,
                          cudaMemcpyDeviceToHost));
    unsigned int least = kUntouched;
    unsigned int most = 0;
    unsigned int judged = 0;
    for (unsigned int i = 0; i < kCount; ++i) {
        const bool gone = leaves(which, i % kThreads);
        const unsigned int want = gone ? kUntouched : staying;
        if (!gone) {
            least = std::min(least, found[i]);
            most = std::max(most, found[i]);
            ++judged;
        }
        if (found[i] != want && failure->what == nullptr) {
            *failure = {gone ? "a thread that left has stored something"
                             : "the count of names is wrong",
                        which, i, found[i], want};
        }
    }
    std::printf("  %-18s  %5u  %4u  %11u  %11u  %10u\n", kNames[which],
                kThreads - staying, staying, kBlocks, least, most);
    if (judged == 0 && failure->what == nullptr) {
        *failure = {"nobody was there to be judged", which, 0, 0, 0};
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
    printKernel("leaveEarly", reinterpret_cast<const void *>(leaveEarly),
                kThreads, device);
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

    unsigned int *d_found = nullptr;
    CUDA_CHECK(cudaMalloc(&d_found, kBytes));

    std::printf("\nexits: threads that return before the second barrier\n");
    std::printf("  threads in a block   %u\n", kThreads);
    std::printf("  blocks               %u\n", kBlocks);
    std::printf("  late by              %lld cycles   (thread 0)\n\n", kLate);
    std::printf("  %-18s  %5s  %4s  %11s  %11s  %10s\n", "who returns",
                "leave", "stay", "blocks done", "least found",
                "most found");
    Failure failure;
    int passed = 0;
    for (int which = 0; which < kLeavingCount && failure.what == nullptr;
         ++which) {
        runCase(which, d_found, &failure);
        passed += failure.what == nullptr ? 1 : 0;
    }

    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s when %s returns: block %u, thread %u: %u, "
                             "not %u\n",
                     failure.what, kNames[failure.which],
                     failure.thread / kThreads, failure.thread % kThreads,
                     failure.got, failure.want);
        std::fflush(nullptr);
        std::_Exit(EXIT_FAILURE);  // without waiting for a kernel that hangs
    }
    CUDA_CHECK(cudaFree(d_found));
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}

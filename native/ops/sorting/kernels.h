// Every kernel of the family, by number and variant.
#pragma once

#include "ops/kernel_table.h"
#include "ops/submit.h"

namespace gpk::ops::sorting {

enum class SortingKernel : std::uint8_t {
  kRadixHistogram,
  kOnesweep,
  kBlockSort,
  kGather,
  kComplexPart,
  kCount,
  kScan,
  kCompact,
  kRunLength,
  kSearch,
  kHistogram,
  kBin,
  kKeyRange,
  kRangeEnds,
  kEdges,
  kToDouble,
  kSegmentSum,
  kSegmentTotal,
  kDensity,
  kQuantile,
};

// The word type a kernel moves, and small parameters whose meaning depends on the kernel.
struct SortingVariant {
  int width_bits = 0;  // log2 of the bytes of a word
  int values = 0;      // kOnesweep: none, 32, 64 bits; kBlockSort, kGather: 0 or 1
  bool flag = false;   // kOnesweep: -0.0 and 0.0 compare equal; kSearch: complex
  friend bool operator==(const SortingVariant&, const SortingVariant&) = default;
};

// Threads, keys per thread and blocks per multiprocessor of a onesweep variant.
struct OnesweepShape {
  int threads = 0;
  int items = 0;
  int min_blocks = 0;
  [[nodiscard]] int tile() const { return threads * items; }
};
OnesweepShape onesweep_shape(int width_bits, int values);

inline constexpr int kRadixHistogramThreads = 1024;

jit::KernelSpec sorting_spec(SortingKernel kernel, const SortingVariant& variant);

// The device's kernel, compiled on first use.
const Kernel& sorting_kernel(Device device, SortingKernel kernel,
                             const SortingVariant& variant = {});

// Launches a grid-stride kernel over `items`, with as many blocks as fill the device.
void submit_loop(const Kernel& kernel, std::int64_t items, unsigned threads,
                 std::initializer_list<const Array*> arrays, void** params);

}  // namespace gpk::ops::sorting

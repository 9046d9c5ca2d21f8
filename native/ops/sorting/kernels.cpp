#include "ops/sorting/kernels.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/word_type.h"
#include "plan/key_builder.h"

namespace gpk::ops::sorting {
namespace {

const char* word_of(const SortingVariant& v) { return word_type(std::size_t{1} << v.width_bits); }

jit::KernelSpec spec(const char* file, const char* op, std::string expression) {
  jit::KernelSpec result;
  result.file = file;
  result.op = op;
  result.expression = std::move(expression);
  return result;
}

jit::KernelSpec onesweep_spec(const SortingVariant& v) {
  constexpr const char* kValues[] = {"gpk::NoValue", "unsigned int", "unsigned long long"};
  const OnesweepShape shape = onesweep_shape(v.width_bits, v.values);
  return spec("sorting/onesweep.cuh", "sort",
              cat("gpk::onesweep_kernel<", word_of(v), ", ", kValues[v.values], ", ", shape.threads,
                  ", ", shape.items, ", ", shape.min_blocks, ", ", v.flag, ">"));
}

jit::KernelSpec histogram_spec(const std::string& name) {
  return spec("sorting/histogram.cuh", "histogram", cat("gpk::", name));
}

}  // namespace

OnesweepShape onesweep_shape(int width_bits, int values) {
  // As many keys as fit in shared memory with two blocks per SM, up to 23 per thread.
  constexpr OnesweepShape kShapes[4][3] = {
      {{384, 23, 2}, {384, 19, 2}, {384, 11, 2}},
      {{384, 23, 2}, {384, 17, 2}, {384, 11, 2}},
      {{384, 23, 2}, {384, 15, 2}, {384, 11, 2}},
      {{384, 12, 2}, {384, 11, 2}, {384, 9, 2}},
  };
  return kShapes[width_bits][values];
}

namespace {

jit::KernelSpec code_spec(SortingKernel kernel, const SortingVariant& v) {
  const std::string word = word_of(v);
  switch (kernel) {
    case SortingKernel::kRadixHistogram:
      return spec("sorting/radix_histogram.cuh", "sort",
                  cat("gpk::radix_histogram_kernel<", word, ", ", kRadixHistogramThreads, ">"));
    case SortingKernel::kOnesweep: return onesweep_spec(v);
    case SortingKernel::kBlockSort:
      return spec("sorting/block_sort.cuh", v.values == 0 ? "sort" : "argsort",
                  cat("gpk::block_sort_kernel<", word, ", ", v.values != 0, ">"));
    case SortingKernel::kGather:
      return spec("sorting/gather.cuh", "topk",
                  cat("gpk::gather_kernel<", word, ", ", v.values != 0, ">"));
    case SortingKernel::kComplexPart:
      return spec("sorting/gather.cuh", "argsort", cat("gpk::complex_part_kernel<", word, ">"));
    case SortingKernel::kCount:
      return spec("sorting/compact.cuh", "unique", cat("gpk::count_kernel<", word, ">"));
    case SortingKernel::kScan: return spec("sorting/compact.cuh", "unique", "gpk::scan_kernel");
    case SortingKernel::kCompact:
      return spec("sorting/compact.cuh", "unique", cat("gpk::compact_kernel<", word, ">"));
    case SortingKernel::kRunLength:
      return spec("sorting/compact.cuh", "unique_counts", "gpk::run_length_kernel");
    case SortingKernel::kSearch:
      return spec("sorting/search.cuh", "searchsorted",
                  cat("gpk::search_kernel<gpk::", v.flag ? "ComplexKey<" : "RealKey<", word, ">>"));
    case SortingKernel::kHistogram: return histogram_spec("histogram_kernel");
    case SortingKernel::kBin: return histogram_spec("bin_kernel");
    case SortingKernel::kKeyRange: return histogram_spec(cat("key_range_kernel<", word, ">"));
    case SortingKernel::kRangeEnds: return histogram_spec(cat("range_ends_kernel<", word, ">"));
    case SortingKernel::kEdges: return histogram_spec("edges_kernel");
    case SortingKernel::kToDouble: return histogram_spec("to_double_kernel");
    case SortingKernel::kSegmentSum: return histogram_spec("segment_sum_kernel");
    case SortingKernel::kSegmentTotal: return histogram_spec("segment_total_kernel");
    case SortingKernel::kDensity: return histogram_spec("density_kernel");
    default: return spec("sorting/quantile.cuh", "quantile", "gpk::quantile_kernel");
  }
}

std::uint64_t variant_key(const SortingVariant& v) {
  return plan::KeyBuilder()
      .field("width_bits", v.width_bits, 3)
      .field("values", v.values, 2)
      .field("flag", v.flag, 1)
      .key();
}

}  // namespace

jit::KernelSpec sorting_spec(SortingKernel kernel, const SortingVariant& variant) {
  jit::KernelSpec result = code_spec(kernel, variant);
  result.kernel = static_cast<std::uint8_t>(kernel);
  result.variant = variant_key(variant);
  return result;
}

const Kernel& sorting_kernel(Device device, SortingKernel id, const SortingVariant& variant) {
  return kernel(Context::get(device.index),
                {Family::sorting, static_cast<std::uint8_t>(id), variant_key(variant)},
                [&] { return sorting_spec(id, variant); });
}

void submit_loop(const Kernel& kernel, std::int64_t items, unsigned threads,
                 std::initializer_list<const Array*> arrays, void** params) {
  const DeviceTraits& traits = kernel.context().traits();
  const std::int64_t resident =
      std::int64_t{traits.multiprocessor_count} * (traits.max_threads_per_sm / threads);
  LaunchConfig config = grid_1d(items, threads, threads);
  const std::int64_t blocks = ceil_div(items, threads);
  config.grid[0] = static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, 4 * resident));
  submit(kernel, config, arrays, params);
}

}  // namespace gpk::ops::sorting

namespace gpk::ops {

void enumerate_sorting(std::vector<jit::KernelSpec>& specs) {
  using namespace sorting;
  using K = SortingKernel;
  const auto add = [&](K kernel, const SortingVariant& variant) {
    specs.push_back(sorting_spec(kernel, variant));
    const bool large = kernel == K::kRadixHistogram || kernel == K::kBlockSort ||
                       (kernel == K::kOnesweep && variant.values < 2 && !variant.flag) ||
                       kernel == K::kCompact;
    specs.back().prefetched = large && variant.width_bits >= 2 && variant.width_bits < 4;
  };
  for (int width = 0; width < 4; ++width) {
    for (const K kernel : {K::kRadixHistogram, K::kSearch, K::kKeyRange, K::kRangeEnds})
      add(kernel, {width, 0, false});
    for (const int values : {0, 1}) add(K::kBlockSort, {width, values, false});
    for (const int values : {0, 1, 2}) add(K::kOnesweep, {width, values, false});
    if (width > 0) add(K::kOnesweep, {width, 0, true});
  }
  for (int width = 0; width < 5; ++width) {
    for (const int wide : {0, 1}) add(K::kGather, {width, wide, false});
    add(K::kCount, {width, 0, false});
    add(K::kCompact, {width, 0, false});
  }
  for (const int width : {2, 3}) {
    add(K::kComplexPart, {width, 0, false});
    add(K::kSearch, {width, 0, true});
  }
  for (const K kernel : {K::kScan, K::kRunLength, K::kHistogram, K::kBin, K::kEdges, K::kToDouble,
                         K::kSegmentSum, K::kSegmentTotal, K::kDensity, K::kQuantile})
    add(kernel, {});
}

}  // namespace gpk::ops

#include "ops/sorting/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/graph.h"
#include "core/promote.h"
#include "core/stream.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "kernels/args/sorting.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/sorting/kernels.h"
#include "ops/sorting/row_sort.h"
#include "ops/sorting/rows.h"

namespace gpk::ops {
namespace {

using namespace sorting;

constexpr std::int64_t kSharedBins = 12288;  // 48 KiB
constexpr std::int64_t kMaxWeightedBins = (std::int64_t{1} << 31) - 1;

std::uint32_t code(DType dtype) { return static_cast<std::uint32_t>(dtype); }

void check_real(const Array& array, const char* argument, const char* op) {
  check_compute_dtype(array, argument, op);
  if (is_complex(array.dtype()))
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": ", argument, " has dtype ", name(array.dtype()), ", expected real numbers"));
}

void check_weights(const std::optional<Array>& weights, const Array& x, const char* op) {
  if (!weights) return;
  check_real(*weights, "weights", op);
  check_device(x, "x", weights->device(), "weights", op);
  if (!(weights->shape() == x.shape()))
    throw InvalidArgument(cat(op, ": weights has shape ", to_string(weights->shape()),
                              ", x has shape ", to_string(x.shape())));
}

void check_histogram(const Array& x, const HistogramRequest& request) {
  constexpr const char* op = "histogram";
  check_real(x, "x", op);
  check_weights(request.weights, x, op);
  if (request.edges) {
    check_real(*request.edges, "bins", op);
    check_device(x, "x", request.edges->device(), "bins", op);
    if (request.edges->ndim() != 1 || request.edges->size() == 0)
      throw InvalidArgument(cat(op, ": bins has shape ", to_string(request.edges->shape()),
                                ", expected one dimension of at least one edge"));
    return;
  }
  if (request.num_bins < 1)
    throw InvalidArgument(cat(op, ": bins is ", request.num_bins, ", expected at least 1"));
  if (!request.range) return;
  const auto [low, high] = *request.range;
  if (!std::isfinite(low) || !std::isfinite(high))
    throw InvalidArgument(cat(op, ": range (", low, ", ", high, ") is not finite"));
  if (low > high)
    throw InvalidArgument(cat(op, ": range (", low, ", ", high, "): max must not be below min"));
}

// Smallest and largest key of a contiguous array, as key_range_kernel writes them.
Array key_range(const Array& x, const char* op) {
  Array range = full({2}, Scalar(std::int64_t{0}), DType::kUInt64, x.device(), op);
  cu::DevicePtr data = x.device_ptr();
  cu::DevicePtr out = range.device_ptr();
  std::int64_t n = x.size();
  kernels::KeyOrder order = key_order(x.dtype());
  void* params[] = {&data, &out, &n, &order};
  submit_loop(
      sorting_kernel(x.device(), SortingKernel::kKeyRange, {width_bits(x.dtype()), 0, false}),
      ceil_div(n, 8), 256, {&x, &range}, params);
  return range;
}

// Smallest and largest element, in the array's dtype.
Array ends_of(const Array& x, const char* op) {
  const Array range = key_range(x, op);
  Array ends = Array::empty({2}, x.dtype(), x.device(), op);
  cu::DevicePtr from = range.device_ptr();
  cu::DevicePtr to = ends.device_ptr();
  kernels::KeyOrder order = key_order(x.dtype());
  void* params[] = {&from, &to, &order};
  submit(sorting_kernel(x.device(), SortingKernel::kRangeEnds, {width_bits(x.dtype()), 0, false}),
         grid_1d(1, 1, 1), {&range, &ends}, params);
  return ends;
}

// Writes evenly spaced edges to `edges`, and returns them as float64.
Array make_edges(const Array& x, const std::optional<std::pair<double, double>>& range,
                 const Array& edges, const char* op) {
  Array wide = Array::empty(edges.shape(), DType::kFloat64, x.device(), op);
  kernels::EdgesArgs args{};
  std::optional<Array> ends;
  if (range) {
    args.low = range->first;
    args.high = range->second;
  } else {
    ends = ends_of(x, op);
    args.ends = address(ends);
    args.ends_code = code(x.dtype());
  }
  args.edges = address(wide);
  args.out = address(edges);
  args.num_bins = edges.size() - 1;
  args.out_code = code(edges.dtype());
  void* params[] = {&args};
  submit_loop(sorting_kernel(x.device(), SortingKernel::kEdges), edges.size(), 256,
              {&wide, &edges, ends ? &*ends : nullptr}, params);
  return wide;
}

// The bins of a histogram as passed to the kernels. No edges: the elements are bin numbers.
struct Bins {
  std::int64_t number;
  std::optional<Array> edges;  // float64
  bool uniform = false;
};

kernels::HistogramArgs histogram_args(const Array& x, const Bins& bins, const Array& out) {
  kernels::HistogramArgs args{};
  args.data = address(x);
  args.edges = address(bins.edges);
  args.out = address(out);
  args.n = x.size();
  args.num_bins = bins.number;
  args.code = code(x.dtype());
  args.direct = bins.edges ? 0 : 1;
  args.uniform = bins.uniform ? 1 : 0;
  return args;
}

// counts: int64, contiguous.
void count_bins(const Array& x, const Bins& bins, const Array& counts, const char* op) {
  fill(counts, Scalar(std::int64_t{0}), op);
  kernels::HistogramArgs args = histogram_args(x, bins, counts);
  if (bins.number <= kSharedBins)
    args.num_copies =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(kSharedBins / bins.number, 1, 8));
  const Kernel& kernel = sorting_kernel(x.device(), SortingKernel::kHistogram);
  LaunchConfig config = grid_1d(x.size(), 256, 256);
  const std::int64_t blocks = ceil_div(x.size(), 256);
  config.grid[0] = static_cast<unsigned>(std::min<std::int64_t>(
      blocks, std::int64_t{kernel.context().traits().multiprocessor_count} * 8));
  config.shared_bytes = static_cast<std::size_t>(bins.number) * args.num_copies * 4;
  void* params[] = {&args};
  submit(kernel, config, {&x, &counts, bins.edges ? &*bins.edges : nullptr}, params);
}

// The sum of weights per bin, to `sums` in its dtype: elements are sorted by bin, then summed.
void sum_bins(const Array& x, const Bins& bins, const Array& weights, const Array& sums,
              const char* op) {
  if (bins.number > kMaxWeightedBins)
    throw InvalidArgument(cat(op, ": ", bins.number, " bins are too many for weights"));
  const Device device = x.device();
  const std::int64_t n = x.size();
  Array of_elems = Array::empty({n}, DType::kUInt32, device, op);
  kernels::HistogramArgs args = histogram_args(x, bins, of_elems);
  void* params[] = {&args};
  submit_loop(sorting_kernel(device, SortingKernel::kBin), n, 256,
              {&x, &of_elems, bins.edges ? &*bins.edges : nullptr}, params);
  RowSort sort{of_elems, 1, n};
  sort.keys_out = Array::empty({n}, DType::kUInt32, device, op);
  sort.positions_out = Array::empty({n}, DType::kInt64, device, op);
  sort_rows(sort, op);

  const auto pieces =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(2048 / bins.number, 1, 64));
  Array partial = Array::empty({bins.number * pieces}, DType::kFloat64, device, op);
  kernels::SegmentSumArgs segment{};
  segment.bins = address(sort.keys_out);
  segment.order = address(sort.positions_out);
  segment.weights = address(weights);
  segment.partial = address(partial);
  segment.n = n;
  segment.code = code(weights.dtype());
  segment.pieces = pieces;
  void* segment_params[] = {&segment};
  submit(sorting_kernel(device, SortingKernel::kSegmentSum), grid_1d(partial.size(), 1, 128),
         {&*sort.keys_out, &*sort.positions_out, &weights, &partial}, segment_params);
  cu::DevicePtr from = partial.device_ptr();
  cu::DevicePtr to = sums.device_ptr();
  std::int64_t number = bins.number;
  std::uint32_t count = pieces;
  std::uint32_t out_code = code(sums.dtype());
  void* total_params[] = {&from, &to, &number, &count, &out_code};
  submit_loop(sorting_kernel(device, SortingKernel::kSegmentTotal), number, 256, {&partial, &sums},
              total_params);
}

Array to_double(const Array& array, const char* op) {
  Array wide = Array::empty(array.shape(), DType::kFloat64, array.device(), op);
  cu::DevicePtr from = array.device_ptr();
  cu::DevicePtr to = wide.device_ptr();
  std::int64_t n = array.size();
  std::uint32_t from_code = code(array.dtype());
  void* params[] = {&from, &to, &n, &from_code};
  submit_loop(sorting_kernel(array.device(), SortingKernel::kToDouble), n, 256, {&array, &wide},
              params);
  return wide;
}

Array to_density(const Array& counts, const Array& edges, const char* op) {
  Array density = Array::empty(counts.shape(), DType::kFloat64, counts.device(), op);
  cu::DevicePtr from = counts.device_ptr();
  cu::DevicePtr at = edges.device_ptr();
  cu::DevicePtr to = density.device_ptr();
  std::int64_t n = counts.size();
  std::uint32_t from_code = code(counts.dtype());
  void* params[] = {&from, &at, &to, &n, &from_code};
  submit(sorting_kernel(counts.device(), SortingKernel::kDensity), grid_1d(1, 1, 256),
         {&counts, &edges, &density}, params);
  return density;
}

void fill_bins(const Array& x, const Bins& bins, const std::optional<Array>& weights,
               const Array& counts, const char* op) {
  if (bins.number == 0) return;
  if (x.size() == 0) return fill(counts, Scalar(std::int64_t{0}), op);
  if (weights)
    sum_bins(x, bins, contiguous(*weights, op), counts, op);
  else
    count_bins(x, bins, counts, op);
}

HistogramResult histogram_on_gpu(const Array& given, const HistogramRequest& request,
                                 HistogramResult result) {
  constexpr const char* op = "histogram";
  const Array x = contiguous(given, op);
  Bins bins{result.edges.size() - 1, std::nullopt, !request.edges};
  bins.edges =
      request.edges ? to_double(result.edges, op) : make_edges(x, request.range, result.edges, op);
  fill_bins(x, bins, request.weights, result.counts, op);
  if (request.density && bins.number > 0)
    result.counts = to_density(result.counts, *bins.edges, op);
  return result;
}

HistogramResult histogram_on_cpu(const Array& x, const HistogramRequest& request,
                                 HistogramResult result) {
  CpuCall call{"histogram", {x}, {result.counts, result.edges}};
  call.options.emplace_back("edges", cpu_optional(request.edges));
  call.options.emplace_back("weights", cpu_optional(request.weights));
  if (request.range) {
    call.options.emplace_back("low", Scalar(request.range->first));
    call.options.emplace_back("high", Scalar(request.range->second));
  }
  run_on_cpu(std::move(call));
  if (request.density && result.counts.size() > 0) {
    const Array density =
        Array::empty(result.counts.shape(), DType::kFloat64, x.device(), "histogram");
    run_on_cpu({"histogram_density", {result.counts, result.edges}, {density}});
    result.counts = density;
  }
  return result;
}

// The largest element of a contiguous array of integers; throws for negative ones.
std::int64_t largest_of(const Array& x) {
  constexpr const char* op = "bincount";
  const bool is_signed = info(x.dtype()).kind == DTypeClass::kSigned;
  std::int64_t low = 0;
  std::int64_t high = 0;
  if (x.device().is_cuda()) {
    std::uint64_t range[2] = {};
    device::to_host(key_range(x, op), range);
    const std::int64_t zero = is_signed ? std::int64_t{1} << (info(x.dtype()).bits - 1) : 0;
    low = static_cast<std::int64_t>(~range[0] - static_cast<std::uint64_t>(zero));
    high = static_cast<std::int64_t>(range[1] - static_cast<std::uint64_t>(zero));
  } else {
    const Array ends = Array::empty({2}, DType::kInt64, x.device(), op);
    run_on_cpu({"integer_range", {x}, {ends}});
    const BufferUse use(ends.buffer(), current_stream(x.device()));
    low = static_cast<const std::int64_t*>(ends.data())[0];
    high = static_cast<const std::int64_t*>(ends.data())[1];
  }
  if (is_signed && low < 0) throw InvalidArgument(cat(op, ": x has negative elements"));
  // Unsigned values beyond 2**63 have wrapped around.
  if (high < 0 || high == std::numeric_limits<std::int64_t>::max())
    throw InvalidArgument(cat(op, ": the largest element of x is ",
                              static_cast<std::uint64_t>(high),
                              ", which is too large for an array of counts"));
  return high;
}

}  // namespace

HistogramResult histogram(const Array& x, const HistogramRequest& given) {
  constexpr const char* op = "histogram";
  check_histogram(x, given);
  HistogramRequest request = given;
  if (x.size() == 0 && !request.range) request.range = {0.0, 1.0};
  const std::int64_t num_bins = request.edges ? request.edges->size() - 1 : request.num_bins;
  const DType edge_dtype = is_float(x.dtype()) ? x.dtype() : DType::kFloat64;
  HistogramResult result{
      Array::empty({num_bins}, request.weights ? request.weights->dtype() : DType::kInt64,
                   x.device(), op),
      request.edges ? contiguous(*request.edges, op)
                    : Array::empty({num_bins + 1}, edge_dtype, x.device(), op)};
  if (num_bins == 0 && request.density)
    result.counts = Array::empty({0}, DType::kFloat64, x.device(), op);
  if (x.device().is_cuda()) return histogram_on_gpu(x, request, std::move(result));
  return histogram_on_cpu(x, request, std::move(result));
}

Array bincount(const Array& x, const std::optional<Array>& weights, std::int64_t min_length) {
  constexpr const char* op = "bincount";
  check_compute_dtype(x, "x", op);
  if (!is_integer(x.dtype()) && x.dtype() != DType::kBool)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": x has dtype ", name(x.dtype()), ", expected integers"));
  if (x.ndim() != 1)
    throw InvalidArgument(
        cat(op, ": x has shape ", to_string(x.shape()), ", expected one dimension"));
  check_weights(weights, x, op);
  if (min_length < 0)
    throw InvalidArgument(cat(op, ": minlength is ", min_length, ", expected at least 0"));
  forbid_in_capture(op, "the size of its result depends on the data");
  const Array data = contiguous(x, op);
  const std::int64_t number =
      x.size() == 0 ? min_length : std::max(min_length, largest_of(data) + 1);
  // Like NumPy: integers where there is nothing to sum.
  const bool summed = weights && x.size() > 0;
  Array counts = Array::empty({number}, summed ? DType::kFloat64 : DType::kInt64, x.device(), op);
  if (x.device().is_cuda()) {
    fill_bins(data, {number, std::nullopt}, weights, counts, op);
  } else if (number > 0) {
    run_on_cpu(
        {op, {data}, {counts}, {{"weights", cpu_optional(summed ? weights : std::nullopt)}}});
  }
  return counts;
}

}  // namespace gpk::ops

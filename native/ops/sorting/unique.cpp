#include "ops/sorting/unique.h"

#include "base/ceil_div.h"
#include "base/error.h"
#include "core/graph.h"
#include "core/stream.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "kernels/args/sorting.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/sorting/gather.h"
#include "ops/sorting/kernels.h"
#include "ops/sorting/row_sort.h"
#include "ops/sorting/rows.h"

namespace gpk::ops {
namespace {

using namespace sorting;

const Array* given(const std::optional<Array>& array) { return array ? &*array : nullptr; }

std::int64_t read_count(const Array& sums, std::int64_t at) {
  std::int64_t count = 0;
  device::to_host(slice_axis(sums, 0, at, 1, 1), &count);
  return count;
}

// Stream compaction: counts the selected elements of `data`, then writes their positions in order.
class Compaction {
 public:
  Compaction(const Array& data, const std::optional<Array>& flags, bool nan_equal, const char* op)
      : data_(data),
        flags_(flags),
        tiles_(ceil_div(data.size(), kernels::CompactArgs::kTile)),
        sums_(Array::empty({tiles_ + 1}, DType::kInt64, data.device(), op)) {
    args_.data = address(data);
    args_.flags = address(flags);
    args_.sums = address(sums_);
    args_.n = data.size();
    args_.nan_equal = nan_equal ? 1 : 0;
    args_.order_of = key_order(data.dtype());
    void* params[] = {&args_};
    submit(kernel(SortingKernel::kCount), grid_1d(tiles_, 1, kernels::CompactArgs::kThreads),
           {&data_, given(flags_), &sums_}, params);
    cu::DevicePtr sums = sums_.device_ptr();
    std::int64_t tiles = tiles_;
    void* scan_params[] = {&sums, &tiles};
    submit(sorting_kernel(data.device(), SortingKernel::kScan), grid_1d(1, 1, 1024), {&sums_},
           scan_params);
    count_ = read_count(sums_, tiles_);
  }

  [[nodiscard]] std::int64_t count() const { return count_; }

  void write(const std::optional<Array>& values, const std::optional<Array>& order,
             const std::optional<Array>& places, const std::optional<Array>& index,
             const std::optional<Array>& inverse) {
    args_.order = address(order);
    args_.values = address(values);
    args_.places = address(places);
    args_.index = address(index);
    args_.inverse = address(inverse);
    void* params[] = {&args_};
    submit(kernel(SortingKernel::kCompact), grid_1d(tiles_, 1, kernels::CompactArgs::kThreads),
           {&data_, given(flags_), &sums_, given(values), given(order), given(places), given(index),
            given(inverse)},
           params);
  }

 private:
  [[nodiscard]] const Kernel& kernel(SortingKernel id) const {
    return sorting_kernel(data_.device(), id, {width_bits(data_.dtype()), 0, false});
  }

  Array data_;
  std::optional<Array> flags_;
  std::int64_t tiles_;
  Array sums_;
  kernels::CompactArgs args_{};
  std::int64_t count_ = 0;
};

Array run_lengths(const Array& places, std::int64_t n, const char* op) {
  Array counts = Array::empty(places.shape(), DType::kInt64, places.device(), op);
  cu::DevicePtr from = places.device_ptr();
  cu::DevicePtr to = counts.device_ptr();
  std::int64_t runs = places.size();
  void* params[] = {&from, &to, &runs, &n};
  submit_loop(sorting_kernel(places.device(), SortingKernel::kRunLength), runs, 256,
              {&places, &counts}, params);
  return counts;
}

UniqueResult unique_on_gpu(const Array& x, const UniqueRequest& request, const char* op) {
  const Device device = x.device();
  const Array flat = flatten(contiguous(x, op), op);
  const std::int64_t n = flat.size();
  const Array sorted = Array::empty({n}, x.dtype(), device, op);
  std::optional<Array> order;
  if (request.index || request.inverse) {
    order = Array::empty({n}, DType::kInt64, device, op);
    RowSort sort{flat, 1, n};
    sort.positions_out = order;
    sort_rows(sort, op);
    RowGather gather{flat, *order, 1, n, n, n};
    gather.out = sorted;
    gather_rows(gather);
  } else {
    RowSort sort{flat, 1, n};
    sort.keys_out = sorted;
    sort_rows(sort, op);
  }
  Compaction runs(sorted, std::nullopt, request.equal_nan, op);
  const auto make = [&](DType dtype) { return Array::empty({runs.count()}, dtype, device, op); };
  UniqueResult result{make(x.dtype())};
  std::optional<Array> places;
  if (request.counts) places = make(DType::kInt64);
  if (request.index) result.index = make(DType::kInt64);
  if (request.inverse) result.inverse = Array::empty(x.shape(), DType::kInt64, device, op);
  runs.write(result.values, order, places, result.index, result.inverse);
  if (places) result.counts = run_lengths(*places, n, op);
  return result;
}

// The first `count` elements, copied.
Array first_elems(const Array& array, std::int64_t count, const char* op) {
  return copy_as(slice_axis(array, 0, 0, count, 1), array.dtype(), op);
}

std::int64_t cpu_count(const Array& array) {
  const BufferUse use(array.buffer(), current_stream(array.device()));
  return *static_cast<const std::int64_t*>(array.data());
}

UniqueResult unique_on_cpu(const Array& x, const UniqueRequest& request, const char* op) {
  const Device device = x.device();
  const Dims all{x.size()};
  const Array number = Array::empty({1}, DType::kInt64, device, op);
  CpuCall call{"unique",
               {x},
               {number, Array::empty(all, x.dtype(), device, op)},
               {{"equal_nan", Scalar(request.equal_nan)},
                {"index", Scalar(request.index)},
                {"inverse", Scalar(request.inverse)},
                {"counts", Scalar(request.counts)}}};
  UniqueResult result{call.outs[1]};
  const auto ask = [&](bool wanted, const Dims& shape, std::optional<Array>& part) {
    if (!wanted) return;
    part = Array::empty(shape, DType::kInt64, device, op);
    call.outs.push_back(*part);
  };
  ask(request.index, all, result.index);
  ask(request.inverse, x.shape(), result.inverse);
  ask(request.counts, all, result.counts);
  run_on_cpu(std::move(call));
  const std::int64_t count = cpu_count(number);
  result.values = first_elems(result.values, count, op);
  if (result.index) result.index = first_elems(*result.index, count, op);
  if (result.counts) result.counts = first_elems(*result.counts, count, op);
  return result;
}

}  // namespace

UniqueResult unique(const Array& x, const UniqueRequest& request, const char* op) {
  check_compute_dtype(x, "x", op);
  forbid_in_capture(op, "the size of its result depends on the data");
  if (x.size() > 0)
    return x.device().is_cuda() ? unique_on_gpu(x, request, op) : unique_on_cpu(x, request, op);
  const auto none = [&](DType dtype) { return Array::empty({0}, dtype, x.device(), op); };
  UniqueResult result{none(x.dtype())};
  if (request.index) result.index = none(DType::kInt64);
  if (request.inverse) result.inverse = Array::empty(x.shape(), DType::kInt64, x.device(), op);
  if (request.counts) result.counts = none(DType::kInt64);
  return result;
}

Array sorting::select_flagged(const Array& x, const Array& flags, const char* op) {
  forbid_in_capture(op, "the size of its result depends on the data");
  if (x.size() == 0) return Array::empty({0}, x.dtype(), x.device(), op);
  if (x.device().is_cuda()) {
    Compaction selected(contiguous(x, op), contiguous(flags, op), true, op);
    Array values = Array::empty({selected.count()}, x.dtype(), x.device(), op);
    if (values.size() > 0)
      selected.write(values, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    return values;
  }
  const Array number = Array::empty({1}, DType::kInt64, x.device(), op);
  const Array values = Array::empty(x.shape(), x.dtype(), x.device(), op);
  run_on_cpu({"select_flagged", {x, flags}, {values, number}});
  return first_elems(values, cpu_count(number), op);
}

}  // namespace gpk::ops

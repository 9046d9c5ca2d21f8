#include "ops/sorting/complex_sort.h"

#include "core/promote.h"
#include "ops/sorting/gather.h"
#include "ops/sorting/kernels.h"

namespace gpk::ops {
namespace {

// As in gather.cuh.
struct ComplexPartArgs {
  cu::DevicePtr in, index, keys;
  std::int64_t rows, len;
  std::uint32_t part, wide;
  KeyOrder order;
};

// The parts in the order in which they are sorted by: the least important first.
enum class Part : std::uint32_t { kImaginary, kReal, kClass };

Array complex_part(const RowSort& sort, Part part, const std::optional<Array>& index,
                   const char* op) {
  const DType real = real_part_of(sort.keys.dtype());
  Array keys = Array::empty({sort.rows * sort.len}, part == Part::kClass ? DType::kUInt8 : real,
                            sort.keys.device(), op);
  ComplexPartArgs args{};
  args.in = sort.keys.device_ptr();
  args.index = index ? index->device_ptr() : 0;
  args.keys = keys.device_ptr();
  args.rows = sort.rows;
  args.len = sort.len;
  args.part = static_cast<std::uint32_t>(part);
  args.wide = index && index->dtype() == DType::kInt64 ? 1 : 0;
  args.order = key_order(sort.keys.dtype());
  void* params[] = {&args};
  submit_loop(
      sorting_kernel(keys.device(), SortingKernel::kComplexPart, {width_bits(real), 0, false}),
      keys.size(), 256, {&sort.keys, &keys, index ? &*index : nullptr}, params);
  return keys;
}

}  // namespace

// By imaginary part, then real part, then NaN class, each stable.
void sort_complex_rows(const RowSort& sort, const char* op) {
  std::optional<Array> index;
  const Dims shape{sort.rows * sort.len};
  for (const Part part : {Part::kImaginary, Part::kReal, Part::kClass}) {
    RowSort step{complex_part(sort, part, index, op), sort.rows, sort.len, sort.descending};
    step.positions = index;
    const bool direct = part == Part::kClass && sort.positions_out && !sort.positions;
    step.positions_out =
        direct ? *sort.positions_out
               : Array::empty(shape, position_dtype(sort.len), sort.keys.device(), op);
    sort_rows(step, op);
    index = step.positions_out;
  }
  if (sort.positions && sort.positions_out) {
    RowGather gather{*sort.positions, *index, sort.rows, sort.len, sort.len, sort.len};
    gather.out = sort.positions_out;
    gather_rows(gather);
  }
  if (!sort.keys_out) return;
  RowGather gather{sort.keys, *index, sort.rows, sort.len, sort.len, sort.len};
  gather.out = sort.keys_out;
  gather_rows(gather);
}

}  // namespace gpk::ops

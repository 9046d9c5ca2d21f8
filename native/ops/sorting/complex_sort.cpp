#include "ops/sorting/complex_sort.h"

#include "core/promote.h"
#include "kernels/args/sorting.h"
#include "ops/device_address.h"
#include "ops/sorting/gather.h"
#include "ops/sorting/kernels.h"

namespace gpk::ops::sorting {
namespace {

using kernels::ComplexPart;

Array complex_part(const RowSort& sort, ComplexPart part, const std::optional<Array>& index,
                   const char* op) {
  const DType real = real_part_of(sort.keys.dtype());
  Array keys =
      Array::empty({sort.rows * sort.len}, part == ComplexPart::kClass ? DType::kUInt8 : real,
                   sort.keys.device(), op);
  kernels::ComplexPartArgs args{};
  args.in = address(sort.keys);
  args.index = address(index);
  args.keys = address(keys);
  args.rows = sort.rows;
  args.len = sort.len;
  args.part = part;
  args.wide = index && index->dtype() == DType::kInt64 ? 1 : 0;
  args.order = key_order(sort.keys.dtype());
  void* params[] = {&args};
  submit_loop(
      sorting_kernel(keys.device(), SortingKernel::kComplexPart, {width_bits(real), 0, false}),
      keys.size(), 256, {&sort.keys, &keys, index ? &*index : nullptr}, params);
  return keys;
}

}  // namespace

// LSD order: by imaginary part, then real part, then NaN class, each pass stable.
void sort_complex_rows(const RowSort& sort, const char* op) {
  std::optional<Array> index;
  const Dims shape{sort.rows * sort.len};
  for (const ComplexPart part :
       {ComplexPart::kImaginary, ComplexPart::kReal, ComplexPart::kClass}) {
    RowSort step{complex_part(sort, part, index, op), sort.rows, sort.len, sort.descending};
    step.positions = index;
    const bool direct = part == ComplexPart::kClass && sort.positions_out && !sort.positions;
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

}  // namespace gpk::ops::sorting

#include "ops/reduction/scan_launch.h"

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/reduction/layout.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::reduction {
namespace {

using kernels::LineArgs;
using kernels::ScanArgs;

// What selects a kernel.
struct ScanVariant {
  ScanKernel kernel = ScanKernel::kLines;
  bool product = false;
  bool aligned = false;
  ValueType value = ValueType::kDouble;
  DType in = DType::kBool;  // kBool for lines, which are told at run time
};

// Integers of 64 bits add up alike, and bool is a byte.
DType scan_input(DType in) {
  if (in == DType::kBool) return DType::kUInt8;
  return in == DType::kUInt64 ? DType::kInt64 : in;
}

std::uint64_t pack(const ScanVariant& v) {
  return plan::KeyBuilder()
      .field("kernel", v.kernel, 2)
      .field("product", v.product, 1)
      .field("aligned", v.aligned, 1)
      .field("value", v.value, 3)
      .field("in", v.in, plan::kDTypeBits)
      .key();
}

constexpr std::uint8_t kKernelNumber = 16;  // those below are reductions, by ReduceKernel

jit::KernelSpec scan_spec(const ScanVariant& v, const char* op) {
  jit::KernelSpec spec;
  spec.op = op;
  spec.kernel = kKernelNumber;
  spec.variant = pack(v);
  const std::string functor = cat(v.product ? "gpk::Prod<" : "gpk::Sum<", value_name(v.value), ">");
  if (v.kernel == ScanKernel::kLines) {
    spec.file = "reduction/scan_lines.cuh";
    spec.expression = cat("gpk::scan_lines<", functor, ">");
    return spec;
  }
  const bool rows = v.kernel == ScanKernel::kRows;
  spec.file = rows ? "reduction/scan_rows.cuh" : "reduction/scan_chunks.cuh";
  const char* name = rows ? "rows" : (v.kernel == ScanKernel::kTotals ? "totals" : "chunks");
  spec.expression =
      cat("gpk::scan_", name, "<", info(v.in).cuda_name, ", ", functor, ", ", v.aligned, ">");
  // Running totals of chunks need the unaligned rows kernels of the widest types.
  const bool widest =
      v.in == DType::kFloat64 || v.in == DType::kInt64 || v.in == DType::kComplex128;
  const bool common = !v.product && (v.in == DType::kFloat32 || v.in == DType::kInt64);
  spec.bundled = common || (rows && widest && !v.aligned);
  spec.prefetched = common && v.in == DType::kFloat32 && v.aligned;
  return spec;
}

const Kernel& find(Context& context, const ScanVariant& v, const char* op) {
  return kernel(context, {Family::reduction, kKernelNumber, pack(v)},
                [&] { return scan_spec(v, op); });
}

LaunchConfig blocks(std::int64_t count) { return grid_1d(count, 1, kScanBlock); }

void launch_rows(Context& context, const ScanVariant& v, const ScanWork& work, const ScanPlan& plan,
                 ScanArgs args, const Array& x, const Array& out) {
  const Kernel& k = find(context, v, work.op);
  void* params[] = {&args};
  if (plan.kernel == ScanKernel::kRows) {
    submit(k, blocks(plan.num_blocks), {&x, &out}, params);
    return;
  }
  args.chunk = plan.chunk;
  args.num_chunks = plan.num_chunks;
  constexpr std::int64_t kAccBytes = 8;
  const Array totals =
      Array::empty({args.rows * plan.num_chunks * kAccBytes}, DType::kUInt8, x.device(), work.op);
  args.totals = address(totals);
  if (plan.num_chunks > 1) {
    ScanVariant first = v;
    first.kernel = ScanKernel::kTotals;
    submit(find(context, first, work.op), blocks(plan.num_blocks), {&x, &totals}, params);
  }
  submit(k, blocks(plan.num_blocks), {&x, &out, &totals}, params);
}

ValueType wide_value(DType out) {
  if (is_complex(out)) return ValueType::kComplex128;
  return is_float(out) ? ValueType::kDouble : ValueType::kLongLong;
}

DType wide_dtype(ValueType value) {
  if (value == ValueType::kComplex128) return DType::kComplex128;
  return value == ValueType::kDouble ? DType::kFloat64 : DType::kInt64;
}

void launch_lines(Context& context, const ScanWork& work, const ScanPlan& plan, LineArgs args,
                  const Array& x, const Array& out) {
  ScanVariant v;
  v.product = work.product;
  v.value = wide_value(out.dtype());
  const Kernel& k = find(context, v, work.op);
  args.chunk = plan.chunk;
  args.num_chunks = plan.num_chunks;
  void* params[] = {&args};
  if (plan.num_chunks == 1) {
    submit(k, blocks(plan.num_blocks), {&x, &out}, params);
    return;
  }
  const DType wide = wide_dtype(v.value);
  const Array totals = Array::empty({args.layout.kept, plan.num_chunks}, wide, x.device(), work.op);
  args.totals = address(totals);
  args.only_totals = 1;
  submit(k, blocks(plan.num_blocks), {&x, &out, &totals}, params);

  const ScanVariant running{ScanKernel::kRows, work.product, false, v.value, wide};
  ScanArgs rows;
  rows.in = address(totals);
  rows.out = address(totals);
  rows.in_row = rows.out_row = plan.num_chunks;
  rows.rows = args.layout.kept;
  rows.n = plan.num_chunks - 1;
  ScanPlan rows_plan;
  rows_plan.kernel = ScanKernel::kRows;
  rows_plan.num_blocks = ceil_div(rows.rows, kScanBlock / 32);
  launch_rows(context, running, work, rows_plan, rows, totals, totals);

  args.only_totals = 0;
  submit(k, blocks(plan.num_blocks), {&x, &out, &totals}, params);
}

// The same array without one axis, at its first index.
Array without_axis(const Array& array, int axis) {
  Dims shape = Dims::filled(array.ndim() - 1, 0);
  Dims strides = shape;
  for (int i = 0; i < shape.size(); ++i) {
    shape[i] = array.shape()[i < axis ? i : i + 1];
    strides[i] = array.strides()[i < axis ? i : i + 1];
  }
  return {std::move(shape), std::move(strides), array.dtype(), array.buffer(),
          array.offset_elems()};
}

// For more dimensions than kernels take: contiguous copies.
void launch_copied(const ScanWork& work, const Array& x, int axis, const Array& out) {
  const Array in = copy_as(x, x.dtype(), work.op);
  const Array result = Array::empty(out.shape(), out.dtype(), out.device(), work.op);
  launch_scan(work, in, axis, result);
  copy_into(out, result, work.op);
}

bool is_aligned(const void* in, const void* out, std::int64_t in_row, std::int64_t out_row,
                DType from, DType to) {
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(in) | reinterpret_cast<std::uintptr_t>(out);
  const auto in_bytes = static_cast<std::uint64_t>(in_row) * itemsize(from);
  const auto out_bytes = static_cast<std::uint64_t>(out_row) * itemsize(to);
  return ((addresses | in_bytes | out_bytes) & 15u) == 0;
}

}  // namespace

void launch_scan(const ScanWork& work, const Array& x, int axis, const Array& given) {
  const std::int64_t n = x.shape()[axis];
  const Array out = work.include_initial ? slice_axis(given, axis, 1, n, 1) : given;
  const std::int64_t out_step = given.strides()[axis];
  const DeviceAddress out_start = address(given, work.include_initial ? out_step : 0);
  const Collapsed lines =
      collapse(without_axis(x, axis), 0, without_axis(out, axis), /*ordered=*/true);
  if (!lines.fits) {
    launch_copied(work, x, axis, given);
    return;
  }
  const ReduceLayout& layout = lines.layout;
  Context& context = Context::get(x.device().index);
  const auto value = exact_scan_value(work.product, x.dtype(), given.dtype());
  ScanShape shape;
  shape.lines = layout.kept;
  shape.n = n;
  shape.num_sms = context.traits().multiprocessor_count;
  shape.exact = value && jit::jit_available() && layout.num_kept <= 1 &&
                (n == 1 || (x.strides()[axis] == 1 && out_step == 1));
  shape.aligned = is_aligned(x.data(), out_start, layout.kept_in[0], layout.kept_out[0], x.dtype(),
                             given.dtype());
  if (value) shape.tile_elems = scan_tile_elems(x.dtype(), shape.aligned);
  const ScanPlan plan = plan_scan(shape);
  if (plan.kernel == ScanKernel::kLines) {
    LineArgs args;
    args.in = address(x);
    args.out = out_start;
    args.layout = layout;
    args.n = n;
    args.in_step = x.strides()[axis];
    args.out_step = out_step;
    args.in_code = static_cast<std::int32_t>(x.dtype());
    args.out_code = static_cast<std::int32_t>(given.dtype());
    args.skip_nan = work.skip_nan;
    args.initial = work.include_initial;
    launch_lines(context, work, plan, args, x, given);
    return;
  }
  ScanArgs args;
  args.in = address(x);
  args.out = out_start;
  args.in_row = layout.kept_in[0];
  args.out_row = layout.kept_out[0];
  args.rows = layout.kept;
  args.n = n;
  args.skip_nan = work.skip_nan;
  args.initial = work.include_initial;
  launch_rows(context, {plan.kernel, work.product, plan.aligned, *value, scan_input(x.dtype())},
              work, plan, args, x, given);
}

void enumerate_scan(std::vector<jit::KernelSpec>& specs) {
  constexpr DType kInputs[] = {DType::kUInt8,    DType::kInt32,   DType::kInt64,  DType::kFloat16,
                               DType::kBFloat16, DType::kFloat32, DType::kFloat64};
  for (const bool product : {false, true}) {
    const char* op = product ? "cumprod" : "cumsum";
    for (const ValueType value :
         {ValueType::kDouble, ValueType::kLongLong, ValueType::kComplex128}) {
      specs.push_back(scan_spec({ScanKernel::kLines, product, false, value, DType::kBool}, op));
      specs.push_back(scan_spec({ScanKernel::kRows, product, false, value, wide_dtype(value)}, op));
    }
    for (const DType in : kInputs) {
      const DType out = is_float(in) ? in : DType::kInt64;
      const auto value = exact_scan_value(product, in, out);
      if (!value) continue;
      const bool listed = in == DType::kFloat64 || in == DType::kInt64;
      for (const ScanKernel kernel : {ScanKernel::kRows, ScanKernel::kTotals, ScanKernel::kChunks})
        for (const bool aligned : {false, true})
          if (!(listed && kernel == ScanKernel::kRows && !aligned))
            specs.push_back(scan_spec({kernel, product, aligned, *value, in}, op));
    }
  }
}

}  // namespace gpk::ops::reduction

#include "ops/reduction/launch.h"

#include "core/context.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/counters.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"

namespace gpk::ops::reduction {
namespace {

// The largest accumulator of a functor.
constexpr std::int64_t kPartialBytes = 32;

Variant choose(const ReduceWork& work, DType in, DType out, const ReducePlan& plan) {
  if (plan.kernel == ReduceKernel::kGeneral)
    return {plan.kernel, work.functor, general_value(work.functor, in, class_of(out)),
            DType::kBool};
  return {plan.kernel, work.functor, *exact_value(work.functor, in), in};
}

// Whether the kernels for the input's dtype give this result: not where the result is wider than
// what they add up in, or of another class.
bool is_exact(const ReduceWork& work, DType in, DType out) {
  if (!jit::jit_available() || !exact_value(work.functor, in)) return false;
  const bool wider = in != out && (out == DType::kFloat64 || out == DType::kComplex128);
  if (work.functor == Functor::kVar || work.functor == Functor::kNanMean)
    return class_of(in) == ResultClass::kInteger || !wider || in == DType::kComplex128;
  if (work.functor != Functor::kSum && work.functor != Functor::kProd) return true;
  if (class_of(in) == ResultClass::kInteger)
    return class_of(out) == ResultClass::kInteger ||
           (work.mode == FinishMode::kMean && info(in).bits < 64);
  return !wider;
}

// For more dimensions than kernels take: the reduced axes last, everything contiguous.
void launch_copied(const ReduceWork& work, const Array& x, std::uint32_t axes, const Array& out) {
  std::int64_t order[kMaxRank];
  std::size_t count = 0;
  for (const bool reduced : {false, true})
    for (int axis = 0; axis < x.ndim(); ++axis)
      if (((axes >> axis & 1u) != 0) == reduced) order[count++] = axis;
  const Dims permutation(std::span<const std::int64_t>(order, count));
  const Array moved = contiguous(permute(x, permutation, work.op), work.op);
  const auto low = static_cast<std::uint32_t>((std::uint64_t{1} << out.ndim()) - 1);
  const auto all = static_cast<std::uint32_t>((std::uint64_t{1} << x.ndim()) - 1);
  if (out.is_contiguous()) {
    launch_reduce(work, moved, all & ~low, out);
    return;
  }
  const Array result = Array::empty(out.shape(), out.dtype(), out.device(), work.op);
  launch_reduce(work, moved, all & ~low, result);
  copy_into(out, result, work.op);
}

std::size_t alignment_of(std::uintptr_t address) {
  return static_cast<std::size_t>(address & (~address + 1));
}

}  // namespace

void launch_reduce(const ReduceWork& work, const Array& x, std::uint32_t axes, const Array& out) {
  const Collapsed collapsed = collapse(x, axes, out, work.ordered);
  if (!collapsed.fits) {
    launch_copied(work, x, axes, out);
    return;
  }
  Context& context = Context::get(x.device().index);
  const auto item = static_cast<std::int64_t>(itemsize(x.dtype()));
  const auto start = static_cast<std::uintptr_t>(x.device_ptr()) +
                     static_cast<std::uintptr_t>(collapsed.in_offset * item);
  const ReducePlan plan =
      plan_reduce(collapsed.layout, itemsize(x.dtype()), alignment_of(start),
                  is_exact(work, x.dtype(), out.dtype()), context.traits().multiprocessor_count);
  const Variant variant = choose(work, x.dtype(), out.dtype(), plan);
  const Kernel& k =
      kernel(context, {Family::reduction, static_cast<std::uint8_t>(plan.kernel), pack(variant)},
             [&] { return reduce_spec(variant, work.op); });

  kernels::ReduceArgs args{};
  args.in = address(x) + collapsed.in_offset * item;
  args.out = address(out);
  args.layout = collapsed.layout;
  args.finish = {collapsed.layout.reduced, work.correction, static_cast<std::int32_t>(out.dtype()),
                 work.mode};
  args.per_split = plan.per_split;
  args.in_code = static_cast<std::int32_t>(x.dtype());
  args.skip_nan = work.skip_nan && class_of(x.dtype()) != ResultClass::kInteger;
  args.segments = plan.segments;
  args.group = plan.group;
  args.lanes = plan.lanes;
  args.short_rows = plan.short_rows;

  LaunchConfig config;
  config.grid[0] = plan.num_tiles;
  config.grid[1] = plan.num_splits;
  config.block[0] = plan.block[0];
  config.block[1] = plan.block[1];
  void* params[] = {&args};
  if (plan.num_splits == 1) {
    submit(k, config, {&x, &out}, params);
    return;
  }
  const Array partials = Array::empty({collapsed.layout.kept * plan.num_splits * kPartialBytes},
                                      DType::kUInt8, x.device(), work.op);
  const Array counters = zeroed_counters(x.device(), kMaxSplitTiles);
  args.partials = address(partials);
  args.counters = address(counters);
  submit(k, config, {&x, &out, &partials, &counters}, params);
}

}  // namespace gpk::ops::reduction

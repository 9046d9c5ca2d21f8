#include "ops/fft/launch.h"

#include <algorithm>

#include "core/view.h"
#include "jit/builtin.h"
#include "ops/elementwise/copy.h"
#include "ops/fft/layout.h"
#include "ops/fft/passes.h"
#include "plan/plan_cache.h"

namespace gpk::ops::fft {
namespace {

using kernels::FftTwist;

using FftKey = plan::PlanKey<3>;
using FftPlans = plan::PlanCache<FftKey, FftPlan>;

std::shared_ptr<const FftPlan> planned(const FftDesc& desc, const FftLimits& limits) {
  FftKey key;
  key.add(static_cast<std::uint64_t>(desc.n));
  key.add(limits.shared_bytes);
  key.add(static_cast<std::uint64_t>(desc.kind) | static_cast<std::uint64_t>(desc.wide) << 8 |
          static_cast<std::uint64_t>(desc.in_row) << 9 |
          static_cast<std::uint64_t>(desc.out_row) << 10 |
          static_cast<std::uint64_t>(limits.general) << 11);
  if (auto found = FftPlans::find(key)) return found;
  return FftPlans::make(key,
                        [&] { return std::make_shared<const FftPlan>(plan_fft(desc, limits)); });
}

// y[k] = c[k] times the convolution of c x with conj(c), where c[i] = e^(-pi i i^2 / n).
void launch_bluestein(const FftTarget& target, const FftPlan& plan, FftEnds ends) {
  const std::int64_t m = plan.length;
  const Array filter = scratch_for(target, {}, m);
  FftEnds made;
  made.out = &filter;
  made.coords = {{1, 0, 0, 0, 0}};
  made.valid = made.count = made.length = static_cast<int>(m);
  made.chirp_n = ends.chirp_n;
  made.scale_re = made.scale_im = 1.0 / static_cast<double>(m);
  launch_passes(target, plan.filter, made);

  ends.table = &filter;
  if (plan.passes.size() == 1) {
    ends.chirp_in = true;
    ends.twist = FftTwist::kChirp;
    ends.rounds = 2;
    launch_passes(target, plan.passes, ends);
    return;
  }
  const Array spectrum = scratch_for(target, ends.coords, m);
  FftEnds forward = ends;
  forward.out = &spectrum;
  forward.out_stride = 1;
  forward.coords = to_scratch(ends.coords, m);
  forward.count = static_cast<int>(m);
  forward.chirp_in = true;
  forward.twist = FftTwist::kTable;
  forward.scale_re = 1.0;
  forward.scale_im = -1.0;
  std::vector<FftPass> passes = plan.passes;
  passes.back().put = FftPut::kComplex;
  launch_passes(target, passes, forward);

  FftEnds back = ends;
  back.in = &spectrum;
  back.in_stride = 1;
  back.coords = from_scratch(ends.coords, m);
  back.valid = static_cast<int>(m);
  back.sign = 1.0;
  back.twist = FftTwist::kChirp;
  passes = plan.passes;
  passes.front().fetch = FftFetch::kComplex;
  launch_passes(target, passes, back);
}

// Pairs of reals are aligned in every transform.
bool has_pairs(const Array& array, int axis) {
  const std::size_t bytes = 2 * itemsize(array.dtype());
  if (reinterpret_cast<std::uintptr_t>(array.data()) % bytes != 0) return false;
  for (int d = 0; d < array.ndim(); ++d)
    if (d != axis && array.shape()[d] > 1 && array.strides()[d] % 2 != 0) return false;
  return true;
}

Dims with_axis_last(int ndim, int axis) {
  Dims order = Dims::filled(ndim, 0);
  for (int d = 0, next = 0; d < ndim; ++d)
    if (d != axis) order[next++] = d;
  order[ndim - 1] = axis;
  return order;
}

FftDesc desc_of(const AxisTransform& transform, const AxisLayout& layout, bool wide) {
  return {transform.kind, transform.n, wide, layout.in_row, layout.out_row};
}

void run(const Array& in, const Array& out, const AxisTransform& transform,
         const AxisLayout& layout, const FftPlan& plan, const FftTarget& target) {
  const auto n = static_cast<int>(transform.n);
  const bool to_real = transform.kind == FftKind::kToReal;
  FftEnds ends;
  ends.in = &in;
  ends.out = &out;
  ends.coords = layout.coords;
  ends.in_stride = layout.in_stride;
  ends.out_stride = layout.out_stride;
  ends.in_pairs = plan.fetch == FftFetch::kPacked && has_pairs(in, transform.axis);
  ends.out_pairs = plan.put == FftPut::kPacked && has_pairs(out, transform.axis);
  ends.valid =
      static_cast<int>(std::min<std::int64_t>(in.shape()[transform.axis], to_real ? n / 2 + 1 : n));
  ends.count = transform.kind == FftKind::kFromReal ? n / 2 + 1
               : plan.put == FftPut::kPacked        ? n / 2
                                                    : n;
  ends.length = plan.bluestein ? n : plan.length;
  ends.chirp_n = plan.bluestein ? static_cast<unsigned>(n) : 0;
  ends.sign = transform.conj_in ? -1.0 : 1.0;
  ends.scale_re = transform.scale;
  ends.scale_im = transform.conj_out ? -transform.scale : transform.scale;
  if (plan.bluestein) {
    launch_bluestein(target, plan, std::move(ends));
  } else if (plan.merge) {
    FftEnds pairs = ends;
    pairs.count = plan.length;
    pairs.scale_re = pairs.scale_im = 1.0;
    launch_passes(target, plan.passes, pairs);
    launch_merge(target, plan.length, ends);
  } else {
    launch_passes(target, plan.passes, ends);
  }
}

}  // namespace

FftLimits limits_of(Device device) {
  constexpr std::size_t kSharedOfH200 = 232448;
  if (!device.is_cuda()) return {kSharedOfH200, false};
  return {device_traits(device).shared_per_block_optin_bytes, !jit::jit_available()};
}

void launch_axis(const Array& in, const Array& out, const AxisTransform& transform,
                 const FftLimits& limits, const char* op,
                 const std::function<void(FftLaunch&)>& submit) {
  const bool wide = itemsize(out.dtype()) == 16 || out.dtype() == DType::kFloat64;
  const FftTarget target{wide, in.device(), op, submit};
  const AxisLayout layout = layout_of(in, out, transform.axis);
  const auto plan = planned(desc_of(transform, layout, wide), limits);
  const bool one = plan->passes.size() == 1;
  const bool fits = layout.coords.size() <= (one ? kernels::kFftMaxCoords : 2);
  const bool coalesced = one ? layout.in_row || layout.in_column : layout.in_row && layout.out_row;
  if (fits && coalesced) {
    run(in, out, transform, layout, *plan, target);
    return;
  }
  // Copies with the axis last: every transform is a row then.
  const Dims order = with_axis_last(in.ndim(), transform.axis);
  const Array from = contiguous(permute(in, order, op), op);
  const Array view = permute(out, order, op);
  const bool direct = view.is_contiguous();
  const Array to = direct ? view : Array::empty(view.shape(), out.dtype(), out.device(), op);
  AxisTransform moved = transform;
  moved.axis = in.ndim() - 1;
  const AxisLayout rows = layout_of(from, to, moved.axis);
  run(from, to, moved, rows, *planned(desc_of(moved, rows, wide), limits), target);
  if (!direct) copy_into(view, to, op);
}

}  // namespace gpk::ops::fft

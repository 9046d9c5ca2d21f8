#include "ops/linalg/jacobi.h"

#include <limits>
#include <numeric>

#include "core/promote.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/elementwise/copy.h"
#include "ops/indexing/take.h"
#include "ops/linalg/stack.h"
#include "ops/matmul/gemm_call.h"
#include "ops/reduction/reduce.h"

namespace gpk::ops::linalg {
namespace {

// For each place of `after`, the place of that block in `before`, column by column.
void append_columns(std::vector<std::int64_t>& order, const std::vector<std::int64_t>& before,
                    const std::vector<std::int64_t>& after, std::int64_t width) {
  std::vector<std::int64_t> place(before.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    place[static_cast<std::size_t>(before[i])] = static_cast<std::int64_t>(i);
  for (const std::int64_t block : after)
    for (std::int64_t i = 0; i < width; ++i)
      order.push_back(place[static_cast<std::size_t>(block)] * width + i);
}

Array column_orders(const JacobiPlan& plan, Device device) {
  const auto rounds = tournament_rounds(plan.pairs);
  std::vector<std::int64_t> identity(rounds[0].size());
  std::iota(identity.begin(), identity.end(), 0);
  std::vector<std::int64_t> order;
  const std::int64_t width = plan.pair_order / 2;
  append_columns(order, identity, rounds[0], width);
  for (std::size_t i = 0; i < rounds.size(); ++i)
    append_columns(order, rounds[i], rounds[(i + 1) % rounds.size()], width);
  const auto count = static_cast<std::int64_t>(rounds.size()) + 1;
  const auto columns = static_cast<std::int64_t>(order.size()) / count;
  return device::from_host(order.data(), {count, columns}, DType::kInt64, device);
}

}  // namespace

Array column_pairs(const Array& a, const JacobiPlan& plan, const char* op) {
  const Dims shape{a.shape()[0], rows(a), plan.pairs, plan.pair_order};
  return permute(*try_reshape(a, shape), {0, 2, 1, 3}, op);
}

Array rotate_columns(const Array& a, const Array& v, const JacobiPlan& plan, const char* op) {
  const Array result = Array::empty(a.shape(), a.dtype(), a.device(), op);
  const Array by = reshape(v, {a.shape()[0], plan.pairs, plan.pair_order, plan.pair_order}, op);
  product_into(column_pairs(result, plan, op), column_pairs(a, plan, op), by, op);
  return result;
}

Tournament::Tournament(const JacobiPlan& plan, Device device)
    : rounds_(2 * plan.pairs - 1), order_(column_orders(plan, device)) {}

Array Tournament::begin(const Array& a, int axis) const { return next(a, axis, -1); }

Array Tournament::next(const Array& a, int axis, std::int64_t round) const {
  if (rounds_ == 1) return a;
  const Array order = reshape(slice_axis(order_, 0, round + 1, 1, 1), {a.shape()[axis]}, "take");
  return take(a, order, axis, IndexMode::kRaise, std::nullopt);
}

bool JacobiProgress::converged(double off, double floor, double limit) {
  ++sweeps_;
  const bool stuck = sweeps_ > 2 && off > last_ / 2 && off <= limit;
  last_ = off;
  return off <= floor || stuck;
}

double epsilon_of(DType dtype) {
  return real_part_of(dtype) == DType::kFloat32 ? std::numeric_limits<float>::epsilon()
                                                : std::numeric_limits<double>::epsilon();
}

double read_largest(const Array& values, const char* op) {
  const Array largest = cast(reduce(OpId::max, values), DType::kFloat64, op);
  double value = 0.0;
  device::to_host(largest, &value);
  return value;
}

}  // namespace gpk::ops::linalg

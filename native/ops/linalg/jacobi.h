// What the block Jacobi methods share: pairs of blocks of columns as batches of GEMMs.
#pragma once

#include "core/array.h"
#include "ops/linalg/plan.h"

namespace gpk::ops::linalg {

// Columns of the pairs of a stack: [batch, pairs, rows, pair_order], a view.
Array column_pairs(const Array& a, const JacobiPlan& plan, const char* op);

// a[..., columns of a pair] times that pair's matrix, v [batch * pairs, pair_order, pair_order].
Array rotate_columns(const Array& a, const Array& v, const JacobiPlan& plan, const char* op);

// Moves blocks of columns from round to round.
class Tournament {
 public:
  Tournament(const JacobiPlan& plan, Device device);
  [[nodiscard]] std::int64_t rounds() const noexcept { return rounds_; }
  // Rows or columns of `a` in the order of the first round, then from `round` to the one after it
  // (the first one after the last).
  [[nodiscard]] Array begin(const Array& a, int axis) const;
  [[nodiscard]] Array next(const Array& a, int axis, std::int64_t round) const;

 private:
  std::int64_t rounds_;
  Array order_;  // int64 [1 + rounds, columns]: the column that comes to each place
};

// Decides after each sweep, by the largest element that it found off the diagonal.
class JacobiProgress {
 public:
  // `floor` is what rounding errors amount to; up to `limit` a method that makes no progress is
  // taken to have converged.
  bool converged(double off, double floor, double limit);
  [[nodiscard]] bool exhausted() const noexcept { return sweeps_ >= kMaxSweeps; }

 private:
  static constexpr int kMaxSweeps = 30;
  int sweeps_ = 0;
  double last_ = 0.0;
};

double epsilon_of(DType dtype);
// The largest element, in double. Waits.
double read_largest(const Array& values, const char* op);

}  // namespace gpk::ops::linalg

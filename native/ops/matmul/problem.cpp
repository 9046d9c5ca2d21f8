#include "ops/matmul/problem.h"

#include <utility>
#include <vector>

namespace gpk::ops::gemm {
namespace {

void push(Dims& dims, std::int64_t value) {
  Dims longer = Dims::filled(dims.size() + 1, value);
  std::copy(dims.begin(), dims.end(), longer.data());
  dims = std::move(longer);
}

void pop(Dims& dims) { dims = Dims(dims.span().first(static_cast<std::size_t>(dims.size() - 1))); }

Dims leading(const Dims& dims) {
  return Dims(dims.span().first(static_cast<std::size_t>(dims.size() - 2)));
}

// Everything that has batches: A, B, C and the extras, each a MatmulExtra (A has no n, B no m).
class Joiner {
 public:
  Joiner(std::int64_t m, std::int64_t n, std::vector<MatmulExtra> operands)
      : m_(m), n_(n), operands_(std::move(operands)), joined_(operands_.size()) {}

  void run(const Dims& batch_shape) {
    for (int d = 0; d < batch_shape.size(); ++d)
      if (batch_shape[d] != 1) append_batch(batch_shape[d], d);
    while (!shape_.empty() && last_joins(&MatmulExtra::has_m, &MatmulExtra::m, m_))
      join_last(&MatmulExtra::m, m_);
    while (!shape_.empty() && last_joins(&MatmulExtra::has_n, &MatmulExtra::n, n_))
      join_last(&MatmulExtra::n, n_);
    for (std::size_t i = 0; i < operands_.size(); ++i) operands_[i].batch = joined_[i];
  }

  [[nodiscard]] std::int64_t m() const { return m_; }
  [[nodiscard]] std::int64_t n() const { return n_; }
  [[nodiscard]] const Dims& shape() const { return shape_; }
  [[nodiscard]] MatmulExtra& operand(std::size_t i) { return operands_[i]; }

 private:
  // Adds dimension d inside those there are, or joins it to the last of them.
  void append_batch(std::int64_t size, int d) {
    const int last = shape_.size() - 1;
    bool together = last >= 0;
    for (std::size_t i = 0; i < operands_.size() && together; ++i)
      together = joined_[i][last] == operands_[i].batch[d] * size;
    if (together) {
      shape_[last] *= size;
      for (std::size_t i = 0; i < operands_.size(); ++i) joined_[i][last] = operands_[i].batch[d];
      return;
    }
    push(shape_, size);
    for (std::size_t i = 0; i < operands_.size(); ++i) push(joined_[i], operands_[i].batch[d]);
  }

  // Whether the innermost batch counts on where the rows (or columns) of every operand end.
  [[nodiscard]] bool last_joins(bool MatmulExtra::* has, std::int64_t MatmulExtra::* stride,
                                std::int64_t size) const {
    const int last = shape_.size() - 1;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const std::int64_t step = joined_[i][last];
      if (operands_[i].*has ? size != 1 && step != operands_[i].*stride * size : step != 0)
        return false;
    }
    return true;
  }

  void join_last(std::int64_t MatmulExtra::* stride, std::int64_t& size) {
    const int last = shape_.size() - 1;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (size == 1) operands_[i].*stride = joined_[i][last];
      pop(joined_[i]);
    }
    size *= shape_[last];
    pop(shape_);
  }

  std::int64_t m_, n_;
  std::vector<MatmulExtra> operands_;
  Dims shape_;
  std::vector<Dims> joined_;
};

}  // namespace

std::int64_t MatmulProblem::num_batches() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t size : batch_shape) count *= size;
  return count;
}

MatmulProblem transposed(const MatmulProblem& problem) {
  MatmulProblem t = problem;
  std::swap(t.m, t.n);
  t.a_m = problem.b_n;
  t.a_k = problem.b_k;
  t.b_k = problem.a_k;
  t.b_n = problem.a_m;
  std::swap(t.c_m, t.c_n);
  std::swap(t.batch_a, t.batch_b);
  return t;
}

MatmulProblem make_problem(const Array& a, const Array& b, const Array& c,
                           std::span<MatmulExtra> extras) {
  const int rank = c.ndim();
  const auto operand = [rank](const Array& x, bool has_m, bool has_n) {
    return MatmulExtra{has_m, has_n, has_m ? x.strides()[rank - 2] : 0,
                       has_n ? x.strides()[rank - 1] : 0, leading(x.strides())};
  };
  std::vector<MatmulExtra> operands{operand(a, true, false), operand(b, false, true),
                                    operand(c, true, true)};
  operands.insert(operands.end(), extras.begin(), extras.end());
  Joiner joiner(c.shape()[rank - 2], c.shape()[rank - 1], std::move(operands));
  joiner.run(leading(c.shape()));
  MatmulProblem p;
  p.m = joiner.m();
  p.n = joiner.n();
  p.k = a.shape()[rank - 1];
  p.a_m = joiner.operand(0).m;
  p.a_k = a.strides()[rank - 1];
  p.b_k = b.strides()[rank - 2];
  p.b_n = joiner.operand(1).n;
  p.c_m = joiner.operand(2).m;
  p.c_n = joiner.operand(2).n;
  p.batch_shape = joiner.shape();
  p.batch_a = joiner.operand(0).batch;
  p.batch_b = joiner.operand(1).batch;
  p.batch_c = joiner.operand(2).batch;
  for (std::size_t i = 0; i < extras.size(); ++i) extras[i] = joiner.operand(3 + i);
  return p;
}

}  // namespace gpk::ops::gemm

#include "ops/matmul/problem.h"

#include <utility>

namespace gpk::ops {
namespace {

void push(Dims& dims, std::int64_t value) {
  Dims longer = Dims::filled(dims.size() + 1, value);
  std::copy(dims.begin(), dims.end(), longer.data());
  dims = std::move(longer);
}

void pop(Dims& dims) { dims = Dims(dims.span().first(static_cast<std::size_t>(dims.size() - 1))); }

void pop_batch(MatmulProblem& p) {
  pop(p.batch_shape);
  pop(p.batch_a);
  pop(p.batch_b);
  pop(p.batch_c);
}

// Adds one more batch dimension, inside those there are, or joins it to the last of them.
void append_batch(MatmulProblem& p, std::int64_t size, std::int64_t a, std::int64_t b,
                  std::int64_t c) {
  if (size == 1) return;
  const int last = p.batch_shape.size() - 1;
  if (last >= 0 && p.batch_a[last] == a * size && p.batch_b[last] == b * size &&
      p.batch_c[last] == c * size) {
    p.batch_shape[last] *= size;
    p.batch_a[last] = a;
    p.batch_b[last] = b;
    p.batch_c[last] = c;
    return;
  }
  push(p.batch_shape, size);
  push(p.batch_a, a);
  push(p.batch_b, b);
  push(p.batch_c, c);
}

// True when index `outer` of `outer_stride` and index `inner` of `inner_stride` count as one.
bool joins(std::int64_t outer_stride, std::int64_t inner_stride, std::int64_t inner_size) {
  return inner_size == 1 || outer_stride == inner_stride * inner_size;
}

void join_batch_with_rows(MatmulProblem& p) {
  while (!p.batch_shape.empty()) {
    const int last = p.batch_shape.size() - 1;
    if (p.batch_b[last] != 0 || !joins(p.batch_a[last], p.a_m, p.m) ||
        !joins(p.batch_c[last], p.c_m, p.m))
      return;
    if (p.m == 1) {
      p.a_m = p.batch_a[last];
      p.c_m = p.batch_c[last];
    }
    p.m *= p.batch_shape[last];
    pop_batch(p);
  }
}

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

MatmulProblem make_problem(const Array& a, const Array& b, const Array& c) {
  const int rank = c.ndim();
  MatmulProblem p;
  p.m = c.shape()[rank - 2];
  p.n = c.shape()[rank - 1];
  p.k = a.shape()[rank - 1];
  p.a_m = a.strides()[rank - 2];
  p.a_k = a.strides()[rank - 1];
  p.b_k = b.strides()[rank - 2];
  p.b_n = b.strides()[rank - 1];
  p.c_m = c.strides()[rank - 2];
  p.c_n = c.strides()[rank - 1];
  for (int d = 0; d < rank - 2; ++d)
    append_batch(p, c.shape()[d], a.strides()[d], b.strides()[d], c.strides()[d]);
  join_batch_with_rows(p);
  p = transposed(p);
  join_batch_with_rows(p);
  return transposed(p);
}

}  // namespace gpk::ops

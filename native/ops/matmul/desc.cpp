#include "ops/matmul/desc.h"

#include <algorithm>
#include <utility>

#include "core/promote.h"
#include "core/text.h"

namespace gpk::ops {
namespace {

constexpr std::int64_t kMaxAlign = 16;

std::int64_t round_up(std::int64_t x) { return (x + kMaxAlign - 1) / kMaxAlign * kMaxAlign; }

// A dimension of one element may have any stride: one that makes the other dimension the unit one,
// or the other's pitch.
void settle(std::int64_t outer, std::int64_t inner, std::int64_t& outer_stride,
            std::int64_t& inner_stride) {
  if (outer == 1) {
    if (inner == 1) inner_stride = 1;
    outer_stride = inner_stride == 1 ? round_up(inner) : 1;
  } else if (inner == 1) {
    inner_stride = outer_stride == 1 ? round_up(outer) : 1;
  }
}

std::uint8_t alignment(const Array& array, std::int64_t outer_stride, std::int64_t inner_stride,
                       const Dims& batch) {
  const auto bytes = static_cast<std::int64_t>(itemsize(array.dtype()));
  auto bits = static_cast<std::uint64_t>(array.device_ptr()) | kMaxAlign;
  for (const std::int64_t stride : {outer_stride, inner_stride})
    if (stride != 1) bits |= static_cast<std::uint64_t>(stride * bytes);
  for (const std::int64_t stride : batch) bits |= static_cast<std::uint64_t>(stride * bytes);
  return static_cast<std::uint8_t>(bits & (~bits + 1));
}

// Strides of a vector that belongs to the rows (or columns) of C: see Epilogue.
MatmulExtra vector_extra(const Array& x, const Product& product, bool of_rows) {
  const int batch_rank = product.c.ndim() - 2;
  MatmulExtra extra{of_rows, !of_rows, 0, 0, Dims::filled(batch_rank, 0)};
  if (x.size() == 1) return extra;
  (of_rows ? extra.m : extra.n) = x.strides()[x.ndim() - 1];
  if (x.ndim() == batch_rank + 1)
    for (int d = 0; d < batch_rank; ++d) extra.batch[d] = x.strides()[d];
  return extra;
}

MatmulExtra residual_extra(const Array& x) {
  const int rank = x.ndim();
  return {true, true, x.strides()[rank - 2], x.strides()[rank - 1],
          Dims(x.strides().span().first(static_cast<std::size_t>(rank - 2)))};
}

// One step from batch to batch, counted over all of them.
bool flatten(const Dims& shape, const Dims& strides, std::int64_t* step) {
  *step = shape.empty() ? 0 : strides[shape.size() - 1];
  for (int d = 0; d + 1 < shape.size(); ++d)
    if (strides[d] != strides[d + 1] * shape[d + 1]) return false;
  return true;
}

bool is_still(const MatmulExtra& extra) {
  return std::all_of(extra.batch.begin(), extra.batch.end(), [](std::int64_t x) { return x == 0; });
}

DescFit join(const Product& product, MatmulDesc& desc) {
  enum { kResidual, kScaleA, kScaleB, kBias, kNumExtras };
  const Epilogue& e = product.epilogue;
  const Dims still = Dims::filled(product.c.ndim() - 2, 0);
  MatmulExtra extras[kNumExtras];
  for (MatmulExtra& extra : extras) extra.batch = still;  // absent: fits anything
  const bool residual = (desc.epilogue & kEpilogueResidual) != 0;
  if (residual) extras[kResidual] = residual_extra(*e.residual);
  if (e.scale_a) extras[kScaleA] = vector_extra(*e.scale_a, product, true);
  if (e.scale_b) extras[kScaleB] = vector_extra(*e.scale_b, product, false);
  if (e.bias) extras[kBias] = vector_extra(*e.bias, product, false);
  desc.problem = make_problem(product.a, product.b, product.c,
                              desc.epilogue == 0 ? std::span<MatmulExtra>{} : std::span(extras));
  const Dims& shape = desc.problem.batch_shape;
  if (shape.size() > kMaxMatmulBatchRank) return DescFit::kManyBatches;
  if (desc.epilogue == 0) return DescFit::kFits;
  desc.steps = {extras[kBias].n,     extras[kScaleA].m,   extras[kScaleB].n,
                extras[kResidual].m, extras[kResidual].n, 0};
  if (!is_still(extras[kScaleA]) || !is_still(extras[kScaleB])) return DescFit::kScales;
  if (residual) {
    if (!flatten(shape, extras[kResidual].batch, &desc.steps.residual_batch))
      return DescFit::kResidual;
    desc.align_residual = alignment(*e.residual, desc.steps.residual_m, desc.steps.residual_n,
                                    Dims{desc.steps.residual_batch});
  }
  if (e.bias) desc.align_bias = alignment(*e.bias, 1, 1, {});
  return DescFit::kFits;
}

}  // namespace

DType accumulator(DType operand) {
  switch (operand) {
    case DType::kInt8:
    case DType::kInt16: return DType::kInt32;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kUInt16: return DType::kUInt32;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2: return DType::kFloat32;
    default: return operand;
  }
}

MatmulDesc make_desc(const Product& product, DescFit* fit) {
  MatmulDesc desc;
  desc.dtype_a = product.a.dtype();
  desc.dtype_b = product.b.dtype();
  desc.dtype_c = product.c.dtype();
  desc.dtype_acc = accumulator(desc.dtype_a);
  desc.epilogue = epilogue_flags(product.epilogue);
  desc.conjugate = product.conjugate;
  desc.tf32 = product.tf32;
  desc.batch_invariant = product.batch_invariant;
  desc.fast_accum = product.fast_accum;
  const DescFit fits = join(product, desc);
  if (fit != nullptr) *fit = fits;
  MatmulProblem& p = desc.problem;
  settle(p.m, p.k, p.a_m, p.a_k);
  settle(p.n, p.k, p.b_n, p.b_k);
  settle(p.m, p.n, p.c_m, p.c_n);
  desc.align_a = alignment(product.a, p.a_m, p.a_k, p.batch_a);
  desc.align_b = alignment(product.b, p.b_n, p.b_k, p.batch_b);
  desc.align_c = alignment(product.c, p.c_m, p.c_n, p.batch_c);
  return desc;
}

MatmulDesc raw_desc(const MatmulDesc& desc) {
  MatmulDesc raw = desc;
  MatmulProblem& p = raw.problem;
  raw.dtype_c = desc.dtype_acc;
  raw.epilogue = 0;
  raw.steps = {};
  raw.align_residual = raw.align_bias = kMaxAlign;
  p.c_m = p.n;
  p.c_n = 1;
  settle(p.m, p.n, p.c_m, p.c_n);
  std::int64_t step = p.m * p.n;
  for (int d = p.batch_shape.size() - 1; d >= 0; --d) {
    p.batch_c[d] = step;
    step *= p.batch_shape[d];
  }
  const auto bytes = static_cast<std::uint64_t>(itemsize(raw.dtype_acc));
  auto bits = static_cast<std::uint64_t>(kMaxAlign);
  if (p.m > 1 && p.n > 1) bits |= static_cast<std::uint64_t>(p.c_m) * bytes;
  if (!p.batch_c.empty()) bits |= static_cast<std::uint64_t>(p.m * p.n) * bytes;
  raw.align_c = static_cast<std::uint8_t>(bits & (~bits + 1));
  return raw;
}

MatmulDesc transposed(const MatmulDesc& desc) {
  MatmulDesc t = desc;
  t.problem = transposed(desc.problem);
  std::swap(t.dtype_a, t.dtype_b);
  std::swap(t.align_a, t.align_b);
  return t;
}

namespace {

std::string matrix_text(const char* label, DType dtype, std::int64_t row, std::int64_t column,
                        const Dims& batch, unsigned align) {
  return cat(", ", label, "=", name(dtype), "[", row, ", ", column, "]",
             batch.empty() ? std::string() : cat(" batch ", to_string(batch)), " align ", align);
}

std::string epilogue_text(unsigned flags) {
  std::string text;
  const auto add = [&](const char* part) { text += text.empty() ? part : cat("+", part); };
  if ((flags & kEpilogueAlpha) != 0) add("alpha");
  if ((flags & kEpilogueScales) != 0) add("scales");
  if ((flags & kEpilogueBias) != 0) add("bias");
  if (activation_of(flags) != Activation::kNone) add(name(activation_of(flags)));
  if ((flags & kEpilogueResidual) != 0) add("residual");
  return text.empty() ? "none" : text;
}

}  // namespace

std::string to_string(const MatmulDesc& desc) {
  const MatmulProblem& p = desc.problem;
  std::string text = cat("m=", p.m, " n=", p.n, " k=", p.k);
  if (!p.batch_shape.empty()) text += cat(" batch=", to_string(p.batch_shape));
  text += matrix_text("a", desc.dtype_a, p.a_m, p.a_k, p.batch_a, desc.align_a);
  text += matrix_text("b", desc.dtype_b, p.b_k, p.b_n, p.batch_b, desc.align_b);
  text += matrix_text("c", desc.dtype_c, p.c_m, p.c_n, p.batch_c, desc.align_c);
  text += cat(", sums ", name(desc.dtype_acc), ", epilogue ", epilogue_text(desc.epilogue));
  if (desc.conjugate) text += ", conjugate";
  if (desc.tf32) text += ", tf32";
  if (desc.batch_invariant) text += ", batch_invariant";
  if (desc.fast_accum) text += ", fast_accum";
  return text;
}

}  // namespace gpk::ops

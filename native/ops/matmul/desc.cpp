#include "ops/matmul/desc.h"

#include <algorithm>
#include <utility>

#include "base/round_up.h"
#include "base/text.h"

namespace gpk::ops::gemm {
namespace {

constexpr std::int64_t kMaxAlign = 16;

// A dimension of one element may have any stride: one that makes the other dimension the unit one,
// or the other's pitch.
void settle(std::int64_t outer, std::int64_t inner, std::int64_t& outer_stride,
            std::int64_t& inner_stride) {
  if (outer == 1) {
    if (inner == 1) inner_stride = 1;
    outer_stride = inner_stride == 1 ? round_up(inner, kMaxAlign) : 1;
  } else if (inner == 1) {
    inner_stride = outer_stride == 1 ? round_up(outer, kMaxAlign) : 1;
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

// Strides of a vector that goes along the rows (or columns) of C.
MatmulExtra vector_extra(const Array& x, const GemmCall& call, bool of_rows) {
  const int batch_rank = call.c.ndim() - 2;
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

DescFit join(const GemmCall& call, MatmulDesc& desc) {
  enum { kResidual, kScaleA, kScaleB, kBias, kNumExtras };
  const Epilogue& e = call.epilogue;
  const Dims still = Dims::filled(call.c.ndim() - 2, 0);
  MatmulExtra extras[kNumExtras];
  for (MatmulExtra& extra : extras) extra.batch = still;  // absent: fits anything
  const bool residual = (desc.epilogue & kEpilogueResidual) != 0;
  if (residual) extras[kResidual] = residual_extra(*e.residual);
  if ((desc.epilogue & kEpilogueScales) != 0) {
    const auto& scale_a = call.quant_a.scales;
    const auto& scale_b = call.quant_b.scales;
    if (scale_a) extras[kScaleA] = vector_extra(*scale_a, call, true);
    if (scale_b) extras[kScaleB] = vector_extra(*scale_b, call, false);
  }
  if (e.bias) extras[kBias] = vector_extra(*e.bias, call, false);
  desc.problem = make_problem(call.a, call.b, call.c,
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

DType accumulator(DType operand) noexcept {
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

MatmulDesc format_desc(const GemmCall& call) {
  MatmulDesc desc;
  desc.a = format_of(call.a, call.quant_a);
  desc.b = format_of(call.b, call.quant_b);
  desc.dtype_c = call.c.dtype();
  desc.dtype_acc =
      desc.a.packing == plan::Packing::kNone ? accumulator(desc.a.dtype) : DType::kFloat32;
  desc.epilogue = epilogue_flags(call);
  desc.conjugate = call.conjugate;
  desc.tf32 = call.tf32;
  desc.tf32x3 = call.tf32x3;
  desc.float64_int8 = call.float64_int8;
  desc.batch_invariant = call.batch_invariant;
  desc.few_rows = call.few_rows;
  desc.gated = call.gated;
  desc.normed = call.norm.has_value();
  desc.fast_accum = call.fast_accum;
  if (call.groups.kind != GroupKind::kNone)
    desc.groups = {call.groups.kind, call.groups.device.has_value(), call.b.shape()[0],
                   call.b.strides()[0]};
  return desc;
}

namespace {

// The B of the first group.
GemmCall first_group(const GemmCall& call) {
  GemmCall first = call;
  first.b = Array(Dims(call.b.shape().span().subspan(1)), Dims(call.b.strides().span().subspan(1)),
                  call.b.dtype(), call.b.buffer(), call.b.offset_elems());
  return first;
}

}  // namespace

MatmulDesc make_desc(const GemmCall& call, DescFit* fit) {
  MatmulDesc desc = format_desc(call);
  const bool grouped = desc.groups.kind != GroupKind::kNone;
  const DescFit fits = join(grouped ? first_group(call) : call, desc);
  if (fit != nullptr) *fit = fits;
  MatmulProblem& p = desc.problem;
  settle(p.m, p.k, p.a_m, p.a_k);
  settle(p.n, p.k, p.b_n, p.b_k);
  settle(p.m, p.n, p.c_m, p.c_n);
  desc.align_a = alignment(call.a, p.a_m, p.a_k, p.batch_a);
  desc.align_b = alignment(call.b, p.b_n, p.b_k, grouped ? Dims{desc.groups.b_stride} : p.batch_b);
  desc.align_c = alignment(call.c, p.c_m, p.c_n, p.batch_c);
  return desc;
}

MatmulDesc raw_desc(const MatmulDesc& desc) {
  MatmulDesc raw = desc;
  MatmulProblem& p = raw.problem;
  raw.dtype_c = desc.dtype_acc;
  raw.epilogue = 0;
  for (plan::OperandFormat* format : {&raw.a, &raw.b})
    if (format->scales_in_epilogue()) format->scales = plan::ScaleLayout::kNone;
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
  t.a = plan::transposed(desc.b);
  t.b = plan::transposed(desc.a);
  std::swap(t.align_a, t.align_b);
  return t;
}

namespace {

std::string matrix_text(const char* label, const plan::OperandFormat& format, std::int64_t row,
                        std::int64_t column, const Dims& batch, unsigned align) {
  const std::string scales = scale_text(format);
  return cat(", ", label, "=", to_string(plan::OperandFormat{format.dtype, format.packing}), "[",
             row, ", ", column, "]",
             batch.empty() ? std::string() : cat(" batch ", to_string(batch)), " align ", align,
             scales.empty() ? std::string() : cat(" (", scales, ")"));
}

}  // namespace

std::string to_string(const GroupLayout& groups) {
  static constexpr const char* kKinds[] = {"nothing", "sizes", "offsets", "expert ids"};
  return cat(kKinds[static_cast<int>(groups.kind)],
             groups.on_device ? " on the device" : " on the host");
}

std::string to_string(const MatmulDesc& desc) {
  const MatmulProblem& p = desc.problem;
  std::string text = cat("m=", p.m, " n=", p.n, " k=", p.k);
  if (!p.batch_shape.empty()) text += cat(" batch=", to_string(p.batch_shape));
  text += matrix_text("a", desc.a, p.a_m, p.a_k, p.batch_a, desc.align_a);
  text += matrix_text("b", desc.b, p.b_k, p.b_n, p.batch_b, desc.align_b);
  text += matrix_text("c", {desc.dtype_c}, p.c_m, p.c_n, p.batch_c, desc.align_c);
  text += cat(", sums ", name(desc.dtype_acc), ", epilogue ", epilogue_text(desc.epilogue));
  if (desc.groups.kind != GroupKind::kNone)
    text += cat(", ", desc.groups.count, " groups of stride ", desc.groups.b_stride, " by ",
                to_string(desc.groups));
  if (desc.conjugate) text += ", conjugate";
  if (desc.tf32) text += ", tf32";
  if (desc.tf32x3) text += ", 3xtf32";
  if (desc.float64_int8) text += ", float64_int8";
  if (desc.batch_invariant) text += desc.few_rows ? ", few_rows" : ", batch_invariant";
  if (desc.gated) text += ", gated";
  if (desc.normed) text += ", normed";
  if (desc.fast_accum) text += ", fast_accum";
  return text;
}

}  // namespace gpk::ops::gemm

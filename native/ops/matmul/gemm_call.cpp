#include "ops/matmul/gemm_call.h"

#include "core/context.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/block_scaled.h"
#include "ops/matmul/packed_operand.h"
#include "ops/matmul/plan.h"
#include "ops/matmul/plan_cache.h"
#include "ops/matmul/scaled_operands.h"
#include "ops/quantize/quantize.h"

namespace gpk::ops::gemm {
namespace {

CpuArg optional_arg(const std::optional<Array>& array) {
  if (array) return *array;
  return std::monostate{};
}

void run_grouped_reference(const GemmCall& call) {
  const char* const argument =
      call.groups.kind == GroupKind::kExpertIds ? "expert_ids" : "group_sizes";
  run_on_cpu({"grouped_gemm",
              {call.a, permute(call.b, {0, 2, 1}, "grouped_gemm")},
              {call.c},
              {{argument, *call.groups.device}}});
}

void run_reference(const GemmCall& call) {
  if (call.groups.kind != GroupKind::kNone) {
    run_grouped_reference(call);
    return;
  }
  const MatmulDesc formats = format_desc(call);
  if (is_block_scaled(formats.a) && is_block_scaled(formats.b)) {
    const GemmCall dense = block_scaled_as_float(call, "scaled_matmul");
    run_reference(dense);
    if (call.c.dtype() != DType::kFloat32) copy_into(call.c, dense.c, "scaled_matmul");
    return;
  }
  if (both_scaled(formats)) {
    run_reference(scaled_as_dense(call, DType::kFloat32, "linear"));
    return;
  }
  if (takes_dequantize(formats)) {
    // As numbers in float32, which all of them are exactly; the sums are of these.
    GemmCall dense = call;
    dense.b = transpose(dequantize(packed_operand(call), DType::kFloat32), "linear");
    dense.quant_b = {};
    run_reference(dense);
    return;
  }
  if (epilogue_flags(call) == 0 && !call.conjugate) {
    run_on_cpu({"matmul", {call.a, call.b}, {call.c}});
    return;
  }
  const Epilogue& e = call.epilogue;
  run_on_cpu({"product",
              {call.a, call.b},
              {call.c},
              {{"conjugate", Scalar{call.conjugate}},
               {"alpha", Scalar{static_cast<double>(e.alpha)}},
               {"beta", Scalar{static_cast<double>(e.beta)}},
               {"scale_a", optional_arg(call.quant_a.scales)},
               {"scale_b", optional_arg(call.quant_b.scales)},
               {"bias", optional_arg(e.bias)},
               {"activation", std::string(name(e.activation))},
               {"residual", optional_arg(e.residual)}}});
}

void run_on_gpu(const GemmCall& call, const char* op);

// Contiguous batches are one batch dimension, whatever their number.
void run_copies(const GemmCall& call, const char* op) {
  GemmCall copies = call;
  copies.a = copy_as(call.a, call.a.dtype(), op);
  copies.b = copy_as(call.b, call.b.dtype(), op);
  copies.c = Array::empty(call.c.shape(), call.c.dtype(), call.c.device(), op);
  if (call.epilogue.residual)
    copies.epilogue.residual =
        copy_as(*call.epilogue.residual, call.epilogue.residual->dtype(), op);
  run_on_gpu(copies, op);
  copy_into(call.c, copies.c, op);
}

void run_residual_copy(const GemmCall& call, const char* op) {
  GemmCall copies = call;
  copies.epilogue.residual = copy_as(*call.epilogue.residual, call.epilogue.residual->dtype(), op);
  run_on_gpu(copies, op);
}

// One call per index of the first dimension.
void run_one_by_one(const GemmCall& call, const char* op) {
  const auto part = [](const Array& x, std::int64_t index) {
    return Array(Dims(x.shape().span().subspan(1)), Dims(x.strides().span().subspan(1)), x.dtype(),
                 x.buffer(), x.offset_elems() + index * x.strides()[0]);
  };
  const int rank = call.c.ndim();
  for (std::int64_t i = 0; i < call.c.shape()[0]; ++i) {
    GemmCall one = call;
    one.a = part(call.a, i);
    one.b = part(call.b, i);
    one.c = part(call.c, i);
    if (one.epilogue.residual) one.epilogue.residual = part(*call.epilogue.residual, i);
    for (auto* scales : {&one.quant_a.scales, &one.quant_b.scales})
      if (*scales && (*scales)->size() > 1 && (*scales)->ndim() == rank - 1)
        *scales = part(**scales, i);
    run_on_gpu(one, op);
  }
}

// Sizes that the host knows: a GEMM per group.
void run_each_group(const GemmCall& call, const char* op) {
  std::int64_t first = 0;
  for (std::size_t g = 0; g < call.groups.host.size(); ++g) {
    const std::int64_t size = call.groups.host[g];
    if (size == 0) continue;
    GemmCall one = call;
    one.groups = {};
    one.a = slice_axis(call.a, 0, first, size, 1);
    one.b = squeeze(slice_axis(call.b, 0, static_cast<std::int64_t>(g), 1, 1), {0}, op);
    one.c = slice_axis(call.c, 0, first, size, 1);
    run_gemm(one, op);
    first += size;
  }
}

void run_on_gpu(const GemmCall& call, const char* op) {
  const auto found = planned(call, Context::get(call.c.device().index), op);
  if (!found) return;
  switch (found->fit) {
    case DescFit::kFits: launch_plan(call, found->desc, found->plan, op); break;
    case DescFit::kManyBatches: run_copies(call, op); break;
    case DescFit::kResidual: run_residual_copy(call, op); break;
    case DescFit::kScales: run_one_by_one(call, op); break;
  }
}

}  // namespace

void run_gemm(const GemmCall& call, const char* op) {
  if (!call.groups.host.empty()) [[unlikely]] {
    run_each_group(call, op);
  } else if (call.c.device().is_cuda()) {
    run_on_gpu(call, op);
  } else if (!GemmRecorder::record(call)) {
    run_reference(call);
  }
}

std::array<const Array*, 13> arrays_of(const GemmCall& call, const Array* workspace) {
  const auto given = [](const std::optional<Array>& array) { return array ? &*array : nullptr; };
  return {&call.a,
          &call.b,
          &call.c,
          workspace,
          given(call.quant_a.scales),
          given(call.quant_b.scales),
          given(call.epilogue.bias),
          given(call.epilogue.residual),
          call.norm ? &call.norm->weight : nullptr,
          given(call.quant_b.zero_points),
          given(call.quant_b.tensor_scale),
          given(call.quant_b.metadata),
          given(call.quant_a.tensor_scale)};
}

plan::OperandFormat format_of(const Array& values, const Quantization& quantization) {
  plan::OperandFormat format;
  format.dtype = values.dtype();
  format.packing = quantization.packing;
  format.scales = quantization.layout;
  format.scale_block = quantization.block;
  if (quantization.scales) format.scale_dtype = quantization.scales->dtype();
  format.zero_points = quantization.zero_points.has_value();
  return format;
}

unsigned epilogue_flags(const GemmCall& call) {
  const Epilogue& e = call.epilogue;
  const auto in_epilogue = [](const Quantization& q) {
    return q.layout != plan::ScaleLayout::kNone && q.layout <= plan::ScaleLayout::kColumn;
  };
  unsigned flags = static_cast<unsigned>(e.activation) << kEpilogueActivationShift;
  if (in_epilogue(call.quant_a) || in_epilogue(call.quant_b)) {
    flags |= kEpilogueScales;
  } else if (e.alpha != 1.0f) {
    flags |= kEpilogueAlpha;
  }
  if (e.bias) flags |= kEpilogueBias;
  if (e.residual && e.beta != 0.0f) flags |= kEpilogueResidual;
  return flags;
}

EpilogueArgs make_epilogue_args(const GemmCall& call, const EpilogueSteps& steps) {
  EpilogueArgs args;
  args.bias = address(call.epilogue.bias);
  args.residual = address(call.epilogue.residual);
  args.scale_a = address(call.quant_a.scales);
  args.scale_b = address(call.quant_b.scales);
  args.bias_step = steps.bias;
  args.scale_a_step = steps.scale_a;
  args.scale_b_step = steps.scale_b;
  args.residual_m = steps.residual_m;
  args.residual_n = steps.residual_n;
  args.residual_batch = steps.residual_batch;
  args.alpha = call.epilogue.alpha;
  args.beta = call.epilogue.beta;
  return args;
}

}  // namespace gpk::ops::gemm

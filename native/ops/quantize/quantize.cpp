#include "ops/quantize/quantize.h"

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kernel_table.h"
#include "ops/output.h"
#include "ops/quantize/rows.h"
#include "ops/quantize/sparse.h"
#include "ops/reduction/reduce.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using kernels::kQuantizeThreads;
using kernels::QuantizeArgs;

// Numbers from kSparsifyKernel on: sparse.h, rows.h.
enum class QuantizeKernel : std::uint8_t { kScales, kValues, kDequantize, kGroups };

// `code` is 0 for kScales, which reads it from its arguments, and for kGroups, which is FP8.
struct Variant {
  QuantizeKernel kernel;
  DType dtype;
  int code = 0;
};

std::uint64_t pack(const Variant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("code", v.code, 4)
      .key();
}

jit::KernelSpec spec_of(const Variant& v) {
  jit::KernelSpec spec;
  spec.file = "quantize/quantize.cuh";
  spec.op = v.kernel == QuantizeKernel::kDequantize ? "dequantize" : "quantize";
  spec.kernel = static_cast<std::uint8_t>(v.kernel);
  spec.variant = pack(v);
  const char* const type = info(v.dtype).cuda_name;
  switch (v.kernel) {
    case QuantizeKernel::kScales: spec.expression = cat("gpk::quantize_scales<", type, ">"); break;
    case QuantizeKernel::kValues:
      spec.expression = cat("gpk::quantize_values<", v.code, ", ", type, ">");
      break;
    case QuantizeKernel::kDequantize:
      spec.expression = cat("gpk::dequantize<", v.code, ", ", type, ">");
      break;
    case QuantizeKernel::kGroups: spec.expression = cat("gpk::quantize_groups<", type, ">"); break;
  }
  return spec;
}

void launch(const Variant& variant, QuantizeArgs args, std::int64_t items, std::int64_t per_block,
            std::initializer_list<const Array*> arrays) {
  const Array& first = **arrays.begin();
  const Kernel& code =
      kernel(Context::get(first.device().index),
             {Family::quantize, static_cast<std::uint8_t>(variant.kernel), pack(variant)},
             [&] { return spec_of(variant); });
  void* params[] = {&args};
  submit(code, grid_1d(items, per_block, kQuantizeThreads), arrays, params);
}

bool is_weight_dtype(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32;
}

void check_quantize(const Array& w, const PackedLayout& layout, const char* op) {
  if (!is_weight_dtype(w.dtype()))
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": w has dtype ", name(w.dtype()), ", expected float16, bfloat16 or float32"));
  if (layout.is_sparse() && w.dtype() == DType::kFloat32)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": w has dtype float32, expected float16 or bfloat16 for 2:4, which keeps values"));
  const bool matrix = layout.blocks || layout.is_sparse();
  const bool shaped = w.ndim() == 2 || (w.ndim() == 3 && !matrix);
  if (!shaped)
    throw InvalidArgument(cat(op, ": w has shape ", to_string(w.shape()), ", expected (n, k)",
                              matrix ? "" : " or (experts, n, k)"));
  if (w.size() == 0)
    throw InvalidArgument(cat(op, ": w has shape ", to_string(w.shape()), ", which is empty"));
}

QuantizeArgs make_args(const PackedWeight& packed) {
  const PackedLayout& layout = packed.layout;
  QuantizeArgs args{};
  args.values = address(packed.values);
  args.scales = address(*packed.scales);
  args.zeros = address(packed.zero_points);
  args.tensor_scale = address(packed.tensor_scale);
  args.n = packed.num_rows();
  args.k = packed.k();
  args.values_row = packed.values.shape()[1];
  args.groups = packed.scales->shape()[1];
  args.group = static_cast<int>(layout.group_of(packed.k()));
  args.scale_rows = static_cast<int>(layout.scale_rows());
  args.code = layout.code();
  args.scale_code = layout.scale_code();
  return args;
}

// Of nvfp4: the largest block scale becomes the largest e4m3.
void set_tensor_scale(const Array& w, const Array& scale, const char* op) {
  constexpr float kLargest = 448.0f * 6.0f;
  const Array wide = copy_as(reduce(OpId::max, abs(w)), DType::kFloat32, op);
  const Array whole = reshape(scale, {}, op);
  divide(wide, Scalar(double{kLargest}), &whole);
}

void launch_quantize(const Array& w, const PackedWeight& packed) {
  QuantizeArgs args = make_args(packed);
  args.w = address(w);
  args.w_row = w.strides()[0];
  const PackedLayout& layout = packed.layout;
  if (layout.format == QuantFormat::kFp8 && layout.group == 128 && !layout.blocks) {
    launch({QuantizeKernel::kGroups, w.dtype()}, args, packed.scales->size(), kQuantizeThreads / 32,
           {&w, &packed.values, &*packed.scales});
    return;
  }
  const Array* const zeros = packed.zero_points ? &*packed.zero_points : nullptr;
  const Array* const whole = packed.tensor_scale ? &*packed.tensor_scale : nullptr;
  launch({QuantizeKernel::kScales, w.dtype()}, args, packed.scales->size(), kQuantizeThreads / 32,
         {&w, &*packed.scales, zeros, whole});
  launch({QuantizeKernel::kValues, w.dtype(), packed.layout.code()}, args, packed.values.size() / 4,
         kQuantizeThreads, {&w, &packed.values, &*packed.scales, zeros, whole});
}

// sizes: of dequantize_used().
void launch_dequantize(const PackedWeight& packed, const Array& rows, const Array* sizes) {
  QuantizeArgs args = make_args(packed);
  args.out = address(rows);
  if (sizes != nullptr) {
    args.sizes = address(*sizes);
    args.matrix_rows = packed.n();
  }
  const std::int64_t bytes = kernels::kDequantizeValues / (packed.layout.is_nibble() ? 2 : 1);
  launch(
      {QuantizeKernel::kDequantize, rows.dtype(), packed.layout.code()}, args,
      packed.values.size() / bytes, kQuantizeThreads,
      {&rows, &packed.values, &*packed.scales, packed.zero_points ? &*packed.zero_points : nullptr,
       packed.tensor_scale ? &*packed.tensor_scale : nullptr, sizes});
}

std::vector<std::pair<const char*, CpuArg>> reference_options(const PackedWeight& packed) {
  const PackedLayout& layout = packed.layout;
  return {{"format", std::string(name(layout.format))},
          {"group", Scalar(layout.group_of(packed.k()))},
          {"scale_rows", Scalar(layout.scale_rows())},
          {"zero_points", cpu_optional(packed.zero_points)},
          {"tensor_scale", cpu_optional(packed.tensor_scale)}};
}

}  // namespace

PackedWeight quantize(const Array& w, const PackedLayout& layout, const char* op) {
  check_quantize(w, layout, op);
  const PackedWeight packed = empty_packed(layout, w.shape(), w.dtype(), w.device(), op);
  const Array rows = reshape(w, {packed.num_rows(), packed.k()}, op);
  const Array matrix = rows.strides()[1] == 1 ? rows : contiguous(rows, op);
  if (layout.is_sparse()) {
    sparsify(matrix, packed);
    return packed;
  }
  if (packed.tensor_scale) set_tensor_scale(matrix, *packed.tensor_scale, op);
  if (w.device().is_cuda()) {
    launch_quantize(matrix, packed);
  } else {
    run_on_cpu({"quantize", {matrix}, {packed.values, *packed.scales}, reference_options(packed)});
  }
  return packed;
}

Array dequantize(const PackedWeight& packed, std::optional<DType> dtype,
                 const std::optional<Array>& out, const char* op) {
  const DType to = dtype.value_or(out ? out->dtype() : packed.dtype);
  if (!is_weight_dtype(to))
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": dtype is ", name(to), ", expected float16, bfloat16 or float32"));
  if (out) check_out(*out, packed.shape, to, packed.device(), op);
  const bool direct = out && out->dtype() == to && out->is_contiguous();
  const Array result = direct ? *out : Array::empty(packed.shape, to, packed.device(), op);
  const Array rows = reshape(result, {packed.num_rows(), packed.k()}, op);
  if (packed.layout.is_sparse()) {
    expand_sparse(packed, rows);
  } else if (packed.device().is_cuda()) {
    launch_dequantize(packed, rows, nullptr);
  } else {
    run_on_cpu({"dequantize", {packed.values, *packed.scales}, {rows}, reference_options(packed)});
  }
  if (!out || direct) return result;
  copy_into(*out, result, op);
  return *out;
}

Array dequantize_used(const PackedWeight& stack, DType dtype, const Array& sizes, const char* op) {
  if (!stack.device().is_cuda()) return dequantize(stack, dtype, std::nullopt, op);
  const Array result = Array::empty(stack.shape, dtype, stack.device(), op);
  launch_dequantize(stack, reshape(result, {stack.num_rows(), stack.k()}, op), &sizes);
  return result;
}

void enumerate_quantize(std::vector<jit::KernelSpec>& specs) {
  enumerate_sparse(specs);
  enumerate_quantize_rows(specs);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    specs.push_back(spec_of({QuantizeKernel::kScales, dtype}));
    specs.push_back(spec_of({QuantizeKernel::kGroups, dtype}));
    for (int code = 0; code < kernels::kNumPackedCodes; ++code)
      for (const auto which : {QuantizeKernel::kValues, QuantizeKernel::kDequantize})
        specs.push_back(spec_of({which, dtype, code}));
  }
}

}  // namespace gpk::ops

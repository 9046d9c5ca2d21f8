#include "ops/nn/norm.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/nn.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/nn/kernels.h"
#include "ops/nn/rows.h"
#include "ops/output.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace nn;
using kernels::NormMode;

constexpr auto kKernel = static_cast<std::uint8_t>(NnKernel::kNorm);

struct NormVariant {
  DType dtype;
  DType weight;  // dtype of weight and bias
  NormMode mode;
  unsigned flags;
  int vec;
  int accesses;
};

std::uint64_t pack(const NormVariant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("weight", v.weight, plan::kDTypeBits)
      .field("mode", v.mode, 1)
      .field("flags", v.flags, 3)
      .field("vec", v.vec, 4)
      .field("accesses", v.accesses, 4)
      .key();
}

// The general variant takes everything; of the others the bundle has those of models.
bool is_bundled(const NormVariant& v) {
  if (v.vec == 1) return v.accesses == 0;
  if (v.accesses == 0) return v.weight == v.dtype && v.flags == 0;  // few_rows
  return v.accesses == 4 && v.weight == v.dtype && (v.flags & ~kernels::kNormResidual) == 0;
}

jit::KernelSpec norm_spec(const NormVariant& v) {
  jit::KernelSpec spec;
  spec.file = "nn/norm.cuh";
  spec.op = v.mode == NormMode::kRms ? "rmsnorm" : "layernorm";
  spec.kernel = kKernel;
  spec.variant = pack(v);
  spec.bundled = is_bundled(v);
  spec.expression = cat("gpk::norm_rows<", info(v.dtype).cuda_name, ", ", info(v.weight).cuda_name,
                        ", gpk::kernels::NormMode::", v.mode == NormMode::kRms ? "kRms" : "kLayer",
                        ", ", v.flags, ", ", v.vec, ", ", v.accesses, ">");
  return spec;
}

// Weight and bias per channel: row r is group r % groups of sample r / groups.
struct Channels {
  std::int64_t groups;      // rows of one sample
  std::int64_t per_row;     // channels
  std::int64_t span;        // elements of one
  std::int64_t per_sample;  // weights of one sample; 0: all samples share them
};

struct NormWork {
  const char* op;
  NormMode mode;
  Array x;
  std::optional<Array> residual;
  NormOptions options;
  Array out;
  std::optional<Array> sum;
  std::optional<Array> scales;
  std::optional<Channels> channels;
};

const Array* pointer(const std::optional<Array>& array) { return array ? &*array : nullptr; }

unsigned flags_of(const NormWork& work) {
  return (work.residual ? kernels::kNormResidual : 0u) |
         (work.scales ? kernels::kNormQuantize : 0u) |
         (work.channels ? kernels::kNormChannels : 0u);
}

// One dtype for weight and bias.
DType unify_weights(NormWork& work) {
  std::optional<Array>& weight = work.options.weight;
  std::optional<Array>& bias = work.options.bias;
  const DType dtype = weight ? weight->dtype() : bias ? bias->dtype() : work.x.dtype();
  if (weight && bias && weight->dtype() != bias->dtype()) {
    weight = cast(*weight, DType::kFloat32, work.op);
    bias = cast(*bias, DType::kFloat32, work.op);
    return DType::kFloat32;
  }
  return dtype;
}

// On a GPU, not empty; out, sum and scales take the rows as they are.
void launch_norm(NormWork work) {
  if (work.options.weight) work.options.weight = contiguous(*work.options.weight, work.op);
  if (work.options.bias) work.options.bias = contiguous(*work.options.bias, work.op);
  const DType weight = unify_weights(work);
  const Rows x = rows_of(work.x, work.op);
  const Rows out = *try_rows(work.out);
  const auto residual =
      work.residual ? std::optional(rows_of(*work.residual, work.op)) : std::nullopt;
  const auto sum = work.sum ? try_rows(*work.sum) : std::nullopt;
  const bool aligned =
      is_aligned({&x, residual ? &*residual : nullptr, sum ? &*sum : nullptr}) &&
      (work.scales ? out.stride % 16 == 0 && is_aligned(work.out) : is_aligned({&out})) &&
      (work.channels || (is_aligned(work.options.weight) && is_aligned(work.options.bias)));
  Context& context = Context::get(work.x.device().index);
  const DeviceTraits& traits = context.traits();
  const int arrays = work.residual ? 2 : 1;
  RowPlan plan = fit_rows(plan_rows(x.width, itemsize(work.x.dtype()), aligned), arrays,
                          traits.shared_per_block_optin_bytes);
  if (work.residual && plan.accesses == 8)  // two rows do not fit in registers
    plan = {plan.vec, 0, kernels::kMaxRowGroup};
  if (work.options.few_rows) plan = {plan.vec, 0, 256};
  NormVariant variant{work.x.dtype(), weight, work.mode, flags_of(work), plan.vec, plan.accesses};
  if (!is_bundled(variant) && !jit::jit_available()) {
    plan = general_plan(x.width);
    variant.vec = plan.vec;
    variant.accesses = plan.accesses;
  }
  const Kernel& code =
      kernel(context, {Family::nn, kKernel, pack(variant)}, [&] { return norm_spec(variant); });

  kernels::NormArgs args{};
  args.x = address(x.array);
  args.out = address(out.array);
  args.weight = address(work.options.weight);
  args.bias = address(work.options.bias);
  args.scales = address(work.scales);
  args.x_row = x.stride;
  args.out_row = out.stride;
  if (residual) {
    args.residual = address(residual->array);
    args.sum = address(sum->array);
    args.residual_row = residual->stride;
    args.sum_row = sum->stride;
  }
  args.rows = x.rows;
  args.width = static_cast<int>(x.width);
  args.group = plan.group;
  args.eps = static_cast<float>(work.options.eps);
  args.offset = static_cast<float>(work.options.offset);
  if (work.channels) {
    args.affine_row = work.channels->per_sample;
    args.groups = static_cast<int>(work.channels->groups);
    args.channels = static_cast<int>(work.channels->per_row);
    args.span = static_cast<int>(work.channels->span);
  }
  void* params[] = {&args};
  submit(code, dependent(row_grid(x.rows, plan, traits.multiprocessor_count, arrays), traits),
         {&x.array, residual ? &residual->array : nullptr, pointer(work.options.weight),
          pointer(work.options.bias), &out.array, pointer(work.sum), pointer(work.scales)},
         params);
}

void check_options(const Array& x, const NormOptions& options, const Dims& shape, const char* op) {
  check_weight(x, options.weight, shape, "weight", op);
  check_weight(x, options.bias, shape, "bias", op);
  if (!std::isfinite(options.eps) || options.eps < 0.0)
    throw InvalidArgument(cat(op, ": eps is ", options.eps, ", expected a number >= 0"));
}

Dims last_axis(const Array& x) { return {x.shape()[x.ndim() - 1]}; }

// `out`, or a new array where there is none or rows cannot be written to it.
Array target(const std::optional<Array>& out, const Array& x,
             std::initializer_list<const Array*> inputs, const char* op) {
  if (out && takes_rows(*out, x.dtype(), inputs)) return *out;
  return Array::empty(x.shape(), x.dtype(), x.device(), op);
}

Array give(const std::optional<Array>& out, const Array& result, const char* op) {
  if (!out) return result;
  if (!same_place(*out, result) || out->dtype() != result.dtype()) copy_into(*out, result, op);
  return *out;
}

Scalar number(double x) { return {x}; }

Array norm(NormMode mode, const Array& x, const NormOptions& options,
           const std::optional<Array>& out, const char* op) {
  check_rows(x, "x", 1, op);
  check_options(x, options, last_axis(x), op);
  if (out) check_out(*out, x.shape(), x.dtype(), x.device(), op);
  if (x.size() == 0) return out ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op);
  if (!x.device().is_cuda()) {
    const Array result = out ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op);
    CpuCall call{op, {x}, {result}, {{"eps", number(options.eps)}}};
    call.args.push_back(cpu_optional(options.weight));
    if (mode == NormMode::kLayer) {
      call.args.push_back(cpu_optional(options.bias));
    } else {
      call.options.emplace_back("offset", number(options.offset));
    }
    run_on_cpu(std::move(call));
    return result;
  }
  const Array result = target(out, x, {&x, pointer(options.weight), pointer(options.bias)}, op);
  launch_norm({op, mode, x, {}, options, result, {}, {}, {}});
  return give(out, result, op);
}

NormAndSum add_norm(NormMode mode, const Array& x, const Array& residual,
                    const NormOptions& options, const std::optional<Array>& out,
                    const std::optional<Array>& sum_out, const char* op) {
  check_rows(x, "x", 1, op);
  check_like(x, residual, "residual", op);
  check_options(x, options, last_axis(x), op);
  if (out) check_out(*out, x.shape(), x.dtype(), x.device(), op);
  if (sum_out) check_out(*sum_out, x.shape(), x.dtype(), x.device(), op);
  if (out && sum_out && x.size() > 0 && may_overlap(*out, *sum_out))
    throw InvalidArgument(cat(op, ": out and sum_out share memory"));
  const std::initializer_list<const Array*> inputs = {&x, &residual, pointer(options.weight),
                                                      pointer(options.bias)};
  const Array result = target(out, x, inputs, op);
  const Array sum = target(sum_out, x, inputs, op);
  if (x.size() > 0 && !x.device().is_cuda()) {
    CpuCall call{op,
                 {x, residual, cpu_optional(options.weight)},
                 {result, sum},
                 {{"eps", number(options.eps)}}};
    if (mode == NormMode::kLayer) {
      call.args.push_back(cpu_optional(options.bias));
    } else {
      call.options.emplace_back("offset", number(options.offset));
    }
    run_on_cpu(std::move(call));
  } else if (x.size() > 0) {
    launch_norm({op, mode, x, residual, options, result, sum, {}, {}});
  }
  return {give(out, result, op), give(sum_out, sum, op)};
}

Array channel_norm(const Array& x, std::int64_t num_groups, const NormOptions& options,
                   bool per_sample, const std::optional<Array>& out, CpuCall call) {
  const char* op = call.op;
  if (out) check_out(*out, x.shape(), x.dtype(), x.device(), op);
  if (x.size() == 0) return out ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op);
  if (!x.device().is_cuda()) {
    const Array result = out ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op);
    call.outs = {result};
    run_on_cpu(std::move(call));
    return result;
  }
  const std::int64_t samples = x.shape()[0];
  const std::int64_t channels = x.shape()[1];
  const std::int64_t span = x.size() / (samples * channels);
  if (channels / num_groups * span > kMaxRowWidth)
    throw InvalidArgument(cat(op, ": x has shape ", to_string(x.shape()), ", ",
                              channels / num_groups * span,
                              " elements to a group; expected at most 2**31 - 2**16"));
  const Dims shape{samples * num_groups, x.size() / (samples * num_groups)};
  const bool direct = out && out->dtype() == x.dtype() && out->is_contiguous() &&
                      (same_place(*out, x) || !may_overlap(*out, x));
  const Array result = direct ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op);
  launch_norm({op,
               NormMode::kLayer,
               *try_reshape(contiguous(x, op), shape),
               {},
               options,
               *try_reshape(result, shape),
               {},
               {},
               Channels{num_groups, channels / num_groups, span, per_sample ? channels : 0}});
  return give(out, result, op);
}

void check_channels(const Array& x, const char* op) {
  check_float(x, "x", op);
  if (x.ndim() < 2)
    throw InvalidArgument(
        cat(op, ": x has shape ", to_string(x.shape()), ", expected (samples, channels, ...)"));
}

}  // namespace

Array rmsnorm(const Array& x, const NormOptions& options, const std::optional<Array>& out,
              const char* op) {
  return norm(NormMode::kRms, x, options, out, op);
}

Array layernorm(const Array& x, const NormOptions& options, const std::optional<Array>& out) {
  return norm(NormMode::kLayer, x, options, out, "layernorm");
}

NormAndSum add_rmsnorm(const Array& x, const Array& residual, const NormOptions& options,
                       const std::optional<Array>& out, const std::optional<Array>& sum_out) {
  return add_norm(NormMode::kRms, x, residual, options, out, sum_out, "add_rmsnorm");
}

NormAndSum add_layernorm(const Array& x, const Array& residual, const NormOptions& options,
                         const std::optional<Array>& out, const std::optional<Array>& sum_out) {
  return add_norm(NormMode::kLayer, x, residual, options, out, sum_out, "add_layernorm");
}

QuantizedNorm rmsnorm_fp8(const Array& x, const std::optional<Array>& residual,
                          const NormOptions& options) {
  constexpr const char* kOp = "rmsnorm_fp8";
  check_rows(x, "x", 1, kOp);
  if (residual) check_like(x, *residual, "residual", kOp);
  check_options(x, options, last_axis(x), kOp);
  Dims rows = Dims::filled(x.ndim() - 1, 0);
  for (int i = 0; i < rows.size(); ++i) rows[i] = x.shape()[i];
  QuantizedNorm result{Array::empty(x.shape(), DType::kFloat8E4M3FN, x.device(), kOp),
                       Array::empty(rows, DType::kFloat32, x.device(), kOp),
                       {}};
  if (residual) result.sum = Array::empty(x.shape(), x.dtype(), x.device(), kOp);
  if (x.size() == 0) return result;
  if (x.device().is_cuda()) {
    launch_norm(
        {kOp, NormMode::kRms, x, residual, options, result.values, result.sum, result.scales, {}});
    return result;
  }
  CpuCall call{kOp,
               {x, cpu_optional(residual), cpu_optional(options.weight)},
               {result.values, result.scales},
               {{"eps", number(options.eps)}, {"offset", number(options.offset)}}};
  if (result.sum) call.outs.push_back(*result.sum);
  run_on_cpu(std::move(call));
  return result;
}

Array groupnorm(const Array& x, std::int64_t num_groups, const NormOptions& options,
                const std::optional<Array>& out) {
  constexpr const char* kOp = "groupnorm";
  check_channels(x, kOp);
  if (num_groups < 1 || x.shape()[1] % num_groups != 0)
    throw InvalidArgument(cat(kOp, ": num_groups is ", num_groups, ", expected a divisor of the ",
                              x.shape()[1], " channels of x"));
  check_options(x, options, {x.shape()[1]}, kOp);
  return channel_norm(x, num_groups, options, false, out,
                      {kOp,
                       {x, cpu_optional(options.weight), cpu_optional(options.bias)},
                       {},
                       {{"num_groups", Scalar(num_groups)}, {"eps", number(options.eps)}}});
}

Array instancenorm(const Array& x, const NormOptions& options, const std::optional<Array>& out) {
  constexpr const char* kOp = "instancenorm";
  check_channels(x, kOp);
  check_options(x, options, {x.shape()[1]}, kOp);
  return channel_norm(x, x.shape()[1], options, false, out,
                      {kOp,
                       {x, cpu_optional(options.weight), cpu_optional(options.bias)},
                       {},
                       {{"eps", number(options.eps)}}});
}

Array adain(const Array& x, const Array& scale, const Array& shift, double eps,
            const std::optional<Array>& out) {
  constexpr const char* kOp = "adain";
  check_channels(x, kOp);
  const Dims shape{x.shape()[0], x.shape()[1]};
  check_weight(x, scale, shape, "scale", kOp);
  check_weight(x, shift, shape, "shift", kOp);
  const NormOptions options{scale, shift, eps, 1.0};
  check_options(x, options, shape, kOp);
  return channel_norm(x, x.shape()[1], options, true, out,
                      {kOp, {x, scale, shift}, {}, {{"eps", number(eps)}}});
}

void nn::enumerate_norm(std::vector<jit::KernelSpec>& specs) {
  constexpr unsigned kFlags[] = {0, kernels::kNormResidual, kernels::kNormQuantize,
                                 kernels::kNormResidual | kernels::kNormQuantize,
                                 kernels::kNormChannels};
  for (const auto& [dtype, weight] : kWeightTypes)
    for (const NormMode mode : {NormMode::kRms, NormMode::kLayer})
      for (const unsigned flags : kFlags)
        for (const int vec : {1, static_cast<int>(16 / itemsize(dtype))})
          for (const int accesses : {4, 8, 0}) {
            if (accesses == 8 && (vec == 1 || (flags & kernels::kNormResidual) != 0)) continue;
            // Only rmsnorm is quantised, and only layernorm knows channels.
            if ((flags & kernels::kNormQuantize) != 0 && mode != NormMode::kRms) continue;
            if ((flags & kernels::kNormChannels) != 0 && mode != NormMode::kLayer) continue;
            specs.push_back(norm_spec({dtype, weight, mode, flags, vec, accesses}));
          }
}

}  // namespace gpk::ops

#include "ops/nn/log_likelihood.h"

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

constexpr const char* kOp = "log_likelihood";
constexpr auto kKernel = static_cast<std::uint8_t>(NnKernel::kLogLikelihood);

std::uint64_t pack(DType dtype, DType index, int vec) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("index", index, plan::kDTypeBits)
      .field("vec", vec, 4)
      .key();
}

jit::KernelSpec log_likelihood_spec(DType dtype, DType index, int vec) {
  jit::KernelSpec spec;
  spec.file = "nn/log_likelihood.cuh";
  spec.op = kOp;
  spec.kernel = kKernel;
  spec.variant = pack(dtype, index, vec);
  spec.expression = cat("gpk::log_likelihood_rows<", info(dtype).cuda_name, ", ",
                        info(index).cuda_name, ", ", vec, ">");
  return spec;
}

Dims check_log_likelihood(const Array& logits, const Array& targets) {
  check_rows(logits, "logits", 1, kOp);
  if (targets.dtype() != DType::kInt32 && targets.dtype() != DType::kInt64)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(kOp, ": targets has dtype ", name(targets.dtype()), ", expected int32 or int64"));
  Dims rows = Dims::filled(logits.ndim() - 1, 0);
  for (int i = 0; i < rows.size(); ++i) rows[i] = logits.shape()[i];
  if (!(targets.shape() == rows))
    throw InvalidArgument(cat(kOp, ": targets has shape ", to_string(targets.shape()),
                              ", expected ", to_string(rows), " for logits of shape ",
                              to_string(logits.shape())));
  if (targets.device() != logits.device())
    throw InvalidArgument(cat(kOp, ": targets is on ", to_string(targets.device()), ", logits on ",
                              to_string(logits.device())));
  if (logits.size() == 0 && targets.size() > 0)
    throw InvalidArgument(cat(kOp, ": logits has shape ", to_string(logits.shape()),
                              ", expected at least one column"));
  return rows;
}

void launch_log_likelihood(const Array& logits, const Array& targets, std::int64_t ignored,
                           const Array& out) {
  const Rows x = rows_of(logits, kOp);
  Context& context = Context::get(logits.device().index);
  const DeviceTraits& traits = context.traits();
  const DType dtype = logits.dtype();
  RowPlan plan = plan_rows(x.width, itemsize(dtype), is_aligned({&x}));
  plan.accesses = 0;  // one pass: nothing is held
  const Kernel& code =
      kernel(context, {Family::nn, kKernel, pack(dtype, targets.dtype(), plan.vec)},
             [&] { return log_likelihood_spec(dtype, targets.dtype(), plan.vec); });
  kernels::LogLikelihoodArgs args{};
  args.x = address(x.array);
  args.targets = address(targets);
  args.out = address(out);
  args.x_row = x.stride;
  args.rows = x.rows;
  args.ignored = ignored;
  args.width = static_cast<int>(x.width);
  args.group = plan.group;
  void* params[] = {&args};
  submit(code, row_grid(x.rows, plan, traits.multiprocessor_count), {&x.array, &targets, &out},
         params);
}

}  // namespace

Array log_likelihood(const Array& logits, const Array& targets, std::int64_t ignored,
                     const std::optional<Array>& out) {
  const Dims shape = check_log_likelihood(logits, targets);
  if (out) check_out(*out, shape, DType::kFloat32, logits.device(), kOp);
  const bool direct = out && out->dtype() == DType::kFloat32 && out->is_contiguous() &&
                      !may_overlap(*out, logits) && !may_overlap(*out, targets);
  const Array result = direct ? *out : Array::empty(shape, DType::kFloat32, logits.device(), kOp);
  if (result.size() > 0) {
    if (logits.device().is_cuda()) {
      launch_log_likelihood(logits, contiguous(targets, kOp), ignored, result);
    } else {
      run_on_cpu({kOp, {logits, targets}, {result}, {{"ignore_index", Scalar(ignored)}}});
    }
    if (out && !direct) copy_into(*out, result, kOp);
  }
  return out ? *out : result;
}

void nn::enumerate_log_likelihood(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
    for (const DType index : {DType::kInt32, DType::kInt64})
      for (const int vec : {1, static_cast<int>(16 / itemsize(dtype))})
        specs.push_back(log_likelihood_spec(dtype, index, vec));
}

}  // namespace gpk::ops

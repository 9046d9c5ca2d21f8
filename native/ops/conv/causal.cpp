#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/checks.h"
#include "ops/conv/conv.h"
#include "ops/conv/kernels.h"
#include "ops/conv/launch.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/output.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace conv;

constexpr const char* kOp = "causal_conv1d";
constexpr auto kKernel = static_cast<std::uint8_t>(ConvKernel::kCausal);

std::uint64_t pack(DType dtype) {
  return plan::KeyBuilder().field("dtype", dtype, plan::kDTypeBits).key();
}

jit::KernelSpec causal_spec(DType dtype) {
  jit::KernelSpec spec;
  spec.file = "conv/causal_conv.cuh";
  spec.op = kOp;
  spec.kernel = kKernel;
  spec.variant = pack(dtype);
  spec.expression = cat("gpk::causal_conv<", info(dtype).cuda_name, ">");
  return spec;
}

struct CausalCall {
  Array x, w;
  std::optional<Array> bias, state;
  conv::Activation activation;
};

void launch_causal(CausalCall call, const Array& out, const Array& state_out) {
  const Array& x = call.x;
  if (x.shape()[2] > 1 && x.strides()[2] != 1) call.x = contiguous(x, kOp);
  call.w = contiguous(call.w, kOp);
  if (call.bias) call.bias = contiguous(*call.bias, kOp);
  if (call.state) call.state = contiguous(*call.state, kOp);
  const Kernel& code =
      kernel(Context::get(x.device().index), {Family::conv, kKernel, pack(x.dtype())},
             [&] { return causal_spec(x.dtype()); });
  kernels::CausalConvArgs args{};
  args.x = address(call.x);
  args.w = address(call.w);
  args.bias = address(call.bias);
  args.state = address(call.state);
  args.out = address(out);
  args.state_out = address(state_out);
  args.x_batch = call.x.strides()[0];
  args.x_channel = call.x.strides()[1];
  args.out_batch = out.strides()[0];
  args.out_channel = out.strides()[1];
  args.channels = static_cast<int>(x.shape()[1]);
  args.length = static_cast<int>(x.shape()[2]);
  args.taps = static_cast<int>(call.w.shape()[1]);
  args.activation = static_cast<unsigned>(call.activation);
  args.grid = direct_grid(x.shape()[0] * x.shape()[1], x.shape()[2]);
  void* params[] = {&args};
  submit(code,
         grid_1d(args.grid.num_lines << args.grid.lane_bits, kernels::kConvDirectThreads,
                 kernels::kConvDirectThreads),
         {&call.x, &call.w, call.bias ? &*call.bias : nullptr, call.state ? &*call.state : nullptr,
          &out, &state_out},
         params);
}

void check_causal(const CausalCall& call) {
  const Array& x = call.x;
  check_dtype(x, kOp);
  if (x.ndim() != 3)
    throw InvalidArgument(
        cat(kOp, ": x has shape ", to_string(x.shape()), ", expected (batch, channels, length)"));
  if (call.w.ndim() != 2 || call.w.shape()[1] < 1)
    throw InvalidArgument(cat(kOp, ": w has shape ", to_string(call.w.shape()), ", expected (",
                              x.shape()[1], ", taps)"));
  const std::int64_t taps = call.w.shape()[1];
  check_operand(call.w, "w", {x.shape()[1], taps}, x, kOp);
  if (call.bias) check_operand(*call.bias, "bias", {x.shape()[1]}, x, kOp);
  if (call.state)
    check_operand(*call.state, "state", {x.shape()[0], x.shape()[1], taps - 1}, x, kOp);
  for (const std::int64_t size : {x.shape()[1], x.shape()[2], taps})
    if (size >= std::int64_t{1} << 30)
      throw InvalidArgument(cat(kOp, ": a dimension of ", size, ", expected fewer than 2**30"));
}

// Whether the kernel may write to it: rows of that dtype, apart from the inputs.
bool takes(const std::optional<Array>& out, const CausalCall& call, bool contiguous_only) {
  if (!out || out->dtype() != call.x.dtype()) return false;
  const int last = out->ndim() - 1;
  const bool rows = out->shape()[last] <= 1 || out->strides()[last] == 1;
  return (contiguous_only ? out->is_contiguous() : rows) && !may_overlap(*out, call.x) &&
         !may_overlap(*out, call.w) && (!call.bias || !may_overlap(*out, *call.bias)) &&
         (!call.state || !may_overlap(*out, *call.state));
}

}  // namespace

CausalConv causal_conv1d(const Array& x, const Array& w, const std::optional<Array>& bias,
                         const std::optional<Array>& state, conv::Activation activation,
                         const std::optional<Array>& out, const std::optional<Array>& state_out) {
  const CausalCall call{x, w, bias, state, activation};
  check_causal(call);
  const Dims shape{x.shape()[0], x.shape()[1], w.shape()[1] - 1};
  if (out) check_out(*out, x.shape(), x.dtype(), x.device(), kOp);
  if (state_out) check_out(*state_out, shape, x.dtype(), x.device(), kOp);
  if (out && state_out && may_overlap(*out, *state_out))
    throw InvalidArgument(cat(kOp, ": out and state_out share memory"));
  const bool gpu = x.device().is_cuda();
  // One thread has a whole row, and reads its state before it writes it.
  const bool in_place = state && state_out && x.shape()[2] <= kernels::kConvDirectOutputs &&
                        same_place(*state, *state_out) && state_out->is_contiguous() &&
                        state_out->dtype() == x.dtype();
  const bool direct = gpu ? takes(out, call, false) : out.has_value();
  const bool state_direct = gpu && (in_place || takes(state_out, call, true));
  CausalConv result{direct ? *out : Array::empty(x.shape(), x.dtype(), x.device(), kOp),
                    state_direct ? *state_out : Array::empty(shape, x.dtype(), x.device(), kOp)};
  if (!gpu) {
    run_on_cpu({kOp,
                {x, w, cpu_optional(bias), cpu_optional(state)},
                {result.out, result.state},
                {{"activation", std::string(name(activation))}}});
  } else if (x.shape()[0] * x.shape()[1] > 0) {
    launch_causal(call, result.out, result.state);
  }
  if (out && !direct) copy_into(*out, result.out, kOp);
  if (state_out && !state_direct) copy_into(*state_out, result.state, kOp);
  return {out ? *out : result.out, state_out ? *state_out : result.state};
}

void conv::enumerate_causal(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes) specs.push_back(causal_spec(dtype));
}

}  // namespace gpk::ops

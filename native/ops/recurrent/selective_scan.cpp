#include "ops/recurrent/selective_scan.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/recurrent.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/kernel_table.h"
#include "ops/output.h"
#include "ops/recurrent/kernels.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace recurrent;

constexpr const char* kOp = "selective_scan";
constexpr int kMaxStates = 32;
constexpr std::int64_t kMaxGrid = 65535;
// Fixed, so that results depend on the sequence alone. Shorter ones are not worth three launches.
constexpr std::int64_t kChunk = 256;
constexpr std::int64_t kLongSequence = 1024;

// Lanes of a channel. The PTX bundle has kernels for the most states alone.
int lanes_of(std::int64_t states) {
  if (!jit::jit_available()) return kMaxStates;
  return std::max(4, static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(states))));
}

std::uint64_t pack(DType dtype, int states) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("states", states, 6)
      .key();
}

jit::KernelSpec scan_spec(RecurrentKernel which, DType dtype, int states) {
  jit::KernelSpec spec;
  spec.file = "recurrent/selective_scan.cuh";
  spec.op = kOp;
  spec.kernel = static_cast<std::uint8_t>(which);
  spec.variant = which == RecurrentKernel::kScanCombine ? 0 : pack(dtype, states);
  spec.expression =
      which == RecurrentKernel::kScanCombine
          ? std::string("gpk::scan_combine")
          : cat(which == RecurrentKernel::kScanStates ? "gpk::scan_states<" : "gpk::scan_outputs<",
                info(dtype).cuda_name, ", ", states, ">");
  spec.bundled = states == kMaxStates;
  return spec;
}

void check_input(const Array& array, const char* argument, DType dtype, const Dims& shape,
                 const Array& x) {
  check_shape(array, argument, shape, kOp);
  check_dtype(array, argument, dtype, kOp);
  check_device(array, argument, x.device(), "x", kOp);
}

void check_inputs(const SelectiveScanInputs& in) {
  const Array& x = in.x;
  const DType dtype = x.dtype();
  if (dtype != DType::kFloat16 && dtype != DType::kBFloat16 && dtype != DType::kFloat32)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(kOp, ": x has dtype ", name(dtype), ", expected float16, bfloat16 or float32"));
  if (x.ndim() != 3)
    throw InvalidArgument(
        cat(kOp, ": x has shape ", to_string(x.shape()), ", expected (batch, channels, length)"));
  const std::int64_t channels = x.shape()[1];
  if (in.a.ndim() != 2 || in.a.shape()[1] < 1 || in.a.shape()[1] > kMaxStates)
    throw InvalidArgument(cat(kOp, ": a has shape ", to_string(in.a.shape()), ", expected (",
                              channels, ", states), 1 to ", kMaxStates, " states"));
  const std::int64_t states = in.a.shape()[1];
  const Dims of_states{x.shape()[0], states, x.shape()[2]};
  check_input(in.delta, "delta", dtype, x.shape(), x);
  check_input(in.a, "a", DType::kFloat32, {channels, states}, x);
  check_input(in.b, "b", dtype, of_states, x);
  check_input(in.c, "c", dtype, of_states, x);
  if (in.d) check_input(*in.d, "d", DType::kFloat32, {channels}, x);
  if (in.z) check_input(*in.z, "z", dtype, x.shape(), x);
  if (in.delta_bias) check_input(*in.delta_bias, "delta_bias", DType::kFloat32, {channels}, x);
  if (in.state)
    check_input(*in.state, "state", DType::kFloat32, {x.shape()[0], channels, states}, x);
  if (x.shape()[0] > kMaxGrid || channels >= std::int64_t{1} << 30 ||
      x.shape()[2] > kMaxGrid * kChunk)
    throw InvalidArgument(cat(kOp, ": x has shape ", to_string(x.shape()), ", expected up to ",
                              kMaxGrid, " batches and ", kMaxGrid * kChunk, " steps"));
}

// On a GPU, contiguous, not empty.
void launch_scan(const SelectiveScanInputs& in, const SelectiveScanResult& result) {
  const Array& x = in.x;
  const std::int64_t states = in.a.shape()[1];
  const int lanes = lanes_of(states);
  kernels::SelectiveScanArgs args{};
  args.x = address(x);
  args.delta = address(in.delta);
  args.a = address(in.a);
  args.b = address(in.b);
  args.c = address(in.c);
  args.d = address(in.d);
  args.z = address(in.z);
  args.bias = address(in.delta_bias);
  args.state = address(in.state);
  args.state_out = address(result.state);
  args.out = address(result.out);
  args.batch = static_cast<int>(x.shape()[0]);
  args.channels = static_cast<int>(x.shape()[1]);
  args.length = static_cast<int>(x.shape()[2]);
  args.states_per_channel = static_cast<int>(states);
  args.softplus = in.delta_softplus ? 1 : 0;
  args.chunk = x.shape()[2] < kLongSequence ? args.length : static_cast<int>(kChunk);
  args.chunks = static_cast<int>(ceil_div(x.shape()[2], args.chunk));
  std::optional<Array> scratch;
  if (args.chunks > 1) {
    scratch =
        Array::empty({2, args.chunks * result.state.size()}, DType::kFloat32, x.device(), kOp);
    args.decays = address(scratch, 0);
    args.states = address(scratch, args.chunks * result.state.size());
  }
  const auto optional = [](const std::optional<Array>& array) { return array ? &*array : nullptr; };
  const auto run = [&](RecurrentKernel which, const LaunchConfig& config) {
    const std::uint64_t variant =
        which == RecurrentKernel::kScanCombine ? 0 : pack(x.dtype(), lanes);
    const Kernel& code =
        kernel(Context::get(x.device().index),
               {Family::recurrent, static_cast<std::uint8_t>(which), variant}, [&] {
                 return scan_spec(which, x.dtype(),
                                  which == RecurrentKernel::kScanCombine ? kMaxStates : lanes);
               });
    void* params[] = {&args};
    submit(code, config,
           {&x, &in.delta, &in.a, &in.b, &in.c, optional(in.d), optional(in.z),
            optional(in.delta_bias), optional(in.state), optional(scratch), &result.out,
            &result.state},
           params);
  };
  LaunchConfig grid;
  grid.grid[0] = static_cast<unsigned>(ceil_div(args.channels, kernels::kScanThreads / lanes));
  grid.grid[1] = static_cast<unsigned>(args.chunks);
  grid.grid[2] = static_cast<unsigned>(args.batch);
  grid.block[0] = kernels::kScanThreads;
  if (args.chunks > 1) {
    run(RecurrentKernel::kScanStates, grid);
    run(RecurrentKernel::kScanCombine,
        grid_1d(result.state.size(), kernels::kScanThreads, kernels::kScanThreads));
  }
  run(RecurrentKernel::kScanOutputs, grid);
}

}  // namespace

SelectiveScanResult selective_scan(const SelectiveScanInputs& inputs,
                                   const std::optional<Array>& out) {
  check_inputs(inputs);
  const Array& x = inputs.x;
  if (out) check_out(*out, x.shape(), x.dtype(), x.device(), kOp);
  // Tiles of the inputs are read before they are written, but other blocks read b and c.
  const bool direct = out && out->dtype() == x.dtype() && out->is_contiguous() &&
                      !may_overlap(*out, x) && !may_overlap(*out, inputs.delta) &&
                      !may_overlap(*out, inputs.b) && !may_overlap(*out, inputs.c) &&
                      (!inputs.z || !may_overlap(*out, *inputs.z));
  SelectiveScanResult result{direct ? *out : Array::empty(x.shape(), x.dtype(), x.device(), kOp),
                             Array::empty({x.shape()[0], x.shape()[1], inputs.a.shape()[1]},
                                          DType::kFloat32, x.device(), kOp)};
  if (x.shape()[2] == 0) {
    if (inputs.state) {
      copy_into(result.state, *inputs.state, kOp);
    } else {
      fill(result.state, Scalar(0.0), kOp);
    }
  } else if (!x.device().is_cuda()) {
    run_on_cpu(
        {kOp,
         {x, inputs.delta, inputs.a, inputs.b, inputs.c, cpu_optional(inputs.d),
          cpu_optional(inputs.z), cpu_optional(inputs.delta_bias), cpu_optional(inputs.state)},
         {result.out, result.state},
         {{"delta_softplus", Scalar(inputs.delta_softplus)}}});
  } else if (x.size() > 0) {
    const auto whole = [](const std::optional<Array>& array) {
      return array ? std::optional(contiguous(*array, kOp)) : std::nullopt;
    };
    launch_scan(
        {contiguous(x, kOp), contiguous(inputs.delta, kOp), contiguous(inputs.a, kOp),
         contiguous(inputs.b, kOp), contiguous(inputs.c, kOp), whole(inputs.d), whole(inputs.z),
         whole(inputs.delta_bias), inputs.delta_softplus, whole(inputs.state)},
        result);
  }
  if (out && !direct) copy_into(*out, result.out, kOp);
  if (out) result.out = *out;
  return result;
}

void recurrent::enumerate_scan(std::vector<jit::KernelSpec>& specs) {
  specs.push_back(scan_spec(RecurrentKernel::kScanCombine, DType::kFloat32, kMaxStates));
  for (const DType dtype : kDTypes)
    for (const int states : {4, 8, 16, 32})
      for (const RecurrentKernel which :
           {RecurrentKernel::kScanStates, RecurrentKernel::kScanOutputs})
        specs.push_back(scan_spec(which, dtype, states));
}

}  // namespace gpk::ops

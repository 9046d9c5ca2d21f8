#include "ops/recurrent/layer.h"

#include <algorithm>
#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/kernel_table.h"
#include "ops/matmul/linear.h"
#include "ops/output.h"
#include "ops/recurrent/kernels.h"
#include "ops/recurrent/plan.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace recurrent;

constexpr auto kKernel = static_cast<std::uint8_t>(RecurrentKernel::kCells);

struct CellVariant {
  DType dtype;
  RecurrentCell cell;
  int cols;
};

std::uint64_t pack(const CellVariant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("cell", v.cell, 1)
      .field("cols", v.cols, 6)
      .key();
}

jit::KernelSpec cell_spec(const CellVariant& v) {
  jit::KernelSpec spec;
  spec.file = "recurrent/recurrent.cuh";
  spec.op = v.cell == RecurrentCell::kLstm ? "lstm" : "gru";
  spec.kernel = kKernel;
  spec.variant = pack(v);
  spec.bundled = v.cols == 0;
  spec.expression =
      cat("gpk::recurrent<", info(v.dtype).cuda_name,
          ", gpk::kernels::RecurrentCell::", v.cell == RecurrentCell::kLstm ? "kLstm" : "kGru",
          ", ", v.cols, ">");
  return spec;
}

// Columns of weights that fit in registers beside their conversion.
int max_cols(DType dtype, RecurrentCell cell) {
  return cell == RecurrentCell::kLstm && dtype != DType::kFloat32 ? 16 : 32;
}

std::int64_t gates_of(RecurrentCell cell) { return cell == RecurrentCell::kLstm ? 4 : 3; }

// --- checks -------------------------------------------------------------------------------------

LayerDesc check_layer(const RecurrentLayer& layer, const Array& x, const char* op) {
  const DType dtype = x.dtype();
  if (dtype != DType::kFloat16 && dtype != DType::kBFloat16 && dtype != DType::kFloat32)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": x has dtype ", name(dtype), ", expected float16, bfloat16 or float32"));
  if (x.ndim() != 3)
    throw InvalidArgument(
        cat(op, ": x has shape ", to_string(x.shape()), ", expected (batch, steps, in)"));
  const Array& first = layer.directions[0].w_hh;
  const std::int64_t gates = gates_of(layer.cell);
  if (first.ndim() != 2 || first.shape()[1] < 1 || first.shape()[0] != gates * first.shape()[1])
    throw InvalidArgument(cat(op, ": w_hh has shape ", to_string(first.shape()), ", expected (",
                              gates, " * hidden, hidden)"));
  const std::int64_t hidden = first.shape()[1];
  for (std::size_t d = 0; d < layer.directions.size(); ++d) {
    const RecurrentWeights& weights = layer.directions[d];
    const char* const suffix = d == 0 ? "" : "_reverse";
    check_operand(weights.w_ih, cat("w_ih", suffix), {gates * hidden, x.shape()[2]}, x, op);
    check_operand(weights.w_hh, cat("w_hh", suffix), {gates * hidden, hidden}, x, op);
    if (weights.b_ih) check_operand(*weights.b_ih, cat("b_ih", suffix), {gates * hidden}, x, op);
    if (weights.b_hh) check_operand(*weights.b_hh, cat("b_hh", suffix), {gates * hidden}, x, op);
  }
  for (const std::int64_t size : {x.shape()[0], x.shape()[1], gates * hidden})
    if (size >= std::numeric_limits<std::int32_t>::max())
      throw InvalidArgument(cat(op, ": a dimension of ", size, ", expected fewer than 2**31 - 1"));
  return {x.shape()[0], x.shape()[1], hidden, static_cast<int>(layer.directions.size()),
          max_cols(dtype, layer.cell)};
}

Dims state_shape(const LayerDesc& desc) {
  return desc.directions == 1 ? Dims{desc.batch, desc.hidden}
                              : Dims{desc.directions, desc.batch, desc.hidden};
}

// --- launch -------------------------------------------------------------------------------------

// Arrays of a call on a GPU, contiguous but for out, whose last axis is.
struct LayerWork {
  const char* op;
  const RecurrentLayer& layer;
  LayerDesc desc;
  LayerPlan plan;
  std::vector<Array> gates, w;
  std::vector<std::optional<Array>> bias;
  std::optional<Array> h0, c0;
  RecurrentResult result;
  Array exchange;
  std::optional<Array> cells;
};

kernels::RecurrentArgs args_of(const LayerWork& work) {
  kernels::RecurrentArgs args{};
  args.h0 = address(work.h0);
  args.c0 = address(work.c0);
  args.out = address(work.result.out);
  args.h_n = address(work.result.h_n);
  args.c_n = address(work.result.c_n);
  args.exchange = address(work.exchange);
  args.cells = address(work.cells);
  args.out_batch = work.result.out.strides()[0];
  args.out_step = work.result.out.strides()[1];
  args.batch = static_cast<int>(work.desc.batch);
  args.steps = static_cast<int>(work.desc.steps);
  args.hidden = static_cast<int>(work.desc.hidden);
  args.directions = work.desc.directions;
  for (int d = 0; d < work.desc.directions; ++d) {
    const auto i = static_cast<std::size_t>(d);
    args.gates[d] = address(work.gates[i]);
    args.w[d] = address(work.w[i]);
    args.bias[d] = address(work.bias[i]);
  }
  args.reversed = work.desc.directions == 2 ? 2 : work.layer.reverse ? 1 : 0;
  args.pitch = pitch_of(work.desc.hidden);
  return args;
}

// Samples [first, first + count) of all directions, all steps.
void launch_samples(const LayerWork& work, const Kernel& code, std::int64_t first,
                    std::int64_t count) {
  kernels::RecurrentArgs args = args_of(work);
  args.first_batch = static_cast<int>(first);
  args.num_batch = static_cast<int>(count);
  args.num_steps = work.plan.persistent ? args.steps : 1;
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(ceil_div(work.desc.hidden, kernels::kRecurrentUnits));
  config.grid[1] = static_cast<unsigned>(work.desc.directions);
  config.block[0] = kernels::kRecurrentUnits * 32;
  config.shared_bytes = shared_bytes(work.desc.hidden, args.num_batch);
  config.cooperative = work.plan.persistent;
  std::vector<const Array*> arrays{&work.result.out, &work.result.h_n, &work.exchange};
  const auto add = [&](const std::optional<Array>& array) {
    if (array) arrays.push_back(&*array);
  };
  for (const auto* const some : {&work.h0, &work.c0, &work.result.c_n, &work.cells}) add(*some);
  for (const Array& array : work.gates) arrays.push_back(&array);
  for (const Array& array : work.w) arrays.push_back(&array);
  for (const auto& array : work.bias) add(array);
  void* params[] = {&args};
  for (args.first_step = 0; args.first_step < args.steps; args.first_step += args.num_steps)
    submit(code, config, arrays, params);
}

void launch_layer(const LayerWork& work) {
  const CellVariant variant{work.result.out.dtype(), work.layer.cell, work.plan.cols};
  const Kernel& code =
      kernel(Context::get(work.result.out.device().index),
             {Family::recurrent, kKernel, pack(variant)}, [&] { return cell_spec(variant); });
  for (std::int64_t first = 0; first < work.desc.batch; first += work.plan.batch)
    launch_samples(work, code, first,
                   std::min<std::int64_t>(work.plan.batch, work.desc.batch - first));
}

std::optional<Array> optional_contiguous(const std::optional<Array>& array, const char* op) {
  return array ? std::optional(contiguous(*array, op)) : std::nullopt;
}

RecurrentResult run_on_gpu(const RecurrentLayer& layer, const LayerDesc& desc, const Array& x,
                           const std::optional<Array>& h0, const std::optional<Array>& c0,
                           const RecurrentResult& result, const char* op);

// Both directions by themselves, into halves of the result.
RecurrentResult run_one_by_one(const RecurrentLayer& layer, const LayerDesc& desc, const Array& x,
                               const std::optional<Array>& h0, const std::optional<Array>& c0,
                               const RecurrentResult& result, const char* op) {
  const auto half = [&](const std::optional<Array>& states, int d) {
    return states ? std::optional(squeeze(slice_axis(*states, 0, d, 1, 1), {0}, op)) : std::nullopt;
  };
  for (int d = 0; d < desc.directions; ++d) {
    const RecurrentLayer single{
        layer.cell, {layer.directions[static_cast<std::size_t>(d)]}, d == 1};
    LayerDesc part = desc;
    part.directions = 1;
    run_on_gpu(single, part, x, half(h0, d), half(c0, d),
               {slice_axis(result.out, 2, d * desc.hidden, desc.hidden, 1), *half(result.h_n, d),
                half(result.c_n, d)},
               op);
  }
  return result;
}

RecurrentResult run_on_gpu(const RecurrentLayer& layer, const LayerDesc& desc, const Array& x,
                           const std::optional<Array>& h0, const std::optional<Array>& c0,
                           const RecurrentResult& result, const char* op) {
  const Device device = x.device();
  const LayerPlan plan =
      plan_layer(desc, device_traits(device), stream_sms(device), !jit::jit_available());
  if (!plan.together) return run_one_by_one(layer, desc, x, h0, c0, result, op);
  const std::int64_t states = desc.directions * desc.batch * desc.hidden;
  LayerWork work{op,
                 layer,
                 desc,
                 plan,
                 {},
                 {},
                 {},
                 optional_contiguous(h0, op),
                 optional_contiguous(c0, op),
                 result,
                 full({2 * states}, Scalar(std::int64_t{0}), DType::kInt64, device, op),
                 std::nullopt};
  if (!plan.persistent && layer.cell == RecurrentCell::kLstm)
    work.cells = Array::empty({states}, DType::kFloat32, device, op);
  for (const RecurrentWeights& weights : layer.directions) {
    LinearOptions options;
    options.bias = weights.b_ih;
    options.batch_invariant = true;
    work.gates.push_back(linear(x, weights.w_ih, options, op));
    work.w.push_back(contiguous(weights.w_hh, op));
    work.bias.push_back(optional_contiguous(weights.b_hh, op));
  }
  launch_layer(work);
  return result;
}

// --- the CPU ------------------------------------------------------------------------------------

void run_reference(const RecurrentLayer& layer, const Array& x, const std::optional<Array>& h0,
                   const std::optional<Array>& c0, const RecurrentResult& result, const char* op) {
  CpuCall call{op, {x}, {result.out, result.h_n}, {}};
  for (const RecurrentWeights& weights : layer.directions) {
    call.args.emplace_back(weights.w_ih);
    call.args.emplace_back(weights.w_hh);
    call.args.push_back(cpu_optional(weights.b_ih));
    call.args.push_back(cpu_optional(weights.b_hh));
  }
  call.args.push_back(cpu_optional(h0));
  if (result.c_n) {
    call.args.push_back(cpu_optional(c0));
    call.outs.push_back(*result.c_n);
  }
  if (layer.directions.size() == 1) call.options.emplace_back("reverse", Scalar(layer.reverse));
  run_on_cpu(std::move(call));
}

// Whether the kernel may write to `out` itself.
bool takes_result(const Array& out, const Array& x, const RecurrentLayer& layer) {
  bool apart = out.dtype() == x.dtype() && (out.shape()[2] <= 1 || out.strides()[2] == 1);
  for (const RecurrentWeights& weights : layer.directions) {
    apart = apart && !may_overlap(out, weights.w_hh);
    if (weights.b_hh) apart = apart && !may_overlap(out, *weights.b_hh);
  }
  return apart;  // x is read before the recurrence
}

}  // namespace

RecurrentResult run_recurrent(const RecurrentLayer& layer, const Array& x,
                              const std::optional<Array>& h0, const std::optional<Array>& c0,
                              const std::optional<Array>& out, const char* op) {
  const LayerDesc desc = check_layer(layer, x, op);
  const Dims states = state_shape(desc);
  if (h0) check_operand(*h0, "h0", states, x, op);
  if (c0) check_operand(*c0, "c0", states, x, op);
  const Dims shape{desc.batch, desc.steps, desc.directions * desc.hidden};
  if (out) check_out(*out, shape, x.dtype(), x.device(), op);
  const auto fresh = [&](const Dims& of) { return Array::empty(of, x.dtype(), x.device(), op); };
  const bool direct = out && takes_result(*out, x, layer) && (!h0 || !may_overlap(*out, *h0)) &&
                      (!c0 || !may_overlap(*out, *c0));
  const bool lstm = layer.cell == RecurrentCell::kLstm;
  RecurrentResult result{direct ? *out : fresh(shape), fresh(states),
                         lstm ? std::optional(fresh(states)) : std::nullopt};
  if (desc.steps == 0) {
    const auto carry = [&](const Array& to, const std::optional<Array>& from) {
      if (from) {
        copy_into(to, *from, op);
      } else {
        fill(to, Scalar(0.0), op);
      }
    };
    carry(result.h_n, h0);
    if (lstm) carry(*result.c_n, c0);
  } else if (desc.batch > 0) {
    if (x.device().is_cuda()) {
      run_on_gpu(layer, desc, x, h0, c0, result, op);
    } else {
      run_reference(layer, x, h0, c0, result, op);
    }
  }
  if (out && !direct) copy_into(*out, result.out, op);
  if (out) result.out = *out;
  return result;
}

void recurrent::enumerate_cells(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes)
    for (const RecurrentCell cell : {RecurrentCell::kLstm, RecurrentCell::kGru})
      for (const int cols : {0, 4, 8, 16, 32})
        if (cols <= max_cols(dtype, cell)) specs.push_back(cell_spec({dtype, cell, cols}));
}

}  // namespace gpk::ops

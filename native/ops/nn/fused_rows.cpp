#include "ops/nn/fused_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "jit/builtin.h"
#include "jit/sources.h"
#include "kernels/args/elementwise.h"
#include "kernels/args/nn.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/map.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using kernels::FusedRowsArgs;
using kernels::OperandKind;
using nn::RowPlan;

constexpr const char* kFile = "nn/fused_rows.cuh";
constexpr const char* kFunctors = "elementwise/activation.cuh";
constexpr std::int64_t kAccessBytes = 16;
// Of a thread, held between passes: less than half of the registers that a block of 512 has. Single
// elements take a register each, and their address another.
constexpr std::int64_t kHeldBytes = 192;
constexpr std::int64_t kHeldElems = 64;
constexpr std::int64_t kHeldSingles = 16;
// What is held is unrolled: values of a thread, so that the code stays small and compiles fast.
constexpr std::int64_t kHeldValues = 2048;

std::uint64_t variant_key(const FusedRowsPlan& plan) {
  return plan::KeyBuilder()
      .field("kinds", plan.kinds, 2 * FusedRowsArgs::kMaxInputs)
      .field("vec", plan.rows.vec, 4)
      .field("accesses", plan.rows.accesses, 6)
      .field("online", plan.online, 1)
      .field("one_result", plan.one_result, 1)
      .key();
}

// Vector and group are those that norms and softmax have alone for such rows, and with them the
// order of sums.
FusedRowsPlan plan_fused_rows(std::int64_t width, const FusedRows::Function& function, bool aligned,
                              std::size_t shared_limit) {
  FusedRowsPlan plan;
  plan.rows =
      nn::fit_rows(nn::plan_rows(width, itemsize(function.row_dtype), aligned), 1, shared_limit);
  plan.online = plan.rows.accesses == 0;
  const std::int64_t needed = ceil_div(ceil_div(width, plan.rows.vec), plan.rows.group);
  plan.rows.accesses = 0;
  if (width == 0) return plan;
  const std::int64_t most = plan.rows.vec == 1 ? kHeldSingles : kHeldElems;
  for (std::int64_t accesses = 4; accesses * plan.rows.vec <= most; accesses *= 2) {
    if (accesses < needed) continue;
    const std::int64_t elems = accesses * plan.rows.vec;
    if (elems * function.held_bytes <= kHeldBytes && elems * function.num_values <= kHeldValues)
      plan.rows.accesses = static_cast<int>(accesses);
    break;
  }
  return plan;
}

bool has_whole_rows(const Array& array, std::int64_t width) {
  const int last = array.ndim() - 1;
  return last >= 0 && array.shape()[last] == width;
}

bool has_gaps(const Array& array) {
  const int last = array.ndim() - 1;
  return array.shape()[last] > 1 && array.strides()[last] != 1;
}

bool aligned_for(const Array& array, const nn::RowAxes& axes, std::size_t index, std::int64_t vec) {
  const auto item = static_cast<std::int64_t>(itemsize(array.dtype()));
  const std::int64_t bytes = std::min(kAccessBytes, vec * item);
  if (reinterpret_cast<std::uintptr_t>(array.data()) % static_cast<std::uintptr_t>(bytes) != 0)
    return false;
  return std::all_of(axes.stride, axes.stride + axes.count,
                     [&](const auto& strides) { return strides[index] * item % bytes == 0; });
}

// Of a call that check() has passed.
Device device_of(std::span<const Operand> operands) {
  return std::find_if(operands.begin(), operands.end(),
                      [](const Operand& operand) { return operand.array != nullptr; })
      ->array->device();
}

}  // namespace

std::string to_string(const FusedRowsPlan& plan) {
  return cat("fused_rows(vec=", plan.rows.vec, ", accesses=", plan.rows.accesses,
             ", group=", plan.rows.group, ", online=", plan.online,
             ", one_result=", plan.one_result, ", kinds=", plan.kinds, ")");
}

std::string expression(const FusedRowsPlan& plan) {
  const auto text = [](bool flag) { return flag ? "true" : "false"; };
  return cat("gpk::fused_rows<gpk::Fused, ", plan.rows.vec, ", ", plan.rows.accesses, ", ",
             text(plan.online), ", ", text(plan.one_result), ", ", plan.kinds, "u>");
}

// The arrays as the kernel reads them, and how it is launched. Stays where it is.
struct FusedRows::Call {
  FusedRowsPlan plan;
  FusedRowsArgs args{};
  nn::RowAxes axes;
  std::optional<Array> copies[FusedRowsArgs::kMaxInputs];
  const Array* arrays[FusedRowsArgs::kMaxInputs + 1];  // nullptr: a number, or not used
  std::size_t count = 0;                               // of arrays; the result is the last
};

FusedRows::FusedRows(Function function) : function_(std::move(function)) {
  const std::string& name = function_.name;
  if (function_.inputs.empty() || function_.inputs.size() > FusedRowsArgs::kMaxInputs)
    throw InvalidArgument(cat("fuse: ", name, " has ", function_.inputs.size(),
                              " inputs, expected 1 to ", FusedRowsArgs::kMaxInputs));
  if (std::none_of(function_.uses.begin(), function_.uses.end(),
                   [](const nn::RowUse& use) { return !use.is_vector; }))
    throw InvalidArgument(cat("fuse: ", name, " has no op over rows"));
  for (nn::RowUse& use : function_.uses) use.op = cat(name, ": ", use.op);
}

nn::FusedShapes FusedRows::check(std::span<const Operand> operands, const Array* out) const {
  const char* op = function_.name.c_str();
  if (operands.size() != function_.inputs.size())
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": got ", operands.size(), " arguments, expected ", function_.inputs.size()));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Fused::Input& input = function_.inputs[i];
    if ((operands[i].array == nullptr) != input.is_number ||
        (!input.is_number && operands[i].array->dtype() != input.dtype))
      throw InvalidArgument(
          InvalidArgument::Kind::kType,
          cat(op, ": argument ", i, " is not ",
              input.is_number ? "a number" : cat("an array of ", gpk::name(input.dtype))));
  }
  nn::FusedShapes shapes = nn::check_fused_rows(op, operands, function_.uses, function_.expression);
  if (out == nullptr) return shapes;
  elementwise::check_broadcast_out(op, *out, shapes.result, function_.result, device_of(operands));
  if (out->dtype() != function_.result)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": out has dtype ", gpk::name(out->dtype()), ", the result has ",
                              gpk::name(function_.result)));
  return shapes;
}

// Copies of what has gaps along rows, overlaps the result or has too many axes.
void FusedRows::read_arrays(std::span<const Operand> operands, const Array& result,
                            const nn::FusedShapes& shapes, Call& call) const {
  const char* op = function_.name.c_str();
  call.count = operands.size() + 1;
  const auto keep = [&](std::size_t i, Array array) {
    call.copies[i] = std::move(array);
    call.arrays[i] = &*call.copies[i];
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Array* array = (function_.expression.arrays >> i & 1u) != 0 ? operands[i].array : nullptr;
    call.arrays[i] = array;
    if (array == nullptr) continue;
    if (has_whole_rows(*array, shapes.width) && has_gaps(*array)) {
      keep(i, contiguous(*array, op));
    } else if (may_overlap(*array, result) && !same_place(*array, result)) {
      keep(i, copy_as(*array, array->dtype(), op));
    }
  }
  call.arrays[operands.size()] = &result;
  call.axes = nn::merge_rows(shapes.result, {call.arrays, call.count});
  if (call.axes.count <= FusedRowsArgs::kMaxDims) return;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (call.arrays[i] == nullptr) continue;
    const Array& array = *call.arrays[i];
    Dims shape = shapes.result;
    shape[shape.size() - 1] = array.ndim() == 0 ? 1 : array.shape()[array.ndim() - 1];
    keep(i, contiguous(broadcast_to(array, shape, op), op));
  }
  call.axes = nn::merge_rows(shapes.result, {call.arrays, call.count});
}

void FusedRows::plan_call(std::span<const Operand> operands, const Array& result,
                          const nn::FusedShapes& shapes, std::size_t shared_limit,
                          Call& call) const {
  read_arrays(operands, result, shapes, call);
  const auto widest = kAccessBytes / static_cast<std::int64_t>(itemsize(function_.row_dtype));
  const bool one_result = shapes.result[shapes.result.size() - 1] != shapes.width;
  bool aligned = one_result || aligned_for(result, call.axes, operands.size(), widest);
  std::uint32_t kinds = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Array* array = call.arrays[i];
    if (array != nullptr && has_whole_rows(*array, shapes.width)) {
      aligned = aligned && aligned_for(*array, call.axes, i, widest);
      continue;
    }
    const OperandKind kind = array == nullptr ? OperandKind::kNumber : OperandKind::kOneElement;
    kinds |= static_cast<std::uint32_t>(kind) << (2 * i);
  }
  call.plan = plan_fused_rows(shapes.width, function_, aligned, shared_limit);
  call.plan.kinds = kinds;
  call.plan.one_result = one_result;

  FusedRowsArgs& args = call.args;
  args.rows = shapes.rows;
  args.width = static_cast<int>(shapes.width);
  args.group = call.plan.rows.group;
  args.num_dims = call.axes.count;
  args.out = address(result);
  for (int d = 0; d < call.axes.count; ++d) {
    args.size[d] = call.axes.size[d];
    std::copy_n(call.axes.stride[d], operands.size(), args.stride[d]);
    args.stride[d][FusedRowsArgs::kMaxInputs] = call.axes.stride[d][operands.size()];
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    args.in[i] = address(call.arrays[i]);
    if (operands[i].array != nullptr) continue;
    const ScalarBytes number = elementwise::compute_number(
        operands[i].scalar, function_.inputs[i].dtype, function_.name.c_str());
    std::memcpy(args.number[i], number.bytes, sizeof args.number[i]);
  }
}

FusedRows::Prepared FusedRows::prepare(std::span<const Operand> operands, const Array& out,
                                       std::size_t shared_limit) const {
  const nn::FusedShapes shapes = check(operands, &out);
  if (!(out.shape() == shapes.result) || has_gaps(out))
    throw InvalidArgument(cat(function_.name, ": out has shape ", gpk::to_string(out.shape()),
                              ", expected rows of shape ", gpk::to_string(shapes.result)));
  Call call;
  plan_call(operands, out, shapes, shared_limit, call);
  Prepared prepared{call.plan, nn::row_grid(shapes.rows, call.plan.rows, 1, 2), {}, {}};
  prepared.args.assign(reinterpret_cast<const char*>(&call.args), sizeof call.args);
  for (std::size_t i = 0; i < call.count; ++i)
    if (call.arrays[i] != nullptr) prepared.arrays.push_back(*call.arrays[i]);
  return prepared;
}

jit::CompileRequest FusedRows::request(const FusedRowsPlan& plan, int sm) const {
  jit::KernelSpec spec;
  spec.file = kFile;
  spec.op = function_.name.c_str();
  const auto text = [](bool flag) { return flag ? "true" : "false"; };
  spec.expression =
      cat("gpk::fused_rows<gpk::Fused, ", plan.rows.vec, ", ", plan.rows.accesses, ", ",
          text(plan.online), ", ", text(plan.one_result), ", ", plan.kinds, "u>");
  jit::CompileRequest request = jit::compile_request(spec, sm);
  for (const jit::EmbeddedSource* source : jit::embedded_closure(kFunctors)) {
    const auto has = [&](const auto& header) { return header.name == source->name; };
    if (std::none_of(request.headers.begin(), request.headers.end(), has))
      request.headers.push_back({std::string(source->name), std::string(source->text)});
  }
  request.source += cat("#include \"", kFunctors, "\"\n", function_.source);
  request.options.emplace_back("-default-device");  // generic lambdas, before NVRTC 13
  return request;
}

const Kernel& FusedRows::kernel_for(Context& context, const FusedRowsPlan& plan) {
  const std::lock_guard lock(mutex_);
  auto& kernel = kernels_[{&context, variant_key(plan)}];
  if (kernel) return *kernel;
  const jit::CompileRequest asked = request(plan, context.traits().sm);
  const jit::CompiledImage image = jit::compile_cached(asked);
  const auto module = Module::load(context, image.bytes, function_.name);
  kernel = module->kernel(image.symbol(asked.name_expressions.front()), function_.name.c_str());
  return *kernel;
}

void FusedRows::simulate(std::span<const Operand> operands, const Array& out) {
  constexpr std::size_t kSharedBytes = 96 << 10;  // every simulated GPU has as many
  Prepared prepared = prepare(operands, out, kSharedBytes);
  std::vector<const Array*> arrays;
  for (const Array& array : prepared.arrays) arrays.push_back(&array);
  void* params[] = {prepared.args.data()};
  simulated_.run(variant_key(prepared.plan), request(prepared.plan, jit::host_sm()),
                 prepared.config, arrays, params);
}

Array FusedRows::run(std::span<const Operand> operands, const Array* out) {
  const char* op = function_.name.c_str();
  const nn::FusedShapes shapes = check(operands, out);
  const Device device = device_of(operands);
  const bool direct = out != nullptr && out->shape() == shapes.result && !has_gaps(*out);
  const Array result = direct ? *out : Array::empty(shapes.result, function_.result, device, op);
  if (result.size() > 0 && !device.is_cuda()) {
    simulate(operands, result);
  } else if (result.size() > 0) {
    Context& context = Context::get(device.index);
    const DeviceTraits& traits = context.traits();
    Call call;
    plan_call(operands, result, shapes, traits.shared_per_block_optin_bytes, call);
    void* params[] = {&call.args};
    // As two arrays: none is fetched ahead.
    submit(kernel_for(context, call.plan),
           nn::row_grid(shapes.rows, call.plan.rows, traits.multiprocessor_count, 2),
           {call.arrays, call.count}, params);
  }
  if (out == nullptr) return result;
  if (!direct && out->size() > 0) copy_into(*out, result, op);
  return *out;
}

}  // namespace gpk::ops

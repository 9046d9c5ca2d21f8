#include "ops/elementwise/binary.h"

#include "core/context.h"
#include "core/error.h"
#include "core/graph.h"
#include "core/launch.h"
#include "core/text.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/fill.h"
#include "ops/kernel_table.h"

namespace gpk::ops {
namespace {

constexpr std::size_t kAccessBytes = 16;

// What check_binary found: the array operands, and the number if there is one. Both ops commute, so
// the number is always second.
struct BinaryArgs {
  const Array* a = nullptr;
  const Array* b = nullptr;  // nullptr: scalar
  ScalarBytes scalar;
};

void check_array(const char* op, const char* argument, const Array& array) {
  if (!array.is_contiguous()) throw InvalidArgument(cat(op, ": ", argument, " is not contiguous"));
  if (info(array.dtype()).cuda_name == nullptr)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": ", argument, " has dtype ", name(array.dtype()),
                              ", a storage type; cast it first"));
}

void check_same(const char* op, const char* na, const Array& a, const char* nb, const Array& b) {
  if (!(a.shape() == b.shape()))
    throw InvalidArgument(cat(op, ": requires arrays of same shape, got ", na, ' ',
                              to_string(a.shape()), " and ", nb, ' ', to_string(b.shape())));
  if (a.dtype() != b.dtype())
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": requires arrays of the same dtype, got ", na, ' ',
                              name(a.dtype()), " and ", nb, ' ', name(b.dtype())));
  if (!(a.device() == b.device()))
    throw InvalidArgument(cat(op, ": ", na, " is on ", to_string(a.device()), ", ", nb, " on ",
                              to_string(b.device())));
}

BinaryArgs check_binary(const char* op, const Operand& a, const Operand& b,
                        const std::optional<Array>& out) {
  BinaryArgs args;
  args.a = std::get_if<Array>(&a);
  args.b = std::get_if<Array>(&b);
  const Scalar* scalar = std::get_if<Scalar>(args.a == nullptr ? &a : &b);
  if (args.a == nullptr) std::swap(args.a, args.b);
  if (args.a == nullptr)
    throw InvalidArgument(InvalidArgument::Kind::kType, cat(op, ": one operand must be an array"));
  check_array(op, "a", *args.a);
  if (args.b != nullptr) {
    check_array(op, "b", *args.b);
    check_same(op, "a", *args.a, "b", *args.b);
  } else {
    args.scalar = to_bytes(*scalar, args.a->dtype(), op);
  }
  if (out) {
    check_array(op, "out", *out);
    check_same(op, "a", *args.a, "out", *out);
  }
  return args;
}

std::uint32_t pack(DType dtype, const BinaryPlan& plan) {
  return static_cast<std::uint32_t>(dtype) | (static_cast<std::uint32_t>(plan.vec) << 8) |
         (static_cast<std::uint32_t>(plan.scalar) << 16);
}

jit::KernelSpec binary_spec(const char* op, const char* functor, DType dtype, int vec,
                            bool scalar) {
  jit::KernelSpec spec;
  spec.file = "elementwise/binary.cuh";
  spec.op = op;
  spec.expression = cat("gpk::binary_kernel<", info(dtype).cuda_name, ", ", functor, ", ", vec,
                        ", ", scalar, ", ", kBinaryBlock, ", ", kBinaryUnroll, ">");
  return spec;
}

int widest(DType dtype) { return static_cast<int>(kAccessBytes / itemsize(dtype)); }

std::size_t common_alignment(const BinaryArgs& args, const Array& out) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(args.a->data()) |
                        reinterpret_cast<std::uintptr_t>(out.data());
  if (args.b != nullptr) bits |= reinterpret_cast<std::uintptr_t>(args.b->data());
  return static_cast<std::size_t>(bits & (~bits + 1));
}

void launch_binary(OpId id, const char* op, const char* functor, BinaryArgs& args,
                   const Array& out) {
  const DType dtype = out.dtype();
  const BinaryPlan plan =
      plan_binary(dtype, out.size(), args.b == nullptr, common_alignment(args, out));
  Context& context = Context::get(out.device().index);
  const Kernel& k =
      kernel(context, {Family::elementwise, static_cast<std::uint8_t>(id), pack(dtype, plan)},
             [&] { return binary_spec(op, functor, dtype, plan.vec, plan.scalar); });
  const auto& stream = current_stream(out.device());
  args.a->buffer()->mark_use(stream);
  out.buffer()->mark_use(stream);
  if (args.b != nullptr) args.b->buffer()->mark_use(stream);
  if (Graph* graph = capturing_graph(); graph != nullptr) [[unlikely]] {
    graph->keep(args.a->buffer());
    graph->keep(out.buffer());
    if (args.b != nullptr) graph->keep(args.b->buffer());
  }
  LaunchConfig config;
  config.grid[0] = plan.num_blocks;
  config.block[0] = kBinaryBlock;
  cu::DevicePtr a = args.a->device_ptr();
  cu::DevicePtr b = args.b == nullptr ? 0 : args.b->device_ptr();
  cu::DevicePtr result = out.device_ptr();
  std::int64_t n = out.size();
  void* params[] = {&a, &b, args.scalar.bytes, &result, &n};
  launch(k, config, stream, params);
}

CpuArg cpu_arg(const Operand& operand) {
  return std::visit([](const auto& value) { return CpuArg(value); }, operand);
}

Array binary(OpId id, const char* op, const char* functor, const Operand& a, const Operand& b,
             const std::optional<Array>& given) {
  BinaryArgs args = check_binary(op, a, b, given);
  Array out = given ? *given : Array::empty(args.a->shape(), args.a->dtype(), args.a->device(), op);
  if (out.size() == 0) return out;
  if (out.device().is_cuda()) {
    launch_binary(id, op, functor, args, out);
  } else {
    run_on_cpu({op, {cpu_arg(a), cpu_arg(b)}, {out}});
  }
  return out;
}

void enumerate_binary(std::vector<jit::KernelSpec>& specs, const char* op, const char* functor) {
  for (const DTypeInfo& row : gpk::detail::kDTypes) {
    if (row.cuda_name == nullptr) continue;
    for (const bool scalar : {false, true}) {
      specs.push_back(binary_spec(op, functor, row.dtype, 1, scalar));
      if (widest(row.dtype) > 1)
        specs.push_back(binary_spec(op, functor, row.dtype, widest(row.dtype), scalar));
    }
  }
}

}  // namespace

BinaryPlan plan_binary(DType dtype, std::int64_t n, bool scalar, std::size_t alignment) {
  BinaryPlan plan;
  plan.scalar = scalar;
  plan.vec = alignment % kAccessBytes == 0 ? widest(dtype) : 1;
  const std::int64_t per_block = std::int64_t{kBinaryBlock} * kBinaryUnroll * plan.vec;
  plan.num_blocks = static_cast<unsigned>((n + per_block - 1) / per_block);
  return plan;
}

std::string to_string(const BinaryPlan& plan) {
  return cat("binary(vec=", plan.vec, ", scalar=", plan.scalar, ", blocks=", plan.num_blocks, ")");
}

Array add(const Operand& a, const Operand& b, const std::optional<Array>& out) {
  return binary(OpId::add, "add", "gpk::Add", a, b, out);
}

Array mul(const Operand& a, const Operand& b, const std::optional<Array>& out) {
  return binary(OpId::mul, "mul", "gpk::Mul", a, b, out);
}

void enumerate_elementwise(std::vector<jit::KernelSpec>& specs) {
  enumerate_binary(specs, "add", "gpk::Add");
  enumerate_binary(specs, "mul", "gpk::Mul");
  enumerate_fill(specs);
}

}  // namespace gpk::ops

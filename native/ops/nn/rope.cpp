#include "ops/nn/rope.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/nn.h"
#include "ops/checks.h"
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

constexpr auto kKernel = static_cast<std::uint8_t>(NnKernel::kRope);
constexpr unsigned kBlock = 256;

struct RopeVariant {
  DType dtype;
  DType table;
  DType index;
  bool interleaved;
  int vec;
};

std::uint64_t pack(const RopeVariant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("table", v.table, plan::kDTypeBits)
      .field("index", v.index, plan::kDTypeBits)
      .field("interleaved", v.interleaved, 1)
      .field("vec", v.vec, 4)
      .key();
}

jit::KernelSpec rope_spec(const RopeVariant& v) {
  jit::KernelSpec spec;
  spec.file = "nn/rope.cuh";
  spec.op = "rope";
  spec.kernel = kKernel;
  spec.variant = pack(v);
  spec.expression =
      cat("gpk::rope<", info(v.dtype).cuda_name, ", ", info(v.table).cuda_name, ", ",
          info(v.index).cuda_name, ", ", v.interleaved ? "true" : "false", ", ", v.vec, ">");
  return spec;
}

// [batch, seq, heads, dim] with unit stride along the last axis.
struct Heads {
  Array array;
  std::int64_t batch_stride = 0;
  std::int64_t seq_stride = 0;
  std::int64_t head_stride = 0;
};

std::optional<Heads> try_heads(const Array& x) {
  const int n = x.ndim();
  if (x.shape()[n - 1] > 1 && x.strides()[n - 1] != 1) return std::nullopt;
  Heads heads{x, 0, x.strides()[n - 3], x.strides()[n - 2]};
  std::int64_t expected = -1;
  for (int axis = n - 4; axis >= 0; --axis) {
    if (x.shape()[axis] == 1) continue;
    if (expected < 0) {
      heads.batch_stride = x.strides()[axis];
    } else if (x.strides()[axis] != expected) {
      return std::nullopt;
    }
    expected = x.strides()[axis] * x.shape()[axis];
  }
  return heads;
}

struct RopeWork {
  const char* op;
  Array x;
  std::optional<Array> cos;  // none: computed from the frequencies in sin
  Array sin;
  double factor = 1.0;
  RopeOptions options;

  [[nodiscard]] std::int64_t half() const { return sin.shape()[sin.ndim() - 1]; }
};

bool is_whole(const Heads& heads, std::int64_t vec) {
  return reinterpret_cast<std::uintptr_t>(heads.array.data()) % 16 == 0 &&
         heads.batch_stride % vec == 0 && heads.seq_stride % vec == 0 &&
         heads.head_stride % vec == 0;
}

// Pairs per thread: 16 bytes of elements where everything is aligned to it.
int vector_of(const RopeWork& work, const Heads& x, const Heads& out, std::int64_t tail) {
  const auto vec = static_cast<std::int64_t>(16 / itemsize(work.x.dtype()));
  const auto table_aligned = [&](const Array& table) {
    return reinterpret_cast<std::uintptr_t>(table.data()) % 16 == 0 &&
           (table.ndim() == 1 || table.strides()[0] % vec == 0);
  };
  const bool aligned = work.half() % vec == 0 && tail % vec == 0 && is_whole(x, vec) &&
                       is_whole(out, vec) && (!work.cos || table_aligned(*work.cos)) &&
                       table_aligned(work.sin);
  return aligned ? static_cast<int>(vec) : 1;
}

void launch_rope(const RopeWork& work, const Array& result) {
  const Array given = try_heads(work.x) ? work.x : contiguous(work.x, work.op);
  const Heads x = *try_heads(given);
  const Heads out = *try_heads(result);
  const int n = given.ndim();
  const std::int64_t dim = given.shape()[n - 1];
  const std::int64_t tail = same_place(given, result) ? 0 : dim - 2 * work.half();
  const int vec = vector_of(work, x, out, tail);
  std::optional<Array> positions = work.options.positions;
  if (positions) positions = contiguous(*positions, work.op);

  const RopeVariant variant{given.dtype(), work.cos ? work.sin.dtype() : DType::kFloat32,
                            positions ? positions->dtype() : DType::kInt32,
                            work.options.interleaved, vec};
  const Kernel& code =
      kernel(Context::get(given.device().index), {Family::nn, kKernel, pack(variant)},
             [&] { return rope_spec(variant); });
  kernels::RopeArgs args{};
  args.x = address(given);
  args.out = address(result);
  args.cos = address(work.cos);
  args.sin = address(work.sin);
  args.positions = address(positions);
  args.x_batch = x.batch_stride;
  args.x_seq = x.seq_stride;
  args.x_head = x.head_stride;
  args.out_batch = out.batch_stride;
  args.out_seq = out.seq_stride;
  args.out_head = out.head_stride;
  if (work.cos) {
    args.cos_row = work.cos->strides()[0];
    args.sin_row = work.sin.strides()[0];
    args.table_rows = work.sin.shape()[0];
  }
  args.start = work.options.start;
  args.seq = static_cast<int>(given.shape()[n - 3]);
  args.heads = static_cast<int>(given.shape()[n - 2]);
  args.half = static_cast<int>(work.half());
  args.tail = static_cast<int>(tail);
  args.factor = static_cast<float>(work.factor);
  if (positions && positions->ndim() > 1) args.positions_batch = args.seq;
  args.num_items = given.size() / dim * ((work.half() + tail) / vec);
  void* params[] = {&args};
  submit(code, grid_1d(args.num_items, kBlock, kBlock),
         {&given, work.cos ? &*work.cos : nullptr, &work.sin, positions ? &*positions : nullptr,
          &result},
         params);
}

void check_x(const Array& x, const char* op) {
  check_rows(x, "x", 3, op);
  for (const int axis : {x.ndim() - 3, x.ndim() - 2})
    if (x.shape()[axis] > std::numeric_limits<std::int32_t>::max())
      throw InvalidArgument(cat(op, ": x has shape ", to_string(x.shape()),
                                ", expected fewer than 2**31 tokens and heads"));
}

void check_half(const Array& x, std::int64_t half, const char* argument, const char* op) {
  if (half < 1 || 2 * half > x.shape()[x.ndim() - 1])
    throw InvalidArgument(cat(op, ": ", argument, " has ", half, " angles to a row, expected 1 to ",
                              x.shape()[x.ndim() - 1] / 2, " for x of shape ",
                              to_string(x.shape())));
}

void check_positions(const Array& x, const RopeOptions& options, const char* op) {
  if (!options.positions) return;
  const Array& positions = *options.positions;
  if (positions.dtype() != DType::kInt32 && positions.dtype() != DType::kInt64)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": positions has dtype ", name(positions.dtype()), ", expected int32 or int64"));
  check_device(positions, "positions", x.device(), "x", op);
  const int tokens = x.ndim() - 2;
  bool fits = positions.ndim() == tokens || positions.ndim() == 1;
  for (int i = 1; fits && i <= positions.ndim(); ++i)
    fits = positions.shape()[positions.ndim() - i] == x.shape()[tokens - i];
  if (!fits)
    throw InvalidArgument(cat(op, ": positions has shape ", to_string(positions.shape()),
                              ", expected one per token of x, whose shape is ",
                              to_string(x.shape())));
}

Array run(RopeWork work, const std::optional<Array>& out) {
  const Array& x = work.x;
  if (out) check_out(*out, x.shape(), x.dtype(), x.device(), work.op);
  if (x.size() == 0) return out ? *out : Array::empty(x.shape(), x.dtype(), x.device(), work.op);
  if (!x.device().is_cuda()) {
    const Array result = out ? *out : Array::empty(x.shape(), x.dtype(), x.device(), work.op);
    CpuCall call{work.op, {x}, {result}, {}};
    if (work.cos) call.args.emplace_back(*work.cos);
    call.args.emplace_back(work.sin);
    call.args.push_back(cpu_optional(work.options.positions));
    call.options = {{"start", Scalar(work.options.start)},
                    {"interleaved", Scalar(work.options.interleaved)}};
    if (!work.cos) call.options.emplace_back("factor", Scalar(work.factor));
    run_on_cpu(std::move(call));
    return result;
  }
  work.sin = contiguous(work.sin, work.op);
  if (work.cos) work.cos = contiguous(*work.cos, work.op);
  const bool direct = out && out->dtype() == x.dtype() && try_heads(*out) &&
                      ((same_place(*out, x) && try_heads(x)) || !may_overlap(*out, x)) &&
                      !may_overlap(*out, work.sin) && (!work.cos || !may_overlap(*out, *work.cos));
  const Array result = direct ? *out : Array::empty(x.shape(), x.dtype(), x.device(), work.op);
  launch_rope(work, result);
  if (out && !direct) copy_into(*out, result, work.op);
  return out ? *out : result;
}

}  // namespace

Array rope(const Array& x, const RopeAngles& angles, const RopeOptions& options,
           const std::optional<Array>& out) {
  constexpr const char* kOp = "rope";
  check_x(x, kOp);
  if (angles.cos.ndim() != 2)
    throw InvalidArgument(
        cat(kOp, ": cos has shape ", to_string(angles.cos.shape()), ", expected (rows, half)"));
  check_half(x, angles.cos.shape()[1], "cos", kOp);
  check_weight(x, angles.cos, angles.cos.shape(), "cos", kOp);
  check_weight(x, angles.sin, angles.cos.shape(), "sin", kOp);
  if (angles.sin.dtype() != angles.cos.dtype())
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(kOp, ": sin has dtype ", name(angles.sin.dtype()), ", cos has ",
                              name(angles.cos.dtype())));
  check_positions(x, options, kOp);
  const std::int64_t rows = angles.cos.shape()[0];
  const std::int64_t tokens = x.shape()[x.ndim() - 3];
  if (!options.positions && (options.start < 0 || options.start > rows - tokens))
    throw InvalidArgument(cat(kOp, ": start is ", options.start, " for ", tokens,
                              " tokens of x, expected positions within the ", rows,
                              " rows of cos"));
  return run({kOp, x, angles.cos, angles.sin, 1.0, options}, out);
}

Array rope_computed(const Array& x, const RopeFrequencies& angles, const RopeOptions& options,
                    const std::optional<Array>& out) {
  constexpr const char* kOp = "rope_computed";
  check_x(x, kOp);
  const Array& frequencies = angles.frequencies;
  if (frequencies.ndim() != 1)
    throw InvalidArgument(cat(kOp, ": frequencies has shape ", to_string(frequencies.shape()),
                              ", expected one dimension"));
  if (frequencies.dtype() != DType::kFloat32)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(kOp, ": frequencies has dtype ", name(frequencies.dtype()), ", expected float32"));
  check_device(frequencies, "frequencies", x.device(), "x", kOp);
  check_half(x, frequencies.shape()[0], "frequencies", kOp);
  if (!std::isfinite(angles.factor))
    throw InvalidArgument(cat(kOp, ": factor is ", angles.factor, ", expected a finite number"));
  check_positions(x, options, kOp);
  return run({kOp, x, {}, frequencies, angles.factor, options}, out);
}

void nn::enumerate_rope(std::vector<jit::KernelSpec>& specs) {
  for (const auto& [dtype, table] : kWeightTypes)
    for (const DType index : {DType::kInt32, DType::kInt64})
      for (const bool interleaved : {false, true})
        for (const int vec : {1, static_cast<int>(16 / itemsize(dtype))})
          specs.push_back(rope_spec({dtype, table, index, interleaved, vec}));
}

}  // namespace gpk::ops

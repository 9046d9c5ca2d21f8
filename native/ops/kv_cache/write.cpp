#include "ops/kv_cache/write.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/kv_cache.h"
#include "ops/chain/recorder.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/kv_cache/kernels.h"
#include "ops/nn/rows.h"
#include "ops/output.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace kv_cache;

using Kind = InvalidArgument::Kind;

constexpr const char* kOp = "kv_cache_write";
constexpr auto kKernel = static_cast<std::uint8_t>(KvCacheKernel::kWrite);
constexpr std::int64_t kBlock = 256;

std::uint64_t pack(DType dtype, DType cache, int vec) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("cache", cache, plan::kDTypeBits)
      .field("vec", vec, 4)
      .key();
}

jit::KernelSpec write_spec(DType dtype, DType cache, int vec) {
  jit::KernelSpec spec;
  spec.file = "kv_cache/write.cuh";
  spec.op = kOp;
  spec.kernel = kKernel;
  spec.variant = pack(dtype, cache, vec);
  const char* stored = cache == dtype ? info(dtype).cuda_name : "gpk::float8_e4m3fn";
  spec.expression = cat("gpk::kv_write<", info(dtype).cuda_name, ", ", stored, ", ", vec, ">");
  return spec;
}

// --- checks -------------------------------------------------------------------------------------

// Throws unless `x` is [tokens, heads, dim] with the tokens, the dim and the dtype of k.
void check_heads(const Array& k, const Array& x, const char* argument) {
  check_same_dtype(x, argument, k, "k", kOp);
  if (x.ndim() != 3 || x.shape()[0] != k.shape()[0] || x.shape()[2] != k.shape()[2])
    throw InvalidArgument(cat(kOp, ": ", argument, " has shape ", to_string(x.shape()),
                              ", expected (tokens, heads, dim) as k of shape ",
                              to_string(k.shape())));
  check_device(x, argument, k.device(), "k", kOp);
}

void check_scale(const Array& k, const CacheScale& scale, const char* argument) {
  if (!scale.array) {
    if (!(scale.value > 0.0) || std::isinf(scale.value))
      throw InvalidArgument(
          cat(kOp, ": ", argument, " is ", scale.value, ", expected more than 0"));
    return;
  }
  if (scale.array->dtype() != DType::kFloat32 || scale.array->size() != 1)
    throw InvalidArgument(cat(kOp, ": ", argument, " has shape ", to_string(scale.array->shape()),
                              " and dtype ", name(scale.array->dtype()),
                              ", expected a number or one float32"));
  check_device(*scale.array, argument, k.device(), "k", kOp);
}

void check_cache(const Array& k, const KvCache& cache, const char* argument,
                 const char* scale_argument) {
  const Array& array = cache.array;
  if (array.dtype() != k.dtype() && array.dtype() != DType::kFloat8E4M3FN)
    throw InvalidArgument(
        Kind::kType, cat(kOp, ": ", argument, " has dtype ", name(array.dtype()), ", expected ",
                         name(k.dtype()), " (as k) or float8_e4m3fn"));
  const int n = array.ndim();
  if (n < 3 || n > 4 || array.shape()[n - 2] != k.shape()[1] ||
      array.shape()[n - 1] != k.shape()[2])
    throw InvalidArgument(cat(kOp, ": ", argument, " has shape ", to_string(array.shape()),
                              ", expected (blocks, page, ", k.shape()[1], ", ", k.shape()[2],
                              ") or (max, ", k.shape()[1], ", ", k.shape()[2], ")"));
  if (array.shape()[n - 1] > 1 && array.strides()[n - 1] != 1)
    throw InvalidArgument(cat(kOp, ": ", argument, " is not contiguous along its last axis"));
  check_device(array, argument, k.device(), "k", kOp);
  check_writable(array, kOp, argument);
  check_scale(k, cache.scale, scale_argument);
  if (array.dtype() == k.dtype() && (cache.scale.array || cache.scale.value != 1.0))
    throw InvalidArgument(cat(kOp, ": ", scale_argument, " was given, ", argument, " has dtype ",
                              name(array.dtype()), ", expected float8_e4m3fn"));
}

void check_indices(const Array& k, const Array& indices, const char* argument) {
  if (indices.dtype() != DType::kInt32 && indices.dtype() != DType::kInt64)
    throw InvalidArgument(Kind::kType, cat(kOp, ": ", argument, " has dtype ",
                                           name(indices.dtype()), ", expected int32 or int64"));
  if (indices.ndim() != 1 || indices.shape()[0] != k.shape()[0])
    throw InvalidArgument(cat(kOp, ": ", argument, " has shape ", to_string(indices.shape()),
                              ", expected (", k.shape()[0], ",) for k of shape ",
                              to_string(k.shape())));
  check_device(indices, argument, k.device(), "k", kOp);
}

void check_tables(const Array& k, const KvWriteOptions& options) {
  if (!options.cos && !options.sin) return;
  if (!options.cos || !options.sin || !options.positions)
    throw InvalidArgument(cat(kOp, ": expected all of cos, sin and positions, or none"));
  for (const auto& [table, argument] :
       {std::pair{&*options.cos, "cos"}, std::pair{&*options.sin, "sin"}}) {
    if (table->dtype() != k.dtype() && table->dtype() != DType::kFloat32)
      throw InvalidArgument(
          Kind::kType, cat(kOp, ": ", argument, " has dtype ", name(table->dtype()), ", expected ",
                           name(k.dtype()), " (as k) or float32"));
    check_device(*table, argument, k.device(), "k", kOp);
  }
  if (options.cos->ndim() != 2 || !(options.cos->shape() == options.sin->shape()) ||
      options.cos->dtype() != options.sin->dtype())
    throw InvalidArgument(cat(kOp, ": cos has shape ", to_string(options.cos->shape()), " and ",
                              name(options.cos->dtype()), ", sin ", to_string(options.sin->shape()),
                              " and ", name(options.sin->dtype()),
                              ", expected (rows, half) of both"));
  const std::int64_t half = options.cos->shape()[1];
  if (half < 1 || 2 * half > k.shape()[2])
    throw InvalidArgument(cat(kOp, ": cos has ", half, " angles, expected 1 to ", k.shape()[2] / 2,
                              " for k of shape ", to_string(k.shape())));
}

void check_weight(const Array& k, const std::optional<Array>& weight, const char* argument) {
  const Dims shape = {k.shape()[2]};
  if (!weight) return;
  if (!(weight->shape() == shape))
    throw InvalidArgument(cat(kOp, ": ", argument, " has shape ", to_string(weight->shape()),
                              ", expected ", to_string(shape)));
  if (weight->dtype() != k.dtype() && weight->dtype() != DType::kFloat32)
    throw InvalidArgument(
        Kind::kType, cat(kOp, ": ", argument, " has dtype ", name(weight->dtype()), ", expected ",
                         name(k.dtype()), " (as k) or float32"));
  check_device(*weight, argument, k.device(), "k", kOp);
}

void check_write(const Array& k, const Array& v, const KvCache& k_cache, const KvCache& v_cache,
                 const Array& slots, const KvWriteOptions& options,
                 const std::optional<Array>& q_out) {
  nn::check_float(k, "k", kOp);
  if (k.ndim() != 3 || k.shape()[1] < 1 || k.shape()[2] < 2 || k.shape()[2] % 2 != 0)
    throw InvalidArgument(cat(kOp, ": k has shape ", to_string(k.shape()),
                              ", expected (tokens, kv_heads, dim) with an even dim"));
  check_heads(k, v, "v");
  if (v.shape()[1] != k.shape()[1])
    throw InvalidArgument(cat(kOp, ": v has shape ", to_string(v.shape()), ", k ",
                              to_string(k.shape()), ", expected as many heads"));
  check_cache(k, k_cache, "k_cache", "k_scale");
  check_cache(k, v_cache, "v_cache", "v_scale");
  if (!(k_cache.array.shape() == v_cache.array.shape()) ||
      k_cache.array.dtype() != v_cache.array.dtype())
    throw InvalidArgument(cat(kOp, ": v_cache has shape ", to_string(v_cache.array.shape()),
                              " and dtype ", name(v_cache.array.dtype()), ", k_cache ",
                              to_string(k_cache.array.shape()), " and ",
                              name(k_cache.array.dtype())));
  check_indices(k, slots, "slots");
  if (options.q) check_heads(k, *options.q, "q");
  if (options.positions) check_indices(k, *options.positions, "positions");
  check_tables(k, options);
  check_weight(k, options.q_weight, "q_weight");
  check_weight(k, options.k_weight, "k_weight");
  if (!(options.eps >= 0.0) || std::isinf(options.eps))
    throw InvalidArgument(cat(kOp, ": eps is ", options.eps, ", expected 0 or more"));
  if (!options.q && (q_out || options.q_weight))
    throw InvalidArgument(cat(kOp, ": ", q_out ? "q_out" : "q_weight", " was given without q"));
  if (q_out) check_out(*q_out, options.q->shape(), k.dtype(), k.device(), kOp);
}

// --- launch -------------------------------------------------------------------------------------

bool is_aligned(const Array& x, std::int64_t vec, std::int64_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(x.data()) % static_cast<std::uintptr_t>(bytes) != 0)
    return false;
  for (int axis = 0; axis < x.ndim() - 1; ++axis)
    if (x.shape()[axis] > 1 && x.strides()[axis] % vec != 0) return false;
  return true;
}

kernels::TokenHeads token_heads(const Array& x) {
  return {address(x), x.strides()[0], x.strides()[1]};
}

kernels::CacheSlots cache_slots(const KvCache& cache) {
  const Array& x = cache.array;
  const int n = x.ndim();
  return {address(x),
          address(cache.scale.array),
          n == 4 ? x.strides()[0] : 0,
          x.strides()[n - 3],
          x.strides()[n - 2],
          static_cast<float>(cache.scale.value),
          0};
}

// Everything a launch reads or writes, with rows that are contiguous.
struct WriteOperands {
  Array k;
  Array v;
  KvCache k_cache;
  KvCache v_cache;
  Array slots;
  std::optional<Array> q, q_out, cos, sin, positions, q_weight, k_weight;

  // Elements per access: 16 bytes of k where everything is aligned to it.
  [[nodiscard]] int vector(std::int64_t half) const {
    const auto vec = static_cast<std::int64_t>(16 / itemsize(k.dtype()));
    const auto cache_bytes = vec * static_cast<std::int64_t>(itemsize(k_cache.array.dtype()));
    bool whole = half % vec == 0 && (k.shape()[2] / 2 - half) % vec == 0 &&
                 is_aligned(k_cache.array, vec, cache_bytes) &&
                 is_aligned(v_cache.array, vec, cache_bytes);
    for (const Array* x : {&k, &v}) whole = whole && is_aligned(*x, vec, 16);
    for (const auto* x : {&q, &q_out, &cos, &sin, &q_weight, &k_weight})
      whole = whole && (!*x || is_aligned(**x, vec, 16));
    return whole ? static_cast<int>(vec) : 1;
  }
  [[nodiscard]] unsigned wide() const {
    const auto is = [](const std::optional<Array>& x, DType dtype) {
      return x && x->dtype() == dtype;
    };
    return (is(cos, DType::kFloat32) ? kernels::kWideTables : 0) |
           (is(q_weight, DType::kFloat32) ? kernels::kWideQWeight : 0) |
           (is(k_weight, DType::kFloat32) ? kernels::kWideKWeight : 0) |
           (is(positions, DType::kInt64) ? kernels::kWidePositions : 0) |
           (slots.dtype() == DType::kInt64 ? kernels::kWideSlots : 0);
  }
};

kernels::KvWriteArgs write_args(const WriteOperands& x, const KvWriteOptions& options, int vec) {
  const Array& cache = x.k_cache.array;
  kernels::KvWriteArgs args{};
  args.k = token_heads(x.k);
  args.v = token_heads(x.v);
  args.k_cache = cache_slots(x.k_cache);
  args.v_cache = cache_slots(x.v_cache);
  args.slots = address(x.slots);
  args.positions = address(x.positions);
  args.cos = address(x.cos);
  args.sin = address(x.sin);
  args.q_weight = address(x.q_weight);
  args.k_weight = address(x.k_weight);
  if (x.q) {
    args.q = token_heads(*x.q);
    args.q_out = address(x.q_out);
    args.q_out_token = x.q_out->strides()[0];
    args.q_out_head = x.q_out->strides()[1];
    args.q_heads = static_cast<int>(x.q->shape()[1]);
  }
  if (x.cos) {
    args.table_rows = x.cos->shape()[0];
    args.cos_row = x.cos->strides()[0];
    args.sin_row = x.sin->strides()[0];
    args.half = static_cast<int>(x.cos->shape()[1]);
  }
  args.kv_heads = static_cast<int>(x.k.shape()[1]);
  args.dim = static_cast<int>(x.k.shape()[2]);
  args.num_rows = x.k.shape()[0] * (args.q_heads + 2 * std::int64_t{args.kv_heads});
  args.page = static_cast<int>(cache.shape()[cache.ndim() - 3]);
  args.num_slots = args.page * (cache.ndim() == 4 ? cache.shape()[0] : 1);
  args.eps = static_cast<float>(options.eps);
  args.offset = static_cast<float>(options.offset);
  const auto accesses = static_cast<unsigned>(std::max(args.dim / 2 / vec, 1));
  args.group = static_cast<int>(std::min(std::bit_ceil(accesses), 32u));
  args.wide = x.wide();
  return args;
}

void launch_write(WriteOperands x, const KvWriteOptions& options) {
  x.k = with_rows(x.k, kOp);
  x.v = with_rows(x.v, kOp);
  x.slots = contiguous(x.slots, kOp);
  if (x.positions) x.positions = contiguous(*x.positions, kOp);
  for (auto* part : {&x.q, &x.cos, &x.sin, &x.q_weight, &x.k_weight})
    if (*part) *part = with_rows(**part, kOp);
  const DType dtype = x.k.dtype();
  const DType cache = x.k_cache.array.dtype();
  const int vec = x.vector(x.cos ? x.cos->shape()[1] : 0);
  kernels::KvWriteArgs args = write_args(x, options, vec);
  std::vector<const Array*> arrays{&x.k, &x.v, &x.k_cache.array, &x.v_cache.array, &x.slots};
  for (const auto* part : {&x.q, &x.q_out, &x.cos, &x.sin, &x.positions, &x.q_weight, &x.k_weight,
                           &x.k_cache.scale.array, &x.v_cache.scale.array})
    if (*part) arrays.push_back(&**part);
  if (chain::Recorder* const recorder = chain::Recorder::current()) {
    const Array* const written[] = {&x.k_cache.array, &x.v_cache.array,
                                    x.q_out ? &*x.q_out : nullptr};
    recorder->add_kv_write(args, dtype, cache, vec, {arrays, written});
    return;
  }
  Context& context = Context::get(x.k.device().index);
  const Kernel& code = kernel(context, {Family::kv_cache, kKernel, pack(dtype, cache, vec)},
                              [&] { return write_spec(dtype, cache, vec); });
  void* params[] = {&args};
  const LaunchConfig config = grid_1d(args.num_rows * args.group, kBlock, kBlock);
  submit(code, dependent(config, context.traits()), arrays, params);
}

void run_write_on_cpu(const WriteOperands& x, const KvWriteOptions& options) {
  const auto scale = [](const CacheScale& of) {
    return of.array ? CpuArg(*of.array) : CpuArg(Scalar(of.value));
  };
  std::vector<Array> outs{x.k_cache.array, x.v_cache.array};
  if (x.q_out) outs.push_back(*x.q_out);
  run_on_cpu({kOp,
              {x.k, x.v, x.slots},
              std::move(outs),
              {{"q", cpu_optional(x.q)},
               {"cos", cpu_optional(x.cos)},
               {"sin", cpu_optional(x.sin)},
               {"positions", cpu_optional(x.positions)},
               {"q_weight", cpu_optional(x.q_weight)},
               {"k_weight", cpu_optional(x.k_weight)},
               {"eps", Scalar(options.eps)},
               {"offset", Scalar(options.offset)},
               {"k_scale", scale(x.k_cache.scale)},
               {"v_scale", scale(x.v_cache.scale)}}});
}

}  // namespace

std::optional<Array> kv_cache_write(const Array& k, const Array& v, const KvCache& k_cache,
                                    const KvCache& v_cache, const Array& slots,
                                    const KvWriteOptions& options,
                                    const std::optional<Array>& q_out) {
  check_write(k, v, k_cache, v_cache, slots, options, q_out);
  std::optional<Array> result;
  if (options.q) {
    const bool direct = q_out && nn::takes_rows(*q_out, k.dtype(), {&*options.q}) &&
                        !may_overlap(*q_out, k) && !may_overlap(*q_out, v);
    result = direct ? *q_out : Array::empty(options.q->shape(), k.dtype(), k.device(), kOp);
  }
  const WriteOperands x{k,
                        v,
                        k_cache,
                        v_cache,
                        slots,
                        options.q,
                        result,
                        options.cos,
                        options.sin,
                        options.positions,
                        options.q_weight,
                        options.k_weight};
  if (k.shape()[0] > 0) {
    if (k.device().is_cuda()) {
      launch_write(x, options);
    } else {
      run_write_on_cpu(x, options);
    }
  }
  if (q_out && !same_place(*q_out, *result)) copy_into(*q_out, *result, kOp);
  return q_out ? q_out : result;
}

void kv_cache::enumerate_write(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
    for (const DType cache : {dtype, DType::kFloat8E4M3FN})
      for (const int vec : {1, static_cast<int>(16 / itemsize(dtype))})
        specs.push_back(write_spec(dtype, cache, vec));
}

}  // namespace gpk::ops

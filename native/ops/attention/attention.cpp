#include "ops/attention/attention.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/attention.h"
#include "ops/attention/launch.h"
#include "ops/chain/recorder.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/output.h"

namespace gpk::ops {
namespace {

using namespace attention;

constexpr const char* kOp = "attention";
constexpr std::int64_t kMaxDim = 256;

[[noreturn]] void refuse(const char* argument, const std::string& given,
                         const std::string& expected,
                         InvalidArgument::Kind kind = InvalidArgument::Kind::kValue) {
  throw InvalidArgument(kind, cat(kOp, ": ", argument, " ", given, ", expected ", expected));
}

std::string shape_text(const Array& array) { return cat("has shape ", to_string(array.shape())); }

void check_dtypes(const Array& q, const Array& k, const Array& v) {
  const DType dtype = q.dtype();
  if (dtype != DType::kFloat16 && dtype != DType::kBFloat16 && dtype != DType::kFloat32)
    refuse("q", cat("has dtype ", name(dtype)), "float16, bfloat16 or float32",
           InvalidArgument::Kind::kType);
  for (const auto& [array, argument] : {std::pair{&k, "k"}, std::pair{&v, "v"}})
    if (array->dtype() != dtype && array->dtype() != DType::kFloat8E4M3FN)
      refuse(argument, cat("has dtype ", name(array->dtype())),
             cat(name(dtype), " (as q) or float8_e4m3fn"), InvalidArgument::Kind::kType);
  if (k.dtype() != v.dtype())
    refuse("v", cat("has dtype ", name(v.dtype())), cat(name(k.dtype()), " (as k)"),
           InvalidArgument::Kind::kType);
}

// An int32 array of that shape on q's device.
void check_indices(const Array& q, const std::optional<Array>& array, const Dims& shape,
                   const char* argument) {
  if (!array) return;
  check_dtype(*array, argument, DType::kInt32, kOp);
  check_shape(*array, argument, shape, kOp);
  check_device(*array, argument, q.device(), "q", kOp);
}

void check_number(double x, const char* argument, bool positive) {
  if (!std::isfinite(x) || x < 0.0 || (positive && x == 0.0))
    refuse(argument, cat("is ", x), positive ? "a number > 0" : "a number >= 0");
}

// Four dimensions: one sequence or a packed array gets a batch of one.
Array four(const Array& array) {
  if (array.ndim() == 4) return array;
  return *try_reshape(array, {1, array.shape()[0], array.shape()[1], array.shape()[2]});
}

// As [batch, heads, q_len, kv_len] by strides.
std::optional<Array> spread(const std::optional<Array>& array, const AttentionDesc& d,
                            const char* argument) {
  if (!array) return {};
  const Dims shape{d.batch, d.heads, d.q_len, d.kv_len};
  bool fits = array->ndim() <= 4;
  for (int i = 1; fits && i <= array->ndim(); ++i) {
    const std::int64_t size = array->shape()[array->ndim() - i];
    fits = size == 1 || size == shape[4 - i];
  }
  if (!fits) refuse(argument, shape_text(*array), cat("one that broadcasts to ", to_string(shape)));
  return broadcast_to(*array, shape, kOp);
}

void check_ranks(const Array& q, const Array& k, const Array& v, const AttentionOptions& o) {
  const bool packed_q = o.cu_seqlens_q.has_value();
  const bool packed_k = o.cu_seqlens_k.has_value();
  const bool paged = o.block_table.has_value();
  if (packed_k && !packed_q) refuse("cu_seqlens_k", "is given without cu_seqlens_q", "both");
  if (packed_k && paged) refuse("cu_seqlens_k", "is given with block_table", "one of them");
  if (packed_k && o.lengths) refuse("cu_seqlens_k", "is given with lengths", "one of them");
  if (paged && !o.lengths) refuse("block_table", "is given without lengths", "both");
  if (packed_q && !packed_k && !o.lengths)
    refuse("cu_seqlens_q", "is given alone", "cu_seqlens_k, or lengths of caches");
  if ((packed_q || paged) && (o.mask || o.bias))
    refuse(o.mask ? "mask" : "bias", "is given with packed or paged sequences", "none");
  if (q.ndim() != (packed_q ? 3 : 4) && !(q.ndim() == 3 && !paged && !o.lengths))
    refuse("q", shape_text(q), packed_q ? "(total, heads, dim)" : "(batch, q_len, heads, dim)");
  const int rank = packed_k ? 3 : packed_q || paged ? 4 : q.ndim();
  for (const auto& [array, argument] : {std::pair{&k, "k"}, std::pair{&v, "v"}})
    if (array->ndim() != rank)
      refuse(argument, shape_text(*array),
             packed_k    ? "(total, kv_heads, dim)"
             : paged     ? "(num_blocks, page, kv_heads, dim)"
             : rank == 3 ? "(kv_len, kv_heads, dim)"
                         : "(batch, kv_len, kv_heads, dim)");
}

void check_shapes(const Array& q, const Array& k, const Array& v, const AttentionDesc& d,
                  bool paged) {
  for (int i = 0; i < 3; ++i)
    if (v.shape()[i] != k.shape()[i])
      refuse("v", shape_text(v), cat("that of k, ", to_string(k.shape()), ", up to the last axis"));
  if (k.shape()[3] != q.shape()[3])
    refuse("k", shape_text(k), cat("a head dimension of ", q.shape()[3], ", as q"));
  if (d.kv_heads == 0 || d.heads % d.kv_heads != 0)
    refuse("k", shape_text(k), cat("a number of heads that divides q's ", d.heads));
  if (d.dim < 1 || d.dim > kMaxDim) refuse("q", shape_text(q), "head dimensions of 1 to 256");
  if (d.value_dim < 1 || d.value_dim > kMaxDim)
    refuse("v", shape_text(v), "head dimensions of 1 to 256");
  if (paged) {
    const std::int64_t page = k.shape()[1];
    if (page < 16 || (page & (page - 1)) != 0)
      refuse("k", shape_text(k), "pages of 16, 32, 64, ... keys");
  } else if (d.batch != k.shape()[0] && !d.packed) {
    refuse("k", shape_text(k), cat("a batch of ", d.batch, ", as q"));
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 2;
  if (q.shape()[1] > kMost || d.kv_len > kMost)
    refuse(q.shape()[1] > kMost ? "q" : "k", "has a sequence of 2**30 or more", "fewer");
  constexpr std::int64_t kMostBlocks = 65535;
  if (d.batch > kMostBlocks || d.heads > kMostBlocks)
    refuse("q", shape_text(q), "at most 65535 sequences and heads");
}

// Everything but `out`.
AttentionCall check_attention(const Array& q, const Array& k, const Array& v,
                              const AttentionOptions& o) {
  check_dtypes(q, k, v);
  check_device(k, "k", q.device(), "q", kOp);
  check_device(v, "v", q.device(), "q", kOp);
  check_ranks(q, k, v, o);
  AttentionCall call{{}, four(q), four(k), four(v), q};
  AttentionDesc& d = call.desc;
  const bool packed_q = o.cu_seqlens_q.has_value();
  const bool paged = o.block_table.has_value();
  d.dtype = q.dtype();
  d.kv_dtype = k.dtype();
  d.packed = packed_q;
  d.paged = paged;
  d.heads = call.q.shape()[2];
  d.kv_heads = call.k.shape()[2];
  d.dim = call.q.shape()[3];
  d.value_dim = call.v.shape()[3];
  d.causal = o.causal;
  d.softcap = o.softcap != 0.0;
  d.batch = call.q.shape()[0];
  if (packed_q) {
    if (o.cu_seqlens_q->ndim() != 1 || o.cu_seqlens_q->size() < 1)
      refuse("cu_seqlens_q", shape_text(*o.cu_seqlens_q), "(batch + 1,)");
    d.batch = o.cu_seqlens_q->size() - 1;
  }
  d.q_len = packed_q && o.max_seqlen_q > 0 ? std::min(o.max_seqlen_q, call.q.shape()[1])
                                           : call.q.shape()[1];
  d.kv_len = call.k.shape()[1];
  if (paged) {
    if (o.block_table->ndim() != 2 || o.block_table->shape()[0] != d.batch)
      refuse("block_table", shape_text(*o.block_table), cat("(", d.batch, ", blocks)"));
    d.kv_len *= o.block_table->shape()[1];
  }
  check_shapes(call.q, call.k, call.v, d, paged);
  if (packed_q && !o.cu_seqlens_k && !paged && call.k.shape()[0] != d.batch)
    refuse("k", shape_text(k), cat("a batch of ", d.batch, ", as cu_seqlens_q"));

  check_indices(q, o.lengths, {d.batch}, "lengths");
  check_indices(q, o.cu_seqlens_q, {d.batch + 1}, "cu_seqlens_q");
  check_indices(q, o.cu_seqlens_k, {d.batch + 1}, "cu_seqlens_k");
  if (paged) check_indices(q, o.block_table, o.block_table->shape(), "block_table");
  if (o.mask) check_dtype(*o.mask, "mask", DType::kBool, kOp);
  if (o.bias && o.bias->dtype() != d.dtype && o.bias->dtype() != DType::kFloat32)
    refuse("bias", cat("has dtype ", name(o.bias->dtype())),
           cat(name(d.dtype), " (as q) or float32"), InvalidArgument::Kind::kType);
  if (o.sinks) check_dtype(*o.sinks, "sinks", DType::kFloat32, kOp);
  if (o.sinks) check_shape(*o.sinks, "sinks", {d.heads}, kOp);
  for (const auto& [array, argument] :
       {std::pair{&o.mask, "mask"}, std::pair{&o.bias, "bias"}, std::pair{&o.sinks, "sinks"}})
    if (*array) check_device(**array, argument, q.device(), "q", kOp);
  check_number(o.softcap, "softcap", false);
  check_number(o.scale, "scale", false);
  check_number(o.k_scale, "k_scale", true);
  check_number(o.v_scale, "v_scale", true);
  if (o.window < 0) refuse("window", cat("is ", o.window), "0 (none) or more keys");
  if (o.max_seqlen_q < 0) refuse("max_seqlen_q", cat("is ", o.max_seqlen_q), "0 or more");

  call.mask = spread(o.mask, d, "mask");
  call.bias = spread(o.bias, d, "bias");
  call.sinks = o.sinks;
  call.lengths = o.lengths;
  call.q_starts = o.cu_seqlens_q;
  call.k_starts = o.cu_seqlens_k;
  call.blocks = o.block_table;
  d.masked = call.mask || call.bias;
  call.left = o.window > 0 ? o.window - 1 : kernels::kUnbounded;
  call.right = o.causal ? 0 : kernels::kUnbounded;
  call.scale = o.scale > 0.0 ? o.scale : 1.0 / std::sqrt(static_cast<double>(d.dim));
  call.softcap = o.softcap;
  if (d.kv_dtype != d.dtype) {
    call.scale *= o.k_scale;
    call.v_scale = o.v_scale;
  }
  return call;
}

bool is_aligned(const Array& array) {
  const auto item = static_cast<std::int64_t>(itemsize(array.dtype()));
  bool aligned = reinterpret_cast<std::uintptr_t>(array.data()) % 16 == 0;
  for (int i = 0; i < 3; ++i)
    aligned = aligned && (array.shape()[i] == 1 || array.strides()[i] * item % 16 == 0);
  return aligned;
}

bool is_forward(const Array& array) {
  for (int i = 0; i < 3; ++i)
    if (array.shape()[i] > 1 && array.strides()[i] <= 0) return false;
  return true;
}

// The plan of the call once its 8-bit cache has q's dtype, if tensor cores take it then. A chain
// has decode only.
std::optional<AttentionPlan> plan_widened(const AttentionCall& call, const plan::Machine& machine) {
  AttentionDesc d = call.desc;
  if (d.kv_dtype == d.dtype || chain::Recorder::current() != nullptr) return {};
  d.kv_dtype = d.dtype;
  d.aligned = is_aligned(call.q) && is_aligned(call.out) && d.dim % 8 == 0 && d.value_dim % 8 == 0;
  d.forward = is_forward(call.q) && is_forward(call.out);
  const AttentionPlan plan = plan_attention(d, machine);
  if (plan.engine == Engine::kSimt) return {};
  return plan;
}

void run_on_gpu(AttentionCall& call) {
  AttentionDesc& d = call.desc;
  call.q = with_rows(call.q, kOp);
  call.k = with_rows(call.k, kOp);
  call.v = with_rows(call.v, kOp);
  for (std::optional<Array>* array :
       {&call.sinks, &call.lengths, &call.q_starts, &call.k_starts, &call.blocks})
    if (*array) *array = contiguous(**array, kOp);
  if (call.bias && call.bias->dtype() != DType::kFloat32)
    call.bias = cast(*call.bias, DType::kFloat32, kOp);
  const auto all = [&](bool (*is)(const Array&)) {
    return is(call.q) && is(call.k) && is(call.v) && is(call.out);
  };
  d.aligned = all(is_aligned);
  d.forward = all(is_forward);
  const plan::Machine machine = plan::machine_of(Context::get(call.q.device().index));
  AttentionPlan plan = plan_attention(d, machine);
  if (plan.engine == Engine::kSimt) {
    if (const std::optional<AttentionPlan> wide = plan_widened(call, machine)) {
      widen_cache(call, *wide);
      plan = *wide;
    }
  }
  launch_attention(call, plan);
}

void run_reference(const Array& q, const Array& k, const Array& v, const AttentionOptions& o,
                   const Array& out) {
  run_on_cpu({kOp,
              {q, k, v},
              {out},
              {{"causal", Scalar(o.causal)},
               {"mask", cpu_optional(o.mask)},
               {"bias", cpu_optional(o.bias)},
               {"window", Scalar(o.window)},
               {"softcap", Scalar(o.softcap)},
               {"sinks", cpu_optional(o.sinks)},
               {"scale", Scalar(o.scale)},
               {"lengths", cpu_optional(o.lengths)},
               {"cu_seqlens_q", cpu_optional(o.cu_seqlens_q)},
               {"cu_seqlens_k", cpu_optional(o.cu_seqlens_k)},
               {"block_table", cpu_optional(o.block_table)},
               {"k_scale", Scalar(o.k_scale)},
               {"v_scale", Scalar(o.v_scale)}}});
}

}  // namespace

Array run_attention(const Array& q, const Array& k, const Array& v, const AttentionOptions& options,
                    const std::optional<Array>& out) {
  AttentionCall call = check_attention(q, k, v, options);
  Dims shape = q.shape();
  shape[q.ndim() - 1] = v.shape()[v.ndim() - 1];
  if (out) check_out(*out, shape, q.dtype(), q.device(), kOp);
  const bool direct = out && out->dtype() == q.dtype() &&
                      (same_place(*out, q) || !may_overlap(*out, q)) && !may_overlap(*out, k) &&
                      !may_overlap(*out, v) &&
                      (!q.device().is_cuda() || out->strides()[q.ndim() - 1] == 1);
  const Array result = direct ? *out : Array::empty(shape, q.dtype(), q.device(), kOp);
  if (result.size() > 0 && !q.device().is_cuda()) {
    run_reference(q, k, v, options, result);
  } else if (result.size() > 0 && (call.desc.kv_len == 0 || call.desc.batch == 0)) {
    fill(result, Scalar(0.0), kOp);
  } else if (result.size() > 0) {
    call.out = four(result);
    run_on_gpu(call);
  }
  if (out && !direct) copy_into(*out, result, kOp);
  return out ? *out : result;
}

}  // namespace gpk::ops

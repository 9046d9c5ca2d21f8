#include "ops/moe/unpermute.h"

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/moe.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/moe/kernels.h"
#include "ops/nn/rows.h"
#include "ops/output.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using kernels::kPermuteBlock;
using moe::MoeKernel;

constexpr auto kKernel = static_cast<std::uint8_t>(MoeKernel::kUnpermute);

std::uint64_t pack(DType dtype, int vec) {
  return plan::KeyBuilder().field("dtype", dtype, plan::kDTypeBits).field("vec", vec, 4).key();
}

jit::KernelSpec unpermute_spec(DType dtype, int vec) {
  jit::KernelSpec spec;
  spec.file = "moe/unpermute.cuh";
  spec.op = "moe_unpermute";
  spec.kernel = kKernel;
  spec.variant = pack(dtype, vec);
  spec.expression = cat("gpk::moe_unpermute_rows<", info(dtype).cuda_name, ", ", vec, ">");
  return spec;
}

void check_unpermute(const Array& rows, const Array& row_map, const std::optional<Array>& weights,
                     const char* op) {
  nn::check_float(rows, "rows", op);
  if (rows.ndim() != 2)
    throw InvalidArgument(
        cat(op, ": rows has shape ", to_string(rows.shape()), ", expected 2 dimensions"));
  if (row_map.dtype() != DType::kInt32)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": row_map has dtype ", name(row_map.dtype()), ", expected int32"));
  if (row_map.ndim() != 1 && row_map.ndim() != 2)
    throw InvalidArgument(cat(op, ": row_map has shape ", to_string(row_map.shape()),
                              ", expected (tokens, top_k) or (tokens,)"));
  check_device(row_map, "row_map", rows.device(), "rows", op);
  if (!weights) return;
  if (weights->dtype() != DType::kFloat32 && weights->dtype() != rows.dtype())
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": weights has dtype ", name(weights->dtype()),
                              ", expected float32 or ", name(rows.dtype()), " (as rows)"));
  if (!(weights->shape() == row_map.shape()))
    throw InvalidArgument(cat(op, ": weights has shape ", to_string(weights->shape()),
                              ", row_map has ", to_string(row_map.shape())));
  check_device(*weights, "weights", rows.device(), "rows", op);
}

void launch_unpermute(const Array& given, const Array& row_map, const std::optional<Array>& weights,
                      const Array& out, const char* op) {
  const nn::Rows rows = nn::rows_of(given, op);
  const nn::Rows to = *nn::try_rows(out);
  const DType dtype = given.dtype();
  const auto wide = static_cast<int>(16 / itemsize(dtype));
  const int vec = rows.width % wide == 0 && nn::is_aligned({&rows, &to}) ? wide : 1;
  kernels::MoeUnpermuteArgs args{};
  args.rows = address(rows.array);
  args.row_map = address(row_map);
  args.weights = address(weights);
  args.out = address(out);
  args.rows_row = rows.stride;
  args.out_row = to.stride;
  args.num_rows = given.shape()[0];
  args.tokens = row_map.shape()[0];
  args.width = rows.width;
  args.top_k = row_map.ndim() == 1 ? 1 : static_cast<int>(row_map.shape()[1]);
  args.lanes = moe::row_lanes(rows.width / vec, 1);
  const Kernel& code =
      kernel(Context::get(given.device().index), {Family::moe, kKernel, pack(dtype, vec)},
             [&] { return unpermute_spec(dtype, vec); });
  void* params[] = {&args};
  submit(code, grid_1d(args.tokens, kPermuteBlock / args.lanes, kPermuteBlock),
         {&rows.array, &row_map, weights ? &*weights : nullptr, &out}, params);
}

}  // namespace

Array moe_unpermute(const Array& rows, const Array& row_map, const std::optional<Array>& weights,
                    const std::optional<Array>& out, const char* op) {
  check_unpermute(rows, row_map, weights, op);
  const Dims shape{row_map.shape()[0], rows.shape()[1]};
  if (out) check_out(*out, shape, rows.dtype(), rows.device(), op);
  const bool direct = out && out->dtype() == rows.dtype() && nn::try_rows(*out) &&
                      !may_overlap(*out, rows) && !may_overlap(*out, row_map) &&
                      !(weights && may_overlap(*out, *weights));
  const Array result = direct ? *out : Array::empty(shape, rows.dtype(), rows.device(), op);
  if (result.size() > 0) {
    if (rows.device().is_cuda()) {
      std::optional<Array> scales;
      if (weights) scales = contiguous(cast(*weights, DType::kFloat32, op), op);
      launch_unpermute(rows, contiguous(row_map, op), scales, result, op);
    } else {
      run_on_cpu({"moe_unpermute", {rows, row_map, cpu_optional(weights)}, {result}});
    }
    if (out && !direct) copy_into(*out, result, op);
  }
  return out ? *out : result;
}

void moe::enumerate_unpermute(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
    for (const int vec : {1, static_cast<int>(16 / itemsize(dtype))})
      specs.push_back(unpermute_spec(dtype, vec));
}

}  // namespace gpk::ops

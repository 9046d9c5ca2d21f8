#include "ops/nn/embedding.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/device_report.h"
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

constexpr const char* kOp = "embedding";
constexpr auto kKernel = static_cast<std::uint8_t>(NnKernel::kEmbedding);
constexpr unsigned kBlock = 256;

std::uint64_t pack(DType dtype, DType position, int vec) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("position", position, plan::kDTypeBits)
      .field("vec", vec, 4)
      .key();
}

jit::KernelSpec embedding_spec(DType dtype, DType position, int vec) {
  jit::KernelSpec spec;
  spec.file = "nn/embedding.cuh";
  spec.op = kOp;
  spec.kernel = kKernel;
  spec.variant = pack(dtype, position, vec);
  spec.expression =
      cat("gpk::embedding<", info(dtype).cuda_name, ", ", info(position).cuda_name, ", ", vec, ">");
  return spec;
}

void check_index(const Array& table, const Array& indices, const char* argument) {
  if (indices.dtype() != DType::kInt32 && indices.dtype() != DType::kInt64)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(kOp, ": ", argument, " has dtype ", name(indices.dtype()),
                              ", expected int32 or int64"));
  check_device(indices, argument, table.device(), "table", kOp);
}

std::int64_t length_of(const Array& ids) {
  return ids.ndim() == 0 ? 1 : ids.shape()[ids.ndim() - 1];
}

void check_positions(const Array& table, const Array& ids, const EmbeddingOptions& options) {
  if (!options.position_table) {
    if (options.positions || options.start != 0)
      throw InvalidArgument(cat(kOp, ": ", options.positions ? "positions" : "start",
                                " was given without position_table"));
    return;
  }
  const Array& rows = *options.position_table;
  if (rows.ndim() != 2 || rows.shape()[1] != table.shape()[1])
    throw InvalidArgument(cat(kOp, ": position_table has shape ", to_string(rows.shape()),
                              ", expected (rows, ", table.shape()[1], ") as table"));
  if (rows.dtype() != table.dtype() && rows.dtype() != DType::kFloat32)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(kOp, ": position_table has dtype ", name(rows.dtype()), ", expected ",
                              name(table.dtype()), " (as table) or float32"));
  check_device(rows, "position_table", table.device(), "table", kOp);
  if (options.positions) {
    const Array& positions = *options.positions;
    check_index(table, positions, "positions");
    if (!(positions.shape() == ids.shape()) && !(positions.shape() == Dims{length_of(ids)}))
      throw InvalidArgument(cat(kOp, ": positions has shape ", to_string(positions.shape()),
                                ", expected that of ids, ", to_string(ids.shape()),
                                ", or of its last axis"));
    return;
  }
  if (options.start < 0 || options.start > rows.shape()[0] - length_of(ids))
    throw InvalidArgument(cat(kOp, ": start is ", options.start, " for ", length_of(ids),
                              " ids, expected positions within the ", rows.shape()[0],
                              " rows of position_table"));
}

Dims check_embedding(const Array& table, const Array& ids, const EmbeddingOptions& options) {
  check_float(table, "table", kOp);
  if (table.ndim() != 2)
    throw InvalidArgument(
        cat(kOp, ": table has shape ", to_string(table.shape()), ", expected (vocabulary, dim)"));
  check_rows(table, "table", 2, kOp);
  check_index(table, ids, "ids");
  if (!std::isfinite(options.scale))
    throw InvalidArgument(cat(kOp, ": scale is ", options.scale, ", expected a finite number"));
  check_positions(table, ids, options);
  if (ids.ndim() == kMaxRank)
    throw InvalidArgument(cat(kOp, ": ids has shape ", to_string(ids.shape()),
                              ", expected fewer than ", kMaxRank, " dimensions"));
  Dims shape = Dims::filled(ids.ndim() + 1, table.shape()[1]);
  for (int i = 0; i < ids.ndim(); ++i) shape[i] = ids.shape()[i];
  return shape;
}

bool takes_vectors(const Array& array, std::int64_t row, std::int64_t vec) {
  return reinterpret_cast<std::uintptr_t>(array.data()) % 16 == 0 && row % vec == 0;
}

void launch_embedding(const Array& given, const Array& given_ids, const EmbeddingOptions& options,
                      const Array& out) {
  const Array table = with_rows(given, kOp);
  const Array ids = contiguous(given_ids, kOp);
  std::optional<Array> rows = options.position_table;
  if (rows) rows = with_rows(*rows, kOp);
  std::optional<Array> positions = options.positions;
  if (positions) positions = contiguous(*positions, kOp);

  const std::int64_t dim = table.shape()[1];
  const auto widest = static_cast<std::int64_t>(16 / itemsize(table.dtype()));
  const bool whole = dim % widest == 0 && takes_vectors(table, table.strides()[0], widest) &&
                     takes_vectors(out, dim, widest) &&
                     (!rows || takes_vectors(*rows, rows->strides()[0], widest));
  const int vec = whole ? static_cast<int>(widest) : 1;
  kernels::EmbeddingArgs args{};
  args.table = address(table);
  args.position_table = address(rows);
  args.ids = address(ids);
  args.positions = address(positions);
  args.out = address(out);
  args.table_row = table.strides()[0];
  args.vocabulary = table.shape()[0];
  if (rows) {
    args.position_row = rows->strides()[0];
    args.position_rows = rows->shape()[0];
  }
  args.start = options.start;
  args.seq = length_of(ids);
  args.accesses = static_cast<int>(dim / vec);
  args.num_items = ids.size() * args.accesses;
  args.shared = positions && positions->size() != ids.size() ? 1 : 0;
  args.scale = static_cast<float>(options.scale);
  args.wide = (ids.dtype() == DType::kInt64 ? kernels::kWideIds : 0) |
              (positions && positions->dtype() == DType::kInt64 ? kernels::kWideTokenPositions : 0);
  Context& context = Context::get(table.device().index);
  kernels::IndexReport id_report = context.report().handle("embedding: ids");
  kernels::IndexReport position_report = context.report().handle("embedding: positions");
  const DType position = rows ? rows->dtype() : table.dtype();
  const Kernel& code = kernel(context, {Family::nn, kKernel, pack(table.dtype(), position, vec)},
                              [&] { return embedding_spec(table.dtype(), position, vec); });
  void* params[] = {&args, &id_report, &position_report};
  submit(code, dependent(grid_1d(args.num_items, kBlock, kBlock), context.traits()),
         {&table, rows ? &*rows : nullptr, &ids, positions ? &*positions : nullptr, &out}, params);
}

}  // namespace

Array embedding(const Array& table, const Array& ids, const EmbeddingOptions& options,
                const std::optional<Array>& out) {
  const Dims shape = check_embedding(table, ids, options);
  if (out) check_out(*out, shape, table.dtype(), table.device(), kOp);
  bool direct = out && out->dtype() == table.dtype() && out->is_contiguous() &&
                !may_overlap(*out, table) && !may_overlap(*out, ids);
  for (const auto* other : {&options.position_table, &options.positions})
    direct = direct && (!*other || !may_overlap(*out, **other));
  const Array result = direct ? *out : Array::empty(shape, table.dtype(), table.device(), kOp);
  if (result.size() > 0) {
    if (table.device().is_cuda()) {
      launch_embedding(table, ids, options, result);
    } else {
      run_on_cpu(
          {kOp,
           {table, ids, cpu_optional(options.position_table), cpu_optional(options.positions)},
           {result},
           {{"scale", Scalar(options.scale)}, {"start", Scalar(options.start)}}});
    }
    if (out && !direct) copy_into(*out, result, kOp);
  }
  return out ? *out : result;
}

void nn::enumerate_embedding(std::vector<jit::KernelSpec>& specs) {
  for (const auto& [dtype, position] : kWeightTypes)
    for (const int vec : {1, static_cast<int>(16 / itemsize(dtype))})
      specs.push_back(embedding_spec(dtype, position, vec));
}

}  // namespace gpk::ops

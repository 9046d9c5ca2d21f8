#include "ops/sampling/logit_rows.h"

#include <algorithm>
#include <bit>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/round_up.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/checks.h"
#include "ops/device_address.h"
#include "ops/kernel_table.h"
#include "plan/key_builder.h"

namespace gpk::ops::sampling {
namespace {

using Kind = InvalidArgument::Kind;

constexpr std::size_t kStaticBytes = 35840;  // shared memory that the kernels declare
constexpr std::int64_t kSliceStep = 8;       // the widest access
constexpr std::int64_t kMinSlice = 4096;     // fewer tokens are not worth another block

std::uint64_t pack(DType dtype, int vec, bool clustered) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("vec", vec, 4)
      .field("clustered", clustered, 1)
      .key();
}

jit::KernelSpec spec_of(const TeamKernel& of, DType dtype, int vec, bool clustered) {
  jit::KernelSpec spec;
  spec.file = of.file;
  spec.op = of.op;
  spec.kernel = static_cast<std::uint8_t>(of.kernel);
  spec.variant = pack(dtype, vec, clustered);
  spec.expression = cat(of.name, "<", info(dtype).cuda_name, ", ", vec, ", ",
                        kernels::kSampleThreads, ", ", clustered ? "true" : "false", ">");
  spec.bundled = vec == 1 && !clustered;
  if (clustered) spec.exact_sms = {90, 100, 120};
  return spec;
}

// Clusters of 16 blocks need a part of the chip with as many free multiprocessors.
int max_blocks(std::int64_t rows, const DeviceTraits& traits) {
  if (traits.sm == 90 && rows * 16 <= traits.multiprocessor_count) return 16;
  return 8;
}

}  // namespace

void check_logits(const Array& logits, const char* op) {
  nn::check_rows(logits, "logits", 1, op);
  const std::int64_t width = logits.shape()[logits.ndim() - 1];
  if (width < 1 || width > kMaxVocabulary)
    throw InvalidArgument(cat(op, ": logits has shape ", gpk::to_string(logits.shape()),
                              ", expected 1 to 2**22 elements along the last axis"));
}

Dims rows_shape(const Array& logits) {
  Dims rows = Dims::filled(logits.ndim() - 1, 0);
  for (int i = 0; i < rows.size(); ++i) rows[i] = logits.shape()[i];
  return rows;
}

void check_array(const Array& logits, const Array& array, const char* argument, DType dtype,
                 const Dims& shape, const char* op) {
  check_dtype(array, argument, dtype, op);
  if (!(array.shape() == shape))
    throw InvalidArgument(cat(op, ": ", argument, " has shape ", gpk::to_string(array.shape()),
                              ", expected ", gpk::to_string(shape), " for logits of shape ",
                              gpk::to_string(logits.shape())));
  check_device(array, argument, logits.device(), "logits", op);
}

TeamPlan plan_team(const TeamDesc& desc, const DeviceTraits& traits) {
  const auto wide = static_cast<std::int64_t>(16 / desc.itemsize);
  TeamPlan plan;
  if (desc.compiles && desc.aligned && desc.width % wide == 0) plan.vec = static_cast<int>(wide);
  const auto useful = static_cast<std::uint64_t>(std::max<std::int64_t>(1, desc.width / kMinSlice));
  const auto blocks = std::min<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(useful)),
                                             max_blocks(desc.rows, traits));
  plan.clustered = desc.compiles && traits.cluster_launch && traits.sm >= 90 && blocks > 1;
  if (plan.clustered) plan.blocks = static_cast<int>(blocks);
  plan.slice = static_cast<int>(round_up(ceil_div(desc.width, plan.blocks), kSliceStep));
  const std::size_t list = plan.clustered ? kernels::kShortlistBytes : 0;
  plan.shared = static_cast<std::size_t>(plan.slice) * sizeof(float) + list + kStaticBytes <=
                traits.shared_per_block_optin_bytes;
  return plan;
}

std::string to_string(const TeamPlan& plan) {
  return cat("team(vec=", plan.vec, ", blocks=", plan.blocks, ", slice=", plan.slice,
             plan.shared ? ", shared)" : ")");
}

LogitRows::LogitRows(const Array& logits, const char* op) : rows(nn::rows_of(logits, op)) {
  const TeamDesc desc{rows.rows, rows.width, itemsize(logits.dtype()), nn::is_aligned({&rows}),
                      jit::jit_available()};
  plan = plan_team(desc, Context::get(logits.device().index).traits());
  if (!plan.shared)
    cache = Array::empty({rows.rows, rows.width}, DType::kFloat32, logits.device(), op);
}

kernels::SampleRows LogitRows::args() const {
  kernels::SampleRows args{};
  args.logits = address(rows.array);
  args.cache = address(cache);
  args.logits_row = rows.stride;
  args.width = static_cast<int>(rows.width);
  args.blocks = plan.blocks;
  args.slice = plan.slice;
  return args;
}

LaunchConfig LogitRows::config() const {
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(rows.rows * plan.blocks);
  config.block[0] = kernels::kSampleThreads;
  if (plan.clustered) {
    config.cluster[0] = static_cast<unsigned>(plan.blocks);
    config.cluster[1] = config.cluster[2] = 1;
  }
  if (plan.shared) config.shared_bytes = static_cast<std::size_t>(plan.slice) * sizeof(float);
  if (plan.clustered) config.shared_bytes += kernels::kShortlistBytes;
  return config;
}

const Kernel& load(const TeamKernel& of, const LogitRows& logits) {
  const DType dtype = logits.rows.array.dtype();
  const TeamPlan& plan = logits.plan;
  return kernel(Context::get(logits.rows.array.device().index),
                {Family::sampling, static_cast<std::uint8_t>(of.kernel),
                 pack(dtype, plan.vec, plan.clustered)},
                [&] { return spec_of(of, dtype, plan.vec, plan.clustered); });
}

void enumerate_team(const TeamKernel& of, std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
    for (const int vec : {1, static_cast<int>(16 / itemsize(dtype))})
      for (const bool clustered : {false, true})
        specs.push_back(spec_of(of, dtype, vec, clustered));
}

}  // namespace gpk::ops::sampling

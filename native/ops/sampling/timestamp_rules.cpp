#include "ops/sampling/timestamp_rules.h"

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/nn/rows.h"
#include "ops/output.h"
#include "ops/sampling/logit_rows.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace sampling;

constexpr const char* kOp = "timestamp_rules";
constexpr auto kKernel = static_cast<std::uint8_t>(SamplingKernel::kTimestampRules);
constexpr std::int64_t kNumFields = 4;  // of a history

std::uint64_t pack(DType dtype) {
  return plan::KeyBuilder().field("dtype", dtype, plan::kDTypeBits).key();
}

jit::KernelSpec rules_spec(DType dtype) {
  jit::KernelSpec spec;
  spec.file = "sampling/timestamp_rules.cuh";
  spec.op = kOp;
  spec.kernel = kKernel;
  spec.variant = pack(dtype);
  spec.expression =
      cat("gpk::timestamp_rules<", info(dtype).cuda_name, ", ", kernels::kTimestampThreads, ">");
  return spec;
}

void check_rules(const Array& logits, const Array& tokens, const Array& history,
                 const TimestampRules& rules) {
  check_logits(logits, kOp);
  if (logits.ndim() != 2)
    throw InvalidArgument(cat(kOp, ": logits has shape ", gpk::to_string(logits.shape()),
                              ", expected (rows, vocabulary)"));
  const std::int64_t rows = logits.shape()[0];
  const std::int64_t width = logits.shape()[1];
  check_array(logits, tokens, "tokens", DType::kInt32, {rows}, kOp);
  check_array(logits, history, "history", DType::kInt32, {kNumFields, rows}, kOp);
  check_writable(history, kOp, "history");
  const Dims words{ceil_div(width, std::int64_t{32})};
  check_array(logits, rules.suppress, "suppress", DType::kUInt32, words, kOp);
  check_array(logits, rules.begin_suppress, "begin_suppress", DType::kUInt32, words, kOp);
  const auto check = [&](const char* argument, std::int64_t value, std::int64_t low,
                         std::int64_t high) {
    if (value < low || value > high)
      throw InvalidArgument(
          cat(kOp, ": ", argument, " is ", value, ", expected ", low, " to ", high));
  };
  check("eos", rules.eos, 0, width - 1);
  check("first_timestamp", rules.first_timestamp, -1, width - 1);
  check("max_initial", rules.max_initial, -1, width - 1);
}

void launch_rules(const Array& logits, const Array& tokens, const Array& history,
                  const TimestampRules& rules, const Array& out) {
  const nn::Rows x = nn::rows_of(logits, kOp);
  const nn::Rows to = *nn::try_rows(out);
  const Array newest = contiguous(tokens, kOp);
  const Array suppress = contiguous(rules.suppress, kOp);
  const Array begin_suppress = contiguous(rules.begin_suppress, kOp);
  kernels::TimestampArgs args{};
  args.logits = address(x.array);
  args.out = address(out);
  args.tokens = address(newest);
  args.history = address(history);
  args.suppress = address(suppress);
  args.begin_suppress = address(begin_suppress);
  args.logits_row = x.stride;
  args.out_row = to.stride;
  args.history_field = history.strides()[0];
  args.history_row = history.strides()[1];
  args.width = static_cast<int>(x.width);
  args.eos = static_cast<int>(rules.eos);
  args.first_timestamp =
      static_cast<int>(rules.first_timestamp < 0 ? x.width : rules.first_timestamp);
  args.max_initial = static_cast<int>(rules.max_initial);
  const Kernel& code =
      kernel(Context::get(logits.device().index), {Family::sampling, kKernel, pack(logits.dtype())},
             [&] { return rules_spec(logits.dtype()); });
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(x.rows);
  config.block[0] = kernels::kTimestampThreads;
  void* params[] = {&args};
  submit(code, config, {&x.array, &newest, &history, &suppress, &begin_suppress, &out}, params);
}

}  // namespace

Array timestamp_rules(const Array& logits, const Array& tokens, const Array& history,
                      const TimestampRules& rules, const std::optional<Array>& out) {
  check_rules(logits, tokens, history, rules);
  const Device device = logits.device();
  if (out) check_out(*out, logits.shape(), logits.dtype(), device, kOp);
  const bool direct = out && nn::takes_rows(*out, logits.dtype(), {&logits});
  const Array result = direct ? *out : Array::empty(logits.shape(), logits.dtype(), device, kOp);
  if (logits.shape()[0] > 0) {
    if (device.is_cuda()) {
      launch_rules(logits, tokens, history, rules, result);
    } else {
      run_on_cpu({kOp,
                  {logits, tokens, rules.suppress, rules.begin_suppress},
                  {result, history},
                  {{"eos", Scalar(rules.eos)},
                   {"first_timestamp", Scalar(rules.first_timestamp)},
                   {"max_initial", Scalar(rules.max_initial)}}});
    }
    if (out && !direct) copy_into(*out, result, kOp);
  }
  return out ? *out : result;
}

void sampling::enumerate_timestamp_rules(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
    specs.push_back(rules_spec(dtype));
}

}  // namespace gpk::ops

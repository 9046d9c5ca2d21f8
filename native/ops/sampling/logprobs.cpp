#include "ops/sampling/logprobs.h"

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/output.h"
#include "ops/sampling/logit_rows.h"
#include "ops/submit.h"

namespace gpk::ops {
namespace {

using namespace sampling;

constexpr TeamKernel kLogprobs{SamplingKernel::kLogprobs, "token_logprobs", "sampling/logprobs.cuh",
                               "gpk::logprob_rows"};
constexpr std::int64_t kMaxLogprobs = 1024;

void launch_logprobs(const Array& logits, const Array& tokens, const TokenLogprobs& to) {
  const LogitRows rows(logits, kLogprobs.op);
  kernels::LogprobArgs args{};
  args.rows = rows.args();
  args.tokens = address(tokens);
  args.chosen = address(to.chosen);
  args.top_ids = address(to.ids);
  args.top = address(to.logprobs);
  args.count = static_cast<int>(to.ids.shape()[to.ids.ndim() - 1]);
  void* params[] = {&args};
  submit(load(kLogprobs, rows), rows.config(),
         {&rows.rows.array, &tokens, &to.chosen, &to.ids, &to.logprobs,
          rows.cache ? &*rows.cache : nullptr},
         params);
}

jit::KernelSpec token_counts_spec() {
  jit::KernelSpec spec;
  spec.file = "sampling/token_counts.cuh";
  spec.op = "count_tokens";
  spec.kernel = static_cast<std::uint8_t>(SamplingKernel::kTokenCounts);
  spec.expression = "gpk::count_tokens";
  return spec;
}

void check_counts(const Array& counts, const Array& ids) {
  constexpr const char* kOp = "count_tokens";
  for (const auto& [array, argument] : {std::pair{&counts, "counts"}, std::pair{&ids, "ids"}})
    check_dtype(*array, argument, DType::kInt32, kOp);
  bool fits = counts.ndim() > 0 && (ids.ndim() == counts.ndim() || ids.ndim() == counts.ndim() - 1);
  for (int i = 0; fits && i < counts.ndim() - 1; ++i) fits = ids.shape()[i] == counts.shape()[i];
  if (!fits)
    throw InvalidArgument(cat(kOp, ": ids has shape ", gpk::to_string(ids.shape()),
                              ", expected the rows of counts ", gpk::to_string(counts.shape()),
                              ", with ids of each along a last axis or one"));
  if (ids.device() != counts.device())
    throw InvalidArgument(cat(kOp, ": ids is on ", gpk::to_string(ids.device()), ", counts on ",
                              gpk::to_string(counts.device())));
  check_writable(counts, kOp, "counts");
  if (!counts.is_contiguous())
    throw InvalidArgument(cat(kOp, ": counts is not contiguous, and is updated in place"));
}

}  // namespace

TokenLogprobs token_logprobs(const Array& logits, const Array& tokens, std::int64_t n) {
  const char* op = kLogprobs.op;
  check_logits(logits, op);
  const Dims shape = rows_shape(logits);
  check_array(logits, tokens, "tokens", DType::kInt32, shape, op);
  if (n < 0 || n > kMaxLogprobs)
    throw InvalidArgument(cat(op, ": n is ", n, ", expected 0 to ", kMaxLogprobs));
  Dims top = logits.shape();
  top[top.size() - 1] = n;
  const Device device = logits.device();
  TokenLogprobs result{Array::empty(shape, DType::kFloat32, device, op),
                       Array::empty(top, DType::kInt32, device, op),
                       Array::empty(top, DType::kFloat32, device, op)};
  if (result.chosen.size() == 0) return result;
  if (device.is_cuda()) {
    launch_logprobs(logits, contiguous(tokens, op), result);
  } else {
    run_on_cpu({op, {logits, tokens}, {result.chosen, result.ids, result.logprobs}});
  }
  return result;
}

void count_tokens(const Array& counts, const Array& ids) {
  check_counts(counts, ids);
  if (ids.size() == 0) return;
  if (!counts.device().is_cuda()) {
    run_on_cpu({"count_tokens", {ids}, {counts}});
    return;
  }
  const Array whole = contiguous(ids, "count_tokens");
  const std::int64_t width = counts.shape()[counts.ndim() - 1];
  kernels::TokenCountArgs args{};
  args.ids = address(whole);
  args.counts = address(counts);
  args.num_ids = whole.size();
  args.per_row = ids.ndim() == counts.ndim() ? ids.shape()[ids.ndim() - 1] : 1;
  args.counts_row = width;
  args.width = width;
  const Kernel& code =
      kernel(Context::get(counts.device().index),
             {Family::sampling, static_cast<std::uint8_t>(SamplingKernel::kTokenCounts), 0},
             token_counts_spec);
  void* params[] = {&args};
  submit(code, grid_1d(args.num_ids, 256, 256), {&whole, &counts}, params);
}

void sampling::enumerate_logprobs(std::vector<jit::KernelSpec>& specs) {
  enumerate_team(kLogprobs, specs);
}

void sampling::enumerate_token_counts(std::vector<jit::KernelSpec>& specs) {
  specs.push_back(token_counts_spec());
}

}  // namespace gpk::ops

#include "ops/moe/route.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "kernels/args/moe.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/moe/kernels.h"
#include "ops/nn/rows.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using moe::MoeKernel;

constexpr auto kKernel = static_cast<std::uint8_t>(MoeKernel::kRoute);
constexpr std::int64_t kMaxExperts = kernels::kMaxExperts;
constexpr const char* kNames[] = {"softmax", "sigmoid", "logits"};

static_assert(static_cast<int>(MoeScores::kSoftmax) == kernels::kScoreSoftmax);
static_assert(static_cast<int>(MoeScores::kSigmoid) == kernels::kScoreSigmoid);
static_assert(static_cast<int>(MoeScores::kLogits) == kernels::kScoreLogits);

// `per`: experts of a lane.
std::uint64_t pack(DType dtype, int per) {
  return plan::KeyBuilder().field("dtype", dtype, plan::kDTypeBits).field("per", per, 6).key();
}

// Any number of experts, with the same bits; and up to 128.
constexpr int kGeneralPer = kernels::kMaxExperts / 32;
bool is_bundled(int per) { return per == kGeneralPer || per == 4; }

jit::KernelSpec route_spec(DType dtype, int per) {
  jit::KernelSpec spec;
  spec.file = "moe/route.cuh";
  spec.op = "moe_route";
  spec.kernel = kKernel;
  spec.variant = pack(dtype, per);
  spec.bundled = is_bundled(per);
  spec.expression = cat("gpk::moe_route_rows<", info(dtype).cuda_name, ", ", per, ">");
  return spec;
}

int experts_per_lane(std::int64_t experts) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(ceil_div(experts, 32))));
}

void check_groups(std::int64_t experts, std::int64_t top_k, const MoeRouteOptions& options,
                  const char* op) {
  const std::int64_t groups = options.num_groups;
  if (groups < 1 || groups > kernels::kMaxExpertGroups || experts % groups != 0)
    throw InvalidArgument(cat(op, ": num_groups is ", groups, ", expected a divisor of ", experts,
                              " experts up to ", kernels::kMaxExpertGroups));
  if (options.top_groups < 1 || options.top_groups > groups)
    throw InvalidArgument(
        cat(op, ": top_groups is ", options.top_groups, ", expected 1 to ", groups));
  const std::int64_t most =
      std::min<std::int64_t>(kernels::kMaxTopK, experts / groups * options.top_groups);
  if (top_k < 1 || top_k > most)
    throw InvalidArgument(cat(op, ": top_k is ", top_k, ", expected 1 to ", most));
}

void check_route(const Array& logits, std::int64_t top_k, const MoeRouteOptions& options,
                 const char* op) {
  nn::check_float(logits, "logits", op);
  if (logits.ndim() != 2 || logits.shape()[1] < 1 || logits.shape()[1] > kMaxExperts)
    throw InvalidArgument(cat(op, ": logits has shape ", to_string(logits.shape()),
                              ", expected (tokens, experts) with 1 to ", kMaxExperts, " experts"));
  const std::int64_t experts = logits.shape()[1];
  check_groups(experts, top_k, options, op);
  if (!std::isfinite(options.scale))
    throw InvalidArgument(cat(op, ": scale is ", options.scale, ", expected a finite number"));
  if (!options.bias) return;
  if (options.bias->dtype() != DType::kFloat32)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": bias has dtype ", name(options.bias->dtype()), ", expected float32"));
  if (!(options.bias->shape() == Dims{experts}))
    throw InvalidArgument(cat(op, ": bias has shape ", to_string(options.bias->shape()),
                              ", expected (", experts, ",)"));
  if (options.bias->device() != logits.device())
    throw InvalidArgument(cat(op, ": bias is on ", to_string(options.bias->device()),
                              ", logits on ", to_string(logits.device())));
}

void launch_route(const Array& logits, const MoeRouteOptions& options, const MoeRouting& result,
                  const char* op) {
  const nn::Rows x = nn::rows_of(logits, op);
  std::optional<Array> bias;
  if (options.bias) bias = contiguous(*options.bias, op);
  kernels::MoeRouteArgs args{};
  args.logits = address(x.array);
  args.bias = address(bias);
  args.weights = address(result.weights);
  args.experts = address(result.experts);
  args.logits_row = x.stride;
  args.tokens = x.rows;
  args.num_experts = static_cast<int>(x.width);
  args.top_k = static_cast<int>(result.experts.shape()[1]);
  args.scoring = static_cast<int>(options.scores);
  args.renormalize = options.renormalize ? 1 : 0;
  args.num_groups = static_cast<int>(options.num_groups);
  args.top_groups = static_cast<int>(options.top_groups);
  args.scale = static_cast<float>(options.scale);
  int per = experts_per_lane(x.width);
  if (!is_bundled(per) && !jit::jit_available()) per = kGeneralPer;
  const Kernel& code =
      kernel(Context::get(logits.device().index), {Family::moe, kKernel, pack(logits.dtype(), per)},
             [&] { return route_spec(logits.dtype(), per); });
  void* params[] = {&args};
  submit(code, grid_1d(x.rows, kernels::kRouteBlock / 32, kernels::kRouteBlock),
         {&x.array, bias ? &*bias : nullptr, &result.weights, &result.experts}, params);
}

}  // namespace

MoeScores moe_scores_named(std::string_view text, const char* op) {
  if (text == "softmax") return MoeScores::kSoftmax;
  if (text == "sigmoid") return MoeScores::kSigmoid;
  throw InvalidArgument(cat(op, ": scoring is '", text, "', expected 'softmax' or 'sigmoid'"));
}

MoeRouting moe_route(const Array& logits, std::int64_t top_k, const MoeRouteOptions& options,
                     const char* op) {
  check_route(logits, top_k, options, op);
  const Dims shape{logits.shape()[0], top_k};
  const MoeRouting result{Array::empty(shape, DType::kFloat32, logits.device(), op),
                          Array::empty(shape, DType::kInt32, logits.device(), op)};
  if (result.experts.size() == 0) return result;
  if (logits.device().is_cuda()) {
    launch_route(logits, options, result, op);
  } else {
    run_on_cpu({"moe_route",
                {logits, cpu_optional(options.bias)},
                {result.weights, result.experts},
                {{"scoring", std::string(kNames[static_cast<int>(options.scores)])},
                 {"renormalize", Scalar(options.renormalize)},
                 {"num_groups", Scalar(options.num_groups)},
                 {"top_groups", Scalar(options.top_groups)},
                 {"scale", Scalar(options.scale)}}});
  }
  return result;
}

void moe::enumerate_route(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
    for (int per = 1; per <= kGeneralPer; per *= 2) specs.push_back(route_spec(dtype, per));
}

}  // namespace gpk::ops

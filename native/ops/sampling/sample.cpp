#include "ops/sampling/sample.h"

#include <cmath>
#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"
#include "ops/sampling/logit_rows.h"
#include "ops/submit.h"

namespace gpk::ops {
namespace {

using namespace sampling;
using kernels::TokenMask;

using Kind = InvalidArgument::Kind;

constexpr TeamKernel kSample{SamplingKernel::kSample, "sample", "sampling/sample.cuh",
                             "gpk::sample_rows"};

// Numbers in [low, high], or above low only.
struct Range {
  double low;
  double high;
  bool open = false;
  const char* words = "";
};

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr Range kAnyNumber{-kLargest, kLargest, false, "a finite number"};
constexpr Range kShare{0.0, 1.0, true, "more than 0, and 1 at most"};

struct Checker {
  const Array& logits;
  const char* op;
  Dims rows = rows_shape(logits);

  void values(const std::optional<Array>& array, const char* argument, DType dtype) const {
    if (array) check_array(logits, *array, argument, dtype, rows, op);
  }
  void number(const RowNumber& of, const char* argument, const Range& range) const {
    values(of.values, argument, DType::kFloat32);
    const bool low = range.open ? of.value > range.low : of.value >= range.low;
    if (!of.values && !(low && of.value <= range.high))
      throw InvalidArgument(cat(op, ": ", argument, " is ", of.value, ", expected ", range.words));
  }
  void penalty(const RowNumber& of, const char* argument, double none, bool counted) const {
    if (!counted && (of.values || of.value != none))
      throw InvalidArgument(cat(op, ": ", argument, " was given without counts of tokens"));
  }
};

void check_filter(const Array& logits, const SampleFilter& filter, const char* op) {
  check_logits(logits, op);
  const Checker check{logits, op};
  check.number(filter.temperature, "temperature", {0.0, kLargest, false, "0 or more"});
  check.values(filter.top_k.values, "top_k", DType::kInt32);
  if (filter.top_k.value < 0)
    throw InvalidArgument(cat(op, ": top_k is ", filter.top_k.value, ", expected 0 or more"));
  check.number(filter.top_p, "top_p", kShare);
  check.number(filter.min_p, "min_p", {0.0, 1.0, false, "0 to 1"});
  check.number(filter.typical_p, "typical_p", kShare);
  check.number(filter.repetition_penalty, "repetition_penalty",
               {0.0, kLargest, true, "more than 0"});
  check.number(filter.presence_penalty, "presence_penalty", kAnyNumber);
  check.number(filter.frequency_penalty, "frequency_penalty", kAnyNumber);
  const bool counted = filter.counts.has_value();
  check.penalty(filter.repetition_penalty, "repetition_penalty", 1.0, counted);
  check.penalty(filter.presence_penalty, "presence_penalty", 0.0, counted);
  check.penalty(filter.frequency_penalty, "frequency_penalty", 0.0, counted);
  if (counted) check_array(logits, *filter.counts, "counts", DType::kInt32, logits.shape(), op);
}

// Throws unless `array` has a row of `width` elements, or one for each row of the logits.
void check_rows_or_one(const Array& logits, const Array& array, const char* argument,
                       std::int64_t width, const char* op) {
  Dims all = logits.shape();
  all[all.size() - 1] = width;
  const Dims one = {width};
  check_array(logits, array, argument, array.dtype(), array.ndim() == 1 ? one : all, op);
}

TokenMask check_bias_and_mask(const Array& logits, const SampleFilter& filter, const char* op) {
  const std::int64_t width = logits.shape()[logits.ndim() - 1];
  if (const auto& bias = filter.logit_bias) {
    nn::check_float(*bias, "logit_bias", op);
    check_rows_or_one(logits, *bias, "logit_bias", width, op);
  }
  if (!filter.mask) return TokenMask::kNone;
  const DType dtype = filter.mask->dtype();
  if (dtype != DType::kBool && dtype != DType::kInt32 && dtype != DType::kUInt32)
    throw InvalidArgument(Kind::kType, cat(op, ": mask has dtype ", name(dtype),
                                           ", expected bool, or bits in int32 or uint32"));
  const bool bits = dtype != DType::kBool;
  check_rows_or_one(logits, *filter.mask, "mask", bits ? ceil_div(width, 32) : width, op);
  return bits ? TokenMask::kBits : TokenMask::kBools;
}

void check_source(const Array& logits, const SampleSource& source, const char* op) {
  const Checker check{logits, op};
  check.values(source.seed.values, "seed", DType::kInt64);
  check.values(source.step.values, "step", DType::kInt64);
  check.values(source.uniforms, "uniforms", DType::kFloat32);
  if (source.step.values) {
    check_writable(*source.step.values, op, "step");
    if (!source.step.values->is_contiguous())
      throw InvalidArgument(cat(op, ": step is not contiguous, and is counted up in place"));
  }
}

// The arrays that a launch reads, kept until it is submitted.
class Operands {
 public:
  explicit Operands(const char* op) : op_(op) {}

  const Array* add(const std::optional<Array>& array) {
    if (!array) return nullptr;
    held_.push_back(contiguous(*array, op_));
    return &held_.back();
  }
  kernels::RowFloat number(const RowNumber& of) {
    return {address(add(of.values)), static_cast<float>(of.value), 0};
  }
  // A row per row of logits, or the same for all: `stride` is 0.
  const Array* rows(const std::optional<Array>& array, const Array& logits, long long& stride) {
    const Array* whole = add(array);
    if (whole == nullptr) return nullptr;
    const bool one = whole->ndim() == 1 && logits.ndim() > 1;
    stride = one ? 0 : whole->shape()[whole->ndim() - 1];
    return whole;
  }
  void launch(const Kernel& kernel, const LogitRows& logits, const Array* extra, const Array& out,
              kernels::SampleArgs& args) {
    std::vector<const Array*> arrays{&logits.rows.array, &out, extra};
    if (logits.cache) arrays.push_back(&*logits.cache);
    for (const Array& array : held_) arrays.push_back(&array);
    void* params[] = {&args};
    submit(kernel, logits.config(), arrays, params);
  }

 private:
  static constexpr std::size_t kMost = 16;

  const char* op_;
  std::vector<Array> held_ = [] {
    std::vector<Array> room;
    room.reserve(kMost);  // addresses stay valid
    return room;
  }();
};

void launch_sample(const Array& logits, const SampleFilter& filter, const SampleSource& source,
                   TokenMask mask, const Array& out, const char* op) {
  const LogitRows rows(logits, op);
  Operands operands(op);
  kernels::SampleArgs args{};
  args.rows = rows.args();
  if (out.dtype() == DType::kInt32) {
    args.tokens = address(out);
  } else {
    args.probs = address(out);
  }
  args.counts = address(operands.rows(filter.counts, logits, args.counts_row));
  std::optional<Array> bias;
  if (filter.logit_bias) bias = cast(*filter.logit_bias, DType::kFloat32, op);
  args.bias = address(operands.rows(bias, logits, args.bias_row));
  args.mask = address(operands.rows(filter.mask, logits, args.mask_row));
  args.mask_kind = mask;
  args.steps = address(source.step.values);
  args.step = source.step.value;
  args.seed = {address(operands.add(source.seed.values)), source.seed.value};
  args.uniforms = address(operands.add(source.uniforms));
  args.temperature = operands.number(filter.temperature);
  args.top_p = operands.number(filter.top_p);
  args.min_p = operands.number(filter.min_p);
  args.typical_p = operands.number(filter.typical_p);
  args.repetition = operands.number(filter.repetition_penalty);
  args.presence = operands.number(filter.presence_penalty);
  args.frequency = operands.number(filter.frequency_penalty);
  const auto most = std::int64_t{std::numeric_limits<int>::max()};
  args.top_k = {address(operands.add(filter.top_k.values)),
                static_cast<int>(std::min(filter.top_k.value, most)), 0};
  const Array* steps = source.step.values ? &*source.step.values : nullptr;
  operands.launch(load(kSample, rows), rows, steps, out, args);
}

CpuArg cpu_number(const RowNumber& of) {
  return of.values ? CpuArg(*of.values) : CpuArg(Scalar(of.value));
}
CpuArg cpu_integer(const RowInteger& of) {
  return of.values ? CpuArg(*of.values) : CpuArg(Scalar(of.value));
}

CpuCall cpu_call(const Array& logits, const SampleFilter& filter, const char* op) {
  return {op,
          {logits},
          {},
          {{"temperature", cpu_number(filter.temperature)},
           {"top_k", cpu_integer(filter.top_k)},
           {"top_p", cpu_number(filter.top_p)},
           {"min_p", cpu_number(filter.min_p)},
           {"typical_p", cpu_number(filter.typical_p)},
           {"repetition_penalty", cpu_number(filter.repetition_penalty)},
           {"presence_penalty", cpu_number(filter.presence_penalty)},
           {"frequency_penalty", cpu_number(filter.frequency_penalty)},
           {"counts", cpu_optional(filter.counts)},
           {"logit_bias", cpu_optional(filter.logit_bias)},
           {"mask", cpu_optional(filter.mask)}}};
}

}  // namespace

Array sample(const Array& logits, const SampleFilter& filter, const SampleSource& source,
             const std::optional<Array>& out) {
  constexpr const char* kOp = "sample";
  check_filter(logits, filter, kOp);
  const TokenMask mask = check_bias_and_mask(logits, filter, kOp);
  check_source(logits, source, kOp);
  const Dims shape = rows_shape(logits);
  if (out) check_out(*out, shape, DType::kInt32, logits.device(), kOp);
  const bool direct = out && out->dtype() == DType::kInt32 && out->is_contiguous();
  const Array result = direct ? *out : Array::empty(shape, DType::kInt32, logits.device(), kOp);
  if (result.size() > 0) {
    if (logits.device().is_cuda()) {
      launch_sample(logits, filter, source, mask, result, kOp);
    } else {
      CpuCall call = cpu_call(logits, filter, kOp);
      call.outs = {result};
      if (source.step.values) call.outs.push_back(*source.step.values);
      call.options.emplace_back("seed", cpu_integer(source.seed));
      call.options.emplace_back("step", Scalar(source.step.value));
      call.options.emplace_back("uniforms", cpu_optional(source.uniforms));
      run_on_cpu(std::move(call));
    }
    if (out && !direct) copy_into(*out, result, kOp);
  }
  return out ? *out : result;
}

Array sampling_probs(const Array& logits, const SampleFilter& filter,
                     const std::optional<Array>& out) {
  constexpr const char* kOp = "sampling_probs";
  check_filter(logits, filter, kOp);
  const TokenMask mask = check_bias_and_mask(logits, filter, kOp);
  const Dims& shape = logits.shape();
  if (out) check_out(*out, shape, DType::kFloat32, logits.device(), kOp);
  const bool direct = out && out->dtype() == DType::kFloat32 && out->is_contiguous() &&
                      !may_overlap(*out, logits) &&
                      !(filter.logit_bias && may_overlap(*out, *filter.logit_bias));
  const Array result = direct ? *out : Array::empty(shape, DType::kFloat32, logits.device(), kOp);
  if (result.size() > 0) {
    if (logits.device().is_cuda()) {
      launch_sample(logits, filter, {}, mask, result, kOp);
    } else {
      CpuCall call = cpu_call(logits, filter, kOp);
      call.outs = {result};
      run_on_cpu(std::move(call));
    }
    if (out && !direct) copy_into(*out, result, kOp);
  }
  return out ? *out : result;
}

void sampling::enumerate_sample(std::vector<jit::KernelSpec>& specs) {
  enumerate_team(kSample, specs);
}

}  // namespace gpk::ops

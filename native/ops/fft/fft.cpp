#include "ops/fft/fft.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/fft/launch.h"
#include "ops/output.h"

namespace gpk::ops {
namespace {

using namespace fft;

constexpr const char* kOps[] = {"fft", "ifft", "rfft", "irfft", "hfft", "ihfft"};
constexpr const char* kNorms[] = {"backward", "ortho", "forward"};

bool from_real(FftOp kind) { return kind == FftOp::kRfft || kind == FftOp::kIhfft; }
bool to_real(FftOp kind) { return kind == FftOp::kIrfft || kind == FftOp::kHfft; }
bool is_inverse(FftOp kind) {
  return kind == FftOp::kIfft || kind == FftOp::kIrfft || kind == FftOp::kIhfft;
}

// The dtype that x is transformed in: of its precision, complex where the transform needs it.
DType check_dtype(DType dtype, const FftRequest& request) {
  const bool complex = dtype == DType::kComplex64 || dtype == DType::kComplex128;
  if (from_real(request.kind) && complex)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(request.name, ": x has dtype ", name(dtype), ", expected real"));
  const bool wide = dtype == DType::kFloat64 || dtype == DType::kComplex128;
  switch (dtype) {
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kInt4:
    case DType::kUInt4:
    case DType::kFloat4E2M1FN:
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            cat(request.name, ": x has dtype ", name(dtype),
                                ", expected numbers of 16 bits or more"));
    default: break;
  }
  if (complex || to_real(request.kind)) return wide ? DType::kComplex128 : DType::kComplex64;
  return wide ? DType::kFloat64 : DType::kFloat32;
}

Dims check_axes(const Array& x, const FftRequest& request) {
  Dims axes;
  if (request.axes) {
    axes = *request.axes;
  } else {
    const int count = request.lengths ? request.lengths->size() : x.ndim();
    axes = Dims::filled(count, 0);
    for (int i = 0; i < count; ++i) axes[i] = i - count;
  }
  for (int i = 0; i < axes.size(); ++i) axes[i] = normalize_axis(axes[i], x.ndim(), request.name);
  if (request.lengths && request.lengths->size() != axes.size())
    throw InvalidArgument(
        cat(request.name, ": s has ", request.lengths->size(), " lengths, axes has ", axes.size()));
  if (axes.empty() && request.kind != FftOp::kFft && request.kind != FftOp::kIfft)
    throw InvalidArgument(cat(request.name, ": axes is empty, expected at least one axis"));
  return axes;
}

Dims check_lengths(const Array& x, const Dims& axes, const FftRequest& request) {
  Dims lengths = Dims::filled(axes.size(), -1);
  for (int i = axes.size() - 1; i >= 0; --i) {
    const bool last = i + 1 == axes.size();
    const std::int64_t given = request.lengths ? (*request.lengths)[i] : -1;
    const std::int64_t size = x.shape()[static_cast<int>(axes[i])];
    const std::int64_t own = last && to_real(request.kind) ? 2 * (size - 1) : size;
    lengths[i] = given == -1 ? own : given;
    const std::int64_t n = lengths[i];
    if (n < 1)
      throw InvalidArgument(cat(request.name, ": the transform along axis ", axes[i], " has ", n,
                                " points, expected at least 1"));
    if (n > kMaxLength || (n > kMaxPrimeLength && !is_smooth(n)))
      throw InvalidArgument(cat(request.name, ": the transform along axis ", axes[i], " has ", n,
                                " points, expected up to 2**30, and 2**29 where n has a prime "
                                "factor above 13"));
  }
  return lengths;
}

double scale_of(FftOp kind, FftNorm norm, std::int64_t n) {
  if (norm == FftNorm::kOrtho) return 1.0 / std::sqrt(static_cast<double>(n));
  const bool divided = is_inverse(kind) == (norm == FftNorm::kBackward);
  return divided ? 1.0 / static_cast<double>(n) : 1.0;
}

// The transforms along single axes, in the order of NumPy.
std::vector<AxisTransform> steps_of(const FftRequest& request, const Dims& axes,
                                    const Dims& lengths, bool real_input) {
  std::vector<AxisTransform> steps;
  const int last = axes.size() - 1;
  const auto add = [&](int i, FftOp kind) {
    AxisTransform step;
    step.axis = static_cast<int>(axes[i]);
    step.n = lengths[i];
    step.scale = scale_of(kind, request.norm, step.n);
    if (from_real(kind)) {
      step.kind = FftKind::kFromReal;
      step.conj_out = kind == FftOp::kIhfft;
    } else if (to_real(kind)) {
      step.kind = FftKind::kToReal;
      step.conj_in = kind == FftOp::kIrfft;
    } else {
      step.conj_in = step.conj_out = is_inverse(kind);
      if (real_input && steps.empty()) step.kind = FftKind::kComplexOfReal;
    }
    steps.push_back(step);
  };
  const FftOp others = is_inverse(request.kind) ? FftOp::kIfft : FftOp::kFft;
  if (to_real(request.kind)) {
    for (int i = 0; i < last; ++i) add(i, others);
    add(last, request.kind);
  } else {
    for (int i = last; i >= 0; --i) add(i, i == last ? request.kind : others);
  }
  return steps;
}

Dims shape_after(Dims shape, const AxisTransform& step) {
  shape[step.axis] = step.kind == FftKind::kFromReal ? step.n / 2 + 1 : step.n;
  return shape;
}

DType dtype_after(const AxisTransform& step, bool wide) {
  if (step.kind == FftKind::kToReal) return wide ? DType::kFloat64 : DType::kFloat32;
  return wide ? DType::kComplex128 : DType::kComplex64;
}

void run_on_gpu(const Array& x, const std::vector<AxisTransform>& steps, const Array& result,
                bool wide, const char* op) {
  Array current = x;
  bool is_own = false;  // may be overwritten
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Dims shape = shape_after(current.shape(), steps[i]);
    const DType dtype = dtype_after(steps[i], wide);
    const bool final_form = shape == result.shape() && dtype == result.dtype();
    const bool in_place = is_own && shape == current.shape() && dtype == current.dtype();
    const Array target = final_form ? result
                         : in_place ? current
                                    : Array::empty(shape, dtype, x.device(), op);
    if (current.size() == 0) {
      fill(target, Scalar(0.0), op);
    } else {
      launch_axis(current, target, steps[i], limits_of(x.device()), op);
    }
    current = target;
    is_own = true;
  }
}

void run_on_host(const Array& x, const FftRequest& request, const Dims& axes, const Dims& lengths,
                 const Array& result) {
  run_on_cpu({"fft_execute",
              {x},
              {result},
              {{"kind", std::string(kOps[static_cast<int>(request.kind)])},
               {"lengths", lengths},
               {"axes", axes},
               {"norm", std::string(kNorms[static_cast<int>(request.norm)])}}});
}

template <class T, std::size_t kCount>
T parse(std::string_view text, const char* const (&words)[kCount], const char* op,
        const char* argument) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (text == words[i]) return static_cast<T>(i);
  std::string known;
  for (const char* const word : words) known = cat(known, known.empty() ? "" : ", ", word);
  throw InvalidArgument(cat(op, ": ", argument, " is '", text, "', expected one of ", known));
}

}  // namespace

FftOp parse_fft_op(std::string_view text, const char* op) {
  return parse<FftOp>(text, kOps, op, "kind");
}
FftNorm parse_fft_norm(std::string_view text, const char* op) {
  return parse<FftNorm>(text, kNorms, op, "norm");
}

Array fft_execute(const Array& x, const FftRequest& request, const std::optional<Array>& out) {
  const char* const op = request.name;
  const DType dtype = check_dtype(x.dtype(), request);
  const Dims axes = check_axes(x, request);
  const Dims lengths = check_lengths(x, axes, request);
  const bool wide = dtype == DType::kFloat64 || dtype == DType::kComplex128;
  const bool real_input = dtype == DType::kFloat32 || dtype == DType::kFloat64;
  const std::vector<AxisTransform> steps = steps_of(request, axes, lengths, real_input);
  Dims shape = x.shape();
  for (const AxisTransform& step : steps) shape = shape_after(std::move(shape), step);
  const DType result_dtype = steps.empty() ? (wide ? DType::kComplex128 : DType::kComplex64)
                                           : dtype_after(steps.back(), wide);
  num_elements(shape, op);
  if (out) check_out(*out, shape, result_dtype, x.device(), op);
  const bool direct = out && out->dtype() == result_dtype && !may_overlap(*out, x);
  Array result = direct ? *out : Array::empty(shape, result_dtype, x.device(), op);
  if (steps.empty()) {
    copy_into(result, x, op);
  } else if (result.size() > 0) {
    const Array given = cast(x, dtype, op);
    if (x.device().is_cuda()) {
      run_on_gpu(given, steps, result, wide, op);
    } else {
      run_on_host(given, request, axes, lengths, result);
    }
  }
  if (!out) return result;
  if (!direct) copy_into(*out, result, op);
  return *out;
}

std::string explain_fft(std::string_view kind, std::int64_t n, DType dtype) {
  constexpr const char* kExplain = "explain";
  FftRequest request;
  request.name = kExplain;
  request.kind = parse_fft_op(kind, kExplain);
  const DType given = check_dtype(dtype, request);
  if (n < 1 || n > kMaxLength || (n > kMaxPrimeLength && !is_smooth(n)))
    throw InvalidArgument(cat(kExplain, ": n is ", n, ", expected 1 to 2**30"));
  FftDesc desc;
  desc.n = n;
  desc.wide = given == DType::kFloat64 || given == DType::kComplex128;
  const bool real = given == DType::kFloat32 || given == DType::kFloat64;
  desc.kind = from_real(request.kind) ? FftKind::kFromReal
              : to_real(request.kind) ? FftKind::kToReal
              : real                  ? FftKind::kComplexOfReal
                                      : FftKind::kComplex;
  const Device device = default_device();
  return to_string(plan_fft(desc, limits_of(device)));
}

}  // namespace gpk::ops

// Linear algebra.
#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/results.h"
#include "ops/linalg/linalg.h"

namespace gpk::bind {
namespace {

ops::Adjoint adjoint_from(const Arguments& args, int i) {
  const std::int64_t value = args.integer(i);
  if (value < 0 || value > 2) args.refuse(i, "0, 1 or 2");
  return static_cast<ops::Adjoint>(value);
}

ops::QrMode mode_from(const std::string& mode, const std::string& op) {
  if (mode == "reduced") return ops::QrMode::kReduced;
  if (mode == "complete") return ops::QrMode::kComplete;
  if (mode == "r") return ops::QrMode::kR;
  throw InvalidArgument(cat(op, ": mode is '", mode, "', expected 'reduced', 'complete' or 'r'"));
}

py::object object_of(std::optional<Array> array) {
  return array ? array_result(std::move(*array)) : py::none();
}

// Arguments `check` (none: -1), `blocked` (none: -1) and `op`, which is the last.
struct Call {
  std::string op;
  bool check, blocked;

  Call(const Arguments& args, int check_at, int blocked_at)
      : op(args.text(args.size() - 1)),
        check(check_at >= 0 && args.flag(check_at)),
        blocked(blocked_at >= 0 && args.flag(blocked_at)) {}
  [[nodiscard]] ops::LinalgCall get() const { return {op.c_str(), check, blocked}; }
};

template <class Run>
auto without_gil(const Run& run) {
  const WithoutGil released;
  return run();
}

void bind_systems(py::module_& m) {
  define(m, "linalg_cholesky", [](const Arguments& args) {
    const Array& x = args.array(0);
    const bool upper = args.flag(1);
    const Call call(args, 2, 3);
    return without_gil([&] { return ops::cholesky(x, upper, call.get()); });
  });
  define(m, "linalg_lu", [](const Arguments& args) {
    const Array& x = args.array(0);
    const Call call(args, 1, 2);
    ops::LuResult result = without_gil([&] { return ops::lu_factor(x, call.get()); });
    return py::make_tuple(array_result(std::move(result.lu)),
                          array_result(std::move(result.pivots)));
  });
  define(m, "linalg_lu_solve", [](const Arguments& args) {
    const Array& lu = args.array(0);
    const Array& pivots = args.array(1);
    const Array& b = args.array(2);
    const ops::Adjoint adjoint = adjoint_from(args, 3);
    const Call call(args, -1, 4);
    return without_gil([&] { return ops::lu_solve(lu, pivots, b, adjoint, call.get()); });
  });
  define(m, "linalg_solve", [](const Arguments& args) {
    const Array& x1 = args.array(0);
    const Array& x2 = args.array(1);
    const Call call(args, 2, 3);
    return without_gil([&] { return ops::solve(x1, x2, call.get()); });
  });
  define(m, "linalg_inv", [](const Arguments& args) {
    const Array& x = args.array(0);
    const Call call(args, 1, 2);
    return without_gil([&] { return ops::inv(x, call.get()); });
  });
  define(m, "linalg_slogdet", [](const Arguments& args) {
    const Array& x = args.array(0);
    const Call call(args, -1, 1);
    ops::SlogdetResult result = without_gil([&] { return ops::slogdet(x, call.get()); });
    return py::make_tuple(array_result(std::move(result.sign)),
                          array_result(std::move(result.logabsdet)));
  });
  define(m, "linalg_triangular", [](const Arguments& args) {
    const Array& x1 = args.array(0);
    const Array& x2 = args.array(1);
    const bool upper = args.flag(2);
    const bool unit = args.flag(3);
    const ops::Adjoint adjoint = adjoint_from(args, 4);
    const Call call(args, -1, 5);
    return without_gil(
        [&] { return ops::solve_triangular(x1, x2, upper, unit, adjoint, call.get()); });
  });
}

void bind_factors(py::module_& m) {
  define(m, "linalg_qr", [](const Arguments& args) {
    const Array& x = args.array(0);
    const Call call(args, -1, 2);
    const ops::QrMode mode = mode_from(args.text(1), call.op);
    ops::QrResult result = without_gil([&] { return ops::qr(x, mode, call.get()); });
    return py::make_tuple(object_of(std::move(result.q)), array_result(std::move(result.r)));
  });
  define(m, "linalg_eigh", [](const Arguments& args) {
    const Array& x = args.array(0);
    const bool upper = args.flag(1);
    const bool vectors = args.flag(2);
    const Call call(args, 3, 4);
    ops::EighResult result = without_gil([&] { return ops::eigh(x, upper, vectors, call.get()); });
    return py::make_tuple(array_result(std::move(result.w)), object_of(std::move(result.v)));
  });
  define(m, "linalg_svd", [](const Arguments& args) {
    const Array& x = args.array(0);
    const bool full = args.flag(1);
    const bool vectors = args.flag(2);
    const Call call(args, 3, 4);
    ops::SvdResult result = without_gil([&] { return ops::svd(x, full, vectors, call.get()); });
    return py::make_tuple(object_of(std::move(result.u)), array_result(std::move(result.s)),
                          object_of(std::move(result.vh)));
  });
  define(m, "linalg_eig", [](const Arguments& args) {
    const Array& x = args.array(0);
    const bool vectors = args.flag(1);
    const Call call(args, 2, -1);
    ops::EigResult result = without_gil([&] { return ops::eig(x, vectors, call.get()); });
    return py::make_tuple(array_result(std::move(result.w)), object_of(std::move(result.v)));
  });
}

}  // namespace

void bind_linalg(py::module_& m) {
  bind_systems(m);
  bind_factors(m);
}

}  // namespace gpk::bind

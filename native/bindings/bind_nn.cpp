// Neural-network ops: norms, softmax, likelihoods.
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "bindings/tracer.h"
#include "ops/nn/embedding.h"
#include "ops/nn/log_likelihood.h"
#include "ops/nn/norm.h"
#include "ops/nn/rope.h"
#include "ops/nn/softmax.h"

namespace gpk::bind {
namespace {

PyObject* pair(PyObject* first, PyObject* second) {
  const auto a = py::reinterpret_steal<py::object>(first);
  const auto b = py::reinterpret_steal<py::object>(second);
  return py::make_tuple(a, b).release().ptr();
}

// The caller's own object where one was given, else the array.
PyObject* given_or(const Arguments& args, int i, Array array) {
  return args.is_none(i) ? make_array_object(std::move(array)) : Py_NewRef(args[i].ptr());
}

void bind_norms(py::module_& m) {
  define_row_op(m, "rmsnorm", [](const Arguments& args) {
    const Array& x = args.array(0);
    const ops::NormOptions options{args.optional_array(1), {}, args.number(2), args.number(3)};
    return run_into(args, 4, [&](const auto& out) { return ops::rmsnorm(x, options, out); });
  });
  define_row_op(m, "layernorm", [](const Arguments& args) {
    const Array& x = args.array(0);
    const ops::NormOptions options{args.optional_array(1), args.optional_array(2), args.number(3)};
    return run_into(args, 4, [&](const auto& out) { return ops::layernorm(x, options, out); });
  });
  define_row_op(m, "l2norm", [](const Arguments& args) {
    const Array& x = args.array(0);
    const ops::NormOptions options{{}, {}, args.number(1)};
    return run_into(args, 2,
                    [&](const auto& out) { return ops::rmsnorm(x, options, out, "l2norm"); });
  });
  define(m, "rmsnorm_fp8", [](const Arguments& args) {
    const Array& x = args.array(0);
    const ops::NormOptions options{args.optional_array(1), {}, args.number(2), args.number(3)};
    const std::optional<Array> residual = args.optional_array(4);
    auto result = [&] {
      const BrieflyWithoutGil released;
      return ops::rmsnorm_fp8(x, residual, options);
    }();
    const auto object = [](Array array) {
      return py::reinterpret_steal<py::object>(make_array_object(std::move(array)));
    };
    const py::object values = object(std::move(result.values));
    const py::object scales = object(std::move(result.scales));
    if (!result.sum) return py::object(py::make_tuple(values, scales));
    return py::object(py::make_tuple(values, scales, object(std::move(*result.sum))));
  });
}

void bind_added_norms(py::module_& m) {
  define(m, "add_rmsnorm", [](const Arguments& args) -> PyObject* {
    const Array& x = args.array(0);
    const Array& residual = args.array(1);
    const ops::NormOptions options{args.optional_array(2), {}, args.number(3), args.number(4)};
    const std::optional<Array> out = args.out(5);
    const std::optional<Array> sum_out = args.out(6);
    auto result = [&] {
      const BrieflyWithoutGil released;
      return ops::add_rmsnorm(x, residual, options, out, sum_out);
    }();
    return pair(given_or(args, 5, std::move(result.out)), given_or(args, 6, std::move(result.sum)));
  });
  define(m, "add_layernorm", [](const Arguments& args) -> PyObject* {
    const Array& x = args.array(0);
    const Array& residual = args.array(1);
    const ops::NormOptions options{args.optional_array(2), args.optional_array(3), args.number(4)};
    const std::optional<Array> out = args.out(5);
    const std::optional<Array> sum_out = args.out(6);
    auto result = [&] {
      const BrieflyWithoutGil released;
      return ops::add_layernorm(x, residual, options, out, sum_out);
    }();
    return pair(given_or(args, 5, std::move(result.out)), given_or(args, 6, std::move(result.sum)));
  });
}

void bind_channel_norms(py::module_& m) {
  define(m, "groupnorm", [](const Arguments& args) {
    const Array& x = args.array(0);
    const std::int64_t num_groups = args.integer(1);
    const ops::NormOptions options{args.optional_array(2), args.optional_array(3), args.number(4)};
    return run_into(args, 5,
                    [&](const auto& out) { return ops::groupnorm(x, num_groups, options, out); });
  });
  define(m, "instancenorm", [](const Arguments& args) {
    const Array& x = args.array(0);
    const ops::NormOptions options{args.optional_array(1), args.optional_array(2), args.number(3)};
    return run_into(args, 4, [&](const auto& out) { return ops::instancenorm(x, options, out); });
  });
  define(m, "adain", [](const Arguments& args) {
    const Array& x = args.array(0);
    const Array& scale = args.array(1);
    const Array& shift = args.array(2);
    const double eps = args.number(3);
    return run_into(args, 4,
                    [&](const auto& out) { return ops::adain(x, scale, shift, eps, out); });
  });
}

void define_softmax(py::module_& m, const char* op, bool log) {
  define_row_op(m, op, [log](const Arguments& args) {
    const Array& x = args.array(0);
    const ops::SoftmaxOptions options{args.integer(1), args.optional_array(2), args.number(3), log};
    return run_into(args, 4, [&](const auto& out) { return ops::softmax(x, options, out); });
  });
}

void bind_rope(py::module_& m) {
  define(m, "rope", [](const Arguments& args) {
    const Array& x = args.array(0);
    const ops::RopeAngles angles{args.array(1), args.array(2)};
    const ops::RopeOptions options{args.optional_array(3), args.integer(4), args.flag(5)};
    return run_into(args, 6, [&](const auto& out) { return ops::rope(x, angles, options, out); });
  });
  define(m, "rope_computed", [](const Arguments& args) {
    const Array& x = args.array(0);
    const ops::RopeFrequencies angles{args.array(1), args.number(5)};
    const ops::RopeOptions options{args.optional_array(2), args.integer(3), args.flag(4)};
    return run_into(args, 6,
                    [&](const auto& out) { return ops::rope_computed(x, angles, options, out); });
  });
}

void bind_embedding(py::module_& m) {
  define(m, "embedding", [](const Arguments& args) {
    const Array& table = args.array(0);
    const Array& ids = args.array(1);
    const ops::EmbeddingOptions options{args.number(2), args.optional_array(3),
                                        args.optional_array(4), args.integer(5)};
    return run_into(args, 6,
                    [&](const auto& out) { return ops::embedding(table, ids, options, out); });
  });
}

}  // namespace

void bind_nn(py::module_& m) {
  bind_norms(m);
  bind_added_norms(m);
  bind_channel_norms(m);
  bind_rope(m);
  bind_embedding(m);
  define_softmax(m, "softmax", false);
  define_softmax(m, "log_softmax", true);
  define(m, "log_likelihood", [](const Arguments& args) {
    const Array& logits = args.array(0);
    const Array& targets = args.array(1);
    const std::int64_t ignored = args.integer(2);
    return run_into(args, 3, [&](const auto& out) {
      return ops::log_likelihood(logits, targets, ignored, out);
    });
  });
}

}  // namespace gpk::bind

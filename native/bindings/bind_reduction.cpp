// Reductions and scans as functions and as methods of GPUArray.
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "bindings/op_function.h"
#include "bindings/tracer.h"
#include "ops/reduction/masked.h"
#include "ops/reduction/scan.h"

namespace gpk::bind {
namespace {

using ops::OpId;
using ops::reduction::Elements;
using ops::reduction::ReduceRule;

// Positions of an op's arguments in its signature; -1: absent.
struct Places {
  explicit Places(const FastSignature& signature)
      : axis(signature.index("axis")),
        dtype(signature.index("dtype")),
        keepdims(signature.index("keepdims")),
        ddof(signature.index("ddof")),
        correction(signature.index("correction")),
        initial(signature.index("initial")),
        where(signature.index("where")),
        include_initial(signature.index("include_initial")),
        out(signature.index("out")) {}

  int axis;
  int dtype;
  int keepdims;
  int ddof;
  int correction;
  int initial;
  int where;
  int include_initial;
  int out;
};

// A reduction (`rule`) or a scan.
struct AxisOp {
  OpId id;
  std::optional<ReduceRule> rule;
};

bool is_given(const Arguments& args, int i) { return i >= 0 && !args.is_none(i); }

// `where=True` is NumPy's way to say every element.
bool is_masked(const Arguments& args, int i) {
  return is_given(args, i) && bool_from_python(args[i]) != true;
}

// The array API standard's `correction` and NumPy's `ddof` are one number.
double correction_from(const Arguments& args, const Places& at) {
  if (args.is_none(at.correction)) return args.number(at.ddof);
  if (!args.is_default(at.ddof))
    throw InvalidArgument(
        cat(args.op(), ": ddof and correction are the same number, and both were given"));
  return args.number(at.correction);
}

PyObject* run_masked(OpId id, const Array& x, const Arguments& args, const Places& at,
                     const ops::ReduceOptions& options) {
  ops::MaskedReduction request{options, std::nullopt, std::nullopt};
  if (is_masked(args, at.where))
    request.where = bool_from_python(args[at.where]) ? from_numpy(args[at.where], x.device())
                                                     : args.array_like(at.where, x);
  if (is_given(args, at.initial)) {
    request.initial = scalar_from_python(args[at.initial], args.op());
    if (!request.initial) args.refuse(at.initial, "a number");
  }
  return run_into(args, at.out, [&](const std::optional<Array>& out) {
    request.options.out = out;
    return ops::reduce_masked(id, x, request);
  });
}

PyObject* run_reduction(const AxisOp& op, const Array& x, const Arguments& args, const Places& at) {
  ops::ReduceOptions options;
  if (op.rule != ReduceRule::kIndex)
    options.axes = args.optional_integers(at.axis);
  else if (const auto axis = args.optional_integer(at.axis))
    options.axes = Dims{*axis};
  if (at.dtype >= 0) options.dtype = args.optional_dtype(at.dtype);
  if (at.correction >= 0) options.correction = correction_from(args, at);
  options.keepdims = args.flag(at.keepdims);
  if (is_masked(args, at.where) || is_given(args, at.initial)) [[unlikely]]
    return run_masked(op.id, x, args, at, options);
  return run_into(args, at.out, [&](const std::optional<Array>& out) {
    options.out = out;
    return ops::reduce(op.id, x, options);
  });
}

PyObject* run_scan(const AxisOp& op, const Array& x, const Arguments& args, const Places& at) {
  ops::ScanOptions options;
  options.alias = args.op();
  options.axis = args.optional_integer(at.axis);
  options.dtype = args.optional_dtype(at.dtype);
  if (at.include_initial >= 0) {
    options.include_initial = args.flag(at.include_initial);
    if (!options.axis && x.ndim() > 1)
      throw InvalidArgument(cat(args.op(), ": axis is required for an array of ", x.ndim(),
                                " dimensions, x has shape ", to_string(x.shape())));
  }
  return run_into(args, at.out, [&](const std::optional<Array>& out) {
    options.out = out;
    return ops::scan(op.id, x, options);
  });
}

PyObject* run(const AxisOp& op, const Array& x, const Arguments& args, const Places& at) {
  return op.rule ? run_reduction(op, x, args, at) : run_scan(op, x, args, at);
}

void define_function(py::module_& m, const char* name, const AxisOp& op) {
  const Places places(FastSignature(name, declaration_of(name).signature));
  add_op(m, name, [op, places](const Arguments& args) {
    if (is_tracer(args[0].ptr())) [[unlikely]]
      return record_row_op(args[0].ptr(), args);
    return run(op, args.array_like(0), args, places);
  });
}

// --- methods ------------------------------------------------------------------------------------

struct Method {
  AxisOp op;
  FastSignature signature;
  Places places;
  std::string doc;
  PyMethodDef definition;
};

// A method finds its op by its template argument: a C method only gets the array.
template <OpId id>
struct MethodOf {
  static inline const Method* method = nullptr;

  static PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t num_args,
                        PyObject* keywords) {
    return guarded<>(static_cast<PyObject*>(nullptr), [&] {
      return run(method->op, array_of(self), Arguments(method->signature, args, num_args, keywords),
                 method->places);
    });
  }
};

template <OpId id>
void define_method(std::optional<ReduceRule> rule, const char* signature) {
  const char* name = ops::name(id);
  const FastSignature parsed(name, signature);
  const std::string inside = std::string(signature).substr(1);
  auto* method = new Method{{id, rule},
                            parsed,
                            Places(parsed),
                            cat(name, "($self, ", inside, "\n--\n\n", declaration_of(name).doc),
                            {}};
  const auto call = MethodOf<id>::call;
  method->definition = {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)),
                        METH_FASTCALL | METH_KEYWORDS, method->doc.c_str()};
  MethodOf<id>::method = method;
  PyObject* descriptor = PyDescr_NewMethod(array_type(), &method->definition);
  if (descriptor == nullptr) throw py::error_already_set();
  py::handle(reinterpret_cast<PyObject*>(array_type())).attr(name) =
      py::reinterpret_steal<py::object>(descriptor);
}

template <OpId id, Elements elements>
void define_axis_op(py::module_& m, std::optional<ReduceRule> rule, const char* method) {
  define_function(m, ops::name(id), {id, rule});
  if constexpr (elements == Elements::kEvery) define_method<id>(rule, method);
}

}  // namespace

void bind_reduction(py::module_& m) {
#define GPK_REDUCTION(name, rule, functor, finish, elements, doc) \
  define_axis_op<OpId::name, Elements::elements>(                 \
      m, ReduceRule::rule, ops::reduction::method_signature(ReduceRule::rule));
#define GPK_SCAN(name, functor, elements, doc) \
  define_axis_op<OpId::name, Elements::elements>(m, std::nullopt, ops::reduction::kScanMethod);
#include "ops/reduction/ops.def"
  define_function(m, "cumulative_sum", {OpId::cumsum, std::nullopt});
  define_function(m, "cumulative_prod", {OpId::cumprod, std::nullopt});
}

}  // namespace gpk::bind

// Random numbers as functions of a key and a position. The common arguments come as one tuple: (op
// for messages, size, dtype, device, out, key, low 64 bits of the position, high 32 bits).
#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "ops/random/random.h"

namespace gpk::bind {
namespace {

constexpr std::size_t kFields = 8;

struct Request {
  std::string op;
  py::object out;
  ops::RandomResult result;
  ops::RandomState state;

  explicit Request(const py::tuple& fields)
      : op(fields.size() == kFields ? fields[0].cast<std::string>() : std::string("random")),
        result{op.c_str(), {}, DType::kFloat32, {}, std::nullopt} {
    if (fields.size() != kFields)
      throw InvalidArgument(
          cat("random: request has ", fields.size(), " fields, expected ", kFields));
    result.dtype = dtype_from_python(fields[2], result.op);
    result.device = device_from_python(fields[3], result.op);
    out = fields[4];
    if (!out.is_none()) take_out();
    if (const py::object size = fields[1]; !size.is_none())
      result.shape = shape_from_python(size, result.op);
    state.key = fields[5].cast<std::uint64_t>();
    state.position_low = fields[6].cast<std::uint64_t>();
    state.position_high = fields[7].cast<std::uint32_t>();
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

 private:
  void take_out() {
    result.out = *output_from_python(out.ptr(), op.c_str());
    result.shape = result.out->shape();
  }
};

// `make(result, state)` for the request, which is argument 0.
template <class Make>
py::object made(const Arguments& args, const Make& make) {
  if (!PyTuple_Check(args[0].ptr())) args.refuse(0, "a tuple");
  const Request request(py::reinterpret_borrow<py::tuple>(args[0]));
  std::optional<Array> array;
  {
    const WithoutGil released;
    array = make(request.result, request.state);
  }
  if (request.result.out) return request.out;
  return py::reinterpret_steal<py::object>(make_array_object(std::move(*array)));
}

using OneNumber = Array (*)(const ops::RandomResult&, double, const ops::RandomState&);
using TwoNumbers = Array (*)(const ops::RandomResult&, double, double, const ops::RandomState&);

void define_random(py::module_& m, const char* op, OneNumber function) {
  define(m, op, [function](const Arguments& args) {
    const double parameter = args.number(1);
    return made(args, [&](const ops::RandomResult& result, const ops::RandomState& state) {
      return function(result, parameter, state);
    });
  });
}

void define_random(py::module_& m, const char* op, TwoNumbers function) {
  define(m, op, [function](const Arguments& args) {
    const double first = args.number(1);
    const double second = args.number(2);
    return made(args, [&](const ops::RandomResult& result, const ops::RandomState& state) {
      return function(result, first, second, state);
    });
  });
}

Scalar integer(const Arguments& args, int i) {
  if (!PyLong_Check(args[i].ptr())) args.refuse(i, "an int");
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(args[i].ptr(), &overflow);
  if (overflow == 0) return Scalar(static_cast<std::int64_t>(number));
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(args[i].ptr());
    if (PyErr_Occurred() == nullptr) return Scalar(static_cast<std::uint64_t>(large));
    clear_if(PyExc_OverflowError);
  }
  throw InvalidArgument(cat("integers: ", args.name(i), " is out of bounds: ", safe_repr(args[i])));
}

ops::RandomParameter parameter(const Arguments& args, int i) {
  if (is_array(args[i].ptr())) return args.array(i);
  return args.number(i);
}

using OneParameter = Array (*)(const ops::RandomResult&, const ops::RandomParameter&,
                               const ops::RandomState&);
using TwoParameters = Array (*)(const ops::RandomResult&, const ops::RandomParameter&,
                                const ops::RandomParameter&, const ops::RandomState&);

void define_random(py::module_& m, const char* op, OneParameter function) {
  define(m, op, [function](const Arguments& args) {
    const ops::RandomParameter first = parameter(args, 1);
    return made(args, [&](const ops::RandomResult& result, const ops::RandomState& state) {
      return function(result, first, state);
    });
  });
}

void define_random(py::module_& m, const char* op, TwoParameters function) {
  define(m, op, [function](const Arguments& args) {
    const ops::RandomParameter first = parameter(args, 1);
    const ops::RandomParameter second = parameter(args, 2);
    return made(args, [&](const ops::RandomResult& result, const ops::RandomState& state) {
      return function(result, first, second, state);
    });
  });
}

// (request, low, high)
py::object integers(const Arguments& args) {
  const Scalar low = integer(args, 1);
  const Scalar high = integer(args, 2);
  return made(args, [&](const ops::RandomResult& result, const ops::RandomState& state) {
    return ops::random_integers(result, low, high, state);
  });
}

}  // namespace

void bind_random(py::module_& m) {
  define_random(m, "random_uniform", ops::random_uniform);
  define_random(m, "random_normal", ops::random_normal);
  define_random(m, "random_exponential", ops::random_exponential);
  define_random(m, "random_bernoulli", ops::random_bernoulli);
  define_random(m, "random_gamma", ops::random_gamma);
  define_random(m, "random_poisson", ops::random_poisson);
  define_random(m, "random_binomial", ops::random_binomial);
  define(m, "random_integers", integers);
  m.def("random_blocks", ops::random_blocks, py::arg("count"), py::arg("wide"),
        "Counter positions consumed by `count` elements; wide: 64-bit draws.");
}

}  // namespace gpk::bind

// Random numbers as functions of a key and a position. What all of them need comes as one tuple:
// (op for messages, size, dtype, device, out, key, low 64 bits of the position, high 32 bits).
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/output.h"
#include "core/error.h"
#include "core/text.h"
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

template <class Make>
py::object made(const py::tuple& fields, const Make& make) {
  const Request request(fields);
  std::optional<Array> array;
  {
    const WithoutGil released;
    array = make(request.result, request.state);
  }
  if (request.result.out) return request.out;
  return py::reinterpret_steal<py::object>(make_array_object(std::move(*array)));
}

py::object uniform(const py::tuple& request, double low, double high) {
  return made(request, [&](const ops::RandomResult& result, const ops::RandomState& state) {
    return ops::random_uniform(result, low, high, state);
  });
}

py::object normal(const py::tuple& request, double loc, double scale) {
  return made(request, [&](const ops::RandomResult& result, const ops::RandomState& state) {
    return ops::random_normal(result, loc, scale, state);
  });
}

py::object exponential(const py::tuple& request, double scale) {
  return made(request, [&](const ops::RandomResult& result, const ops::RandomState& state) {
    return ops::random_exponential(result, scale, state);
  });
}

py::object bernoulli(const py::tuple& request, double probability) {
  return made(request, [&](const ops::RandomResult& result, const ops::RandomState& state) {
    return ops::random_bernoulli(result, probability, state);
  });
}

Scalar integer(const py::int_& value, const char* argument) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) return Scalar(static_cast<std::int64_t>(number));
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(value.ptr());
    if (PyErr_Occurred() == nullptr) return Scalar(static_cast<std::uint64_t>(large));
    clear_if(PyExc_OverflowError);
  }
  throw InvalidArgument(cat("integers: ", argument, " is out of bounds: ", safe_repr(value)));
}

py::object integers(const py::tuple& request, const py::int_& low, const py::int_& high) {
  const Scalar from = integer(low, "low");
  const Scalar to = integer(high, "high");
  return made(request, [&](const ops::RandomResult& result, const ops::RandomState& state) {
    return ops::random_integers(result, from, to, state);
  });
}

}  // namespace

void bind_random(py::module_& m) {
  m.def("random_uniform", uniform, py::arg("request"), py::arg("low"), py::arg("high"),
        "Numbers from low to high, evenly.");
  m.def("random_normal", normal, py::arg("request"), py::arg("loc"), py::arg("scale"),
        "Normal numbers of a mean and a standard deviation.");
  m.def("random_exponential", exponential, py::arg("request"), py::arg("scale"),
        "Exponential numbers of a mean.");
  m.def("random_integers", integers, py::arg("request"), py::arg("low"), py::arg("high"),
        "Integers from low to high, both included.");
  m.def("random_bernoulli", bernoulli, py::arg("request"), py::arg("p"),
        "True with probability p.");
  m.def("random_blocks", ops::random_blocks, py::arg("count"), py::arg("wide"),
        "Positions that `count` elements use up; wide: draws of 64 bits.");
}

}  // namespace gpk::bind

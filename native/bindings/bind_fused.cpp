// Functions that gp.fuse compiles into one kernel.
#include <pybind11/stl.h>

#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/operand.h"
#include "bindings/output.h"
#include "jit/builtin.h"
#include "ops/elementwise/fused.h"
#include "ops/nn/fused_rows.h"

namespace gpk::bind {
namespace {

// Of an SM 90.
constexpr std::size_t kSharedLimit = 232448;

std::vector<ops::Operand> operands_of(const py::tuple& args) {
  std::vector<ops::Operand> operands;
  for (const py::handle argument : args)
    operands.push_back(require_operand(argument.ptr(), "fuse", "argument"));
  return operands;
}

std::vector<ops::Fused::Input> inputs_of(const py::list& inputs) {
  std::vector<ops::Fused::Input> typed;
  for (const py::handle input : items_from_python(inputs)) {
    const auto pair = input.cast<py::tuple>();
    typed.push_back({dtype_from_python(pair[0], "fuse"), pair[1].cast<bool>()});
  }
  return typed;
}

template <class Function>
Array run_function(Function& function, const py::tuple& args, py::handle out) {
  const std::vector<ops::Operand> operands = operands_of(args);
  const Array* into = output_from_python(out.ptr(), "fuse");
  const BrieflyWithoutGil released;
  return function.run(operands, into);
}

std::shared_ptr<ops::Fused> make_fused(const std::string& name, const std::string& source,
                                       const py::list& inputs, py::handle result) {
  return std::make_shared<ops::Fused>(name, source, inputs_of(inputs),
                                      dtype_from_python(result, "fuse"));
}

std::vector<ops::nn::RowUse> uses_of(const py::list& uses) {
  std::vector<ops::nn::RowUse> result;
  for (const py::handle item : items_from_python(uses)) {
    const auto use = item.cast<py::tuple>();
    result.push_back({use[0].cast<std::string>(),
                      use[1].cast<std::string>(),
                      {use[2].cast<std::uint32_t>(), use[3].cast<std::uint32_t>()},
                      use[4].cast<bool>(),
                      use[5].cast<bool>()});
  }
  return result;
}

std::shared_ptr<ops::FusedRows> make_rows(const std::string& name, const std::string& source,
                                          const py::list& inputs, py::handle result,
                                          std::uint32_t columns, std::uint32_t arrays,
                                          const py::list& uses, py::handle row_dtype,
                                          int held_bytes, int num_values) {
  return std::make_shared<ops::FusedRows>(
      ops::FusedRows::Function{name,
                               source,
                               inputs_of(inputs),
                               dtype_from_python(result, "fuse"),
                               {columns, arrays},
                               uses_of(uses),
                               dtype_from_python(row_dtype, "fuse"),
                               held_bytes,
                               num_values});
}

void check_rows(const ops::FusedRows& rows, const py::tuple& args, py::handle out) {
  rows.check(operands_of(args), output_from_python(out.ptr(), "fuse"));
}

ops::FusedRows::Prepared prepare_rows(const ops::FusedRows& rows, const py::tuple& args,
                                      py::handle out) {
  const Array* into = output_from_python(out.ptr(), "fuse");
  if (into == nullptr) bad_argument("fuse", "out", out.ptr(), "a GPUArray");
  return rows.prepare(operands_of(args), *into, kSharedLimit);
}

py::tuple describe_rows(const ops::FusedRows& rows, const py::tuple& args, py::handle out) {
  ops::FusedRows::Prepared prepared = prepare_rows(rows, args, out);
  py::list arrays;
  for (Array& array : prepared.arrays)
    arrays.append(py::reinterpret_steal<py::object>(make_array_object(std::move(array))));
  return py::make_tuple(ops::to_string(prepared.plan), ops::expression(prepared.plan),
                        prepared.config.grid[0], prepared.config.block[0], py::bytes(prepared.args),
                        arrays);
}

py::tuple compile_rows(const ops::FusedRows& rows, const py::tuple& args, py::handle out, int sm,
                       const std::vector<std::string>& options) {
  jit::CompileRequest request = rows.request(prepare_rows(rows, args, out).plan, sm);
  request.options.insert(request.options.end(), options.begin(), options.end());
  jit::CompiledImage image;
  {
    const WithoutGil released;
    image = jit::compile(request);
  }
  return py::make_tuple(py::bytes(image.bytes), image.log);
}

}  // namespace

void bind_fused(py::module_& m) {
  m.def("jit_available", jit::jit_available, "Whether NVRTC is available.");
  py::class_<ops::Fused, std::shared_ptr<ops::Fused>>(m, "FusedKernel",
                                                      "One kernel generated from several ops.")
      .def(py::init(&make_fused), py::arg("name"), py::arg("source"), py::arg("inputs"),
           py::arg("result"))
      .def("run", run_function<ops::Fused>, py::arg("args"), py::arg("out") = py::none(),
           "Runs it on arrays and numbers of the traced dtypes.")
      .def_property_readonly("source", &ops::Fused::source, "The generated CUDA C.");
  py::class_<ops::FusedRows, std::shared_ptr<ops::FusedRows>>(
      m, "FusedRows", "One kernel generated from several ops, some of them over rows.")
      .def(py::init(&make_rows), py::arg("name"), py::arg("source"), py::arg("inputs"),
           py::arg("result"), py::arg("columns"), py::arg("arrays"), py::arg("uses"),
           py::arg("row_dtype"), py::arg("held_bytes"), py::arg("num_values"))
      .def("check", check_rows, py::arg("args"), py::arg("out") = py::none(),
           "Raises what run() would.")
      .def("run", run_function<ops::FusedRows>, py::arg("args"), py::arg("out") = py::none(),
           "Runs it on arrays and numbers of the traced dtypes.")
      .def(
          "prepare", describe_rows, py::arg("args"), py::arg("out"),
          "What run() would launch on an SM 90: (plan, kernel, grid, block, bytes of its argument, "
          "arrays they point into).")
      .def("compile", compile_rows, py::arg("args"), py::arg("out"), py::arg("sm"),
           py::arg("options") = std::vector<std::string>(),
           "Compiles the kernel of such arguments for an architecture: (image, log).")
      .def_property_readonly("source", &ops::FusedRows::source, "The generated CUDA C.");
}

}  // namespace gpk::bind

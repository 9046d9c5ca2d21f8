#include "bindings/load_arguments.h"

#include "base/error.h"
#include "base/text.h"

namespace gpk::bind {

llm::LoadOptions load_options(py::handle dtype, py::handle progress) {
  llm::LoadOptions options;
  options.dtype = optional_dtype(dtype, "load");
  if (!progress.is_none())
    options.progress = [progress](std::uint64_t done, std::uint64_t total) {
      const WithGil gil;
      call_function(progress, py::make_tuple(done, total));
    };
  return options;
}

llm::Model::Tensors tensors_from(const py::dict& shapes, const py::function& load) {
  llm::Model::Tensors tensors;
  for (const auto& [name, shape] : shapes)
    tensors.shapes.emplace(py::cast<std::string>(name), shape_from_python(shape, "load"));
  tensors.load = [load](const std::string& name) {
    const py::object array = load(name);
    if (!is_array(array.ptr()))
      throw InvalidArgument(Error::Kind::kType, cat("load: tensor ", name, " is no GPUArray"));
    return array_of(array.ptr());
  };
  return tensors;
}

}  // namespace gpk::bind

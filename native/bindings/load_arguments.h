// What the loaders of weights and models have in common: options, tensors by name, results.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bindings/array_object.h"
#include "bindings/convert.h"
#include "bindings/python.h"
#include "llm/model.h"
#include "llm/weight_loader.h"

namespace gpk::bind {

// `progress`: None, or called with the bytes done and in all. It is borrowed: the options must not
// outlive the call.
llm::LoadOptions load_options(py::handle dtype, py::handle progress);

// Every tensor's shape, and the Python function that gives one as an array.
llm::Model::Tensors tensors_from(const py::dict& shapes, const py::function& load);

// The tensors of a file by their names, without the GIL.
template <class File>
py::dict load_arrays(const File& file, const std::vector<std::string>& names, py::handle device,
                     const llm::LoadOptions& options) {
  const Device where = device_from_python(device, "load");
  std::map<std::string, Array> arrays;
  {
    const WithoutGil released;
    arrays = file.load(names, where, options);
  }
  py::dict result;
  for (const std::string& name : names) result[py::str(name)] = py::cast(arrays.at(name));
  return result;
}

}  // namespace gpk::bind

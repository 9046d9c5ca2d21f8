// Weight files of torch.save, read without running any of their pickle.
#include <utility>

#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/load_arguments.h"
#include "llm/torch_file.h"

namespace gpk::bind {
namespace {

using llm::TorchFile;
using llm::TorchTensor;

const TorchTensor& torch_tensor_of(const TorchFile& file, const std::string& name) {
  const TorchTensor* tensor = file.find(name);
  if (tensor == nullptr)
    throw py::key_error(
        cat("torch file: ", file.file().path(), " has no tensor ", llm::quoted_name(name)));
  return *tensor;
}

// (stored type, dtype or None, shape, strides, offset of its storage in the file, first element).
py::tuple describe_torch_tensor(const TorchFile& file, const std::string& name) {
  const TorchTensor& tensor = torch_tensor_of(file, name);
  const llm::TensorInfo& storage = file.storages()[tensor.storage];
  py::object dtype = py::none();
  if (storage.dtype) dtype = py::reinterpret_borrow<py::object>(dtype_object(*storage.dtype));
  return py::make_tuple(storage.stored_type, dtype, to_tuple(tensor.shape),
                        to_tuple(tensor.strides), storage.offset, tensor.offset);
}

py::dict load_torch(const TorchFile& file, const std::vector<std::string>& names, py::handle dtype,
                    py::handle device, py::handle progress) {
  for (const std::string& name : names) torch_tensor_of(file, name);  // KeyError
  return load_arrays(file, names, device, load_options(dtype, progress));
}

}  // namespace

void bind_torch_file(py::module_& m) {
  const auto name = py::arg("name");
  py::class_<TorchFile, std::shared_ptr<TorchFile>>(m, "TorchFile",
                                                    "The tensors of a file of torch.save.")
      .def(py::init([](std::string path) {
             const WithoutGil released;
             return std::make_shared<TorchFile>(std::move(path));
           }),
           py::arg("path"))
      .def_property_readonly("path", [](const TorchFile& file) { return file.file().path(); })
      .def_property_readonly("names", &TorchFile::names)
      .def_property_readonly(
          "file_size", [](const TorchFile& file) { return file.file().size_bytes(); }, "Bytes.")
      .def(
          "__contains__",
          [](const TorchFile& file, py::handle key) {
            const auto text = text_from_python(key);
            return text && file.find(*text) != nullptr;
          },
          py::arg("key"))
      .def("info", describe_torch_tensor, name,
           "(stored type, dtype or None, shape, strides, offset of the storage, first element).")
      .def("load", load_torch, py::arg("names"), py::kw_only(), py::arg("dtype") = py::none(),
           py::arg("device") = py::none(), py::arg("progress") = py::none(),
           "The tensors as read-only arrays, by name.");
}

}  // namespace gpk::bind

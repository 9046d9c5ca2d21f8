// Weight files: SafeTensors, indices with shards, loading and saving.
#include <utility>

#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/load_arguments.h"
#include "llm/safetensors_writer.h"
#include "llm/weight_set.h"

namespace gpk::bind {
namespace {

using llm::TensorInfo;
using llm::WeightSet;
using SharedSet = std::shared_ptr<WeightSet>;

SharedSet open_set(SharedSet (*open)(const std::string&), const std::string& path) {
  const WithoutGil released;
  return open(path);
}

const TensorInfo& info_of(const WeightSet& set, const std::string& name) {
  if (!set.contains(name))
    throw py::key_error(
        cat("safetensors: ", set.path(), " has no tensor ", llm::quoted_name(name)));
  const WithoutGil released;
  return set.info(name);
}

// (stored type, dtype or None, shape, offset in the file, bytes).
py::tuple describe_tensor(const WeightSet& set, const std::string& name) {
  const TensorInfo& tensor = info_of(set, name);
  py::object dtype = py::none();
  if (tensor.dtype) dtype = py::reinterpret_borrow<py::object>(dtype_object(*tensor.dtype));
  return py::make_tuple(tensor.stored_type, dtype, to_tuple(tensor.shape), tensor.offset,
                        tensor.size_bytes);
}

py::bytes read(const WeightSet& set, const std::string& name) {
  const TensorInfo& tensor = info_of(set, name);
  auto result = py::reinterpret_steal<py::bytes>(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(tensor.size_bytes)));
  if (!result) throw py::error_already_set();
  char* data = PyBytes_AS_STRING(result.ptr());
  const WithoutGil released;
  set.file_of(name).file().read(tensor.offset, data, static_cast<std::size_t>(tensor.size_bytes));
  return result;
}

std::pair<std::uintptr_t, std::uint64_t> address(const WeightSet& set, const std::string& name) {
  const TensorInfo& tensor = info_of(set, name);
  const auto first = reinterpret_cast<std::uintptr_t>(set.file_of(name).file().map());
  return {first + static_cast<std::uintptr_t>(tensor.offset), tensor.size_bytes};
}

py::dict load(const WeightSet& set, const std::vector<std::string>& names, py::handle dtype,
              py::handle device, bool evictable, std::size_t block_bytes, unsigned num_threads,
              py::handle progress) {
  for (const std::string& name : names) info_of(set, name);  // KeyError
  llm::LoadOptions options = load_options(dtype, progress);
  options.evictable = evictable;
  options.block_bytes = block_bytes;
  options.num_threads = num_threads;
  return load_arrays(set, names, device, options);
}

void save(const std::string& path, const std::vector<std::pair<std::string, py::object>>& tensors,
          const std::map<std::string, std::string>& metadata) {
  std::vector<std::pair<std::string, Array>> arrays;
  for (const auto& [name, object] : tensors) {
    if (!is_array(object.ptr()))
      bad_argument("save_safetensors", cat("tensors['", name, "']").c_str(), object, "a GPUArray");
    arrays.emplace_back(name, array_of(object.ptr()));
  }
  const WithoutGil released;
  llm::save_safetensors(path, arrays, metadata);
}

}  // namespace

void bind_safetensors(py::module_& m) {
  const auto path = py::arg("path");
  const auto name = py::arg("name");
  py::class_<WeightSet, SharedSet>(m, "WeightSet",
                                   "The tensors of a SafeTensors file, or of an index with shards.")
      .def_static(
          "open", [](const std::string& p) { return open_set(WeightSet::open, p); }, path,
          "A file, an index (x.index.json), or a folder with one of them.")
      .def_static(
          "open_file", [](const std::string& p) { return open_set(WeightSet::open_file, p); }, path,
          "A SafeTensors file.")
      .def_static(
          "open_index", [](const std::string& p) { return open_set(WeightSet::open_index, p); },
          path, "An index; its shards are opened when they are needed.")
      .def_property_readonly("path", &WeightSet::path)
      .def_property_readonly("names", &WeightSet::names)
      .def_property_readonly("files", &WeightSet::files)
      .def_property_readonly("file_size", &WeightSet::file_bytes, "Bytes of all files.")
      .def_property_readonly("metadata", &WeightSet::metadata)
      .def(
          "__contains__",
          [](const WeightSet& set, py::handle key) {
            const auto text = text_from_python(key);
            return text && set.contains(*text);
          },
          py::arg("key"))
      .def("info", describe_tensor, name, "(stored type, dtype or None, shape, offset, bytes).")
      .def("read", read, name, "The tensor's bytes.")
      .def("address", address, name, "(address in a mapping of the file, bytes).")
      .def("load", load, py::arg("names"), py::kw_only(), py::arg("dtype") = py::none(),
           py::arg("device") = py::none(), py::arg("evictable") = false, py::arg("block_bytes") = 0,
           py::arg("num_threads") = 0, py::arg("progress") = py::none(),
           "The tensors as read-only arrays, by name.")
      .def("verify", &WeightSet::verify, py::call_guard<WithoutGil>(),
           "Raises where shards and index disagree.")
      .def(
          "check_names",
          [](const WeightSet& set, const std::vector<std::string>& expected) {
            set.check_names(expected);
          },
          py::arg("expected"), "Raises where names are missing or left over.");
  m.def("save_safetensors", save, path, py::arg("tensors"), py::arg("metadata"),
        "Writes arrays, given as (name, array) pairs, to a SafeTensors file.");
}

}  // namespace gpk::bind

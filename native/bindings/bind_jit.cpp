// NVRTC, the kernel cache, and sources with several kernels.
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/kernel_object.h"
#include "core/context.h"
#include "core/memory.h"
#include "core/private_folder.h"
#include "jit/bundle.h"
#include "jit/disk_cache.h"
#include "jit/include_policy.h"
#include "jit/nvrtc.h"
#include "ops/op.h"

namespace gpk::bind {
namespace {

py::dict nvrtc_dict() {
  const jit::NvrtcSearch* search = nullptr;
  {
    const WithoutGil released;  // the search reads sys.path
    search = &jit::find_nvrtc();
  }
  py::dict d;
  d["available"] = search->nvrtc != nullptr;
  d["tried"] = search->tried;
  if (search->nvrtc != nullptr) {
    d["version"] = py::make_tuple(search->nvrtc->major, search->nvrtc->minor);
    d["path"] = search->nvrtc->path;
    d["include_folder"] = search->nvrtc->include_folder;
    d["archs"] = search->nvrtc->archs;
  }
  return d;
}

py::dict bundle_dict() {
  const jit::BundleInfo info = jit::bundle_info();
  py::dict d;
  d["kernels"] = info.num_entries;
  d["bytes"] = info.compressed_bytes;
  d["nvrtc_version"] = py::make_tuple(info.nvrtc_major, info.nvrtc_minor);
  return d;
}

py::list bundle_kernels() {
  py::list rows;
  for (const jit::BundleEntry& entry : jit::bundle_index())
    rows.append(py::make_tuple(entry.file, entry.expression, entry.sm, entry.exact));
  return rows;
}

// The bundled PTX for a GPU of `sm`.
std::string bundle_ptx(const std::string& file, const std::string& expression, int sm) {
  auto entry = jit::find_in_bundle(file, expression, sm);
  if (!entry) throw InvalidArgument(cat("bundle_ptx: no ", expression, " for sm ", sm));
  while (!entry->ptx.empty() && entry->ptx.back() == '\0') entry->ptx.pop_back();
  return entry->ptx;
}

py::dict cache_dict() {
  py::dict d;
  jit::DiskCache* cache = jit::disk_cache();
  d["enabled"] = cache != nullptr;
  if (cache == nullptr) return d;
  const auto stat = cache->stat();
  d["folder"] = cache->folder();
  d["entries"] = stat.num_entries;
  d["bytes"] = stat.total_bytes;
  return d;
}

py::dict program_counts() {
  const auto counts = jit::Program::counts();
  py::dict d;
  d["hits"] = counts.num_hits;
  d["misses"] = counts.num_misses;
  return d;
}

void bind_program(py::module_& m) {
  using P = jit::Program;
  py::class_<P, std::shared_ptr<P>>(m, "Program", "A source compiled by jit.")
      .def_property_readonly("source", [](const P& p) { return p.request().source; })
      .def_property_readonly("options", [](const P& p) { return p.request().options; })
      .def_property_readonly(
          "kernels", [](const P& p) { return p.request().name_expressions; },
          "The requested names.")
      .def_property_readonly("device", [](const P& p) { return to_string(p.device()); })
      .def_property_readonly(
          "sm", [](const P& p) { return p.request().sm; }, "90 for SM 9.0.")
      .def_property_readonly("bytes", &P::image_bytes, "Size of the compiled image.")
      .def_property_readonly(
          "ptx",
          [](const P& p) {
            const WithoutGil released;
            return p.ptx();
          },
          "Compiled on demand.")
      .def(
          "function",
          [](P& p, const std::string& name) {
            return reinterpret_cast<std::uintptr_t>(p.kernel(name)->function());
          },
          py::arg("name"), "The CUfunction of a kernel, as an int; GpuUnavailable on the CPU.");
  m.def("programs", &P::all, "Live programs compiled by jit, oldest first.");
  m.def("program_counts", program_counts, "Cache hits and misses of jit programs.");
}

void bind_folder(py::module_& m) {
  py::class_<PrivateFolder>(m, "PrivateFolder", "Files that only this user can have written.")
      .def(py::init<std::string>(), py::arg("path"))
      .def(
          "read",
          [](const PrivateFolder& f, const std::string& name,
             std::uint64_t max_bytes) -> std::optional<py::bytes> {
            const auto found = f.read(name, max_bytes);
            if (!found) return std::nullopt;
            return py::bytes(*found);
          },
          py::arg("name"), py::arg("max_bytes"), "None for a file that is missing or untrusted.")
      .def(
          "write",
          [](const PrivateFolder& f, const std::string& name, const py::bytes& data) {
            return f.write(name, std::string(data));
          },
          py::arg("name"), py::arg("data"), "The reason for failure, or an empty string.")
      .def("remove", &PrivateFolder::remove, py::arg("name"), "False when nothing was removed.")
      .def(
          "list",
          [](const PrivateFolder& f) {
            std::vector<std::string> names;
            for (const auto& file : f.list()) names.push_back(file.name);
            return names;
          },
          "Names of the files.");
}

std::uint64_t cache_clear() {
  jit::DiskCache* cache = jit::disk_cache();
  return cache == nullptr ? 0 : cache->clear();
}

// Puts one built-in kernel into the disk cache as its first use would: bundled PTX is assembled by
// the driver, so only for the GPU present; the rest is compiled, which needs no GPU. Returns false
// for a bundled kernel of another GPU.
bool cache_warm(std::size_t index, int sm) {
  const auto specs = ops::all_kernel_specs();
  if (index >= specs.size())
    throw InvalidArgument(InvalidArgument::Kind::kIndex,
                          cat("cache_warm: kernel ", index, " of ", specs.size()));
  const jit::KernelSpec& spec = specs[index];
  const WithoutGil released;
  if (!jit::in_bundle(spec.file, spec.expression, sm)) {
    jit::compile_cached(jit::compile_request(spec, sm));
    return true;
  }
  const Device device = default_device_choice().device;
  if (!device.is_cuda() || device_traits(device).sm != sm) return false;
  jit::prepare_builtin(Context::get(device.index), spec);
  return true;
}

using Folders = std::optional<std::vector<std::string>>;

py::tuple compile_to_ptx(const std::string& source, const std::string& name,
                         const std::vector<std::string>& options, const Folders& include_folders) {
  jit::CompileRequest request;
  request.name = name;
  request.source = source;
  request.options = options;
  request.include_folders = include_folders;
  request.want_ptx = true;
  jit::apply_include_policy(request);
  jit::CompiledImage image;
  {
    const WithoutGil released;
    const Device device = default_device();
    request.sm = device.is_cuda() ? device_traits(device).sm : kMinSm;
    image = jit::compile_cached(request);
  }
  while (!image.bytes.empty() && image.bytes.back() == '\0') image.bytes.pop_back();
  return py::make_tuple(image.bytes, image.log);
}

// A source with any number of kernels, templates and global variables.
class RawModule {
 public:
  RawModule(const std::string& source, const std::optional<std::vector<std::string>>& options,
            std::vector<std::string> expressions, const Folders& include_folders) {
    // Plain kernels can be looked up without naming them first; templates need their arguments.
    for (const std::string& kernel : jit::list_kernels(source)) {
      const auto signature = jit::parse_signature(source, kernel);
      if (signature && signature->template_params.empty()) expressions.push_back(kernel);
    }
    jit::CompileRequest request;
    request.name = "module.cu";
    request.source = source;
    request.options = options.value_or(std::vector<std::string>());
    request.name_expressions = std::move(expressions);
    request.include_folders = include_folders;
    program_ = build_program(request);
  }

  [[nodiscard]] py::object get_function(const std::string& name, std::int64_t block_size,
                                        py::object reference) const {
    const jit::Signature signature =
        check_kernel(program_->request().source, name, block_size, reference);
    return py::reinterpret_steal<py::object>(make_kernel_object(make_kernel_state(
        program_, signature, name, static_cast<int>(block_size), std::move(reference))));
  }

  // The variable's memory as a one-dimensional array.
  [[nodiscard]] Array get_global(const std::string& name, py::handle dtype) const {
    const DType type = dtype_from_python(dtype, "get_global");
    const Module::Global global = find(name);
    if (global.bytes % itemsize(type) != 0)
      throw InvalidArgument(cat("get_global: '", name, "' has ", global.bytes,
                                " bytes, not a multiple of ", gpk::name(type)));
    auto buffer = Buffer::wrap(program_->device(),
                               reinterpret_cast<void*>(static_cast<std::uintptr_t>(global.ptr)),
                               global.bytes, program_);
    const auto count = static_cast<std::int64_t>(global.bytes / itemsize(type));
    return Array(Dims{count}, Dims{1}, type, std::move(buffer), 0);
  }

  // Writes a __constant__ or __device__ variable; later launches see it.
  void set_global(const std::string& name, py::handle value) const {
    const py::object array = py::module_::import("numpy").attr("ascontiguousarray")(value);
    const std::string bytes = array.attr("tobytes")().cast<std::string>();
    const Module::Global global = find(name);
    if (bytes.size() != global.bytes)
      throw InvalidArgument(
          cat("set_global: '", name, "' has ", global.bytes, " bytes, got ", bytes.size()));
    if (!program_->device().is_cuda()) {
      std::memcpy(reinterpret_cast<void*>(static_cast<std::uintptr_t>(global.ptr)), bytes.data(),
                  bytes.size());
      return;
    }
    const auto& stream = current_stream(program_->device());
    const WithoutGil released;
    copy_to_device(global.ptr, bytes.data(), bytes.size(), *stream);
    stream->synchronize();
  }

  [[nodiscard]] const jit::Program& program() const { return *program_; }

 private:
  [[nodiscard]] Module::Global find(const std::string& name) const {
    const WithoutGil released;
    return program_->global(name);
  }

  std::shared_ptr<jit::Program> program_;
};

}  // namespace

void bind_jit(py::module_& m) {
  bind_program(m);
  bind_folder(m);
  m.def("nvrtc_info", nvrtc_dict, "NVRTC: version, path, header folder, or the paths tried.");
  m.def("bundle_info", bundle_dict, "The PTX bundle in this build.");
  m.def("bundle_kernels", bundle_kernels,
        "Every kernel in the PTX bundle as (file, expression, target, exact).");
  m.def("bundle_ptx", bundle_ptx, py::arg("file"), py::arg("expression"), py::arg("sm"),
        "The bundled PTX of a built-in kernel for an architecture.");
  m.def(
      "drop_bundle", [] { jit::set_bundle({}); },
      "Makes built-in kernels come from NVRTC only; for tests that compare the two.");
  m.def("cache_info", cache_dict, "The kernel cache: folder, entries, bytes.");
  m.def("cache_clear", cache_clear, "Removes all cached kernels; returns how many there were.");
  m.def("cache_warm", cache_warm, py::arg("index"), py::arg("sm"),
        "Puts builtin_kernels()[index] into the cache; False: it is bundled, for another GPU.");
  m.def("compile_to_ptx", compile_to_ptx, py::arg("source"), py::arg("name") = "kernel.cu",
        py::arg("options") = std::vector<std::string>(), py::kw_only(),
        py::arg("include_folders") = py::none(), "PTX and log of a source.");
  py::class_<RawModule>(m, "RawModule",
                        "CUDA C source with several kernels, C++ templates and global variables.")
      .def(py::init<const std::string&, const std::optional<std::vector<std::string>>&,
                    std::vector<std::string>, const Folders&>(),
           py::arg("source"), py::arg("options") = py::none(),
           py::arg("name_expressions") = std::vector<std::string>(), py::kw_only(),
           py::arg("include_folders") = py::none(),
           "Compiles at once. name_expressions lists what cannot be found by its plain name: "
           "template "
           "instantiations ('scale<float>') and variables in namespaces ('&ns::table'). "
           "include_folders: as for jit.")
      .def("get_function", &RawModule::get_function, py::arg("name"), py::arg("block_size") = 256,
           py::kw_only(), py::arg("reference") = py::none(), "A kernel as a JITKernel.")
      .def("get_global", &RawModule::get_global, py::arg("name"), py::arg("dtype") = "uint8",
           "A __device__ or __constant__ variable as an array.")
      .def("set_global", &RawModule::set_global, py::arg("name"), py::arg("value"),
           "Writes a __device__ or __constant__ variable.")
      .def_property_readonly(
          "source", [](const RawModule& r) { return r.program().request().source; },
          "The CUDA C source.")
      .def_property_readonly(
          "ptx", [](const RawModule& r) { return r.program().ptx(); },
          "PTX of the source, compiled on demand.")
      .def_property_readonly(
          "log", [](const RawModule& r) { return r.program().log(); }, "The compiler's log.");
}

}  // namespace gpk::bind

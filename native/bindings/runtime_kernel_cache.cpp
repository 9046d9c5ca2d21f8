// Compiled kernels in memory and on disk.
#include <cstdlib>
#include <filesystem>

#include "bindings/runtime_bind.h"
#include "core/private_folder.h"
#include "runtime/dispatch/kernel_cache.h"
#include "runtime/dispatch/kernel_cache_disk.h"

namespace gpk::bind {
namespace {

using runtime::ArchFingerprint;
using runtime::CacheConfig;
using runtime::CachedKernel;
using runtime::CacheStats;
using runtime::CompileOptions;
using runtime::KernelCache;
using runtime::PersistentCache;
using runtime::PersistentCacheConfig;
using runtime::PersistentCacheEntry;
using runtime::PersistentCacheStats;

struct KernelCacheObject {
  explicit KernelCacheObject(CacheConfig config) : cache(clock, config) {}
  runtime::SteadyClock clock;
  KernelCache cache;
};

struct PersistentCacheObject {
  PersistentCacheObject(PersistentCacheConfig config, ArchFingerprint arch)
      : folder(config.cache_dir.string()), cache(clock, folder, std::move(config), arch) {}
  runtime::WallClock clock;
  PrivateFolder folder;
  PersistentCache cache;
};

std::filesystem::path default_kernel_folder() {
  const char* home = std::getenv("HOME");
  if (home == nullptr) home = std::getenv("USERPROFILE");
  return std::filesystem::path(home == nullptr ? "." : home) / ".pygpukit" / "cache";
}

void bind_compile_options(py::module_& m) {
  using O = CompileOptions;
  const auto by_reference = py::return_value_policy::reference_internal;
  py::class_<O>(m, "CompileOptions", "What a kernel is compiled with; part of its key.")
      .def(py::init([](std::string arch) {
             O options;
             options.compute_capability = std::move(arch);
             return options;
           }),
           py::arg("compute_capability") = "sm_75")
      .def("flag", &O::flag, py::arg("text"), by_reference, "Adds a flag.")
      .def("define", &O::define, py::arg("name"), py::arg("value") = "", by_reference,
           "Adds a macro.")
      .def("include", &O::include, py::arg("path"), by_reference, "Adds an include folder.")
      .def_readonly("compute_capability", &O::compute_capability, "\"sm_90\".")
      .def_readonly("flags", &O::flags, "In the order given.")
      .def_readonly("defines", &O::defines, "NAME or NAME=VALUE.")
      .def_readonly("includes", &O::includes, "In the order given.");
}

void bind_cache_values(py::module_& m) {
  using C = CacheConfig;
  py::class_<C>(m, "CacheConfig", "Limits of a KernelCache.")
      .def(py::init([](std::size_t entries, std::size_t size, bool evict, double ttl) {
             C config;
             config.max_entries = entries;
             config.max_ptx_size = size;
             config.enable_eviction = evict;
             config.ttl_seconds = ttl;
             return config;
           }),
           py::arg("max_entries") = 1024, py::arg("max_ptx_size") = std::size_t{256} << 20,
           py::arg("enable_eviction") = true, py::arg("ttl_seconds") = 0.0)
      .def_readonly("max_entries", &C::max_entries, "Kernels.")
      .def_readonly("max_ptx_size", &C::max_ptx_size, "Bytes.")
      .def_readonly("enable_eviction", &C::enable_eviction, "Least recently used first.")
      .def_readonly("ttl_seconds", &C::ttl_seconds, "0: no expiry.");
  using K = CachedKernel;
  py::class_<K>(m, "CachedKernel", "A kernel of the cache.")
      .def_readonly("key", &K::key, "Its key.")
      .def_readonly("name", &K::name, "Its name.")
      .def_property_readonly(
          "ptx", [](const K& k) { return k.ptx ? *k.ptx : std::string(); }, "Its PTX.")
      .def_readonly("options", &K::options, "What it was compiled with.")
      .def_readonly("module_handle", &K::module_handle, "0: not loaded.")
      .def_readonly("function_handle", &K::function_handle, "0: not loaded.")
      .def_readonly("access_count", &K::access_count, "Uses.")
      .def_property_readonly("is_loaded", &K::is_loaded, "It has handles.");
  using S = CacheStats;
  py::class_<S>(m, "CacheStats", "Figures of a KernelCache.")
      .def_readonly("hits", &S::hits, "Look-ups that found a kernel.")
      .def_readonly("misses", &S::misses, "Look-ups that did not.")
      .def_readonly("entries", &S::entries, "Kernels.")
      .def_readonly("ptx_size", &S::ptx_size, "Bytes.")
      .def_readonly("evictions", &S::evictions, "For room.")
      .def_readonly("ttl_evictions", &S::ttl_evictions, "By age.")
      .def_readonly("loaded_count", &S::loaded_count, "Kernels with handles.")
      .def("hit_rate", &S::hit_rate, "0 before the first look-up.");
}

void bind_memory_cache(py::module_& m) {
  using C = KernelCacheObject;
  const auto key = py::arg("key");
  const auto options = py::arg_v("options", CompileOptions(), "...");
  py::class_<C>(m, "KernelCache", "Compiled kernels by key, least recently used first out.")
      .def(py::init([](const std::optional<CacheConfig>& config) {
             return std::make_unique<C>(config.value_or(CacheConfig()));
           }),
           py::arg("config") = py::none())
      .def_static("compute_key", &KernelCache::compute_key, py::arg("source"), options,
                  "The same on every machine.")
      .def_static("hash_source", &KernelCache::hash_source, py::arg("source"),
                  "The same on every machine.")
      .def(
          "get", [](C& c, std::uint64_t k) { return c.cache.get(k); }, key, "A kernel, or None.")
      .def(
          "get_by_name", [](C& c, const std::string& name) { return c.cache.get_by_name(name); },
          py::arg("name"), "The one inserted last, or None.")
      .def(
          "insert",
          [](C& c, const std::string& source, const std::string& name, std::string ptx,
             const CompileOptions& o) { return c.cache.insert(source, name, std::move(ptx), o); },
          py::arg("source"), py::arg("name"), py::arg("ptx"), options, "Adds a kernel; its key.")
      .def(
          "set_handles",
          [](C& c, std::uint64_t k, std::uint64_t module, std::uint64_t function) {
            return c.cache.set_handles(k, module, function);
          },
          key, py::arg("module_handle"), py::arg("function_handle"), "False when unknown.")
      .def(
          "remove", [](C& c, std::uint64_t k) { return c.cache.remove(k); }, key,
          "False when unknown.")
      .def(
          "contains", [](C& c, std::uint64_t k) { return c.cache.contains(k); }, key,
          "True when it is there and not expired.")
      .def(
          "kernel_names", [](C& c) { return c.cache.kernel_names(); }, "Sorted, each once.")
      .def(
          "clear_expired", [](C& c) { return c.cache.clear_expired(); }, "How many went.")
      .def(
          "len", [](C& c) { return c.cache.len(); }, "Kernels.")
      .def("__len__", [](C& c) { return c.cache.len(); })
      .def(
          "is_empty", [](C& c) { return c.cache.is_empty(); }, "True without kernels.")
      .def(
          "clear", [](C& c) { c.cache.clear(); }, "Removes the kernels; counters stay.")
      .def(
          "stats", [](C& c) { return c.cache.stats(); }, "The figures now.")
      .def_property_readonly("config", [](C& c) { return c.cache.config(); }, "The limits.");
}

void bind_disk_values(py::module_& m) {
  using A = ArchFingerprint;
  py::class_<A>(m, "ArchFingerprint", "What compiled code depends on.")
      .def(py::init([](int sm, int sm_minor, int driver, int driver_minor, int compiler,
                       int compiler_minor) {
             return A{sm, sm_minor, driver, driver_minor, compiler, compiler_minor};
           }),
           py::arg("sm_major"), py::arg("sm_minor"), py::arg("driver_major") = 0,
           py::arg("driver_minor") = 0, py::arg("compiler_major") = 0,
           py::arg("compiler_minor") = 0)
      .def_readonly("sm_major", &A::sm_major, "9 of SM 90.")
      .def_readonly("sm_minor", &A::sm_minor, "0 of SM 90.")
      .def_readonly("driver_major", &A::driver_major, "Of its CUDA version.")
      .def_readonly("driver_minor", &A::driver_minor, "Of its CUDA version.")
      .def_readonly("compiler_major", &A::compiler_major, "Of NVRTC.")
      .def_readonly("compiler_minor", &A::compiler_minor, "Of NVRTC.")
      .def("is_compatible", &A::is_compatible, py::arg("other"), "The same SM and driver.");
  using C = PersistentCacheConfig;
  py::class_<C>(m, "PersistentCacheConfig", "Folder and limits of a PersistentCache.")
      .def(py::init([](const std::optional<std::string>& folder, std::size_t size,
                       std::size_t entries, bool cleanup, double ttl) {
             C config;
             config.cache_dir = folder ? std::filesystem::path(*folder) : default_kernel_folder();
             config.max_size = size;
             config.max_entries = entries;
             config.auto_cleanup = cleanup;
             config.ttl_seconds = ttl;
             return config;
           }),
           py::arg("cache_dir") = py::none(), py::arg("max_size") = C().max_size,
           py::arg("max_entries") = 1000, py::arg("auto_cleanup") = true,
           py::arg("ttl_seconds") = 0.0)
      .def_property_readonly(
          "cache_dir", [](const C& c) { return c.cache_dir.string(); }, "The folder.")
      .def_readonly("max_size", &C::max_size, "Bytes of all files.")
      .def_readonly("max_entries", &C::max_entries, "Files.")
      .def_readonly("auto_cleanup", &C::auto_cleanup, "Least recently used first out.")
      .def_readonly("ttl_seconds", &C::ttl_seconds, "0: no expiry.");
  using E = PersistentCacheEntry;
  py::class_<E>(m, "PersistentCacheEntry", "A file of the cache.")
      .def_readonly("key", &E::key, "Its key.")
      .def_readonly("name", &E::name, "Of the kernel.")
      .def_readonly("size", &E::size_bytes, "Bytes.")
      .def_readonly("checksum", &E::checksum, "Of the bytes.")
      .def_property_readonly(
          "created_at", [](const E& e) { return seconds(e.created_ns); }, "Seconds since 1970.")
      .def_property_readonly(
          "last_access", [](const E& e) { return seconds(e.last_access_ns); },
          "Seconds since 1970.")
      .def_readonly("access_count", &E::access_count, "Uses.");
  using S = PersistentCacheStats;
  py::class_<S>(m, "PersistentCacheStats", "Figures of a PersistentCache.")
      .def_readonly("hits", &S::hits, "Look-ups that found bytes.")
      .def_readonly("misses", &S::misses, "Look-ups that did not.")
      .def_readonly("entries", &S::entries, "Files.")
      .def_readonly("total_size", &S::total_size, "Bytes.")
      .def_readonly("evictions", &S::evictions, "For room.")
      .def_readonly("ttl_evictions", &S::ttl_evictions, "By age.")
      .def_readonly("corrupt", &S::corrupt, "Files that were not what the index says.")
      .def_readonly("write_failures", &S::write_failures, "What could not be written.")
      .def("hit_rate", &S::hit_rate, "0 before the first look-up.");
}

void bind_disk_cache(py::module_& m) {
  using C = PersistentCacheObject;
  const auto key = py::arg("key");
  py::class_<C>(m, "PersistentCache", "Compiled kernels in a folder: a file each and an index.")
      .def(py::init<PersistentCacheConfig, ArchFingerprint>(), py::arg("config"), py::arg("arch"),
           Unlocked())
      .def(
          "get",
          [](C& c, std::uint64_t k) -> std::optional<py::bytes> {
            std::optional<std::string> found;
            {
              const WithoutGil released;
              found = c.cache.get(k);
            }
            if (!found) return std::nullopt;
            return py::bytes(*found);
          },
          key, "The stored bytes, or None.")
      .def(
          "insert",
          [](C& c, std::uint64_t k, const std::string& name, const std::string& bytes) {
            return c.cache.insert(k, name, bytes);
          },
          key, py::arg("name"), py::arg("data"), Unlocked(), "False when it was not stored.")
      .def(
          "remove", [](C& c, std::uint64_t k) { return c.cache.remove(k); }, key, Unlocked(),
          "False when unknown.")
      .def(
          "contains", [](C& c, std::uint64_t k) { return c.cache.contains(k); }, key, Unlocked(),
          "True when it is there and not expired.")
      .def(
          "get_entry", [](C& c, std::uint64_t k) { return c.cache.get_entry(k); }, key, Unlocked(),
          "What the index says, or None.")
      .def(
          "entries", [](C& c) { return c.cache.entries(); }, Unlocked(), "By key.")
      .def(
          "cleanup", [](C& c) { return c.cache.cleanup(); }, Unlocked(),
          "Drops what is expired or over the limits; how many.")
      .def(
          "clear", [](C& c) { c.cache.clear(); }, Unlocked(), "Drops everything.")
      .def(
          "len", [](C& c) { return c.cache.len(); }, Unlocked(), "Files.")
      .def(
          "__len__", [](C& c) { return c.cache.len(); }, Unlocked())
      .def(
          "is_empty", [](C& c) { return c.cache.len() == 0; }, Unlocked(), "True without files.")
      .def(
          "stats", [](C& c) { return c.cache.stats(); }, Unlocked(), "The figures now.")
      .def_property_readonly(
          "config", [](C& c) { return c.cache.config(); }, "Folder and limits.")
      .def_property_readonly(
          "arch", [](C& c) { return c.cache.arch(); }, "What the code was compiled for.");
}

}  // namespace

void bind_runtime_kernel_cache(py::module_& m) {
  bind_compile_options(m);
  bind_cache_values(m);
  bind_memory_cache(m);
  bind_disk_values(m);
  bind_disk_cache(m);
}

}  // namespace gpk::bind

#include "jit/builtin.h"

#include <array>
#include <functional>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/driver.h"
#include "core/log.h"
#include "jit/bundle.h"
#include "jit/cache_entry.h"
#include "jit/digest.h"
#include "jit/disk_cache.h"
#include "jit/nvrtc.h"
#include "jit/sources.h"

#ifndef GPK_VERSION
#define GPK_VERSION "0.0.0"
#endif

namespace gpk::jit {
namespace {

// Everything the machine code of a bundled kernel depends on.
std::string bundled_key(const KernelSpec& spec, int sm) {
  FieldDigest key;
  key.field("schema", cat(kCacheSchema)).field("package", GPK_VERSION);
  key.field("bundle", bundle_info().digest).field("driver", cat(driver_info().version));
  key.field("sm", cat(sm)).field("file", spec.file).field("expression", spec.expression);
  return key.hex();
}

// Two threads that need the same kernel assemble it once: the second finds it in the cache. Kernels
// whose keys collide on a mutex wait for each other, which only costs time.
std::mutex& mutex_of(const std::string& key) {
  static auto* mutexes = new std::array<std::mutex, 64>;
  return (*mutexes)[std::hash<std::string>{}(key) % mutexes->size()];
}

CompiledImage bundled_image(Context& context, const KernelSpec& spec) {
  const int sm = context.traits().sm;
  DiskCache* cache = driver_is_simulated() ? nullptr : disk_cache();  // there it is the PTX itself
  const std::string key = bundled_key(spec, sm);
  const std::lock_guard lock(mutex_of(key));
  if (cache != nullptr)
    if (auto hit = cache->load(key)) return std::move(*hit);
  const auto entry = find_in_bundle(spec.file, spec.expression, sm);
  CompiledImage image;
  image.bytes = Module::assemble(context, entry->ptx, spec.file);
  image.lowered_names = {{spec.expression, entry->symbol}};
  if (cache != nullptr) cache->store(key, image);
  return image;
}

CompiledImage builtin_image(Context& context, const KernelSpec& spec) {
  const int sm = context.traits().sm;
  const bool bundled = in_bundle(spec.file, spec.expression, sm);
  if (bundled) {
    try {
      return bundled_image(context, spec);
    } catch (const NvrtcError& error) {  // PTX that this driver rejects
      if (error.code() != NvrtcCode::kPtxLoadFailed || !jit_available()) throw;
      log_message(LogLevel::kWarning, cat(error.what(), "; compiling it instead"));
    }
  }
  try {
    return compile_cached(compile_request(spec, sm));
  } catch (const NvrtcError& error) {
    if (error.code() != NvrtcCode::kNotLoaded || bundled) throw;
    throw NvrtcError(
        cat(spec.op, ": the kernel ", spec.expression, " is not in this build's PTX bundle (",
            bundle_info().num_entries, " kernels). ", not_available_message(find_nvrtc())),
        NvrtcCode::kNotLoaded);
  }
}

}  // namespace

CompileRequest compile_request(const KernelSpec& spec, int sm) {
  CompileRequest request;
  request.name = cat(spec.op, ".cu");
  request.source = cat("#include \"", spec.file, "\"\n");
  for (const EmbeddedSource* source : embedded_closure(spec.file))
    request.headers.push_back({std::string(source->name), std::string(source->text)});
  request.name_expressions = {spec.expression};
  request.sm = sm;
  return request;
}

bool jit_available() {
  static const bool available =
      predict_nvrtc_version().has_value() || find_nvrtc().nvrtc != nullptr;
  return available;
}

bool is_loadable(const KernelSpec& spec, int sm) {
  return jit_available() || in_bundle(spec.file, spec.expression, sm);
}

void prepare_builtin(Context& context, const KernelSpec& spec) {
  if (disk_cache() == nullptr || !in_bundle(spec.file, spec.expression, context.traits().sm))
    return;
  bundled_image(context, spec);
}

std::shared_ptr<Kernel> load_builtin(Context& context, const KernelSpec& spec) {
  const CompiledImage image = builtin_image(context, spec);
  const auto module = Module::load(context, image.bytes, spec.file);
  return module->kernel(image.symbol(spec.expression), spec.op);
}

}  // namespace gpk::jit

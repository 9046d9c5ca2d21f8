#include "jit/builtin.h"

#include "core/context.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "jit/bundle.h"
#include "jit/nvrtc.h"
#include "jit/sources.h"

namespace gpk::jit {
namespace {

std::shared_ptr<Kernel> load_from_bundle(Context& context, const KernelSpec& spec) {
  const auto entry = find_in_bundle(spec.file, spec.expression, context.traits().sm);
  if (!entry)
    throw NvrtcError(
        cat(spec.op, ": the kernel ", spec.expression, " is not in this build's PTX bundle (",
            bundle_info().num_entries, " kernels). ", not_available_message(find_nvrtc())),
        NvrtcCode::kNotLoaded);
  const auto module = Module::load(context, entry->ptx, spec.file);
  return module->kernel(entry->symbol, spec.op);
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

std::shared_ptr<Kernel> load_builtin(Context& context, const KernelSpec& spec) {
  try {
    const CompiledImage image = compile_cached(compile_request(spec, context.traits().sm));
    const auto module = Module::load(context, image.bytes, spec.file);
    return module->kernel(image.symbol(spec.expression), spec.op);
  } catch (const NvrtcError& error) {
    if (error.code() == NvrtcCode::kNotLoaded) return load_from_bundle(context, spec);
    // An NVRTC newer than the driver writes code the driver cannot load; the bundle is older.
    if (error.code() != NvrtcCode::kPtxLoadFailed || bundle_info().num_entries == 0) throw;
    log_message(LogLevel::kInfo, cat(error.what(), "; taking the bundled PTX"));
    return load_from_bundle(context, spec);
  }
}

}  // namespace gpk::jit

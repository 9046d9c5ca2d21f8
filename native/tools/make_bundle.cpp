// Build step: compiles every built-in kernel to PTX with NVRTC and writes the packed bundle.
//   gpk_make_bundle OUT [--require] [--package-root DIR]...
// Without NVRTC an empty file is written (exit 0), or with --require it is an error.
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "jit/bundle.h"
#include "jit/compiler.h"
#include "jit/nvrtc.h"
#include "ops/op.h"

namespace {

using gpk::jit::BundleEntry;

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw gpk::Error(gpk::cat("cannot write ", path));
}

BundleEntry make_entry(const gpk::jit::KernelSpec& spec, int sm, bool exact) {
  gpk::jit::CompileRequest request = gpk::jit::compile_request(spec, sm);
  request.want_ptx = true;
  gpk::jit::CompiledImage image = gpk::jit::compile(request);
  const std::string symbol = image.symbol(spec.expression);
  return {spec.file, spec.expression, symbol,
          sm,        exact,           gpk::jit::lower_ptx_version(std::move(image.bytes))};
}

std::string make_bundle(const gpk::jit::Nvrtc& nvrtc) {
  std::vector<BundleEntry> entries;
  std::set<std::string> seen;
  for (const auto& spec : gpk::ops::all_kernel_specs()) {
    if (!spec.bundled) continue;
    if (!seen.insert(gpk::cat(spec.file, '\n', spec.expression)).second) continue;
    if (spec.exact_sms.empty()) {
      entries.push_back(make_entry(spec, 80, false));
    } else {
      for (const int sm : spec.exact_sms) entries.push_back(make_entry(spec, sm, true));
    }
  }
  std::string packed = gpk::jit::pack_bundle(entries, nvrtc.major, nvrtc.minor);
  std::printf("PTX bundle: %zu kernels, %zu bytes, NVRTC %d.%d\n", entries.size(), packed.size(),
              nvrtc.major, nvrtc.minor);
  return packed;
}

}  // namespace

int main(int argc, char** argv) {
  std::string out;
  bool require = false;
  std::vector<std::string> roots;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--require") {
      require = true;
    } else if (argument == "--package-root" && i + 1 < argc) {
      roots.emplace_back(argv[++i]);
    } else {
      out = argument;
    }
  }
  try {
    gpk::jit::set_package_roots([roots] { return roots; });
    const auto& search = gpk::jit::find_nvrtc();
    if (search.nvrtc == nullptr) {
      if (require) gpk::jit::nvrtc();  // throws, saying what was tried
      std::printf("PTX bundle: NVRTC not found, the bundle stays empty\n");
      write_file(out, "");
      return 0;
    }
    write_file(out, make_bundle(*search.nvrtc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpk_make_bundle: %s\n", error.what());
    return 1;
  }
  return 0;
}

// Build step: compiles every built-in kernel to PTX with NVRTC and writes the packed bundle.
//   gpk_make_bundle OUT [--require] [--every N] [--package-root DIR]...
// Without NVRTC an empty file is written (exit 0), or with --require it is an error. --every: a
// sample for tests, of each file and architecture every Nth kernel, the first one included.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "jit/bundle.h"
#include "jit/compiler.h"
#include "jit/nvrtc.h"
#include "jit/ptx_entry.h"
#include "ops/op.h"

namespace {

using gpk::jit::BundleEntry;

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw gpk::Error(gpk::cat("cannot write ", path));
}

// Kernels of one file for one architecture; compiled together, since most of the compile time goes
// into what they share.
struct Batch {
  std::vector<gpk::jit::KernelSpec> specs;
  int sm;
  bool exact;
};
constexpr std::size_t kBatchSize = 24;

std::vector<Batch> make_batches(std::size_t every) {
  std::map<std::tuple<std::string, int, bool>, std::vector<gpk::jit::KernelSpec>> groups;
  for (const auto& [spec, sm] : gpk::ops::bundled_kernels())
    groups[{spec.file, sm, !spec.exact_sms.empty()}].push_back(spec);
  std::vector<Batch> batches;
  for (auto& [key, specs] : groups) {
    std::size_t index = 0;
    std::erase_if(specs, [&](const auto&) { return index++ % every != 0; });
    for (std::size_t i = 0; i < specs.size(); i += kBatchSize) {
      const auto first = specs.begin() + static_cast<std::ptrdiff_t>(i);
      const std::size_t count = std::min(kBatchSize, specs.size() - i);
      batches.push_back({{first, first + static_cast<std::ptrdiff_t>(count)},
                         std::get<1>(key),
                         std::get<2>(key)});
    }
  }
  return batches;
}

std::vector<BundleEntry> compile_batch(const Batch& batch) {
  gpk::jit::CompileRequest request = gpk::jit::compile_request(batch.specs.front(), batch.sm);
  request.want_ptx = true;
  // Not the "a" target, which runs on one architecture only.
  if (!batch.exact) request.options = {gpk::cat("--gpu-architecture=compute_", batch.sm)};
  request.name_expressions.clear();
  for (const auto& spec : batch.specs) request.name_expressions.push_back(spec.expression);
  const gpk::jit::CompiledImage image = gpk::jit::compile(request);
  std::vector<BundleEntry> entries;
  for (const auto& spec : batch.specs) {
    const std::string symbol = image.symbol(spec.expression);
    entries.push_back({spec.file, spec.expression, symbol, batch.sm, batch.exact,
                       gpk::jit::lower_ptx_version(gpk::jit::keep_entry(image.bytes, symbol))});
  }
  return entries;
}

// Calls work(0) ... work(count - 1) on all cores; the first failure is thrown at the end.
void run_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(std::thread::hardware_concurrency(), 1u); ++i)
    threads.emplace_back(loop);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

std::string make_bundle(const gpk::jit::Nvrtc& nvrtc, std::size_t every) {
  const std::vector<Batch> batches = make_batches(every);
  std::vector<std::vector<BundleEntry>> made(batches.size());
  run_parallel(batches.size(), [&](std::size_t i) { made[i] = compile_batch(batches[i]); });
  std::vector<BundleEntry> entries;
  for (auto& batch : made)
    for (BundleEntry& entry : batch) entries.push_back(std::move(entry));
  std::string packed = gpk::jit::pack_bundle(entries, nvrtc.major, nvrtc.minor);
  std::printf("PTX bundle: %zu kernels, %zu bytes, NVRTC %d.%d\n", entries.size(), packed.size(),
              nvrtc.major, nvrtc.minor);
  return packed;
}

}  // namespace

int main(int argc, char** argv) {
  std::string out;
  bool require = false;
  std::size_t every = 1;
  std::vector<std::string> roots;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--require") {
      require = true;
    } else if (argument == "--every" && i + 1 < argc) {
      every = std::max(1, std::atoi(argv[++i]));
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
      if (require) gpk::jit::nvrtc();  // throws, listing what was tried
      std::printf("PTX bundle: NVRTC not found, the bundle stays empty\n");
      write_file(out, "");
      return 0;
    }
    write_file(out, make_bundle(*search.nvrtc, every));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpk_make_bundle: %s\n", error.what());
    return 1;
  }
  return 0;
}

// Build step: compiles every built-in kernel to PTX with NVRTC and writes the packed bundle.
//   gpk_make_bundle OUT [--require] [--package-root DIR]...
// Without NVRTC an empty file is written (exit 0), or with --require it is an error.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
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

struct Job {
  gpk::jit::KernelSpec spec;
  int sm;
};

std::vector<Job> make_jobs() {
  std::vector<Job> jobs;
  std::set<std::string> seen;
  for (const auto& spec : gpk::ops::all_kernel_specs()) {
    if (!spec.bundled || !seen.insert(gpk::cat(spec.file, '\n', spec.expression)).second) continue;
    if (spec.exact_sms.empty()) jobs.push_back({spec, 80});
    for (const int sm : spec.exact_sms) jobs.push_back({spec, sm});
  }
  return jobs;
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

std::string make_bundle(const gpk::jit::Nvrtc& nvrtc) {
  const std::vector<Job> jobs = make_jobs();
  std::vector<BundleEntry> entries(jobs.size());
  run_parallel(jobs.size(), [&](std::size_t i) {
    entries[i] = make_entry(jobs[i].spec, jobs[i].sm, !jobs[i].spec.exact_sms.empty());
  });
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

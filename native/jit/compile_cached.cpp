#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "base/per_process.h"
#include "base/text.h"
#include "core/compile_scope.h"
#include "core/driver.h"
#include "core/interrupt.h"
#include "jit/compiler.h"
#include "jit/disk_cache.h"
#include "jit/include_scan.h"
#include "jit/nvrtc.h"

namespace gpk::jit {
namespace {

// One compile in flight, shared by the threads that wait for it.
struct Flight {
  std::mutex mutex;
  std::condition_variable landed;
  bool done = false;
  CompiledImage image;
  std::exception_ptr error;
};

struct Flights {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Flight>> by_key;
};

Flights& flights() { return per_process<Flights>(); }

CompiledImage wait_for(Flight& flight) {
  std::unique_lock lock(flight.mutex);
  wait_interruptibly(flight.landed, lock, [&] { return flight.done; });
  if (flight.error) std::rethrow_exception(flight.error);
  return flight.image;
}

void land(Flight& flight, const std::string& key) {
  {
    const std::lock_guard lock(flights().mutex);
    flights().by_key.erase(key);
  }
  const std::lock_guard lock(flight.mutex);
  flight.done = true;
  flight.landed.notify_all();
}

// A compile without a key is not cached.
void run(Flight& flight, const CompileRequest& request, const std::string& key) noexcept {
  const CompileScope compiling;
  try {
    flight.image = compile(request);
    if (DiskCache* cache = disk_cache(); cache != nullptr && !key.empty())
      cache->store(key, flight.image);
  } catch (...) {
    flight.error = std::current_exception();
  }
  land(flight, key);
}

bool land_from_cache(Flight& flight, const std::string& key) {
  DiskCache* cache = key.empty() ? nullptr : disk_cache();
  if (cache == nullptr) return false;
  auto hit = cache->load(key);
  if (!hit) return false;
  flight.image = std::move(*hit);
  land(flight, key);
  return true;
}

// NVRTC cannot be interrupted, so it runs on its own thread: waiters may leave, and the compile
// still ends up in the cache.
void start(const std::shared_ptr<Flight>& flight, const CompileRequest& request,
           const std::string& key) {
  if (land_from_cache(*flight, key)) return;
  if (has_interrupt_hook()) {
    try {
      std::thread([flight, request, key] { run(*flight, request, key); }).detach();
      return;
    } catch (const std::system_error&) {  // no more threads: run it on this one
    }
  }
  run(*flight, request, key);
}

// Precompiled headers and computed includes read files that the key cannot cover; --time writes a
// file, so the compile must run.
bool options_can_be_cached(const CompileRequest& request) {
  static constexpr std::array<std::string_view, 7> kNever{
      "--pch", "-pch", "--create-pch", "--use-pch", "--pch-dir", "--time", "-time"};
  for (const std::string& option : request.options) {
    const std::string_view text = trim(option);
    if (std::any_of(kNever.begin(), kNever.end(),
                    [&](std::string_view prefix) { return text.starts_with(prefix); })) {
      return false;
    }
  }
  return true;
}

bool can_be_cached(const CompileRequest& request, const Nvrtc& nvrtc) {
  return options_can_be_cached(request) && include_closure(request, nvrtc.include_folder).complete;
}

// A cache hit without loading NVRTC: its version is known from file names, and no CUDA header is
// involved. The supported architectures are unknown here; an NVRTC that lacks this one has written
// its entry under another key, so this is a miss.
std::optional<CompiledImage> load_without_nvrtc(const CompileRequest& request) {
  DiskCache* cache = disk_cache();
  if (cache == nullptr || !options_can_be_cached(request)) return std::nullopt;
  const auto version = predict_nvrtc_version();
  if (!version) return std::nullopt;
  const IncludeClosure closure = include_closure(request, "");
  if (!closure.complete || closure.needs_folder) return std::nullopt;
  Nvrtc stand_in;
  stand_in.major = version->major;
  stand_in.minor = version->minor;
  return cache->load(cache_key(request, stand_in));
}

}  // namespace

CompiledImage compile_cached(const CompileRequest& given) {
  CompileRequest request = given;
  if (driver_is_simulated()) request.want_ptx = true;  // part of the key
  if (auto image = load_without_nvrtc(request)) return std::move(*image);
  const Nvrtc& found = nvrtc();
  std::shared_ptr<Flight> flight;
  if (!can_be_cached(request, found)) {
    flight = std::make_shared<Flight>();
    start(flight, request, "");
    return wait_for(*flight);
  }
  const std::string key = cache_key(request, found);
  bool first = false;
  {
    const std::lock_guard lock(flights().mutex);
    std::shared_ptr<Flight>& slot = flights().by_key[key];
    first = slot == nullptr;
    if (first) slot = std::make_shared<Flight>();
    flight = slot;
  }
  if (first) start(flight, request, key);
  return wait_for(*flight);
}

}  // namespace gpk::jit

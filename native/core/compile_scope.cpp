#include "core/compile_scope.h"

#ifndef _WIN32
#include <pthread.h>
#endif

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "core/error.h"

namespace gpk {
namespace {

constexpr std::chrono::seconds kPatience{30};

struct Compiles {
  std::mutex mutex;
  std::condition_variable ended;
  int num_active = 0;
  bool closed = false;
  bool at_exit = false;  // end_compiles() is registered
};

Compiles* g_compiles = nullptr;  // never destroyed

Compiles& compiles() {
  static std::once_flag once;
  std::call_once(once, [] {
    g_compiles = new Compiles;
#ifndef _WIN32
    // The threads that were compiling are not in a forked child.
    pthread_atfork(nullptr, nullptr, [] { g_compiles = new Compiles; });
#endif
  });
  return *g_compiles;
}

}  // namespace

CompileScope::CompileScope() {
  Compiles& all = compiles();
  const std::lock_guard lock(all.mutex);
  if (all.closed) throw Error("jit: no kernel is compiled any more: the process is exiting");
  ++all.num_active;
}

CompileScope::~CompileScope() {
  Compiles& all = compiles();
  const std::lock_guard lock(all.mutex);
  if (--all.num_active == 0) all.ended.notify_all();
  // Not before: what is registered later runs earlier, and a compiler registers its own on loading.
  if (!all.at_exit) all.at_exit = std::atexit(end_compiles) == 0;
}

void end_compiles() noexcept {
  Compiles& all = compiles();
  std::unique_lock lock(all.mutex);
  all.closed = true;
  all.ended.wait_for(lock, kPatience, [&] { return all.num_active == 0; });
}

}  // namespace gpk

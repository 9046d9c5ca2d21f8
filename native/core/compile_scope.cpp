#include "core/compile_scope.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace gpk::inline core {
namespace {

std::atomic<int> g_inside{0};
std::atomic<bool> g_closed{false};
std::atomic<bool> g_lost{false};
std::atomic<bool> g_at_exit{false};

#ifndef _WIN32
[[maybe_unused]] const int g_fork_handler = pthread_atfork(nullptr, nullptr, [] {
  if (g_inside.exchange(0) > 0) g_lost = true;
});
#endif

}  // namespace

CompileScope::CompileScope() noexcept {
  ++g_inside;
  if (!g_closed) return;
  --g_inside;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

CompileScope::~CompileScope() {
  // Not earlier: atexit handlers run in reverse order, and a compiler registers its own on load.
  if (!g_at_exit.exchange(true)) std::atexit(end_compiles);
  --g_inside;
}

void end_compiles() noexcept {
  g_closed = true;
  while (g_inside > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool compiler_lost_in_fork() noexcept { return g_lost; }

}  // namespace gpk::inline core

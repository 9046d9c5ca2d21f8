#include "jit/nvrtc_visit.h"

#include <atomic>
#include <chrono>
#include <thread>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace gpk::jit {
namespace {

std::atomic<int> g_inside{0};
std::atomic<bool> g_closed{false};
std::atomic<bool> g_lost{false};

#ifndef _WIN32
[[maybe_unused]] const int g_fork_handler = pthread_atfork(nullptr, nullptr, [] {
  if (g_inside.exchange(0) > 0) g_lost = true;
});
#endif

}  // namespace

NvrtcVisit::NvrtcVisit() noexcept {
  ++g_inside;
  if (!g_closed) return;
  --g_inside;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

NvrtcVisit::~NvrtcVisit() { --g_inside; }

void close_nvrtc() noexcept {
  g_closed = true;
  while (g_inside > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool nvrtc_lost_in_fork() noexcept { return g_lost; }

}  // namespace gpk::jit

// NVTX ranges, so that profilers show ops by name. Free (one load) when no tool listens.
//
// Tools listen by setting NVTX_INJECTION64_PATH to a library of theirs, which on initialisation
// fills a table of function pointers. We speak that protocol ourselves; no NVTX header is needed.
#pragma once

#include <atomic>

namespace gpk::inline core::nvtx {

namespace detail {
using PushFunction = int (*)(const char*);
using PopFunction = int (*)();
extern std::atomic<PushFunction> g_push;  // nullptr: nobody listens
extern std::atomic<PopFunction> g_pop;
}  // namespace detail

// Loads the tool's library if there is one. Called once when a context is made.
void initialize();

// True when a tool listens.
inline bool active() noexcept { return detail::g_push.load(std::memory_order_relaxed) != nullptr; }

class Range {
 public:
  explicit Range(const char* name) noexcept {
    if (auto push = detail::g_push.load(std::memory_order_relaxed); push != nullptr) [[unlikely]] {
      push(name);
      pushed_ = true;
    }
  }
  ~Range() {
    if (pushed_) [[unlikely]]
      if (auto pop = detail::g_pop.load(std::memory_order_relaxed); pop != nullptr) pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace gpk::inline core::nvtx

// NVTX ranges, so that profilers show ops by name. One load when no tool is attached.
//
// A tool sets NVTX_INJECTION64_PATH to its library, which fills a table of function pointers on
// initialisation. We implement that protocol directly; no NVTX header is needed.
#pragma once

#include <atomic>

namespace gpk::inline core::nvtx {

namespace detail {
using PushFunction = int (*)(const char*);
using PopFunction = int (*)();
extern std::atomic<PushFunction> g_push;  // nullptr: no tool attached
extern std::atomic<PopFunction> g_pop;
}  // namespace detail

// Loads the tool's library if there is one. Called once when a context is created.
void initialize();

// True when a tool is attached.
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

// What Python code has made while it was recorded, and whether it still lives: reports of leaks.
// What the library makes for itself (pool, caches, streams of copies) never comes here.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace gpk::bind {

struct MadeResource {
  const char* kind;  // "array", "pinned memory", "stream", ...
  std::size_t bytes;
  std::weak_ptr<const void> object;
};

namespace detail {
inline std::atomic<bool> g_record_made{false};
void add_made(const char* kind, std::size_t bytes, std::weak_ptr<const void> object);
}  // namespace detail

// Starts anew, or ends and forgets. One recording at a time.
void record_made(bool on);
// What was made since and lives.
std::vector<MadeResource> living_made();

template <class T>
void note_made(const char* kind, const std::shared_ptr<T>& object, std::size_t bytes = 0) {
  if (detail::g_record_made.load(std::memory_order_relaxed)) [[unlikely]]
    detail::add_made(kind, bytes, std::weak_ptr<const void>(object));
}

}  // namespace gpk::bind

// Tables that a forked child must not share with its parent.
#pragma once

#include <atomic>
#include <mutex>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace gpk::inline base {

// The process-wide T. Never destroyed, since threads outlive main(). A forked child gets a new one:
// locks of the old one may be held by threads that do not exist in the child.
template <class T>
T& per_process() {
  static std::atomic<T*> instance{nullptr};
  static std::once_flag once;
  std::call_once(once, [] {
    instance = new T;
#ifndef _WIN32
    pthread_atfork(nullptr, nullptr, [] { instance = new T; });
#endif
  });
  return *instance;
}

}  // namespace gpk::inline base

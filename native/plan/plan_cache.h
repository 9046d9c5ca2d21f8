// Caches decisions, so that the launch path plans nothing.
#pragma once

#include <atomic>
#include <cstring>

#include "plan/thread_cache.h"

namespace gpk::plan {

// Everything a decision depends on, as plain words.
template <int kMaxWords>
class PlanKey {
 public:
  void add(std::uint64_t word) noexcept { words_[count_++] = word; }  // kMaxWords at most

  [[nodiscard]] unsigned hash() const noexcept {
    std::uint64_t mixed = 0;
    for (int i = 0; i < count_; ++i) mixed = mix(mixed, words_[i]);
    return static_cast<unsigned>(mixed >> 40);
  }

  friend bool operator==(const PlanKey& x, const PlanKey& y) noexcept {
    return x.count_ == y.count_ &&
           std::memcmp(x.words_, y.words_,
                       static_cast<std::size_t>(x.count_) * sizeof(std::uint64_t)) == 0;
  }

 private:
  int count_ = 0;
  std::uint64_t words_[kMaxWords];  // NOLINT: only the first count_ are read
};

// The decisions of one family, for the calling thread. There is one cache per `Value` type.
template <class Key, class Value>
class PlanCache {
 public:
  // nullptr: not cached, stale, or bypassed.
  [[nodiscard]] static std::shared_ptr<const Value> find(const Key& key) noexcept {
    Table& table = thread_table();
    if (table.generation != generation_.load(std::memory_order_relaxed)) [[unlikely]]
      return nullptr;
    const std::shared_ptr<const Value>* found = table.decisions.find(key);
    return found != nullptr ? *found : nullptr;
  }

  // make() decides; the result is cached unless the cache is bypassed.
  template <class Make>
  static std::shared_ptr<const Value> make(const Key& key, const Make& make) {
    const std::uint64_t now = generation_.load(std::memory_order_relaxed);
    std::shared_ptr<const Value> value = make();
    Table& table = thread_table();
    if (table.bypasses > 0) return value;
    if (table.generation != now) {
      table.decisions.clear();
      table.generation = now;
    }
    return table.decisions.put(key, std::move(value));
  }

  // Invalidates all decisions on all threads, say after a measurement.
  static void forget() noexcept { generation_.fetch_add(1, std::memory_order_relaxed); }

  // While alive, the calling thread always misses: overrides (explain.h, candidates.h) are
  // consulted on the slow path only.
  class Bypass {
   public:
    Bypass() {
      ++thread_table().bypasses;
      thread_table().generation = 0;
    }
    ~Bypass() { --thread_table().bypasses; }
    Bypass(const Bypass&) = delete;
    Bypass& operator=(const Bypass&) = delete;
  };

 private:
  struct Table {
    std::uint64_t generation = 0;  // of all entries; 0 is never current
    int bypasses = 0;
    ThreadCache<Key, std::shared_ptr<const Value>> decisions;
  };
  static Table& thread_table() {
    thread_local Table table;
    return table;
  }
  inline static std::atomic<std::uint64_t> generation_{1};
};

}  // namespace gpk::plan

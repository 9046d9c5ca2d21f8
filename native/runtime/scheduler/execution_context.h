// Several models on one GPU: each has a context with a stream id, a memory budget and sessions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpk::runtime {

enum class ExecutionState { kIdle, kRunning, kPaused };

[[nodiscard]] const char* to_string(ExecutionState state) noexcept;  // "IDLE", ...

struct ExecutionContextStats {
  std::string llm_id;
  ExecutionState state;
  std::uint32_t stream_id;
  std::size_t max_vram_bytes;  // 0: only the budget of all
  std::size_t used_vram_bytes;
  std::size_t available_vram_bytes;
  std::size_t buffer_count;
};

struct ExecutionStats {
  bool initialized;
  int device_id;
  std::size_t total_vram_budget_bytes;
  std::size_t device_total_memory_bytes;
  std::size_t used_vram_bytes;
  std::size_t available_vram_bytes;
  std::size_t context_count;
  std::size_t stream_pool_size;
};

// Thread safe. A context's buffers never pass its own budget nor, all together, the total one.
// Stream ids come from a pool of 0 .. 7, the highest first, then 8, 9, ...; ids of destroyed
// contexts are used again, the latest first. kValue when a context or a buffer is not known.
class ExecutionContexts {
 public:
  // Memory 0: 8 GiB. Budget 0 or above the memory: the memory. Later calls do nothing.
  void initialize(int device_id = 0, std::size_t device_total_memory_bytes = 0,
                  std::size_t total_vram_budget_bytes = 0);

  // Initialises where that was not done. kState when the id exists; kValue when it is empty.
  ExecutionContextStats create(std::string_view llm_id, std::size_t max_vram_bytes = 0,
                               int device_id = 0);
  // Its buffers no longer count, its stream id goes back. False when there is none.
  bool destroy(std::string_view llm_id);
  [[nodiscard]] std::optional<ExecutionContextStats> get(std::string_view llm_id) const;
  [[nodiscard]] std::vector<std::string> ids() const;  // oldest first

  // False when the buffer would pass a budget. kValue when the buffer id is in use.
  bool track_allocation(std::string_view llm_id, std::uint64_t buffer_id, std::size_t bytes);
  // Returns the size.
  std::size_t track_deallocation(std::string_view llm_id, std::uint64_t buffer_id);

  // One session of all: every context there is becomes running; at the end of the outermost
  // session every context becomes idle. kState when there is none to end.
  void begin_session();
  void end_session();
  [[nodiscard]] bool is_session_active() const;
  // One context alone.
  void begin_session(std::string_view llm_id);
  void end_session(std::string_view llm_id);
  [[nodiscard]] bool is_session_active(std::string_view llm_id) const;
  // Running <-> paused; false in any other state.
  bool pause(std::string_view llm_id);
  bool resume(std::string_view llm_id);

  [[nodiscard]] ExecutionStats stats() const;
  // As new.
  void reset();

 private:
  struct Context {
    std::uint32_t stream_id = 0;
    std::size_t max_vram_bytes = 0;
    std::size_t used_vram_bytes = 0;
    ExecutionState state = ExecutionState::kIdle;
    std::map<std::uint64_t, std::size_t> buffers;
  };
  using Contexts = std::map<std::string, Context, std::less<>>;

  void initialize_locked(int device_id, std::size_t memory_bytes, std::size_t budget_bytes);
  Context& at(std::string_view llm_id);
  [[nodiscard]] const Context& at(std::string_view llm_id) const;
  [[nodiscard]] std::size_t left_bytes(const Context& context) const noexcept;
  [[nodiscard]] ExecutionContextStats stats_of(const std::string& llm_id,
                                               const Context& context) const;
  std::uint32_t take_stream_id();

  mutable std::mutex mutex_;
  Contexts contexts_;
  std::vector<std::string> order_;  // oldest first
  std::vector<std::uint32_t> free_streams_ = {0, 1, 2, 3, 4, 5, 6, 7};
  std::uint32_t next_stream_ = 8;
  bool initialized_ = false;
  int device_id_ = 0;
  std::size_t memory_bytes_ = 0;
  std::size_t budget_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t session_depth_ = 0;
};

}  // namespace gpk::runtime

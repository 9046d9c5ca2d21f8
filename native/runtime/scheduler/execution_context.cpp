#include "runtime/scheduler/execution_context.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"
#include "runtime/text.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kDefaultMemoryBytes = std::size_t{8} << 30;

[[noreturn]] void fail(Error::Kind kind, const std::string& message) {
  throw Error(kind, "ExecutionContexts: " + message);
}

}  // namespace

const char* to_string(ExecutionState state) noexcept {
  switch (state) {
    case ExecutionState::kIdle: return "IDLE";
    case ExecutionState::kRunning: return "RUNNING";
    case ExecutionState::kPaused: return "PAUSED";
  }
  return "?";
}

void ExecutionContexts::initialize_locked(int device_id, std::size_t memory_bytes,
                                          std::size_t budget_bytes) {
  if (initialized_) return;
  if (device_id < 0)
    fail(Error::Kind::kValue, phrase("device_id is ", device_id, ", expected at least 0"));
  initialized_ = true;
  device_id_ = device_id;
  memory_bytes_ = memory_bytes == 0 ? kDefaultMemoryBytes : memory_bytes;
  budget_bytes_ = budget_bytes == 0 ? memory_bytes_ : std::min(budget_bytes, memory_bytes_);
}

void ExecutionContexts::initialize(int device_id, std::size_t device_total_memory_bytes,
                                   std::size_t total_vram_budget_bytes) {
  const std::lock_guard lock(mutex_);
  initialize_locked(device_id, device_total_memory_bytes, total_vram_budget_bytes);
}

ExecutionContexts::Context& ExecutionContexts::at(std::string_view llm_id) {
  return const_cast<Context&>(std::as_const(*this).at(llm_id));
}

const ExecutionContexts::Context& ExecutionContexts::at(std::string_view llm_id) const {
  const auto found = contexts_.find(llm_id);
  if (found == contexts_.end())
    fail(Error::Kind::kValue, phrase("context '", llm_id, "' does not exist"));
  return found->second;
}

std::size_t ExecutionContexts::left_bytes(const Context& context) const noexcept {
  const std::size_t left = budget_bytes_ - used_bytes_;
  if (context.max_vram_bytes == 0) return left;
  return std::min(left, context.max_vram_bytes - context.used_vram_bytes);
}

ExecutionContextStats ExecutionContexts::stats_of(const std::string& llm_id,
                                                  const Context& context) const {
  return {.llm_id = llm_id,
          .state = context.state,
          .stream_id = context.stream_id,
          .max_vram_bytes = context.max_vram_bytes,
          .used_vram_bytes = context.used_vram_bytes,
          .available_vram_bytes = left_bytes(context),
          .buffer_count = context.buffers.size()};
}

std::uint32_t ExecutionContexts::take_stream_id() {
  if (free_streams_.empty()) return next_stream_++;
  const std::uint32_t id = free_streams_.back();
  free_streams_.pop_back();
  return id;
}

ExecutionContextStats ExecutionContexts::create(std::string_view llm_id, std::size_t max_vram_bytes,
                                                int device_id) {
  if (llm_id.empty()) fail(Error::Kind::kValue, "llm_id is empty");
  const std::lock_guard lock(mutex_);
  initialize_locked(device_id, 0, 0);
  if (contexts_.contains(llm_id))
    fail(Error::Kind::kState, phrase("context '", llm_id, "' exists already"));
  const auto created = contexts_.emplace(std::string(llm_id), Context()).first;
  created->second.max_vram_bytes = max_vram_bytes;
  created->second.stream_id = take_stream_id();
  order_.emplace_back(llm_id);
  return stats_of(created->first, created->second);
}

bool ExecutionContexts::destroy(std::string_view llm_id) {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(llm_id);
  if (found == contexts_.end()) return false;
  used_bytes_ -= found->second.used_vram_bytes;
  free_streams_.push_back(found->second.stream_id);
  std::erase(order_, found->first);
  contexts_.erase(found);
  return true;
}

std::optional<ExecutionContextStats> ExecutionContexts::get(std::string_view llm_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(llm_id);
  if (found == contexts_.end()) return std::nullopt;
  return stats_of(found->first, found->second);
}

std::vector<std::string> ExecutionContexts::ids() const {
  const std::lock_guard lock(mutex_);
  return order_;
}

bool ExecutionContexts::track_allocation(std::string_view llm_id, std::uint64_t buffer_id,
                                         std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Context& context = at(llm_id);
  if (context.buffers.contains(buffer_id))
    fail(Error::Kind::kValue,
         phrase("buffer ", buffer_id, " of context '", llm_id, "' is tracked already"));
  if (bytes > left_bytes(context)) return false;
  context.buffers.emplace(buffer_id, bytes);
  context.used_vram_bytes += bytes;
  used_bytes_ += bytes;
  return true;
}

std::size_t ExecutionContexts::track_deallocation(std::string_view llm_id,
                                                  std::uint64_t buffer_id) {
  const std::lock_guard lock(mutex_);
  Context& context = at(llm_id);
  const auto found = context.buffers.find(buffer_id);
  if (found == context.buffers.end())
    fail(Error::Kind::kValue,
         phrase("buffer ", buffer_id, " of context '", llm_id, "' is not tracked"));
  const std::size_t bytes = found->second;
  context.buffers.erase(found);
  context.used_vram_bytes -= bytes;
  used_bytes_ -= bytes;
  return bytes;
}

void ExecutionContexts::begin_session() {
  const std::lock_guard lock(mutex_);
  ++session_depth_;
  for (auto& [id, context] : contexts_) context.state = ExecutionState::kRunning;
}

void ExecutionContexts::end_session() {
  const std::lock_guard lock(mutex_);
  if (session_depth_ == 0) fail(Error::Kind::kState, "no session to end");
  if (--session_depth_ > 0) return;
  for (auto& [id, context] : contexts_) context.state = ExecutionState::kIdle;
}

bool ExecutionContexts::is_session_active() const {
  const std::lock_guard lock(mutex_);
  return session_depth_ > 0;
}

void ExecutionContexts::begin_session(std::string_view llm_id) {
  const std::lock_guard lock(mutex_);
  at(llm_id).state = ExecutionState::kRunning;
}

void ExecutionContexts::end_session(std::string_view llm_id) {
  const std::lock_guard lock(mutex_);
  at(llm_id).state = ExecutionState::kIdle;
}

bool ExecutionContexts::is_session_active(std::string_view llm_id) const {
  const std::lock_guard lock(mutex_);
  return at(llm_id).state != ExecutionState::kIdle;
}

bool ExecutionContexts::pause(std::string_view llm_id) {
  const std::lock_guard lock(mutex_);
  Context& context = at(llm_id);
  if (context.state != ExecutionState::kRunning) return false;
  context.state = ExecutionState::kPaused;
  return true;
}

bool ExecutionContexts::resume(std::string_view llm_id) {
  const std::lock_guard lock(mutex_);
  Context& context = at(llm_id);
  if (context.state != ExecutionState::kPaused) return false;
  context.state = ExecutionState::kRunning;
  return true;
}

ExecutionStats ExecutionContexts::stats() const {
  const std::lock_guard lock(mutex_);
  return {.initialized = initialized_,
          .device_id = device_id_,
          .total_vram_budget_bytes = budget_bytes_,
          .device_total_memory_bytes = memory_bytes_,
          .used_vram_bytes = used_bytes_,
          .available_vram_bytes = budget_bytes_ - used_bytes_,
          .context_count = contexts_.size(),
          .stream_pool_size = free_streams_.size()};
}

void ExecutionContexts::reset() {
  const std::lock_guard lock(mutex_);
  contexts_.clear();
  order_.clear();
  free_streams_ = {0, 1, 2, 3, 4, 5, 6, 7};
  next_stream_ = 8;
  initialized_ = false;
  device_id_ = 0;
  memory_bytes_ = budget_bytes_ = used_bytes_ = 0;
  session_depth_ = 0;
}

}  // namespace gpk::runtime

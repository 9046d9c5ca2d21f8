// Continuous batching: many requests share the decode steps of one model. A request's tokens are
// those it gets alone, whatever else runs: prompts go through prefill passes, new tokens through
// decode steps, and neither depends on its company.
//
// A step of the engine admits, preempts and restores requests by engine_policy.h, runs a prefill
// pass over chunks of prompts, then a decode step. Preempted requests wait in host memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "core/stream.h"
#include "llm/engine_passes.h"
#include "llm/engine_policy.h"
#include "llm/prefix_cache.h"
#include "llm/request.h"

namespace gpk::llm {

struct EngineOptions {
  bool prefix_cache = true;
  std::int64_t host_pages = 0;            // for preempted requests
  std::int64_t max_waiting = 1 << 20;     // requests that were not admitted yet
  std::int64_t aging_ns = 1'000'000'000;  // of waiting that count as one step of priority
};

// What happened to a request: new tokens, and at last its end.
struct RequestEvent {
  std::uint64_t id = 0;
  std::vector<std::int32_t> tokens;
  std::vector<TokenScore> scores;  // one per token, where the request asks for them
  std::optional<FinishReason> end;
  std::string error;  // why it failed
  RequestTimes times;
};

struct EngineMetrics {
  std::int64_t waiting = 0, prefilling = 0, running = 0, swapped = 0;
  std::int64_t pages = 0, free_pages = 0, cached_pages = 0, idle_pages = 0, host_pages_used = 0;
  std::int64_t submitted = 0, finished = 0, cancelled = 0, failed = 0;
  std::int64_t preemptions = 0, restores = 0;
  std::int64_t steps = 0, prefill_passes = 0, decode_steps = 0;
  std::int64_t prompt_tokens = 0, new_tokens = 0;
  std::int64_t prefix_asked_tokens = 0, prefix_hit_tokens = 0;
  std::int64_t busy_ns = 0;         // in steps that did something
  std::int64_t first_token_ns = 0;  // from submission, of all requests together
  std::int64_t first_tokens = 0;
};

class Engine {
 public:
  // Throws InvalidArgument. `clock` outlives the engine.
  Engine(std::unique_ptr<EnginePasses> passes, std::shared_ptr<KvPages> pages,
         const EngineOptions& options, const Clock& clock);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread may call these.
  // Queues a request and returns its id. Throws InvalidArgument, Error (kState) when the engine is
  // closed or has failed, Error (kMemory) when too many wait.
  std::uint64_t submit(RequestOptions options);
  // It ends before the next step. False where there is no such request any more.
  bool cancel(std::uint64_t id);
  // Events since the last call, in their order; waits for one, up to a time. Empty and closed:
  // there will be none.
  std::vector<RequestEvent> wait_events(std::int64_t timeout_ns);
  [[nodiscard]] EngineMetrics metrics() const;
  [[nodiscard]] bool closed() const;

  // One iteration; false when there is nothing to do. From one thread at a time, and not beside
  // start(). An error of the device ends all requests.
  bool step();
  // Steps on a thread of its own, until close().
  void start();
  // Cancels what is left. Idempotent.
  void close() noexcept;

 private:
  using Order = std::pair<std::int64_t, std::uint64_t>;  // rank, id
  using Requests = std::map<Order, std::unique_ptr<Request>>;
  struct Inbox {
    std::vector<std::unique_ptr<Request>> submitted;
    std::vector<std::uint64_t> cancelled;
  };

  void check(const RequestOptions& options) const;
  void close_now() noexcept;
  void loop();
  void fail_all(const std::string& error) noexcept;
  void publish();  // the outbox, and metrics

  // Parts of a step, engine_step.cpp.
  bool run_step();
  void intake();
  void expire();
  [[nodiscard]] bool urgent_arrived(const std::vector<std::uint64_t>& ids) const;
  bool run_ahead();
  void take_tokens(std::int64_t back);
  [[nodiscard]] StepPlan plan() const;
  void apply(const StepPlan& plan);
  void admit(Request& request);
  void preempt(Request& request);
  void restore(Request& request);
  [[nodiscard]] bool make_free(std::int64_t count);
  void prefill(const std::vector<StepPlan::Chunk>& chunks);
  void decode(const std::vector<std::uint64_t>& ids);
  void accept(Request& request, std::int32_t token, const TokenScore* score);
  void end(Request& request, FinishReason reason, const std::string& error = {});
  [[nodiscard]] std::int64_t pages_to_admit(const Request& request) const;
  [[nodiscard]] std::span<const std::int32_t> cacheable(const Request& request) const;
  [[nodiscard]] Request* find(std::uint64_t id) const;

  const Clock& clock_;
  const EngineOptions options_;
  std::unique_ptr<EnginePasses> passes_;
  const EngineLimits limits_;
  std::shared_ptr<Stream> stream_;  // of all steps
  std::shared_ptr<KvPages> pages_;
  KvSwap swap_;
  std::optional<PrefixCache> cache_;

  // Of the thread that steps.
  Requests waiting_, active_;
  std::unordered_map<std::uint64_t, Request*> by_id_;
  std::vector<std::uint64_t> in_flight_;  // rows of a decode step whose tokens were not taken
  std::int64_t num_deadlines_ = 0;        // requests that have one
  bool changed_ = false;                  // since the last plan
  std::vector<RequestEvent> outbox_;
  EngineMetrics counts_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable work_, news_;
  Inbox inbox_;
  std::vector<RequestEvent> events_;
  EngineMetrics metrics_;
  std::unordered_set<std::uint64_t> live_;
  std::uint64_t next_id_ = 1;
  std::string failure_;
  bool closing_ = false, closed_ = false;
  std::once_flag close_once_;
  std::thread thread_;
};

}  // namespace gpk::llm

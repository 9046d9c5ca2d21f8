#include "llm/engine.h"

#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "runtime/scheduler/task.h"

namespace gpk::llm {
namespace {

constexpr char kOp[] = "submit";
constexpr std::int64_t kMaxAgingNs = 1'000'000'000'000;  // ranks do not overflow

}  // namespace

Engine::Engine(std::unique_ptr<EnginePasses> passes, std::shared_ptr<KvPages> pages,
               const EngineOptions& options, const Clock& clock)
    : clock_(clock),
      options_(options),
      passes_(std::move(passes)),
      limits_(passes_->limits()),
      stream_(Stream::create(passes_->device(), StreamPriority::kHigh)),
      pages_(std::move(pages)),
      swap_(pages_, options.host_pages) {
  const auto check = [](const char* what, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
    if (value < least || value > most)
      throw InvalidArgument(
          cat("Engine: ", what, " is ", value, ", expected ", least, " to ", most));
  };
  check("host_pages", options.host_pages, 0, std::numeric_limits<std::int64_t>::max());
  check("max_waiting", options.max_waiting, 1, std::numeric_limits<std::int64_t>::max());
  check("aging_ns", options.aging_ns, 0, kMaxAgingNs);
  if (options.prefix_cache) cache_.emplace(pages_->counts(), pages_->page());
  publish();
}

Engine::~Engine() { close(); }

void Engine::check(const RequestOptions& o) const {
  const auto refuse = [](const auto&... parts) { throw InvalidArgument(cat(kOp, ": ", parts...)); };
  if (o.prompt.empty()) refuse("prompt has no tokens, expected 1 or more");
  for (const std::int32_t token : o.prompt)
    if (token < 0 || token >= limits_.vocab_size)
      refuse("prompt has token ", token, ", expected 0 to ", limits_.vocab_size - 1);
  if (o.max_new_tokens < 1) refuse("max_new_tokens is ", o.max_new_tokens, ", expected 1 or more");
  check_sampling(o.sampling, kOp);
  if (o.priority < -runtime::kMaxTaskPriority || o.priority > runtime::kMaxTaskPriority)
    refuse("priority is ", o.priority, ", expected ", -runtime::kMaxTaskPriority, " to ",
           runtime::kMaxTaskPriority);
  if (o.timeout_ns < 0) refuse("deadline is ", o.timeout_ns, " ns, expected more than 0");
  // The last new token is never read, so it needs no place. The sum cannot overflow.
  const auto prompt = static_cast<std::int64_t>(o.prompt.size());
  if (o.max_new_tokens > limits_.max_length || prompt + o.max_new_tokens - 1 > limits_.max_length)
    refuse("the prompt has ", prompt, " tokens and max_new_tokens is ", o.max_new_tokens,
           ", expected at most ", limits_.max_length, " together");
  const std::int64_t most = pages_->num_pages() * pages_->page();
  if (prompt + o.max_new_tokens - 1 > most)
    refuse("the prompt has ", prompt, " tokens and max_new_tokens is ", o.max_new_tokens,
           ", but the cache has room for ", most);
}

std::uint64_t Engine::submit(RequestOptions options) {
  check(options);
  const auto prompt = static_cast<std::int64_t>(options.prompt.size());
  const bool far = limits_.border > 0 && prompt > limits_.border;
  if (limits_.border > 0 && !far)  // the text ends where its cache would have to be computed again
    options.max_new_tokens = std::min(options.max_new_tokens, limits_.border - prompt + 1);
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(cat(kOp, ": the engine has failed: ", failure_));
  if (closing_) throw Error(cat(kOp, ": the engine is closed"));
  const auto waiting = static_cast<std::int64_t>(inbox_.submitted.size()) + metrics_.waiting;
  if (waiting >= options_.max_waiting)
    throw Error(
        Error::Kind::kMemory,
        cat(kOp, ": ", waiting, " requests are waiting, expected at most ", options_.max_waiting));
  const std::uint64_t id = next_id_++;
  inbox_.submitted.push_back(
      std::make_unique<Request>(id, std::move(options), Sequence(pages_, limits_.max_length, far),
                                clock_.now_ns(), options_.aging_ns, limits_.vocab_size));
  live_.insert(id);
  ++metrics_.submitted;
  work_.notify_one();
  return id;
}

bool Engine::cancel(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (!live_.contains(id)) return false;
  inbox_.cancelled.push_back(id);
  work_.notify_one();
  return true;
}

std::vector<RequestEvent> Engine::wait_events(std::int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                 [this] { return closed_ || !events_.empty(); });
  return std::exchange(events_, {});
}

EngineMetrics Engine::metrics() const {
  const std::lock_guard lock(mutex_);
  return metrics_;
}

bool Engine::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool Engine::step() {
  {
    const std::lock_guard lock(mutex_);
    if (closing_ || !failure_.empty()) return false;
  }
  const StreamScope scope(stream_);
  const std::int64_t began_ns = clock_.now_ns();
  try {
    const bool busy = run_step();
    counts_.busy_ns += clock_.now_ns() - began_ns;
    publish();
    return busy;
  } catch (const std::exception& error) {
    fail_all(error.what());
    return false;
  }
}

void Engine::start() {
  const std::lock_guard lock(mutex_);
  if (closing_) throw Error("Engine: start() after close()");
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
}

void Engine::loop() {
  for (bool busy = false;;) {
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] {
        return busy || closing_ || !inbox_.submitted.empty() || !inbox_.cancelled.empty();
      });
      if (closing_) return;
    }
    busy = step();
  }
}

void Engine::close() noexcept {
  std::call_once(close_once_, [this] { close_now(); });
}

void Engine::close_now() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    work_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  try {
    intake();
    in_flight_.clear();
    while (!by_id_.empty()) end(*by_id_.begin()->second, FinishReason::kCancelled);
    publish();
  } catch (const std::exception& error) {
    fail_all(error.what());
  }
  const std::lock_guard lock(mutex_);
  closed_ = true;
  news_.notify_all();
}

// After an error of the device, which may have lost everything.
void Engine::fail_all(const std::string& error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    failure_ = error;
    for (auto& request : inbox_.submitted) {
      by_id_.emplace(request->id(), request.get());
      waiting_.emplace(Order{request->rank(), request->id()}, std::move(request));
    }
    inbox_ = {};
  }
  in_flight_.clear();
  while (!by_id_.empty()) end(*by_id_.begin()->second, FinishReason::kFailed, error);
  publish();
}

void Engine::publish() {
  EngineMetrics now = counts_;
  now.waiting = static_cast<std::int64_t>(waiting_.size());
  for (const auto& [order, request] : active_) {
    now.prefilling += request->state() == RequestState::kPrefilling ? 1 : 0;
    now.running += request->state() == RequestState::kRunning ? 1 : 0;
    now.swapped += request->state() == RequestState::kSwapped ? 1 : 0;
  }
  const PageCounts& counts = pages_->counts();
  now.pages = counts.num_pages();
  now.free_pages = counts.num_free();
  now.cached_pages = counts.num_cached();
  now.idle_pages = counts.num_idle();
  now.host_pages_used = swap_.num_used();
  if (cache_) {
    now.prefix_asked_tokens = cache_->stats().asked_tokens;
    now.prefix_hit_tokens = cache_->stats().hit_tokens;
  }
  const std::lock_guard lock(mutex_);
  now.submitted = metrics_.submitted;
  metrics_ = now;
  if (outbox_.empty()) return;
  for (RequestEvent& event : outbox_) {
    if (event.end) live_.erase(event.id);
    events_.push_back(std::move(event));
  }
  outbox_.clear();
  news_.notify_all();
}

}  // namespace gpk::llm

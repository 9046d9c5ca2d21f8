// One iteration of an engine.
#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "llm/engine.h"

namespace gpk::llm {

Request* Engine::find(std::uint64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

// The next step is started as soon as one is done, before its tokens are looked at: the device does
// not wait for the host, and somebody urgent waits for one step only.
bool Engine::run_step() {
  ++counts_.steps;
  if (!in_flight_.empty()) passes_->tokens(0);
  intake();
  expire();
  if (!in_flight_.empty()) {
    if (run_ahead()) return true;
    take_tokens(0);
    publish();
  }
  if (by_id_.empty()) return false;
  const StepPlan next = plan();
  changed_ = false;
  apply(next);
  prefill(next.prefill);
  if (!next.prefill.empty()) publish();
  if (next.prefill.empty() || !urgent_arrived(next.rows)) decode(next.rows);
  std::size_t num_running = 0;
  for (const auto& [order, request] : active_) {
    if (request->state() == RequestState::kPrefilling) changed_ = true;
    if (request->state() == RequestState::kRunning) ++num_running;
  }
  if (num_running != in_flight_.size()) changed_ = true;
  return !by_id_.empty();
}

void Engine::intake() {
  Inbox inbox;
  {
    const std::lock_guard lock(mutex_);
    inbox = std::exchange(inbox_, {});
  }
  for (auto& request : inbox.submitted) {
    changed_ = true;
    if (request->options().timeout_ns > 0) ++num_deadlines_;
    by_id_.emplace(request->id(), request.get());
    const Order order{request->rank(), request->id()};
    waiting_.emplace(order, std::move(request));
  }
  for (const std::uint64_t id : inbox.cancelled)
    if (Request* request = find(id)) end(*request, FinishReason::kCancelled);
}

void Engine::expire() {
  if (num_deadlines_ == 0) return;
  std::vector<Request*> late;
  const std::int64_t now_ns = clock_.now_ns();
  for (const auto& [id, request] : by_id_)
    if (request->is_late(now_ns)) late.push_back(request);
  for (Request* request : late) end(*request, FinishReason::kDeadline);
}

// True when somebody was submitted whose prompt should not wait for these rows.
bool Engine::urgent_arrived(const std::vector<std::uint64_t>& ids) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(inbox_.submitted.begin(), inbox_.submitted.end(), [&](const auto& urgent) {
    return std::any_of(ids.begin(), ids.end(), [&](std::uint64_t id) {
      const Request* r = find(id);
      return r != nullptr && urgent->priority() > r->priority() && urgent->rank() < r->rank();
    });
  });
}

// Starts the step after the one in flight if it has the same rows whatever the tokens are. A row
// that has ended is computed in vain.
bool Engine::run_ahead() {
  if (changed_) return false;
  for (const std::uint64_t id : in_flight_) {
    const Request* r = find(id);
    if (r == nullptr || !r->can_run_ahead() || r->num_new() + 2 > r->options().max_new_tokens ||
        r->sequence.pages_missing(r->sequence.length() + 1) > 0)
      return false;
  }
  passes_->decode_again();
  ++counts_.decode_steps;
  for (const std::uint64_t id : in_flight_) find(id)->sequence.advance(1);
  take_tokens(1);
  return true;
}

void Engine::take_tokens(std::int64_t back) {
  const std::span<const std::int32_t> tokens = passes_->tokens(back);
  const std::vector<std::uint64_t> ids = in_flight_;
  const bool scored = std::any_of(ids.begin(), ids.end(), [this](std::uint64_t id) {
    const Request* request = find(id);
    return request != nullptr && request->options().sampling.logprobs > 0;
  });
  const std::vector<TokenScore> scores = scored ? passes_->scores() : std::vector<TokenScore>();
  if (back == 0) in_flight_.clear();
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (Request* request = find(ids[i])) accept(*request, tokens[i], scored ? &scores[i] : nullptr);
}

// Two tokens are left: a pass of one would take other kernels.
std::span<const std::int32_t> Engine::cacheable(const Request& request) const {
  if (request.sequence.far()) return {};  // the cache holds pages of short texts
  const std::size_t size = request.prompt().size();
  return request.prompt().first(size < 2 ? 0 : size - 2);
}

std::int64_t Engine::pages_to_admit(const Request& request) const {
  const auto prompt = static_cast<std::int64_t>(request.prompt().size());
  const std::int64_t all = ceil_div(prompt, pages_->page());
  if (!cache_) return all;
  const PrefixCache::Peek found = cache_->peek(cacheable(request));
  return all - found.pages + found.idle;
}

StepPlan Engine::plan() const {
  std::vector<const Request*> order;
  for (const auto& [rank, request] : active_) order.push_back(request.get());
  for (const auto& [rank, request] : waiting_) {
    if (static_cast<std::int64_t>(order.size() - active_.size()) == limits_.max_rows) break;
    order.push_back(request.get());
  }
  std::sort(order.begin(), order.end(), [](const Request* a, const Request* b) {
    return Order{a->rank(), a->id()} < Order{b->rank(), b->id()};
  });
  std::vector<PolicyRequest> requests;
  for (const Request* r : order) {
    PolicyRequest p{r->id(), r->priority(), r->state(), r->prompt_left()};
    const std::int64_t length = r->sequence.length();
    if (r->state() == RequestState::kRunning)
      p.pages_wanted = r->sequence.pages_missing(length + 1);
    if (r->swapped) {
      const auto prompt = static_cast<std::int64_t>(r->prompt().size());
      p.pages_wanted = ceil_div(std::max(r->swapped->length() + 1, prompt), pages_->page());
    }
    for (const std::int32_t page : r->sequence.table()) {
      const std::int32_t others = pages_->counts().holders(page) - 1;
      if (others == (pages_->counts().is_cached(page) ? 1 : 0)) ++p.pages_freed;
    }
    p.pages_swapped = ceil_div(length, pages_->page());
    requests.push_back(p);
  }
  const PageCounts& counts = pages_->counts();
  const PolicyLimits limits{counts.num_free() + counts.num_idle(), swap_.num_free(),
                            limits_.max_rows, limits_.max_tokens, limits_.max_sequences};
  return plan_step(requests, limits,
                   [this](std::uint64_t id) { return pages_to_admit(*find(id)); });
}

void Engine::apply(const StepPlan& plan) {
  for (const std::uint64_t id : plan.dropped)
    end(*find(id), FinishReason::kFailed,
        "engine: neither the cache nor host memory has room for it");
  for (const std::uint64_t id : plan.preempted) preempt(*find(id));
  for (const std::uint64_t id : plan.restored) restore(*find(id));
  for (const std::uint64_t id : plan.admitted) admit(*find(id));
}

bool Engine::make_free(std::int64_t count) {
  const PageCounts& counts = pages_->counts();
  if (cache_ && counts.num_free() < count) cache_->evict(count - counts.num_free());
  return counts.num_free() >= count;
}

void Engine::preempt(Request& request) {
  try {
    request.swapped.emplace(swap_.evict(request.sequence));
  } catch (const Error& error) {  // no pinned memory
    end(request, FinishReason::kFailed, error.what());
    return;
  }
  request.enter(RequestState::kSwapped);
  ++counts_.preemptions;
}

void Engine::restore(Request& request) {
  const auto prompt = static_cast<std::int64_t>(request.prompt().size());
  const std::int64_t length = std::max(request.swapped->length(), prompt);
  if (!make_free(ceil_div(length, pages_->page()))) return;
  const bool prefills = request.prompt_left() > 0;
  swap_.restore(*request.swapped, request.sequence);
  request.swapped.reset();
  request.sequence.reserve(length);
  request.enter(prefills ? RequestState::kPrefilling : RequestState::kRunning);
  ++counts_.restores;
}

void Engine::admit(Request& request) {
  try {
    if (!request.start_mask()) {
      end(request, FinishReason::kStop);
      return;
    }
  } catch (const std::exception& error) {
    end(request, FinishReason::kFailed, error.what());
    return;
  }
  Sequence& sequence = request.sequence;
  const auto prompt = static_cast<std::int64_t>(request.prompt().size());
  if (cache_) {
    const bool partly = pages_->counts().num_free() >= ceil_div(prompt, pages_->page());
    const PrefixCache::Match found = cache_->match(cacheable(request), partly);
    sequence.adopt(found.pages, found.length);
  }
  if (!make_free(sequence.pages_missing(prompt))) {
    sequence.truncate(0);
    return;
  }
  sequence.reserve(prompt);
  active_.insert(waiting_.extract(Order{request.rank(), request.id()}));
  request.enter(RequestState::kPrefilling);
}

void Engine::prefill(const std::vector<StepPlan::Chunk>& chunks) {
  std::vector<Runner::Chunk> parts;
  std::vector<DecodeRow> rows;
  std::vector<Request*> requests;
  bool scored = false;
  for (const bool whole : {true, false}) {  // those that end their prompts first
    for (const StepPlan::Chunk& chunk : chunks) {
      Request* r = find(chunk.id);
      if (r == nullptr || r->state() != RequestState::kPrefilling ||
          (chunk.tokens >= r->prompt_left()) != whole)
        continue;
      const auto count = static_cast<std::size_t>(std::min(chunk.tokens, r->prompt_left()));
      const auto first = static_cast<std::size_t>(r->sequence.length());
      parts.push_back({r->sequence, r->prompt().subspan(first, count)});
      requests.push_back(r);
      if (!whole) continue;
      rows.push_back(r->row());
      scored = scored || r->options().sampling.logprobs > 0;
    }
  }
  if (parts.empty()) return;
  const std::vector<std::int32_t> tokens = passes_->prefill(parts, rows);
  const std::vector<TokenScore> scores = scored ? passes_->scores() : std::vector<TokenScore>();
  ++counts_.prefill_passes;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& r = *requests[i];
    counts_.prompt_tokens += static_cast<std::int64_t>(parts[i].tokens.size());
    if (cache_ && !r.sequence.far())
      cache_->insert(r.prompt().first(static_cast<std::size_t>(r.sequence.length())),
                     r.sequence.mutable_table());
    if (i >= tokens.size()) continue;
    r.enter(RequestState::kRunning);
    accept(r, tokens[i], scored ? &scores[i] : nullptr);
  }
}

// Pages for the next token, and where there are plenty for half a page more: then the device can
// run ahead of the host.
void Engine::decode(const std::vector<std::uint64_t>& ids) {
  std::vector<Request*> requests;
  for (const std::uint64_t id : ids) {
    Request* r = find(id);
    if (r == nullptr || r->state() != RequestState::kRunning) continue;
    const std::int64_t length = r->sequence.length();
    if (!make_free(r->sequence.pages_missing(length + 1))) continue;
    r->sequence.reserve(length + 1);
    if (pages_->counts().num_free() > 2 * limits_.max_rows)
      r->sequence.reserve(std::min(length + 1 + pages_->page() / 2, r->most_tokens()));
    requests.push_back(r);
  }
  if (requests.empty()) return;
  std::vector<DecodeRow> rows;
  for (const Request* r : requests) rows.push_back(r->row());
  passes_->decode(rows);
  ++counts_.decode_steps;
  for (Request* r : requests) {
    r->sequence.advance(1);
    in_flight_.push_back(r->id());
  }
}

void Engine::accept(Request& request, std::int32_t token, const TokenScore* score) {
  const std::int64_t now_ns = clock_.now_ns();
  ++counts_.new_tokens;
  if (request.num_new() == 0) {
    request.times.first_token_ns = now_ns;
    counts_.first_token_ns += now_ns - request.times.submitted_ns;
    ++counts_.first_tokens;
  }
  RequestEvent event;
  event.id = request.id();
  event.tokens.push_back(token);
  const auto top = static_cast<std::size_t>(request.options().sampling.logprobs);
  if (score != nullptr && top > 0) {
    event.scores.push_back(*score);  // with as many as the row that asks for most
    event.scores[0].top.resize(std::min(top, score->top.size()));
  }
  event.times = request.times;
  try {
    const std::optional<FinishReason> reason = request.append(token);
    outbox_.push_back(std::move(event));
    if (reason) end(request, *reason);
  } catch (const std::exception& error) {  // of the mask
    end(request, FinishReason::kFailed, error.what());
  }
}

void Engine::end(Request& request, FinishReason reason, const std::string& error) {
  changed_ = true;
  const bool finished = reason == FinishReason::kStop || reason == FinishReason::kLength;
  const bool cancelled = reason == FinishReason::kCancelled;
  ++(finished ? counts_.finished : cancelled ? counts_.cancelled : counts_.failed);
  request.enter(finished    ? RequestState::kFinished
                : cancelled ? RequestState::kCancelled
                            : RequestState::kFailed);
  if (request.options().timeout_ns > 0) --num_deadlines_;
  request.times.ended_ns = clock_.now_ns();
  RequestEvent event;
  event.id = request.id();
  event.end = reason;
  event.error = error;
  event.times = request.times;
  const Order order{request.rank(), request.id()};
  by_id_.erase(request.id());
  if (active_.erase(order) == 0) waiting_.erase(order);
  outbox_.push_back(std::move(event));
}

}  // namespace gpk::llm

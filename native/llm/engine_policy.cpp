#include "llm/engine_policy.h"

#include <algorithm>

#include "base/ceil_div.h"

namespace gpk::llm {
namespace {

class Planner {
 public:
  Planner(std::span<const PolicyRequest> requests, const PolicyLimits& limits,
          const std::function<std::int64_t(std::uint64_t)>& pages_to_admit)
      : requests_(requests),
        limits_(limits),
        pages_to_admit_(pages_to_admit),
        pages_(limits.pages),
        host_pages_(limits.host_pages) {
    for (const PolicyRequest& r : requests) resident_.push_back(holds_pages(r.state));
    num_resident_ = std::count(resident_.begin(), resident_.end(), true);
  }

  StepPlan run() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      switch (requests_[i].state) {
        case RequestState::kRunning:
          if (resident_[i]) grow(i);
          break;
        case RequestState::kPrefilling:
          if (resident_[i]) prefill_.push_back(i);
          break;
        case RequestState::kSwapped:
        case RequestState::kWaiting: enter(i); break;
        default: break;
      }
    }
    hold_back();
    fill_pass();
    for (const std::size_t i : rows_) plan_.rows.push_back(requests_[i].id);
    drop_if_stuck();
    return std::move(plan_);
  }

 private:
  // True where `a` may take what `b` has, whatever both do.
  [[nodiscard]] bool outranks(std::size_t a, std::size_t b) const {
    return a < b && requests_[a].priority > requests_[b].priority;
  }

  bool preempt(std::size_t i) {
    const PolicyRequest& r = requests_[i];
    if (r.pages_swapped > host_pages_) return false;
    host_pages_ -= r.pages_swapped;
    pages_ += r.pages_freed;
    resident_[i] = false;
    --num_resident_;
    plan_.preempted.push_back(r.id);
    return true;
  }

  // Preempts later requests, the last first, until `wanted` pages are there.
  template <class Allowed>
  bool make_room(std::size_t i, std::int64_t wanted, Allowed allowed) {
    for (std::size_t v = requests_.size(); v-- > i + 1 && pages_ < wanted;)
      if (resident_[v] && allowed(v)) preempt(v);
    return pages_ >= wanted;
  }

  void grow(std::size_t i) {
    if (static_cast<std::int64_t>(rows_.size()) == limits_.max_rows) return;
    const std::int64_t wanted = requests_[i].pages_wanted;
    if (make_room(i, wanted, [](std::size_t) { return true; })) {
      pages_ -= wanted;
      rows_.push_back(i);
    } else if (num_resident_ > 1) {
      preempt(i);
    }
  }

  // A waiting or swapped request gets its pages, if its turn has come.
  void enter(std::size_t i) {
    if (blocked_) return;
    const PolicyRequest& r = requests_[i];
    bool is_urgent = false;
    for (std::size_t v = i + 1; v < requests_.size() && !is_urgent; ++v)
      is_urgent = resident_[v] && outranks(i, v);
    if (num_resident_ >= limits_.max_rows && !is_urgent) {
      blocked_ = true;
      return;
    }
    const bool waits = r.state == RequestState::kWaiting;
    const std::int64_t wanted = waits ? pages_to_admit_(r.id) : r.pages_wanted;
    // Room for those that hold pages to grow, or they would be preempted soon.
    const std::int64_t spare = is_urgent ? 0 : ceil_div(num_resident_, std::int64_t{4});
    if (pages_ < wanted + spare) {
      std::int64_t gain = 0;
      for (std::size_t v = i + 1; v < requests_.size(); ++v)
        if (resident_[v] && outranks(i, v)) gain += requests_[v].pages_freed;
      if (!is_urgent || pages_ + gain < wanted ||
          !make_room(i, wanted, [&](std::size_t v) { return outranks(i, v); })) {
        blocked_ = true;
        return;
      }
    }
    pages_ -= wanted;
    resident_[i] = true;
    ++num_resident_;
    (waits ? plan_.admitted : plan_.restored).push_back(r.id);
    if (r.prompt_left > 0)
      prefill_.push_back(i);
    else if (static_cast<std::int64_t>(rows_.size()) < limits_.max_rows)
      rows_.push_back(i);
  }

  // Nobody of lower priority delays the first token of the first one.
  void hold_back() {
    if (prefill_.empty()) return;
    const std::size_t first = prefill_.front();
    const auto delays = [&](std::size_t i) { return outranks(first, i); };
    std::erase_if(rows_, delays);
    std::erase_if(prefill_, delays);
  }

  // A chunk of one token takes the kernels of decode steps, which add up in another order. So only
  // a prompt of one token is such a chunk, in a pass with others of that kind.
  void fill_pass() {
    std::int64_t tokens = limits_.max_prefill_tokens;
    std::int64_t sequences = limits_.max_prefill_sequences;
    bool single = false;
    for (const std::size_t i : prefill_) {
      if (tokens == 0 || sequences == 0) return;
      const std::int64_t left = requests_[i].prompt_left;
      if (plan_.prefill.empty()) single = left == 1;
      if ((left == 1) != single) continue;
      std::int64_t count = std::min(left, tokens);
      if (left - count == 1) --count;
      if (count == 0 || (count == 1 && !single)) continue;
      plan_.prefill.push_back({requests_[i].id, count});
      tokens -= count;
      --sequences;
    }
  }

  void drop_if_stuck() {
    if (!plan_.rows.empty() || !plan_.prefill.empty() || !plan_.preempted.empty() ||
        !plan_.restored.empty() || !plan_.admitted.empty())
      return;
    for (std::size_t i = requests_.size(); i-- > 0;) {
      if (!resident_[i]) continue;
      plan_.dropped.push_back(requests_[i].id);
      return;
    }
  }

  std::span<const PolicyRequest> requests_;
  const PolicyLimits& limits_;
  const std::function<std::int64_t(std::uint64_t)>& pages_to_admit_;
  std::int64_t pages_, host_pages_;
  std::vector<bool> resident_;
  std::int64_t num_resident_ = 0;
  bool blocked_ = false;  // somebody waits, so that nobody behind them may enter
  std::vector<std::size_t> prefill_, rows_;
  StepPlan plan_;
};

}  // namespace

std::int64_t request_rank(std::int64_t submitted_ns, std::int64_t priority,
                          std::int64_t aging_ns) noexcept {
  return submitted_ns - priority * aging_ns;
}

StepPlan plan_step(std::span<const PolicyRequest> requests, const PolicyLimits& limits,
                   const std::function<std::int64_t(std::uint64_t id)>& pages_to_admit) {
  return Planner(requests, limits, pages_to_admit).run();
}

}  // namespace gpk::llm

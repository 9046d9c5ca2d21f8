#include "runtime/scheduler/admission.h"

#include <iterator>

#include "runtime/error.h"
#include "runtime/text.h"

namespace gpk::runtime {
namespace {

AdmissionRequest checked_request(std::size_t memory_bytes, double bandwidth,
                                 const AdmissionConfig& config) {
  return admission_request(memory_bytes, share_ppb(bandwidth, "AdmissionController: bandwidth"),
                           config.max_memory_bytes);
}

}  // namespace

AdmissionController::AdmissionController(AdmissionConfig config, std::shared_ptr<const Clock> clock)
    : config_(config), clock_(std::move(clock)) {
  if (!clock_) throw Error(Error::Kind::kValue, "AdmissionController: clock is null");
}

AdmissionDecision AdmissionController::decide(const AdmissionRequest& request,
                                              std::size_t num_ahead,
                                              std::size_t num_queued_ahead) const {
  AdmissionUsage usage;
  usage.reserved_memory_bytes = reserved_bytes_;
  usage.available_memory_bytes = config_.max_memory_bytes - reserved_bytes_;
  usage.available_bandwidth_ppb = config_.max_bandwidth_ppb - reserved_ppb_;
  usage.num_pending = num_ahead;
  usage.measured_wait_ns = rate_.wait_ns(num_queued_ahead + 1);
  return decide_admission(config_, usage, request);
}

void AdmissionController::hold(Entry& entry, const AdmissionDecision& decision) {
  entry.reserved_bytes = decision.reserved_memory_bytes;
  entry.reserved_ppb = decision.reserved_bandwidth_ppb;
  entry.admitted = true;
  reserved_bytes_ += entry.reserved_bytes;
  reserved_ppb_ += entry.reserved_ppb;
  ++num_admitted_;
  rate_.task_started(clock_->now_ns());
}

AdmissionDecision AdmissionController::try_admit(std::string_view task_id, std::size_t memory_bytes,
                                                 double bandwidth) {
  const AdmissionRequest request = checked_request(memory_bytes, bandwidth, config_);
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(task_id);
  if (found != entries_.end() && found->second.admitted)
    throw Error(Error::Kind::kValue,
                phrase("AdmissionController: task '", task_id, "' is admitted already"));

  if (found != entries_.end()) {
    const auto place = queue_.find(found->second.ticket);
    const auto num_ahead_queued = static_cast<std::size_t>(std::distance(queue_.begin(), place));
    const std::size_t num_holding = entries_.size() - queue_.size();
    AdmissionDecision decision = decide(request, num_holding + num_ahead_queued, num_ahead_queued);
    found->second.request = request;
    if (decision.is_queued()) return decision;  // counted when it came
    queue_.erase(place);
    if (decision.is_admitted()) {
      hold(found->second, decision);
    } else {
      ++num_rejected_;
      entries_.erase(found);
    }
    return decision;
  }

  AdmissionDecision decision = decide(request, entries_.size(), queue_.size());
  if (decision.is_rejected()) {
    ++num_rejected_;
    return decision;
  }
  const auto entry =
      entries_.emplace(std::string(task_id), Entry{.request = request, .ticket = next_ticket_++})
          .first;
  if (decision.is_admitted()) {
    hold(entry->second, decision);
  } else {
    queue_.emplace(entry->second.ticket, entry);
    ++num_queued_;
  }
  return decision;
}

AdmissionDecision AdmissionController::evaluate(std::size_t memory_bytes, double bandwidth) const {
  const AdmissionRequest request = checked_request(memory_bytes, bandwidth, config_);
  const std::lock_guard lock(mutex_);
  return decide(request, entries_.size(), queue_.size());
}

void AdmissionController::release(std::string_view task_id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(task_id);
  if (found == entries_.end())
    throw Error(Error::Kind::kValue,
                phrase("AdmissionController: task '", task_id, "' is not known"));
  const Entry& entry = found->second;
  if (entry.admitted) {
    reserved_bytes_ -= entry.reserved_bytes;
    reserved_ppb_ -= entry.reserved_ppb;
    rate_.task_ended(clock_->now_ns());
  } else {
    queue_.erase(entry.ticket);
  }
  entries_.erase(found);
}

std::vector<std::pair<std::string, AdmissionDecision>> AdmissionController::promote() {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, AdmissionDecision>> promoted;
  for (auto place = queue_.begin(); place != queue_.end();) {
    const auto entry = place->second;
    const std::size_t num_holding = entries_.size() - queue_.size();
    AdmissionDecision decision = decide(entry->second.request, num_holding, 0);
    if (!decision.is_admitted()) {
      ++place;
      continue;
    }
    hold(entry->second, decision);
    promoted.emplace_back(entry->first, std::move(decision));
    place = queue_.erase(place);
  }
  return promoted;
}

AdmissionStats AdmissionController::stats() const {
  const std::lock_guard lock(mutex_);
  return {.admitted_count = num_admitted_,
          .rejected_count = num_rejected_,
          .queued_count = num_queued_,
          .pending_count = entries_.size(),
          .reserved_memory_bytes = reserved_bytes_,
          .reserved_bandwidth = share_of_ppb(reserved_ppb_),
          .available_memory_bytes = config_.max_memory_bytes - reserved_bytes_,
          .available_bandwidth = share_of_ppb(config_.max_bandwidth_ppb - reserved_ppb_)};
}

std::vector<std::string> AdmissionController::queued_ids() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [ticket, entry] : queue_) ids.push_back(entry->first);
  return ids;
}

}  // namespace gpk::runtime

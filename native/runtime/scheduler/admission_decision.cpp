#include "runtime/scheduler/admission_decision.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"

namespace gpk::runtime {
namespace {

constexpr double kUnmeasuredBytesPerNs = 0.1;  // 100 MB/s

std::int64_t estimated_wait_ns(const AdmissionUsage& usage) {
  if (usage.measured_wait_ns) return *usage.measured_wait_ns;
  const double ns = static_cast<double>(usage.reserved_memory_bytes) / kUnmeasuredBytesPerNs;
  return ns < 9e18 ? static_cast<std::int64_t>(ns) : std::numeric_limits<std::int64_t>::max();
}

AdmissionDecision refuse(const AdmissionConfig& config, const AdmissionUsage& usage,
                         RejectReasonDetails details, bool impossible) {
  if (!config.enable_best_effort || (impossible && config.reject_impossible))
    return AdmissionDecision::rejected(std::move(details));
  AdmissionDecision decision =
      AdmissionDecision::queued(usage.num_pending, estimated_wait_ns(usage));
  decision.wait_is_measured = usage.measured_wait_ns.has_value();
  decision.details = std::move(details);
  return decision;
}

}  // namespace

const char* to_string(RejectReason reason) noexcept {
  switch (reason) {
    case RejectReason::kInsufficientMemory: return "InsufficientMemory";
    case RejectReason::kInsufficientBandwidth: return "InsufficientBandwidth";
    case RejectReason::kQueueFull: return "QueueFull";
    case RejectReason::kUnsatisfiableDependencies: return "UnsatisfiableDependencies";
    case RejectReason::kCustom: return "Custom";
  }
  return "?";
}

const char* to_string(AdmissionVerdict verdict) noexcept {
  switch (verdict) {
    case AdmissionVerdict::kAdmit: return "Admit";
    case AdmissionVerdict::kReject: return "Reject";
    case AdmissionVerdict::kQueue: return "Queue";
  }
  return "?";
}

std::string RejectReasonDetails::message() const {
  switch (reason_type) {
    case RejectReason::kInsufficientMemory:
      return cat("Insufficient memory: requested ", bytes_text(requested_memory_bytes), " (",
                 requested_memory_bytes, " bytes), available ", bytes_text(available_memory_bytes),
                 " (", available_memory_bytes, " bytes)");
    case RejectReason::kInsufficientBandwidth:
      return cat("Insufficient bandwidth: requested ", share_of_ppb(requested_bandwidth_ppb),
                 ", available ", share_of_ppb(available_bandwidth_ppb));
    case RejectReason::kQueueFull:
      return cat("Queue full: ", num_pending, " tasks pending, at most ", max_pending);
    case RejectReason::kUnsatisfiableDependencies:
      return cat("Unsatisfiable dependencies: ", custom);
    case RejectReason::kCustom: break;
  }
  return custom;
}

AdmissionDecision AdmissionDecision::admitted(std::size_t memory_bytes, SharePpb bandwidth_ppb) {
  AdmissionDecision decision;
  decision.reserved_memory_bytes = memory_bytes;
  decision.reserved_bandwidth_ppb = bandwidth_ppb;
  return decision;
}

AdmissionDecision AdmissionDecision::queued(std::size_t position, std::int64_t estimated_wait_ns) {
  AdmissionDecision decision;
  decision.verdict = AdmissionVerdict::kQueue;
  decision.queue_position = position;
  decision.estimated_wait_ns = estimated_wait_ns;
  return decision;
}

AdmissionDecision AdmissionDecision::rejected(RejectReasonDetails details) {
  AdmissionDecision decision;
  decision.verdict = AdmissionVerdict::kReject;
  decision.details = std::move(details);
  return decision;
}

std::optional<RejectReason> AdmissionDecision::reject_reason() const noexcept {
  if (!is_rejected() || !details) return std::nullopt;
  return details->reason_type;
}

std::string AdmissionDecision::text() const {
  const std::string why = details ? details->message() : std::string();
  switch (verdict) {
    case AdmissionVerdict::kAdmit:
      return cat("Admit: reserves ", bytes_text(reserved_memory_bytes), " memory and ",
                 reserved_bandwidth(), " bandwidth");
    case AdmissionVerdict::kReject: return cat("Reject: ", why);
    case AdmissionVerdict::kQueue: break;
  }
  return cat("Queue: position ", queue_position, ", about ", duration_text(estimated_wait_ns),
             wait_is_measured ? " by measured completions" : " by reserved bytes",
             why.empty() ? "" : "; ", why);
}

AdmissionConfig::AdmissionConfig(std::size_t max_memory_bytes_, double max_bandwidth,
                                 std::size_t max_pending_tasks_, bool enable_best_effort_)
    : max_memory_bytes(max_memory_bytes_),
      max_bandwidth_ppb(share_ppb(max_bandwidth, "AdmissionConfig: max_bandwidth")),
      max_pending_tasks(max_pending_tasks_),
      enable_best_effort(enable_best_effort_) {}

AdmissionRequest admission_request(std::size_t memory_bytes, SharePpb bandwidth_ppb,
                                   std::size_t memory_limit_bytes) noexcept {
  if (bandwidth_ppb > 0) return {memory_bytes, bandwidth_ppb};
  const auto limit = static_cast<double>(std::max<std::size_t>(memory_limit_bytes, 1));
  const double share = static_cast<double>(memory_bytes) / limit;
  return {memory_bytes, static_cast<SharePpb>(std::min(share, kMaxShare) * 1e9)};
}

AdmissionDecision decide_admission(const AdmissionConfig& config, const AdmissionUsage& usage,
                                   const AdmissionRequest& request) {
  RejectReasonDetails details;
  details.requested_memory_bytes = request.memory_bytes;
  details.available_memory_bytes = usage.available_memory_bytes;
  details.requested_bandwidth_ppb = request.bandwidth_ppb;
  details.available_bandwidth_ppb = usage.available_bandwidth_ppb;
  details.num_pending = usage.num_pending;
  details.max_pending = config.max_pending_tasks;

  if (usage.num_pending >= config.max_pending_tasks) {
    details.reason_type = RejectReason::kQueueFull;
    return AdmissionDecision::rejected(std::move(details));
  }
  if (details.requested_memory_bytes > details.available_memory_bytes) {
    details.reason_type = RejectReason::kInsufficientMemory;
    const bool impossible = request.memory_bytes > config.max_memory_bytes;
    return refuse(config, usage, std::move(details), impossible);
  }
  if (details.requested_bandwidth_ppb > details.available_bandwidth_ppb) {
    details.reason_type = RejectReason::kInsufficientBandwidth;
    const bool impossible = details.requested_bandwidth_ppb > config.max_bandwidth_ppb;
    return refuse(config, usage, std::move(details), impossible);
  }
  return AdmissionDecision::admitted(request.memory_bytes, details.requested_bandwidth_ppb);
}

}  // namespace gpk::runtime

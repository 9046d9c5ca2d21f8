#include "runtime/scheduler/qos_evaluator.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/text.h"

namespace gpk::runtime {
namespace {

QosEvaluation decided(QosDecision decision, QosClass qos, std::string reason) {
  QosEvaluation evaluation;
  evaluation.decision = decision;
  evaluation.qos_class = qos;
  evaluation.reason = std::move(reason);
  return evaluation;
}

std::string memory_short(const char* what, std::size_t asked, std::size_t left) {
  return phrase(what, " of ", bytes_text(asked), " memory, ", bytes_text(left), " left");
}

std::string bandwidth_short(const char* what, double asked, SharePpb left) {
  return phrase(what, " of ", asked, " bandwidth, ", share_of_ppb(left), " left");
}

}  // namespace

const char* to_string(QosDecision decision) noexcept {
  switch (decision) {
    case QosDecision::kAdmit: return "Admit";
    case QosDecision::kThrottle: return "Throttle";
    case QosDecision::kQueue: return "Queue";
    case QosDecision::kReject: return "Reject";
  }
  return "?";
}

std::string QosEvaluation::text() const {
  return phrase(to_string(decision), " (", to_string(qos_class), "): ", reason);
}

QosPolicyEvaluator::QosPolicyEvaluator(std::size_t total_memory_bytes, double total_bandwidth)
    : total_bytes_(total_memory_bytes),
      total_ppb_(share_ppb(total_bandwidth, "QosPolicyEvaluator: total_bandwidth")) {}

std::size_t QosPolicyEvaluator::available_bytes() const noexcept {
  return total_bytes_ - guaranteed_bytes_ - burstable_bytes_;
}

SharePpb QosPolicyEvaluator::available_ppb() const noexcept { return total_ppb_ - guaranteed_ppb_; }

QosEvaluation QosPolicyEvaluator::evaluate_guaranteed(const QosTaskMeta& task) const {
  const ResourceRequirements& needs = task.policy.requirements;
  const QosClass qos = QosClass::kGuaranteed;
  if (needs.memory_limit_bytes > available_bytes())
    return decided(QosDecision::kReject, qos,
                   memory_short("limit", needs.memory_limit_bytes, available_bytes()));
  const SharePpb request_ppb = share_ppb(needs.bandwidth_request, "QosTaskMeta: bandwidth_request");
  if (request_ppb > available_ppb())
    return decided(QosDecision::kReject, qos,
                   bandwidth_short("request", needs.bandwidth_request, available_ppb()));
  const SharePpb limit_ppb = share_ppb(needs.bandwidth_limit, "QosTaskMeta: bandwidth_limit");
  const double bandwidth = share_of_ppb(std::min(limit_ppb, available_ppb()));
  QosEvaluation evaluation =
      decided(QosDecision::kAdmit, qos,
              phrase("reserves its limit of ", bytes_text(needs.memory_limit_bytes),
                     " memory and a share of ", bandwidth, " of the bandwidth"));
  evaluation.reserved_memory_bytes = needs.memory_limit_bytes;
  evaluation.reserved_bandwidth = bandwidth;
  return evaluation;
}

QosEvaluation QosPolicyEvaluator::evaluate_burstable(const QosTaskMeta& task) const {
  const ResourceRequirements& needs = task.policy.requirements;
  const QosClass qos = QosClass::kBurstable;
  if (needs.memory_request_bytes > available_bytes())
    return decided(QosDecision::kReject, qos,
                   memory_short("request", needs.memory_request_bytes, available_bytes()));
  if (share_ppb(needs.bandwidth_request, "QosTaskMeta: bandwidth_request") > available_ppb())
    return decided(QosDecision::kReject, qos,
                   bandwidth_short("request", needs.bandwidth_request, available_ppb()));
  if (needs.memory_limit_bytes > available_bytes())
    return decided(QosDecision::kThrottle, qos,
                   memory_short("limit", needs.memory_limit_bytes, available_bytes()));
  if (share_ppb(needs.bandwidth_limit, "QosTaskMeta: bandwidth_limit") > available_ppb())
    return decided(QosDecision::kThrottle, qos,
                   bandwidth_short("limit", needs.bandwidth_limit, available_ppb()));
  QosEvaluation evaluation = decided(
      QosDecision::kAdmit, qos,
      phrase("reserves its request of ", bytes_text(needs.memory_request_bytes), " memory"));
  evaluation.reserved_memory_bytes = needs.memory_request_bytes;
  return evaluation;
}

QosEvaluation QosPolicyEvaluator::evaluate_best_effort() const {
  const QosClass qos = QosClass::kBestEffort;
  if (available_bytes() == 0) return decided(QosDecision::kQueue, qos, "no memory left");
  if (available_ppb() == 0) return decided(QosDecision::kQueue, qos, "no bandwidth left");
  return decided(QosDecision::kAdmit, qos, "reserves nothing");
}

QosEvaluation QosPolicyEvaluator::evaluate_locked(const QosTaskMeta& task) const {
  switch (task.qos_class()) {
    case QosClass::kGuaranteed: return evaluate_guaranteed(task);
    case QosClass::kBurstable: return evaluate_burstable(task);
    case QosClass::kBestEffort: break;
  }
  return evaluate_best_effort();
}

QosEvaluation QosPolicyEvaluator::evaluate(const QosTaskMeta& task) const {
  const std::lock_guard lock(mutex_);
  return evaluate_locked(task);
}

void QosPolicyEvaluator::reserve_locked(const QosEvaluation& evaluation) {
  if (evaluation.is_queued()) ++best_effort_queue_;
  if (!evaluation.is_admitted()) return;
  const SharePpb ppb = share_ppb(evaluation.reserved_bandwidth, "QosEvaluation: bandwidth");
  if (evaluation.reserved_memory_bytes > available_bytes())
    throw Error(Error::Kind::kState,
                phrase("QosPolicyEvaluator: evaluation reserves ",
                       bytes_text(evaluation.reserved_memory_bytes), ", now only ",
                       bytes_text(available_bytes()), " are left"));
  if (ppb > available_ppb())
    throw Error(Error::Kind::kState,
                phrase("QosPolicyEvaluator: evaluation reserves a bandwidth of ",
                       evaluation.reserved_bandwidth, ", now only ", share_of_ppb(available_ppb()),
                       " is left"));
  if (evaluation.qos_class == QosClass::kGuaranteed) {
    guaranteed_bytes_ += evaluation.reserved_memory_bytes;
    guaranteed_ppb_ += ppb;
  } else if (evaluation.qos_class == QosClass::kBurstable) {
    burstable_bytes_ += evaluation.reserved_memory_bytes;
  }
}

void QosPolicyEvaluator::reserve(const QosEvaluation& evaluation) {
  const std::lock_guard lock(mutex_);
  reserve_locked(evaluation);
}

QosEvaluation QosPolicyEvaluator::admit(const QosTaskMeta& task) {
  const std::lock_guard lock(mutex_);
  QosEvaluation evaluation = evaluate_locked(task);
  reserve_locked(evaluation);
  return evaluation;
}

void QosPolicyEvaluator::release(QosClass qos, std::size_t memory_bytes, double bandwidth) {
  const SharePpb ppb = share_ppb(bandwidth, "QosPolicyEvaluator: bandwidth");
  const std::lock_guard lock(mutex_);
  if (qos == QosClass::kBestEffort) {
    if (best_effort_queue_ > 0) --best_effort_queue_;
    return;
  }
  const bool guaranteed = qos == QosClass::kGuaranteed;
  std::size_t& held_bytes = guaranteed ? guaranteed_bytes_ : burstable_bytes_;
  if (memory_bytes > held_bytes)
    throw Error(Error::Kind::kValue,
                phrase("QosPolicyEvaluator: release of ", bytes_text(memory_bytes), " of class ",
                       to_string(qos), ", which holds ", bytes_text(held_bytes)));
  if (guaranteed && ppb > guaranteed_ppb_)
    throw Error(Error::Kind::kValue,
                phrase("QosPolicyEvaluator: release of a bandwidth of ", bandwidth, " of class ",
                       to_string(qos), ", which holds ", share_of_ppb(guaranteed_ppb_)));
  held_bytes -= memory_bytes;
  if (guaranteed) guaranteed_ppb_ -= ppb;
}

void QosPolicyEvaluator::release(const QosEvaluation& evaluation) {
  // An admitted best-effort task holds nothing, not even a place in the queue.
  const bool holds = evaluation.qos_class == QosClass::kBestEffort ? evaluation.is_queued()
                                                                   : evaluation.is_admitted();
  if (!holds) return;
  release(evaluation.qos_class, evaluation.reserved_memory_bytes, evaluation.reserved_bandwidth);
}

QosStats QosPolicyEvaluator::stats() const {
  const std::lock_guard lock(mutex_);
  return {.total_memory_bytes = total_bytes_,
          .total_bandwidth = share_of_ppb(total_ppb_),
          .guaranteed_memory_bytes = guaranteed_bytes_,
          .guaranteed_bandwidth = share_of_ppb(guaranteed_ppb_),
          .burstable_memory_bytes = burstable_bytes_,
          .best_effort_queue = best_effort_queue_,
          .available_memory_bytes = available_bytes(),
          .available_bandwidth = share_of_ppb(available_ppb())};
}

void QosPolicyEvaluator::reset() {
  const std::lock_guard lock(mutex_);
  guaranteed_bytes_ = burstable_bytes_ = best_effort_queue_ = 0;
  guaranteed_ppb_ = 0;
}

}  // namespace gpk::runtime

#include "runtime/scheduler/qos.h"

#include <cmath>
#include <limits>
#include <utility>

#include "runtime/error.h"
#include "runtime/share.h"
#include "runtime/text.h"

namespace gpk::runtime {
namespace {

std::size_t burst_limit(std::size_t request_bytes, double ratio) {
  if (!(ratio >= 1.0))  // also NaN
    throw Error(Error::Kind::kValue,
                phrase("ResourceRequirements: burst ratio is ", ratio, ", expected at least 1"));
  const double limit = static_cast<double>(request_bytes) * ratio;
  constexpr auto kMax = std::numeric_limits<std::size_t>::max();
  if (limit >= static_cast<double>(kMax)) return kMax;
  return static_cast<std::size_t>(limit);
}

}  // namespace

const char* to_string(QosClass qos) noexcept {
  switch (qos) {
    case QosClass::kGuaranteed: return "Guaranteed";
    case QosClass::kBurstable: return "Burstable";
    case QosClass::kBestEffort: return "BestEffort";
  }
  return "?";
}

int class_priority(QosClass qos) noexcept {
  switch (qos) {
    case QosClass::kGuaranteed: return 100;
    case QosClass::kBurstable: return 50;
    case QosClass::kBestEffort: return 0;
  }
  return 0;
}

bool can_preempt(QosClass qos, QosClass other) noexcept {
  return class_priority(qos) > class_priority(other);
}

double memory_overcommit_ratio(QosClass qos) noexcept {
  switch (qos) {
    case QosClass::kGuaranteed: return 1.0;
    case QosClass::kBurstable: return 1.5;
    case QosClass::kBestEffort: return 2.0;
  }
  return 1.0;
}

double bandwidth_ratio(QosClass qos) noexcept {
  switch (qos) {
    case QosClass::kGuaranteed: return 1.0;
    case QosClass::kBurstable: return 0.8;
    case QosClass::kBestEffort: return 0.5;
  }
  return 1.0;
}

ResourceRequirements::ResourceRequirements(std::size_t memory_request_bytes_,
                                           std::optional<std::size_t> memory_limit_bytes_,
                                           double bandwidth_request_, double bandwidth_limit_)
    : memory_request_bytes(memory_request_bytes_),
      memory_limit_bytes(memory_limit_bytes_.value_or(memory_request_bytes_)),
      bandwidth_request(bandwidth_request_),
      bandwidth_limit(bandwidth_limit_) {
  if (memory_limit_bytes < memory_request_bytes)
    throw Error(Error::Kind::kValue,
                phrase("ResourceRequirements: memory_limit is ", memory_limit_bytes,
                       ", expected at least memory_request ", memory_request_bytes));
  share_ppb(bandwidth_request, "ResourceRequirements: bandwidth_request");
  share_ppb(bandwidth_limit, "ResourceRequirements: bandwidth_limit");
  if (bandwidth_limit < bandwidth_request)
    throw Error(Error::Kind::kValue,
                phrase("ResourceRequirements: bandwidth_limit is ", bandwidth_limit,
                       ", expected at least bandwidth_request ", bandwidth_request));
}

ResourceRequirements ResourceRequirements::guaranteed(std::size_t memory_bytes) {
  return ResourceRequirements(memory_bytes);
}

ResourceRequirements ResourceRequirements::burstable(std::size_t request_bytes, double ratio) {
  return ResourceRequirements(request_bytes, burst_limit(request_bytes, ratio));
}

ResourceRequirements ResourceRequirements::best_effort() { return ResourceRequirements(0); }

QosPolicy QosPolicy::guaranteed(std::size_t memory_bytes) {
  return {QosClass::kGuaranteed, ResourceRequirements::guaranteed(memory_bytes)};
}

QosPolicy QosPolicy::burstable(std::size_t request_bytes, double ratio) {
  return {QosClass::kBurstable, ResourceRequirements::burstable(request_bytes, ratio)};
}

QosPolicy QosPolicy::best_effort() {
  return {QosClass::kBestEffort, ResourceRequirements::best_effort()};
}

std::size_t QosPolicy::memory_to_reserve_bytes() const noexcept {
  switch (qos_class) {
    case QosClass::kGuaranteed: return requirements.memory_limit_bytes;
    case QosClass::kBurstable: return requirements.memory_request_bytes;
    case QosClass::kBestEffort: return 0;
  }
  return 0;
}

double QosPolicy::bandwidth_to_reserve() const noexcept {
  switch (qos_class) {
    case QosClass::kGuaranteed: return requirements.bandwidth_limit;
    case QosClass::kBurstable: return requirements.bandwidth_request;
    case QosClass::kBestEffort: return 0.0;
  }
  return 0.0;
}

QosTaskMeta QosTaskMeta::guaranteed(std::string id, std::string name, std::size_t memory_bytes) {
  return {std::move(id), std::move(name), QosPolicy::guaranteed(memory_bytes)};
}

QosTaskMeta QosTaskMeta::burstable(std::string id, std::string name, std::size_t request_bytes,
                                   double burst_ratio) {
  return {std::move(id), std::move(name), QosPolicy::burstable(request_bytes, burst_ratio),
          burst_ratio};
}

QosTaskMeta QosTaskMeta::best_effort(std::string id, std::string name) {
  return {std::move(id), std::move(name), QosPolicy::best_effort()};
}

int QosTaskMeta::effective_priority() const noexcept {
  return priority + class_priority(policy.qos_class);
}

}  // namespace gpk::runtime

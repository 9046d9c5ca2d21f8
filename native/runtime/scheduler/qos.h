// Quality of service: what a class promises to a task, and what a task asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace gpk::runtime {

enum class QosClass : std::uint8_t { kGuaranteed = 0, kBurstable = 1, kBestEffort = 2 };

[[nodiscard]] const char* to_string(QosClass qos) noexcept;  // "Guaranteed", ...
// Added to a task's own priority: 100, 50, 0.
[[nodiscard]] int class_priority(QosClass qos) noexcept;
// True when `qos` is a strictly higher class than `other`.
[[nodiscard]] bool can_preempt(QosClass qos, QosClass other) noexcept;
[[nodiscard]] double memory_overcommit_ratio(QosClass qos) noexcept;  // 1.0, 1.5, 2.0
[[nodiscard]] double bandwidth_ratio(QosClass qos) noexcept;          // 1.0, 0.8, 0.5

// What a task needs (request) and what it may grow to (limit). Bandwidths are shares of the device.
struct ResourceRequirements {
  // A missing memory limit is the request. kValue when a limit is below its request or a bandwidth
  // is negative or not a number.
  explicit ResourceRequirements(std::size_t memory_request_bytes_,
                                std::optional<std::size_t> memory_limit_bytes_ = std::nullopt,
                                double bandwidth_request_ = 0.0, double bandwidth_limit_ = 1.0);

  static ResourceRequirements guaranteed(std::size_t memory_bytes);
  // limit = request * ratio; kValue when ratio < 1.
  static ResourceRequirements burstable(std::size_t request_bytes, double ratio);
  static ResourceRequirements best_effort();

  std::size_t memory_request_bytes;
  std::size_t memory_limit_bytes;
  double bandwidth_request;
  double bandwidth_limit;
};

// A class with its requirements.
struct QosPolicy {
  static QosPolicy guaranteed(std::size_t memory_bytes);
  static QosPolicy burstable(std::size_t request_bytes, double ratio);
  static QosPolicy best_effort();

  // Guaranteed its limit, Burstable its request, BestEffort nothing.
  [[nodiscard]] std::size_t memory_to_reserve_bytes() const noexcept;
  [[nodiscard]] double bandwidth_to_reserve() const noexcept;

  QosClass qos_class;
  ResourceRequirements requirements;
};

// A task as QoS sees it.
struct QosTaskMeta {
  static QosTaskMeta guaranteed(std::string id, std::string name, std::size_t memory_bytes);
  static QosTaskMeta burstable(std::string id, std::string name, std::size_t request_bytes,
                               double burst_ratio);
  static QosTaskMeta best_effort(std::string id, std::string name);

  [[nodiscard]] QosClass qos_class() const noexcept { return policy.qos_class; }
  // Its own priority plus that of its class.
  [[nodiscard]] int effective_priority() const noexcept;

  std::string id;
  std::string name;
  QosPolicy policy;
  double burst_ratio = 1.0;
  int priority = 0;
};

}  // namespace gpk::runtime

// How a QoS class acts on the device: the one table that streams, dispatch and the pool read.
#pragma once

#include <cstddef>

#include "runtime/scheduler/qos.h"

namespace gpk::runtime {

enum class QosReservation { kLimit, kRequest, kNothing };

struct QosEnforcement {
  // 0: the device's lowest stream priority, 1: its highest.
  double stream_priority;
  // Launches that may be on the device at once, per stream; 0: no bound. The longest wait that a
  // lower class can cause to a higher one is this many of its kernels.
  std::size_t max_in_flight;
  // Memory under pressure goes in this order, 0 first.
  int eviction_rank;
  // What admission holds back for a task.
  QosReservation reservation;
  // Long kernels of ours stop at a tile boundary for a higher class.
  bool yields;
};

[[nodiscard]] QosEnforcement enforcement(QosClass qos) noexcept;

// The driver's number for the class; `least` and `greatest` as the driver reports its range
// (lower numbers are more urgent, so greatest <= least). The middle rounds towards `least`.
[[nodiscard]] int stream_priority(QosClass qos, int least, int greatest) noexcept;

}  // namespace gpk::runtime

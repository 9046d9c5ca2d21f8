// How a QoS class is enforced on the device: the one table that streams, dispatch and the pool use.
#pragma once

#include <cstddef>

#include "runtime/scheduler/qos.h"

namespace gpk::runtime {

enum class QosReservation { kLimit, kRequest, kNothing };

struct QosEnforcement {
  // 0: the device's lowest stream priority, 1: its highest.
  double stream_priority;
  // Launches in flight per stream; 0: unbounded. A lower class delays a higher one by at most this
  // many of its kernels.
  std::size_t max_in_flight;
  // Eviction order under memory pressure, 0 first.
  int eviction_rank;
  // What admission reserves for a task.
  QosReservation reservation;
  // Long kernels of ours yield at a tile boundary to a higher class.
  bool yields;
};

[[nodiscard]] QosEnforcement enforcement(QosClass qos) noexcept;

// The driver's priority for the class; `least` and `greatest` as the driver reports its range
// (lower numbers are more urgent, so greatest <= least). The middle rounds towards `least`.
[[nodiscard]] int stream_priority(QosClass qos, int least, int greatest) noexcept;

}  // namespace gpk::runtime

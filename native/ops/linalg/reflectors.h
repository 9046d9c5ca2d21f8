// What two-sided reductions by panels of Householder reflectors share: grids, what their blocks
// pass to each other, and compact WY forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/array.h"
#include "core/device.h"
#include "core/launch.h"
#include "kernels/args/linalg.h"
#include "ops/linalg/qr.h"

namespace gpk::ops::linalg {

// Grids of a panel. Pure.
struct ReflectorPlan {
  int blocks = 1;             // of a matrix; more than one wait for each other
  std::int64_t matrices = 1;  // of a launch
  std::int64_t pitch = 0;     // of rows
  bool shared = true;         // a reflector in shared memory, else one for each block in global
  friend bool operator==(const ReflectorPlan&, const ReflectorPlan&) = default;
};
ReflectorPlan plan_reflectors(std::int64_t batch, std::int64_t n, DType dtype,
                              const DeviceTraits& traits, int num_sms);
std::string to_string(const ReflectorPlan& plan);

// Of the panels of a stack.
class ReflectorBuffers {
 public:
  ReflectorBuffers(const Array& a, const char* op);
  [[nodiscard]] const ReflectorPlan& plan() const noexcept { return plan_; }
  // `a` with rows of the plan's pitch and zeros after its columns, a copy.
  [[nodiscard]] Array padded(const Array& a, const char* op) const;
  // For matrices `first` and after, after so many columns; a launch of `count` matrices.
  [[nodiscard]] kernels::ReflectorExchange args(std::int64_t first, std::int64_t columns) const;
  [[nodiscard]] LaunchConfig config(std::int64_t count) const;
  void add_to(std::vector<const Array*>& arrays) const;

 private:
  DType dtype_;
  ReflectorPlan plan_;
  Array column_, product_;          // [batch, pitch]
  Array arrivals_;                  // [batch]
  Array parts_;                     // [matrices, blocks, 2 kLinalgPanel]
  std::optional<Array> reflector_;  // [matrices, blocks, pitch]
};

Array zeros_like(const Array& a, const Dims& shape, const char* op);
// Matrices of a stack, along its first axis.
Array matrices_from(const Array& a, std::int64_t first, std::int64_t count);
// One of an array's first axis.
Array entry(const Array& all, std::int64_t index, const char* op);

// Compact WY forms of all panels: v [panels, batch, n, kLinalgPanel] and tau [panels, batch,
// kLinalgPanel], whose panels p begin in row kLinalgPanel p + `below`.
std::vector<WyPanel> compact(const Array& v, const Array& tau, std::int64_t below, const char* op);

}  // namespace gpk::ops::linalg

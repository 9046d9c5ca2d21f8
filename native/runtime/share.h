// A share of the device (bandwidth, compute) as an integer, so that sums are exact and releases
// bring a total back to exactly zero.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace gpk::runtime {

using SharePpb = std::int64_t;  // parts per billion; 1.0 is 1'000'000'000

inline constexpr double kMaxShare = 1e6;

// `what` names class and argument: "AdmissionConfig: max_bandwidth". kValue unless 0 <= share.
inline SharePpb share_ppb(double share, std::string_view what) {
  if (!(share >= 0.0 && share <= kMaxShare))  // also NaN
    throw Error(Error::Kind::kValue, cat(what, " is ", share, ", expected 0 .. ", kMaxShare));
  return share == 0.0 ? 0 : std::llround(share * 1e9);
}

inline double share_of_ppb(SharePpb ppb) noexcept { return static_cast<double>(ppb) / 1e9; }

}  // namespace gpk::runtime

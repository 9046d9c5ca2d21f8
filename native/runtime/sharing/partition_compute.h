// Maps compute shares to whole groups of multiprocessors, as green contexts require.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace gpk::runtime {

struct SmShare {
  double asked_sms = 0.0;  // share * total
  std::size_t given_sms = 0;
  double asked_share = 0.0;
  double given_share = 0.0;
  // Its group is the remainder once the others are split off, so it may hold SMs beyond a multiple
  // of the granule: it must be split off last.
  bool takes_rest = false;
};

struct SmSplit {
  std::vector<SmShare> parts;  // in the order of the shares
  std::size_t unassigned_sms = 0;
  double max_error = 0.0;  // largest |given_share - asked_share|
};

// Splits `total_sms` by `shares`, in multiples of `granule_sms`, never more than there are.
//  - Each part gets its whole granules; the remaining ones go, one each, to the largest fractions
//    (the earlier part on a tie), up to the sum of the shares.
//  - A share above 0 gets at least one granule, taken from the part with the largest surplus.
//  - SMs that make no granule go to the part with the largest deficit when the shares add up to the
//    whole device; else they stay unassigned.
// kValue: no SMs, granule of 0 or above the total, a share outside 0 .. 1, a sum above 1. kState:
// more parts with a share than granules.
[[nodiscard]] SmSplit split_sms(std::size_t total_sms, std::size_t granule_sms,
                                std::span<const double> shares);

}  // namespace gpk::runtime

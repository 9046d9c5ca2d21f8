// Rounding of integers, and ASCII letters.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/ceil_div.h"
#include "base/lower_case.h"
#include "base/round_up.h"

namespace gpk {
namespace {

TEST(RoundUp, GivesTheNextMultiple) {
  EXPECT_EQ(round_up(0, 8), 0);
  EXPECT_EQ(round_up(1, 8), 8);
  EXPECT_EQ(round_up(8, 8), 8);
  EXPECT_EQ(round_up(9, 8), 16);
  EXPECT_EQ(round_up(10, 7), 14);  // any unit, not only powers of two
}

TEST(RoundUp, KeepsTheTypeOfItsFirstArgument) {
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 63;
  static_assert(std::is_same_v<decltype(round_up(kHigh, 256)), std::uint64_t>);
  EXPECT_EQ(round_up(kHigh + 1, 256), kHigh + 256);
  EXPECT_EQ(round_up(std::size_t{5}, 4), std::size_t{8});
}

TEST(CeilDiv, CountsThePiecesThatCover) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
}

TEST(LowerCase, ChangesAsciiLettersOnly) {
  EXPECT_EQ(lower_case("SIM:sm_90A [@Z]"), "sim:sm_90a [@z]");
  EXPECT_EQ(lower_case("\xC3\x84"), "\xC3\x84");
  EXPECT_EQ(lower_case(""), "");
}

}  // namespace
}  // namespace gpk

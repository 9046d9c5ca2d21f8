#include "runtime/sharing/partition_compute.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "expect.h"
#include "runtime/share.h"

namespace gpk::runtime {
namespace {

std::vector<std::size_t> given(const SmSplit& split) {
  std::vector<std::size_t> sms;
  for (const SmShare& part : split.parts) sms.push_back(part.given_sms);
  return sms;
}

TEST(RuntimePartitionCompute, SplitsOfAnH200) {
  const double quarters[] = {0.75, 0.25};
  const SmSplit split = split_sms(132, 8, quarters);
  EXPECT_EQ(given(split), (std::vector<std::size_t>{100, 32}));  // requested 99 and 33
  EXPECT_TRUE(split.parts[0].takes_rest);
  EXPECT_FALSE(split.parts[1].takes_rest);
  EXPECT_EQ(split.unassigned_sms, 0u);
  EXPECT_DOUBLE_EQ(split.parts[0].asked_sms, 99.0);
  EXPECT_DOUBLE_EQ(split.parts[1].given_share, 32.0 / 132);
  EXPECT_LT(split.max_error, 0.01);

  const double thirds[] = {0.5, 0.25, 0.25};
  const SmSplit three = split_sms(132, 8, thirds);  // requested 66, 33, 33
  EXPECT_EQ(given(three), (std::vector<std::size_t>{68, 32, 32}));

  const double part[] = {0.5};
  const SmSplit one = split_sms(132, 8, part);
  EXPECT_EQ(given(one), std::vector<std::size_t>{64});
  EXPECT_EQ(one.unassigned_sms, 68u);
  const double all[] = {1.0};
  EXPECT_EQ(given(split_sms(132, 8, all)), std::vector<std::size_t>{132});
}

TEST(RuntimePartitionCompute, SmallSharesGetOneGranule) {
  const double shares[] = {0.97, 0.01, 0.01, 0.01};
  const SmSplit split = split_sms(132, 8, shares);
  EXPECT_EQ(given(split), (std::vector<std::size_t>{108, 8, 8, 8}));
  const double with_none[] = {0.5, 0.0, 0.5};
  EXPECT_EQ(given(split_sms(16, 2, with_none)), (std::vector<std::size_t>{8, 0, 8}));
  const double none[] = {0.0};
  EXPECT_EQ(split_sms(16, 2, none).unassigned_sms, 16u);
  EXPECT_EQ(split_sms(16, 2, {}).unassigned_sms, 16u);
}

TEST(RuntimePartitionCompute, TiesGoToTheEarlier) {
  const double thirds[] = {1.0 / 3, 1.0 / 3, 1.0 / 3};
  EXPECT_EQ(given(split_sms(16, 2, thirds)), (std::vector<std::size_t>{6, 6, 4}));
  EXPECT_EQ(given(split_sms(7, 1, thirds)), (std::vector<std::size_t>{3, 2, 2}));
}

TEST(RuntimePartitionCompute, BadInput) {
  const double half[] = {0.5};
  const double over[] = {0.6, 0.6};
  const double negative[] = {-0.1};
  const double nan[] = {std::nan("")};
  const double many[] = {0.2, 0.2, 0.2};
  EXPECT_EQ(kind_of([&] { (void)split_sms(0, 1, half); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 0, half); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 9, half); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 1, over); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 1, negative); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 1, nan); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 4, many); }), Error::Kind::kState);
}

TEST(RuntimePartitionCompute, RandomSplitsKeepTheirPromises) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t total = 1 + random() % 200;
    const std::size_t granule = 1 + random() % std::min<std::size_t>(total, 8);
    const std::size_t num_parts = 1 + random() % std::min<std::size_t>(total / granule, 6);
    std::vector<double> shares;
    double left = 1.0;
    for (std::size_t k = 0; k < num_parts; ++k) {
      const bool last = k + 1 == num_parts && random() % 2 == 0;
      const double share = last ? left : left * static_cast<double>(random() % 100) / 100;
      shares.push_back(share);
      left -= share;
    }
    const SmSplit split = split_sms(total, granule, shares);
    std::size_t sum = split.unassigned_sms;
    std::size_t num_rest = 0;
    for (std::size_t k = 0; k < num_parts; ++k) {
      const SmShare& part = split.parts[k];
      sum += part.given_sms;
      num_rest += part.takes_rest ? 1 : 0;
      ASSERT_EQ(part.given_sms > 0, share_ppb(shares[k], "") > 0);
      if (!part.takes_rest) {
        ASSERT_EQ(part.given_sms % granule, 0u);
      }
      // No part exceeds its share by more than one granule, remainder and minimum aside.
      if (!part.takes_rest && part.given_sms > granule) {
        ASSERT_LT(static_cast<double>(part.given_sms),
                  part.asked_sms + static_cast<double>(granule));
      }
    }
    ASSERT_EQ(sum, total);
    ASSERT_LE(num_rest, 1u);
  }
}

}  // namespace
}  // namespace gpk::runtime

// Small pools on a fake device, and what they refuse.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "expect.h"
#include "runtime/pool/pool.h"
#include "runtime_pool_fake.h"

namespace gpk::runtime::small_pool {

using fake::PoolFake;

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kChunk = 64 * kKiB;
inline constexpr std::size_t kLarge = 40 * kKiB;  // above small_max_bytes here

inline PoolOptions options(std::size_t quota_chunks = 0) {
  PoolOptions result;
  result.chunk_bytes = kChunk;
  result.region_bytes = 256 * kChunk;
  result.segment_bytes = 4 * kChunk;
  result.small_max_bytes = 32 * kKiB;
  result.quota_bytes = quota_chunks * kChunk;
  return result;
}

// The same as gpk::kind_of, of errors that name the pool.
template <class Call>
Error::Kind kind_of(const Call& call) {
  std::string message;
  const Error::Kind kind = gpk::kind_of(call, &message);
  EXPECT_NE(message.find("Pool"), std::string::npos) << message;
  return kind;
}

// Checks at the end that the device was not misused.
class Fixture : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(device.errors.empty()) << device.errors.front(); }
  PoolFake device;
};

}  // namespace gpk::runtime::small_pool

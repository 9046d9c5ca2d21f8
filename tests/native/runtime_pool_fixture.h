// Small pools on a fake device, and what they refuse.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

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

template <class Call>
Error::Kind kind_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Pool"), std::string::npos) << error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return Error::Kind::kState;
}

// Checks at the end that the device was not misused.
class Fixture : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(device.errors.empty()) << device.errors.front(); }
  PoolFake device;
};

}  // namespace gpk::runtime::small_pool

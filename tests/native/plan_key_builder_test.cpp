#include "plan/key_builder.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/error.h"
#include "core/dtype.h"

namespace gpk::plan {
namespace {

TEST(KeyBuilder, EveryCombinationOfFieldsHasItsOwnKey) {
  std::set<std::uint64_t> keys;
  for (int vec = 0; vec < 32; ++vec)
    for (const DType dtype : {DType::kBool, DType::kFloat4E2M1FN})
      for (const bool wide : {false, true})
        keys.insert(KeyBuilder()
                        .field("vec", vec, 5)
                        .field("dtype", dtype, kDTypeBits)
                        .field("wide", wide, 1)
                        .key());
  EXPECT_EQ(keys.size(), 32u * 2 * 2);
}

TEST(KeyBuilder, RefusesAValueThatIsTooLarge) {
  EXPECT_NO_THROW(KeyBuilder().field("vec", 15, 4));
  EXPECT_THROW(KeyBuilder().field("vec", 16, 4), Error);
  EXPECT_THROW(KeyBuilder().field("vec", -1, 4), Error);
  EXPECT_THROW(KeyBuilder().field("wide", true, 0), Error);
  try {
    KeyBuilder().field("op", 1, 8).field("vec", 16, 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("vec is 16, which does not fit into 4 bits"),
              std::string::npos)
        << error.what();
  }
}

TEST(KeyBuilder, RefusesMoreThan64Bits) {
  EXPECT_EQ(KeyBuilder().field("all", ~std::uint64_t{0}, 64).key(), ~std::uint64_t{0});
  EXPECT_NO_THROW(KeyBuilder().field("low", 1, 60).field("high", 15, 4));
  EXPECT_THROW(KeyBuilder().field("low", 1, 60).field("high", 1, 5), Error);
}

}  // namespace
}  // namespace gpk::plan

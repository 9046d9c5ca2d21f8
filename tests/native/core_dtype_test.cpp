#include "core/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gpk {
namespace {

TEST(DTypeTest, TableIsInOrderAndNamesAreUnique) {
  std::set<std::string> names;
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(info(dtype).dtype, dtype);
    EXPECT_TRUE(names.insert(name(dtype)).second) << name(dtype);
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
  }
}

TEST(DTypeTest, UnknownNames) {
  for (const char* unknown : {"", "float", "Float32", "float32 ", "float128"})
    EXPECT_EQ(dtype_from_name(unknown), std::nullopt) << unknown;
}

TEST(DTypeTest, Sizes) {
  EXPECT_EQ(itemsize(DType::kBool), 1u);
  EXPECT_EQ(itemsize(DType::kBFloat16), 2u);
  EXPECT_EQ(itemsize(DType::kFloat32), 4u);
  EXPECT_EQ(itemsize(DType::kComplex64), 8u);
  EXPECT_EQ(itemsize(DType::kComplex128), 16u);
  EXPECT_EQ(itemsize(DType::kFloat8E4M3FN), 1u);
  EXPECT_EQ(itemsize(DType::kInt4), 1u);
}

TEST(DTypeTest, PackedTypesShareBytes) {
  EXPECT_EQ(bytes_for(DType::kInt4, 0), 0u);
  EXPECT_EQ(bytes_for(DType::kInt4, 1), 1u);
  EXPECT_EQ(bytes_for(DType::kUInt4, 2), 1u);
  EXPECT_EQ(bytes_for(DType::kFloat4E2M1FN, 33), 17u);
  EXPECT_EQ(bytes_for(DType::kFloat64, 3), 24u);
}

TEST(DTypeTest, BytesOfHugeCountsDoNotOverflow) {
  constexpr std::int64_t kCount = std::int64_t{1} << 58;
  EXPECT_EQ(bytes_for(DType::kFloat64, kCount), std::size_t{1} << 61);
  EXPECT_EQ(bytes_for(DType::kComplex128, kCount), std::size_t{1} << 62);
  EXPECT_EQ(bytes_for(DType::kInt8, std::int64_t{1} << 62), std::size_t{1} << 62);
  EXPECT_EQ(bytes_for(DType::kInt4, (std::int64_t{1} << 62) + 1), (std::size_t{1} << 61) + 1);
}

TEST(DTypeTest, KindsAgreeWithNames) {
  constexpr std::pair<const char*, DTypeClass> kPrefixes[] = {
      {"bool", DTypeClass::kBool},     {"int", DTypeClass::kSigned},
      {"uint", DTypeClass::kUnsigned}, {"float", DTypeClass::kFloat},
      {"bfloat", DTypeClass::kFloat},  {"complex", DTypeClass::kComplex},
  };
  for (int i = 0; i < kNumDTypes; ++i) {
    const DTypeInfo& row = info(static_cast<DType>(i));
    int matches = 0;
    for (const auto& [prefix, kind] : kPrefixes) {
      if (std::string(row.name).rfind(prefix, 0) != 0) continue;
      ++matches;
      EXPECT_EQ(row.kind, kind) << row.name;
    }
    EXPECT_EQ(matches, 1) << row.name;
  }
}

}  // namespace
}  // namespace gpk

#include "core/promote.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace gpk {
namespace {

using enum DType;

constexpr DType kArithmetic[] = {kBool,     kInt8,    kInt16,   kInt32,     kInt64,
                                 kUInt8,    kUInt16,  kUInt32,  kUInt64,    kFloat16,
                                 kBFloat16, kFloat32, kFloat64, kComplex64, kComplex128};
constexpr DType kStorage[] = {kFloat8E4M3FN, kFloat8E5M2, kInt4, kUInt4, kFloat4E2M1FN};

struct Row {
  DType a, b, both;
};

// NumPy's np.promote_types; bfloat16 as float16.
constexpr Row kRows[] = {
    {kBool, kBool, kBool},
    {kBool, kInt8, kInt8},
    {kBool, kUInt64, kUInt64},
    {kBool, kFloat16, kFloat16},
    {kBool, kBFloat16, kBFloat16},
    {kBool, kComplex64, kComplex64},
    {kInt8, kInt16, kInt16},
    {kInt32, kInt64, kInt64},
    {kUInt8, kUInt32, kUInt32},
    {kInt8, kUInt8, kInt16},
    {kInt16, kUInt8, kInt16},
    {kInt8, kUInt16, kInt32},
    {kInt16, kUInt16, kInt32},
    {kInt8, kUInt32, kInt64},
    {kInt32, kUInt32, kInt64},
    {kInt64, kUInt32, kInt64},
    {kInt8, kUInt64, kFloat64},
    {kInt64, kUInt64, kFloat64},
    {kInt8, kFloat16, kFloat16},
    {kUInt8, kFloat16, kFloat16},
    {kInt16, kFloat16, kFloat32},
    {kUInt16, kFloat16, kFloat32},
    {kInt32, kFloat16, kFloat64},
    {kUInt64, kFloat16, kFloat64},
    {kInt8, kBFloat16, kBFloat16},
    {kInt16, kBFloat16, kFloat32},
    {kInt32, kBFloat16, kFloat64},
    {kInt16, kFloat32, kFloat32},
    {kUInt16, kFloat32, kFloat32},
    {kInt32, kFloat32, kFloat64},
    {kUInt32, kFloat32, kFloat64},
    {kInt64, kFloat32, kFloat64},
    {kInt64, kFloat64, kFloat64},
    {kFloat16, kBFloat16, kFloat32},
    {kFloat16, kFloat32, kFloat32},
    {kBFloat16, kFloat32, kFloat32},
    {kBFloat16, kFloat64, kFloat64},
    {kFloat32, kFloat64, kFloat64},
    {kInt8, kComplex64, kComplex64},
    {kInt16, kComplex64, kComplex64},
    {kUInt16, kComplex64, kComplex64},
    {kInt32, kComplex64, kComplex128},
    {kUInt64, kComplex64, kComplex128},
    {kFloat16, kComplex64, kComplex64},
    {kBFloat16, kComplex64, kComplex64},
    {kFloat32, kComplex64, kComplex64},
    {kFloat64, kComplex64, kComplex128},
    {kComplex64, kComplex128, kComplex128},
    {kFloat64, kComplex128, kComplex128},
};

TEST(PromoteTest, Table) {
  for (const Row& row : kRows) {
    EXPECT_EQ(promote_types(row.a, row.b), row.both) << name(row.a) << " " << name(row.b);
    EXPECT_EQ(promote_types(row.b, row.a), row.both) << name(row.b) << " " << name(row.a);
  }
}

// What any such table must be: symmetric, idempotent, an upper bound that neither side changes.
TEST(PromoteTest, Laws) {
  for (const DType a : kArithmetic) {
    EXPECT_EQ(promote_types(a, a), a);
    for (const DType b : kArithmetic) {
      const auto both = promote_types(a, b);
      ASSERT_TRUE(both);
      EXPECT_EQ(both, promote_types(b, a));
      EXPECT_EQ(promote_types(*both, a), both) << name(a) << " " << name(b);
      EXPECT_TRUE(can_cast_same_kind(a, *both));
    }
  }
}

TEST(PromoteTest, StorageTypesGoWithThemselvesOnly) {
  for (const DType a : kStorage) {
    EXPECT_EQ(promote_types(a, a), a);
    for (const DType b : kArithmetic) {
      EXPECT_EQ(promote_types(a, b), std::nullopt);
      EXPECT_EQ(promote_types(b, a), std::nullopt);
    }
    for (const DType b : kStorage)
      if (a != b) {
        EXPECT_EQ(promote_types(a, b), std::nullopt);
      }
  }
  try {
    promote_types(kInt4, kFloat32, "add");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.kind(), InvalidArgument::Kind::kType);
    EXPECT_STREQ(error.what(),
                 "add: no common dtype of int4 and float32; cast one of them with astype");
  }
}

TEST(PromoteTest, NumbersAreWeak) {
  const Scalar truth = true;
  const Scalar one = std::int64_t{1};
  const Scalar large = ~std::uint64_t{0};
  const Scalar half = 0.5;
  const Scalar unit = std::complex<double>(0, 1);
  for (const DType dtype : kArithmetic) {
    EXPECT_EQ(promote_scalar(dtype, truth, "add"), dtype);
    if (dtype != kBool) {
      EXPECT_EQ(promote_scalar(dtype, one, "add"), dtype);
      EXPECT_EQ(promote_scalar(dtype, large, "add"), dtype);
    }
    if (is_float(dtype) || is_complex(dtype)) {
      EXPECT_EQ(promote_scalar(dtype, half, "add"), dtype);
    }
    if (is_complex(dtype)) {
      EXPECT_EQ(promote_scalar(dtype, unit, "add"), dtype);
    }
  }
  EXPECT_EQ(promote_scalar(kBool, one, "add"), kInt64);
  EXPECT_EQ(promote_scalar(kBool, half, "add"), kFloat64);
  EXPECT_EQ(promote_scalar(kInt8, half, "add"), kFloat64);
  EXPECT_EQ(promote_scalar(kInt8, unit, "add"), kComplex128);
  EXPECT_EQ(promote_scalar(kFloat16, unit, "add"), kComplex64);
  EXPECT_EQ(promote_scalar(kBFloat16, unit, "add"), kComplex64);
  EXPECT_EQ(promote_scalar(kFloat32, unit, "add"), kComplex64);
  EXPECT_EQ(promote_scalar(kFloat64, unit, "add"), kComplex128);
  EXPECT_THROW(promote_scalar(kInt4, half, "add"), InvalidArgument);
}

TEST(PromoteTest, CastsWithinAKind) {
  EXPECT_TRUE(can_cast_same_kind(kFloat64, kFloat16));
  EXPECT_TRUE(can_cast_same_kind(kInt64, kInt8));
  EXPECT_TRUE(can_cast_same_kind(kUInt64, kInt8));
  EXPECT_TRUE(can_cast_same_kind(kUInt64, kUInt8));
  EXPECT_FALSE(can_cast_same_kind(kInt8, kUInt64));
  EXPECT_TRUE(can_cast_same_kind(kBool, kUInt8));
  EXPECT_TRUE(can_cast_same_kind(kInt64, kFloat16));
  EXPECT_TRUE(can_cast_same_kind(kFloat64, kComplex64));
  EXPECT_FALSE(can_cast_same_kind(kFloat16, kInt64));
  EXPECT_FALSE(can_cast_same_kind(kComplex64, kFloat64));
  EXPECT_FALSE(can_cast_same_kind(kInt8, kBool));
}

TEST(PromoteTest, SafeCasts) {
  EXPECT_TRUE(can_cast_safely(kInt8, kFloat16));
  EXPECT_TRUE(can_cast_safely(kUInt16, kFloat32));
  EXPECT_TRUE(can_cast_safely(kInt64, kFloat64));  // as NumPy has it
  EXPECT_TRUE(can_cast_safely(kFloat32, kComplex64));
  EXPECT_FALSE(can_cast_safely(kInt16, kFloat16));
  EXPECT_FALSE(can_cast_safely(kUInt8, kInt8));
  EXPECT_FALSE(can_cast_safely(kFloat16, kBFloat16));
  EXPECT_FALSE(can_cast_safely(kFloat64, kComplex64));
  EXPECT_FALSE(can_cast_safely(kInt4, kInt8));
  EXPECT_TRUE(can_cast_safely(kInt4, kInt4));
}

TEST(PromoteTest, FloatsForIntegers) {
  EXPECT_EQ(float_for(kBool), kFloat16);
  EXPECT_EQ(float_for(kInt8), kFloat16);
  EXPECT_EQ(float_for(kUInt8), kFloat16);
  EXPECT_EQ(float_for(kInt16), kFloat32);
  EXPECT_EQ(float_for(kUInt32), kFloat64);
  EXPECT_EQ(float_for(kInt64), kFloat64);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kComplex64, kComplex128})
    EXPECT_EQ(float_for(dtype), dtype);
  EXPECT_EQ(real_part_of(kComplex64), kFloat32);
  EXPECT_EQ(real_part_of(kComplex128), kFloat64);
  EXPECT_EQ(real_part_of(kInt8), kInt8);
}

}  // namespace
}  // namespace gpk

// Arithmetic and conversions of the PTX interpreter against C++.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <functional>
#include <random>

#include "sim/formats.h"
#include "sim_harness.h"

namespace gpk::sim {
namespace {

using test::lane_kernel;
using test::run_lanes;

std::vector<std::uint64_t> interesting(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> values{0,
                                    1,
                                    2,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    0x100000000,
                                    0x8000000000000000,
                                    ~std::uint64_t{0},
                                    0x3f800000,
                                    0x7f800000,
                                    0xff800000,
                                    0x7fc00000,
                                    0x00000001,
                                    0x80000001,
                                    0x007fffff,
                                    0x3effffff,
                                    0x4b000001,
                                    0xc2c80000,
                                    0x42c81234};
  while (values.size() < 64) values.push_back(random());
  return values;
}

using Expect = std::function<std::uint64_t(std::uint64_t, std::uint64_t)>;

// `body` computes %rd6 from %rd4 (own element) and %rd5 (the next one's).
void check(const std::string& body, const Expect& expect) {
  const std::string ptx = lane_kernel(
      "ld.global.u64 %rd4, [%rd1];\nld.global.u64 %rd5, [%rd1+512];\ncvt.u32.u64 %r4, %rd4;\n"
      "cvt.u32.u64 %r5, %rd5;\nmov.b32 %f4, %r4;\nmov.b32 %f5, %r5;\nmov.b64 %fd4, %rd4;\n"
      "mov.b64 %fd5, %rd5;\nmov.u64 %rd6, 0;\nmov.u32 %r6, 0;\n" +
      body + "\nst.global.u64 [%rd2], %rd6;");
  for (unsigned seed = 0; seed < 3; ++seed) {
    auto a = interesting(seed);
    auto b = interesting(seed + 100);
    std::rotate(b.begin(), b.begin() + 7 * (seed + 1), b.end());
    auto in = a;
    in.insert(in.end(), b.begin(), b.end());
    const auto outcome = run_lanes(ptx, in, {}, 64);
    ASSERT_TRUE(outcome.result.ok);
    for (unsigned i = 0; i < 64; ++i)
      ASSERT_EQ(outcome.out[i], expect(a[i], b[i])) << body << " of " << a[i] << " and " << b[i];
  }
}

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::int32_t signed32(std::uint64_t x) { return static_cast<std::int32_t>(x); }
float as_float(std::uint64_t x) { return std::bit_cast<float>(low(x)); }
std::uint32_t bits(float x) { return x != x ? 0x7fffffffu : std::bit_cast<std::uint32_t>(x); }

void check32(const std::string& op, const Expect& expect) {
  check(op + "\ncvt.u64.u32 %rd6, %r6;", expect);
}

void check_float(const std::string& op, const Expect& expect) {
  check(op + "\nmov.b32 %r6, %f6;\ncvt.u64.u32 %rd6, %r6;", expect);
}

TEST(SimInteger, AddsAndMultiplies) {
  check32("add.s32 %r6, %r4, %r5;", [](auto a, auto b) { return low(a + b); });
  check32("sub.s32 %r6, %r4, %r5;", [](auto a, auto b) { return low(a - b); });
  check32("mul.lo.s32 %r6, %r4, %r5;", [](auto a, auto b) { return low(a * b); });
  check32("mul.hi.s32 %r6, %r4, %r5;", [](auto a, auto b) {
    return low(static_cast<std::uint64_t>(std::int64_t{signed32(a)} * signed32(b)) >> 32);
  });
  check32("mul.hi.u32 %r6, %r4, %r5;",
          [](auto a, auto b) { return low((std::uint64_t{low(a)} * low(b)) >> 32); });
  check("mul.wide.s32 %rd6, %r4, %r5;", [](auto a, auto b) {
    return static_cast<std::uint64_t>(std::int64_t{signed32(a)} * signed32(b));
  });
  check("mul.hi.u64 %rd6, %rd4, %rd5;", [](auto a, auto b) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
  });
  check32("mad.lo.s32 %r6, %r4, %r5, %r4;", [](auto a, auto b) { return low(a * b + a); });
}

TEST(SimInteger, DividesShiftsAndCompares) {
  check32("div.u32 %r6, %r4, %r5;",
          [](auto a, auto b) { return low(b) == 0 ? 0xffffffffu : low(a) / low(b); });
  check32("rem.u32 %r6, %r4, %r5;",
          [](auto a, auto b) { return low(b) == 0 ? low(a) : low(a) % low(b); });
  check32("shl.b32 %r6, %r4, %r5;",
          [](auto a, auto b) { return low(b) > 31 ? 0 : low(a) << low(b); });
  check32("shr.s32 %r6, %r4, %r5;", [](auto a, auto b) {
    return static_cast<std::uint32_t>(signed32(a) >> std::min(low(b), 31u));
  });
  check32("min.s32 %r6, %r4, %r5;", [](auto a, auto b) {
    return static_cast<std::uint32_t>(std::min(signed32(a), signed32(b)));
  });
  check32("setp.lt.u32 %p1, %r4, %r5;\nselp.u32 %r6, 1, 0, %p1;",
          [](auto a, auto b) { return low(a) < low(b) ? 1 : 0; });
  check32("setp.ge.s32 %p1|%p2, %r4, %r5;\nselp.u32 %r6, 1, 0, %p2;",
          [](auto a, auto b) { return signed32(a) >= signed32(b) ? 0 : 1; });
}

TEST(SimInteger, Bits) {
  check32("popc.b64 %r6, %rd4;", [](auto a, auto) { return std::popcount(a); });
  check32("clz.b32 %r6, %r4;", [](auto a, auto) { return std::countl_zero(low(a)); });
  check32("prmt.b32 %r6, %r4, %r5, 0x2537;", [](auto a, auto b) {
    const std::uint64_t pool = std::uint64_t{low(b)} << 32 | low(a);
    std::uint32_t result = 0;
    const unsigned picks[] = {7, 3, 5, 2};
    for (unsigned i = 0; i < 4; ++i)
      result |= static_cast<std::uint32_t>(pool >> (8 * picks[i]) & 0xff) << (8 * i);
    return result;
  });
  check32("lop3.b32 %r6, %r4, %r5, %r4, 0x6a;", [](auto a, auto b) {
    std::uint32_t result = 0;  // 0x6a = (a & b) ^ c
    result = (low(a) & low(b)) ^ low(a);
    return result;
  });
  check32("shf.l.wrap.b32 %r6, %r4, %r5, 9;",
          [](auto a, auto b) { return low(b) << 9 | low(a) >> 23; });
  check32("bfe.u32 %r6, %r4, 5, 11;", [](auto a, auto) { return low(a) >> 5 & 0x7ff; });
  check32("bfe.s32 %r6, %r4, 5, 11;", [](auto a, auto) {
    return static_cast<std::uint32_t>(signed32(std::uint64_t{low(a)} << 16) >> 21);
  });
  check32("bfi.b32 %r6, %r4, %r5, 8, 4;",
          [](auto a, auto b) { return (low(b) & ~0xf00u) | (low(a) & 0xf) << 8; });
}

TEST(SimInteger, CarriesMakeWideSums) {
  check(
      "mov.b64 {%r10, %r11}, %rd4;\nmov.b64 {%r12, %r13}, %rd5;\nadd.cc.u32 %r14, %r10, %r12;\n"
      "addc.u32 %r15, %r11, %r13;\nmov.b64 %rd6, {%r14, %r15};",
      [](auto a, auto b) { return a + b; });
  check(
      "mov.b64 {%r10, %r11}, %rd4;\nmov.b64 {%r12, %r13}, %rd5;\nsub.cc.u32 %r14, %r10, %r12;\n"
      "subc.u32 %r15, %r11, %r13;\nmov.b64 %rd6, {%r14, %r15};",
      [](auto a, auto b) { return a - b; });
}

float rounded(int mode, const std::function<float()>& compute) {
  std::fesetround(mode);
  volatile float result = compute();
  std::fesetround(FE_TONEAREST);
  return result;
}

TEST(SimFloat, RoundsAsAsked) {
  check_float("add.rn.f32 %f6, %f4, %f5;",
              [](auto a, auto b) { return bits(as_float(a) + as_float(b)); });
  check_float("fma.rn.f32 %f6, %f4, %f5, %f4;",
              [](auto a, auto b) { return bits(std::fma(as_float(a), as_float(b), as_float(a))); });
  const std::pair<const char*, int> modes[] = {
      {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  for (const auto& [name, mode] : modes) {
    check_float(std::string("mul.") + name + ".f32 %f6, %f4, %f5;", [mode = mode](auto a, auto b) {
      volatile float x = as_float(a);
      volatile float y = as_float(b);
      return bits(rounded(mode, [&] { return x * y; }));
    });
    check_float(std::string("div.") + name + ".f32 %f6, %f4, %f5;", [mode = mode](auto a, auto b) {
      volatile float x = as_float(a);
      volatile float y = as_float(b);
      return bits(rounded(mode, [&] { return x / y; }));
    });
  }
  check_float("mul.ftz.f32 %f6, %f4, %f5;", [](auto a, auto b) {
    const auto flush = [](float x) {
      return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
    };
    return bits(flush(flush(as_float(a)) * flush(as_float(b))));
  });
  check_float("min.f32 %f6, %f4, %f5;", [](auto a, auto b) {
    const float x = as_float(a), y = as_float(b);
    if (x != x) return bits(y);
    if (y != y) return bits(x);
    return bits(x < y || (x == y && std::signbit(x)) ? x : y);
  });
}

TEST(SimConvert, FloatsToIntegers) {
  check32("cvt.rzi.s32.f32 %r6, %f4;", [](auto a, auto) -> std::uint64_t {
    const float x = as_float(a);
    if (x != x) return 0;
    if (x >= 0x1p31f) return 0x7fffffff;
    if (x <= -0x1p31f) return 0x80000000;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(x));
  });
  check("cvt.rni.u64.f32 %rd6, %f4;", [](auto a, auto) -> std::uint64_t {
    const float x = std::nearbyint(as_float(a));
    if (x != x) return std::uint64_t{1} << 63;
    if (x <= 0) return 0;
    if (x >= 0x1p64f) return ~std::uint64_t{0};
    return static_cast<std::uint64_t>(x);
  });
  check_float("cvt.rn.f32.s64 %f6, %rd4;",
              [](auto a, auto) { return bits(static_cast<float>(static_cast<std::int64_t>(a))); });
  check32("cvt.sat.s8.s32 %r6, %r4;", [](auto a, auto) {
    return static_cast<std::uint32_t>(std::min(std::max(signed32(a), -128), 127));
  });
}

TEST(SimConvert, HalvesAgreeWithTheExactRounding) {
  check32("cvt.rn.f16.f32 %h6, %f4;\ncvt.u32.u16 %r6, %h6;", [](auto a, auto) {
    return round_to(kFormatF16, as_float(a), Rounding::kNearestEven, false);
  });
  check32("cvt.rn.bf16.f32 %h6, %f4;\ncvt.u32.u16 %r6, %h6;", [](auto a, auto) {
    return round_to(kFormatBf16, as_float(a), Rounding::kNearestEven, false);
  });
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const float wide = float_of_half(static_cast<std::uint16_t>(half));
    const double exact = value_of(kFormatF16, half);
    if (exact != exact) {
      ASSERT_TRUE(wide != wide);
    } else {
      ASSERT_EQ(static_cast<double>(wide), exact) << half;
      ASSERT_EQ(half_of_float(wide), half);
    }
  }
}

TEST(SimConvert, Float8) {
  check32("cvt.rn.satfinite.e4m3x2.f32 %h6, %f4, %f5;\ncvt.u32.u16 %r6, %h6;", [](auto a, auto b) {
    return round_to(kFormatE4m3, as_float(a), Rounding::kNearestEven, true) << 8 |
           round_to(kFormatE4m3, as_float(b), Rounding::kNearestEven, true);
  });
  EXPECT_EQ(round_to(kFormatE4m3, 448.0, Rounding::kNearestEven, true), 0x7eu);
  EXPECT_EQ(round_to(kFormatE4m3, 1e9, Rounding::kNearestEven, true), 0x7eu);
  EXPECT_EQ(round_to(kFormatE4m3, 0x1p-9, Rounding::kNearestEven, true), 0x01u);
  EXPECT_EQ(round_to(kFormatE4m3, 0x1p-10, Rounding::kNearestEven, true), 0x00u);
  EXPECT_EQ(round_to(kFormatE5m2, 57344.0, Rounding::kNearestEven, true), 0x7bu);
  EXPECT_EQ(round_to(kFormatE5m2, -1.0, Rounding::kNearestEven, true), 0xbcu);
}

}  // namespace
}  // namespace gpk::sim

#include "jit/ptx_names.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.h"

namespace gpk::jit {
namespace {

std::string restored(const std::string& ptx) { return restore_names(code_names(ptx)); }

constexpr const char* kKernel = R"(.version 7.0
.target sm_80
.func (.param .b32 out) helper(.param .b32 in)
{
  .reg .b32 %r<7>;
  add.s32 %r6, %r5, %r6;
}
.weak .entry kernel(.param .u64 p)
{
  .reg .pred %p<3>;
  .reg .b32 %r<40>;
  .reg .b64 %rd<9>;

  mov.u32 %r36, %tid.x;
  mov.u64 %rd8, %clock64;
$L__BB1_7:
  {
  .reg .pred p;
  setp.ne.b32 p, %r36, %envreg3;
  @p bra $L__BB1_9;
  }
  ld.global.v2.u32 {%r1, %r39}, [%rd8+-68];
  setp.eq.s32 %p2, %r39, %r36;
  @%p2 bra $L__BB1_7;
$L__BB1_9:
  mov.b32 %f3, %r1;
})";

constexpr const char* kRestored = R"(.version 7.0
.target sm_80
.func (.param .b32 out) helper(.param .b32 in)
{
  .reg .b32 %r<7>;
  add.s32 %r0, %r1, %r0;
}
.weak .entry kernel(.param .u64 p)
{
  .reg .pred %p<3>;
  .reg .b32 %r<40>;
  .reg .b64 %rd<9>;

  mov.u32 %r0, %tid.x;
  mov.u64 %rd0, %clock64;
$L__BB0_0:
  {
  .reg .pred p;
  setp.ne.b32 p, %r0, %envreg3;
  @p bra $L__BB0_1;
  }
  ld.global.v2.u32 {%r1, %r2}, [%rd0+-68];
  setp.eq.s32 %p0, %r2, %r0;
  @%p0 bra $L__BB0_0;
$L__BB0_1:
  mov.b32 %f3, %r1;
})";

// %f has no declaration and stays, as the special registers do.
TEST(PtxNames, AreNumberedInOrderOfAppearance) {
  EXPECT_EQ(restored(kKernel), kRestored);
  EXPECT_EQ(restored(kRestored), kRestored);
  EXPECT_EQ(code_names(kKernel), code_names(kRestored));
}

TEST(PtxNames, TextWithoutNamesStays) {
  for (const std::string text : {"", "%", "$", "a % b", "100%", "$L__B", ".visible .entry k()",
                                 "%r5, %r7", "// %", "mov.u32 %r, %tid.x;\n%"}) {
    EXPECT_EQ(code_names(text), text);
    EXPECT_EQ(restore_names(text), text);
  }
}

// Any distance between two uses, with random classes and labels.
TEST(PtxNames, ManyNames) {
  std::mt19937 random(5);
  std::string text = ".visible .entry k()\n.reg .b32 %r<2000>;\n.reg .b64 %rd<2000>;\n";
  for (int i = 0; i < 2000; ++i) text += " %r" + std::to_string(i) + ", %rd" + std::to_string(i);
  for (int i = 0; i < 20000; ++i) {
    const std::string number = std::to_string(random() % 2000);
    text += random() % 2 == 0 ? " %r" + number + "\n" : " %rd" + number + ":";
  }
  EXPECT_EQ(restored(text), text);
}

TEST(PtxNames, BytesOfCodesAreRefused) {
  EXPECT_THROW(code_names("%\x01r"), Error);
  EXPECT_THROW(code_names("$\n"), Error);
  EXPECT_THROW(code_names("%\xff"), Error);
}

TEST(PtxNames, BadCodesThrow) {
  EXPECT_EQ(restore_names("%\x01r %\x03r"), "%r0 %r0");
  const std::string far_code("%\x01r %\x02");
  EXPECT_EQ(restore_names(far_code + "0:r"), "%r0 %r0");
  for (const std::string& bad : {std::string("%\x03r"), std::string("$\x03"), far_code + "1:r",
                                 far_code + "0", far_code + ":r", far_code + "9999999999:r",
                                 std::string("%\x01r %\x04r"), std::string("%\x01r %\x03rd")}) {
    EXPECT_THROW(restore_names(bad), Error) << bad;
  }
}

TEST(PtxNames, RandomInputNeverCrashes) {
  std::mt19937 random(7);
  constexpr std::string_view kBytes = "%%$\x01\x02\x03\x20\x80rd0:.\nL__BB<";
  for (int i = 0; i < 3000; ++i) {
    std::string noise;
    for (unsigned n = random() % 60; n > 0; --n) noise += kBytes[random() % kBytes.size()];
    try {
      (void)restore_names(noise);
    } catch (const Error&) {
    }
    try {
      const std::string once = restored(noise);
      EXPECT_EQ(restored(once), once);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace gpk::jit

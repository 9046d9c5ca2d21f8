// PTX programs that between them use every kind of statement, and mutants of them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "sim_harness.h"

namespace gpk::sim::test {

inline std::vector<std::string> mutant_seeds() {
  std::vector<std::string> seeds;
  seeds.push_back(lane_kernel(R"(ld.global.u64 %rd4, [%rd1];
cvt.u32.u64 %r4, %rd4;
mad.lo.s32 %r5, %r4, 3, %r1;
mul.wide.s32 %rd5, %r5, %r4;
bfe.u32 %r6, %r5, 3, 9;
lop3.b32 %r7, %r4, %r5, %r6, 0x96;
prmt.b32 %r8, %r7, %r6, 0x5410;
shf.l.wrap.b32 %r9, %r7, %r8, 7;
dp4a.u32.s32 %r10, %r9, %r8, %r7;
cvt.rn.f32.s32 %f4, %r10;
fma.rn.ftz.sat.f32 %f5, %f4, 0f3f000000, %f4;
div.rz.f32 %f6, %f5, %f4;
cvt.rn.f16x2.f32 %r11, %f5, %f6;
mov.b32 {%h1, %h2}, %r11;
setp.lt.and.f32 %p1|%p2, %f4, %f5, !%p3;
@!%p1 add.cc.u32 %r12, %r11, %r10;
addc.u32 %r13, %r12, 0;
selp.b32 %r14, %r13, %r12, %p2;
cvt.u64.u32 %rd6, %r14;
mov.b64 %rd7, {%r13, %r14};
st.global.v2.u32 [%rd2], {%r13, %r14};)"));
  seeds.push_back(lane_kernel(R"(and.b32 %r4, %r1, 3;
mov.u32 %r5, 0;
ts: .branchtargets A, B, C, A;
brx.idx %r4, ts;
A: add.u32 %r5, %r5, 1;
setp.lt.u32 %p1, %r5, 10;
@%p1 bra A;
bra.uni D;
B: add.u32 %r5, %r5, 100;
C: shl.b32 %r5, %r5, 1;
D:
{ .reg .b32 %t<4>;
  mov.u32 %t1, %laneid;
  shfl.sync.bfly.b32 %t2|%p2, %r5, 1, 31, 0xffffffff;
  vote.sync.ballot.b32 %t3, %p2, 0xffffffff;
  xor.b32 %r5, %t2, %t3; }
match.any.sync.b32 %r6, %r5, 0xffffffff;
redux.sync.add.s32 %r7, %r6, 0xffffffff;
activemask.b32 %r8;
elect.sync %r9|%p3, 0xffffffff;
st.global.u32 [%rd2], %r7;)"));
  seeds.push_back(lane_kernel(
      R"(mov.u32 %r2, buffer;
shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3;
st.shared.u32 [%r4], %r1;
bar.sync 0, 64;
ld.shared.u32 %r5, [%r4+4];
atom.shared.add.u32 %r6, [%r2], 1;
red.shared.max.s32 [%r2+8], %r6;
bar.red.popc.u32 %r7, 0, %p1;
cp.async.ca.shared.global [%r4], [%rd1], 4;
cp.async.commit_group;
cp.async.wait_group 0;
mov.u64 %rd4, table;
cvta.const.u64 %rd4, %rd4;
ld.v2.u32 {%r8, %r9}, [%rd4+8];
ld.const.u8 %h1, [table+3];
st.local.u32 [stack+4], %r8;
ld.local.u32 %r10, [stack+4];
membar.gl;
st.global.u32 [%rd2], %r10;)",
      ".const .align 8 .u32 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
      ".shared .align 16 .b8 buffer[1024];\n"));
  const std::size_t brace = seeds.back().find("{\n.reg");
  seeds.back().insert(brace + 2, ".local .align 8 .b8 stack[64];\n");
  seeds.push_back(lane_kernel(
      R"(mov.u32 %r2, tile;
mov.u32 %r3, bar;
shl.b32 %r4, %r1, 4;
and.b32 %r4, %r4, 511;
add.u32 %r5, %r2, %r4;
st.shared.v4.u32 [%r5], {%r1, %r2, %r3, %r4};
setp.ne.u32 %p1, %r1, 0;
@%p1 bra WAIT;
mbarrier.init.shared::cta.b64 [%r3], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 512, [%r3];
WAIT: bar.sync 0;
LOOP: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra LOOP;
ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r5];
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, {%r10, %r11}, {%f1, %f2, %f3, %f4};
mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r14, %r15, %r16, %r17}, {%r10, %r11, %r12, %r13}, {%r10, %r11}, {%r14, %r15, %r16, %r17};
stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r5], {%r14, %r15};
cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;
st.global.f32 [%rd2], %f1;)",
      ".shared .align 128 .b8 tile[1024];\n.shared .align 8 .b64 bar;\n"));
  seeds.push_back(header() + R"(
.global .align 8 .u64 pointers[2] = {twice, thrice};
.func (.param .b32 result) twice(.param .b32 x)
{ .reg .b32 %r<4>; ld.param.u32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
.func (.param .b32 result) thrice(.param .b32 x)
{ .reg .b32 %r<4>; .reg .pred %p; ld.param.u32 %r1, [x]; setp.eq.u32 %p, %r1, 0; @%p bra END;
  sub.u32 %r1, %r1, 1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), thrice, (a); ld.param.b32 %r2, [b]; }
  END: add.u32 %r2, %r2, 3; st.param.b32 [result], %r2; ret; }
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 1;
  mul.wide.u32 %rd1, %r2, 8;
  mov.u64 %rd2, pointers;
  add.u64 %rd2, %rd2, %rd1;
  ld.global.u64 %rd3, [%rd2];
  proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  { .param .b32 a; .param .b32 b; and.b32 %r3, %r1, 7; st.param.b32 [a], %r3; call (b), %rd3, (a), proto; ld.param.b32 %r4, [b]; }
  ld.param.u64 %rd4, [out];
  mul.wide.u32 %rd5, %r1, 4;
  add.u64 %rd4, %rd4, %rd5;
  atom.global.cas.b32 %r5, [%rd4], 0, %r4;
  exit;
}
)");
  return seeds;
}

// A copy of a seed with one to four changes: bytes, words, lines.
inline std::string mutant(const std::vector<std::string>& seeds, unsigned index) {
  std::mt19937 random(index + 1);
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  static const char* const kWords[] = {"%r1",
                                       "%rd1",
                                       "%f1",
                                       "%p1",
                                       "%h1",
                                       "%laneid",
                                       "%clock64",
                                       "0",
                                       "-1",
                                       "31",
                                       "4294967295",
                                       "0x7fffffffffffffff",
                                       "1e308",
                                       "0f7fc00000",
                                       "0d0",
                                       "_",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       ";",
                                       ",",
                                       "@",
                                       "!",
                                       ".u8",
                                       ".s64",
                                       ".f16x2",
                                       ".bf16",
                                       ".v4",
                                       ".v8",
                                       ".b128",
                                       ".global",
                                       ".shared",
                                       ".local",
                                       ".param",
                                       ".const",
                                       ".sat",
                                       ".rz",
                                       ".reg",
                                       ".entry",
                                       ".func",
                                       ".align",
                                       "<9>",
                                       "ret;",
                                       "exit;",
                                       "bar.sync 0;",
                                       "trap;",
                                       "bra A;",
                                       "\"",
                                       "/*",
                                       "//",
                                       ".loc 1 2 3",
                                       "call",
                                       "%envreg0",
                                       "setp",
                                       "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
                                       "%r63",
                                       "18446744073709551616",
                                       ".target sm_10",
                                       "\x7f",
                                       "%ctaid.x",
                                       "mad",
                                       "stack",
                                       "k",
                                       "in"};
  std::string text = seeds[below(seeds.size())];
  // Positions of tokens, so that a mutant is often still a sentence.
  const auto token = [&]() -> std::pair<std::size_t, std::size_t> {
    std::size_t at = below(text.size());
    static const std::string kBetween = " ,;\n\t()[]{}|";
    while (at < text.size() && kBetween.find(text[at]) != std::string::npos) ++at;
    std::size_t begin = at;
    while (begin > 0 && kBetween.find(text[begin - 1]) == std::string::npos) --begin;
    std::size_t end = at;
    while (end < text.size() && kBetween.find(text[end]) == std::string::npos) ++end;
    return {begin, end - begin};
  };
  const auto line = [&]() -> std::pair<std::size_t, std::size_t> {
    const std::size_t at = below(text.size());
    const std::size_t begin = text.rfind('\n', at) + 1;
    const std::size_t end = text.find('\n', at);
    return {begin, begin > at ? 0 : (end == std::string::npos ? text.size() : end + 1) - begin};
  };
  for (unsigned changes = 1 + below(4); changes > 0 && !text.empty(); --changes) {
    const auto [at, size] = token();
    switch (below(10)) {
      case 0: text[below(text.size())] = static_cast<char>(below(256)); break;
      case 1: text.erase(below(text.size()), 1 + below(8)); break;
      case 2:
      case 3: text.replace(at, size, kWords[below(std::size(kWords))]); break;
      case 4: text.insert(at, std::string(kWords[below(std::size(kWords))]) + " "); break;
      case 5: {  // one token becomes another of the program
        const auto [from, length] = token();
        const std::string word = text.substr(from, length);
        text.replace(at, size, word);
        break;
      }
      case 6: {
        const auto [from, length] = line();
        text.erase(from, length);
        break;
      }
      case 7: {
        const auto [from, length] = line();
        const std::string copy = text.substr(from, length);
        text.insert(line().first, copy);
        break;
      }
      case 8: {  // a digit
        std::size_t digit = below(text.size());
        while (digit < text.size() && (text[digit] < '0' || text[digit] > '9')) ++digit;
        if (digit < text.size()) text[digit] = static_cast<char>('0' + below(10));
        break;
      }
      default: text.resize(below(4) == 0 ? below(text.size()) : text.size()); break;
    }
  }
  return text;
}

}  // namespace gpk::sim::test

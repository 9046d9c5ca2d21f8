#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "jit/bundle.h"
#include "jit/compress.h"

namespace gpk::jit {
namespace {

std::string random_bytes(std::size_t size, int alphabet, unsigned seed) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random() % static_cast<unsigned>(alphabet));
  return out;
}

std::string ptx_like(int num_kernels) {
  std::string out;
  for (int i = 0; i < num_kernels; ++i) {
    out += ".visible .entry kernel_" + std::to_string(i) + "(.param .u64 p0, .param .u32 p1) {\n";
    for (int k = 0; k < 40; ++k) {
      out += "\tadd.f32 %f" + std::to_string(k) + ", %f" + std::to_string(k + i) + ", %f1;\n";
    }
    out += "\tret;\n}\n";
  }
  return out;
}

TEST(Compress, RoundTrips) {
  std::vector<std::string> cases{
      "", "a", "ab", "aaaaaa", "abcabcabcabcabcabc", std::string(1000000, 'x'), ptx_like(200)};
  for (const std::size_t size : {1u, 5u, 6u, 7u, 127u, 128u, 129u, 4099u, 300000u}) {
    for (const int alphabet : {1, 2, 4, 256}) {
      cases.push_back(random_bytes(size, alphabet, static_cast<unsigned>(size)));
    }
  }
  // A match farther away than 64 KiB.
  cases.push_back(cases[6] + random_bytes(200000, 256, 9) + cases[6]);
  for (const std::string& text : cases) EXPECT_EQ(decompress(compress(text)), text) << text.size();
}

TEST(Compress, RepetitiveTextGetsSmall) {
  const std::string text = ptx_like(500);
  EXPECT_LT(compress(text).size() * 4, text.size());
  EXPECT_LT(compress(std::string(1000000, 'x')).size(), 64u);
  // Noise may grow, but by next to nothing.
  EXPECT_LT(compress(random_bytes(100000, 256, 1)).size(), 100100u);
}

// Instantiations differ from each other in a number here and there: between two numbers the text is
// found at one distance, which is written once.
TEST(Compress, TextThatDiffersInPlacesIsMatchesOfOneDistance) {
  const std::string kernel = random_bytes(20000, 256, 3);
  std::string other = kernel;
  int num_changes = 0;
  for (std::size_t at = 50; at < other.size(); at += 50, ++num_changes) other[at] ^= 1;
  const std::string packed = compress(kernel + other);
  EXPECT_EQ(decompress(packed), kernel + other);
  // A change is a head with the rest of a length, a literal and a distance of one byte.
  EXPECT_LT(packed.size(),
            compress(kernel).size() + static_cast<std::size_t>(num_changes) * 4 + 32);
}

TEST(Compress, DistanceOfNoMatchBeforeThrows) {
  const std::string header = compress("aaaaaaa").substr(0, 9);  // size and hash
  // A literal and a match, then another match; the second is at the distance before.
  const std::string heads_and_literals("\x02\x10\x00\x01\x61", 5);
  EXPECT_EQ(decompress(header + heads_and_literals + std::string("\x01\x00", 2)), "aaaaaaa");
  try {
    (void)decompress(header + heads_and_literals + std::string("\x00\x01", 2));
    FAIL() << "there is no match before the first";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "jit: packed data contains a bad match");
  }
}

TEST(Compress, CorruptInputThrows) {
  const std::string text = ptx_like(3);
  const std::string packed = compress(text);
  for (std::size_t length = 0; length < packed.size(); ++length) {
    EXPECT_THROW(decompress(packed.substr(0, length)), Error) << length;
  }
  for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
    std::string bad = packed;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    // Some flips only name another place with the same text.
    try {
      EXPECT_EQ(decompress(bad, 1 << 20), text) << bit;
    } catch (const Error&) {
    }
  }
  EXPECT_THROW(decompress(packed + "x"), Error);
  EXPECT_THROW(decompress(packed, text.size() - 1), Error);
}

TEST(Compress, RandomInputNeverCrashes) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::string noise = random_bytes(1 + seed % 200, seed % 2 == 0 ? 256 : 8, seed);
    try {
      (void)decompress(noise, 1 << 16);
    } catch (const Error&) {
    }
  }
}

BundleEntry entry(std::string expression, int sm, bool exact, std::string ptx) {
  return {"nn/a.cuh", std::move(expression), "symbol", sm, exact, std::move(ptx)};
}

class BundleTest : public ::testing::Test {
 protected:
  void TearDown() override { set_bundle({}); }
};

TEST_F(BundleTest, EmptyByDefault) {
  EXPECT_FALSE(find_in_bundle("nn/a.cuh", "f<float>", 90));
  EXPECT_EQ(bundle_info().num_entries, 0u);
  EXPECT_TRUE(unpack_bundle(pack_bundle({}, 13, 0)).empty());
}

TEST_F(BundleTest, PicksTheBestTarget) {
  const std::string packed = pack_bundle(
      {entry("f", 80, false, "ptx80"), entry("f", 90, true, "a90"), entry("f", 89, false, "ptx89"),
       entry("f", 90, false, "ptx90"), entry("g", 90, true, "g90")},
      13, 4);
  set_bundle(packed);
  const auto ptx = [](const char* expression, int sm) {
    const auto found = find_in_bundle("nn/a.cuh", expression, sm);
    return found ? found->ptx : std::string("none");
  };
  EXPECT_EQ(ptx("f", 75), "none");
  EXPECT_EQ(ptx("f", 80), "ptx80");
  EXPECT_EQ(ptx("f", 86), "ptx80");
  EXPECT_EQ(ptx("f", 89), "ptx89");
  EXPECT_EQ(ptx("f", 90), "a90");
  EXPECT_EQ(ptx("f", 120), "ptx90");
  EXPECT_EQ(ptx("g", 90), "g90");
  EXPECT_EQ(ptx("g", 100), "none");
  EXPECT_EQ(ptx("h", 90), "none");
  EXPECT_EQ(bundle_info().num_entries, 5u);
  EXPECT_EQ(bundle_info().nvrtc_minor, 4);
  EXPECT_EQ(bundle_info().compressed_bytes, packed.size());
}

TEST_F(BundleTest, RoundTripsAndSharesEqualText) {
  std::vector<BundleEntry> entries;
  for (int i = 0; i < 50; ++i) {
    entries.push_back(entry("f" + std::to_string(i), 80, false, ptx_like(20)));
  }
  const std::string packed = pack_bundle(entries, 13, 0);
  const std::vector<BundleEntry> back = unpack_bundle(packed);
  ASSERT_EQ(back.size(), 50u);
  for (const BundleEntry& e : back) EXPECT_EQ(e.ptx, entries[0].ptx);
  EXPECT_LT(packed.size(), 10000u);
  EXPECT_EQ(packed, pack_bundle(back, 13, 0));
}

TEST_F(BundleTest, CorruptBytesThrow) {
  const std::string packed = pack_bundle({entry("f", 80, false, ptx_like(2))}, 13, 0);
  for (std::size_t length = 1; length < packed.size(); ++length) {
    EXPECT_THROW(unpack_bundle(packed.substr(0, length)), Error) << length;
  }
  EXPECT_THROW(unpack_bundle(packed + "x"), Error);
}

TEST_F(BundleTest, AnotherSchemaIsRefusedUntilTheBundleIsDropped) {
  std::string packed = pack_bundle({entry("f", 80, false, "ptx")}, 13, 0);
  packed[8] = 2;  // after the magic
  const auto message = [](const auto& use) {
    try {
      use();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const std::string refused = "jit: the bundled PTX has schema 2, expected 4";
  EXPECT_EQ(message([&] { unpack_bundle(packed); }), refused);
  set_bundle(packed);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(message([] { (void)find_in_bundle("nn/a.cuh", "f", 80); }), refused);
    EXPECT_EQ(message([] { (void)bundle_info(); }), refused);
  }
  set_bundle({});  // what remains is NVRTC
  EXPECT_FALSE(in_bundle("nn/a.cuh", "f", 80));
  packed[0] = 'X';
  EXPECT_EQ(message([&] { unpack_bundle(packed); }), "jit: the bundled PTX has another format");
}

TEST_F(BundleTest, ManyThreads) {
  const std::string packed = pack_bundle({entry("f", 80, false, ptx_like(30))}, 13, 0);
  set_bundle(packed);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 50; ++k) EXPECT_TRUE(find_in_bundle("nn/a.cuh", "f", 90));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gpk::jit

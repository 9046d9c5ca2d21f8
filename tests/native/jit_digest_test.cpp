#include <gtest/gtest.h>

#include <string>

#include "jit/digest.h"

namespace gpk::jit {
namespace {

// FIPS 180-4 / NIST CAVP vectors.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                       "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSameAsOneUpdate) {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 7));
  for (std::size_t step = 1; step < 130; ++step) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += step) {
      hash.update(std::string_view(text).substr(at, step));
    }
    EXPECT_EQ(to_hex(hash.finish()), sha256_hex(text)) << step;
  }
}

TEST(FieldDigest, FieldsDoNotRunTogether) {
  const auto key = [](std::initializer_list<std::pair<const char*, const char*>> fields) {
    FieldDigest builder;
    for (const auto& [label, value] : fields) builder.field(label, value);
    return builder.hex();
  };
  EXPECT_EQ(key({{"a", "b"}}), key({{"a", "b"}}));
  EXPECT_EQ(key({{"a", "b"}}).size(), 64u);
  EXPECT_NE(key({{"ab", "c"}}), key({{"a", "bc"}}));
  EXPECT_NE(key({{"a", "b"}, {"c", ""}}), key({{"a", "bc"}}));
  EXPECT_NE(key({{"a", "1"}, {"b", "2"}}), key({{"b", "2"}, {"a", "1"}}));
  EXPECT_NE(key({{"a", ""}}), key({{"a", ""}, {"a", ""}}));
}

}  // namespace
}  // namespace gpk::jit

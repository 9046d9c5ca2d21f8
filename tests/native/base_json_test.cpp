#include "base/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "base/error.h"
#include "expect.h"

namespace gpk {
namespace {

Json parse(const std::string& text) { return parse_json(text, "test"); }

std::string error_of(const std::string& text) {
  std::string message;
  EXPECT_EQ(kind_of([&] { parse(text); }, &message), Error::Kind::kValue) << text;
  return message;
}

TEST(Json, Values) {
  const Json json =
      parse(R"( {"a": [1, -2.5, true, false, null, "x"], "b": {}, "c": [], "d": 1e3, "": 0} )");
  ASSERT_NE(json.members(), nullptr);
  EXPECT_EQ(json.members()->size(), 5u);
  EXPECT_EQ(json.members()->front().first, "a");
  const Json::Items& items = *json.find("a")->items();
  EXPECT_EQ(items[0].integer(), 1);
  EXPECT_EQ(items[0].number(), 1.0);
  EXPECT_EQ(items[1].number(), -2.5);
  EXPECT_EQ(items[1].integer(), std::nullopt);
  EXPECT_EQ(items[2].boolean(), true);
  EXPECT_EQ(items[3].boolean(), false);
  EXPECT_TRUE(items[4].is_null());
  EXPECT_EQ(*items[5].string(), "x");
  EXPECT_TRUE(json.find("b")->members()->empty());
  EXPECT_TRUE(json.find("c")->items()->empty());
  EXPECT_EQ(json.find("d")->number(), 1000.0);
  EXPECT_EQ(json.find("")->integer(), 0);
  EXPECT_EQ(json.find("e"), nullptr);
  EXPECT_EQ(items[0].find("a"), nullptr);
  EXPECT_EQ(items[0].string(), nullptr);
}

TEST(Json, IntegersAreExactTo64Bits) {
  EXPECT_EQ(parse("-9223372036854775808").integer(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse("9223372036854775807").unsigned_integer(), 9223372036854775807u);
  EXPECT_EQ(parse("9223372036854775808").integer(), std::nullopt);
  EXPECT_EQ(parse("18446744073709551615").unsigned_integer(),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse("18446744073709551616").unsigned_integer(), std::nullopt);
  EXPECT_EQ(parse("18446744073709551616").number(), 18446744073709551616.0);
  EXPECT_EQ(parse("-1").unsigned_integer(), std::nullopt);
  EXPECT_EQ(parse("-0").integer(), 0);
  EXPECT_EQ(parse("1.0").integer(), std::nullopt);
}

TEST(Json, Strings) {
  EXPECT_EQ(*parse(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00")").string(),
            "\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(*parse("\"\xF0\x9F\x98\x80\"").string(), "\xF0\x9F\x98\x80");
  const std::string with_zero = *parse(R"("a\u0000b")").string();
  EXPECT_EQ(with_zero, std::string("a\0b", 3));
}

TEST(Json, WhatIsNotJsonIsRefused) {
  const std::string bad[] = {"",
                             " ",
                             "{",
                             "[1,]",
                             "[1 2]",
                             "{\"a\":1,}",
                             "{a:1}",
                             "{\"a\" 1}",
                             "{\"a\":}",
                             "01",
                             "-",
                             "+1",
                             "1.",
                             ".5",
                             "1e",
                             "1e+",
                             "tru",
                             "nul",
                             "NaN",
                             "Infinity",
                             "'a'",
                             "\"a",
                             "\"\\x\"",
                             "\"\\u12\"",
                             "\"\\u12g4\"",
                             "\"\\ud800\"",
                             "\"\\ud800\\u0041\"",
                             "\"\\udc00\"",
                             "\"\t\"",
                             "1 2",
                             "[1]]",
                             "\"\xFF\"",
                             "\"\xC0\x80\"",
                             "\"\xED\xA0\x80\"",
                             "\xEF\xBB\xBF{}",
                             "1e400",
                             "{\"a\":1,\"a\":2}",
                             std::string("1\0", 2),
                             "// c\n1"};
  for (const std::string& text : bad)
    EXPECT_TRUE(error_of(text).starts_with("test: line ")) << text;
}

TEST(Json, ErrorsNameTheirPlace) {
  EXPECT_EQ(error_of("{\n  \"a\": x}"), "test: line 2, column 8: expected a value");
  EXPECT_EQ(error_of("{\"a\": 1, \"\\u0061\": 2}"),
            "test: line 1, column 22: the name \"a\" occurs twice");
  EXPECT_EQ(error_of("[1"), "test: line 1, column 3: the text ends, expected ']'");
}

TEST(Json, Limits) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_NO_THROW(parse(nested(65)));
  EXPECT_EQ(error_of(nested(66)), "test: line 1, column 66: nested more than 64 deep");
  EXPECT_EQ(error_of(std::string(1 << 20, '[')),
            "test: line 1, column 66: nested more than 64 deep");
  EXPECT_EQ(kind_of([] { parse_json("[1, 2, 3]", "test", {.max_values = 3}); }),
            Error::Kind::kValue);
  EXPECT_NO_THROW(parse_json("[1, 2, 3]", "test", {.max_values = 4}));
}

}  // namespace
}  // namespace gpk

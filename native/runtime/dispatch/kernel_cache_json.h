// A small JSON reader, for the index of the persistent cache.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpk::runtime {

struct JsonValue {
  enum class Kind { kNull, kBool, kInteger, kReal, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0.0;
  std::string text;
  std::vector<JsonValue> items;
  std::map<std::string, JsonValue, std::less<>> members;

  // A member of an object; nullptr when there is none or this is no object.
  [[nodiscard]] const JsonValue* find(std::string_view name) const;
};

// Nothing when `text` is not one JSON value (or is nested more than 64 deep). Never throws for bad
// text.
[[nodiscard]] std::optional<JsonValue> parse_json(std::string_view text);

}  // namespace gpk::runtime
